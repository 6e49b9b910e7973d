"""A small client of the service, for programs: `Client`, and `AsyncClient` with the same methods to await."""

from openworld.client.clients import AsyncClient, Client, ServiceError
from openworld.client.records import Answer, Event, Near, Outcome, Page, Recognized

__all__ = [
    "Answer",
    "AsyncClient",
    "Client",
    "Event",
    "Near",
    "Outcome",
    "Page",
    "Recognized",
    "ServiceError",
]
