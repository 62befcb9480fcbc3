"""Log directories that nobody else can change meanwhile (S8.1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from winnow.logdir.listing import LogDir, survey_log_dirs
from winnow.logdir.lock import lock_log_dir, lock_to_read
from winnow.storage.places import Places


@contextmanager
def locked(log_dirs: Sequence[str], *, to_change: bool) -> Iterator[Sequence[LogDir]]:
    """The log directories, looked at again once nobody else can change them; see
    `winnow.logdir.lock`.
    """
    storage = Places()
    with ExitStack() as locks:
        # First without the lock: `.lock` is made only where a broker would have made it.
        for log_dir in survey_log_dirs(storage, log_dirs):
            locks.enter_context(
                lock_log_dir(log_dir.path) if to_change else lock_to_read(log_dir.path)
            )
            if to_change:
                storage.settle(log_dir.path)
        yield survey_log_dirs(storage, log_dirs)
