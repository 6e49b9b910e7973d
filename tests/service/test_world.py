"""The whole loop on both databases: unknown, labeled, learned, recognized; undone, redone, rolled back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import openworld.model_file.documents as documents
from openworld import EuclideanMetric, NearestNonOutlier, OpenWorldRecognizer, model_file
from openworld.recognition import ColdStartRecognizer
from openworld.service.settings import WorldSettings
from openworld.service.validation import Conflict, NotFound, Refused
from openworld.service.world import World
from openworld.store import StorageError
from openworld.store.records import ClusterDraft, PoolFilter, SampleContent

Draw = Callable[..., NDArray[np.float32]]
Models = Callable[[str], Any]


def _unknown(world: World, X: NDArray[np.float32]) -> list[int]:
    """Put unknown samples into the pool."""
    ids = [i for i in world.recognize(X).sample_ids if i is not None]
    assert len(ids) == len(X)
    return ids


def _labels(world: World) -> list[str]:
    return [info.label for info in world.classes.all()]


@pytest.mark.parametrize("recognizer", ["nno", "0"])
def test_the_nearest_classes_have_the_memberships_of_the_recognizer(
    tmp_path: Path, things: Draw, models: Models, recognizer: str
) -> None:
    model = models(recognizer)
    X = np.vstack([things(kind, 2, 5) for kind in range(6)] + [30 * things(0)])
    expected = np.clip(model.decision_function(X), 0, 1) if recognizer == "nno" else model.membership(X)
    with World.open(f"sqlite:///{tmp_path / 'world.db'}", model) as world:
        answers = world.recognize(X)
        columns = np.searchsorted(model.classes_, answers.judgement.nearest)
        np.testing.assert_allclose(
            answers.judgement.memberships, np.take_along_axis(expected, columns, axis=1), atol=1e-5
        )
        assert 0.4 < answers.judgement.memberships[0, 0] <= 1
        assert answers.judgement.memberships[-1].tolist() == [0, 0, 0]
        for answer in answers.rows():
            if answer["sample_id"] is not None:
                stored = world.pool.get(answer["sample_id"]).nearest
                assert [asdict(near) for near in stored] == answer["nearest"]
        (first,) = world.labels.preview([answers.sample_ids[-1]], "x").nearest[:1]
        assert first.membership == 0


def test_from_unknown_to_learnt_to_recognized(world: World, things: Draw) -> None:
    answers = world.recognize(
        np.vstack([things(0), things(5)]), [SampleContent(), SampleContent(source="door", thumbnail=b"p")]
    )
    assert (answers.labels, answers.model_version) == (["a", None], 0)
    known, unknown = answers.rows()
    assert (known["sample_id"], known["unknown"], known["nearest"][0]["label"]) == (None, False, "a")
    assert known["decision"] == pytest.approx(1 - known["distance"] / answers.judgement.threshold)
    assert unknown["sample_id"] is not None
    sample = world.pool.get(unknown["sample_id"])
    assert (sample.state, sample.source) == ("pending", "door")
    assert [asdict(near) for near in sample.nearest] == unknown["nearest"]
    assert world.pool.thumbnail(sample.id) == b"p"
    others = _unknown(world, things(5, 9, 1))

    outcome = world.labels.label([sample.id, *others[:3]], " teapot ", "ann")
    assert (outcome.model_version, outcome.samples, outcome.added) == (1, 4, ("teapot",))
    assert world.recognize(things(5, 2, 2)).labels == ["teapot", "teapot"]
    rescored = world.rescorer.wait(timeout=300)
    assert rescored is not None
    assert (rescored.model_version, rescored.recognized) == (1, 6)
    assert [world.pool.get(i).state for i in others] == ["labeled"] * 3 + ["recognized"] * 6
    assert world.labels.progress("ann") == replace(world.labels.progress("bob"), my_labeled=4)
    assert world.history.versions()[0].summary["recognized"] == 6

    world.history.undo("ann")
    rescored = world.rescorer.wait(timeout=300)
    assert rescored is not None
    assert (rescored.model_version, rescored.returned) == (2, 6)
    assert world.pool.count() == 10
    assert world.recognize(things(5, 2, 2)).labels == [None, None]


def test_what_is_known_is_not_stored_by_default_and_nothing_where_not_wanted(
    world: World, things: Draw
) -> None:
    assert world.recognize(things(5, 2), remember=False).sample_ids == [None, None]
    assert world.recognize(things(0)).sample_ids == [None]
    assert world.pool.count() == 0


def test_a_world_opens_again_as_it_was(url: str, things: Draw, models: Models) -> None:
    probe = np.vstack([things(kind, 3, 9) for kind in range(8)])
    settings = WorldSettings(snapshot_events=3)
    with World.open(url, models("0.1"), settings) as world:
        for kind in range(3, 8):
            world.labels.learn(things(kind, 4), [f"k{kind}"] * 4, "ann")
        world.classes.forget("k4", "ann")
        world.history.undo("ann")
        world.classes.rename("k5", "five", "bob")
        before = world.recognize(probe, remember=False)
    with World.open(url) as world:
        after = world.recognize(probe, remember=False)
        assert (after.model_version, _labels(world)) == (before.model_version, sorted(_labels(world)))
        assert np.array_equal(after.judgement.decision, before.judgement.decision)
        assert after.labels == before.labels
        assert "five" in _labels(world)
        model = world.model.to_bytes()
    World.open(url, models("0.1")).close()
    with pytest.raises(Refused, match="another model"):
        World.open(url, models("0"))
    assert len(model) > 1000


def test_a_world_begins_with_a_model_file_and_needs_one(url: str, tmp_path: Path, models: Models) -> None:
    with pytest.raises((Refused, FileNotFoundError), match=r"is new|start a new one"):
        World.open(url)
    path = tmp_path / "first.ow"
    model_file.save(models("nno"), path)
    with World.open(url, path) as world:
        assert _labels(world) == ["a", "b", "c"]
    with World.open(url, path) as world:
        assert world.history.versions()[0].summary["added"] == ["a", "b", "c"]


def test_the_same_model_may_be_named_again_after_an_upgrade(
    url: str, models: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    World.open(url, models("nno")).close()
    World.open(url, models("nno")).close()
    monkeypatch.setattr(documents, "__version__", "99.0")
    World.open(url, models("nno")).close()
    with pytest.raises(Refused, match="another model"):
        World.open(url, models("0.1"))


def test_a_model_adopts_samples_that_were_imported_before_it(
    tmp_path: Path, models: Models, things: Draw
) -> None:
    url = f"sqlite:///{tmp_path / 'world.db'}"
    with World.open(url, ColdStartRecognizer().start(4)) as world:
        _unknown(world, np.vstack([things(0, 3), things(5, 2)]))
    with pytest.raises(Refused, match="another model"):
        World.open(url, ColdStartRecognizer().start(5))
    for _ in range(2):  # the second start names the model again
        with World.open(url, models("0")) as world:
            assert world.rescorer.wait(timeout=300) is not None
            progress = world.labels.progress("ann")
            assert (progress.recognized, progress.pending) == (3, 2)
            assert [version.summary["classes"] for version in world.history.versions()] == [3]
    with pytest.raises(Refused, match="another model"):
        World.open(url, models("0.1"))


def test_a_model_does_not_adopt_what_people_have_done(tmp_path: Path, models: Models, things: Draw) -> None:
    url = f"sqlite:///{tmp_path / 'world.db'}"
    with World.open(url, ColdStartRecognizer().start(4)) as world:
        world.labels.dismiss(_unknown(world, things(5, 2)), "blurred", "ann")
    with pytest.raises(Refused, match="another model"):
        World.open(url, models("0"))


def test_names_are_refused_before_anything_is_written(world: World, things: Draw) -> None:
    (sample,) = _unknown(world, things(5))
    for label, reason in (
        ("", "empty"),
        (" ", "empty"),
        ("unknown", "unknown"),
        ("a\nb", "line"),
        ("x" * 201, "200"),
    ):
        with pytest.raises(Refused, match=reason):
            world.labels.label([sample], label, "ann")
    with pytest.raises(NotFound, match="no sample 999"):
        world.labels.label([sample, 999], "x", "ann")
    with pytest.raises(Refused, match="No samples"):
        world.labels.label([], "x", "ann")
    with pytest.raises(Refused, match="4 numbers"):
        world.labels.learn(np.zeros((1, 3)), ["x"], "ann")
    with pytest.raises(Refused, match="NaN"):
        world.recognize([[np.nan, 0, 0, 0]])
    with pytest.raises(Refused, match="cannot be stored"):
        world.recognize(things(6), [SampleContent("text", "\0")])
    assert (world.history.events(), world.model.version, world.pool.count()) == ([], 0, 1)


def test_numbers_beyond_any_id_are_not_found(world: World) -> None:
    huge = 2**70
    for call in (
        lambda: world.pool.get(huge),
        lambda: world.pool.thumbnail(huge),
        lambda: world.clusters.get(huge),
        lambda: world.pool.features([huge]),
        lambda: world.labels.label([huge], "x", "ann"),
        lambda: world.clusters.lease(huge, "ann"),
        lambda: world.labels.label_cluster(huge, "x", "ann"),
        lambda: world.history.rollback(huge, "ann"),
        lambda: world.history.undo("ann", huge),
        lambda: world.history.compare(0, huge),
    ):
        with pytest.raises(NotFound):
            call()
    world.clusters.release(huge, "ann")
    assert (world.history.events(before=huge), len(world.history.versions(before=huge))) == ([], 1)
    assert world.pool.page(PoolFilter(), str(huge)).samples == []


@pytest.mark.filterwarnings("ignore:Too little to calibrate with")
def test_an_event_that_the_model_refuses_raises_and_leaves_it_working(
    url: str, things: Draw, models: Models
) -> None:
    with World.open(url, models("0")) as world:
        world.classes.forget("a", "ann")
        world.classes.forget("b", "ann")
        with pytest.raises(Refused, match="at least 1"):
            world.classes.forget("c", "ann")
        with pytest.raises(NotFound, match="no class"):
            world.classes.rename("a", "z", "ann")
        assert [event.kind for event in world.history.events()] == ["forget"] * 2
        assert world.labels.learn(things(4, 3), ["d"] * 3, "ann").model_version == 3
        assert _labels(world) == ["c", "d"]


def test_a_repeated_request_changes_nothing(world: World, things: Draw) -> None:
    ids = _unknown(world, things(5, 3))
    assert world.labels.label(ids, "x", "ann").event_id is not None
    assert world.labels.label(ids, "x", "ann").event_id is None
    X = things(6, 3)
    assert world.labels.learn(np.vstack([X, X]), ["y"] * 6, "ann").samples == 3
    assert world.labels.learn(X, ["y"] * 3, "ann").event_id is None
    world.labels.dismiss(_unknown(world, things(7)), "blurred", "ann")
    with pytest.raises(Conflict, match="labeled 'x' by ann"):
        world.labels.label(ids, "z", "bob")
    with pytest.raises(Conflict, match="'y' already"):
        world.labels.learn(X[:1], ["z"], "bob")
    with pytest.raises(Conflict, match="undo"):
        world.labels.dismiss(ids, "", "bob")
    assert (world.model.version, len(world.history.events())) == (2, 3)
    assert {info.label: info.count for info in world.classes.all()}["y"] == 3


def test_accepting_teaches_a_known_class_and_moves_tau(world: World) -> None:
    tau = world.recognize(np.zeros((1, 4)), remember=False).judgement.threshold
    mean = world.pool.features([])  # nothing asked, nothing given
    assert len(mean) == 0
    with pytest.raises(NotFound, match="no class 'nobody'"):
        world.labels.accept(_unknown(world, np.full((1, 4), 60, dtype=np.float32))[0], "nobody", "ann")
    world.labels.accept(world.pool.page().samples[0].id, "a", "ann")
    assert world.recognize(np.zeros((1, 4)), remember=False).judgement.threshold > tau
    world.history.undo("ann")
    assert world.recognize(np.zeros((1, 4)), remember=False).judgement.threshold == tau


def test_classes_are_described_renamed_merged_and_forgotten_and_all_is_undone(
    world: World, things: Draw
) -> None:
    ids = _unknown(world, np.vstack([things(5, 2), things(6, 2)]))
    world.labels.label(ids[:2], "five", "ann")
    world.labels.label(ids[2:], "six", "ann")
    world.classes.describe("five", "a <b>number</b>", "bob")
    world.classes.rename("five", "cinq", "bob")
    info = world.classes.get("cinq")
    assert (info.description, info.count, info.examples) == ("a <b>number</b>", 2, tuple(ids[:2]))
    assert info.nearest is not None
    assert info.nearest.label != "cinq"
    world.classes.merge(["cinq"], "six", "bob")
    assert [world.pool.get(i).label for i in ids] == ["six"] * 4
    assert world.classes.get("six").description == "a <b>number</b>"
    world.classes.forget("six", "bob")
    assert [world.pool.get(i).state for i in ids] == ["pending"] * 4
    world.history.undo("bob")
    world.history.undo("bob")
    assert [world.pool.get(i).label for i in ids] == ["cinq", "cinq", "six", "six"]
    with pytest.raises(Refused, match=r"rename by bob\) depends on this"):
        world.history.undo("ann", event_id=1)
    for _ in range(2):
        world.history.undo("bob")
    assert [event.undone_by is not None for event in world.history.events(limit=4)] == [False] * 4
    assert _labels(world) == ["a", "b", "c", "five", "six"]
    world.history.undo("ann", event_id=1)
    assert [world.pool.get(i).state for i in ids] == ["pending"] * 2 + ["labeled"] * 2
    world.history.redo("ann")
    with pytest.raises(NotFound, match="nothing to redo"):
        world.history.redo("ann")
    assert [world.pool.get(i).label for i in ids] == ["five", "five", "six", "six"]


def test_going_back_to_a_version_is_a_new_version_and_can_be_undone(world: World, things: Draw) -> None:
    ids = _unknown(world, np.vstack([things(5, 2), things(6, 2)]))
    world.labels.label(ids[:2], "five", "ann")
    world.labels.label(ids[2:], "six", "bob")
    outcome = world.history.rollback(1, "cat")
    assert (outcome.model_version, outcome.removed) == (3, ("six",))
    assert [world.pool.get(i).label for i in ids] == ["five", "five", None, None]
    same = world.history.compare(1, 3)
    assert (same.same, same.added, same.removed, dict(same.changed)) == (True, (), (), {})
    differ = world.history.compare(2, 3)
    assert (differ.same, differ.removed) == (False, ("six",))
    world.history.undo("cat")
    assert [world.pool.get(i).label for i in ids] == ["five", "five", "six", "six"]
    assert [version.id for version in world.history.versions()] == [4, 3, 2, 1, 0]
    with pytest.raises(NotFound, match="no version 99"):
        world.history.rollback(99, "cat")


def test_a_preview_changes_nothing(world: World, things: Draw) -> None:
    ids = _unknown(world, things(5, 3))
    world.labels.label(ids[:1], "Teapot", "ann")
    found = world.labels.preview(ids, "teapots")
    assert (found.new_class, found.samples, found.already) == (True, 2, {ids[0]: "Teapot"})
    assert (found.similar_names, found.problem, found.nearest[0].label) == (("Teapot",), None, "Teapot")
    assert not world.labels.preview(ids, "Teapot").new_class
    assert world.labels.preview(ids, "unknown").problem is not None
    assert world.model.version == 1


def test_two_people_and_their_clusters(world: World, things: Draw) -> None:
    ids = _unknown(world, np.vstack([things(5, 4), things(6, 4)]))
    five, six = world.clusters.replace([ClusterDraft(ids[:4], ids[0]), ClusterDraft(ids[4:], ids[4])])
    assert world.clusters.lease(five, "ann").holder == "ann"
    with pytest.raises(Conflict, match="ann holds"):
        world.clusters.lease(five, "bob")
    with pytest.raises(Conflict, match="ann is working"):
        world.labels.label(ids[:1], "x", "bob")
    with pytest.raises(Conflict, match="ann holds"):
        world.clusters.merge([six, five], "bob")
    world.clusters.release(five, "ann")
    world.clusters.merge([six, five], "bob")
    assert [(c.id, c.size, c.pinned) for c in world.clusters.all()] == [(six, 8, True)]
    world.history.undo("bob")
    assert {c.id: c.size for c in world.clusters.all()} == {five: 4, six: 4}
    world.history.redo("bob")
    split = world.clusters.split(six, ids[:3], "bob")
    assert split.event_id is not None
    new = world.history.events(limit=1)[0].payload["into"]
    assert {c.id: c.size for c in world.clusters.all()} == {six: 5, new: 3}
    outcome = world.labels.label_cluster(new, "five", "ann", without=[ids[0]])
    assert outcome.samples == 2
    # The third sample was not labeled; rescoring may recognize it at any moment.
    assert [world.pool.get(i).label for i in ids[:3]] == [None, "five", "five"]
    world.history.undo("ann")
    world.rescorer.wait(timeout=300)
    assert {c.id: c.size for c in world.clusters.all()} == {six: 5, new: 3}
    with pytest.raises(NotFound):
        world.clusters.lease(999, "ann")


def test_exports_hold_everything(world: World, things: Draw, tmp_path: Path) -> None:
    ids = _unknown(world, things(5, 3))
    world.labels.label(ids[:2], "five", "ann")
    world.labels.learn(things(6, 2), ["six"] * 2, "bob")
    labeled = list(world.pool.labeled())
    assert [sample.label for sample, _ in labeled] == ["five", "five", "six", "six"]
    assert np.array_equal(np.array([feature for _, feature in labeled[:2]]), things(5, 3)[:2])
    assert [(event.id, event.kind, event.who) for event in world.history.export()] == [
        (1, "label", "ann"),
        (2, "learn", "bob"),
    ]
    path = tmp_path / "exported.ow"
    path.write_bytes(world.model.to_bytes())
    probe = things(6, 4, 3)
    assert model_file.load(path).predict(probe).tolist() == world.recognize(probe).labels


def test_subscribers_are_notified_of_events_and_of_the_pool(world: World, things: Draw) -> None:
    world.rescorer.wait(timeout=300)
    with world.notifications.subscribe() as changes:
        ids = _unknown(world, things(5, 3))
        world.labels.label(ids[:1], "five", "ann")
        world.rescorer.wait(timeout=300)
        heard = [changes.get(300) for _ in range(3)]
        assert changes.get(0) is None
    assert [change.kind for change in heard if change] == ["unknown", "event", "rescored"]
    assert heard[1] is not None
    assert heard[2] is not None
    assert (heard[1].data["kind"], heard[1].data["added"]) == ("label", ("five",))
    assert heard[2].data["recognized"] == 2


def test_keys_open_the_door_until_they_are_revoked(world: World) -> None:
    secret = world.keys.create("ann", "labeler")
    found = world.keys.check(secret)
    assert found is not None
    assert (found.name, found.role) == ("ann", "labeler")
    with pytest.raises(Conflict, match="choose another"):
        world.keys.create("ann", "admin")
    with pytest.raises(Refused, match="viewer, labeler, admin"):
        world.keys.create("bob", "king")  # type: ignore[arg-type]
    world.keys.revoke("ann")
    assert world.keys.check(secret) is None
    (listed,) = world.keys.all()
    assert listed.revoked_at is not None
    with pytest.raises(NotFound):
        world.keys.revoke("ann")


def test_two_worlds_on_one_database_follow_each_other(url: str, things: Draw, models: Models) -> None:
    with World.open(url, models("nno")) as one, World.open(url, alone=False) as two:
        one.labels.learn(things(5, 2), ["five"] * 2, "ann")
        assert two.labels.learn(things(6, 2), ["six"] * 2, "bob").model_version == 2
        one.history.undo("ann")
        assert two.classes.describe("six", "half a dozen", "bob").model_version == 3
        assert _labels(two) == ["a", "b", "c", "six"]
        assert one.model.version == two.model.version == 3
        probe = things(6, 3, 5)
        assert np.array_equal(
            one.recognize(probe).judgement.decision, two.recognize(probe).judgement.decision
        )


def test_a_second_server_on_a_file_is_refused(tmp_path: Path, models: Models) -> None:
    url = f"sqlite:///{tmp_path / 'world.db'}"
    with World.open(url, models("nno")), pytest.raises(StorageError, match="in use by another openworld"):
        World.open(url)
    World.open(url).close()


def test_recognition_continues_while_people_label(world: World, things: Draw) -> None:
    failures: list[BaseException] = []
    seen: list[list[int]] = [[], []]
    done = threading.Event()

    def recognize(number: int) -> None:
        seed = 0
        try:
            while not done.is_set():
                seed += 1
                answers = world.recognize(things(4 + seed % 6, 2, 1000 * number + seed))
                seen[number].append(answers.model_version)
                for label, sample_id in zip(answers.labels, answers.sample_ids, strict=True):
                    assert (label is None) == (sample_id is not None)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=recognize, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for kind in range(4, 10):
        world.labels.learn(things(kind, 2, 77), [f"k{kind}"] * 2, "ann")
    done.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert all(versions == sorted(versions) for versions in seen)
    assert world.model.version == 6
    world.rescorer.wait(timeout=300)
    world.close()


def test_a_mistyped_database_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="openworld serve DATA"):
        World.open(f"sqlite:///{tmp_path / 'typo.db'}")
    with pytest.raises(FileNotFoundError, match="no model"):
        World.open(f"sqlite:///{tmp_path / 'new.db'}", tmp_path / "no model.ow")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("recognizer", ["nno", "0.1"])
def test_labels_that_are_numbers_are_served_as_texts(tmp_path: Path, recognizer: str) -> None:
    X = np.vstack([np.random.default_rng(kind).normal(20 * kind, 0.5, (12, 4)) for kind in range(12)])
    y = np.repeat(np.arange(12), 12)
    model = (
        NearestNonOutlier(EuclideanMetric(standardize=False), tau=3.0)
        if recognizer == "nno"
        else OpenWorldRecognizer(n_lifted=0, refresh_growth=0.1)
    ).fit(X, y)
    url, far = f"sqlite:///{tmp_path / 'world.db'}", np.full((1, 4), 1000.0)
    for _ in range(2):  # the same model is recognized the second time
        with World.open(url, model) as world:
            answers = world.recognize(np.vstack([X, far]), remember=False)
            expected = [None if label == -1 else str(label) for label in model.predict(X).tolist()]
            assert answers.labels == [*expected, None]
            assert np.array_equal(answers.judgement.decision[:-1], model.judge(X).decision)
            assert _labels(world) == [str(i) for i in range(12)]


def test_a_world_starts_from_nothing_and_returns_to_it(url: str, things: Draw) -> None:
    made = []

    def first() -> ColdStartRecognizer:
        made.append(1)
        return ColdStartRecognizer().start(4)

    X = np.vstack([things(kind, 12) for kind in range(3)])
    with World.open(url, first) as world:
        answers = world.recognize(X)
        assert answers.labels == [None] * 36
        assert answers.rows()[0]["distance"] is None
        ids = [i for i in answers.sample_ids if i is not None]
        world.labels.label(ids[:12], "a", "ann")
        assert world.recognize(things(0, 3, 1), remember=False).labels == [None] * 3  # one class: unknown
        assert world.classes.get("a").nearest is None
        world.labels.label(ids[12:24], "b", "ann")
        assert world.recognize(np.vstack([things(0, 1, 1), things(1, 1, 1), things(2, 1, 1)])).labels == [
            "a",
            "b",
            None,
        ]
        learned = model_file.digest(world.model.to_bytes())
    with World.open(url, first) as world:  # replayed from the log
        assert model_file.digest(world.model.to_bytes()) == learned
        assert world.model.version == 2
        for _ in range(2):
            world.history.undo("ann")
        assert _labels(world) == []
        assert model_file.digest(world.model.to_bytes()) == model_file.digest(model_file.dumps(first()))
        for _ in range(2):
            world.history.redo("ann")
        assert model_file.digest(world.model.to_bytes()) == learned
        world.history.undo("ann")
        world.classes.forget("a", "ann")  # the last class
        assert _labels(world) == []
    assert len(made) == 2  # the second one by this test
