"""The unknown pool: its clusters as cards, its map, and the workbench to select and label samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlencode

import numpy as np
from fastapi import APIRouter, Depends, Form, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from openworld.service.corrections import NEWEST, corrections_of
from openworld.service.dependencies import get_state
from openworld.service.pages.classes import kept_examples
from openworld.service.pages.page import kind_of, numbers, page, person, render, world_of
from openworld.service.pool import Order
from openworld.service.schemas import Id
from openworld.service.validation import NotFound, Refused
from openworld.service.world import World
from openworld.store.records import ClassDistance, PoolCluster, PoolFilter, Sample

_CARDS = 48
_CORRECTIONS = 20
_PREVIEWED = 6

router = APIRouter()
_TILES = 120
_OPTIONS = 9  # one for each digit key
_RECENT = 20  # events searched for labels used lately
_JUDGED = 500  # samples that stand for a larger selection


@router.get("/")
def unknowns(request: Request, order: Order = "gain") -> HTMLResponse:
    """Show the clusters of the pool, in the order to look at them."""
    world, clustering = world_of(request), get_state(request).clustering
    clusters = world.clusters.all(order)
    return page(
        request,
        "unknowns.html",
        n_clusters=len(clusters),
        unclustered=world.pool.count(PoolFilter(clustered=False)),
        n_classes=len(world.classes.all()),
        n_features=world.model.n_features,
        kind=kind_of(request),
        finer=clustering.finer,
        has_run=not clustering.state.running and (bool(clusters) or clustering.has_run),
        **_cards(world, clusters, 0, person(request).name, order),
    )


@router.get("/unknowns/cards")
def cards(
    request: Request, start: Annotated[int, Query(ge=0, le=10**6)], order: Order = "gain"
) -> HTMLResponse:
    """Return more cards of the list."""
    world = world_of(request)
    found = world.clusters.all(order)
    return render("cards.html", **_cards(world, found, start, person(request).name, order))


def _cards(world: World, clusters: list[PoolCluster], start: int, me: str, order: Order) -> dict[str, Any]:
    shown = clusters[start : start + _CARDS]
    pages = [world.pool.page(PoolFilter(cluster=c.id), limit=_PREVIEWED).samples for c in shown]
    suggested = _suggested_classes(world, [[sample.id for sample in samples] for samples in pages])
    end = start + _CARDS
    more = end if end < len(clusters) else None
    rows = zip(shown, pages, suggested, strict=True)
    return {"cards": rows, "mine": me, "order": order, "next_start": more}


@router.get("/map")
def pool_map(request: Request) -> HTMLResponse:
    """Show the map; the script draws it from the API."""
    return page(request, "map.html", cluster=None)


@router.get("/unknowns/next")
def next_cluster(request: Request, cluster: Id | None = None) -> RedirectResponse:
    """Redirect to the next cluster that nobody else holds."""
    return RedirectResponse(_next_address(request, cluster, ()), 303, {"Cache-Control": "no-store"})


@router.get("/unknowns/next/address")
def next_address(
    request: Request, cluster: Id | None = None, without: Annotated[str, Query(max_length=1000)] = ""
) -> JSONResponse:
    """Return the address of the next cluster, without some that are being processed."""
    return JSONResponse({"address": _next_address(request, cluster, numbers(without))})


def _next_address(request: Request, cluster: int | None, without: Container[int]) -> str:
    clusters = [c for c in world_of(request).clusters.all() if c.id == cluster or c.id not in without]
    found = next_free(clusters, cluster or 0, person(request).name)
    return f"/unknowns/group?cluster={found.id}" if found else "/"


def next_free(clusters: Sequence[PoolCluster], cluster_id: int, who: str | None) -> PoolCluster | None:
    """Return the next cluster of a circular list that nobody else holds."""
    places = {cluster.id: place for place, cluster in enumerate(clusters)}
    start = places.get(cluster_id, -1) + 1
    for cluster in (*clusters[start:], *clusters[:start]):
        if cluster.id != cluster_id and cluster.holder in (None, who):
            return cluster
    return None


@router.get("/unknowns/merging")
def merging(request: Request, cluster: Id) -> HTMLResponse:
    """Return the clusters that one can be merged with."""
    world, me = world_of(request), person(request).name
    others = [c for c in world.clusters.all() if c.id != cluster and c.holder in (None, me)][:_CARDS]
    samples = [(c, world.pool.page(PoolFilter(cluster=c.id), limit=1).samples) for c in others]
    return render("merging.html", cluster=cluster, others=samples)


# -- the workbench --------------------------------------------------------------------------------


@dataclass(frozen=True)
class SampleGroup:
    """Samples, chosen by cluster, search text, a sample they are similar to, answer or label, or at random.

    With an answer: recognized samples that the model named so, least certain first. With a label: the samples
    of a class. At random: the recognized samples that were drawn to estimate the accuracy, as they came.
    Without any of these: the pending samples that are not in a cluster.
    """

    cluster: int | None = None
    text: str | None = None
    like: int | None = None
    answer: str | None = None
    label: str | None = None
    random: bool = False

    @property
    def reviewed(self) -> bool:
        """Whether these are recognized samples, to say whether they are right."""
        return self.random or self.answer is not None

    @property
    def query(self) -> str:
        """The group as the query of a URL."""
        values = {"cluster": self.cluster, "text": self.text, "like": self.like, "answer": self.answer}
        values |= {"of": self.label, "random": "true" if self.random else None}
        return urlencode({name: value for name, value in values.items() if value is not None})

    @property
    def filter(self) -> PoolFilter:
        """The group as a filter of the pool."""
        if self.cluster is not None:
            return PoolFilter(cluster=self.cluster)
        if self.text is not None:
            return PoolFilter(text=self.text)
        if self.answer is not None:
            return PoolFilter(state="recognized", answer=self.answer, least_certain_first=True)
        if self.label is not None:
            return PoolFilter(state="labeled", label=self.label)
        if self.random:
            return PoolFilter(state="recognized", random=True)
        return PoolFilter(clustered=False)

    def size(self, world: World) -> int:
        """Count the samples of a group that has more than a page of them."""
        return world.pool.count(self.filter)

    def page(self, world: World, after: str | None) -> tuple[Sequence[Sample], str | None]:
        """Return some samples, and the cursor of the next ones."""
        if self.like is not None:
            return self._similar(world), None
        found = world.pool.page(self.filter, after, _TILES)
        return found.samples, found.next

    def ids(self, world: World, most: int | None = None, without: Sequence[int] = ()) -> list[int]:
        """Return the ids of the samples in their order, without some."""
        excluded = set(without)
        if self.like is not None:
            return [sample.id for sample in self._similar(world) if sample.id not in excluded][:most]
        found = world.pool.ids(self.filter, None if most is None else most + len(excluded))
        return [i for i in found if i not in excluded][:most]

    def _similar(self, world: World) -> list[Sample]:
        assert self.like is not None
        itself = world.pool.get(self.like)
        others = [sample for sample, _ in world.pool.similar(self.like, _TILES - 1)]
        return [itself, *others] if itself.state == "pending" else others


def group_of(
    cluster: Id | None = None,
    text: str | None = None,
    like: Id | None = None,
    answer: Annotated[str | None, Query(max_length=200)] = None,
    of: Annotated[str | None, Query(max_length=200)] = None,
    random: bool = False,
) -> SampleGroup:
    """Return the group of a query."""
    return SampleGroup(cluster, text or None, like, answer or None, of or None, random)


OfGroup = Annotated[SampleGroup, Depends(group_of)]


@router.get("/unknowns/group")
def workbench(request: Request, group: OfGroup) -> Response:
    """Show the samples of a group, to select and label."""
    world = world_of(request)
    try:
        cluster = world.clusters.get(group.cluster) if group.cluster is not None else None
        samples, after = group.page(world, None)
        of_class = _of_class(world, group.label) if group.label else {}
    except NotFound as error:
        return page(request, "gone.html", 404, message=str(error))
    return page(
        request,
        "workbench.html",
        group=group,
        cluster=cluster,
        samples=samples,
        after=after,
        total=len(samples) if after is None else group.size(world),
        **of_class,
    )


def _of_class(world: World, label: str) -> dict[str, Any]:
    """Return the details of a class that its page shows beside the samples."""
    corrections = corrections_of(world.event_log, label)[:_CORRECTIONS]
    return {
        "info": world.classes.get(label, 0),
        "kept": kept_examples(world, label),
        "confused": world.recognized.confused_with(label),
        "near": world.classes.similar(label),
        "searched": NEWEST if len(world.event_log.headers) > NEWEST else None,
        "corrections": [(one, world.pool.some(one.samples[:_PREVIEWED])) for one in corrections],
    }


@router.get("/unknowns/members")
def members(request: Request, group: OfGroup, after: Annotated[str, Query(max_length=40)]) -> HTMLResponse:
    """Return more tiles of a group."""
    samples, following = group.page(world_of(request), after)
    return render("tiles.html", samples=samples, after=following, group=group)


@router.get("/unknowns/some")
def some(request: Request, ids: Annotated[str, Query(max_length=2000)]) -> HTMLResponse:
    """Return the samples with these ids, as small pictures or texts."""
    return render("faces_of.html", samples=world_of(request).pool.some(numbers(ids)))


@router.get("/unknowns/ids")
def ids(request: Request, group: OfGroup) -> JSONResponse:
    """Return the ids of a whole group, for requests that take samples."""
    return JSONResponse(group.ids(world_of(request)))


@router.get("/unknowns/sample/{sample_id}")
def sample(request: Request, sample_id: Id) -> HTMLResponse:
    """Return the details of one sample, and why it was not recognized."""
    try:
        found = world_of(request).pool.get(sample_id)
    except NotFound as error:
        return render("message.html", 404, message=str(error))
    return render("sample.html", sample=found, me=person(request))


# -- suggestions ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Option:
    """A label to choose, with its distance where the class is one of the nearest.

    `share` is the share of the samples whose nearest class it is.
    """

    label: str
    distance: float | None
    share: float = 0.0


@router.post("/unknowns/hints")
def hints(
    request: Request,
    label: Annotated[str, Form()] = "",
    search: Annotated[str, Form()] = "",
    chosen: Annotated[str, Form()] = "",
    without: Annotated[str, Form()] = "",
    count: Annotated[int, Form()] = 0,
    cluster: Annotated[Id | None, Form()] = None,
    text: Annotated[str | None, Form()] = None,
    like: Annotated[Id | None, Form()] = None,
    answer: Annotated[str | None, Form()] = None,
    of: Annotated[str | None, Form()] = None,
    random: Annotated[bool, Form()] = False,
) -> HTMLResponse:
    """Return labels to choose from and, for the label typed, what would change.

    `chosen` are the selected samples, by commas; if it is empty, the whole group except `without`.
    """
    if not count:
        return render("hints.html", options=[], preview=None, count=0, label=label)
    world = world_of(request)
    group = group_of(cluster, text, like, answer, of, random)
    ids = numbers(chosen) or group.ids(world, _JUDGED, numbers(without))
    try:
        preview = world.labels.preview(ids[:_JUDGED], label)
    except (NotFound, Refused) as error:
        return render("message.html", message=str(error))
    counts = {info.label: info.count for info in world.classes.all()}
    (suggestion,) = _suggested_classes(world, [ids[:_JUDGED]])
    others = list(counts) if search.strip() else _recent(world, person(request).name, counts)
    return render(
        "hints.html",
        options=_options(preview.nearest, others, search, _shares(world, ids[:_JUDGED]), but=answer or of),
        preview=preview if label.strip() else None,
        learned_from=counts.get(preview.label, 0),
        recognized_as=None if suggestion in (of, answer) else suggestion,
        group=group,
        count=count,
        label=label,
    )


def _shares(world: World, ids: Sequence[int]) -> dict[str, float]:
    """Return the share of the samples that are nearest to each class."""
    nearest = [sample.nearest[0].label for sample in world.pool.some(ids) if sample.nearest]
    return {label: count / len(ids) for label, count in Counter(nearest).items()}


def _options(
    nearest: Sequence[ClassDistance],
    labels: Sequence[str],
    search: str,
    shares: Mapping[str, float],
    but: str | None = None,
) -> list[Option]:
    """Return the nearest classes, then others with the search in their names: what begins with it first.

    The class in `but` is left out: it is the one that the samples have already.
    """
    wanted = search.strip().casefold()
    near = [
        Option(n.label, n.distance, shares.get(n.label, 0.0)) for n in nearest if wanted in n.label.casefold()
    ]
    near.sort(key=lambda option: -option.share)  # stable: of equal shares, the nearest first
    named = {option.label for option in near}
    others = sorted(
        (label for label in labels if wanted in label.casefold() and label not in named),
        key=lambda label: (not label.casefold().startswith(wanted), label.casefold()),
    )
    found = [*near, *(Option(label, None) for label in others)]
    return [option for option in found if option.label != but][:_OPTIONS]


def _recent(world: World, who: str, known: Container[str]) -> list[str]:
    """Return the labels that the person gave last, and that are still known."""
    labels = [event.payload.get("label") for event in world.history.events(limit=_RECENT, who=who)]
    return [label for label in dict.fromkeys(labels) if isinstance(label, str) and label in known]


def _suggested_classes(world: World, groups: Sequence[Sequence[int]]) -> list[str | None]:
    """Return, for each group of samples, the class that it is suggested to be, or None for a new one.

    It is the class that the mean of the samples is recognized as: averaging takes away what made each of them
    alone too unlike its class.
    """
    filled = [ids for ids in groups if ids]
    if not filled:
        return [None] * len(groups)
    features = world.pool.features([i for ids in filled for i in ids])
    starts = np.cumsum([len(ids) for ids in filled])[:-1]
    means = [part.mean(axis=0, dtype=np.float64) for part in np.split(features, starts)]
    labels = iter(world.recognize(np.array(means), remember=False).labels)
    return [next(labels) if ids else None for ids in groups]
