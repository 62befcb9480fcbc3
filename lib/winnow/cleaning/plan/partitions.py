"""What is known of each partition before anything is done: why it is skipped, or its plan."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

from winnow.cleaning.request import Request
from winnow.errors import FAILS_ONE_PARTITION
from winnow.logdir.commit.journal import Journal
from winnow.logdir.commit.roll_forward import OpenRound
from winnow.logdir.copies import words_of
from winnow.logdir.listing import resolve
from winnow.logdir.meta import read_topic_id
from winnow.logdir.names import (
    CLEANER_CHECKPOINT,
    LEADER_EPOCHS,
    LOG,
    LOG_START_CHECKPOINT,
    META_PROPERTIES,
    segment_file,
)
from winnow.logdir.survey import LogDir
from winnow.policy.config import TopicConfig
from winnow.policy.decide import retention_of
from winnow.policy.plan import PartitionPlan, Reason, RetentionPlan
from winnow.policy.sources import Unknown
from winnow.runtime.failure import failure
from winnow.start.loaded import is_without_gaps
from winnow.state import PartitionState, TopicPartition
from winnow.storage.guarded import link_target
from winnow.storage.permissions import why_not_replaceable
from winnow.storage.urls import is_remote
from winnow.survey.place import ListedPartition, PartitionPlace
from winnow.survey.transactions import Snapshot, Transactions
from winnow.survey.walk import SegmentWalk
from winnow.words import counted, size

UNCLEAN = Reason(
    "S8.2",
    "the broker was not shut down cleanly (no .kafka_cleanshutdown in the log directory), and "
    "--unclean-shutdown=refuse leaves such a directory unchanged. Without this option Winnow reads "
    "what a broker would recover, and cleans that log",
)
NOTHING_BELOW = Reason(
    "S8.2",
    "the broker was not shut down cleanly, and no segment lies entirely below recovery point and "
    "high watermark, as --unclean-shutdown=below-recovery-point wants. Leave this option out: "
    "Winnow then reads what a broker would recover",
)
DUPLICATE = Reason("S1.11", "unchanged")
UNREADABLE = Reason("S8.8", "unchanged: its files can't be read or are invalid")
_LINK = (
    "its directory is a symbolic link{}. The lock of this log directory does not protect the "
    "target. Make the target's parent a log directory of its own in log.dirs, or mount the target "
    "here"
)


@dataclass(frozen=True, slots=True)
class SkippedPartition:
    """A partition that the run skips, and why. `error`: what is wrong with it, if anything."""

    place: PartitionPlace
    policy: str | None
    reason: Reason
    error: str | None = None
    state: PartitionState | None = None
    settings_unknown: bool = False
    """Nothing else is known to be wrong with it."""


@dataclass(frozen=True, slots=True)
class SelectedPartition:
    """A partition with known settings that may be read."""

    place: PartitionPlace
    log_dir: LogDir
    config: TopicConfig
    finished: Journal | None = None
    """The round of an earlier run that this run finished before it made the plan."""
    goes_on: OpenRound | None = None
    """The unfinished round of an earlier run at the same clock. The plan compacts its rest."""
    put_right: bool = False
    """This run has finished or removed what a crash or an interrupted run had left."""

    @property
    def policy(self) -> str | None:
        return self.config.cleanup_policy

    def left_alone(
        self, reason: Reason, *, error: str | None = None, state: PartitionState | None = None
    ) -> SkippedPartition:
        return SkippedPartition(self.place, self.policy, reason, error=error, state=state)

    def cleaned_to(self, offset: int) -> Self:
        """Return the same with this cleaner checkpoint."""
        checkpoints = self.log_dir.checkpoints
        cleaner = {**checkpoints.cleaner, self.place.topic_partition: offset}
        checkpoints = replace(checkpoints, cleaner=cleaner)
        return replace(self, log_dir=replace(self.log_dir, checkpoints=checkpoints))

    def state_of(self, listed: ListedPartition, log_end_offset: int) -> PartitionState:
        """Return the state of the partition, with the checkpoints from the start of the run."""
        return resolve(
            listed.listing,
            log_dir=self.place.log_dir,
            topic_partition=self.place.topic_partition,
            checkpoints=self.log_dir.checkpoints,
            log_end_offset=log_end_offset,
            clean_shutdown=self.log_dir.clean_shutdown,
            trusted_end=self.place.trusted_end,
            lost_bytes=listed.lost_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPartition(SelectedPartition):
    """A partition with a plan. If the plan compacts it, also the results of the walk."""

    state: PartitionState
    plan: PartitionPlan
    snapshot: Snapshot
    """The replay of the producers' state starts here. Meaningless unless the plan compacts."""
    walks: tuple[SegmentWalk, ...] | None = None
    transactions: Transactions | None = None
    """Set if `walks` is."""
    overflowed: tuple[int, ...] = ()
    """Bases of segments that span too many offsets for an index: split before the round (S6.5)."""
    compacts_less: bool = False
    """A broker may compact more of the log than this plan does (S3.2)."""

    def then_retained(
        self, state: PartitionState, request: Request
    ) -> tuple[RetentionPlan | None, str]:
        """Return what retention deletes after a compaction that leaves `state`, and why (S3.5)."""
        less = self.compacts_less
        plan, why = retention_of(state, self.config, request.now, request.only, compacts_less=less)
        return plan, why.words


Planned = SkippedPartition | PlannedPartition


