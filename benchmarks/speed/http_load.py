"""A load generator on raw sockets: a client library would take longer than the server."""

from __future__ import annotations

import asyncio
from time import perf_counter


class _Connection(asyncio.Protocol):
    """Sends a request, waits for the answer, sends the next, until the time is over."""

    def __init__(self, requests: list[bytes], first: int, until: float) -> None:
        self.requests, self.next, self.until = requests, first, until
        self.buffer = bytearray()
        self.length = -1
        self.latencies: list[float] = []
        self.failed = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self._send()

    def _send(self) -> None:
        self.started = perf_counter()
        if self.started > self.until:
            self.done.set_result(None)
            self.transport.close()
            return
        self.transport.write(self.requests[self.next % len(self.requests)])
        self.next += 1

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if self.length < 0:
            head_end = self.buffer.find(b"\r\n\r\n")
            if head_end < 0:
                return
            head = bytes(self.buffer[:head_end]).lower()
            self.failed += not head.startswith(b"http/1.1 200")
            start = head.index(b"content-length:") + 15
            self.length = head_end + 4 + int(head[start:].split(b"\r\n", 1)[0])
        if len(self.buffer) >= self.length:
            self.latencies.append(perf_counter() - self.started)
            del self.buffer[: self.length]
            self.length = -1
            self._send()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.failed += 1
            self.done.set_result(None)


async def _load(
    port: int, requests: list[bytes], connections: int, seconds: float
) -> tuple[list[float], int, float]:
    loop, started = asyncio.get_running_loop(), perf_counter()
    until, protocols = started + seconds, []
    for i in range(connections):
        _, protocol = await loop.create_connection(
            lambda i=i: _Connection(requests, i * 7, until), "127.0.0.1", port
        )
        protocols.append(protocol)
    await asyncio.gather(*(protocol.done for protocol in protocols))
    latencies = [latency for protocol in protocols for latency in protocol.latencies]
    return latencies, sum(protocol.failed for protocol in protocols), perf_counter() - started


def load(
    port: int, requests: list[bytes], connections: int, seconds: float
) -> tuple[list[float], int, float]:
    """Send requests over some connections; return latencies, failures and the seconds it took."""
    import uvloop

    return uvloop.run(_load(port, requests, connections, seconds))


def post(path: str, body: bytes, content_type: str = "application/octet-stream") -> bytes:
    """Return a POST request as bytes."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
