"""Clients that outlive their broker (GoOn.java): they start before it stops and continue
afterwards.
"""

from __future__ import annotations

import json
from typing import Any

from tests.kafka.judge.child import Child

ANSWER_SECONDS = 240


class LiveClients(Child):
    """`with LiveClients(broker.bootstrap) as clients: clients.ask("before")`. `segment_key`: the
    setting that makes small segments.
    """

    def __init__(self, bootstrap: str, *, segment_key: str = "internal.segment.bytes") -> None:
        super().__init__(
            "org.apache.kafka.storage.internals.log.GoOn",
            *(bootstrap, segment_key),
            patience=ANSWER_SECONDS,
        )

    def ask(self, what: str) -> dict[str, Any]:
        line = self.answer(what)
        if not line:
            raise self.failure(f"the clients died at {what!r}")
        answer: dict[str, Any] = json.loads(line)
        return answer
