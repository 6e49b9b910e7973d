"""Shared by `serve DATA` and `import`: take samples into a world, with progress and a summary."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from openworld.cli.console import Progress, messages, plural, show_notes
from openworld.data.sources import Source, as_source

if TYPE_CHECKING:
    from openworld.data.stream import Stream
    from openworld.service.dependencies import ServiceState
    from openworld.service.intake import Intake, IntakeSummary
    from openworld.service.settings import ServiceSettings

_REFUSALS_SHOWN = 10


def open_samples(path: str, group_column: str | None = None) -> Source | Stream:
    """Open pictures, texts or vectors at a path, and print notes."""
    from openworld.data.columns import Columns
    from openworld.data.streams import open_stream

    columns = Columns(group=group_column)
    data = as_source(path, columns=columns) or open_stream(path, columns=columns)
    show_notes(data.notes)
    return data


def first_model(data: Source | Stream, settings: ServiceSettings) -> Callable[[], Any] | None:
    """Return a function that creates the first model for these data; None if the settings name a model."""
    from openworld.features.extractor import DEFAULTS
    from openworld.service.app import starting_model

    if settings.model is not None or settings.extractor is not None or settings.features is not None:
        return None
    update = {"extractor": DEFAULTS[data.kind]} if isinstance(data, Source) else {"features": data.n_features}
    return partial(starting_model, settings.model_copy(update=update))


def take(intake: Intake, data: Source | Stream, doing: str, stopped: Event | None = None) -> IntakeSummary:
    """Take in samples with a progress bar, until `stopped` is set."""
    with Progress(doing, len(data)) as progress:
        for summary in intake.take(data):
            progress.update(summary.done, summary.total)
            if stopped is not None and stopped.is_set():
                break
    return intake.finish()


def say(summary: IntakeSummary) -> None:
    """Print how many samples had which outcome, and list the refused ones."""
    parts = [
        (summary.learned, "learned"),
        (summary.known_before, "learned before"),
        (summary.unknown, "unknown: they wait to be named"),
        (summary.recognized, "recognized"),
        (summary.refused, "refused"),
    ]
    counts = [f"{count:,} {what}" for count, what in parts if count]
    messages.print(f"{plural(summary.done, 'sample')}: {'; '.join(counts)}." if counts else "No samples.")
    for name, reason in summary.refusals[:_REFUSALS_SHOWN]:
        messages.print(f"  [yellow]{escape(name)}[/]: {escape(reason)}", soft_wrap=True)
    if summary.refused > _REFUSALS_SHOWN:
        messages.print(f"  ... and {summary.refused - _REFUSALS_SHOWN:,} more.")


def in_any_order(source: Source) -> Source:
    """Return the items in a fixed order that does not depend on their labels.

    Then the first samples to be learned are of many classes.
    """
    items = sorted(source, key=lambda item: hashlib.sha256(item.name.encode()).digest())
    return replace(source, items=lambda: iter(items))


@contextmanager
def feeding(feed: Callable[[Event], None]) -> Iterator[None]:
    """Run a function that feeds samples in a thread during the context; the event signals it to stop."""
    stopped = Event()
    feeder = Thread(target=feed, args=(stopped,), name="openworld-feed", daemon=True)
    feeder.start()
    try:
        yield
    finally:
        stopped.set()
        feeder.join()


class DataFeed:
    """Data for a service: labeled samples are learned before it starts, the others are fed while it runs."""

    def __init__(self, data: Source | Stream, *, labels: bool) -> None:
        self._labeled: list[Source | Stream] = []
        self._others: list[Source | Stream] = []
        if not isinstance(data, Source):
            self._labeled = [data]
        else:
            learned = _part(data, lambda label: labels and label is not None)
            others = _part(data, lambda label: not labels or label is None)
            self._labeled = [in_any_order(learned)] if len(learned) else []
            self._others = [others] if len(others) else []
        self._labels = labels

    @contextmanager
    def into(self, service: ServiceState) -> Iterator[None]:
        """Learn the labeled samples, and feed the others from a thread during the context."""
        for data in self._labeled:
            say(take(self._intake(service), data, "Learning"))
        with feeding(partial(self._feed, service)):
            yield

    def _feed(self, service: ServiceState, stopped: Event) -> None:
        for data in self._others:
            intake = self._intake(service)
            try:
                summary = take(intake, data, "Reading", stopped)
            except Exception as error:  # the service continues without the remaining samples
                messages.print(
                    f"[red]Reading {escape(data.name)} ended:[/] {escape(str(error))}", soft_wrap=True
                )
                summary = intake.summary
            if not stopped.is_set():
                say(summary)

    def _intake(self, service: ServiceState) -> Intake:
        from openworld.service.intake import Intake

        return Intake(
            service.world,
            service.inputs,
            "import",
            answered=service.metrics.imported,
            labels=self._labels,
        )


def _part(source: Source, wanted: Callable[[str | None], bool]) -> Source:
    items = [item for item in source if wanted(item.label)]
    return replace(source, n_items=len(items), items=lambda: iter(items))
