"""Retention and compaction of Apache Kafka log directories without a broker, as a Spark job."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from winnow.api import (
        Plan,
        Result,
        clean,
        commit,
        compare,
        explain,
        ledger_table,
        plan,
        prepare,
        verify,
    )
    from winnow.kafka_log.source import register
    from winnow.reading import Avro, Json, read

__all__ = [
    "Avro",
    "Json",
    "Plan",
    "Result",
    "clean",
    "commit",
    "compare",
    "explain",
    "ledger_table",
    "plan",
    "prepare",
    "read",
    "register",
    "verify",
]

_ELSEWHERE = dict.fromkeys(("Avro", "Json", "read"), "winnow.reading")
_ELSEWHERE["register"] = "winnow.kafka_log.source"
"""All other names are of `winnow.api`. Importing winnow loads nothing."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_ELSEWHERE.get(name, "winnow.api")), name)


def __dir__() -> list[str]:
    return __all__
