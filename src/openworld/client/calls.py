"""One definition of an endpoint for both clients: what is asked, and what is made of the answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Self, TypeVar, cast, overload
from uuid import uuid4

if TYPE_CHECKING:
    from openworld.client.clients import AsyncClient, Client

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request, and what is made of the answer.

    `once`: the service is to do it once, however often it is sent.
    """

    method: str
    path: str
    more: Mapping[str, Any] = field(default_factory=dict)
    parse: Callable[[Any], T] = lambda response: cast(Any, response.json())
    once: bool = False

    def request(self) -> dict[str, Any]:
        """Return what httpx is to send, under a new key where it is to be done once."""
        headers = {"headers": {"Idempotency-Key": uuid4().hex}} if self.once else {}
        return {"method": self.method, "url": self.path, **self.more, **headers}


class endpoint(Generic[P, T]):
    """A method of both clients: it returns what the call is parsed to, or that to be awaited."""

    def __init__(self, build: Callable[P, Call[T]]) -> None:
        self._build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...
    @overload
    def __get__(self, client: Client, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: type) -> Callable[P, Awaitable[T]]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        """Return the method of a client."""
        if client is None:
            return self

        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client.send(self._build(*args, **kwargs))

        method.__doc__ = self.__doc__
        return method
