"""Logs with transactions, one per case of the semantics and some random ones, written like a
broker.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from tests.log_writer.dir_writer import LogDirWriter
from tests.log_writer.leader_batches import Producer
from tests.log_writer.writer import LogWriter
from winnow.wire.plain import Record

NOW = 1_800_000_000_000
HOUR_MS = 3_600_000
WRITTEN = NOW - HOUR_MS
NOBODY = -1
"""Kafka's cleaner fails if it has to write a transactional batch of this producer again: one that
loses a part of its records, or gets a delete horizon.
"""


class Script:
    """Writes a log in few words. Producers are numbers; each has the epoch that it was given
    last.
    """

    def __init__(self, log: LogWriter) -> None:
        self.log = log
        self.epochs: dict[int, int] = {}

    def data(self, producer: int, *keys: str) -> int:
        """A transactional batch."""
        return self.log.append_records(
            self._records(keys), producer=self._producer(producer), transactional=True
        )

    def idempotent(self, producer: int, *keys: str) -> int:
        return self.log.append_records(self._records(keys), producer=self._producer(producer))

    def put(self, *keys: str) -> int:
        """A batch without a producer id."""
        return self.log.append_records(self._records(keys))

    def commit(self, producer: int, *, bump: bool = False) -> int:
        return self._end(producer, commit=True, bump=bump)

    def abort(self, producer: int, *, bump: bool = False) -> int:
        return self._end(producer, commit=False, bump=bump)

    def roll(self) -> None:
        self.log.roll()

    def _end(self, producer: int, *, commit: bool, bump: bool) -> int:
        """`bump`: as with transaction version 2, the marker has an epoch above that of the data."""
        if bump:
            self.epochs[producer] = self.epochs.get(producer, 0) + 1
        return self.log.append_marker(self._producer(producer), commit=commit)

    def _producer(self, producer: int) -> Producer:
        return Producer(producer, self.epochs.get(producer, 0))

    def _records(self, keys: tuple[str, ...]) -> list[Record]:
        """A key that begins with `-` is a tombstone's."""
        end = self.log.log_end_offset
        return [
            Record(
                0,
                WRITTEN + end,
                key.lstrip("-").encode(),
                None if key.startswith("-") else b"value %d" % end,
            )
            for key in keys
        ]


def case_24(s: Script) -> None:
    s.data(1, "a", "b")
    s.data(1, "c")
    s.abort(1)


def case_26(s: Script) -> None:
    s.data(1, "a", "b")
    s.put("a", "c")
    s.data(2, "b", "c")
    s.commit(1)
    s.put("a")
    s.abort(2)
    s.data(1, "b")
    s.commit(1)


def case_27(s: Script) -> None:
    for _ in range(3):
        s.data(1, "a")
        s.data(2, "a", "b")
        s.commit(1)
        s.roll()
    s.put("a")


def case_28(s: Script) -> None:
    s.data(1, "k")
    s.commit(1)
    s.roll()
    s.data(2, "k")
    s.abort(2)
    s.roll()
    s.data(2, "other")
    s.commit(2)


def case_29(s: Script) -> None:
    s.data(1, "a", "b")
    s.commit(1)
    s.data(1, "a")
    s.commit(1)
    s.roll()
    s.put("a", "b")


def case_30(s: Script) -> None:
    s.data(1, "a")
    s.commit(1)
    s.roll()
    s.put("a")


def case_32(s: Script) -> None:
    s.data(1, "a", "b")
    s.roll()
    s.data(1, "a", "c")
    s.commit(1)


def case_33(s: Script) -> None:
    s.data(1, "a")
    s.data(2, "d")
    s.roll()
    s.data(1, "b")
    s.roll()
    s.put("c")
    s.roll()
    s.abort(1)
    s.commit(2)
    s.idempotent(1, "e")


def case_34(s: Script) -> None:
    s.data(1, "a")
    s.abort(1)
    s.data(1, "b")
    s.commit(1)


def case_37(s: Script) -> None:
    for _ in range(2):
        # A group coordinator begins each transaction with sequence 0 again.
        producer = Producer(1, 0)
        s.log.append_records(
            s._records(("g",)), producer=producer, base_sequence=0, transactional=True
        )
        s.commit(1)
    s.put("g")


