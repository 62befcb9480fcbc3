"""What a broker reads when it starts, and Winnow was not given. No start is promised then."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from winnow.errors import FAILS_ONE_PARTITION
from winnow.logdir.metadata import METADATA_DIR
from winnow.logdir.names import METADATA_TOPIC, topic_partition_of
from winnow.logdir.survey import LogDir
from winnow.start.named import Named
from winnow.start.rights import why_not_used
from winnow.state import TopicPartition
from winnow.storage.contract import Storage
from winnow.words import counted, first_few

_MOST = 5


def unseen(
    storage: Storage,
    log_dirs: Sequence[LogDir],
    named: Named,
    *,
    registered: Sequence[str],
    without_metadata: bool,
    refused: Collection[str],
) -> Iterator[str]:
    """Yield what the broker reads and was not looked at, with what to give.

    `registered`: `directory.id` of each log directory with which the broker started last, if that
    is known. `without_metadata`: the broker has a metadata log, and nothing shows where. `refused`:
    log directories that the broker does not use.
    """
    yield from named.unclear
    given = {log_dir.path for log_dir in log_dirs}
    present = {at for log_dir in log_dirs for at in log_dir.partitions}
    for path in named.not_given(given):
        if path in named.log_dirs and path not in refused:
            twice = [str(at) for at in partitions_in(storage, path) or () if at in present]
            also = f" It has {first_few(twice, _MOST)}, too." if twice else ""
            yield (
                f"{path} was not given, and {named.file} names it in log.dirs.{also} What a start "
                "does is known only if all log directories of the broker are given: give it, too"
            )
    if not named.log_dirs and not named.unclear:
        yield from _not_given(log_dirs, registered)
    if without_metadata and not named.unclear:
        yield (
            f"no given directory has the {METADATA_DIR} that the broker reads: which partitions it "
            "sets aside is not known. Give all log directories of the broker, or its "
            "--server-properties FILE, which names metadata.log.dir or log.dirs"
        )


def _not_given(log_dirs: Sequence[LogDir], registered: Sequence[str]) -> Iterator[str]:
    known = [log_dir.meta.directory_id for log_dir in log_dirs]
    others = [directory_id for directory_id in registered if directory_id not in known]
    if others and None not in known:
        yield (
            f"the broker started last with {counted(len(registered), 'log directory')}, and of "
            f"these directory.id {first_few(others, _MOST)} was not given. Give all of them, or "
            "--server-properties FILE, if they are others now"
        )


def metadata_place_problems(
    storage: Storage, home: str | None, log_dirs: Collection[str]
) -> Iterator[str]:
    """Yield why the broker can't use the directory of its metadata log, if that directory is not
    also a log directory. Log directories have checks of their own.
    """
    if home is None or home in log_dirs or not storage.exists(home):
        return
    if forbidden := why_not_used(home):
        yield forbidden
    if storage.volume(home).read_only:
        yield f"{home} is on a file system that is read-only"


def partitions_in(storage: Storage, path: str) -> tuple[TopicPartition, ...] | None:
    """Return the partitions with a directory there, none for a path that does not exist. None: it
    can't be listed.
    """
    try:
        entries = storage.list_dir(path)
    except FileNotFoundError:
        return ()
    except FAILS_ONE_PARTITION:
        return None
    found = (topic_partition_of(entry.name) for entry in entries)
    return tuple(sorted(at for at in found if at is not None and at.topic != METADATA_TOPIC))
