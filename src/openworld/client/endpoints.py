"""The endpoints of the service that the clients have."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import ArrayLike

from openworld.client.calls import Call, endpoint
from openworld.client.records import Json, Outcome, Page, Recognized

Image = str | PathLike[str] | bytes
Images = Image | Iterable[Image]
Groups = Sequence[str | None]


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _post(path: str, **body: Any) -> Call[Any]:
    return Call("POST", path, {"json": _given(**body)}, idempotent=True)


def _get(path: str, **query: Any) -> Call[Any]:
    return Call("GET", path, {"params": _given(**query)})


def _learn(group: str | None, groups: Groups | None, **body: Any) -> Call[Any]:
    more = {"json": _given(groups=_listed(groups), **body), "params": _given(group=group)}
    return Call("POST", "/v1/learn", more, idempotent=True)


def _listed(groups: Groups | None) -> list[str | None] | None:
    return None if groups is None else list(groups)


def _npy(X: ArrayLike) -> bytes:
    file = io.BytesIO()
    np.save(file, np.ascontiguousarray(X), allow_pickle=False)
    return file.getvalue()


def _files(images: Images) -> list[tuple[str, tuple[str, bytes]]]:
    """Return pictures as the files of a form; those given by path are read."""
    if isinstance(images, str | bytes | PathLike):
        images = [images]
    return [("files", _file(i, image)) for i, image in enumerate(images)]


def _file(number: int, image: Image) -> tuple[str, bytes]:
    """Return name and content."""
    if isinstance(image, bytes):
        return str(number), image
    return Path(image).name, Path(image).read_bytes()


def _class(label: str) -> str:
    if label in (".", ".."):  # no path can end with these
        return f"/v1/classes/-?name={label}"
    return f"/v1/classes/{quote(label, safe='')}"


class Endpoints:
    """The methods of both clients.

    `recognize` sends no Idempotency-Key: a sample that is sent twice is stored once, and `seen` twice.

    Samples of one group are near copies of each other, such as the pictures of a burst: a class learned from
    one group counts as one of a single sample. `group` is that of all samples; `groups` has one for each.
    """

    @endpoint
    def recognize(
        X: ArrayLike, remember: bool = True, nearest: int = 5, group: str | None = None
    ) -> Call[Recognized]:
        """Name the samples of an array of shape (n, D), or answer unknown."""
        query = _given(remember=str(remember).lower(), nearest=nearest, group=group)
        return Call("POST", "/v1/recognize.npy", {"content": _npy(X), "params": query})

    @endpoint
    def recognize_texts(
        texts: Sequence[str],
        remember: bool = True,
        nearest: int = 5,
        group: str | None = None,
        groups: Groups | None = None,
    ) -> Call[Recognized]:
        """Name texts, with a model that was fitted on texts."""
        body = _given(texts=list(texts), remember=remember, nearest=nearest, groups=_listed(groups))
        return Call("POST", "/v1/recognize", {"json": body, "params": _given(group=group)})

    @endpoint
    def recognize_images(
        images: Images, remember: bool = True, nearest: int = 5, group: str | None = None
    ) -> Call[Recognized]:
        """Name pictures, given as paths or as bytes, with a model that was fitted on pictures."""
        query = _given(remember=str(remember).lower(), nearest=nearest, group=group)
        return Call("POST", "/v1/recognize/images", {"files": _files(images), "params": query})

    @endpoint
    def learn(
        X: ArrayLike, labels: Sequence[str], group: str | None = None, groups: Groups | None = None
    ) -> Call[Outcome]:
        """Learn labeled samples, of known and of new classes."""
        return _learn(group, groups, vectors=np.asarray(X).tolist(), labels=list(labels))

    @endpoint
    def learn_texts(
        texts: Sequence[str], labels: Sequence[str], group: str | None = None, groups: Groups | None = None
    ) -> Call[Outcome]:
        """Learn labeled texts."""
        return _learn(group, groups, texts=list(texts), labels=list(labels))

    @endpoint
    def learn_images(images: Images, labels: Sequence[str], group: str | None = None) -> Call[Outcome]:
        """Learn labeled pictures, given as paths or as bytes."""
        form = {"files": _files(images), "data": {"labels": list(labels)}, "params": _given(group=group)}
        return Call("POST", "/v1/learn/images", form, idempotent=True)

    @endpoint
    def pool(after: str | None = None, limit: int = 100, **filters: Any) -> Call[Page]:
        """List samples, by default the pending ones; the filters are those of ``GET /v1/pool``."""
        return _get("/v1/pool", after=after, limit=limit, **filters)

    @endpoint
    def clusters() -> Call[Json]:
        """List the clusters of the pool, and the progress of the clustering."""
        return _get("/v1/clusters")

    @endpoint
    def label(sample_ids: Sequence[int], label: str) -> Call[Outcome]:
        """Give samples a label, and learn them."""
        return _post("/v1/label", sample_ids=list(sample_ids), label=label)

    @endpoint
    def label_cluster(cluster_id: int, label: str, without: Sequence[int] = ()) -> Call[Outcome]:
        """Give the samples of a cluster a label, except some, and learn them."""
        return _post("/v1/label", cluster_id=cluster_id, label=label, without=list(without))

    @endpoint
    def dismiss(sample_ids: Sequence[int], reason: str = "") -> Call[Outcome]:
        """Take samples out of the pool that belong to no class, or are bad input."""
        return _post("/v1/dismiss", sample_ids=list(sample_ids), reason=reason)

    @endpoint
    def accept(sample_id: int, label: str) -> Call[Outcome]:
        """Say that a rejected sample is of a known class."""
        return _post("/v1/accept", sample_id=sample_id, label=label)

    @endpoint
    def feedback(reviews: list[Json]) -> Call[Outcome]:
        """Review recognized samples: each a dict of `sample_id` and one of `right`, `label`, `unknown`."""
        return _post("/v1/feedback", reviews=reviews)

    @endpoint
    def quality() -> Call[list[Json]]:
        """Estimate how often recognition is right: all classes together, then each class."""
        return _get("/v1/quality")

    @endpoint
    def operating_point(preview: str | None = None) -> Call[Json]:
        """Return the objective in force; with another as `preview`, also what that would change."""
        return _get("/v1/operating-point", preview=preview)

    @endpoint
    def move_operating_point(objective: str) -> Call[Outcome]:
        """Make the threshold reach another objective: error, f1=0.9, far=0.05 or recall=0.95."""
        return Call("PATCH", "/v1/operating-point", {"json": {"objective": objective}}, idempotent=True)

    @endpoint
    def classes(search: str = "") -> Call[list[Json]]:
        """List the known classes."""
        return _get("/v1/classes", search=search)

    @endpoint
    def change_class(
        label: str, new_label: str | None = None, description: str | None = None
    ) -> Call[list[Outcome]]:
        """Rename or describe a class."""
        body = _given(label=new_label, description=description)
        return Call("PATCH", _class(label), {"json": body}, idempotent=True)

    @endpoint
    def merge_classes(labels: Sequence[str], into: str) -> Call[Outcome]:
        """Make one class of several."""
        return _post("/v1/classes/merge", labels=list(labels), into=into)

    @endpoint
    def forget(label: str) -> Call[Outcome]:
        """Forget a class; its samples return to the pool."""
        return Call("DELETE", _class(label), idempotent=True)

    @endpoint
    def keys() -> Call[list[Json]]:
        """List the API keys (admin)."""
        return _get("/v1/keys")

    @endpoint
    def create_key(name: str, role: str = "labeler") -> Call[Json]:
        """Make an API key (admin); `key` in the answer is its secret, which is shown once."""
        return Call("POST", "/v1/keys", {"json": {"name": name, "role": role}})

    @endpoint
    def revoke_key(name: str) -> Call[None]:
        """Revoke an API key (admin)."""
        return Call("DELETE", f"/v1/keys/{quote(name, safe='')}", parse=lambda response: None)

    @endpoint
    def undo(event_id: int | None = None) -> Call[Outcome]:
        """Undo an event: by default your last one."""
        return _post("/v1/undo", event_id=event_id)

    @endpoint
    def redo(event_id: int | None = None) -> Call[Outcome]:
        """Redo an event: by default the one you undid last."""
        return _post("/v1/redo", event_id=event_id)

    @endpoint
    def history(before: int | None = None, limit: int = 100) -> Call[list[Json]]:
        """List events, newest first."""
        return _get("/v1/history", before=before, limit=limit)

    @endpoint
    def versions(before: int | None = None, limit: int = 100) -> Call[list[Json]]:
        """List versions of the model, newest first."""
        return _get("/v1/versions", before=before, limit=limit)

    @endpoint
    def activate(version: int) -> Call[Outcome]:
        """Roll back to the model of an earlier version."""
        return _post(f"/v1/versions/{version}/activate")

    @endpoint
    def progress() -> Call[dict[str, int]]:
        """Count samples by state, of everyone and of yourself."""
        return _get("/v1/progress")

    @endpoint
    def export_model() -> Call[bytes]:
        """Return the model in force as the bytes of a file that `openworld.load` reads."""
        return Call("GET", "/v1/export/model", {}, lambda response: bytes(response.content))
