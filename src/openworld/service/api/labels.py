"""Labels: label, dismiss, accept, preview, progress."""

from __future__ import annotations

from fastapi import APIRouter

from openworld.service.api.errors import errors
from openworld.service.api.idempotency import Idempotent
from openworld.service.auth.authorization import Admin, Labeler, Viewer
from openworld.service.event_log import EventOutcome
from openworld.service.labels import LabelingProgress, Preview
from openworld.service.quality import Quality, Review
from openworld.service.relabel import relabel
from openworld.service.schemas import (
    AcceptBody,
    DismissBody,
    EraseBody,
    FeedbackBody,
    LabelBody,
    PreviewBody,
    RelabelBody,
)
from openworld.service.state import Service

router = APIRouter(prefix="/v1", tags=["label"], responses=errors(401, 403, 404, 409, 422, 429))


@router.post("/label")
def label(body: LabelBody, service: Service, person: Labeler, request: Idempotent) -> EventOutcome:
    """Give samples, or the samples of a cluster, a label, and learn them."""
    world, cluster, who = service.world, body.cluster_id, person.name
    if cluster is not None:
        return request.append(
            person, lambda: world.labels.label_cluster(cluster, body.label, who, body.without)
        )
    return request.append(person, lambda: world.labels.label(body.sample_ids or [], body.label, who))


@router.post("/dismiss")
def dismiss(body: DismissBody, service: Service, person: Labeler, request: Idempotent) -> EventOutcome:
    """Take samples out of the pool that are no class, or bad input."""
    return request.append(
        person, lambda: service.world.labels.dismiss(body.sample_ids, body.reason, person.name)
    )


@router.post("/erase")
def erase(body: EraseBody, service: Service, person: Admin, request: Idempotent) -> EventOutcome:
    """Delete samples and all that was derived from them, from the model too. This cannot be undone."""
    outcome = request.append(person, lambda: service.world.labels.erase(body.sample_ids, person.name))
    service.clustering.refresh()
    return outcome


@router.post("/accept")
def accept(body: AcceptBody, service: Service, person: Labeler, request: Idempotent) -> EventOutcome:
    """Accept a rejected sample as one of a known class: it is learned, and the threshold follows."""
    return request.append(
        person, lambda: service.world.labels.accept(body.sample_id, body.label, person.name)
    )


@router.post("/feedback", responses=errors(404, 409))
def feedback(body: FeedbackBody, service: Service, person: Labeler, request: Idempotent) -> EventOutcome:
    """Review recognized samples: the answer is right, or it is another class, or unknown; all is learned."""
    reviews = [Review(review.sample_id, review.right, review.label) for review in body.reviews]
    return request.append(person, lambda: service.world.recognized.feedback(reviews, person.name))


@router.post("/relabel", responses=errors(404, 409))
def relabel_samples(body: RelabelBody, service: Service, person: Labeler) -> EventOutcome:
    """Move labeled samples to another class, or back to the pool; sent twice, it is done once."""
    return relabel(service.world, body.sample_ids, body.label, person.name, admin=person.may("admin"))


@router.get("/quality")
def quality(service: Service, _: Viewer) -> list[Quality]:
    """Estimate how often recognition is right, from reviewed samples that were kept at random."""
    return service.world.recognized.quality()


@router.post("/preview")
def preview(body: PreviewBody, service: Service, _: Viewer) -> Preview:
    """Tell what labeling would change, without doing it."""
    return service.world.labels.preview(body.sample_ids, body.label)


@router.get("/progress")
def progress(service: Service, person: Viewer) -> LabelingProgress:
    """Count samples by state, of everyone and of yourself."""
    return service.world.labels.progress(person.name)
