"""Switch off an optimisation: replace the one function that it lives behind, as an edit would.

A worker of Spark imports `sitecustomize` first, which calls `switch_off_here` before anything else
has imported the function. The replacement notes that there was something to switch off.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark import SparkContext

NAME, NOTED = "WINNOW_TEST_SWITCH", "WINNOW_TEST_SWITCH_NOTED"
_SITE = "from tests.spark.switches import switch_off_here\nswitch_off_here()\n"


def _note() -> None:
    Path(os.environ[NOTED]).touch()


def _no_prefetch(original: Callable[..., Any]) -> Callable[..., Any]:
    def prefetch_of(*args: Any, **named: Any) -> dict[str, Any]:
        if original(*args, **named):
            _note()
        return {}

    return prefetch_of


def _alone(original: Callable[..., Any]) -> Callable[..., Any]:
    def in_order(jobs: Any, cores: Any, size: Any) -> Iterator[Any]:
        if cores is not None:
            _note()
        yield from original(jobs, None, size)

    return in_order


def _nothing_is_usual(original: Callable[..., Any]) -> Callable[..., Any]:
    def list_sound(directory: str, **how: Any) -> None:
        if original(directory, **how) is not None:
            _note()

    return list_sound


def _by_a_task(original: Callable[..., Any]) -> Callable[..., Any]:
    def list_here(place: Any) -> None:
        if original(place) is not None:
            _note()

    return list_here


def _no_codec(original: Callable[..., Any]) -> Callable[..., Any]:
    def first_codec(batches: Any) -> int:
        if original(batches):
            _note()
        return 0

    return first_codec


def _no_library(original: Callable[..., Any]) -> Callable[..., Any]:
    def library(module: str) -> None:
        original(module)
        _note()
        raise ImportError(module)

    return library


def _no_count(_: Callable[..., Any]) -> Callable[..., Any]:
    def count_io(**_: int) -> None:
        _note()

    return count_io


def _no_spool(original: Callable[..., Any]) -> Callable[..., Any]:
    @contextmanager
    def spooling(*args: Any, **named: Any) -> Iterator[None]:
        with original(*args, **named) as directory:
            if directory is not None:
                _note()
            yield None

    return spooling


def _one_at_a_time(original: Callable[..., Any]) -> Callable[..., Any]:
    def commits_at_once(*args: Any, **named: Any) -> int:
        if original(*args, **named) > 1:
            _note()
        return 1

    return commits_at_once


def _in_the_foreground(original: Callable[..., Any]) -> Callable[..., Any]:
    def in_background(pieces: Any, *, at_once: int, room: int) -> Any:
        if at_once > 0:
            _note()
        return original(pieces, at_once=0, room=room)

    return in_background


SWITCHES: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "winnow.scan.prefetch.prefetch_of": _no_prefetch,
    "winnow.runtime.cores.in_order": _alone,
    "winnow.logdir.fast_listing.list_sound": _nothing_is_usual,
    "winnow.survey.survey._list_here": _by_a_task,
    "winnow.wire.kernels.c_codecs._library": _no_library,
    "winnow.wire.kernels.compressed.first_codec": _no_codec,
    "winnow.storage.io_counters.count_io": _no_count,
    "winnow.runtime.spool.spooling": _no_spool,
    "winnow.cleaning.commit.commit.commits_at_once": _one_at_a_time,
    "winnow.runtime.side_by_side.in_background": _in_the_foreground,
}
"""Every optimisation, by the function that turns it off (docs/architecture.md lists them)."""


def switch_off_here() -> None:
    """Replace the function in this process; nothing has imported it yet."""
    module, _, function = os.environ[NAME].rpartition(".")
    found = import_module(module)
    setattr(found, function, SWITCHES[os.environ[NAME]](getattr(found, function)))


def switch_off(name: str, sc: SparkContext, monkeypatch: pytest.MonkeyPatch, scratch: Path) -> Path:
    """Switch off in this process and in the workers that are started from here on. Return the file
    that is there once there was something to switch off.
    """
    noted, site = scratch / "noted", scratch / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(_SITE)
    monkeypatch.setenv(NOTED, str(noted))
    for key, value in {"PYTHONPATH": str(site), NAME: name, NOTED: str(noted)}.items():
        monkeypatch.setitem(sc.environment, key, value)
    module, _, function = name.rpartition(".")
    original = getattr(import_module(module), function)
    off = SWITCHES[name](original)
    for loaded in [m for key, m in sys.modules.items() if key.startswith("winnow")]:
        if getattr(loaded, function, None) is original:
            monkeypatch.setattr(loaded, function, off)
    return noted
