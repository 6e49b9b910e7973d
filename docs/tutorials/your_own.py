# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
# ---
# %% [markdown]
# # Bring your own recognizer or encoder
#
# ## A recognizer of your own
#
# A recognizer is a scikit-learn classifier that also has `partial_fit` for new classes and answers
# `unknown_label_`. `openworld.testing` checks the contract that all of ours keep.

# %%
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data


class NearestSample(ClassifierMixin, BaseEstimator):
    """The class of the nearest training sample, or unknown where it is farther than `radius`."""

    def __init__(self, radius: float = 2.0, unknown_label: object = None) -> None:
        self.radius = radius
        self.unknown_label = unknown_label

    def fit(self, X, y):
        """Learn the starting classes."""
        X, y = validate_data(self, X, y)
        self.unknown_label_ = self.unknown_label if self.unknown_label is not None else (
            -1 if np.asarray(y).dtype.kind in "iu" else "unknown")  # fmt: skip
        if np.any(y == self.unknown_label_):
            raise ValueError(f"{self.unknown_label_!r} means unknown and cannot be a class.")
        self.X_, self.y_ = X, y
        self.classes_ = np.unique(y)
        return self

    def partial_fit(self, X, y):
        """Learn more samples, of known and new classes alike."""
        if not hasattr(self, "X_"):
            return self.fit(X, y)
        X, y = validate_data(self, X, y, reset=False)
        if np.any(y == self.unknown_label_):
            raise ValueError(f"{self.unknown_label_!r} means unknown and cannot be a class.")
        self.X_, self.y_ = np.vstack([self.X_, X]), np.concatenate([self.y_, y])
        self.classes_ = np.unique(self.y_)
        return self

    def decision_function(self, X):
        """Return how far each class is within the radius, shape (n, K)."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        distances = np.sqrt(((X[:, np.newaxis] - self.X_) ** 2).sum(axis=2))
        return np.column_stack([self.radius - distances[:, self.y_ == c].min(axis=1) for c in self.classes_])

    def predict(self, X):
        """Name the class of each sample, or answer unknown."""
        decision = self.decision_function(X)
        named = self.classes_[decision.argmax(axis=1)].astype(object)
        named[decision.max(axis=1) <= 0] = self.unknown_label_
        return np.array(named.tolist())


X = np.vstack([np.random.default_rng(i).normal(i * 9, 1, (20, 2)) for i in range(3)])
y = np.repeat([0, 1, 2], 20)
print(NearestSample().fit(X, y).predict([[0, 0], [9, 9], [100, 100]]))

# %% [markdown]
# ## Its place in an evaluation
#
# `openworld evaluate --recognizer package.module:NearestSample` runs it beside the built-in ones.
#
# ## An encoder of your own
#
# Whatever turns samples into vectors will do: features come first, recognition second. For pictures, any
# network in ONNX format is an extractor: `openworld fit photos/ --extractor onnx:network.onnx`. From Python, pass
# the vectors themselves.

# %%
from openworld import OpenWorldRecognizer


def encode(texts: list[str]) -> np.ndarray:
    """Count letters: a poor encoder, but one of our own."""
    return np.array(
        [[text.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts], float
    )


train = ["zzz zz", "zz zzzz", "z z zzz", "aaa aa", "aa aaaa", "a a aaa"]
model = OpenWorldRecognizer().fit(encode(train), ["sleep"] * 3 + ["scream"] * 3)
print(model.predict(encode(["zzzzz", "aaaaaa"])))
