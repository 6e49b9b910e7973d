"""Schemas of requests and responses; responses that are records of the world are dataclasses beside it."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from openworld.store.records import PoolCluster, Role, Sample

# What fits a column of the database.
Id = Annotated[int, Field(ge=0, le=2**31 - 1)]
Ids = Annotated[list[Id], Field(min_length=1, max_length=100_000, fail_fast=True)]
Label = Annotated[str, Field(min_length=1, max_length=200)]
ObjectiveText = Annotated[
    str, Field(max_length=50, description="error, f1=0.9, far=0.05 or recall=0.95", examples=["recall=0.95"])
]
# The first wrong value is enough: a message about each of millions would fill the memory.
Vectors = Annotated[list[Annotated[list[float], Field(fail_fast=True)]], Field(fail_fast=True)]
Texts = Annotated[list[str], Field(fail_fast=True)]
Groups = Annotated[list[Annotated[str, Field(max_length=200)] | None], Field(fail_fast=True)]


# -- requests -------------------------------------------------------------------------------------


class Body(BaseModel):
    """A request body; unknown fields are refused, not ignored."""

    model_config = ConfigDict(extra="forbid")


class _Samples(Body):
    vectors: Vectors | None = Field(None, description="One list of numbers for each sample.")
    texts: Texts | None = Field(None, description="One text for each sample, for a model of texts.")
    source: str | None = Field(None, max_length=500, description="Where the samples are from.")
    groups: Groups | None = Field(
        None,
        description="One for each sample, the same in near copies of each other; null for a sample that has "
        "none. Instead of the parameter `group`.",
    )

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.vectors is None) == (self.texts is None):
            raise ValueError("give either vectors or texts")
        n_samples = len(self.vectors or self.texts or [])
        if self.groups is not None and len(self.groups) != n_samples:
            raise ValueError(
                f"there are {n_samples} samples and {len(self.groups)} groups: give one for each"
            )
        return self


class RecognizeBody(_Samples):
    """Samples to recognize."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"vectors": [[0.1, 0.2, 0.7]], "remember": False, "nearest": 3}]}
    )

    remember: bool = Field(True, description="Store the unknown samples in the pool.")
    nearest: int = Field(5, ge=0, le=50, description="Nearest classes in each answer.")


class LearnBody(_Samples):
    """Labeled samples to learn."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"vectors": [[0.1, 0.2, 0.7]], "labels": ["zebra"]}]}
    )

    labels: Texts = Field(description="One for each sample.")


class LabelBody(Body):
    """Samples, or a cluster, to label."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"sample_ids": [17, 18], "label": "zebra"},
                {"cluster_id": 3, "without": [21], "label": "okapi"},
            ]
        }
    )

    sample_ids: Ids | None = None
    cluster_id: Id | None = None
    without: list[Id] = Field([], fail_fast=True, description="Samples of the cluster to leave out.")
    label: str

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.sample_ids is None) == (self.cluster_id is None):
            raise ValueError("give either sample_ids or cluster_id")
        return self


class DismissBody(Body):
    """Samples to take out of the pool."""

    sample_ids: Ids
    reason: str = Field("", max_length=500, examples=["not a class"])


class EraseBody(Body):
    """Samples to delete with all that was derived from them."""

    sample_ids: Ids


class AcceptBody(Body):
    """A rejected sample that is of a known class."""

    sample_id: Id
    label: str


class ReviewBody(Body):
    """What a person says about one recognized sample: give one of the three."""

    sample_id: Id
    right: bool = Field(False, description="The answer is right.")
    label: str | None = Field(None, description="The answer is wrong: it is this class.")
    unknown: bool = Field(False, description="The answer is wrong: it is no known class.")

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if self.right + (self.label is not None) + self.unknown != 1:
            raise ValueError("give one of right, label and unknown")
        return self


class FeedbackBody(Body):
    """Reviews of recognized samples."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "reviews": [
                        {"sample_id": 17, "right": True},
                        {"sample_id": 18, "label": "okapi"},
                        {"sample_id": 19, "unknown": True},
                    ]
                }
            ]
        }
    )

    reviews: Annotated[list[ReviewBody], Field(min_length=1, max_length=10_000, fail_fast=True)]


class PreviewBody(Body):
    """Samples and the label they might get."""

    sample_ids: Ids
    label: str


class MergeClustersBody(Body):
    """Clusters to merge; the first takes the samples of the others."""

    cluster_ids: Annotated[list[Id], Field(min_length=2, max_length=1000)]


class SplitBody(Body):
    """Samples to move from a cluster to a new one."""

    sample_ids: Ids | None = Field(None, description="Without them, the part that differs most is moved.")


class GranularityBody(Body):
    """How fine the clusters are to be."""

    finer: int = Field(ge=-8, le=8, description="Steps finer than the known classes; negative for coarser.")


class ClassBody(Body):
    """The changes to a class."""

    label: str | None = Field(None, description="The new name.")
    description: str | None = Field(None, max_length=10_000)


class MergeClassesBody(Body):
    """Classes to merge."""

    labels: Annotated[list[str], Field(min_length=1, max_length=1000)]
    into: str


class ObjectiveBody(Body):
    """The objective that the threshold is to reach."""

    objective: ObjectiveText


class EventBody(Body):
    """The event to undo or redo; without one, the person's last."""

    event_id: Id | None = None


