"""Open-world measures; import all of them from here.

Those here read :class:`Decisions` (a class or "unknown" for each test sample). Those that read
:class:`Scores` (before any threshold) are in `score_measures`, the intervals in `intervals`.

N is the number of test samples of known classes, N' that of unknown classes, F(x) the decision, and
[ ] is 1 where its content holds, else 0. Every measure but the errors and `openness` is in [0, 1],
larger is better.
"""

from __future__ import annotations

import numpy as np

from openworld.evaluation.decisions import BoolArray, Decisions, IntArray
from openworld.evaluation.intervals import Interval, fold_interval
from openworld.evaluation.score_measures import (
    OSCRCurve,
    Scores,
    aupr,
    auroc,
    ccr_at_fpr,
    oscr_area,
    oscr_curve,
)

__all__ = [
    "Decisions",
    "Interval",
    "OSCRCurve",
    "Scores",
    "aupr",
    "auroc",
    "ccr_at_fpr",
    "closed_set_accuracy",
    "fold_interval",
    "forced_accuracy",
    "harmonic_accuracy",
    "known_recall",
    "multi_class_error",
    "normalized_accuracy",
    "open_set_f1_macro",
    "open_set_f1_micro",
    "open_world_error",
    "openness",
    "oscr_area",
    "oscr_curve",
    "pooled_accuracy",
    "unknown_rejection_rate",
]


def multi_class_error(decisions: Decisions) -> float:
    """Return the multi-class error: (1/N) sum_i [F(x_i) != y_i] over the known samples.

    A rejected known sample is an error.

    Raises
    ------
    ValueError
        If there are no known samples.
    """
    return _share(~decisions.known_correct, "known")


def open_world_error(decisions: Decisions) -> float:
    """Return the open-world error of Eq. 9, from 0 to 2.

    ``multi_class_error + (1/N') sum_j [F(x_j) != unknown]``, j over the N' unknown samples. (The paper
    prints the sum from N + 1 to N'; it means the N' samples after the N known ones.)

    Raises
    ------
    ValueError
        If there are no known or no unknown samples.
    """
    return multi_class_error(decisions) + _share(~decisions.unknown_rejected, "unknown")


def pooled_accuracy(decisions: Decisions) -> float:
    """Return the top-1 accuracy over known and unknown samples together, which the paper plots.

    ``(sum_i [F(x_i) = y_i] + sum_j [F(x_j) = unknown]) / (N + N')``. Without unknown samples it is
    `closed_set_accuracy`; for a classifier that never rejects it is `closed_set_accuracy` x N / (N + N').
    """
    n_right = np.count_nonzero(decisions.known_correct) + np.count_nonzero(decisions.unknown_rejected)
    return float(n_right / (decisions.known_true.size + decisions.unknown_pred.size))


def closed_set_accuracy(decisions: Decisions) -> float:
    """Return the accuracy on known samples with rejection: (1/N) sum_i [F(x_i) = y_i].

    A rejected known sample is wrong. `forced_accuracy` is the same without rejection.

    Raises
    ------
    ValueError
        If there are no known samples.
    """
    return _share(decisions.known_correct, "known")


def forced_accuracy(forced: Decisions) -> float:
    """Return the accuracy on known samples without rejection: (1/N) sum_i [F'(x_i) = y_i].

    Parameters
    ----------
    forced : Decisions
        Made of the forced predictions F', in which each known sample gets the class of its largest
        score, however small. Unknown samples are ignored.

    Raises
    ------
    ValueError
        If there are no known samples, or one of them was rejected.
    """
    if np.any(forced.known_rejected):
        raise ValueError("forced_accuracy needs forced predictions, but some known samples are rejected")
    return closed_set_accuracy(forced)


def unknown_rejection_rate(decisions: Decisions) -> float:
    """Return the share of unknown samples that were rejected: (1/N') sum_j [F(x_j) = unknown].

    Raises
    ------
    ValueError
        If there are no unknown samples.
    """
    return _share(decisions.unknown_rejected, "unknown")


def known_recall(decisions: Decisions) -> float:
    """Return the share of known samples that were accepted: (1/N) sum_i [F(x_i) != unknown].

    Accepted as any class, the right one or not.

    Raises
    ------
    ValueError
        If there are no known samples.
    """
    return _share(~decisions.known_rejected, "known")


def open_set_f1_micro(decisions: Decisions) -> float:
    """Return the micro-averaged open-set F1 over the known classes (Mendes Júnior et al. 2017).

    ``2 P R / (P + R)`` with ``P = sum_c TP_c / sum_c (TP_c + FP_c)`` and
    ``R = sum_c TP_c / sum_c (TP_c + FN_c)``. The sums run over the known classes only: unknown is not a
    class, so rejecting unknown samples earns nothing directly. An unknown sample accepted as c is a
    false positive of c; a rejected sample of c is a false negative of c. 0 if nothing is right.

    Raises
    ------
    ValueError
        If there are no known samples.

    References
    ----------
    P. R. Mendes Júnior et al., "Nearest neighbors distance ratio open-set classifier", Machine
    Learning 106, 2017.
    """
    true_positives, predicted, actual = _class_counts(decisions)
    return float(2 * true_positives.sum() / (predicted.sum() + actual.sum()))


