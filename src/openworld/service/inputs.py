"""Pictures and texts of requests -> features and thumbnails, by the model's own extractor."""

from __future__ import annotations

import io
import threading
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import structlog
from anyio import CapacityLimiter, to_thread
from numpy.typing import NDArray

from openworld.features.decode import count_pixels, decode
from openworld.features.extractor import (
    Extractor,
    ExtractorId,
    Kind,
    WrongExtractor,
    extractor_for,
    load_extractor,
    require_same,
)
from openworld.features.picture_limits import PictureError
from openworld.service.settings import ServiceSettings
from openworld.service.validation import Conflict, Refused
from openworld.service.world import World
from openworld.store.records import SampleContent

if TYPE_CHECKING:
    from PIL.Image import Image

THUMBNAIL_SIDE = 256

_log = structlog.get_logger("openworld.inputs")

_REQUESTS_AT_ONCE = 2  # with pictures
_LARGE = 16_000_000  # pixels
_NO_SAMPLES = "No samples were given."

Features = NDArray[np.floating[Any]]


class Inputs:
    """Turns the pictures and texts of requests into features."""

    def __init__(self, world: World, settings: ServiceSettings) -> None:
        self._world, self._settings = world, settings
        self._extractor: Extractor | None = None
        self._lock, self._large = threading.Lock(), threading.Lock()
        self.turns = CapacityLimiter(_REQUESTS_AT_ONCE)

    def prepare(self) -> None:
        """Load the extractor of the model, if it names one.

        Raises
        ------
        Refused
            If a package that it needs is not installed. A file that is missing is only logged: the service
            can do without it as long as it gets vectors.
        """
        try:
            _ = self.kind
        except Conflict as error:
            if isinstance(error.__cause__, ImportError):
                raise Refused(f"This model takes pictures or texts, but cannot read them. {error}") from error
            _log.warning("extractor not available", reason=str(error))

    @property
    def kind(self) -> Kind | None:
        """The input of the model's extractor, image or text; None for a model of vectors."""
        return None if self._world.model.extractor is None else self._loaded().kind

    def texts(self, texts: Sequence[str], source: str | None = None) -> tuple[Features, list[SampleContent]]:
        """Return the features of texts."""
        for text in texts:
            self.check_text(text)
        if not texts:
            raise Refused(_NO_SAMPLES)
        return self._require("text").transform(texts), [SampleContent("text", text, source) for text in texts]

    def check_text(self, text: str) -> None:
        """Raise `Refused` if a text is too long."""
        if len(text) > self._settings.max_text:
            raise Refused(
                f"A text can have at most {self._settings.max_text:,} characters; one has {len(text):,}."
            )

    async def pictures_in_turn(
        self, files: Sequence[tuple[str | None, BinaryIO]]
    ) -> tuple[Features, list[SampleContent]]:
        """Return the features of picture files, in a thread; a few requests at a time.

        The files are read when it is their turn: until then they take no memory.
        """

        def read() -> tuple[Features, list[SampleContent]]:
            return self.pictures([(name, file.read()) for name, file in files])

        return await to_thread.run_sync(read, limiter=self.turns)

    def pictures(self, files: Sequence[tuple[str | None, bytes]]) -> tuple[Features, list[SampleContent]]:
        """Return the features of picture files, given as names and bytes."""
        if not files:
            raise Refused(_NO_SAMPLES)
        extractor, most = self._require("image"), self._settings.max_request_pixels
        sizes = [self._pixels(position, name, data) for position, (name, data) in enumerate(files)]
        if sum(sizes) > most:
            raise Refused(f"The pictures have {sum(sizes):,} pixels; the limit is {most:,}. Send fewer.")
        features, items = [], []
        for position, ((name, data), n_pixels) in enumerate(zip(files, sizes, strict=True)):
            with self._large if n_pixels > _LARGE else nullcontext():  # one by one: it may take 300 MB
                try:
                    picture = decode(data, max_pixels=self._settings.max_pixels)
                except PictureError as error:
                    raise _refused(position, name, error) from error
                features.append(extractor.transform([picture]))
                items.append(self._item(picture, name))
                del picture
        return np.concatenate(features), items

    def _pixels(self, position: int, name: str | None, data: bytes) -> int:
        try:
            return count_pixels(data, max_pixels=self._settings.max_pixels)
        except PictureError as error:
            raise _refused(position, name, error) from error

    def _item(self, picture: Image, name: str | None) -> SampleContent:
        """Return what is stored of a picture: a thumbnail and, where that is smaller, a preview."""
        side = self._settings.preview_side
        larger = min(side, max(picture.size)) > THUMBNAIL_SIDE
        return SampleContent("image", None, name, scaled(picture), scaled(picture, side) if larger else None)

    def _require(self, kind: Kind) -> Extractor:
        """Return the extractor, or raise `Conflict` where the model takes something else."""
        if self._world.model.extractor is None:
            raise Conflict(
                f"This model takes vectors of {self._world.model.n_features} numbers: it was not fitted on "
                f"{'pictures' if kind == 'image' else 'texts'}."
            )
        extractor = self._loaded()
        if extractor.kind != kind:
            takes = "pictures" if extractor.kind == "image" else "texts"
            raise Conflict(f"This model takes {takes}, or vectors of {self._world.model.n_features} numbers.")
        return extractor

    def _loaded(self) -> Extractor:
        with self._lock:
            if self._extractor is None:
                try:
                    self._extractor = self._load()
                except (WrongExtractor, ImportError) as error:
                    raise Conflict(str(error)) from error
            return self._extractor

    def _load(self) -> Extractor:
        wanted = ExtractorId.from_dict(self._world.model.extractor or {})
        if self._settings.extractor is None:
            return extractor_for(wanted)
        extractor = load_extractor(self._settings.extractor)
        require_same(wanted, extractor.id)
        return extractor


def _refused(position: int, name: str | None, error: PictureError) -> Refused:
    return Refused(f"Picture {position} ({name or 'no name'}): {error}.")


def scaled(picture: Image, side: int = THUMBNAIL_SIDE) -> bytes:
    """Return a picture as JPEG, no side longer than `side` pixels."""
    scale = min(1.0, side / max(picture.size))
    width, height = (max(1, round(scale * side)) for side in picture.size)
    file = io.BytesIO()
    picture.resize((width, height), reducing_gap=2.0).save(file, "JPEG", quality=85)
    return file.getvalue()


def media_type(thumbnail: bytes) -> str:
    """Return the media type of a stored thumbnail by its first bytes."""
    for start, name in ((b"\xff\xd8", "jpeg"), (b"\x89PNG", "png"), (b"RIFF", "webp"), (b"GIF8", "gif")):
        if thumbnail.startswith(start):
            return f"image/{name}"
    return "application/octet-stream"