class RelabelBody(Body):
    """Labeled samples, and the class they are to move to."""

    sample_ids: Ids
    label: str | None = Field(None, description="The class; without one they return to the unknown pool.")


class KeyBody(Body):
    """A key to make."""

    name: Label
    role: Role = "labeler"


class LoginBody(Body):
    """A key; or, while the service has no keys, a name of your choice."""

    key: str | None = Field(None, max_length=500)
    name: str | None = Field(None, max_length=200)


# -- responses ------------------------------------------------------------------------------------


class NearClass(BaseModel):
    """A class near a sample."""

    label: str
    distance: float = Field(description="In the model's metric.")
    membership: float = Field(
        description="How likely the sample is of this class, from 0 to 1; not normalized over classes."
    )


class RecognizedSample(BaseModel):
    """The answer on one sample."""

    label: str | None = Field(description="The class, or null for unknown.")
    unknown: bool
    decision: float = Field(description="Above 0: known.")
    membership: float = Field(description="Of the class that decides, from 0 to 1.")
    distance: float | None = Field(description="To the nearest class; null while there is none.")
    nearest: list[NearClass] = Field(description="The nearest classes, nearest first.")
    sample_id: int | None = Field(description="The id of the sample in the pool, if it was stored there.")


class RecognizeResponse(BaseModel):
    """The answers on the samples of a request, all by one version of the model."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model_version": 12,
                    "threshold": 0.61,
                    "answers": [
                        {
                            "label": "zebra",
                            "unknown": False,
                            "decision": 0.21,
                            "membership": 0.93,
                            "distance": 0.48,
                            "nearest": [{"label": "zebra", "distance": 0.48, "membership": 0.93}],
                            "sample_id": None,
                        }
                    ],
                }
            ]
        }
    )

    model_version: int
    threshold: float = Field(description="tau, or the score from which a sample is accepted.")
    answers: list[RecognizedSample]


class SamplePage(BaseModel):
    """Samples, and the cursor of the next page."""

    samples: list[Sample]
    next: str | None = Field(description="Give this as `after` for the next page; null at the end.")


class SimilarSample(BaseModel):
    """A sample and its distance to the one asked about."""

    sample: Sample
    distance: float


class ClusterList(BaseModel):
    """The clusters, and the progress of the clustering."""

    clusters: list[PoolCluster]
    running: bool
    done: int
    total: int
    unclustered: int = Field(description="Pending samples that are not in a cluster.")
    finer: int = Field(description="Steps finer than the known classes; negative for coarser.")


class PoolPlaces(BaseModel):
    """The map of the pool as columns; `cluster` is null for a sample that is not in a cluster."""

    ids: list[int]
    x: list[float]
    y: list[float]
    cluster: list[int | None]


class CountChange(BaseModel):
    """How many samples a class was learned from, in two versions."""

    before: float
    after: float


class VersionComparison(BaseModel):
    """How version `b` differs from version `a`."""

    a: int
    b: int
    added: list[str]
    removed: list[str]
    changed: dict[str, CountChange] = Field(description="Classes learned from more or fewer samples.")
    same: bool


class Status(BaseModel):
    """The state of the service."""

    status: Literal["ok"] = "ok"
    model_version: int | None = None


class NewKey(BaseModel):
    """A key that was made."""

    name: str
    role: Role
    key: str = Field(description="The secret: it is shown once.")


class SessionInfo(BaseModel):
    """The person of a session."""

    name: str | None
    role: Role | None
    needs_key: bool = Field(description="Whether a key is needed to log in.")


class PeriodInfo(BaseModel):
    """Ten seconds of the service."""

    model_config = ConfigDict(from_attributes=True)

    at: float = Field(description="The beginning, in seconds since 1970.")
    samples: int
    unknown: int
    decision: float = Field(
        description="The mean over the samples that were not imported; if it drifts, the samples change."
    )
    requests: int
    failed: int
    latency_p50: float = Field(description="Seconds.")
    latency_p99: float = Field(description="Seconds.")
    recognition_p50: float = Field(description="Seconds, of requests to recognize only.")
    recognition_p99: float = Field(description="Seconds, of requests to recognize only.")
    model_version: int
