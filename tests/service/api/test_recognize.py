from __future__ import annotations

import io
import struct

import numpy as np
import pyarrow
import pytest
from PIL import Image

from openworld import EuclideanMetric, NearestNonOutlier
from openworld.features.extractor import load_extractor
from openworld.service.validation import Refused
from openworld.service.world import World

NPY = "/v1/recognize.npy"
ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}
JSON = {"Content-Type": "application/json"}


def test_answers_are_those_of_the_world(client, world, things):
    X = np.vstack([things(0, 2), things(5, 1)])
    found = client.post("/v1/recognize", json={"vectors": X.tolist(), "remember": False}).json()
    expected = world.recognize(X, remember=False)
    assert found["model_version"] == 0
    assert found["threshold"] == 3.0
    assert [answer["label"] for answer in found["answers"]] == ["a", "a", None] == expected.labels
    assert [answer["unknown"] for answer in found["answers"]] == [False, False, True]
    np.testing.assert_allclose(
        [answer["decision"] for answer in found["answers"]], expected.judgement.decision
    )
    nearest = [[near["label"] for near in answer["nearest"]] for answer in found["answers"]]
    assert nearest == expected.judgement.nearest.tolist()
    for answer in found["answers"]:
        assert answer["distance"] == answer["nearest"][0]["distance"]
        assert answer["decision"] == pytest.approx(1 - answer["distance"] / 3)
        for near in answer["nearest"]:
            assert near["membership"] == pytest.approx(np.clip(1 - near["distance"] / 3, 0, 1))


def test_unknown_samples_go_to_the_pool_once(client, things):
    body = {"vectors": things(5, 2).tolist(), "source": "camera 1"}
    first, second = (client.post("/v1/recognize", json=body).json() for _ in range(2))
    ids = [answer["sample_id"] for answer in first["answers"]]
    assert ids == [answer["sample_id"] for answer in second["answers"]]
    sample = client.get(f"/v1/samples/{ids[0]}").json()
    assert (sample["source"], sample["seen"], sample["state"]) == ("camera 1", 2, "pending")


def test_what_is_not_to_be_remembered_is_not(client, things, as_npy):
    assert client.post(NPY + "?remember=false", content=as_npy(things(5))).status_code == 200
    client.post("/v1/recognize", json={"vectors": things(5).tolist(), "remember": False})
    assert client.get("/v1/pool").json() == {"samples": [], "next": None}


@pytest.mark.parametrize("shape", ["one", "many"])
def test_binary_and_json_agree(client, things, as_npy, shape):
    X = things(5, 3) if shape == "many" else things(1)
    binary = client.post(NPY + "?nearest=2", content=as_npy(X if shape == "many" else X[0])).json()
    text = client.post("/v1/recognize", json={"vectors": X.tolist(), "nearest": 2}).json()
    assert binary == text
    assert len(text["answers"][0]["nearest"]) == 2


def test_arrow_agrees_with_npy(client, things, as_npy):
    X = things(0, 3)
    column = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(X.ravel()), 4)
    found = client.post(NPY, content=_arrow(column), headers=ARROW)
    assert found.json() == client.post(NPY, content=as_npy(X)).json()


def _arrow(column: pyarrow.Array, compression: str | None = None) -> bytes:
    file = io.BytesIO()
    batch = pyarrow.record_batch([column], names=["vector"])
    options = pyarrow.ipc.IpcWriteOptions(compression=compression)
    with pyarrow.ipc.new_stream(file, batch.schema, options=options) as stream:
        stream.write_batch(batch)
    return file.getvalue()


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([[1.0] * 4, [1.0] * 2, [1.0] * 6], "Row 1 is missing, or is not a list of as many"),
        ([[1.0] * 3, [1.0] * 5], "Row 1 is missing"),
        ([[1.0] * 4, None], "Row 1 is missing"),
        ([None, [1.0] * 4], "Row 0 is missing"),
        (pyarrow.array([[], []], pyarrow.list_(pyarrow.float32())), "Row 0 is missing"),
        ([[], []], "must be lists of numbers, not list"),
        ([[1.0] * 4, [1.0, None, 1.0, 1.0]], "Row 1 has a number that is missing"),
        ([[1] * 4, [1, None, 1, 1]], "Row 1 has a number that is missing"),
        ([["a"] * 4], "lists of numbers"),
        ([1.0, 2.0, 3.0, 4.0], "lists of numbers"),
    ],
)
def test_arrow_rows_that_are_not_whole_are_refused(client, rows, words):
    column = rows if isinstance(rows, pyarrow.Array) else pyarrow.array(rows)
    found = client.post(NPY, content=_arrow(column), headers=ARROW)
    assert found.status_code == 422
    assert words in found.json()["detail"]


