"""A life as the steps that Kafka's own log executes (Append.java)."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.kafka.lives.life import (
    BEGINNING,
    PASSES,
    Append,
    Config,
    DeleteRecords,
    End,
    Fence,
    Life,
    Rec,
    Roll,
    Step,
    Term,
    Tick,
)
from tests.kafka.log_writer.twin import EPOCH, FOLLOWER, LEADER, LOG_START, ROLL, STEP, unstamped
from tests.log_writer.producer_table import ABORT, COMMIT, MARKER_KEY, MARKER_VALUE
from tests.twins.encoding import encode_batch
from tests.unit.wire.legacy_logs import entry, legacy_batch, wrapper
from winnow.policy.versions import KafkaVersion
from winnow.wire.batch import ATTRIBUTES_AT, CRC_AT, LOG_APPEND_TIME, NO_TIMESTAMP, Codec
from winnow.wire.buffers import as_bytes
from winnow.wire.crc import crc32c
from winnow.wire.plain import Record

_LIKE_A_MARKER = MARKER_KEY.pack(0, COMMIT)
KEYS = (b"a", b"b", b"c", b"d", b"e", b"", _LIKE_A_MARKER, b"long" * 40)
"""One of them is the key of a marker, used as an ordinary key."""
_KEEPS_MARKERS = (3, 1, 0)
"""Before, Kafka loses a marker if a later record has its key (KIP-534)."""
FIRST_TRANSACTIONAL = 3
"""Producers from here on are transactional, those below are idempotent, 0 is none."""
BEGIN_AT_THE_END = 2
"""The sequences of this producer soon wrap from 2^31-1 to 0."""
_SEQUENCES = 2**31
_NOT_WORTH_COMPRESSING = bytes((number * 167 + number // 7 * 59) % 251 for number in range(1200))


@dataclass(frozen=True, slots=True)
class Told:
    """One span: the file of steps, and the log end and the clock after it."""

    steps: bytes
    log_end_offset: int
    clock: int
    records: int
    batches: int


@dataclass(slots=True)
class _Producer:
    epoch: int = 0
    sequence: int = 0


@dataclass(slots=True)
class _Teller:
    version: tuple[int, int, int]
    config: Config = field(default_factory=Config)
    clock: int = BEGINNING
    end: int = 0
    leader_epoch: int = 0
    records: int = 0
    producers: dict[int, _Producer] = field(default_factory=dict)
    steps: list[bytes] = field(default_factory=list)

    def tell(self, step: Step, until: int) -> None:
        match step:
            case Append():
                self._append(step)
            case End(producer, commit, bump, emptied):
                self._end(self._of(producer), producer, commit=commit, bump=bump, emptied=emptied)
            case Fence(producer):
                self._next_epoch(self._of(producer))
            case Term(by):
                self.leader_epoch += by
                self._say(EPOCH, self.leader_epoch)
            case Roll():
                self._say(ROLL)
            case Tick(ms):
                self.clock = min(self.clock + ms, until)
            case DeleteRecords(permille):
                self._say(LOG_START, self.end * permille // 1000)

    def _append(self, step: Append) -> None:
        lead = (
            step.lead
            and step.magic == 2
            and step.producer < FIRST_TRANSACTIONAL
            and bool(step.records)
        )
        if lead:
            step = Append(step.records, step.producer, codec=step.codec, lead=True)
        base = self.end + step.gap
        records = self._records(step, base + step.head)
        last = (records[-1].offset if records else base) + step.tail
        if step.magic < 2:
            self._append_legacy(step, records)
            return
        producer = self._of(step.producer)
        batch = encode_batch(
            records,
            base_offset=base,
            last_offset=last,
            leader_epoch=self.leader_epoch,
            codec=Codec(step.codec),
            log_append_time=self.clock if step.stamped else None,
            transactional=step.producer >= FIRST_TRANSACTIONAL,
            delete_horizon=None
            if step.horizon is None or not records
            else self.clock + step.horizon,
            max_timestamp=None if records or step.stamped else self.clock,
            producer_id=step.producer or -1,
            producer_epoch=producer.epoch if step.producer else -1,
            base_sequence=producer.sequence if step.producer else -1,
            crc=0,
        )
        raw = sum(len(r.value or b"") + len(r.key or b"") + 100 for r in records)
        if max(len(batch), raw) > self.config.segment_bytes:
            return  # a log has room for what a segment has room for
        producer.sequence = (producer.sequence + last - base + 1) % _SEQUENCES
        batch = (
            batch[:CRC_AT]
            + int(crc32c(as_bytes(batch), ATTRIBUTES_AT, len(batch))).to_bytes(4)
            + batch[21:]
        )
        self.end = last + 1
        self.records += len(records)
        if lead and raw < self.config.max_message_bytes:
            self._say(LEADER, self.leader_epoch, unstamped(batch))
        else:
            self._say(FOLLOWER, data=batch)

    def _append_legacy(self, step: Append, records: list[Record]) -> None:
        codec = Codec(step.codec % Codec.ZSTD)
        stamp = self.clock if step.stamped and step.magic else None
        for together in [records] if codec else [[record] for record in records]:
            if not together:
                continue
            if step.nested and codec and step.magic:
                inner = [entry(r.offset - together[0].offset, 0, r.key, r.value) for r in together]
                batch = wrapper(
                    together[-1].offset,
                    1,
                    inner,
                    codec,
                    timestamp=NO_TIMESTAMP if stamp is None else stamp,
                    attributes=0 if stamp is None else LOG_APPEND_TIME,
                )
            else:
                batch = legacy_batch(together, step.magic, codec, log_append_time=stamp)
            if len(batch) > self.config.segment_bytes:
                continue
            self.end = together[-1].offset + 1
            self.records += len(together)
            self._say(FOLLOWER, data=batch)

    def _records(self, step: Append, offset: int) -> list[Record]:
        made = []
        for rec in step.records:
            offset += 0 if step.lead else rec.skip
            made.append(self._record(rec, offset, keyed=step.lead))
            offset += 1
        return made

    def _record(self, rec: Rec, offset: int, *, keyed: bool) -> Record:
        """`keyed`: a leader refuses records without a key in a compacted log."""
        key = (b"" if keyed else None) if rec.key is None else KEYS[rec.key % len(KEYS)]
        if key == _LIKE_A_MARKER and self.version < _KEEPS_MARKERS:
            key = b"marker"
        value = None
        if rec.size is not None:
            start = offset % 100
            value = (b"%d " % offset + _NOT_WORTH_COMPRESSING[start : start + rec.size])[: rec.size]
        timestamp = NO_TIMESTAMP if rec.age is None else max(0, self.clock - rec.age)
        headers = tuple(
            (b"header %d" % n, [b"", None, b"content"][n % 3]) for n in range(rec.headers)
        )
        return Record(offset, timestamp, key, value, headers)

    def _end(
        self, producer: _Producer, number: int, *, commit: bool, bump: bool, emptied: bool
    ) -> None:
        if bump:
            self._next_epoch(producer)
        key, value = (
            MARKER_KEY.pack(0, COMMIT if commit else ABORT),
            MARKER_VALUE.pack(0, producer.epoch),
        )
        batch = encode_batch(
            [] if emptied else [Record(self.end, self.clock, key, value)],
            base_offset=self.end,
            last_offset=self.end,
            leader_epoch=self.leader_epoch,
            transactional=True,
            control=True,
            producer_id=number,
            producer_epoch=producer.epoch,
            max_timestamp=self.clock,
        )
        self.end += 1
        self._say(FOLLOWER, data=batch)

    def _next_epoch(self, producer: _Producer) -> None:
        producer.epoch += 1
        producer.sequence = 0

    def _of(self, number: int) -> _Producer:
        first = _SEQUENCES - 3 if number == BEGIN_AT_THE_END else 0
        return self.producers.setdefault(number, _Producer(sequence=first))

    def _say(self, kind: bytes, number: int = 0, data: bytes = b"") -> None:
        self.steps.append(STEP.pack(kind, self.clock, number, len(data)) + data)


def tell(life: Life, version: KafkaVersion) -> list[Told]:
    """The steps of each span, without what Winnow does in its own way in this version."""
    teller = _Teller(version.first)
    told = []
    for number, now in enumerate(PASSES):
        span = life.span(number)
        teller.config, teller.steps, teller.records = span.config, [], 0
        for step in span.steps:
            teller.tell(step, now)
        batches = sum(step[:1] in {FOLLOWER, LEADER} for step in teller.steps)
        told.append(Told(b"".join(teller.steps), teller.end, teller.clock, teller.records, batches))
        teller.clock = now
    return told
