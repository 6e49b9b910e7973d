"""Labels, the classes that they make, and the operating point."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query

from openworld.service.api.errors import errors
from openworld.service.classes import ClassInfo
from openworld.service.dependencies import Admin, Idempotent, Labeler, Service, Viewer
from openworld.service.labels import LabelingProgress, Preview
from openworld.service.quality import OperatingPoint, Quality, Review
from openworld.service.schemas import (
    AcceptBody,
    ClassBody,
    DismissBody,
    EraseBody,
    FeedbackBody,
    LabelBody,
    MergeClassesBody,
    ObjectiveBody,
    ObjectiveText,
    PreviewBody,
    RelabelBody,
)
from openworld.service.validation import Refused, check_name
from openworld.service.world_event import EventOutcome

labels_router = APIRouter(prefix="/v1", tags=["label"], responses=errors(401, 403, 404, 409, 422, 429))
classes_router = APIRouter(prefix="/v1/classes", tags=["classes"], responses=errors(401, 403, 422, 429))
operating_point_router = APIRouter(
    prefix="/v1/operating-point", tags=["operating point"], responses=errors(401, 403, 409, 422, 429)
)


@labels_router.post("/label")
def label(body: LabelBody, service: Service, person: Labeler, request: Idempotent) -> EventOutcome:
    """Give samples, or the samples of a cluster, a label, and learn them."""
    world, cluster, who = service.world, body.cluster_id, person.name
    if cluster is not None:
        return request.append(
            person, lambda: world.labels.label_cluster(cluster, body.label, who, body.without)
        )
    return request.append(person, lambda: world.labels.label(body.sample_ids or [], body.label, who))


@labels_router.post("/dismiss")
def dismiss(body: DismissBody, service: Service, person: Labeler, request: Idempotent) -> EventOutcome:
    """Take samples out of the pool: bad input, or not a class."""
    return request.append(
        person, lambda: service.world.labels.dismiss(body.sample_ids, body.reason, person.name)
    )


@labels_router.post("/erase")
def erase(body: EraseBody, service: Service, person: Admin, request: Idempotent) -> EventOutcome:
    """Delete samples and all that was derived from them, from the model too. This cannot be undone."""
    outcome = request.append(person, lambda: service.world.labels.erase(body.sample_ids, person.name))
    service.clustering.refresh()
    return outcome


@labels_router.post("/accept")
def accept(body: AcceptBody, service: Service, person: Labeler, request: Idempotent) -> EventOutcome:
    """Accept a rejected sample as one of a known class: it is learned, and the threshold follows."""
    return request.append(
        person, lambda: service.world.labels.accept(body.sample_id, body.label, person.name)
    )


@labels_router.post("/feedback", responses=errors(404, 409))
def feedback(body: FeedbackBody, service: Service, person: Labeler, request: Idempotent) -> EventOutcome:
    """Review recognized samples: the answer is right, or it is another class, or unknown; all is learned."""
    reviews = [Review(review.sample_id, review.right, review.label) for review in body.reviews]
    return request.append(person, lambda: service.world.recognized.feedback(reviews, person.name))


@labels_router.post("/relabel", responses=errors(404, 409))
def relabel_samples(body: RelabelBody, service: Service, person: Labeler) -> EventOutcome:
    """Move labeled samples to another class, or back to the pool; repeating the request changes nothing."""
    admin = person.may("admin")
    return service.world.labels.relabel(body.sample_ids, body.label, person.name, admin=admin)


@labels_router.get("/quality")
def quality(service: Service, _: Viewer) -> list[Quality]:
    """Estimate how often recognition is right, from reviewed samples that were kept at random."""
    return service.world.recognized.quality()


@labels_router.post("/preview")
def preview(body: PreviewBody, service: Service, _: Viewer) -> Preview:
    """Return what labeling would change, without doing it."""
    return service.world.labels.preview(body.sample_ids, body.label)


@labels_router.get("/progress")
def progress(service: Service, person: Viewer) -> LabelingProgress:
    """Count samples by state, of everyone and of yourself."""
    return service.world.labels.progress(person.name)


# -- classes --------------------------------------------------------------------------------------


async def _name_of(
    label: Annotated[str, Path(max_length=400, description="The name of a class.")],
    name: Annotated[
        str | None,
        Query(max_length=400, description="In place of the name in the path, which cannot be . or .."),
    ] = None,
) -> str:
    return label if name is None else name


ClassLabel = Annotated[str, Depends(_name_of)]


@classes_router.get("")
def classes(
    service: Service,
    _: Viewer,
    search: Annotated[str, Query(max_length=200, description="A part of the name, whatever the case.")] = "",
    limit: Annotated[int, Query(ge=1, le=100_000)] = 1000,
) -> list[ClassInfo]:
    """List the classes by name; those that begin with the search come first."""
    wanted = search.casefold().strip()
    found = [info for info in service.world.classes.all() if wanted in info.label.casefold()]
    if wanted:
        found.sort(key=lambda info: not info.label.casefold().startswith(wanted))
    return found[:limit]


@classes_router.post("/merge", responses=errors(404, 409))
def merge_classes(
    body: MergeClassesBody, service: Service, person: Labeler, request: Idempotent
) -> EventOutcome:
    """Merge classes into `into`, an existing class."""
    return request.append(person, lambda: service.world.classes.merge(body.labels, body.into, person.name))


@classes_router.get("/{label:path}", responses=errors(404))
def class_info(
    label: ClassLabel, service: Service, _: Viewer, examples: Annotated[int, Query(ge=0, le=1000)] = 12
) -> ClassInfo:
    """Return a class with its nearest other class and some examples."""
    return service.world.classes.get(label, examples)


@classes_router.patch("/{label:path}", responses=errors(404, 409))
def change_class(
    label: ClassLabel, body: ClassBody, service: Service, person: Labeler, request: Idempotent
) -> list[EventOutcome]:
    """Rename or describe a class, or both; each is an event that can be undone."""
    if body.label is None and body.description is None:
        raise Refused("Give a label, a description, or both.")
    world, new, text, who = service.world, body.label or "", body.description or "", person.name
    outcomes, name = [], label
    if body.label is not None and check_name(new) != label:
        outcomes.append(request.append(person, lambda: world.classes.rename(label, new, who)))
        name = check_name(new)
    if body.description is not None:
        outcomes.append(request.append(person, lambda: world.classes.describe(name, text, who)))
    return outcomes


@classes_router.delete("/{label:path}", responses=errors(404, 409))
def forget_class(label: ClassLabel, service: Service, person: Admin, request: Idempotent) -> EventOutcome:
    """Forget a class; its stored samples return to the pool."""
    return request.append(person, lambda: service.world.classes.forget(label, person.name))


# -- the operating point --------------------------------------------------------------------------


@operating_point_router.get("")
def operating_point(
    service: Service,
    _: Viewer,
    preview: Annotated[
        ObjectiveText | None, Query(description="An objective, to preview what it would change.")
    ] = None,
) -> OperatingPoint:
    """Return the operating point in force; with an objective as `preview`, also what that would change."""
    return service.world.operating_point.get(preview)


@operating_point_router.patch("")
def move_operating_point(
    body: ObjectiveBody, service: Service, person: Admin, request: Idempotent
) -> EventOutcome:
    """Move the operating point, as an event that can be undone."""
    return request.append(person, lambda: service.world.operating_point.move(body.objective, person.name))
