import sys

import numpy as np
import pytest

from openworld import EuclideanMetric, NearestNonOutlier
from openworld.index import ApproximateIndex, ExactIndex, choice, make_index

MEANS = np.random.default_rng(0).normal(size=(100, 3))


@pytest.fixture
def without_faiss(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)


def test_the_choice_goes_by_the_number_of_means(monkeypatch):
    pytest.importorskip("faiss")
    assert type(make_index("auto", MEANS)) is ExactIndex
    monkeypatch.setattr(choice, "APPROXIMATE_FROM", 100)
    assert type(make_index("auto", MEANS)) is ApproximateIndex
    assert type(make_index("auto", MEANS[1:])) is ExactIndex
    assert type(make_index("exact", MEANS)) is ExactIndex


def test_the_choice_can_be_forced():
    pytest.importorskip("faiss")
    assert type(make_index("approximate", MEANS[:1])) is ApproximateIndex
    with pytest.raises(ValueError, match=r'"auto", "exact" or "approximate"; got \'hnsw\''):
        make_index("hnsw", MEANS)


def test_without_faiss_the_choice_is_exact(without_faiss, monkeypatch):
    monkeypatch.setattr(choice, "APPROXIMATE_FROM", 100)
    assert type(make_index("auto", MEANS)) is ExactIndex


def test_without_faiss_approximate_search_says_what_to_install(without_faiss):
    with pytest.raises(ImportError, match=r"pip install openworld\[scale\]"):
        make_index("approximate", MEANS)
    model = NearestNonOutlier(EuclideanMetric(), tau=1.0, index="approximate")
    with pytest.raises(ImportError, match=r"openworld\[scale\]"):
        model.fit(MEANS, np.arange(100))
