"""Turn findings into the next commands to run, most urgent first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from winnow.verbs.doctor.values import (
    Advice,
    Disk,
    Gain,
    HeldBack,
    MisplacedEntry,
    Reading,
    Trouble,
)
from winnow.words import counted, roughly, size

NO_POLICY = "S9.2"
DAMAGED = "S8.8"


def advise(
    disks: Sequence[Disk],
    gains: Sequence[Gain],
    held: Sequence[HeldBack],
    troubles: Sequence[Trouble],
    misplaced: Sequence[MisplacedEntry],
    unread: Reading | None,
    *,
    short_of_space: int,
    have_broker_file: bool,
) -> tuple[Advice, ...]:
    """Return commands for `./spark-submit.sh`, without the log directories and the caller's
    options.

    `unread` is the cost of reading all records; None if they were read. `short_of_space`:
    partitions that can't be compacted for want of space. `have_broker_file`: the broker's
    properties file was given.
    """
    found = [*_to_free(gains, short_of_space)]

    def run(*arguments: str, why: str) -> None:
        found.append(Advice(arguments=arguments, why=why))

    moved = [entry for entry in misplaced if entry.log_dir is not None]
    if moved:
        why = (
            f"repairs the cleaner entry of {counted(len(moved), 'partition')}: "
            "keeps one entry, in the partition's log directory"
        )
        run("clean", *_topics({entry.topic for entry in moved}), why=why)
    unknown = {trouble.topic for trouble in troubles if trouble.rule == NO_POLICY}
    if unknown:
        file, what = (
            ("--topic-configs", "the topics' configs (`kafka-configs --describe`)")
            if have_broker_file
            else ("--server-properties", "the broker's properties file")
        )
        why = f"the settings of {counted(len(unknown), 'topic')} are unknown; give {what}"
        run("plan", file, "FILE", why=why)
    damaged = {trouble.topic for trouble in troubles if trouble.rule == DAMAGED}
    if damaged:
        why = "lists everything that is wrong with these topics, by file and byte"
        run("verify", *_topics(damaged), why=why)
    for held_back in held[:1]:
        first = str(held_back.first_offset)
        why = (
            f"{held_back.words} and holds back {size(held_back.held_bytes)}. "
            f"To end it, start the broker and run `kafka-transactions.sh abort --topic "
            f"{held_back.topic} --partition {held_back.partition} --start-offset {first}`"
        )
        partition = f"{held_back.topic}-{held_back.partition}"
        run("explain", "--partition", partition, "--offset", first, why=why)
    room = gains or not any(disk.is_full for disk in disks)
    if room and not all(disk.clean_shutdown for disk in disks):
        why = "optional: recovers the logs here and now, so that the broker starts without recovery"
        run("recover", "--truncate", why=why)
    if unread is not None and unread.bytes and not any(disk.is_full for disk in disks):
        took = "" if unread.seconds is None else f" in {roughly(unread.seconds)}"
        why = (
            f"counts records without a key and tombstones by age; reads {size(unread.bytes)}{took}"
        )
        run("doctor", "--deep", why=why)
    changes = {"clean", "recover"} if any(disk.read_only for disk in disks) else set()
    return tuple(advice for advice in found if advice.arguments[0] not in changes)


def _to_free(gains: Sequence[Gain], short_of_space: int) -> Iterator[Advice]:
    """Yield the commands that free space, those that need none first."""
    by_what = {gain.what: gain for gain in gains}
    freed = {what: size(gain.freed_bytes) for what, gain in by_what.items()}
    if "leftovers" in by_what:
        yield Advice(
            arguments=("recover",),
            why=f"frees {freed['leftovers']} at once: removes what a crash or an interrupted run "
            "left",
        )
    if "retention" in by_what:
        yield Advice(
            arguments=("clean", "--only", "retention"),
            why=f"frees {freed['retention']} at once: deletes whole segments, needs no space",
        )
    if "compaction" in by_what:
        gain = by_what["compaction"]
        both = "after retention, " if "retention" in by_what else ""
        most = "up to " if gain.at_most else ""
        yield Advice(
            arguments=("clean",),
            why=f"{both}compacts {counted(gain.partitions, 'partition')}: frees {most}"
            f"{freed['compaction']}",
        )
    if short_of_space:
        yield Advice(
            arguments=("clean", "--output", "DIR"),
            why=f"compacts {counted(short_of_space, 'partition')} that lack space here: writes "
            "the result to DIR, on another disk",
        )
    if "kept" in by_what:
        yield Advice(
            arguments=("recover", "--purge", "all"),
            why=f"frees {freed['kept']}, for good: what `clean --keep-replaced` keeps for an undo",
        )


def _topics(topics: Iterable[str]) -> list[str]:
    return [word for topic in sorted(topics) for word in ("--topics", topic)]
