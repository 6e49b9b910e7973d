"""The contract of every recognizer, as checks that you can run on your own.

    from openworld.testing import check_recognizer
    check_recognizer(MyRecognizer())

A recognizer implements the protocol `openworld.Recognizer`, with a parameter `unknown_label` and, after
fitting, an attribute `unknown_label_`. If it can accept samples infinitely far from all data, it sets
``accepts_bounded_region = False``; if `partial_fit` depends on the order of the samples, it sets
``order_matters = True``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

_N_STARTING, _N_CLASSES, _PER_CLASS, _N_FEATURES = 8, 12, 15, 6


class ContractError(AssertionError):
    """A recognizer violates the contract."""


def check_recognizer(recognizer: Any) -> None:
    """Run every check on clones of a recognizer, which need not be fitted.

    Raises
    ------
    ContractError
        With the first rule that is violated.
    """
    for check in contract_checks():
        check(recognizer)


def contract_checks() -> list[Callable[[Any], None]]:
    """Return the checks, for example to parametrize a test."""
    return [
        check_names_known_and_rejects_far,
        check_labels_of_any_kind,
        check_unknown_is_never_a_class,
        check_refused_batch_changes_nothing,
        check_new_classes_need_no_announcement,
        check_learning_changes_no_other_class,
        check_pieces_and_order_make_no_difference,
        check_sum_of_models,
        check_cutting_the_input_makes_no_difference,
        check_decision_function_agrees,
        check_judge_agrees,
        check_same_data_same_model,
    ]


def _data() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return well separated classes; the first eight are the starting classes."""
    random = np.random.default_rng(20150607)
    centers = 8 * random.standard_normal((_N_CLASSES, _N_FEATURES))
    y = np.repeat(np.arange(_N_CLASSES), _PER_CLASS)
    return centers[y] + random.standard_normal((len(y), _N_FEATURES)), y


def _starting() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    X, y = _data()
    return X[y < _N_STARTING], y[y < _N_STARTING]


def _later() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    X, y = _data()
    return X[y >= _N_STARTING], y[y >= _N_STARTING]


def _queries() -> NDArray[np.float64]:
    X, _ = _data()
    random = np.random.default_rng(1)
    return np.vstack([X + random.standard_normal(X.shape), 20 * random.standard_normal((200, _N_FEATURES))])


def _fitted(recognizer: Any) -> Any:
    return clone(recognizer).fit(*_starting())


def _require(kept: bool, promise: str, recognizer: Any) -> None:
    if not kept:
        raise ContractError(f"{type(recognizer).__name__}: {promise}")


def _refuses(action: Callable[[], Any]) -> bool:
    try:
        action()
    except (ValueError, TypeError):
        return True
    return False


def _is_bounded(recognizer: Any) -> bool:
    return bool(getattr(recognizer, "accepts_bounded_region", True))


def check_names_known_and_rejects_far(recognizer: Any) -> None:
    """Most samples of known classes are classified correctly; samples far from all data are unknown."""
    X, y = _starting()
    model = _fitted(recognizer)
    _require(bool(np.mean(model.predict(X) == y) > 0.8), "recognizes the classes it learned", recognizer)
    if not _is_bounded(recognizer):
        return
    random = np.random.default_rng(2)
    directions = np.vstack(
        [random.standard_normal((100, _N_FEATURES)), X[::5], np.array([X[y == c].mean(0) for c in set(y)])]
    )
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    for distance in (1e3, 1e5, 1e7):
        far = model.predict(distance * directions)
        _require(
            bool(np.all(far == model.unknown_label_)),
            f"rejects samples {distance:g} away from all data in every direction",
            recognizer,
        )


def check_labels_of_any_kind(recognizer: Any) -> None:
    """String labels give the same answers as integers, and the unknown label is of the matching kind."""
    X, y = _starting()
    names = np.array([f"class {label}" for label in y])
    by_name = clone(recognizer).fit(X, names).predict(_queries())
    by_number = _fitted(recognizer).predict(_queries())
    expected = np.where(by_number == -1, "unknown", [f"class {label}" for label in by_number])
    _require(bool(np.all(by_name == expected)), "gives the same answers for string labels", recognizer)


def check_unknown_is_never_a_class(recognizer: Any) -> None:
    """The unknown label is not among the classes, and a class with that label is an error."""
    X, y = _starting()
    model = _fitted(recognizer)
    _require(model.unknown_label_ not in model.classes_, "unknown is not a class", recognizer)
    bad = np.where(y == 0, model.unknown_label_, y)
    _require(
        _refuses(lambda: clone(recognizer).fit(X, bad)), "fit refuses a class called unknown", recognizer
    )
    _require(
        _refuses(lambda: model.partial_fit(X, bad)), "partial_fit refuses a class called unknown", recognizer
    )
    paper = clone(recognizer).set_params(unknown_label=0).fit(X, y + 1)
    answers = set(paper.predict(_queries()).tolist())
    _require(answers <= set(range(_N_STARTING + 1)), "the unknown label can be chosen", recognizer)


