"""Moving samples between classes: the model is as if they had been learned so in the first place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openworld.service.relabel import relabel
from openworld.service.validation import Refused
from openworld.store.records import PoolFilter


def _unknown(world: Any, things: Any) -> list[int]:
    return [i for i in world.recognize(things(5, 6, 1)).sample_ids if i is not None]


def test_the_model_forgets_the_sample_where_it_was(world: Any, things: Any) -> None:
    ids = _unknown(world, things)
    features = world.pool.features(ids).astype(np.float64)
    world.labels.label(ids[:5], "giraffe", "ann")
    relabel(world, [ids[0]], "zebra", "ann", admin=False)
    assert world.pool.get(ids[0]).label == "zebra"
    assert world.pool.ids(PoolFilter(state="labeled", label="giraffe")) == ids[1:5]
    with world.model.reading() as (model, _):
        assert model.class_mean("giraffe") == pytest.approx(features[1:5].mean(axis=0), abs=1e-5)
        assert model.class_mean("zebra") == pytest.approx(features[0], abs=1e-5)
    version = world.model.version
    assert relabel(world, [ids[0]], "zebra", "ann", admin=False).event_id is None
    assert world.model.version == version

    relabel(world, ids[1:3], None, "ann", admin=False)
    assert world.pool.ids(PoolFilter(state="labeled", label="giraffe")) == ids[3:5]
    with world.model.reading() as (model, _):
        assert model.statistics_.count("giraffe") == 2


def test_what_others_build_on_is_refused_and_changes_nothing(world: Any, things: Any) -> None:
    ids = _unknown(world, things)
    world.labels.label(ids[:3], "okapi", "ann")
    world.classes.rename("okapi", "giraffe", "ann")
    world.labels.label(ids[3:], "giraffe", "ann")
    with pytest.raises(Refused, match="builds on this"):
        relabel(world, [ids[0], ids[5]], "zebra", "ann", admin=False)
    assert world.pool.ids(PoolFilter(state="labeled", label="giraffe")) == ids
    with world.model.reading() as (model, _):
        assert model.statistics_.count("giraffe") == 6


def test_others_labels_are_changed_by_an_admin_alone(world: Any, things: Any) -> None:
    ids = _unknown(world, things)
    world.labels.label(ids, "okapi", "bob")
    with pytest.raises(Refused, match="bob labeled some of these samples"):
        relabel(world, ids[:1], "zebra", "ann", admin=False)
    assert len(world.history.events()) == 1
    relabel(world, ids[:1], "zebra", "ann", admin=True)
    assert world.pool.get(ids[0]).label == "zebra"
