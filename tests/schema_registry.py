"""A schema registry on loopback that answers as Confluent's does, as far as reading goes."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass
class Registry:
    """Confluent's API, as far as reading goes."""

    answers: dict[str, Any] = field(default_factory=dict)
    password: str | None = None
    asked: list[str] = field(default_factory=list)
    url: str = ""

    def knows(self, number: int, schema: Any, **more: Any) -> None:
        self.answers[f"/schemas/ids/{number}"] = {"schema": json.dumps(schema), **more}


@contextmanager
def serving() -> Iterator[Registry]:
    known = Registry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known.asked.append(self.path)
            told = self.headers.get("Authorization", "")
            wanted = None if known.password is None else f"user:{known.password}"
            if wanted is not None and told != f"Basic {base64.b64encode(wanted.encode()).decode()}":
                return self.answer(401, {"error_code": 401, "message": "Unauthorized"})
            if self.path not in known.answers:
                return self.answer(404, {"error_code": 40403, "message": "Schema not found"})
            return self.answer(200, known.answers[self.path])

        def answer(self, code: int, value: Any) -> None:
            body = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        known.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield known
        server.shutdown()
        thread.join()
