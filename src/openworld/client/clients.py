"""The two clients, which differ in how they send a request."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from openworld.client.calls import Call
from openworld.client.endpoints import Endpoints
from openworld.client.records import Event

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")


class ServiceError(Exception):
    """The service refused a request, or could not be reached; the text says why.

    Attributes
    ----------
    status : int or None
        The HTTP status; None where no response came.
    hint : str or None
        What to do about it.
    """

    def __init__(self, status: int | None, detail: str, hint: str | None = None) -> None:
        super().__init__(detail if hint is None else f"{detail} {hint}")
        self.status, self.hint = status, hint


@contextmanager
def _connection_errors(url: object) -> Iterator[None]:
    """Raise errors of the connection as `ServiceError`."""
    try:
        yield
    except _httpx().TransportError as error:
        detail = f"No response from {url}: {str(error) or type(error).__name__}."
        raise ServiceError(None, detail, "Is the service running there?") from error


def _checked(response: httpx.Response) -> httpx.Response:
    """Return a response, or raise `ServiceError` where it is a refusal."""
    if response.is_success:
        return response
    try:
        problem = response.json()
        raise ServiceError(response.status_code, problem["detail"], problem.get("hint"))
    except (ValueError, KeyError, TypeError):
        raise ServiceError(response.status_code, response.text or response.reason_phrase) from None


class _Lines:
    """Parses the lines of an event stream."""

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

    A request whose connection is lost is sent once more. Requests that change something have an
    Idempotency-Key, so that the service does them once.

    Parameters
    ----------
    url : str, default="http://127.0.0.1:8000"
        Where the service is.
    key : str, optional
        An API key, where the service needs one.
    timeout : float, default=60.0
        Seconds to wait for an answer.
    transport : httpx transport, optional
        Sends the requests, for tests.

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
        """Send a request, once more where the connection is lost, and return the parsed response.

        Raises
        ------
        ServiceError
            If the service refuses the request, or cannot be reached.
        """
        request = call.request()
        with _connection_errors(self._http.base_url):
            try:
                response = self._http.request(**request)
            except _httpx().TransportError:
                response = self._http.request(**request)
        return call.parse(_checked(response))

    def events(self) -> Iterator[Event]:
        """Yield what happens at the service, as it happens."""
        lines = _Lines()
        stream = self._http.stream("GET", "/v1/events", timeout=None)
        with _connection_errors(self._http.base_url), stream as response:
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
        """Send a request; see `Client.send`."""
        request = call.request()
        with _connection_errors(self._http.base_url):
            try:
                response = await self._http.request(**request)
            except _httpx().TransportError:
                response = await self._http.request(**request)
        return call.parse(_checked(response))

    async def events(self) -> AsyncIterator[Event]:
        """Yield what happens at the service, as it happens."""
        lines = _Lines()
        with _connection_errors(self._http.base_url):
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
