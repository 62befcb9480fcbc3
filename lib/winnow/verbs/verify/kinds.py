"""The kinds of findings: a closed set, each with what it means to the owner of the data."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """Scripts depend on these words. docs/findings.md is generated from them."""

    CRC = "crc"
    BATCH = "batch"
    OFFSETS = "offsets"
    RECORDS = "records"
    OVERSIZED = "oversized"
    TIMESTAMP = "timestamp"
    TORN_TAIL = "torn-tail"
    UNREADABLE = "unreadable"
    MISSING = "missing"
    OFFSET_INDEX = "offset-index"
    TIME_INDEX = "time-index"
    TXN_INDEX = "transaction-index"
    SNAPSHOT = "snapshot"
    LEADER_EPOCHS = "leader-epochs"
    CHECKPOINT = "checkpoint"
    PROPERTIES = "properties"
    NAME = "name"
    LEFTOVER = "leftover"

    @property
    def is_damage(self) -> bool:
        """Return False for what a starting broker repairs by itself without any loss."""
        return self not in _MENDED

    @property
    def found(self) -> str:
        """What was found in the file, in a few words."""
        return _FOUND[self][0]

    @property
    def byte(self) -> str:
        """What the byte of such a finding points to; empty if there is none."""
        return _FOUND[self][1]

    @property
    def meaning(self) -> str:
        """What it means to a user, and what to do."""
        return _MEANING[self]


_FOUND = {
    Kind.CRC: (
        "the bytes of a batch do not match its CRC",
        "the batch",
    ),
    Kind.BATCH: (
        (
            "no batch where one has to begin: a size, magic or count that can't be, or an end that is "
            "missing. The next sound batch is looked for and reading goes on there"
        ),
        "where it has to begin",
    ),
    Kind.OFFSETS: (
        "offsets that do not ascend, or that belong to the next segment",
        "the batch that does not fit; it or the one before it is wrong",
    ),
    Kind.RECORDS: (
        (
            "a batch with the right CRC whose records can't be decompressed or parsed to its end, or are not"
            " as many as it says"
        ),
        "the batch",
    ),
    Kind.OVERSIZED: (
        "more than `max.decompressed.message.bytes` in a batch, or more than a task of this machine has memory for",
        "the batch",
    ),
    Kind.TIMESTAMP: (
        "a largest timestamp that is not that of the records (v2)",
        "the batch",
    ),
    Kind.TORN_TAIL: (
        (
            "after an unclean shutdown: no sound batch from here to the end of the log. A broker cuts the "
            "log off at just this byte"
        ),
        "the end of the last sound batch",
    ),
    Kind.UNREADABLE: (
        "bytes that the system does not give, or no file where one has to be",
        "the first batch that can't be read",
    ),
    Kind.MISSING: (
        (
            "no `.index` or `.timeindex` beside a log, no `.log` at all, no producer snapshot at all though "
            "producers wrote"
        ),
        "",
    ),
    Kind.OFFSET_INDEX: (
        "entries that do not ascend or do not name a batch, a torn end, zeros at the end",
        "the entry",
    ),
    Kind.TIME_INDEX: (
        (
            "the same, or a timestamp that is not the largest so far; a last entry that is not the largest of all"
        ),
        "the entry",
    ),
    Kind.TXN_INDEX: (
        (
            "entries without their ABORT marker, or a marker of a transaction with data that has no entry; a first"
            " offset where the log has another batch; a last stable offset above one that was undecided then"
        ),
        "the entry, if there is one",
    ),
    Kind.SNAPSHOT: (
        "a producer snapshot with a wrong CRC, version or size",
        "",
    ),
    Kind.LEADER_EPOCHS: (
        "a checkpoint that can't be read, or a batch with an epoch above all in it or below -1",
        "the batch, if it is one",
    ),
    Kind.CHECKPOINT: (
        (
            "an offset checkpoint that can't be read, or one that says that the log goes further than it does"
        ),
        "",
    ),
    Kind.PROPERTIES: (
        "a `meta.properties` or `partition.metadata` that can't be read",
        "",
    ),
    Kind.NAME: (
        "a name that keeps a broker from starting",
        "",
    ),
    Kind.LEFTOVER: (
        (
            "a file of an interrupted cleaning or deletion; a `.log.swap`, which would replace others, is "
            "read like a log"
        ),
        "",
    ),
}
"""What was found, and what the byte of the finding points to (empty if there is none)."""

_MENDED = frozenset((Kind.TORN_TAIL, Kind.LEFTOVER, Kind.SNAPSHOT))

_REPLICA = "Copy the partition from another replica, or let the broker fetch it anew: remove the directory there."
_REBUILD = (
    "Delete the .index of that segment: a broker that starts rebuilds all of the segment's indexes."
)

_MEANING = {
    Kind.CRC: (
        f"Bytes changed after Kafka wrote them. Consumers stop at this batch, and so does the cleaner. {_REPLICA}"
    ),
    Kind.BATCH: (
        f"There is no batch where one has to begin: what lies there can't be read by anybody. {_REPLICA}"
    ),
    Kind.OFFSETS: (
        "Offsets do not ascend, so that lookups and consumers miss records or get them twice. No CRC covers a"
        f" base offset: a disk or a copy may have changed it, or files of two logs were mixed. {_REPLICA}"
    ),
    Kind.RECORDS: (
        "The batch is as it was written, but its records can't be read: whoever wrote it was broken, and the "
        "other replicas most likely have it as well. Consumers stop here; have them seek to the offset behind"
        " it."
    ),
    Kind.OVERSIZED: (
        "The batch holds more than max.decompressed.message.bytes or the memory here allow: nobody can "
        "read it without that much memory. It may be an attack. Consumers have to seek to the offset behind it."
    ),
    Kind.TIMESTAMP: (
        "The records are fine, but the batch is said to be older or newer than they are: retention by time "
        "and lookups by timestamp go by what it says."
    ),
    Kind.TORN_TAIL: (
        "The broker was stopped while it wrote. When it starts it cuts the log off here, and fetches what is "
        "missing from the other replicas. Without replicas, what lies here was never acknowledged by a flush "
        "and is lost."
    ),
    Kind.UNREADABLE: (
        f"The system does not give the bytes: a failing disk, permissions, or no file at all. {_REPLICA}"
    ),
    Kind.MISSING: (
        "A file is gone. Without its .index a segment is recovered when a broker starts; without its "
        ".timeindex its age is that of the file; without any snapshot a broker forgets producers and open "
        "transactions; without any .log it starts an empty partition at offset 0."
    ),
    Kind.OFFSET_INDEX: (
        "A broker believes this index and does not check it after a clean shutdown: reads begin at wrong "
        f"places. The records are not harmed. {_REBUILD}"
    ),
    Kind.TIME_INDEX: (
        "A broker believes this index: retention by time takes the segment too early or too late, and lookups"
        f" by timestamp lead to wrong offsets. The records are not harmed. {_REBUILD}"
    ),
    Kind.TXN_INDEX: (
        "A broker believes this index: read_committed consumers get aborted records, or miss committed ones. "
        f"{_REBUILD}"
    ),
    Kind.SNAPSHOT: (
        "A broker removes this snapshot of its producers and takes the one before it, which costs it a replay"
        " of the log from there."
    ),
    Kind.LEADER_EPOCHS: (
        "Followers find by the leader epochs where to cut their log: with wrong ones they keep records that "
        "others do not have. A file that can't be read takes the whole log directory offline. Copy it from "
        "another replica."
    ),
    Kind.CHECKPOINT: (
        "The log directory's checkpoints and this log do not fit together, or can't be read, which takes the "
        "whole log directory offline. A log that ends before its recovery point or high watermark has lost "
        "its end; one that ends before its log start offset is deleted by a broker that starts."
    ),
    Kind.PROPERTIES: (
        "A broker refuses to start on this log directory, or takes the partition for another topic's. Restore"
        " the file; kafka-storage.sh and kafka-topics.sh --describe say what has to be in it."
    ),
    Kind.NAME: (
        "Kafka did not write a name like this: a broker refuses to start because of it, or writes checkpoints "
        "that it can't read any more. Move it elsewhere."
    ),
    Kind.LEFTOVER: (
        "A cleaning or a deletion was interrupted. A broker that starts finishes or undoes it, and so do `clean` "
        "and `recover`."
    ),
}
