"""Writes down what was done. That it can't be written down changes nothing else, and is said."""

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
    """The result that says whether it is in the ledger."""
    note = note_unless(ledger, lambda: append(sc, ledger, entry))
    if note is not None:
        return replace(entry.result, notes=(*entry.result.notes, note))
    return replace(entry.result, ledger=redacted(ledger))


def note_unless(ledger: str, write: Callable[[], object]) -> str | None:
    """What is to be said of a ledger that could not be written; None if it could."""
    try:
        write()
    except Exception as error:  # noqa: BLE001 - what was done is done, whatever is wrong with the ledger
        if not isinstance(error, WinnowError):
            _log.exception("the ledger could not be written")
        what = f"{error}".partition("\n")[0] or type(error).__name__
        return redacted(
            f"THE RUN IS NOT IN THE LEDGER {ledger}, though all else was done as told: {what}"
        )
    return None
