"""The parts of a running service, which the routes share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from openworld.service.auth.authentication import Authenticator
from openworld.service.batcher import Batcher
from openworld.service.clustering_job import ClusteringJob
from openworld.service.inputs import Inputs
from openworld.service.metrics import Metrics
from openworld.service.notifications import Broadcast
from openworld.service.settings import ServiceSettings
from openworld.service.world import World


@dataclass(frozen=True)
class ServiceState:
    """The parts of a running service; `app.state.service` of the application."""

    world: World
    settings: ServiceSettings
    auth: Authenticator
    inputs: Inputs
    batcher: Batcher
    clustering: ClusteringJob
    broadcast: Broadcast
    metrics: Metrics

    def close(self) -> None:
        """Stop the background work."""
        self.broadcast.close()
        self.clustering.close()
        self.batcher.close()
        self.broadcast.join()


def get_state(request: Request) -> ServiceState:
    """Return the parts of the service that handles a request."""
    state: ServiceState = request.app.state.service
    return state


async def _service(request: Request) -> ServiceState:  # a plain function would be run in another thread
    return get_state(request)


Service = Annotated[ServiceState, Depends(_service)]
