"""Statistics, projected means and index stay together, whatever is done to them."""

from copy import deepcopy

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from openworld import AdaptiveMetric, ClassStatistics, EuclideanMetric, NCMMetric, NearestNonOutlier
from openworld.recognition.class_means import ClassMeans
from openworld.recognition.metric.ncm import same_metric

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)) + 3 * np.repeat(RNG.normal(size=(6, 3)), 10, axis=0)
Y = np.repeat(list("abcdef"), 10)
PLAIN = EuclideanMetric(standardize=False).fit(X)


def means_of(samples, labels, metric=PLAIN):
    return ClassMeans(metric, ClassStatistics("none").add(samples, labels))


def assert_together(means):
    """Every projected mean is that of the statistics, under the name that the index has for it."""
    np.testing.assert_allclose(means.index.means, means.metric.transform(means.statistics.means), atol=1e-12)
    assert means.index._names is means.statistics.row_labels
    assert means.classes.tolist() == sorted(means.statistics.labels)


def test_every_change_keeps_them_together():
    means = means_of(X[:30], Y[:30])
    assert_together(means)
    for change in (
        lambda: means.add(ClassStatistics("none").add(X[20:50], Y[20:50])),
        lambda: means.merge(["a", "c"], "z"),
        lambda: means.forget("b"),
        lambda: means.rename("z", "A"),
        lambda: means.learn(X[50:], Y[50:]),
    ):
        change()
        assert_together(means)
    assert means.classes.tolist() == ["A", "d", "e", "f"]


@pytest.mark.parametrize("copied", [deepcopy, ClassMeans.empty], ids=["copy", "empty"])
def test_equally_near_classes_are_distinguished_by_name_after_copying(copied):
    """The index of a copy once kept the names of the original."""
    means = copied(means_of(X[:30], Y[:30]))
    twins = np.repeat(X[:1] + 50, 2, axis=0)
    means.add(ClassStatistics("none").add(twins, ["second", "first"]))
    assert_together(means)
    found = means.labels_of(means.nearest(twins, 2)[1])
    assert found.tolist() == [["first", "second"]] * 2


def test_a_metric_that_learns_moves_all_means():
    metric = StandardScaler().fit(X[:30])
    means = means_of(X[:30], Y[:30], metric)
    moved = means.learn(X[30:] * 5, Y[30:])
    assert moved is not means
    assert means.metric is metric
    assert means.classes.tolist() == ["a", "b", "c"]
    assert_together(means)
    assert_together(moved)
    assert not np.allclose(moved.index.means[:3], means.index.means)


def test_statistics_that_do_not_combine_are_refused_before_anything_changes():
    means = means_of(X[:30], Y[:30])
    before = means.index.means.copy()
    for batch, error in (
        (ClassStatistics("none").add(X[:, :2], Y), ValueError),
        (ClassStatistics("none").add(X, np.arange(60) // 10), TypeError),
        (ClassStatistics("none").add(np.full((1, 3), 1e30), ["far"]), ValueError),
    ):
        with pytest.raises(error):
            means.add(batch)
        np.testing.assert_array_equal(means.index.means, before)
        assert_together(means)


def test_the_type_of_the_labels_follows_the_longest():
    means = means_of(X[:30], Y[:30])
    rows = np.arange(3)
    assert means.labels_of(rows).dtype == "<U1"
    means.rename("a", "longest")
    assert means.labels_of(rows).dtype == "<U7"
    means.rename("longest", "ab")
    assert means.labels_of(rows).dtype == "<U2"


def test_metrics_are_the_same_where_all_they_learned_is():
    labels = np.arange(60) // 10
    one, same = (NCMMetric(max_iter=2).fit(X, labels) for _ in range(2))
    assert same_metric(one, one)
    assert same_metric(one, NCMMetric(max_iter=2).fit(X, labels)) == same_metric(one, same)
    assert not same_metric(one, NCMMetric(max_iter=2).fit(X + RNG.normal(size=X.shape), labels))
    assert not same_metric(one, PLAIN)
    assert same_metric(AdaptiveMetric().fit(X, labels), AdaptiveMetric().fit(X, labels))


def test_a_model_without_classes_shares_its_metric_and_learns_apart():
    model = NearestNonOutlier(EuclideanMetric(), tau=2.0).fit(X[:30], Y[:30])
    part = model.without_classes()
    assert part.metric_ is model.metric_
    part.partial_fit(X[30:], Y[30:])
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert (model + part).classes_.tolist() == list("abcdef")
    with pytest.raises(ValueError, match="knows no classes yet"):
        model.without_classes().predict(X)
