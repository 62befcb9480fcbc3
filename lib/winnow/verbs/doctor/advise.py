"""Turn findings into the next commands to run, most urgent first."""

from __future__ import annotations

from collections.abc import Sequence

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
) -> tuple[Advice, ...]:
    """Return commands for `./spark-submit.sh`, without the log directories and the caller's
    options.

    `unread` is the cost of reading all records; None if they were read.
    """
    by_what = {gain.what: gain for gain in gains}
    found: list[Advice] = []
    if "retention" in by_what:
        gain = by_what["retention"]
        found.append(
            Advice(
                arguments=("clean", "--only", "retention"),
                why=f"frees {size(gain.freed_bytes)} at once: "
                "deletes whole segments, needs no space",
            )
        )
    if "compaction" in by_what:
        gain = by_what["compaction"]
        both = "after retention, " if "retention" in by_what else ""
        found.append(
            Advice(
                arguments=("clean",),
                why=f"{both}compacts {counted(gain.partitions, 'partition')}: "
                f"frees {'up to ' if gain.at_most else ''}{size(gain.freed_bytes)}",
            )
        )
    moved = [entry for entry in misplaced if entry.log_dir is not None]
    if moved:
        globs = tuple(
            word
            for topic in sorted({entry.topic for entry in moved})
            for word in ("--topics", topic)
        )
        why = (
            f"repairs the cleaner entry of {counted(len(moved), 'partition')}: "
            "keeps one entry, in the partition's log directory"
        )
        found.append(Advice(arguments=("clean", *globs), why=why))
    unknown = sorted({trouble.topic for trouble in troubles if trouble.rule == NO_POLICY})
    if unknown:
        found.append(
            Advice(
                arguments=("plan", "--server-properties", "FILE"),
                why=f"the cleanup policy of {counted(len(unknown), 'topic')} is unknown; "
                "give the broker's properties file",
            )
        )
    damaged = sorted({trouble.topic for trouble in troubles if trouble.rule == DAMAGED})
    if damaged:
        globs = tuple(word for topic in damaged for word in ("--topics", topic))
        found.append(
            Advice(
                arguments=("verify", *globs),
                why="lists everything that is wrong with these topics, by file and byte",
            )
        )
    for open_transaction in held[:1]:
        where = f"{open_transaction.topic}-{open_transaction.partition}"
        found.append(
            Advice(
                arguments=(
                    "explain",
                    "--partition",
                    where,
                    "--offset",
                    str(open_transaction.first_offset),
                ),
                why=f"{open_transaction.words} and holds back {size(open_transaction.held_bytes)}. "
                f"To end it, start the broker and run `kafka-transactions.sh abort --topic "
                f"{open_transaction.topic} --partition {open_transaction.partition} "
                f"--start-offset {open_transaction.first_offset}`",
            )
        )
    room = gains or not any(disk.is_full for disk in disks)
    if room and not all(disk.clean_shutdown for disk in disks):
        found.append(
            Advice(
                arguments=("recover", "--truncate"),
                why="optional: recovers the logs here and now, so that the broker starts without "
                "recovery",
            )
        )
    if unread is not None and unread.bytes and not any(disk.is_full for disk in disks):
        took = "" if unread.seconds is None else f" in {roughly(unread.seconds)}"
        why = (
            f"counts records without a key and tombstones by age; reads {size(unread.bytes)}{took}"
        )
        found.append(Advice(arguments=("doctor", "--deep"), why=why))
    return tuple(found)
