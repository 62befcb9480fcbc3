"""Keep what a run replaces or deletes, if that was asked for (`winnow.logdir.commit.keeping`)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from winnow.clean.plan.prepare import Request
from winnow.errors import FAILS_ONE_PARTITION
from winnow.logdir.commit.keeping import begin_keeping, end_keeping
from winnow.logdir.commit.kept import kept_path, read_kept
from winnow.state import PartitionState

_log = logging.getLogger(__name__)


@contextmanager
def kept_by(
    request: Request,
    state: PartitionState,
    *,
    run_id: str,
    cleaner_checkpoint_after: int | None = None,
) -> Iterator[None]:
    """What goes from the partition inside of the block is kept. `state`: as it was before the first
    change.

    `cleaner_checkpoint_after`: where the block, or what follows it, moves the cleaner checkpoint.
    If the block fails what it began is left to the next recovery, and so is what it kept.
    """
    if not request.keep_replaced:
        yield
        return
    begin_keeping(
        request.storage,
        state,
        run_id=run_id,
        now=request.now,
        cleaner_checkpoint_after=cleaner_checkpoint_after,
    )
    yield
    end_keeping(request.storage, state.directory, run_id=run_id)


def kept_bytes(request: Request, directory: str, *, run_id: str) -> int | None:
    """What a run keeps of a partition: bytes that it has not freed. None if nothing was to be kept."""
    if not request.keep_replaced:
        return None
    try:
        if not request.storage.exists(kept_path(directory, run_id)):
            return 0
        return read_kept(request.storage, directory, run_id).bytes
    except FAILS_ONE_PARTITION:
        _log.warning("could not read what was kept in %s", directory, exc_info=True)
        return None