def case_38(s: Script) -> None:
    s.log.append_records([Record(0, WRITTEN, b"\0\0\0\1", b"a record like a marker")])
    s.data(1, "a")
    s.commit(1)
    s.log.append_records([Record(0, WRITTEN, b"\0\0\0\0", b"another")])
    s.data(1, "b")
    s.abort(1)


def case_39(s: Script) -> None:
    s.data(1, "a")
    s.commit(1, bump=True)
    s.data(2, "b")
    s.abort(2, bump=True)
    s.put("a")


def case_40(s: Script) -> None:
    s.put("a")
    s.put("a")
    s.roll()
    s.data(1, "a")
    s.roll()
    s.put("a")


def case_nobody(s: Script) -> None:
    """Transactional batches without a producer id, as a client may write them: nobody ends them. A
    negative id is none, either.
    """
    s.data(NOBODY, "a")
    s.data(NOBODY, "b")
    s.put("a")
    s.roll()
    s.data(-2, "b", "c")
    s.data(1, "c")
    s.commit(-2)
    s.abort(1)
    s.roll()
    s.commit(-2)
    s.abort(-2)
    s.data(-2, "d")
    s.data(1, "e")
    s.commit(1)


CASES: dict[str, Callable[[Script], None]] = {
    f"case-{number}": case
    for number, case in {
        24: case_24,
        26: case_26,
        27: case_27,
        28: case_28,
        29: case_29,
        30: case_30,
        32: case_32,
        33: case_33,
        34: case_34,
        37: case_37,
        38: case_38,
        39: case_39,
        40: case_40,
        "nobody": case_nobody,
    }.items()
}


def anything(s: Script, seed: int) -> None:
    """Random transactions of a few producers, in small segments. Some stay open at the end. Every
    third log also has batches without a producer id.
    """
    drawn = random.Random(seed)
    opened: set[int] = set()
    bumps = drawn.random() < 0.5
    for _ in range(drawn.randrange(20, 90)):
        producer = drawn.randrange(1, 5)
        if seed % 3 == 0 and drawn.random() < 0.3:
            producer = drawn.choice([NOBODY, NOBODY, -2, -(2**63)])
        keys = [
            drawn.choice("abcdefg-") * drawn.choice([1, 1, 2]) for _ in range(drawn.randrange(1, 4))
        ]
        what = drawn.random()
        if producer == NOBODY:
            s.data(producer, keys[0].replace("-", "a"))
        elif what < 0.5:
            s.data(producer, *keys)
            opened.add(producer)
        elif what < 0.6:
            s.put(*keys)
        elif what < 0.75:
            s.roll()
        elif producer in opened:
            (s.commit if drawn.random() < 0.5 else s.abort)(
                producer, bump=bumps and drawn.random() < 0.7
            )
            opened.discard(producer)
    for producer in sorted(opened):
        if drawn.random() < 0.8:
            s.abort(producer)


RANDOM = {f"any-{seed}": seed for seed in range(24)}


def write_log_dir(path: Path) -> None:
    """Each script is a topic of one partition, the last record of each in an active segment of its
    own.
    """
    with LogDirWriter(path, clock=lambda: NOW - HOUR_MS) as log_dir:
        for topic, case in CASES.items():
            script = Script(log_dir.partition(topic, 0))
            case(script)
            script.roll()
            script.put("at the end")
        for topic, seed in RANDOM.items():
            script = Script(log_dir.partition(topic, 0))
            anything(script, seed)
            script.roll()
            script.put("at the end")


def write_more(path: Path, seed: int) -> None:
    """Append more of the same, by known and by new producers."""
    with LogDirWriter(path, clock=lambda: NOW - HOUR_MS + 1) as log_dir:
        for topic in (*CASES, *RANDOM):
            script = Script(log_dir.partition(topic, 0))
            script.epochs = dict.fromkeys(range(1, 9), 100 + seed)
            anything(script, sum(topic.encode()) + 1000 * seed)
            script.roll()
            script.put("at the end")


def topic_configs() -> str:
    """Half of them are cleaned segment by segment, half as far as possible into one."""
    lines = []
    for at, topic in enumerate((*CASES, *RANDOM)):
        lines.append(f"{topic} cleanup.policy=compact")
        if at % 2 or topic == "case-33":
            lines.append(f"{topic} internal.segment.bytes=100")
    return "".join(f"{line}\n" for line in lines)
