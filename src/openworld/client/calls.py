"""One definition of an endpoint for both clients: the request, and how its response is parsed."""

from __future__ import annotations

import inspect
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
    """A request, and how its response is parsed.

    `idempotent`: it is sent with a new Idempotency-Key, so that sending it again has no further effect.
    """

    method: str
    path: str
    more: Mapping[str, Any] = field(default_factory=dict)
    parse: Callable[[Any], T] = lambda response: cast(Any, response.json())
    idempotent: bool = False

    def request(self) -> dict[str, Any]:
        """Return the arguments of `httpx.Client.request`."""
        headers = {"headers": {"Idempotency-Key": uuid4().hex}} if self.idempotent else {}
        return {"method": self.method, "url": self.path, **self.more, **headers}


class endpoint(Generic[P, T]):
    """A method of both clients, made of a function that builds the call.

    `Client` returns the parsed response, `AsyncClient` an awaitable of it; both show the signature of the
    function.
    """

    def __init__(self, build: Callable[P, Call[T]]) -> None:
        self._build = build
        self.__name__, self.__doc__ = build.__name__, build.__doc__
        self.__signature__ = _signature(build)

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

        method.__name__, method.__doc__ = self.__name__, self.__doc__
        method.__qualname__ = f"{owner.__name__}.{self.__name__}"
        setattr(method, "__signature__", self.__signature__)  # noqa: B010 -- mypy does not know it
        return method

    def __call__(self, client: Any, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Call the method of a client, as ``Client.recognize(client, X)`` does."""
        return client.send(self._build(*args, **kwargs))


def _signature(build: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a function whose ``Call[T]`` is sent, and so returns T."""
    signature = inspect.signature(build)
    parsed = str(signature.return_annotation).removeprefix("Call[").removesuffix("]")
    return signature.replace(return_annotation=parsed)