def states_of(planned: Iterable[Planned]) -> dict[str, PartitionState]:
    """Return the states of the partitions without a problem, by directory."""
    return {
        item.state.directory: item.state for item in planned if isinstance(item, PlannedPartition)
    }


def place_of(log_dir: LogDir, topic_partition: TopicPartition, request: Request) -> PartitionPlace:
    place = PartitionPlace(log_dir.path, topic_partition)
    if log_dir.clean_shutdown:
        return place
    checkpoints = log_dir.checkpoints
    recovery_point = checkpoints.recovery_point.get(topic_partition, 0)
    if request.unclean_shutdown == "below-recovery-point":
        committed = checkpoints.high_watermark.get(topic_partition, 0)
        return replace(place, trusted_end=min(recovery_point, committed))
    return replace(place, recovery_point=recovery_point)


def known_or_left_alone(
    place: PartitionPlace, log_dir: LogDir, config: TopicConfig | Unknown, request: Request
) -> SkippedPartition | SelectedPartition:
    policy = None if isinstance(config, Unknown) else config.cleanup_policy
    left = _why_left_alone(place, log_dir, request)
    if left is not None:
        return SkippedPartition(place, policy, *left)
    if isinstance(config, Unknown):
        reason = Reason("S9.2", config.reason)
        return SkippedPartition(place, None, reason, settings_unknown=True)
    place = replace(
        place,
        index_interval_bytes=config.index_interval_bytes,
        one_byte_versions=config.rules.one_byte_versions,
        has_no_gaps=is_without_gaps(
            config, has_been=place.topic_partition in log_dir.checkpoints.cleaner
        ),
    )
    return SelectedPartition(place, log_dir, config)


def _why_left_alone(
    place: PartitionPlace, log_dir: LogDir, request: Request
) -> tuple[Reason, str | None] | None:
    """Return why the partition is skipped whatever its settings are, and what is wrong with it, if
    anything. None if it may be read.
    """
    if log_dir.error is not None:
        return UNREADABLE, str(log_dir.error)
    if place.topic_partition in log_dir.duplicates:
        return DUPLICATE, _where(place, log_dir, request)
    if not log_dir.clean_shutdown and request.unclean_shutdown == "refuse":
        return UNCLEAN, None
    try:
        foreign = _why_foreign(place, log_dir, request)
    except FAILS_ONE_PARTITION as error:
        return UNREADABLE, failure(error).message
    return None if foreign is None else (foreign, None)


def _where(place: PartitionPlace, log_dir: LogDir, request: Request) -> str:
    at, metadata = place.topic_partition, request.settings.metadata
    assigned = (
        None
        if metadata is None
        else metadata.directory_of(at.topic, at.partition, log_dir.meta.node_id)
    )
    return words_of(request.storage, log_dir.duplicates[at], assigned)


def _why_foreign(place: PartitionPlace, log_dir: LogDir, request: Request) -> Reason | None:
    """Return why the directory is skipped: it is a link, or by the metadata log it does not belong
    to the topic, or not to this broker (S9.3). None if neither is the case.
    """
    settings = request.settings
    if not is_remote(place.directory) and request.storage.entry(place.directory).is_link:
        target = link_target(place.directory)
        return Reason("S8.1", _LINK.format("" if target is None else f" to {target}"))
    if settings.metadata is None or place.topic_partition.topic not in settings.metadata.topics:
        return None
    topic_id = read_topic_id(request.storage, place.directory)
    known = place.topic_partition
    why = settings.metadata.why_foreign(
        known.topic, known.partition, topic_id, node_id=log_dir.meta.node_id
    )
    return None if why is None else Reason("S9.3", why)


def why_unwritable(place: PartitionPlace, bases: Iterable[int] = ()) -> Reason | None:
    """Return why this process could not finish a commit of the partition, or None (S8.5).

    Everything that a commit replaces is checked before the first rename: the segments at `bases`,
    leader epochs, and the checkpoints of the log directory.
    """
    return why_files_unwritable(place, bases) or why_checkpoints_unwritable(place.log_dir)


def why_files_unwritable(place: PartitionPlace, bases: Iterable[int]) -> Reason | None:
    names = [*(segment_file(base, LOG) for base in bases), LEADER_EPOCHS]
    return _unwritable(why_not_replaceable(place.directory, names))


def why_checkpoints_unwritable(log_dir: str) -> Reason | None:
    names = (CLEANER_CHECKPOINT, LOG_START_CHECKPOINT, META_PROPERTIES)
    return _unwritable(why_not_replaceable(log_dir, names))


def _unwritable(why: str | None) -> Reason | None:
    return None if why is None else Reason("S8.5", why)


def after_unclean_shutdown(state: PartitionState) -> str | None:
    """Return what an unclean shutdown means for a partition. None after a clean one."""
    if state.trusted_end is not None:
        return (
            "the broker was not shut down cleanly: only segments that lie entirely below offset "
            f"{state.high_watermark} are processed. It is the lowest of recovery point, high "
            "watermark and last stable offset"
        )
    found = state.recovered
    if found is None:
        return None
    words = (
        "the broker was not shut down cleanly: the log was read from segment "
        f"{found.first_read} on, and the log ends at offset {found.end_offset}"
    )
    if found.why_cut is None:
        return words
    cut = (
        f"a broker cuts segment {found.cut_segment} at byte {found.cut_position} ({found.why_cut})"
    )
    if found.removed:
        cut += f" and removes {counted(len(found.removed), 'later segment')}"
    return f"{words}: {cut}. These {size(found.lost_bytes)} are left to the broker"
