"""The kinds of findings: a closed set, each with what it means to the owner of the data."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from winnow.advice import (
    ANY_METADATA_LOG,
    ANY_PARTITION,
    REBUILD,
    REBUILT,
    Copies,
    for_gone,
    for_metadata_log,
    for_partition,
)

_INTACT = (
    "The records of the log are intact, unless an entry is beyond the end of the log: it may be of "
    "records that the log has lost. Then keep the index, which shows that, and compare the "
    "partition with another replica. Otherwise: delete the .index of the "
    f"segment: {REBUILT}"
)


def _row(*texts: str) -> tuple[str, ...]:
    """Return the word of a kind, then `found`, `byte` and `meaning`."""
    return texts


class Kind(StrEnum):
    """Scripts depend on these words. docs/reference/findings.md is generated from them."""

    found: str
    """What was found in the file, in a few words."""
    byte: str
    """What the byte of such a finding points to; empty if there is none."""
    means: str
    """What it means to a user, and what to do. Without what depends on the place."""

    def __new__(cls, word: str, found: str, byte: str, means: str) -> Self:
        kind = str.__new__(cls, word)
        kind._value_, kind.found, kind.byte, kind.means = word, found, byte, means
        return kind

    @property
    def is_damage(self) -> bool:
        """False if a starting broker repairs it without any loss, or if nothing is wrong."""
        return not (self.is_repaired or self is Kind.LINK)

    @property
    def is_repaired(self) -> bool:
        """Whether a starting broker repairs it without any loss."""
        return self in {Kind.TORN_TAIL, Kind.SNAPSHOT, Kind.LEFTOVER}

    @property
    def needs_copy(self) -> bool:
        """Whether only another copy brings back what is lost."""
        return self in {Kind.CRC, Kind.BATCH, Kind.OFFSETS, Kind.UNREADABLE, Kind.LEADER_EPOCHS}

    @property
    def meaning(self) -> str:
        """What it means to a user, and what to do, wherever it is found."""
        if self is Kind.METADATA:
            return f"{self.means} {ANY_METADATA_LOG}"
        if self is Kind.GONE:
            return f"{self.means} {for_gone(Copies.UNKNOWN)}"
        return f"{self.means} {ANY_PARTITION}" if self.needs_copy else self.means

    def meaning_at(self, copies: Copies, *, in_metadata_log: bool) -> str:
        """Return what it means to a user, and what to do, in one place."""
        if in_metadata_log and (self.needs_copy or self is Kind.METADATA):
            return f"{self.means} {for_metadata_log(copies)}"
        if self is Kind.GONE:
            return f"{self.means} {for_gone(copies)}"
        return f"{self.means} {for_partition(copies)}" if self.needs_copy else self.means

    CRC = _row(
        "crc",
        "the bytes of a batch do not match its CRC",
        "the batch",
        "Bytes changed after Kafka wrote them. Consumers and the cleaner stop at this batch.",
    )
    BATCH = _row(
        "batch",
        "no batch where one must begin: an impossible size, magic or count, or a missing end. "
        "Reading continues at the next sound batch",
        "where a batch must begin",
        "No batch begins where one must. Nobody can read the bytes there.",
    )
    OFFSETS = _row(
        "offsets",
        "offsets that do not ascend, or that belong to the next segment",
        "the batch that does not fit; it or the one before it is wrong",
        "Offsets do not ascend, so lookups and consumers miss records or get them twice. No "
        "CRC covers a base offset: a disk or a copy may have changed it, or files of two logs "
        "were mixed.",
    )
    RECORDS = _row(
        "records",
        "a batch with the right CRC whose records can't be decompressed or parsed to its end, "
        "or whose number of records is wrong",
        "the batch",
        "The batch is as it was written, but its records can't be read: its writer was "
        "faulty, and the other replicas most likely have the same batch. Consumers stop here. "
        "Let them seek to the offset after it.",
    )
    OVERSIZED = _row(
        "oversized",
        "a batch with more than `max.decompressed.message.bytes`, or with more than a task on "
        "this machine has memory for",
        "the batch",
        "The batch holds more than max.decompressed.message.bytes or this machine's memory "
        "allows. Nobody can read it without that much memory. It may be an attack. Consumers must "
        "seek to the offset after it.",
    )
    TIMESTAMP = _row(
        "timestamp",
        "a header whose largest timestamp is not that of the records (v2)",
        "the batch",
        "The records are intact, but the batch header has a wrong timestamp. Retention by time "
        "and lookups by timestamp use the header.",
    )
    TORN_TAIL = _row(
        "torn-tail",
        "after an unclean shutdown: no sound batch from here to the end of the log. A broker "
        "truncates the log at this byte",
        "the end of the last sound batch",
        "The broker stopped while it was writing. When it starts, it truncates the log here "
        "and fetches the missing records from the other replicas. Without replicas, these "
        "records are lost; no flush had acknowledged them.",
    )
    UNREADABLE = _row(
        "unreadable",
        "bytes that the system can't read, or a missing file",
        "the first batch that can't be read",
        "The system can't read the bytes: a failing disk, permissions, or a missing file.",
    )
    MISSING = _row(
        "missing",
        "a log without `.index` or `.timeindex`, indexes without their `.log`, a partition "
        "without any `.log`, or no producer snapshot although producers wrote",
        "",
        "A file is missing. Indexes without their .log show that the records of a segment are "
        "lost. A broker deletes these indexes when it starts, so first restore the .log, or copy "
        "the partition from another replica. "
        "Without its .index, a segment is recovered when a broker starts. "
        "Without its .timeindex, its age is that of the file. Without any snapshot, a broker "
        "forgets producers and open transactions. Without any .log, it starts an empty "
        "partition at offset 0.",
    )
    GONE = _row(
        "gone",
        "no directory of a partition that the metadata log has on this node: a checkpoint has an "
        "offset of it, or the node was in sync and had reported the log directory",
        "",
        "The directory of the partition is lost, or was moved elsewhere. A broker makes the "
        "partition anew, without a record. If it then leads, its followers cut their logs, too.",
    )
    OFFSET_INDEX = _row(
        "offset-index",
        "entries that do not ascend or do not name a batch, a torn end, zeros at the end",
        "the entry",
        "A broker trusts this index and does not check it after a clean shutdown: reads begin "
        f"at wrong places. {_INTACT}",
    )
    TIME_INDEX = _row(
        "time-index",
        "the same as in an offset index, a timestamp that is not the largest so far, or a "
        "last entry that is not the largest of all",
        "the entry",
        "A broker trusts this index: retention by time deletes the segment too early or too "
        f"late, and lookups by timestamp find wrong offsets. {_INTACT}",
    )
    TXN_INDEX = _row(
        "transaction-index",
        "entries without their ABORT marker; a marker without an entry, of a transaction with "
        "data; a first offset where the log has another batch; a last stable offset above one "
        "that was undecided then",
        "the entry, if there is one",
        "A broker trusts this index: read_committed consumers get aborted records, or miss "
        f"committed ones. {REBUILD}",
    )
    SNAPSHOT = _row(
        "snapshot",
        "a producer snapshot with a wrong CRC, version or size",
        "",
        "A broker removes this producer snapshot, uses the one before it, and replays the log "
        "from there.",
    )
    LEADER_EPOCHS = _row(
        "leader-epochs",
        "a checkpoint that can't be read, or a batch whose epoch is above all in the "
        "checkpoint or below -1",
        "the batch, if it is about one",
        "Followers use the leader epochs to find where to truncate their logs. With wrong "
        "epochs they keep records that others do not have. A file that can't be read takes "
        "the whole log directory offline.",
    )
    CHECKPOINT = _row(
        "checkpoint",
        "an offset checkpoint that can't be read, or an offset in it beyond the end of the log",
        "",
        "A checkpoint of the log directory does not match this log, or can't be read. One "
        "that can't be read takes the whole log directory offline. A log that ends before its "
        "recovery point or high watermark has lost its end. If a log ends before its log "
        "start offset, a broker deletes it when it starts. A copy that was made while a broker "
        "wrote looks like this, too: then make the copy again.",
    )
    METADATA = _row(
        "metadata",
        "the metadata log of the cluster is empty, lacks records, or begins after its snapshots; a "
        "snapshot of it, or `bootstrap.checkpoint`, without its header, its footer or whole "
        "records; a `quorum-state` that can't be read",
        "",
        "The metadata log, or a file beside it, is damaged. Move a damaged snapshot elsewhere if "
        "its message says that the rest has all of it.",
    )
    PROPERTIES = _row(
        "properties",
        "a `meta.properties` or `partition.metadata` that can't be read",
        "",
        "A broker refuses to start on this log directory, or takes the partition for another "
        "topic's. Restore the file. kafka-storage.sh and kafka-topics.sh --describe show what "
        "it must contain.",
    )
    METADATA_LOG = _row(
        "metadata-log",
        "a `__cluster_metadata-0` beside that of another log directory of the same broker",
        "",
        "A broker has one metadata log, in metadata.log.dir or in the first of log.dirs, and does "
        "not start while another of its directories has one. Make sure which one the broker uses, "
        "and move the other elsewhere. Do not delete it: if it is the newer one, it has topics "
        "and settings that the other lacks.",
    )
    NAME = _row(
        "name",
        "a name that keeps a broker from starting",
        "",
        "Kafka never writes such a name. Because of it a broker refuses to start, or writes "
        "checkpoints that it can't read again. Move it elsewhere.",
    )
    LINK = _row(
        "link",
        "a partition directory that is a symbolic link, which is not checked",
        "",
        "Nothing is known to be wrong. A broker follows the link, Winnow does not: the lock of the "
        "log directory does not protect the target. To check the partition, mount the target in "
        "place of the link, or check a copy of the log directory that has the files.",
    )
    DUPLICATE = _row(
        "duplicate",
        "a partition that is in two log directories of one broker",
        "",
        'A broker does not start on two directories of one partition ("Duplicate log '
        'directories"). Compare their offsets and times, and move the older directory elsewhere. '
        "`plan` says which one the controller means, if the metadata log has it.",
    )
    LEFTOVER = _row(
        "leftover",
        "a file of an interrupted cleaning or deletion. A `.log.swap`, which would replace "
        "other files, is read like a log",
        "",
        "A cleaning or a deletion was interrupted. A broker finishes or undoes it when it "
        "starts, and so do `clean` and `recover`.",
    )