def test_arrow_that_unpacks_to_a_thousand_times_its_size_is_refused(client):
    zeros = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(np.zeros(4000, dtype=np.float32)), 4)
    nothing, without = pyarrow.list_(pyarrow.float32(), 0), pyarrow.array([], pyarrow.float32())
    no_bytes = pyarrow.FixedSizeListArray.from_buffers(nothing, 10**6, [None], children=[without])
    words = pyarrow.array(["a"] * 100).dictionary_encode()
    bodies = [_arrow(zeros, "zstd"), _arrow(zeros, "lz4"), _arrow(words), _arrow(no_bytes)]
    for body, words in zip(bodies, [*["without compression"] * 3, "must be lists of numbers"], strict=True):
        found = client.post(NPY, content=body, headers=ARROW)
        assert found.status_code == 422
        assert words in found.json()["detail"]


def test_arrow_offsets_that_point_elsewhere_are_refused(client):
    sound = _arrow(pyarrow.array([[0.0] * 1234]))
    head, _, tail = sound.rpartition(struct.pack("<ii", 0, 1234))  # where the list begins and ends
    body = head + struct.pack("<ii", 0, 100_000_000) + tail
    found = client.post(NPY, content=body, headers=ARROW)
    assert found.status_code == 422
    assert "not an Arrow stream" in found.json()["detail"]


def _pickled() -> bytes:
    file = io.BytesIO()
    np.save(file, np.array([{}]), allow_pickle=True)
    return file.getvalue()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not a .npy file"),
        (b"PK\x03\x04", "not a .npy file"),
        (b"\x93NUMPY\x01\x00", "head"),
        (b"\x93NUMPY\x01\x00\x10\x00" + b"{'descr': broken", "head"),
        (_pickled(), "numbers of shape"),
        (b"cut", "not a .npy file"),
    ],
)
def test_bodies_that_are_no_array_are_refused(client, body, words):
    found = client.post(NPY, content=body)
    assert found.status_code == 422
    assert words in found.json()["detail"]


def test_arrays_that_do_not_fit_are_refused(client, things, as_npy):
    for X, words in (
        (np.zeros((1, 3), np.float32), "samples of 4 numbers"),
        (np.zeros((2, 2, 4), np.float32), "shape (n, D)"),
        (np.asfortranarray(np.zeros((2, 4))), "Fortran"),
        (np.zeros((0, 4), np.float32), "No samples"),
        (np.full((1, 4), np.nan), "NaN"),
        (np.array(["a", "b", "c", "d"]), "numbers"),
        (np.zeros((1, 4), complex), "numbers"),
    ):
        found = client.post(NPY, content=as_npy(X))
        assert found.status_code == 422, words
        assert words in found.json()["detail"]
    assert client.post(NPY, content=as_npy(things(0))[:-1]).status_code == 422


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"vectors": [[1, 2, 3]]}, "vector 0 has 3"),
        ({"vectors": [[1, 2, 3, 4], [1]]}, "vector 1 has 1"),
        ({"vectors": []}, "No samples"),
        ({"vectors": [[1e300, 0, 0, 0]]}, "infinity"),
        ({"vectors": [["x", 0, 0, 0]]}, "body.vectors.0.0"),
        ({}, "either vectors or texts"),
        ({"vectors": [[0, 0, 0, 0]], "texts": ["a"]}, "either vectors or texts"),
        ({"vectors": [[0, 0, 0, 0]], "color": 1}, "color"),
        ({"vectors": [[0, 0, 0, 0]], "nearest": -1}, "nearest"),
    ],
)
def test_json_that_is_wrong_is_refused_in_words(client, body, words):
    found = client.post("/v1/recognize", json=body)
    assert found.status_code == 422
    assert found.json()["error"] == "refused"
    assert words in found.json()["detail"]


def test_nan_in_json_is_refused(client):
    found = client.post("/v1/recognize", content=b'{"vectors": [[NaN, 0, 0, 0]]}', headers=JSON)
    assert found.status_code == 422
    assert "NaN" in found.json()["detail"]


@pytest.mark.parametrize("query", ["?remember=perhaps", "?nearest=x", "?nearest=-1", "?nearest=51"])
def test_wrong_options_of_the_binary_form_are_refused(client, things, as_npy, query):
    assert client.post(NPY + query, content=as_npy(things(0))).status_code == 422


def test_too_many_samples_are_refused(serving, as_npy):
    with serving(max_batch=2) as client:
        for found in (
            client.post("/v1/recognize", json={"vectors": [[0, 0, 0, 0]] * 3}),
            client.post(NPY, content=as_npy(np.zeros((3, 4)))),
        ):
            assert found.status_code == 413
            assert "the limit is 2" in found.json()["detail"]


