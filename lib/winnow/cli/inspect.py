"""The verb `inspect`: without Spark, without a lock, and with nothing written but its output."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from winnow.cli.options import parse_now
from winnow.cli.run import guarded, tell

SOUND, DAMAGED = 0, 3
"""Exit codes: all that was read is as it should be, or something is not."""


def run_inspect(paths: Sequence[str], *, offset: int | None, timestamp: str | None, records: bool, json: bool) -> int:
    """The exit code. Mistakes in the paths are found before anything is told."""

    def work() -> int:
        from winnow.cli import inspect_json, inspect_text  # noqa: PLC0415 - other verbs need not load numba here
        from winnow.inspect.directories import describe_target, find_position, find_target  # noqa: PLC0415
        from winnow.storage.local import LocalStorage  # noqa: PLC0415

        storage = LocalStorage()
        at = None if timestamp is None else parse_now(timestamp, option="--timestamp")
        targets = [find_target(storage, path) for path in paths]
        asked = [{"offset": offset}] * (offset is not None) + [{"timestamp": at}] * (at is not None)
        positions = [find_position(storage, target, **which) for target in targets for which in asked]
        wanted = [] if asked else targets
        files = (file for target in wanted for file in describe_target(storage, target, records=records))
        in_full = records or all(target.only is not None for target in targets)
        output = inspect_json.Output(sys.stdout) if json else inspect_text.Output(sys.stdout, in_full=in_full)
        tell(lambda: output.write(files, positions))
        return DAMAGED if output.problems else SOUND

    return guarded(work, json=json, now=lambda: None)