def open_set_f1_macro(decisions: Decisions) -> float:
    """Return the macro-averaged open-set F1 over the known classes (Mendes Júnior et al. 2017).

    ``2 P R / (P + R)`` with P the mean over classes of ``TP_c / (TP_c + FP_c)`` and R that of
    ``TP_c / (TP_c + FN_c)``; counts as in `open_set_f1_micro`. 0 / 0 counts as 0, but a class that has
    no test sample and was never decided for is left out of both means. This is the F1 of the mean
    precision and recall, as published; scikit-learn's "macro" is the mean of the classes' F1.

    Raises
    ------
    ValueError
        If there are no known samples.
    """
    true_positives, predicted, actual = _class_counts(decisions)
    seen = (predicted + actual) > 0
    # Where the denominator is 0 the numerator is too, so 1 in its place makes the ratio 0.
    precision = float(np.mean(true_positives[seen] / np.maximum(predicted[seen], 1)))
    recall = float(np.mean(true_positives[seen] / np.maximum(actual[seen], 1)))
    return _harmonic_mean(precision, recall)


def normalized_accuracy(decisions: Decisions, known_weight: float = 0.5) -> float:
    """Return the normalized accuracy NA = λ AKS + (1 - λ) AUS (Mendes Júnior et al. 2017).

    AKS, the accuracy on known samples, is `closed_set_accuracy`; AUS, that on unknown samples, is
    `unknown_rejection_rate`. Unlike `pooled_accuracy` it does not depend on N / N'.

    Parameters
    ----------
    decisions : Decisions
    known_weight : float, default=0.5
        λ, in (0, 1). With 0.5, NA = 1 - open_world_error / 2.

    Raises
    ------
    ValueError
        If there are no known or no unknown samples, or `known_weight` is out of range.
    """
    if not 0.0 < known_weight < 1.0:
        raise ValueError(f"known_weight must be in (0, 1), got {known_weight}")
    known, unknown = closed_set_accuracy(decisions), unknown_rejection_rate(decisions)
    return known_weight * known + (1.0 - known_weight) * unknown


def harmonic_accuracy(decisions: Decisions) -> float:
    """Return the harmonic mean of known and unknown accuracy (OWR-H): 2 AKS AUS / (AKS + AUS).

    AKS and AUS as in `normalized_accuracy`; 0 when both are 0.

    Raises
    ------
    ValueError
        If there are no known or no unknown samples.
    """
    return _harmonic_mean(closed_set_accuracy(decisions), unknown_rejection_rate(decisions))


def openness(n_training_classes: int, n_test_classes: int) -> float:
    """Return the openness of a test: 1 - sqrt(2 C_train / (C_train + C_test)), in [0, 1).

    Scheirer et al. (2013) write 1 - sqrt(2 C_train / (C_target + C_test)) with C_target the number of
    classes to be recognized; here these are the training classes, C_target = C_train, so that openness
    is 0 when no unknown class is tested.

    Parameters
    ----------
    n_training_classes : int
        C_train, the number of known classes, at least 1.
    n_test_classes : int
        C_test, the number of *all* classes tested: known and unknown.

    Raises
    ------
    ValueError
        If `n_training_classes` < 1 or `n_test_classes` < `n_training_classes`.

    References
    ----------
    W. J. Scheirer et al., "Toward open set recognition", IEEE TPAMI 35(7), 2013.
    """
    if not 1 <= n_training_classes <= n_test_classes:
        raise ValueError(
            "need 1 <= n_training_classes <= n_test_classes (known and unknown together), got "
            f"{n_training_classes} and {n_test_classes}"
        )
    return float(1.0 - np.sqrt(2 * n_training_classes / (n_training_classes + n_test_classes)))


def _share(flags: BoolArray, kind: str) -> float:
    if flags.size == 0:
        raise ValueError(f"not defined without {kind} test samples")
    return float(np.count_nonzero(flags) / flags.size)


def _harmonic_mean(a: float, b: float) -> float:
    return 2.0 * a * b / (a + b) if a + b > 0.0 else 0.0


def _class_counts(decisions: Decisions) -> tuple[IntArray, IntArray, IntArray]:
    """Return TP, TP + FP and TP + FN of each known class, each of shape (n_classes,)."""
    if decisions.known_true.size == 0:
        raise ValueError("not defined without known test samples")

    def count(positions: IntArray) -> IntArray:
        return np.bincount(positions, minlength=decisions.n_classes)

    true_positives = count(decisions.known_true[decisions.known_correct])
    predicted = count(decisions.known_pred[~decisions.known_rejected]) + count(
        decisions.unknown_pred[~decisions.unknown_rejected]
    )
    return true_positives, predicted, count(decisions.known_true)
