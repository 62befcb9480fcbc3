"""A proxy in front of an S3 server: it counts requests where they arrive, and can delay each.

It runs as a process of its own, so that it shares no interpreter with those that it measures.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.storage.s3 import ROOT, free_port, wait_for


@dataclass(frozen=True)
class Seen:
    """One request."""

    kind: str
    """LIST, HEAD, GET, PUT, COPY, DELETE, or another of HTTP's methods."""
    key: str
    """Of the object or, of a LIST, the prefix. Without the bucket."""
    status: int
    in_flight: int
    """Requests under way when it began, this one included."""
    began: float
    """Seconds of a clock that only goes on."""


@dataclass(frozen=True)
class Proxy:
    url: str
    log: Path

    def requests(self) -> list[Seen]:
        """Return all requests so far."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [Seen(**json.loads(line)) for line in lines]


def kinds(requests: Sequence[Seen]) -> Counter[str]:
    return Counter(one.kind for one in requests)


@contextmanager
def proxy(server: str, home: Path, *, delay_ms: int = 0) -> Iterator[Proxy]:
    """Pass requests on to `server`, each `delay_ms` after it arrived."""
    port, log = free_port(), home / "requests.jsonl"
    command = [sys.executable, "-m", "tests.storage.proxy", str(port), server, str(delay_ms)]
    with (home / "proxy.log").open("wb") as output:
        process = subprocess.Popen(
            [*command, str(log)],
            stderr=output,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    with process:
        try:
            wait_for(port, process, home / "proxy.log")
            yield Proxy(f"http://127.0.0.1:{port}", log)
        finally:
            process.terminate()


class _Server:
    def __init__(self, server: str, delay_ms: int, log: Path) -> None:
        self._host, _, port = server.removeprefix("http://").partition(":")
        self._port, self._delay_s = int(port), delay_ms / 1000
        self._log = log.open("a", buffering=1)
        self._in_flight = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection: one request after the other."""
        try:
            while request := await _head(reader):
                body = await _body(reader, request)
                self._in_flight += 1
                in_flight, began = self._in_flight, time.monotonic()
                try:
                    await asyncio.sleep(self._delay_s)
                    answer = await self._passed_on(request + body)
                finally:
                    self._in_flight -= 1
                status = int(answer.split(b" ", 2)[1])
                self._log.write(
                    json.dumps(_seen(request, status) | {"in_flight": in_flight, "began": began})
                    + "\n"
                )
                writer.write(answer)
                await writer.drain()
                break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _passed_on(self, request: bytes) -> bytes:
        """Return the answer. It says that the connection is closed, and so it is."""
        reader, writer = await asyncio.open_connection(self._host, self._port)
        try:
            line, _, rest = request.partition(b"\r\n")
            writer.write(line + b"\r\nConnection: close\r\n" + rest)
            return _closing(await reader.read(-1))
        finally:
            writer.close()


def _closing(answer: bytes) -> bytes:
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = [one for one in head.split(b"\r\n") if not one.lower().startswith(b"connection:")]
    return b"\r\n".join([*lines, b"Connection: close"]) + b"\r\n\r\n" + body


async def _head(reader: asyncio.StreamReader) -> bytes:
    """Return a request up to its empty line; nothing at the end of the connection."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as ended:
        if ended.partial:
            raise
        return b""


async def _body(reader: asyncio.StreamReader, head: bytes) -> bytes:
    return await reader.readexactly(int(_header(head, "content-length") or 0))


def _header(head: bytes, name: str) -> str | None:
    for line in head.decode("latin-1").split("\r\n")[1:]:
        key, _, value = line.partition(":")
        if key.strip().lower() == name:
            return value.strip()
    return None


def _seen(head: bytes, status: int) -> dict[str, object]:
    method, target, _ = head.decode("latin-1").split(" ", 2)
    parts = urlsplit(target)
    query = parse_qs(parts.query, keep_blank_values=True)
    key = parts.path.lstrip("/").partition("/")[2]
    kind = method
    if method == "GET" and "list-type" in query:
        kind, key = "LIST", query.get("prefix", [""])[0]
    elif method == "PUT" and _header(head, "x-amz-copy-source") is not None:
        kind = "COPY"
    elif method == "POST" and "delete" in query:
        kind = "DELETE"
    return {"kind": kind, "key": key, "status": status}


async def _main(port: int, server: str, delay_ms: int, log: Path) -> None:
    one = _Server(server, delay_ms, log)
    listening = await asyncio.start_server(one.serve, "127.0.0.1", port, limit=2**20, backlog=256)
    await listening.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])))
