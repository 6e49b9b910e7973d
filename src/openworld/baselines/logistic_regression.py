"""Logistic regression with a threshold on the largest logit or probability."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from openworld.baselines.base import Baseline, Scorer


class MaximumLogit(Baseline):
    """Multinomial logistic regression retrained on everything; the score is the logit of each class.

    Hendrycks et al., "Scaling out-of-distribution detection for real-world settings", 2022. Samples are
    scaled to unit length and standardized first, which was better on every data set tried.
    """

    def _train(self, X: NDArray[Any], codes: NDArray[np.intp], n_classes: int) -> Scorer:
        if n_classes == 1:
            return lambda samples: np.zeros((len(samples), 1))
        model = make_pipeline(Normalizer(), StandardScaler(), LogisticRegression(max_iter=200)).fit(X, codes)

        def logits(samples: NDArray[Any]) -> NDArray[np.float64]:
            scores = model.decision_function(samples)
            return np.column_stack([-scores, scores]) if n_classes == 2 else np.asarray(scores)

        return logits


class MaximumProbability(MaximumLogit):
    """The same regression; the score is the probability of each class (Hendrycks & Gimpel 2017)."""

    def _train(self, X: NDArray[Any], codes: NDArray[np.intp], n_classes: int) -> Scorer:
        logits = super()._train(X, codes, n_classes)
        # For two classes the columns are -s and s of one sigmoid, whose logit is half their difference.
        factor = 0.5 if n_classes == 2 else 1.0
        return lambda samples: np.asarray(softmax(factor * logits(samples), axis=1))
