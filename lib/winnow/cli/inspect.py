"""The verb `inspect`. It needs no Spark and no lock, and writes nothing except its output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from winnow.cli.call import Call
from winnow.cli.options import OTHER, TIME, argument, value_of
from winnow.cli.out import is_terminal, tell_contents, tell_notes
from winnow.cli.text.progress import progress_on_stderr
from winnow.errors import CorruptLogError

if TYPE_CHECKING:
    from winnow.runtime.progress import Progress
    from winnow.verbs.inspect.values import FileDescription, FileProblem, Line


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


def run_inspect(call: Call, own: InspectOptions) -> int:
    """Return the exit code. Errors in the paths are found before anything is printed."""
    from winnow.logdir.live.read_view import view_notes  # noqa: PLC0415
    from winnow.logdir.lock import live_read_views  # noqa: PLC0415

    with live_read_views(own.paths):
        tell_notes(view_notes())
        return _inspect(call, own)


def _inspect(call: Call, own: InspectOptions) -> int:
    from winnow.cli.text import inspect as inspect_text  # noqa: PLC0415 - it loads numba
    from winnow.cli.text import inspect_json  # noqa: PLC0415 - it loads numba
    from winnow.storage.places import Places  # noqa: PLC0415
    from winnow.verbs.inspect import values  # noqa: PLC0415
    from winnow.verbs.inspect.directories import describe_target, find_position, find_target  # noqa: PLC0415

    storage, offset, at = Places(), own.offset, value_of(own, "timestamp")
    targets = [find_target(storage, path) for path in own.paths]
    asked = [{"offset": offset}] * (offset is not None) + [{"timestamp": at}] * (at is not None)
    positions = [find_position(storage, target, **which) for target in targets for which in asked]
    problems = [
        line
        for position in positions
        for line in position.lines
        if isinstance(line, values.FileProblem)
    ]
    files = (
        file
        for target in ([] if asked else targets)
        for file in describe_target(storage, target, records=own.records)
    )
    in_full = own.records or all(target.only is not None for target in targets)
    # On a terminal the printed lines show the progress, and a live line would interfere with them.
    quiet = call.request.quiet or is_terminal()
    with progress_on_stderr(quiet=quiet) as progress:
        watched = _watched(files, progress, problems)
        if call.request.json:
            tell_contents(inspect_json.pieces(watched, positions, problems))
        else:
            tell_contents(inspect_text.pieces(watched, positions, problems, in_full=in_full))
    return CorruptLogError.exit_code if problems else 0


def _watched(
    files: Iterable[FileDescription], progress: Progress, problems: list[FileProblem]
) -> Iterator[FileDescription]:
    """Yield the same files, each as a stage of its own. For a log, progress counts its batches.
    `problems` gets those of each line that was read.
    """
    from winnow.verbs.inspect import values  # noqa: PLC0415 - other verbs do not need it

    def read(lines: Iterable[Line]) -> Iterator[Line]:
        for line in lines:
            if isinstance(line, values.BatchLine):
                progress.advance(line.size)
            elif isinstance(line, values.FileProblem):
                problems.append(line)
            yield line

    for file in files:
        total = file.size if file.kind is values.FileKind.LOG else None
        progress.stage(f"reading {file.path.rpartition('/')[2]}", total_bytes=total)
        yield replace(file, lines=read(file.lines))