def test_large_bodies_are_refused_whatever_length_they_claim(serving, as_npy):
    body = as_npy(np.zeros((100, 4)))
    with serving(max_body_mb=0.001) as client:
        assert client.post(NPY, content=body).status_code == 413
        for path in (NPY, "/v1/recognize"):
            found = client.post(path, content=iter([body[:800], body[800:]]))  # no Content-Length
            assert found.status_code == 413
            assert found.json()["error"] == "too large"


def test_a_model_of_vectors_takes_no_pictures_and_texts(client):
    for found in (
        client.post("/v1/recognize", json={"texts": ["hello"]}),
        client.post("/v1/learn", json={"texts": ["hello"], "labels": ["a"]}),
        client.post("/v1/recognize/images", files={"files": b"..."}),
        client.post("/v1/learn/images", files={"files": b"..."}, data={"labels": "a"}),
    ):
        assert found.status_code == 409
        assert "vectors of 4 numbers" in found.json()["detail"]


def test_learning(client, things):
    found = client.post("/v1/learn", json={"vectors": things(5, 3).tolist(), "labels": ["five"] * 3})
    assert found.json()["added"] == ["five"]
    answer = client.post("/v1/recognize", json={"vectors": things(5, 1, seed=1).tolist()}).json()
    assert (answer["model_version"], answer["answers"][0]["label"]) == (1, "five")
    wrong = client.post("/v1/learn", json={"vectors": things(5, 3).tolist(), "labels": ["five"]})
    assert wrong.status_code == 422
    again = client.post("/v1/learn", json={"vectors": things(5, 1).tolist(), "labels": ["six"]})
    assert again.status_code == 409


# -- pictures and texts ---------------------------------------------------------------------------


def _picture(color: tuple[int, int, int], form: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (300, 200), color).save(file, form)
    return file.getvalue()


@pytest.fixture
def picture_client(url, serving):
    extractor = load_extractor("pixels")
    pictures = [Image.new("RGB", (40, 40), (level, other, 0)) for other in (0, 200) for level in (0, 5, 9)]
    model = NearestNonOutlier(EuclideanMetric(standardize=False), tau=4.0)
    model.fit(extractor.transform(pictures), np.repeat(["dark", "green"], 3))
    model.extractor_ = extractor.id.as_dict()
    with World.open(url.replace("world.db", "pictures.db"), model) as world, serving(world) as client:
        yield client


def test_pictures_are_recognized_and_shown_small(picture_client):
    files = [("files", ("night.png", _picture((3, 0, 0)))), ("files", ("sun.jpg", _picture((255, 255, 255))))]
    answers = picture_client.post("/v1/recognize/images", files=files).json()["answers"]
    assert [answer["label"] for answer in answers] == ["dark", None]
    assert answers[0]["nearest"][0]["membership"] == answers[0]["membership"] > 0.5
    assert [near["membership"] for near in answers[1]["nearest"]] == [0, 0]
    path = f"/v1/samples/{answers[1]['sample_id']}"
    assert picture_client.get(path).json()["source"] == "sun.jpg"
    small = picture_client.get(path + "/thumbnail")
    assert small.headers["content-type"] == "image/jpeg"
    assert Image.open(io.BytesIO(small.content)).size == (256, 171)
    tag = {"If-None-Match": small.headers["etag"]}
    assert picture_client.get(path + "/thumbnail", headers=tag).status_code == 304


def test_pictures_are_learnt(picture_client):
    files = [("files", (str(level), _picture((255, level, 255)))) for level in (0, 9)]
    found = picture_client.post("/v1/learn/images", files=files, data={"labels": ["pink"]})
    assert found.json()["added"] == ["pink"]
    answers = picture_client.post("/v1/recognize/images", files={"files": _picture((255, 4, 255))}).json()
    assert answers["answers"][0]["label"] == "pink"


def test_files_that_are_no_pictures_are_refused(picture_client):
    found = picture_client.post("/v1/recognize/images", files={"files": ("a.png", b"nothing")})
    assert found.status_code == 422
    assert "a.png" in found.json()["detail"]
    many = [("files", b"x")] * 65
    assert picture_client.post("/v1/recognize/images", files=many).status_code == 413
    assert picture_client.post("/v1/recognize", json={"texts": ["a"]}).status_code == 409


def test_pictures_wait_on_the_disk_until_it_is_their_turn(picture_client, monkeypatch):
    inputs, files = picture_client.app.state.service.inputs, []

    async def look(given):
        files.extend(file for _, file in given)
        raise Refused("looked")

    monkeypatch.setattr(inputs, "pictures_in_turn", look)
    picture_client.post("/v1/recognize/images", files={"files": bytes(100_000)})
    assert files[0]._rolled  # of SpooledTemporaryFile: no longer in memory


