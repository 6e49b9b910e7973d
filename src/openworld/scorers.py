"""Scorers for scikit-learn's model selection: `cross_val_score(..., scoring=scorers.neg_open_world_error)`.

A sample whose label the recognizer does not know counts as unknown, and rejecting it is correct. Use the
scorers with `openworld.model_selection.LeaveClassesOut`, which produces such samples. For all of them, larger
is better.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from openworld.evaluation import measures
from openworld.evaluation.measures import Decisions, Scores

__all__ = [
    "harmonic_accuracy",
    "known_accuracy",
    "neg_open_world_error",
    "oscr_area",
    "pooled_accuracy",
    "unknown_rejection",
]


def neg_open_world_error(estimator: Any, X: ArrayLike, y: ArrayLike) -> float:
    """Return minus the open-world error (Eq. 9), from -2 to 0."""
    return -measures.open_world_error(_decisions(estimator, X, y))


def pooled_accuracy(estimator: Any, X: ArrayLike, y: ArrayLike) -> float:
    """Return the share of correct answers among all samples, known and unknown."""
    return measures.pooled_accuracy(_decisions(estimator, X, y))


def harmonic_accuracy(estimator: Any, X: ArrayLike, y: ArrayLike) -> float:
    """Return the harmonic mean of `known_accuracy` and `unknown_rejection`."""
    return measures.harmonic_accuracy(_decisions(estimator, X, y))


def known_accuracy(estimator: Any, X: ArrayLike, y: ArrayLike) -> float:
    """Return the share of known samples that are classified correctly."""
    return measures.closed_set_accuracy(_decisions(estimator, X, y))


def unknown_rejection(estimator: Any, X: ArrayLike, y: ArrayLike) -> float:
    """Return the share of unknown samples that are rejected."""
    return measures.unknown_rejection_rate(_decisions(estimator, X, y))


def oscr_area(estimator: Any, X: ArrayLike, y: ArrayLike) -> float:
    """Return the area under the open-set classification rate curve, which does not depend on a threshold."""
    labels, decision = np.asarray(y), np.asarray(estimator.decision_function(X))
    best, named = decision.max(axis=1), np.asarray(estimator.classes_)[decision.argmax(axis=1)]
    known = np.isin(labels, estimator.classes_)
    return measures.oscr_area(Scores.of(best[known], best[~known], (named == labels)[known]))


def _decisions(estimator: Any, X: ArrayLike, y: ArrayLike) -> Decisions:
    return Decisions.of(y, estimator.predict(X), estimator.classes_, _unknown_label(estimator))


def _unknown_label(estimator: Any) -> Any:
    """Return the unknown label of a recognizer, or of the recognizer inside a pipeline or a search."""
    for inner in ("best_estimator_", "_final_estimator"):
        if hasattr(estimator, inner):
            return _unknown_label(getattr(estimator, inner))
    return estimator.unknown_label_