def check_refused_batch_changes_nothing(recognizer: Any) -> None:
    """A batch with NaN, a wrong number of features or missing labels leaves the model unchanged."""
    X, y = _later()
    model = _fitted(recognizer)
    before, classes = model.decision_function(_queries()), model.classes_.copy()
    with_nan = X.copy()
    with_nan[3, 2] = np.nan
    refused: list[tuple[Callable[..., Any], Any, Any]] = [(model.partial_fit, X[:, :-1], y)]
    for bad_X, bad_y in ((with_nan, y), (X, y[:-1]), (X, y + 0.5)):
        refused += [(model.partial_fit, bad_X, bad_y), (model.fit, bad_X, bad_y)]
    for learn, bad_X, bad_y in refused:
        _require(_refuses(partial(learn, bad_X, bad_y)), "refuses bad input", recognizer)
        same = np.array_equal(model.classes_, classes)
        same = same and np.array_equal(model.decision_function(_queries()), before)
        _require(same, "is unchanged after refusing bad input", recognizer)


def check_new_classes_need_no_announcement(recognizer: Any) -> None:
    """`partial_fit` learns new classes without a list of them in advance."""
    X, y = _later()
    model = _fitted(recognizer).partial_fit(X, y)
    _require(
        model.classes_.tolist() == list(range(_N_CLASSES)),
        "knows the classes learned by partial_fit",
        recognizer,
    )
    _require(bool(np.mean(model.predict(X) == y) > 0.5), "recognizes classes learned later", recognizer)


def check_learning_changes_no_other_class(recognizer: Any) -> None:
    """Learning new classes does not change the statistics of the others, to the last bit."""
    model = _fitted(recognizer)
    if not hasattr(model, "statistics_"):
        return
    before = {label: model.statistics_.mean(label).copy() for label in range(_N_STARTING)}
    model.partial_fit(*_later())
    same = all(np.array_equal(model.statistics_.mean(label), mean) for label, mean in before.items())
    _require(same, "learning one class changes no other class's mean", recognizer)


def check_pieces_and_order_make_no_difference(recognizer: Any) -> None:
    """One batch, many batches and any order give the same model."""
    if getattr(recognizer, "order_matters", False):
        return
    X, y = _later()
    at_once = _fitted(recognizer).partial_fit(X, y).decision_function(_queries())
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(y))
        model = _fitted(recognizer)
        for piece in np.array_split(order, 7):
            model.partial_fit(X[piece], y[piece])
        same = np.allclose(model.decision_function(_queries()), at_once, rtol=1e-6, atol=1e-6)
        _require(same, "batches and order make no difference", recognizer)


def check_sum_of_models(recognizer: Any) -> None:
    """If models can be added, the sum of partial models equals the model that learned everything."""
    model = _fitted(recognizer)
    if not hasattr(model, "without_classes"):
        return
    X, y = _later()
    whole = _fitted(recognizer).partial_fit(X, y).decision_function(_queries())
    parts = [model.without_classes().partial_fit(X[i::3], y[i::3]) for i in range(3)]
    total = (parts[2] + model + parts[0] + parts[1]).decision_function(_queries())
    _require(
        np.allclose(total, whole, rtol=1e-6, atol=1e-6),
        "the sum of partial models is the whole model",
        recognizer,
    )


def check_cutting_the_input_makes_no_difference(recognizer: Any) -> None:
    """The prediction for a sample does not depend on the other samples of the call."""
    model, X = _fitted(recognizer), _queries()
    at_once = model.predict(X)
    for size in (1, 7, 100):
        pieces = [model.predict(X[start : start + size]) for start in range(0, len(X), size)]
        same = np.array_equal(np.concatenate(pieces), at_once)
        _require(same, "predict does not depend on how the input is split", recognizer)


def check_decision_function_agrees(recognizer: Any) -> None:
    """`decision_function` has one column per class; the largest one is the answer for accepted samples."""
    model, X = _fitted(recognizer), _queries()
    decision, answers = model.decision_function(X), model.predict(X)
    _require(decision.shape == (len(X), len(model.classes_)), "decision_function is (n, K)", recognizer)
    accepted = answers != model.unknown_label_
    same = np.array_equal(model.classes_[decision.argmax(axis=1)][accepted], answers[accepted])
    _require(same, "the largest decision is the answer", recognizer)


def check_judge_agrees(recognizer: Any) -> None:
    """`judge` agrees with `predict` and `decision_function`, and `refresh` changes no answer."""
    model, X = _fitted(recognizer).partial_fit(*_later()), _queries()
    judged, decision = model.refresh().judge(X, 3), model.decision_function(X)
    _require(
        np.array_equal(judged.labels, model.predict(X)), "judge returns the labels of predict", recognizer
    )
    unknown = judged.labels == model.unknown_label_
    _require(np.array_equal(judged.accepted, ~unknown), "judge accepts the samples with a class", recognizer)
    close = np.allclose(judged.decision, decision.max(axis=1), rtol=1e-4, atol=1e-4)
    _require(close, "judge returns the largest decision", recognizer)
    shapes = {part.shape for part in (judged.nearest, judged.distances, judged.memberships)}
    _require(shapes == {(len(X), 3)}, "judge returns the n nearest classes", recognizer)
    _require(bool(np.all(np.diff(judged.distances, axis=1) >= 0)), "distances ascend", recognizer)
    for part in (judged.membership, judged.memberships):
        _require(bool(np.all((part >= 0) & (part <= 1))), "memberships are between 0 and 1", recognizer)
    _require(judged.threshold == model.threshold_, "judge returns threshold_", recognizer)


def check_same_data_same_model(recognizer: Any) -> None:
    """Two fits on the same data give the same decisions, to the last bit."""
    first, second = (_fitted(recognizer).decision_function(_queries()) for _ in range(2))
    _require(np.array_equal(first, second), "the same data give the same model", recognizer)
