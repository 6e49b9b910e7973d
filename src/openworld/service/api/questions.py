"""The bodies of requests."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

# What fits a column of the database.
Id = Annotated[int, Field(ge=0, le=2**31 - 1)]
Ids = Annotated[list[Id], Field(min_length=1, max_length=100_000)]
Label = Annotated[str, Field(min_length=1, max_length=200)]
Vectors = list[list[float]]


class Body(BaseModel):
    """A body in which names that do not exist are refused, not passed over."""

    model_config = ConfigDict(extra="forbid")


class _Samples(Body):
    vectors: Vectors | None = Field(None, description="One list of numbers for each sample.")
    texts: list[str] | None = Field(None, description="One text for each sample, for a model of texts.")
    source: str | None = Field(None, max_length=500, description="Where the samples are from.")

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        if (self.vectors is None) == (self.texts is None):
            raise ValueError("give either vectors or texts")
        return self


class RecognizeBody(_Samples):
    """Samples to recognize."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"vectors": [[0.1, 0.2, 0.7]], "remember": False, "nearest": 3}]}
    )

    remember: bool = Field(True, description="Put the unknown into the pool.")
    nearest: int = Field(5, ge=0, le=50, description="Nearest classes in each answer.")


class LearnBody(_Samples):
    """Labelled samples to learn."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"vectors": [[0.1, 0.2, 0.7]], "labels": ["zebra"]}]}
    )

    labels: list[str] = Field(description="One for each sample.")


class LabelBody(Body):
    """Samples, or a cluster, to give a label to."""

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
    without: list[Id] = Field([], description="Samples of the cluster to leave out.")
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


class AcceptBody(Body):
    """A rejected sample that is of a known class."""

    sample_id: Id
    label: str


class PreviewBody(Body):
    """Samples and the label they might get."""

    sample_ids: Ids
    label: str


class MergeClustersBody(Body):
    """Clusters to make one of; the first takes the samples of the others."""

    cluster_ids: Annotated[list[Id], Field(min_length=2, max_length=1000)]


class SplitBody(Body):
    """Samples to move from a cluster to a new one."""

    sample_ids: Ids


class ClassBody(Body):
    """What to change about a class."""

    label: str | None = Field(None, description="The new name.")
    description: str | None = Field(None, max_length=10_000)


class MergeClassesBody(Body):
    """Classes to make one of."""

    labels: Annotated[list[str], Field(min_length=1, max_length=1000)]
    into: str


class EventBody(Body):
    """The act to undo or to do again; left out: one's last."""

    event_id: Id | None = None


class LoginBody(Body):
    """A key; or, while the service has no keys, the name one wants to be known by."""

    key: str | None = Field(None, max_length=500)
    name: str | None = Field(None, max_length=200)
