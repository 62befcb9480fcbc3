"""A `plan` or a `clean` from the lock to the result."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from winnow.clean.carry_out import CarriedOut
from winnow.clean.free import delete_first, freed_bytes, only_what_is_needed, what_is_short
from winnow.clean.in_place import check_in_place
from winnow.clean.on_corrupt import carry_out_with_quarantine, damaged_first
from winnow.clean.plan.estimate import weigh
from winnow.clean.plan.prepare import OnCorrupt, Prepared, Request, prepare
from winnow.clean.plan.settings import io_rate, with_metadata
from winnow.clean.preview import foresee
from winnow.clean.result import RunResult
from winnow.errors import UsageError
from winnow.logdir.lock import locked
from winnow.logdir.lock_reach import why_seen_here_only
from winnow.policy.sources import Settings
from winnow.runtime.cancel import cancelling_jobs
from winnow.runtime.garbage import seldom_collecting
from winnow.runtime.progress import Progress, Silence
from winnow.runtime.session import WithContext
from winnow.runtime.spool import spooling, temporary_directory
from winnow.runtime.stop import Stop
from winnow.runtime.throttle import limiting_io
from winnow.storage.places import Places

Only = Literal["retention", "compaction"]
UncleanShutdown = Literal["refuse", "below-recovery-point"]
"""What to do about log directories whose broker was not shut down cleanly (S8.2): leave them as
they are, or work on segments that lie entirely below recovery point, high watermark and last stable
offset, and on nothing else.
"""

Seen = Callable[[Sequence[Prepared], Request], None]


def new_run_id() -> str:
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(4)}"


def run(
    spark: WithContext,
    log_dirs: Sequence[str],
    verb: str,
    *,
    settings: Settings,
    now: int,
    topics: Sequence[str],
    only: Only | None,
    unclean_shutdown: UncleanShutdown,
    keep_replaced: bool = False,
    on_corrupt: OnCorrupt = "leave",
    max_extra_space: int | None = None,
    free_at_least: int | None = None,
    estimate: bool = False,
    throttle: float | None,
    seen: Seen | None = None,
    progress: Progress | None,
    stop: Stop | None,
) -> RunResult:
    """`verb`: plan or clean; all else is as for `winnow.api`."""
    if free_at_least is not None and (only == "compaction" or keep_replaced):
        raise UsageError(
            "freeing space goes neither with compaction only nor with keeping what is replaced",
            hint="Leave one of them out.",
        )
    check_in_place(log_dirs, on_corrupt=on_corrupt, keep_replaced=keep_replaced)
    progress = progress or Silence()
    run_id = new_run_id()
    scanning = verb == "clean" and only != "retention" and free_at_least is None
    with locked(log_dirs, to_change=verb == "clean") as dirs:
        settings, found = with_metadata(settings, Places(), dirs)
        request = Request(
            settings=settings,
            topics=tuple(topics),
            now=now,
            only=only if free_at_least is None else "retention",
            touch=verb == "clean",
            stop=stop or Stop(),
            progress=progress,
            below_recovery_point=unclean_shutdown == "below-recovery-point",
            keep_replaced=keep_replaced,
            on_corrupt=on_corrupt,
            max_extra_space=max_extra_space,
        )
        if throttle is None:
            throttle = io_rate(settings, dirs)
        sc = spark.sparkContext
        weighing = partial(weigh, sc, now=now, progress=progress)
        progress.stage(f"looking at {sum(len(d.partitions) for d in dirs)} partitions")
        with (
            seldom_collecting(),
            cancelling_jobs(sc, request.stop),
            limiting_io(sc, throttle),
            spooling(sc.master if scanning else None, beside=temporary_directory(sc)) as spool,
        ):
            request = replace(request, spool=spool)
            prepared = prepare(sc, dirs, request)
            if seen is not None:
                seen(prepared, request)
            refusal = damaged_first(prepared, request)
            if free_at_least is not None:
                prepared = only_what_is_needed(prepared, wanted=free_at_least)
            if refusal is not None:
                done = CarriedOut(refusal, 0)
            elif verb == "clean" and free_at_least is not None:
                done = delete_first(prepared, request, run_id=run_id)
            elif verb == "clean":
                done = carry_out_with_quarantine(sc, dirs, prepared, request, run_id=run_id)
            else:
                done = foresee(prepared, request, weigh=weighing if estimate else None)
        local = (note for d in dirs if (note := why_seen_here_only(d.path)))
        skipped = (f"{d.path}/{s.name} is left alone: {s.why}" for d in dirs for s in d.skipped)
        short = (
            None
            if free_at_least is None
            else max(0, free_at_least - freed_bytes(prepared, done.partitions))
        )
        lacking = [what_is_short(prepared, short=short)] if short else []
        notes = (*settings.notes(), *found, *local, *skipped, *lacking)
    return RunResult(
        run_id=run_id,
        verb=verb,
        now=now,
        partitions=tuple(done.partitions),
        notes=notes,
        refused=refusal is not None,
        short_bytes=short,
        peak_extra_bytes=done.peak_extra_bytes,
    )
