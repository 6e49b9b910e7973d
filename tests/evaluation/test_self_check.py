"""The self-check finds what is true of data that were made for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import pytest

from openworld import EuclideanMetric, NearestNonOutlier, OpenWorldRecognizer
from openworld.evaluation.self_check import MOST_SAMPLES, SelfCheck, self_check

Data = tuple[np.ndarray, np.ndarray]


def blobs(n_classes: int, per_class: int, spread: float = 1.0, seed: int = 0) -> Data:
    random = np.random.default_rng(seed)
    y = np.repeat([f"c{i:02}" for i in range(n_classes)], per_class)
    centers = 10 * random.standard_normal((n_classes, 12))
    return centers[np.repeat(np.arange(n_classes), per_class)] + spread * random.standard_normal(
        (len(y), 12)
    ), y


def recognizer() -> OpenWorldRecognizer:
    return OpenWorldRecognizer(n_lifted=0)


def test_classes_that_are_far_apart_are_named_and_rejected() -> None:
    X, y = blobs(8, 15)
    check = self_check(recognizer(), X, y)
    assert check is not None
    assert (check.n_samples, check.n_classes) == (len(X), 8)
    assert check.right + check.missed + check.misnamed == pytest.approx(1)
    assert check.nearest_right == 1
    assert check.right > 0.8
    assert check.rejected is not None
    assert check.rejected > 0.8
    assert check.oscr is not None
    assert check.oscr_interval is not None
    assert check.oscr_interval[0] <= check.oscr <= check.oscr_interval[1]
    assert not check.is_near_chance
    assert check.suspects == []


def test_the_estimate_is_that_of_new_samples() -> None:
    """Held-out shares agree with those on samples and classes that nobody has seen."""
    X, y = blobs(10, 60, spread=9.0)
    seen, new = np.arange(len(y)) % 2 == 0, np.arange(len(y)) % 2 == 1
    unknown = np.isin(y, ["c08", "c09"])
    model = recognizer().fit(X[seen & ~unknown], y[seen & ~unknown])
    check = self_check(recognizer(), X[seen & ~unknown], y[seen & ~unknown])
    assert check is not None
    assert check.right == pytest.approx(
        np.mean(model.predict(X[new & ~unknown]) == y[new & ~unknown]), abs=0.15
    )


def test_confused_classes_and_wrong_labels_are_named() -> None:
    X, y = blobs(6, 20)
    X[y == "c01"] = X[y == "c00"] + 0.3 * np.random.default_rng(1).standard_normal((20, 12))
    swapped = np.flatnonzero(y == "c03")[:1]
    y[swapped] = "c04"
    check = self_check(recognizer(), X, y)
    assert check is not None
    assert {check.confused[0][0], check.confused[0][1]} == {"c00", "c01"}
    assert {label for label, _, _ in check.worst_classes[:3]} & {"c00", "c01"}
    assert (int(swapped[0]), "c04", "c03") in [one[:3] for one in check.suspects]


class Rejecting(OpenWorldRecognizer):
    """Calls everything unknown."""

    def judge(self, X: Any, n_nearest: int = 1) -> Any:
        judgement = super().judge(X, n_nearest)
        labels = np.full_like(judgement.labels, self.unknown_label_)
        return replace(judgement, labels=labels, accepted=np.zeros(len(X), dtype=bool))


def test_samples_called_unknown_are_not_confused() -> None:
    X, y = blobs(4, 20, spread=20.0)
    check = self_check(Rejecting(n_lifted=0), X, y)
    assert check is not None
    assert check.nearest_right < 1
    assert (check.missed, check.confused) == (1, [])


def test_classes_that_overlap_are_not_full_of_wrong_labels() -> None:
    random = np.random.default_rng(0)
    y = np.repeat(list("abc"), 100)
    X = np.repeat(random.standard_normal((3, 2)), 100, axis=0) + random.standard_normal((300, 2))
    check = self_check(recognizer(), X, y)
    assert check is not None
    assert check.confused
    assert check.suspects == []


def test_noise_is_near_chance() -> None:
    random = np.random.default_rng(0)
    check = self_check(recognizer(), random.standard_normal((120, 6)), np.repeat(list("abcd"), 30))
    assert check is not None
    assert check.is_near_chance


@pytest.mark.parametrize("nearest_right", [0.25, 1.0])
def test_four_samples_are_too_few_to_tell_chance(nearest_right: float) -> None:
    check = SelfCheck(4, 2, right=0, missed=1, misnamed=0, nearest_right=nearest_right)
    assert not check.is_near_chance
    assert replace(check, n_samples=40, nearest_right=0.55).is_near_chance
    assert not replace(check, n_samples=40, nearest_right=0.8).is_near_chance


def test_few_classes_and_few_samples() -> None:
    X, y = blobs(2, 12)
    check = self_check(recognizer(), X, y)
    assert check is not None
    assert (check.rejected, check.oscr) == (None, None)
    assert self_check(recognizer(), X[[0, 12]], y[[0, 12]]) is None  # one sample of each


def test_many_samples_are_drawn_evenly() -> None:
    X, y = blobs(3, 900)
    check = self_check(NearestNonOutlier(EuclideanMetric()), X, y)
    assert check is not None
    assert check.n_samples == MOST_SAMPLES
    assert check.right > 0.5


class Recorder(OpenWorldRecognizer):
    """Keeps what it was fitted on and judged on, in lists that its copies share."""

    fits: ClassVar[list[tuple[np.ndarray, np.ndarray | None]]] = []
    judged: ClassVar[list[np.ndarray]] = []

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        self.fits.append((X, groups))
        return super().fit(X, y)

    def judge(self, X: Any, n_nearest: int = 1) -> Any:
        self.judged.append(X)
        return super().judge(X, n_nearest)


def test_a_group_is_held_out_as_a_whole() -> None:
    X, y = blobs(5, 12)
    groups = np.where(np.arange(60) % 12 < 2, "", (np.arange(60) % 12 // 4).astype(str))  # 4 each, 2 alone
    groups[y == "c04"] = "all of a class"
    pair = {
        x.tobytes(): (label, group) for x, label, group in zip(X, y.tolist(), groups.tolist(), strict=True)
    }
    Recorder.fits.clear()
    Recorder.judged.clear()
    check = self_check(Recorder(n_lifted=0), X, y, groups=groups)
    assert check is not None
    assert check.n_samples == 48  # the class of one group is not held out as known
    assert "c04" not in [label for label, _, _ in check.worst_classes]
    assert check.rejected is not None
    assert check.oscr_interval is not None
    assert len(Recorder.fits) == 6
    for (train, given), tested in zip(Recorder.fits, Recorder.judged, strict=True):
        trained = [pair[x.tobytes()] for x in train]
        assert given is not None
        assert given.tolist() == [group for _, group in trained]
        both = {one for one in trained if one[1]} & {pair[x.tobytes()] for x in tested}
        assert not both, "no group is in train and test at once"


def test_copies_make_a_check_look_better_than_it_is() -> None:
    random = np.random.default_rng(0)
    X, y = blobs(6, 12, spread=30.0)
    groups = np.repeat(np.arange(len(y)), 3).astype(str)
    X, y = np.repeat(X, 3, axis=0) + 1e-3 * random.standard_normal((3 * len(y), 12)), np.repeat(y, 3)
    optimistic, honest = self_check(recognizer(), X, y), self_check(recognizer(), X, y, groups=groups)
    assert optimistic is not None
    assert honest is not None
    assert honest.n_samples == optimistic.n_samples
    assert honest.nearest_right < optimistic.nearest_right


def test_classes_of_one_group_cannot_be_checked() -> None:
    X, y = blobs(4, 12)
    assert self_check(recognizer(), X, y, groups=y) is None
    groups = np.where(y == "c00", "", y)  # of one class there are samples to hold out
    check = self_check(recognizer(), X, y, groups=groups)
    assert check is not None
    assert check.n_samples == 12
