"""Examples of classes in model files."""

from __future__ import annotations

import numpy as np
import pytest

from openworld import EuclideanMetric, NearestNonOutlier
from openworld.model_file import dumps, loads
from openworld.model_file.packing import pack_examples, unpack_examples


def test_examples_come_back_with_the_model() -> None:
    model = NearestNonOutlier(EuclideanMetric(), tau=1.0).fit(np.eye(4), list("aabb"))
    plain = dumps(model)
    model.examples_ = {"a": [b"\xff\xd8one", b"\xff\xd8two"], "gone": [b"x"]}
    again = loads(dumps(model))
    assert again.examples_ == {"a": [b"\xff\xd8one", b"\xff\xd8two"]}  # of classes that there are
    assert not hasattr(loads(plain), "examples_")
    assert np.array_equal(again.predict(np.eye(4)), model.predict(np.eye(4)))


def test_parts_that_do_not_fit_are_refused() -> None:
    lengths, arrays = pack_examples({"a": [b"12", b"345"]}, {"a"})
    assert unpack_examples(lengths, arrays["examples"]) == {"a": [b"12", b"345"]}
    for wrong in ([["a", [2, 4]]], [["a", [2]]], [["a", [-1, 6]]], [[7, [5]]], "a"):
        with pytest.raises(ValueError, match="do not fit together"):
            unpack_examples(wrong, arrays["examples"])
