"""The two clients, which differ in how they send a call."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from openworld.client.calls import Call
from openworld.client.endpoints import Endpoints
from openworld.client.records import Event

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")


class ServiceError(Exception):
    """The service refused; the text says why.

    Attributes
    ----------
    status : int
        The HTTP status.
    hint : str or None
        What to do about it.
    """

    def __init__(self, status: int, detail: str, hint: str | None = None) -> None:
        super().__init__(detail if hint is None else f"{detail} {hint}")
        self.status, self.hint = status, hint


def _checked(response: httpx.Response) -> httpx.Response:
    """Return an answer, or raise what it refuses."""
    if response.is_success:
        return response
    try:
        problem = response.json()
        raise ServiceError(response.status_code, problem["detail"], problem.get("hint"))
    except (ValueError, KeyError, TypeError):
        raise ServiceError(response.status_code, response.text or response.reason_phrase) from None


class _Lines:
    """Puts the lines of an event stream together to events."""

    def __init__(self) -> None:
        self._parts: dict[str, str] = {}

    def add(self, line: str) -> Event | None:
        """Take a line, and return the event that it ends, if it does."""
        name, colon, value = line.partition(":")
        if colon and name:
            self._parts[name] = value.removeprefix(" ")
        if line or "data" not in self._parts:
            return None
        parts, self._parts = self._parts, {}
        event: Event = {"event": parts.get("event", "message"), "data": json.loads(parts["data"])}
        if "id" in parts:
            event["id"] = parts["id"]
        return event


def _options(url: str, key: str | None, timeout: float, transport: Any) -> dict[str, Any]:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    return {"base_url": url, "headers": headers, "timeout": timeout, "transport": transport}


class Client(Endpoints, AbstractContextManager["Client"]):
    """A client of the service.

    A request whose connection is lost is sent once more; what changes something goes under a key by which the
    service does it once.

    Parameters
    ----------
    url : str, default="http://127.0.0.1:8000"
        Where the service is.
    key : str, optional
        An API key, where the service needs one.
    timeout : float, default=60.0
        Seconds to wait for an answer.
    transport : httpx transport, optional
        How requests are sent, for tests.

    Examples
    --------
    >>> from openworld import Client
    >>> with Client("http://127.0.0.1:8000") as client:  # doctest: +SKIP
    ...     found = client.recognize(X)
    ...     unknown = [a["sample_id"] for a in found["answers"] if a["unknown"]]
    ...     client.label(unknown, "zebra")
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        key: str | None = None,
        timeout: float = 60.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._http = _httpx().Client(**_options(url, key, timeout, transport))

    def send(self, call: Call[T]) -> T:
        """Send a request and return what is made of the answer, or raise `ServiceError`.

        Where the connection is lost it is sent once more.
        """
        request = call.request()
        try:
            response = self._http.request(**request)
        except _httpx().TransportError:
            response = self._http.request(**request)
        return call.parse(_checked(response))

    def events(self) -> Iterator[Event]:
        """Yield what happens at the service, as it happens."""
        lines = _Lines()
        with self._http.stream("GET", "/v1/events", timeout=None) as response:
            if not response.is_success:
                response.read()
            for line in _checked(response).iter_lines():
                if (event := lines.add(line)) is not None:
                    yield event

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __exit__(self, *error: object) -> None:
        self.close()


class AsyncClient(Endpoints, AbstractAsyncContextManager["AsyncClient"]):
    """The client for asynchronous programs: parameters and methods of `Client`, to be awaited."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        key: str | None = None,
        timeout: float = 60.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._http = _httpx().AsyncClient(**_options(url, key, timeout, transport))

    async def send(self, call: Call[T]) -> T:
        """Send a request and return what is made of the answer, or raise `ServiceError`.

        Where the connection is lost it is sent once more.
        """
        request = call.request()
        try:
            response = await self._http.request(**request)
        except _httpx().TransportError:
            response = await self._http.request(**request)
        return call.parse(_checked(response))

    async def events(self) -> AsyncIterator[Event]:
        """Yield what happens at the service, as it happens."""
        lines = _Lines()
        async with self._http.stream("GET", "/v1/events", timeout=None) as response:
            if not response.is_success:
                await response.aread()
            async for line in _checked(response).aiter_lines():
                if (event := lines.add(line)) is not None:
                    yield event

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aexit__(self, *error: object) -> None:
        await self.close()


def _httpx() -> Any:
    try:
        import httpx
    except ImportError as error:
        raise ImportError("The client needs httpx: pip install openworld[service]") from error
    return httpx
