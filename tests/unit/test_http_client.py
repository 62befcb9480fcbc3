"""Passwords and data reach the server that the user named, and no other. Each client of HTTP in the
tree, with real servers.
"""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from threading import enumerate as enumerate_threads
from urllib.error import HTTPError
from urllib.request import Request

import pytest
from prometheus_client import Gauge

import winnow
from tests.unit.metrics.listener import listening
from winnow.errors import WinnowError
from winnow.http_client import fetch
from winnow.metrics.lineage import Lineage
from winnow.metrics.prometheus import tell_prometheus
from winnow.reading.registry import Registry

USER = "//winnow:secret@"
SENT = "Basic d2lubm93OnNlY3JldA=="


def push(url: str) -> None:
    tell_prometheus([*Gauge("one", "", registry=None).collect()], url)


CLIENTS: dict[str, Callable[[str], object]] = {
    "schema registry": lambda url: Registry(url).schema(7),
    "openlineage": lambda url: Lineage(url, job="winnow.clean").start(),
    "metrics": push,
}
SCHEMA = json.dumps({"schema": '"string"'}).encode()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("client", CLIENTS)
def test_redirect_to_another_origin_is_an_error_and_not_followed(client: str, status: int) -> None:
    others = {
        "port": lambda heard: heard.url,
        "host": lambda heard: heard.url.replace("127.0.0.1", "localhost"),
        "user": lambda heard: heard.url.replace("//", "//other:key@"),
    }
    with listening(body=SCHEMA) as stranger:
        for to in others.values():
            target = to(stranger)
            with listening(status, location=lambda path, to=target: f"{to}{path}") as asked:  # type: ignore[misc]
                with pytest.raises(WinnowError) as raised:
                    CLIENTS[client](asked.url.replace("//", USER))
                assert "redirect" in str(raised.value)
                assert str(stranger.url.rsplit(":", 1)[1]) in str(raised.value), "where to"
                assert "key" not in str(raised.value)
                assert asked.authorized == [SENT]
    assert stranger.requests == []


@pytest.mark.parametrize("scheme", ["https", "ftp", "file"])
def test_redirect_to_another_scheme_of_the_same_host_is_an_error(scheme: str) -> None:
    def elsewhere(path: str) -> str:
        return f"{scheme}://127.0.0.1:{port}{path}"

    with listening(302, location=elsewhere) as asked:
        port = asked.url.rsplit(":", 1)[1]
        for client in CLIENTS.values():
            with pytest.raises(WinnowError, match=r"[Rr]edirect"):
                client(asked.url.replace("//", USER))
    assert len(asked.requests) == len(CLIENTS)


def test_redirect_within_the_origin_is_followed_with_the_password_by_a_get_only() -> None:
    """After a POST urllib would send a GET without the event, and report success."""
    with listening(302, location=lambda path: f"{path}/again") as asked:
        for client in CLIENTS.values():
            with pytest.raises(WinnowError):
                client(asked.url.replace("//", USER))
    methods = [method for method, _, _ in asked.requests]
    assert methods.count("POST") == 2
    assert methods.count("GET") > 2
    assert set(asked.authorized) == {SENT}


@contextmanager
def answering(raw: bytes, more: bytes = b"", pause: float = 0) -> Iterator[str]:
    """`more`: is sent again and again, with pauses."""

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)

        def answer() -> None:
            with suppress(OSError):  # clients that have seen enough close their end
                while True:
                    with server.accept()[0] as connection, suppress(OSError):
                        connection.settimeout(1)
                        connection.recv(65536)
                        connection.sendall(raw)
                        while more:
                            connection.sendall(more)
                            time.sleep(pause)

        thread = Thread(target=answer)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"not HTTP\r\n\r\n",
        b"HTTP/1.1 " + b"2" * 70_000,
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n" + SCHEMA,
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://[::1\r\n\r\n",
    ],
    ids=[
        "nothing",
        "no HTTP",
        "long line",
        "short body",
        "short JSON",
        "many headers",
        "malformed redirect",
    ],
)
def test_answer_that_is_no_http_is_an_error_of_the_client(raw: bytes) -> None:
    with answering(raw) as url:
        for name, client in CLIENTS.items():
            if b"200 OK\r\nC" in raw and name != "schema registry":
                client(url)  # the event has arrived; nobody reads the answer
                continue
            with pytest.raises(WinnowError):
                client(url)


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
ENDLESS = {
    "a byte of the body now and then": (OK + b"Content-Length: 4000000\r\n\r\n", b" ", 0.1),
    "a byte of a header now and then": (OK + b"a: ", b"a", 0.1),
    "a reply that another one follows": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, 0),
    "such a reply now and then": (b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.1),
    "trailers": (CHUNKED + b"1\r\n \r\n0\r\n", b"a: b\r\n" * 1000, 0),
    "chunks of a byte": (CHUNKED, b"1\r\n \r\n", 0.1),
    "nothing at all": (b"", b"", 0),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_answer_without_end_is_an_error_after_the_deadline(name: str) -> None:
    raw, more, pause = ENDLESS[name]
    began = time.monotonic()
    with answering(raw, more, pause) if more else silent() as url:
        with pytest.raises(OSError, match=r"within|timed out"):
            fetch(Request(url), seconds=0.5, most=4_000_000)  # noqa: S310 - http
        assert time.monotonic() - began < 3
        for thread in enumerate_threads():
            if thread.name == "winnow-http":
                thread.join(2)
                assert not thread.is_alive(), "it would go on to read"


@contextmanager
def silent() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_body_of_a_redirect_is_not_read() -> None:
    redirect = b"HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 100000000000\r\n\r\n"
    began = time.monotonic()
    with answering(redirect, bytes(65536)) as url, pytest.raises(HTTPError, match="redirect"):
        fetch(Request(url), seconds=20, most=100)  # noqa: S310 - http
    assert time.monotonic() - began < 5


def test_answer_is_read_up_to_its_limit() -> None:
    with listening(body=bytes(10_000)) as asked:
        assert len(fetch(Request(asked.url), seconds=9, most=100)) == 100  # noqa: S310 - http


def test_no_other_module_opens_urls() -> None:
    """`fetch_jars` is set-up's: it sends no password, and knows the checksum of what it gets."""
    root = Path(winnow.__file__).parent
    opens = re.compile(
        r"\b(urlopen|build_opener|urlretrieve|default_handler|HTTPS?Connection)\b"
        r"|import (requests|httpx|aiohttp|urllib3)\b"
    )
    found = {
        str(path.relative_to(root)) for path in root.rglob("*.py") if opens.search(path.read_text())
    }
    assert found == {"http_client.py", "ledger/fetch_jars.py"}
