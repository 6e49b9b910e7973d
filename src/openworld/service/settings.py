"""Settings of the service: by flag, by environment variable, by TOML file, in that order."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from tomllib import TOMLDecodeError
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from openworld.recognition import parse_objective

PREFIX = "OPENWORLD_"


@dataclass(frozen=True)
class WorldSettings:
    """Settings of a `World`; the defaults suit one machine.

    Attributes
    ----------
    n_nearest : int
        Nearest classes in an answer.
    lease_seconds : float
        How long a cluster stays with a person who does nothing.
    snapshot_events, snapshot_seconds : int, float
        A snapshot is made when so many events, or events that took so long, would have to be replayed; of a
        model that takes long to write, when replaying would take ten times as long.
    snapshots_kept : int
        Snapshots kept beside the first model.
    rescore_batch : int
        Samples of the pool that are judged at a time after a change.
    keep_random, keep_below : float
        What is kept for review: a random share of all samples, once they are recognized, and recognized
        samples with a smaller membership.
    max_recognized, recognized_days : int, float
        How many of these are kept at most, and for how long, unless a person has reviewed them.
    max_unknown, unknown_days : int, float, optional
        How many unknown samples are kept at most, and for how long, unless a person has named them; None
        keeps all of them.
    learn_unknowns : bool
        Whether dismissed samples count as unknown in calibration.
    max_previews : int
        Samples whose preview is kept, the newest; older ones keep their thumbnail.
    """

    n_nearest: int = 5
    lease_seconds: float = 120.0
    snapshot_events: int = 200
    snapshot_seconds: float = 2.0
    snapshots_kept: int = 3
    rescore_batch: int = 256
    keep_random: float = 0.0
    keep_below: float = 0.0
    max_recognized: int = 20_000
    recognized_days: float = 30.0
    max_unknown: int | None = None
    unknown_days: float | None = None
    learn_unknowns: bool = False
    max_previews: int = 20_000


class ServiceSettings(BaseSettings):
    """Settings of the service; each is also the environment variable ``OPENWORLD_`` + its name."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True)

    model: Path | None = Field(None, description="The model file that a new database starts with.")
    database: str = Field("sqlite:///openworld.db", description="URL of the database.")
    host: str = Field("127.0.0.1", description="The address to listen on.")
    port: int = Field(8000, ge=0, le=65535, description="The port to listen on; 0 for a free one.")
    workers: int = Field(1, ge=1, le=64, description="Processes; more than one needs PostgreSQL.")
    key: SecretStr | None = Field(None, min_length=16, description="A key with the role admin.")
    session_secret: SecretStr | None = Field(
        None,
        min_length=16,
        description="Signs session cookies; by default a secret that is kept in the database.",
    )
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Host names of the service, besides those of this machine; separated by commas."
    )
    secure_cookie: bool = Field(False, description="Send the session cookie over HTTPS only.")
    session_hours: float = Field(12.0, gt=0, le=24 * 365, description="How long a login lasts.")
    rate_limit: float = Field(1000.0, ge=0, description="Requests per second of one key; 0 for no limit.")
    max_connections: int = Field(1000, ge=1, description="Most connections at once; 503 beyond.")
    max_body_mb: float = Field(64.0, gt=0, description="Largest body of a request, in megabytes.")
    max_batch: int = Field(4096, ge=1, description="Most vectors or texts in a request.")
    max_images: int = Field(64, ge=1, description="Most pictures in a request.")
    max_pixels: int = Field(32_000_000, ge=1, description="Most pixels of a picture.")
    max_request_pixels: int = Field(
        512_000_000, ge=1, description="Most pixels of all pictures in a request."
    )
    max_import: int = Field(20_000, ge=1, description="Most samples in a file that is imported.")
    preview_side: int = Field(
        640, ge=0, le=4096, description="Longest side of a stored preview in pixels; 0 keeps thumbnails only."
    )
    max_previews: int = Field(
        20_000, ge=0, description="Most previews kept; older samples keep a thumbnail of 256 pixels."
    )
    max_text: int = Field(10_000, ge=1, description="Most characters of a text.")
    extractor: str | None = Field(
        None,
        description="The extractor of a new database that starts without a model; or, where the model names "
        "one that is a file, onnx:PATH or words:PATH.",
    )
    features: int | None = Field(
        None,
        ge=1,
        le=100_000,
        description="Numbers in a vector, for a new database of vectors that starts without a model.",
    )
    nearest: int = Field(5, ge=1, le=50, description="Nearest classes that are computed and stored.")
    lease_seconds: float = Field(120.0, gt=0, description="How long a cluster stays with an idle person.")
    refresh_growth: float = Field(
        0.1,
        ge=0,
        description="Growth of the samples that triggers a metric refresh; 0 refreshes after every event.",
    )
    objective: str | None = Field(
        None,
        description="Operating point of a new database: error, f1=0.9, far=0.05 or recall=0.95.",
    )
    keep_random: float = Field(
        0.02, ge=0, le=1, description="Share of samples drawn at random, to estimate the accuracy."
    )
    learn_unknowns: bool = Field(True, description="Dismissed samples count as unknown in calibration.")
    keep_below: float = Field(
        0.8, ge=0, le=1, description="Recognized samples with a smaller membership are kept for review."
    )
    max_recognized: int = Field(20_000, ge=0, description="Most recognized samples kept for review.")
    recognized_days: float = Field(30.0, gt=0, description="How long they are kept, in days.")
    max_unknown: int | None = Field(
        None, ge=1, description="Most unknown samples kept; the oldest are deleted. By default all are kept."
    )
    unknown_days: float | None = Field(
        None, gt=0, description="How long unknown samples are kept, in days. By default for ever."
    )
    clustering: bool = Field(True, description="Cluster the pool in the background.")
    clustering_seconds: float = Field(5.0, gt=0, description="Shortest time between two clusterings.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Lowest level that is logged."
    )
    log_format: Literal["json", "console"] = Field("json", description="Format of the log.")

    @field_validator("objective")
    @classmethod
    def _objective(cls, value: str | None) -> str | None:
        return None if value is None else str(parse_objective(value))

    @field_validator("allowed_hosts", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return (
            tuple(part.strip() for part in value.split(",") if part.strip())
            if isinstance(value, str)
            else value
        )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags come before the environment, and that before the file."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the service."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False


def load_settings(config: Path | None = None, **flags: Any) -> ServiceSettings:
    """Return the settings: flags that are not None, then the environment, then a TOML file."""
    if config is not None and not config.is_file():
        raise FileNotFoundError(f"{config}: this settings file does not exist.")

    class Configured(ServiceSettings):
        model_config = SettingsConfigDict(toml_file=config)

    try:
        return Configured(**{name: value for name, value in flags.items() if value is not None})
    except TOMLDecodeError as error:
        raise ValueError(f"{config} is not a TOML file: {error}") from error
    except ValidationError as error:
        raise ValueError(f"Invalid settings. {' '.join(map(_problem, error.errors()))}") from error


def _problem(problem: Any) -> str:
    """Return one sentence about a setting that pydantic refused."""
    name = ".".join(map(str, problem["loc"]))
    if problem["type"] == "extra_forbidden":
        near = difflib.get_close_matches(name, ServiceSettings.model_fields, 1)
        return f"There is no setting {name}.{f' Did you mean {near[0]}?' if near else ''}"
    if problem["type"] == "too_short":
        return f"{name}: it needs at least {problem['ctx']['min_length']} characters."
    return f"{name}: {problem['msg'].removeprefix('Value error, ').rstrip('.')}."
