"""What the API answers where it is not a record of the world as it stands."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from openworld.service.results import Cluster, Role, Sample


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
    distance: float = Field(description="To the nearest class.")
    nearest: list[NearClass] = Field(description="The nearest classes, nearest first.")
    sample_id: int | None = Field(description="Of the sample in the pool, where it went there.")


class Recognized(BaseModel):
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
    """Samples, and where to go on."""

    samples: list[Sample]
    next: str | None = Field(description="Give this as `after` for the next page; null at the end.")


class SimilarSample(BaseModel):
    """A sample and its distance to the one asked about."""

    sample: Sample
    distance: float


class ClusterList(BaseModel):
    """The clusters, and how far the clustering is."""

    clusters: list[Cluster]
    running: bool
    done: int
    total: int
    unclustered: int = Field(description="Pending samples in no cluster.")


class PoolPlaces(BaseModel):
    """The map of the pool as columns; `cluster` is null for a sample in no cluster."""

    ids: list[int]
    x: list[float]
    y: list[float]
    cluster: list[int | None]


class CountChange(BaseModel):
    """How many samples a class was learnt from, in two versions."""

    before: float
    after: float


class VersionComparison(BaseModel):
    """How version `b` differs from version `a`."""

    a: int
    b: int
    added: list[str]
    removed: list[str]
    changed: dict[str, CountChange] = Field(description="Classes learnt from more or fewer samples.")
    same: bool


class Status(BaseModel):
    """Whether the service works."""

    status: Literal["ok"] = "ok"
    model_version: int | None = None


class SessionInfo(BaseModel):
    """Who one is to the service."""

    name: str | None
    role: Role | None
    needs_key: bool = Field(description="Whether one must log in with a key.")


class PeriodInfo(BaseModel):
    """Some seconds of the service's life."""

    model_config = ConfigDict(from_attributes=True)

    at: float = Field(description="The beginning, in seconds since 1970.")
    samples: int
    unknown: int
    decision: float = Field(description="The mean over the samples: where it drifts, look.")
    requests: int
    failed: int
    latency_p50: float = Field(description="Seconds.")
    latency_p99: float = Field(description="Seconds.")
    model_version: int
