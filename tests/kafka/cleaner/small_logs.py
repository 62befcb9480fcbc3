"""Small logs, one per case of the checklist in docs/semantics.md. One run cleans them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.log_writer.dir_writer import LogDirWriter
from tests.log_writer.leader_batches import NOBODY, Producer
from tests.log_writer.segment_writer import SegmentConfig
from tests.log_writer.writer import LogWriter
from winnow.state import TopicPartition
from winnow.wire.plain import Record

NOW = 1_800_000_000_000
WRITTEN = NOW - 3_600_000
RETENTION_MS = 1000
HORIZON = NOW + RETENTION_MS
TWO_DAYS_MS = 2 * 86_400_000
INTERVAL_BYTES = 150
"""Of indexes: a few entries in each."""


def put(
    log: LogWriter,
    *keys: str,
    producer: int | None = None,
    timestamp: int | None = None,
    size: int = 20,
) -> int:
    """One batch; a key that begins with `-` is a tombstone's. The first offset."""
    records = [
        Record(
            0,
            WRITTEN + at if timestamp is None else timestamp,
            key.lstrip("-").encode(),
            None if key.startswith("-") else b"%d".ljust(size, b".") % at,
        )
        for at, key in enumerate(keys, start=log.log_end_offset)
    ]
    return log.append_records(
        records, producer=NOBODY if producer is None else Producer(producer, 0)
    )


def each(log: LogWriter, *keys: str) -> None:
    """A batch per record."""
    for key in keys:
        put(log, key)


def case_01(log: LogWriter) -> None:
    for _ in range(2):
        for at in range(0, 20, 5):
            put(log, *(f"k{n}" for n in range(at, at + 5)))
            log.roll()


def case_02(log: LogWriter) -> None:
    each(log, *"ababa")


def case_03(log: LogWriter) -> None:
    put(log, *"abcd")
    log.roll()
    put(log, "-a", "-b")
    put(log, "e")


def case_05(log: LogWriter) -> None:
    put(log, "a", timestamp=NOW + 10**9)
    log.roll()
    put(log, "-a", timestamp=0)
    put(log, "b")


def case_06(log: LogWriter) -> None:
    log.append_records(
        [Record(0, 5, b"a", b"1"), Record(0, 10, b"b", None), Record(0, 15, b"c", b"3")]
    )
    put(log, "d")


def case_07(log: LogWriter) -> None:
    put(log, "a", "-a")
    put(log, "-b", "c")
    put(log, "a", "b")


def case_09(log: LogWriter) -> None:
    log.append_records(
        [
            Record(0, WRITTEN, None, b"1"),
            Record(0, WRITTEN, b"a", b"2"),
            Record(0, WRITTEN, None, None),
        ]
    )
    put(log, "b")


def case_10(log: LogWriter) -> None:
    log.append_records([Record(0, WRITTEN, b"", b"old"), Record(0, WRITTEN, b"a", b"")])
    log.append_records([Record(0, WRITTEN, b"", b"new"), Record(0, WRITTEN, b"b", None)])
    put(log, "c")


def case_11(log: LogWriter) -> None:
    for _ in range(4):
        put(log, *"aba")
        log.roll()


def case_12(log: LogWriter) -> None:
    each(log, *"xxyyz")


def case_16(log: LogWriter) -> None:
    put(log, "a", size=200_000)
    put(log, "a", "b", size=150_000)


def case_18(log: LogWriter) -> None:
    each(log, "a", *("b" for _ in range(30)))
    log.roll()
    put(log, "b")


def case_22(log: LogWriter) -> None:
    put(log, "1", "2", "3", producer=1)
    put(log, "3", "1", "4", producer=2)
    put(log, "1", "4", producer=3)


def case_23(log: LogWriter) -> None:
    put(log, "0")
    for producer in (1, 2, 3):
        put(log, "0", producer=producer)
    put(log, "1", producer=2)


def case_25(log: LogWriter) -> None:
    put(log, "a", producer=1, timestamp=NOW - TWO_DAYS_MS)
    put(log, "a", producer=2)
    put(log, "a")


@dataclass(frozen=True)
class Case:
    write: Callable[[LogWriter], None]
    first_dirty: int | None = None
    high_watermark: int | None = None
    config: Mapping[str, int] = field(default_factory=dict)


CASES = {
    1: Case(case_01),
    2: Case(case_02, first_dirty=2),
    3: Case(case_03),
    5: Case(case_05),
    6: Case(case_06),
    7: Case(case_07),
    9: Case(case_09),
    10: Case(case_10),
    11: Case(case_11, high_watermark=7),
    12: Case(case_12, first_dirty=3),
    16: Case(case_16, config={"max.message.bytes": 1000}),
    18: Case(case_18),
    22: Case(case_22),
    23: Case(case_23),
    25: Case(case_25),
}


def partition(number: int) -> str:
    return f"case-{number:02}-0"


def write_log_dir(path: Path) -> None:
    """A topic of one partition per case; each log ends with an active segment of its own."""
    with LogDirWriter(path, clock=lambda: WRITTEN) as log_dir:
        for number, case in CASES.items():
            topic, _, _ = partition(number).rpartition("-")
            log = log_dir.partition(topic, 0, SegmentConfig(index_interval_bytes=INTERVAL_BYTES))
            case.write(log)
            log.roll()
            put(log, "at the end")
            if case.first_dirty is not None:
                log_dir.cleaner_offsets[TopicPartition(topic, 0)] = case.first_dirty
            if case.high_watermark is not None:
                log_dir.high_watermarks[TopicPartition(topic, 0)] = case.high_watermark


def topic_configs() -> str:
    always = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": 0,
        "delete.retention.ms": RETENTION_MS,
    }
    lines = []
    for number, case in CASES.items():
        topic, _, _ = partition(number).rpartition("-")
        values = {
            **always,
            "index.interval.bytes": INTERVAL_BYTES,
            "internal.segment.bytes": 10**6,
            **case.config,
        }
        lines += [f"{topic} {key}={value}\n" for key, value in values.items()]
    return "".join(lines)
