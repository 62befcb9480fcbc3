"""What a start does with one log: the steps of `UnifiedLog`'s creation, in Kafka's order."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from winnow.advice import Copies, after_a_lost_end, before_a_loss
from winnow.errors import (
    FAILS_ONE_PARTITION,
    CorruptLogError,
    OversizedBatchError,
    UnpredictedLoadError,
    failure_of,
)
from winnow.logdir.commit.lost import (
    lost_segments,
    missing_logs,
    offsets_of,
)
from winnow.logdir.commit.truncation import LogCut, RemovedSegment
from winnow.logdir.indexes.index import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE
from winnow.logdir.names import (
    INDEX,
    LEADER_EPOCHS,
    LOG,
    PARTITION_METADATA,
    SWAP,
    TIMEINDEX,
    DirectoryKind,
    base_offset_of,
    segment_file,
)
from winnow.logdir.unflushed import unflushed_from
from winnow.policy.config import TopicConfig
from winnow.policy.sources import Unknown
from winnow.start.files import (
    FinishedSwap,
    ListingCache,
    PartitionFiles,
    finished_swap,
    loader_offset,
)
from winnow.start.loaded import LoadedLog, LogToLoad
from winnow.start.loader import load_log
from winnow.start.loss import (
    Loss,
    end_lost_of,
    loss_by_swap,
    loss_in,
    loss_of,
    only_in_deleted_files,
)
from winnow.start.rights import why_not_loaded
from winnow.start.segments import ends_too_high, lost_end
from winnow.start.small_files import EPOCH_WORDS, Problem, checkpoint_problem, topic_id_or_problem
from winnow.start.values import Fate, KnownTopics, LogStart
from winnow.state import PartitionState
from winnow.storage.contract import Storage, read_if_there
from winnow.words import counted

FINISHES_SWAP = "the start finishes an interrupted swap"
_SHOWN = 3
_SERVED = frozenset({DirectoryKind.CURRENT, DirectoryKind.FUTURE})
"""A broker never serves the other kinds: it deletes them, or leaves them alone."""


@dataclass(frozen=True, slots=True)
class LogQuestion:
    """A log, and what the broker knows when it loads it."""

    log: LogToLoad
    topics: KnownTopics
    node_id: int | None
    copies: Copies | None = None
    """Who else has its records. None: it is no partition."""
    state: PartitionState | LoadedLog | None = None
    """What a listing or a loader found. The log is then not read again."""


def start_of_log(storage: Storage, question: LogQuestion) -> LogStart:
    """Return what a broker that starts does with this log. Reads what its loader reads: after an
    unclean shutdown, all batches from the recovery point on. The log's directory is listed once,
    and not at all if `storage` is a `ListingCache` that has listed it last.
    """
    log = question.log
    if not isinstance(storage, ListingCache):
        storage = ListingCache(storage)
    start = LogStart(
        log_dir=log.log_dir, name=log.name, topic_partition=log.topic_partition, fate=Fate.LOADS
    )
    config, forbidden = log.config, None
    with suppress(OSError, CorruptLogError):  # such as a link: see `log.error`
        forbidden = why_not_loaded(storage, log)
    if forbidden is not None:
        return replace(start, fate=forbidden.fate, reason=forbidden.words)
    if log.error is not None or isinstance(config, Unknown):
        unknown = config.reason if isinstance(config, Unknown) else log.error
        return replace(start, fate=Fate.UNKNOWN, reason=unknown or "")
    try:
        return _start(storage, question, config, start)
    except (UnpredictedLoadError, OversizedBatchError) as error:
        return replace(start, fate=Fate.UNKNOWN, reason=str(error))
    except CorruptLogError as error:
        deleted = _deleted_for_its_end(storage, question, start, error)
        return deleted or replace(start, fate=Fate.STOPS, reason=str(error))
    except FAILS_ONE_PARTITION as error:
        return replace(start, fate=Fate.OFFLINE, reason=failure_of(error))


def _start(
    storage: Storage, question: LogQuestion, config: TopicConfig, start: LogStart
) -> LogStart:
    log = question.log
    if question.state is not None:
        known = question.state
        outcome = (
            _outcome_of(storage, log, known)
            if isinstance(known, LoadedLog)
            else _outcome_of_state(storage, log.directory, known)
        )
        start = _with_outcome(storage, question, outcome, start)
        return _with_advice(question, _with_identity(storage, question, start))
    epochs = read_if_there(storage, f"{log.directory}/{LEADER_EPOCHS}")
    malformed = None if epochs is None else checkpoint_problem(epochs, words=EPOCH_WORDS)
    if malformed is not None:
        fate = Fate.STOPS if malformed.is_number else Fate.OFFLINE
        return replace(start, fate=fate, reason=f"{LEADER_EPOCHS} can't be read: {malformed}")
    outcome = _outcome_with_swap(storage, log, config)
    start = _with_outcome(storage, question, outcome, start)
    if start.fate.is_harmless and not start.already_lost and log.kind in _SERVED:
        start = replace(start, already_lost=_lost_end(storage, log))
    return _with_advice(question, _with_identity(storage, question, start))


def _with_advice(question: LogQuestion, start: LogStart) -> LogStart:
    """Say what to do about a loss. Nobody leads or follows a log that is set aside."""
    if not start.already_lost or start.fate is Fate.SET_ASIDE or question.copies is None:
        return start
    return replace(start, advice=after_a_lost_end(question.copies))


def _lost_end(storage: Storage, log: LogToLoad) -> str:
    """Return which segment has lost its end by its indexes, or "". A start does not read them, and
    rebuilds those above the recovery point after an unclean shutdown.
    """
    files = PartitionFiles(storage, log.directory)
    bases = sorted(base_offset_of(name) for name in files.sizes if name.endswith(LOG))
    unread = bases if log.clean_shutdown else bases[: unflushed_from(bases, log.recovery_point)]
    for base in unread:
        name = segment_file(base, LOG)
        index = files.last_entry(segment_file(base, INDEX), OFFSET_ENTRY_SIZE)
        timeindex = files.last_entry(segment_file(base, TIMEINDEX), TIME_ENTRY_SIZE)
        with suppress(CorruptLogError):  # a batch that can't be read: `verify` names it
            lost = lost_end(files.path(name), files.sizes[name], base, index, timeindex)
            if lost is not None:
                return (
                    f"an index of {name} names offset {lost}, beyond the end of that log: records "
                    "up to that offset are lost, or the index belongs to another log"
                )
    return ""


def _outcome_with_swap(storage: Storage, log: LogToLoad, config: TopicConfig) -> _Outcome:
    """Return what a loader leaves, after it has finished an interrupted swap."""
    directory = log.directory
    swaps = [e.name for e in storage.list_dir(directory) if e.name.endswith(SWAP)]
    if swaps and not log.renames_swaps:
        for name in swaps:
            loader_offset(name)  # raises for a name with which no version starts
        raise UnpredictedLoadError(
            "an interrupted swap, which releases before 3.0 finish in another way",
            where=directory,
            hint="`recover` finishes it.",
        )
    swap = finished_swap(storage, directory)
    outcome = _outcome_of(storage, log, load_log(storage, log, config, swap), swap)
    if swap is None:
        return outcome
    outcome = replace(outcome, finishes_swap=bool(swap.on_disk))
    loss = loss_by_swap(storage, directory, swap, compacts=log.compacts)
    if loss is None:
        return outcome
    return replace(outcome, loss=loss, cut_bytes=outcome.cut_bytes + swap.log_bytes_gone)


def _deleted_for_its_end(
    storage: Storage, question: LogQuestion, start: LogStart, error: CorruptLogError
) -> LogStart | None:
    """Return what becomes of a log whose last batch ends at offset 2^63-1, if this is the error:
    for a broker the log ends at -2^63, below its start.
    """
    log = question.log
    names = {entry.name: entry.size for entry in storage.list_dir(log.directory) if entry.is_file}
    logs = sorted(name for name in names if name.endswith(LOG))
    path = f"{log.directory}/{logs[-1]}" if logs else ""
    if not logs or not str(error.where).startswith(f"{path} at byte "):
        return None
    at = ends_too_high(path, names[logs[-1]])
    if at is None or error.where != f"{path} at byte {at}":
        return None
    sizes = {base_offset_of(name): names[name] for name in logs}
    begin = log.log_start_checkpoint
    removed = [RemovedSegment(base, size) for base, size in sizes.items()]
    loss = loss_in(storage, log.directory, cuts=(), removed=removed, new_start=begin)
    if loss is None:
        return None
    unflushed = unflushed_from([*sizes], log.recovery_point)
    read = [base for base in sizes if segment_file(base, INDEX) not in names]
    read += [] if log.clean_shutdown else [*sizes][unflushed:]
    how = "its last batch ends at offset 2^63-1, so that the log end overflows: all is deleted"
    start = replace(
        start,
        fate=Fate.LOSES,
        reason=_reason(question, replace(loss, how=how)),
        recovered_bytes=sum(sizes[base] for base in read),
        cut_bytes=loss.bytes,
        log_start_offset=begin,
        log_end_offset=begin,
    )
    return _with_identity(storage, question, start)


def _reason(question: LogQuestion, loss: Loss) -> str:
    """Return what a start deletes, and what to do before it."""
    if question.copies is None:
        return str(loss)
    return f"{loss}. {before_a_loss(question.copies)}"


def _with_identity(storage: Storage, question: LogQuestion, start: LogStart) -> LogStart:
    """Whose log it is: a broker reads `partition.metadata` last."""
    log = question.log
    data = read_if_there(storage, f"{log.directory}/{PARTITION_METADATA}")
    topic_id = None if data is None else topic_id_or_problem(data)
    if isinstance(topic_id, Problem):
        return replace(start, fate=topic_id.fate, reason=topic_id.words)
    if log.kind in {DirectoryKind.DELETE, DirectoryKind.STRAY}:
        return start
    aside = why_set_aside(question, topic_id)
    if aside is not None and topic_id is not None and question.topics.catches_up:
        words = f"{aside}. The broker first fetches newer records from its quorum, which decide"
        return replace(start, fate=Fate.UNKNOWN, reason=words, by_other_nodes=True)
    if aside is not None:
        return replace(start, fate=Fate.SET_ASIDE, reason=aside)
    owner = question.topics.names.get(topic_id or "", log.topic_partition.topic)
    if owner != log.topic_partition.topic:
        words = f"its topic id is that of topic {owner}, so the broker does not serve it"
        return replace(start, fate=Fate.NOT_SERVED, reason=words)
    return start


def why_set_aside(question: LogQuestion, topic_id: str | None) -> str | None:
    """Return why the broker renames the log to `-stray` (`LogManager.isStrayKraftReplica`), or
    None if it keeps it.
    """
    topics, partition = question.topics, question.log.topic_partition.partition
    if topics.replicas is None:
        return None
    if topic_id is None:
        return "it has no partition.metadata, and so no topic id"
    found = topics.replicas.get(topic_id)
    if found is None:
        return f"{topics.log} has no topic with its id {topic_id}"
    nodes = found.get(partition)
    if nodes is None:
        return f"{topics.log} has no partition {partition} of its topic"
    if question.node_id is not None and question.node_id not in nodes:
        return (
            f"its replicas are on {counted(len(nodes), 'node')} "
            f"({', '.join(map(str, sorted(nodes)))}), not on this node {question.node_id}"
        )
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """What the loader leaves of the segments."""

    log_start_offset: int
    log_end_offset: int
    recovered_bytes: int
    cut_bytes: int
    loss: Loss | None
    finishes_swap: bool = False


def _outcome_of(
    storage: Storage, log: LogToLoad, loaded: LoadedLog, swap: FinishedSwap | None = None
) -> _Outcome:
    return _Outcome(
        log_start_offset=loaded.log_start_offset,
        log_end_offset=loaded.log_end_offset,
        recovered_bytes=loaded.recovered_bytes,
        cut_bytes=loaded.truncation.cut_bytes,
        loss=loss_of(storage, log.directory, loaded, swap, has_no_gaps=log.has_no_gaps),
    )


def _outcome_of_state(storage: Storage, directory: str, state: PartitionState) -> _Outcome:
    found, read = state.recovered, 0
    cuts: tuple[LogCut, ...] = ()
    removed: list[RemovedSegment] = []
    if found is not None:
        read = sum(s.log_bytes for s in state.segments if s.base_offset >= found.first_read)
        for base in found.removed:
            log_bytes = storage.entry(f"{directory}/{segment_file(base, LOG)}").size
            removed.append(RemovedSegment(base, log_bytes))
        if found.cut_segment is not None:
            cut_bytes = found.lost_bytes - sum(one.bytes for one in removed)
            before, why = found.cut_position + cut_bytes, found.why_cut or ""
            cut = LogCut(found.cut_segment, before, found.cut_position, found.end_offset, why)
            cuts = (cut,)
    return _Outcome(
        log_start_offset=state.log_start_offset,
        log_end_offset=state.log_end_offset,
        recovered_bytes=read,
        cut_bytes=0 if found is None else found.lost_bytes,
        loss=loss_in(storage, directory, cuts=cuts, removed=removed),
    )


def _with_outcome(
    storage: Storage, question: LogQuestion, found: _Outcome, start: LogStart
) -> LogStart:
    log, end = question.log, found.log_end_offset
    start = replace(
        start,
        fate=Fate.RECOVERS if found.recovered_bytes or found.finishes_swap else Fate.LOADS,
        reason=FINISHES_SWAP if found.finishes_swap else "",
        recovered_bytes=found.recovered_bytes,
        cut_bytes=found.cut_bytes,
        log_start_offset=found.log_start_offset,
        log_end_offset=end,
    )
    if log.kind is DirectoryKind.DELETE:
        return start  # the broker deletes it, whatever it holds
    if found.loss is not None:
        return replace(start, fate=Fate.LOSES, reason=_reason(question, found.loss))
    if log.kind not in _SERVED:
        return start
    entries = storage.list_dir(log.directory)
    if missing := lost_segments(storage, log.directory, entries, has_no_gaps=log.has_no_gaps):
        words = (
            f"{missing_logs(missing)}, so offsets {offsets_of(missing)} are lost; the start "
            "deletes the other files of these segments, which show it"
        )
        return replace(start, already_lost=words)
    if deleted := only_in_deleted_files(storage, log, end):
        return replace(start, fate=Fate.LOSES, reason=deleted.how)
    lost = end_lost_of(storage, log, end, entries)
    return start if lost is None else replace(start, already_lost=lost)
