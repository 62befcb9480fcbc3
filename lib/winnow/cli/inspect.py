"""The verb `inspect`. It needs no Spark and no lock, and writes nothing except its output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from winnow.cli.exit_codes import guarded
from winnow.cli.options import OTHER, TIME, CommandLine, argument, value_of
from winnow.cli.out import Contents, is_terminal, tell
from winnow.cli.text.progress import progress_on_stderr

if TYPE_CHECKING:
    from winnow.runtime.progress import Progress
    from winnow.verbs.inspect.values import FileDescription, Line

SOUND, DAMAGED = 0, 3
"""Exit codes: everything that was read is sound, or something is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectOptions:
    paths: Sequence[str] = argument("Files, partition directories, log directories.", "PATH")
    offset: int | None = OTHER.option(
        "Show how a partition is searched for this offset.", "N", min=0
    )
    timestamp: str | None = OTHER.option(
        "Show how a partition is searched for this timestamp.", TIME
    )
    records: bool = OTHER.switch("Show every record of each batch.")


def run_inspect(request: CommandLine, own: InspectOptions) -> int:
    """Return the exit code. Errors in the paths are found before anything is printed."""

    def work() -> int:
        from winnow.cli.text import inspect as inspect_text  # noqa: PLC0415 - it loads numba
        from winnow.cli.text import inspect_json  # noqa: PLC0415 - it loads numba
        from winnow.storage.places import Places  # noqa: PLC0415
        from winnow.verbs.inspect.directories import describe_target, find_position, find_target  # noqa: PLC0415

        storage, offset, at = Places(), own.offset, value_of(own, "timestamp")
        targets = [find_target(storage, path) for path in own.paths]
        asked = [{"offset": offset}] * (offset is not None) + [{"timestamp": at}] * (at is not None)
        positions = [
            find_position(storage, target, **which) for target in targets for which in asked
        ]
        wanted = [] if asked else targets
        files = (
            file
            for target in wanted
            for file in describe_target(storage, target, records=own.records)
        )
        in_full = own.records or all(target.only is not None for target in targets)
        output = (
            inspect_json.Output(Contents())
            if request.json
            else inspect_text.Output(Contents(), in_full=in_full)
        )
        # On a terminal the printed lines show the progress, and a live line would interfere with
        # them.
        with progress_on_stderr(quiet=request.quiet or is_terminal()) as progress:
            tell(lambda: output.write(_watched(files, progress), positions))
        return DAMAGED if output.problems else SOUND

    return guarded(work, json=request.json)


def _watched(files: Iterable[FileDescription], progress: Progress) -> Iterator[FileDescription]:
    """Yield the same files, each as a stage of its own. For a log, progress counts its batches."""
    from winnow.verbs.inspect.values import FileKind  # noqa: PLC0415 - other verbs do not need it

    for file in files:
        is_log = file.kind is FileKind.LOG
        progress.stage(
            f"reading {file.path.rpartition('/')[2]}", total_bytes=file.size if is_log else None
        )
        yield replace(file, lines=_counted(file.lines, progress)) if is_log else file


def _counted(lines: Iterable[Line], progress: Progress) -> Iterator[Line]:
    from winnow.verbs.inspect.values import BatchLine  # noqa: PLC0415

    for line in lines:
        if isinstance(line, BatchLine):
            progress.advance(line.size)
        yield line