def test_a_picture_with_too_many_pixels_is_refused(picture_client):
    file = io.BytesIO()
    Image.new("1", (9000, 9000)).save(file, "PNG")
    found = picture_client.post("/v1/recognize/images", files={"files": file.getvalue()})
    assert found.status_code == 422
    assert "pixels" in found.json()["detail"]


def test_texts(url, serving):
    extractor = load_extractor("ngrams")
    words = ["red apple", "green apple", "slow train", "fast train"]
    model = NearestNonOutlier(EuclideanMetric(standardize=False), tau=0.9)
    model.fit(extractor.transform(words), np.repeat(["fruit", "railway"], 2))
    model.extractor_ = extractor.id.as_dict()
    with (
        World.open(url.replace("world.db", "texts.db"), model) as world,
        serving(world, max_text=20) as client,
    ):
        found = client.post("/v1/recognize", json={"texts": ["an apple", "xyzzy"]}).json()["answers"]
        assert [answer["label"] for answer in found] == ["fruit", None]
        assert client.get(f"/v1/samples/{found[1]['sample_id']}").json()["text"] == "xyzzy"
        assert client.get("/v1/pool", params={"text": "XYZ"}).json()["samples"]
        learned = client.post("/v1/learn", json={"texts": ["xyzzy"], "labels": ["magic"]})
        assert learned.json()["added"] == ["magic"]
        assert client.post("/v1/recognize", json={"texts": ["x" * 21]}).status_code == 422
        assert client.post("/v1/recognize/images", files={"files": b"x"}).status_code == 409


# -- groups ---------------------------------------------------------------------------------------


def _group_of(client, answer):
    return client.get(f"/v1/samples/{answer['sample_id']}").json()["group"]


def test_groups_are_stored_with_the_samples(client, things, as_npy):
    vectors = things(5, 4).tolist()
    burst = {"group": " bürst 1 "}
    first = client.post("/v1/recognize", json={"vectors": vectors[:1]}, params=burst).json()["answers"]
    rows = as_npy(things(6, 1))
    first += client.post("/v1/recognize.npy", content=rows, params=burst).json()["answers"]
    assert [_group_of(client, answer) for answer in first] == ["bürst 1"] * 2
    each = {"vectors": vectors[1:], "groups": ["a", None, ""]}
    assert [_group_of(client, one) for one in client.post("/v1/recognize", json=each).json()["answers"]] == [
        "a",
        None,
        None,
    ]
    assert all("group" in sample for sample in client.get("/v1/pool").json()["samples"])


def test_groups_are_learned_with_labels(client, world, things):
    body = {"vectors": things(5, 3).tolist(), "labels": ["five"] * 3, "groups": ["a", "a", None]}
    assert client.post("/v1/learn", json=body).json()["samples"] == 3
    body = {"vectors": things(6, 2).tolist(), "labels": ["six"] * 2}
    client.post("/v1/learn", json=body, params={"group": "b"})
    assert [event.payload.get("groups") for event in world.history.export()] == [["a", "a", ""], ["b", "b"]]


def test_pictures_of_a_group(picture_client):
    burst = {"group": "burst"}
    files = {"files": _picture((255, 255, 255))}
    found = picture_client.post("/v1/recognize/images", files=files, params=burst).json()["answers"]
    assert _group_of(picture_client, found[0]) == "burst"
    files = [("files", (str(level), _picture((255, level, 255)))) for level in (0, 9)]
    picture_client.post("/v1/learn/images", files=files, data={"labels": ["pink"]}, params=burst)
    (event,) = picture_client.app.state.service.world.history.export()
    assert event.payload["groups"] == ["burst"] * 2


@pytest.mark.parametrize(
    ("params", "groups", "words"),
    [
        ({"group": "x" * 201}, None, "200 characters"),
        ({"group": "a\0b"}, None, "NUL"),
        ({"group": "a"}, ["a", "b"], "either"),
        ({}, ["a"], "there are 2 samples and 1 groups: give one for each"),
        ({}, ["a", "x" * 201], "200 characters"),
        ({}, ["a", "\0"], "cannot be stored"),
        ({}, ["a", 7], "string"),
        ({}, "ab", "array"),
    ],
)
def test_wrong_groups_are_refused_and_nothing_is_stored(client, world, things, as_npy, params, groups, words):
    body = {"vectors": things(5, 2).tolist()} | ({} if groups is None else {"groups": groups})
    found = [
        client.post("/v1/recognize", json=body, params=params),
        client.post("/v1/learn", json={**body, "labels": ["five"] * 2}, params=params),
    ]
    if groups is None:
        found.append(client.post("/v1/recognize.npy", content=as_npy(things(5, 2)), params=params))
    for answer in found:
        assert answer.status_code == (400 if "\0" in params.get("group", "") else 422)
        assert words in answer.json()["detail"]
    assert world.pool.count() == 0
    assert list(world.history.export()) == []
