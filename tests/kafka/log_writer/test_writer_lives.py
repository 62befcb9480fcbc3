"""Random appends, rolls, leaders and restarts, by Winnow's log writer and by Kafka's own log."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kafka.judge.judge import Kafka
from tests.kafka.log_writer.twin import HOUR_MS, NOW, Twin, batch, legacy, records, wrapper
from tests.log_writer.leader_batches import NOBODY, Producer
from tests.log_writer.segment_writer import SegmentConfig
from winnow.wire.batch import Codec

Op = tuple[str, tuple[int, ...]]
"""A kind and numbers to make something of, whatever they are: any list of these is a life of a log.
"""
OPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "lead",
                "lead",
                "follow",
                "follow",
                "legacy",
                "mark",
                "epoch",
                "roll",
                "start",
                "restart",
            ]
        ),
        st.tuples(st.integers(0, 6), st.integers(0, 3), st.integers(0, 9), st.integers(0, 400)),
    ),
    max_size=40,
)
CONFIGS = st.builds(
    SegmentConfig,
    segment_bytes=st.sampled_from([1500, 4000]),
    segment_ms=st.sampled_from([HOUR_MS, 2**40]),
    segment_index_bytes=st.sampled_from([48, 96, 10_000]),
    index_interval_bytes=st.sampled_from([0, 100, 4096]),
)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(ops=OPS, config=CONFIGS)
def test_random_histories_give_same_files(
    ops: list[Op], config: SegmentConfig, kafka: Kafka
) -> None:
    with TemporaryDirectory() as root:
        twin = Twin(kafka, Path(root), config, now=NOW)
        for kind, numbers in ops:
            live(twin, kind, *numbers)
        twin.assert_alike()


def live(twin: Twin, kind: str, a: int, b: int, c: int, d: int) -> None:
    """One step. Producers with an odd id are transactional."""
    twin.now += d * HOUR_MS // 200
    producer = Producer(a)
    transactional = bool(a % 2)
    end, timestamp = twin.log.log_end_offset, NOW + d * HOUR_MS // 100
    if kind == "lead":
        twin.lead(
            records(1 + c, timestamp=min(timestamp, twin.now), size=d // 4),
            codec=Codec(b),
            producer=producer if a else NOBODY,
            transactional=transactional,
        )
    elif kind == "follow":
        first = end + (0, 1, 1000, 2**31 - c)[b]
        options = (
            {"producer_id": a, "producer_epoch": 0, "base_sequence": first % 2**31} if a else {}
        )
        epoch = twin.log.leader_epoch
        data = batch(
            first,
            1 + c,
            timestamp=timestamp,
            transactional=transactional,
            leader_epoch=epoch,
            **options,
        )
        # A small index may get full between two batches of one append, where Kafka throws.
        several = c % 2 and twin.log.config.segment_index_bytes > 1000
        twin.follow(
            data
            + (
                batch(first + 1 + c, timestamp=timestamp - c, leader_epoch=epoch)
                if several
                else b""
            )
        )
    elif kind == "legacy":
        first = end + (0, 1, 1000, 2**31 - c)[b]
        magic = a % 2
        time = timestamp if magic else -1
        twin.follow(
            wrapper(magic, [first, first + 1, first + 1 + c], timestamp=time)
            if c
            else legacy(magic, first, timestamp=time)
        )
    elif kind == "mark" and transactional:
        twin.mark(producer, commit=bool(b % 2))
    elif kind == "epoch":
        twin.become_leader(twin.log.leader_epoch + b)
    elif kind == "roll":
        twin.roll()
    elif kind == "start":
        twin.raise_log_start_offset(min(end, twin.log.log_start_offset + a * d))
    elif kind == "restart":
        twin.assert_alike()
