"""Turn findings into the next commands to run, most urgent first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from winnow.start.values import Fate, LogStart
from winnow.verbs.doctor.attention import TRANSACTION_MAX_MS
from winnow.verbs.doctor.unknown_settings import give_settings
from winnow.verbs.doctor.values import INDEX_ZEROS, NO_POLICY, Advice, Diagnosis, HeldBack
from winnow.words import counted, first_few, roughly, size

DAMAGED = "S8.8"
_RECOVER = ("recover", "--truncate")
_MOST_NAMES = 3
_CHANGES = frozenset({"clean", "recover"})
"""Verbs that change a log directory: not while its broker runs."""


def advise(
    found: Diagnosis,
    *,
    have_broker_file: bool,
    nearby: Sequence[str] = (),
    started_with: str | None = None,
    other_disk: str | None = None,
    cleaner_off: int = 0,
) -> tuple[Advice, ...]:
    """Return commands without the program, the log directories and the caller's options.

    `have_broker_file`: the broker's properties file was given. `nearby`: properties files on this
    machine that may be the broker's. `started_with`: the properties file in the command of the
    running broker. `other_disk`: a new directory on a disk with enough space. `cleaner_off`:
    partitions that are left because `log.cleaner.enable` is false.
    """
    losing = [log for start in found.starts for log in start.logs(Fate.LOSES)]
    advice = [
        *_to_free(found, other_disk),
        *_to_gather_entries(found),
        *_to_find_settings(
            found,
            have_broker_file=have_broker_file,
            nearby=nearby,
            started_with=started_with,
        ),
        *_to_replace_cleaner(cleaner_off),
        *_to_list_damage(found, losing),
        *_to_end_transaction(found),
    ]
    if not any(map(_recovers, advice)):
        advice += _to_recover(found, losing)
    advice += _to_count_records(found)
    read_only = any(disk.read_only for disk in found.disks)
    return tuple(
        _as_things_are(step, found, losing)
        for step in advice
        if not (read_only and step.arguments[0] in _CHANGES)
    )


def _as_things_are(advice: Advice, found: Diagnosis, losing: Sequence[LogStart]) -> Advice:
    """Return the advice with what the command leaves alone, and when it can be run."""
    if losing and _recovers(advice):
        advice = replace(advice, why=f"{advice.why}. {_left_alone(losing)}")
    if _is_running(found) and advice.arguments[0] in _CHANGES:
        advice = replace(advice, why=f"once the broker is stopped: {advice.why}")
    return advice


def _recovers(advice: Advice) -> bool:
    return advice.arguments[:2] == _RECOVER


def _is_running(found: Diagnosis) -> bool:
    return any(disk.broker_runs for disk in found.disks)


def _to_gather_entries(found: Diagnosis) -> Iterator[Advice]:
    moved = [entry for entry in found.misplaced if entry.log_dir is not None]
    if moved:
        why = (
            f"repairs the cleaner entry of {counted(len(moved), 'partition')}: "
            "keeps one entry, in the partition's log directory"
        )
        yield Advice(("clean", *_topics({entry.topic for entry in moved})), why)


def _to_find_settings(
    found: Diagnosis, *, have_broker_file: bool, nearby: Sequence[str], started_with: str | None
) -> Iterator[Advice]:
    unknown = {trouble.topic for trouble in found.troubles if trouble.rule == NO_POLICY}
    if unknown:
        yield give_settings(
            [topic.topic for topic in found.topics if topic.topic in unknown],
            have_broker_file=have_broker_file,
            zookeeper=found.zookeeper,
            nearby=nearby,
            started_with=started_with,
        )


def _to_replace_cleaner(cleaner_off: int) -> Iterator[Advice]:
    if cleaner_off:
        why = (
            f"{counted(cleaner_off, 'partition')} of compacted topics, for the broker has "
            "log.cleaner.enable=false: neither its cleaner nor Winnow cleans them. This shows what "
            "Winnow would clean if it were the cleaner; `clean --replace-cleaner` does it"
        )
        yield Advice(("plan", "--replace-cleaner"), why)


def _to_list_damage(found: Diagnosis, losing: Sequence[LogStart]) -> Iterator[Advice]:
    damaged = {trouble.topic for trouble in found.troubles if trouble.rule == DAMAGED}
    damaged |= {log.topic_partition.topic for log in losing}
    if damaged:
        why = "lists everything that is wrong with these topics, by file and byte"
        yield Advice(("verify", *_topics(damaged)), why)


def _to_end_transaction(found: Diagnosis) -> Iterator[Advice]:
    """Yield what to do about the transaction that holds back most bytes."""
    running = _is_running(found)
    for held_back in found.held_back[:1]:
        if running and not _has_timed_out(held_back, found.now):
            continue
        first = str(held_back.first_offset)
        start = "" if running else "start the broker and "
        why = (
            f"{held_back.words} and holds back {size(held_back.held_bytes)}. "
            f"To end it, {start}run `kafka-transactions.sh abort --topic "
            f"{held_back.topic} --partition {held_back.partition} --start-offset {first}`"
        )
        partition = f"{held_back.topic}-{held_back.partition}"
        asked = ("explain", "--partition", partition, "--offset", first)
        yield Advice(asked, why, _of_node(found, held_back.log_dir))


def _to_recover(found: Diagnosis, losing: Sequence[LogStart]) -> Iterator[Advice]:
    if all(disk.clean_shutdown or disk.is_of_controller for disk in found.disks) or (
        _is_full(found) and not found.gains
    ):
        return
    if any(log_dir.frees_first for start in found.starts for log_dir in start.log_dirs):
        why = (
            "recovers the logs here and now. Do not leave it out: where a broker's own recovery "
            "runs out of space, it can delete records"
        )
    elif losing:
        why = "recovers the logs here and now"
    elif all(start.is_safe for start in found.starts):
        why = "optional: recovers the logs here and now, so that the broker starts without recovery"
    else:  # where a start would not be safe then either, it writes no marker
        return
    yield Advice(_RECOVER, why)


def _to_count_records(found: Diagnosis) -> Iterator[Advice]:
    unread = found.deep
    if found.census is None and unread.bytes and not _is_full(found):
        took = "" if unread.seconds is None else f" in {roughly(unread.seconds)}"
        why = (
            f"counts records without a key and tombstones by age; reads {size(unread.bytes)}{took}"
        )
        yield Advice(("doctor", "--deep"), why)


def _is_full(found: Diagnosis) -> bool:
    return any(disk.is_full for disk in found.disks)


def _has_timed_out(held_back: HeldBack, now: int) -> bool:
    """Whether a running broker should have ended the transaction long ago."""
    seen = held_back.last_seen
    return held_back.is_open and seen is not None and now - seen > TRANSACTION_MAX_MS


def _to_free(found: Diagnosis, other_disk: str | None) -> Iterator[Advice]:
    """Yield the commands that free space, those that need none first."""
    gains = {gain.what: gain for gain in found.gains}
    freed = {what: found.freed(gain) for what, gain in gains.items()}
    if INDEX_ZEROS in gains:
        what = (
            "cuts the zeros at the end of indexes, then the torn ends that a broker cuts when it "
            "starts, and keeps these. Needs no space first"
        )
        yield Advice(_RECOVER, f"frees {freed[INDEX_ZEROS]} at once: {what}")
    if "leftovers" in gains:
        what = "removes what a crash or an interrupted run left"
        yield Advice(("recover",), f"frees {freed['leftovers']} at once: {what}")
    if "retention" in gains:
        how = "at once: deletes whole segments, needs no space"
        yield Advice(("clean", "--only", "retention"), f"frees {freed['retention']} {how}")
    if "compaction" in gains:
        gain = gains["compaction"]
        both = "after retention, " if "retention" in gains else ""
        most = "up to " if gain.at_most else ""
        many = counted(gain.partitions, "partition")
        yield Advice(("clean",), f"{both}compacts {many}: frees {most}{freed['compaction']}")
    if found.short_of_space and other_disk is not None:
        many = counted(found.short_of_space, "partition")
        where = f"that lack space here: writes the result to {other_disk}, on another disk"
        log_dirs = tuple(disk.log_dir for disk in found.disks)
        one = len(log_dirs) == 1
        places = [other_disk if one else f"{other_disk}-{n + 1}" for n in range(len(log_dirs))]
        outputs = (word for place in places for word in ("--output", place))
        yield Advice(("clean", *outputs), f"compacts {many} {where}", log_dirs)
    if "kept" in gains:
        why = f"frees {freed['kept']}, for good: what `clean --keep-replaced` keeps for an undo"
        yield Advice(("recover", "--purge", "all"), why)


def _of_node(found: Diagnosis, log_dir: str) -> tuple[str, ...]:
    """Return the log directories of the same broker. Empty: it is not known which these are."""
    by_node = (tuple(one.path for one in start.log_dirs) for start in found.starts)
    return next((paths for paths in by_node if log_dir in paths), ())


def _left_alone(losing: Sequence[LogStart]) -> str:
    """Say what `recover --truncate` does with logs whose recovery deletes records."""
    names = first_few([f"{log.log_dir}/{log.name}" for log in losing], _MOST_NAMES)
    return (
        f"But it leaves {names} alone, for it would delete the same records as a start: see above. "
        "First copy that elsewhere. Then add --lose-records"
    )


def _topics(topics: Iterable[str]) -> list[str]:
    return [word for topic in sorted(topics) for word in ("--topics", topic)]
