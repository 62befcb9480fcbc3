"""Record a run. If the ledger can't be written, the run is not affected, and a note reports it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from winnow.clean.result import RunResult
from winnow.errors import WinnowError
from winnow.ledger.append import append
from winnow.ledger.rows import Entry
from winnow.words import redacted

if TYPE_CHECKING:
    from pyspark import SparkContext

_log = logging.getLogger(__name__)


def recorded(sc: SparkContext, ledger: str, entry: Entry) -> RunResult:
    """Record the run and return its result, which says whether it is in the ledger."""
    note = note_unless(ledger, lambda: append(sc, ledger, entry))
    if note is not None:
        return replace(entry.result, notes=(*entry.result.notes, note))
    return replace(entry.result, ledger=redacted(ledger))


def note_unless(ledger: str, write: Callable[[], object]) -> str | None:
    """Write, and return a note if the ledger could not be written; None if it could."""
    try:
        write()
    except Exception as error:  # noqa: BLE001 - a ledger error must not fail the run
        if not isinstance(error, WinnowError):
            _log.exception("the ledger could not be written")
        what = f"{error}".partition("\n")[0] or type(error).__name__
        return redacted(
            f"THE RUN IS NOT IN THE LEDGER {ledger}, though all else was done as told: {what}"
        )
    return None
