"""The request of a run: one frozen value, validated on creation and passed down whole."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Self, get_args

from winnow.arguments import check_least, clock_ms, names, refused
from winnow.cleaning.asked import SettingsAsked
from winnow.clock import new_run_id
from winnow.errors import UsageError
from winnow.logdir.topic_globs import check_globs, is_wanted
from winnow.policy.sources import Settings
from winnow.runtime.progress import Progress, Silence
from winnow.runtime.stop import Stop
from winnow.storage.contract import Storage, Volume
from winnow.storage.places import KEEP_FREE_BYTES, Places

Only = Literal["retention", "compaction"]
UncleanShutdown = Literal["read", "refuse", "below-recovery-point"]
"""What to do about log directories whose broker was not shut down cleanly (S8.2). Read what a
broker would recover, and clean that log. Or skip them. Or read nothing, and process only segments
that lie entirely below recovery point, high watermark and last stable offset.
"""
OnCorrupt = Literal["leave", "fail", "quarantine"]
"""What to do about a damaged partition. Skip it and continue. Or start nothing if one is known, and
stop at the first that is found later. Or move damaged batches out of the log where that is possible
(`winnow.cleaning.commit.quarantine`).
"""
_LEAST_FREE = 10 * 2**30
"""Bytes that a preparation leaves free on each disk by default: a full disk ends a broker."""
Seen = Callable[[Sequence[Any], "Request"], None]
"""Receives the basis of all decisions before anything is done. An exception ends the run."""


_CHECKS: Mapping[str, Callable[[Any, str], object]] = {
    "max_extra_space": partial(check_least, least=0),
    "keep_free": partial(check_least, least=0),
    "free_at_least": partial(check_least, least=1),
    "now": clock_ms,
}
"""Each raises UsageError for a value that makes no sense for the option with this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparing:
    """What a run needs that only prepares a cleaning, for a later commit."""

    asked: SettingsAsked
    most_age_ms: int
    """How old a preparation may be when it is committed."""
    keep_free: int | None = None
    """Bytes that must remain free on each disk. None: a tenth of the disk, at least 10 GiB, and
    half of the rest.
    """

    def free_bytes(self, directory: str) -> int:
        """Return how many bytes may still be written to the directory's file system."""
        volume = Places().volume(directory)
        left = volume.free_bytes - self.kept_free(volume)
        return left if self.keep_free is not None else left // 2

    def kept_free(self, volume: Volume) -> int:
        """Return the bytes that must remain free on a disk."""
        if self.keep_free is not None:
            return self.keep_free
        return max(volume.total_bytes // 10, _LEAST_FREE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Everything that is requested, except the log directories. `of` builds one from options."""

    settings: Settings
    now: int
    """The clock of every decision, ms since the epoch."""
    touch: bool
    """False for a plan: it must not change a log directory, not even after a crash."""
    run_id: str = field(default_factory=new_run_id)
    topics: tuple[str, ...] = ()
    """Globs; all topics if there are none."""
    exclude: tuple[str, ...] = ()
    """Globs of topics that are skipped, even if `topics` matches them."""
    only: Only | None = None
    """Do only compaction, or only retention."""
    unclean_shutdown: UncleanShutdown = "read"
    keep_replaced: bool = False
    """Keep what is replaced or deleted until it is undone or purged (`logdir.commit.kept`)."""
    on_corrupt: OnCorrupt = "leave"
    max_extra_space: int | None = None
    """Bytes that may be written before as many are removed. None: the free space."""
    keep_free: int = KEEP_FREE_BYTES
    """Bytes that must remain free on each disk."""
    free_at_least: int | None = None
    """Delete only the oldest segments that retention allows, until this many bytes are freed."""
    throttle: float | None = None
    """Maximal bytes that all tasks together read and write per second. None: the limit of
    `log.cleaner.io.max.bytes.per.second`.
    """
    preparing: Preparing | None = None
    """Set if what is staged stays where it is, for a later commit. `touch` is False."""
    estimate: bool = False
    """For a plan: read all records and report exactly what compaction would keep."""
    seen: Seen | None = field(default=None, repr=False, compare=False)
    stop: Stop = field(default_factory=Stop)
    progress: Progress = field(default_factory=Silence)
    spool: str | None = None
    """Directory for prefetched keys (`winnow.scan.prefetch`). None: not prefetched."""
    secret: tuple[int, int] = field(
        default_factory=lambda: (secrets.randbits(64), secrets.randbits(64)), repr=False
    )
    """Key of the hash of record keys."""
    key_summaries: str | None = None
    """Private directory for what runs find out about segments, so that later ones read less
    (`winnow.cleaning.summaries`). None: everything is read.
    """
    least_summed_up: int = 16 * 2**20
    """Log bytes of a segment that is worth a summary."""
    storage: Storage = field(default_factory=Places)
    """The only way in which the driver changes log directories."""

    def __post_init__(self) -> None:
        """Raises UsageError for invalid values and for options that contradict each other."""
        for name, given, known in (
            ("only", self.only, (None, *get_args(Only))),
            ("unclean_shutdown", self.unclean_shutdown, get_args(UncleanShutdown)),
            ("on_corrupt", self.on_corrupt, get_args(OnCorrupt)),
        ):
            if given not in known:
                expected = ", ".join(map(repr, known))
                raise UsageError(f"unknown value of {name}", expected=expected, found=repr(given))
        if self.estimate and self.touch:
            raise UsageError("an estimate is for plans", expected="plan", found="clean")
        if self.free_at_least is not None and (self.only == "compaction" or self.keep_replaced):
            raise UsageError(
                "freeing space can't be combined with compaction only or with keeping "
                "replaced files",
                hint="Leave one of them out.",
            )

    @classmethod
    def of(cls, options: Mapping[str, Any], *, touch: bool) -> Self:
        """Build a request from the options of a public function. None means the default.

        Raises UsageError for a value that can't be used.
        """
        asked = {name: value for name, value in options.items() if value is not None}
        for name, check in _CHECKS.items():
            if name in asked:
                check(asked[name], name)
        rate = asked.get("throttle")
        if rate is not None and (not isinstance(rate, int | float) or not rate > 0):
            raise refused("throttle", "bytes per second, more than 0", rate)
        globs = {name: names(asked.get(name, ()), name) for name in ("topics", "exclude")}
        return cls(touch=touch, **asked | globs)

    @property
    def frees_nothing(self) -> bool:
        """Whether the run frees no space: it keeps what it replaces, or replaces nothing."""
        return self.keep_replaced or self.preparing is not None

    def check_globs(self, topics: Collection[str]) -> None:
        """Raise UsageError for a glob that matches none of `topics`, of all log directories. Also
        for globs that leave no topic, unless the run only plans.
        """
        check_globs(self.topics, topics, option="--topics")
        check_globs(self.exclude, topics, option="--exclude")
        if self.touch and self.exclude and topics and not any(map(self.wants, topics)):
            raise UsageError(
                "--exclude leaves no topic",
                expected="a topic that --topics matches and --exclude does not",
                found=" ".join(self.exclude),
                hint="`plan` lists the topics.",
            )
        check_globs((one.glob for one in self.settings.topic_sets), topics, option="--topic-set")

    def wants(self, topic: str) -> bool:
        return is_wanted(topic, self.topics, self.exclude)
