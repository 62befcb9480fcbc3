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
            "no batch where one must begin: an impossible size, magic or count, or a missing end. "
            "Reading continues at the next sound batch"
        ),
        "where a batch must begin",
    ),
    Kind.OFFSETS: (
        "offsets that do not ascend, or that belong to the next segment",
        "the batch that does not fit; it or the one before it is wrong",
    ),
    Kind.RECORDS: (
        (
            "a batch with the right CRC whose records can't be decompressed or parsed to its end, "
            "or whose number of records is wrong"
        ),
        "the batch",
    ),
    Kind.OVERSIZED: (
        (
            "a batch with more than `max.decompressed.message.bytes`, or with more than a task on "
            "this machine has memory for"
        ),
        "the batch",
    ),
    Kind.TIMESTAMP: (
        "a header whose largest timestamp is not that of the records (v2)",
        "the batch",
    ),
    Kind.TORN_TAIL: (
        (
            "after an unclean shutdown: no sound batch from here to the end of the log. A broker "
            "truncates the log at this byte"
        ),
        "the end of the last sound batch",
    ),
    Kind.UNREADABLE: (
        "bytes that the system can't read, or a missing file",
        "the first batch that can't be read",
    ),
    Kind.MISSING: (
        (
            "a log without `.index` or `.timeindex`, a partition without any `.log`, or no "
            "producer snapshot although producers wrote"
        ),
        "",
    ),
    Kind.OFFSET_INDEX: (
        "entries that do not ascend or do not name a batch, a torn end, zeros at the end",
        "the entry",
    ),
    Kind.TIME_INDEX: (
        (
            "the same as in an offset index, a timestamp that is not the largest so far, or a "
            "last entry that is not the largest of all"
        ),
        "the entry",
    ),
    Kind.TXN_INDEX: (
        (
            "entries without their ABORT marker; a marker without an entry, of a transaction with "
            "data; a first offset where the log has another batch; a last stable offset above one "
            "that was undecided then"
        ),
        "the entry, if there is one",
    ),
    Kind.SNAPSHOT: (
        "a producer snapshot with a wrong CRC, version or size",
        "",
    ),
    Kind.LEADER_EPOCHS: (
        (
            "a checkpoint that can't be read, or a batch whose epoch is above all in the "
            "checkpoint or below -1"
        ),
        "the batch, if it is about one",
    ),
    Kind.CHECKPOINT: (
        (
            "an offset checkpoint that can't be read, or one with an offset beyond the end of the "
            "log"
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
            "a file of an interrupted cleaning or deletion. A `.log.swap`, which would replace "
            "other files, is read like a log"
        ),
        "",
    ),
}
"""What was found, and what the byte of the finding points to (empty if there is none)."""

_MENDED = frozenset((Kind.TORN_TAIL, Kind.LEFTOVER, Kind.SNAPSHOT))

_REPLICA = (
    "Copy the partition from another replica, or delete its directory so that the broker fetches "
    "it again."
)
_REBUILD = (
    "Delete the .index of that segment: when a broker starts, it rebuilds all of the segment's "
    "indexes."
)

_MEANING = {
    Kind.CRC: (
        "Bytes changed after Kafka wrote them. Consumers and the cleaner stop at this batch. "
        f"{_REPLICA}"
    ),
    Kind.BATCH: (f"No batch begins where one must. Nobody can read the bytes there. {_REPLICA}"),
    Kind.OFFSETS: (
        "Offsets do not ascend, so lookups and consumers miss records or get them twice. No "
        "CRC covers a base offset: a disk or a copy may have changed it, or files of two logs "
        f"were mixed. {_REPLICA}"
    ),
    Kind.RECORDS: (
        "The batch is as it was written, but its records can't be read: its writer was "
        "faulty, and the other replicas most likely have the same batch. Consumers stop here. "
        "Let them seek to the offset after it."
    ),
    Kind.OVERSIZED: (
        "The batch holds more than max.decompressed.message.bytes or the memory here allow. "
        "Nobody can read it without that much memory. It may be an attack. Consumers must "
        "seek to the offset after it."
    ),
    Kind.TIMESTAMP: (
        "The records are fine, but the batch header says that they are older or newer than "
        "they are. Retention by time and lookups by timestamp use the header."
    ),
    Kind.TORN_TAIL: (
        "The broker stopped while it was writing. When it starts, it truncates the log here "
        "and fetches the missing records from the other replicas. Without replicas, these "
        "records are lost; no flush had acknowledged them."
    ),
    Kind.UNREADABLE: (
        "The system can't read the bytes: a failing disk, permissions, or a missing file. "
        f"{_REPLICA}"
    ),
    Kind.MISSING: (
        "A file is missing. Without its .index, a segment is recovered when a broker starts. "
        "Without its .timeindex, its age is that of the file. Without any snapshot, a broker "
        "forgets producers and open transactions. Without any .log, it starts an empty "
        "partition at offset 0."
    ),
    Kind.OFFSET_INDEX: (
        "A broker trusts this index and does not check it after a clean shutdown: reads begin "
        f"at wrong places. The records are intact. {_REBUILD}"
    ),
    Kind.TIME_INDEX: (
        "A broker trusts this index: retention by time deletes the segment too early or too "
        f"late, and lookups by timestamp find wrong offsets. The records are intact. {_REBUILD}"
    ),
    Kind.TXN_INDEX: (
        "A broker trusts this index: read_committed consumers get aborted records, or miss "
        f"committed ones. {_REBUILD}"
    ),
    Kind.SNAPSHOT: (
        "A broker removes this producer snapshot, uses the one before it, and replays the log "
        "from there."
    ),
    Kind.LEADER_EPOCHS: (
        "Followers use the leader epochs to find where to truncate their logs. With wrong "
        "epochs they keep records that others do not have. A file that can't be read takes "
        "the whole log directory offline. Copy it from another replica."
    ),
    Kind.CHECKPOINT: (
        "A checkpoint of the log directory does not match this log, or can't be read. One "
        "that can't be read takes the whole log directory offline. A log that ends before its "
        "recovery point or high watermark has lost its end. If a log ends before its log "
        "start offset, a broker deletes it when it starts."
    ),
    Kind.PROPERTIES: (
        "A broker refuses to start on this log directory, or takes the partition for another "
        "topic's. Restore the file. kafka-storage.sh and kafka-topics.sh --describe show what "
        "it must contain."
    ),
    Kind.NAME: (
        "Kafka never writes such a name. Because of it a broker refuses to start, or writes "
        "checkpoints that it can't read again. Move it elsewhere."
    ),
    Kind.LEFTOVER: (
        "A cleaning or a deletion was interrupted. A broker finishes or undoes it when it "
        "starts, and so do `clean` and `recover`."
    ),
}
