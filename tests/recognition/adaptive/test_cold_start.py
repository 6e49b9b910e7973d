"""A recognizer that starts from nothing: everything is unknown until two classes are known."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from openworld.model_file import ModelFileError, digest, dumps, loads
from openworld.model_file.documents import describe, restore
from openworld.recognition import ColdStartRecognizer, OpenWorldRecognizer

X, DIGITS = load_digits(return_X_y=True)
Y = DIGITS.astype(str)


def of(*digits, start=0, stop=30):
    rows = np.concatenate([np.flatnonzero(digit == Y)[start:stop] for digit in digits])
    return X[rows], Y[rows]


@pytest.mark.parametrize("learned", [(), ("3",)])
def test_all_is_unknown_until_a_second_class_comes(learned):
    model = ColdStartRecognizer().start(64)
    if learned:
        model.partial_fit(*of(*learned))
    judged = model.judge(X[:5])
    assert judged.labels.tolist() == ["unknown"] * 5 == model.predict(X[:5]).tolist()
    assert not judged.accepted.any()
    assert judged.nearest.shape == judged.distances.shape == judged.memberships.shape == (5, 0)
    assert model.classes_.tolist() == list(learned)
    assert model.decision_function(X[:5]).shape == model.membership(X[:5]).shape == (5, len(learned))
    assert (model.decision_function(X[:5]) < 0).all()
    assert model.is_starting
    assert model.refresh().threshold_ == 0


def test_with_a_second_class_it_is_the_recognizer_fitted_to_all_samples():
    grown = ColdStartRecognizer().start(64)
    for digit in "38":
        grown.partial_fit(*of(digit, stop=10))
        grown.partial_fit(*of(digit, start=10, stop=30))
    # The second class came in two parts: the first one fits, the other is learned.
    fitted = OpenWorldRecognizer().fit(
        *(np.concatenate(p) for p in zip(of("3"), of("8", stop=10), strict=True))
    )
    fitted.partial_fit(*of("8", start=10, stop=30))
    assert not grown.is_starting
    np.testing.assert_allclose(grown.decision_function(X), fitted.decision_function(X), atol=1e-4)
    assert grown.predict(of("3", "8", start=30, stop=60)[0]).tolist().count("unknown") < 25


def test_a_first_sample_alone_is_enough():
    model = ColdStartRecognizer().start(64).partial_fit(X[:1], ["zero"])
    with pytest.warns(UserWarning, match="Too little to calibrate"):
        model.partial_fit(X[1:2], ["one"]).refresh()
    assert model.classes_.tolist() == ["one", "zero"]


STEPS = (
    lambda model: None,
    lambda model: model.partial_fit(*of("3", stop=20)),
    lambda model: model.partial_fit(*of("3", start=20)),
    lambda model: model.rename_class("3", "three"),
    lambda model: model.merge_classes(["three"], "drei"),
    lambda model: model.partial_fit(*of("0")),
    lambda model: model.partial_fit(*of("7")),
)


def test_a_file_written_at_any_moment_continues_to_the_same_bits():
    model = ColdStartRecognizer().start(64)
    for step in STEPS:
        read = loads(dumps(model))
        assert digest(dumps(read)) == digest(dumps(model))
        for one in (model, read):
            step(one)
            one.refresh()
        assert digest(dumps(read)) == digest(dumps(model))
    assert model.classes_.tolist() == ["0", "7", "drei"]


def test_while_starting_the_only_class_can_be_forgotten_and_renamed():
    model = ColdStartRecognizer().start(64).partial_fit(*of("3"))
    model.rename_class("3", "three")
    np.testing.assert_allclose(model.class_mean("three"), of("3")[0].mean(axis=0))
    assert model.statistics_.counts.tolist() == [30]
    with pytest.raises(KeyError):
        model.forget_class("3")
    model.forget_class("three")
    assert model.classes_.tolist() == []
    with pytest.raises(ValueError, match="unknown"):
        model.partial_fit(X[:1], ["unknown"])
    assert digest(dumps(model)) == digest(dumps(ColdStartRecognizer().start(64)))


def test_what_cannot_be_learned_changes_nothing(monkeypatch):
    model = ColdStartRecognizer().start(64).partial_fit(*of("3"))
    before = digest(dumps(model))
    with pytest.raises(ValueError, match="64 features"):
        model.partial_fit(X[:2, :5], ["a", "b"])

    def fail(*_):
        raise MemoryError

    monkeypatch.setattr(ColdStartRecognizer, "_learn_starting_classes", fail)
    with pytest.raises(MemoryError):
        model.partial_fit(*of("0"))
    assert digest(dumps(model)) == before
    assert model.is_starting


def test_unsound_parts_are_refused():
    document, arrays = describe(ColdStartRecognizer().start(64).partial_fit(*of("3")))
    for change in (
        {"starting": arrays["starting"][:, :5]},
        {"starting": np.full_like(arrays["starting"], np.nan)},
        {"counts": np.array([3.0])},
    ):
        with pytest.raises((ModelFileError, ValueError)):
            restore(document, {**arrays, **change})
    with pytest.raises((ModelFileError, ValueError)):
        restore({**document, "recognizer": "OpenWorldRecognizer"}, arrays)
    with pytest.raises(ValueError, match="at least 1 feature"):
        ColdStartRecognizer().start(0)
