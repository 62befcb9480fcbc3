"""Lives in which Kafka and Winnow once differed, by what was wrong, reduced by `shrink` or by hand.

Those in as_drawn.txt are not reduced. In most of them the machine was wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.kafka.lives import life
from tests.kafka.lives.life import Append, Config, DeleteRecords, End, Life, Rec, Roll, Span

_SMALL = Config(index_interval_bytes=0)
_KEEPS_HOURS = Config(
    cleanup_policy="compact,delete",
    segment_bytes=600,
    retention_ms=7 * life.HOUR_MS // 2,
    min_cleanable_dirty_ratio=0.5,
)

# Kafka's cleaner asks for no aborted transactions that end below the log start offset: of their
# markers it knows nothing and drops them, and of their data it thinks that it was committed.
_ABORTED_BELOW_THE_LOG_START = (
    Append((Rec(key=1),), producer=3),
    End(commit=False),
    Append((Rec(key=2),), producer=3),
    End(),
    Append((Rec(key=2),)),
    DeleteRecords(600),
    Roll(),
)


def _as_drawn() -> dict[str, Life]:
    lines = Path(__file__).with_name("as_drawn.txt").read_text(encoding="utf-8").splitlines()
    named = (line.split(" ", 1) for line in lines)
    return {name: eval(told, vars(life)) for name, told in named}  # noqa: S307 - a life's repr, which is our own


REGRESSIONS: Mapping[str, Life] = _as_drawn() | {
    "a-transaction-aborted-below-the-log-start": Life(
        (Span(_ABORTED_BELOW_THE_LOG_START, _SMALL),)
    ),
    # It drops the entries of such transactions even where the marker stays, because an empty batch
    # of its producer's does: at the next pass index and log disagreed, and we left the partition
    # alone.
    "an-abort-marker-below-the-log-start-without-its-entry": Life(
        (
            Span(
                (
                    Append((Rec(key=0, age=64),), producer=3, gap=1),
                    Append((Rec(key=0, age=63),), producer=3, gap=1),
                    End(commit=False),
                    Roll(),
                    Append((Rec(key=1),), producer=4),
                    DeleteRecords(900),
                    End(producer=4),
                    Roll(),
                    Append((Rec(key=1),)),
                    Roll(),
                ),
                Config(delete_retention_ms=86_400_000),
            ),
            Span((Append((Rec(key=1),)), Roll()), Config(delete_retention_ms=86_400_000)),
        )
    ),
    # Retention takes clean segments, so that what is left is dirty enough: a broker's cleaner finds
    # it next.
    "retention-makes-a-log-dirty-enough": Life(
        (
            Span((*(Append((Rec(key, size=400),)) for key in range(5)), Roll()), _KEEPS_HOURS),
            Span((Append((Rec(0),)), Append((Rec(0),)), Roll(), Append()), _KEEPS_HOURS),
            Span((Append((Rec(1),)), Roll(), Append()), _KEEPS_HOURS),
        )
    ),
    # Records of v0 have no timestamp, though their wrapper of v1 has one: a lookup does not find
    # them, ...
    "a-lookup-among-v0-in-a-stamped-wrapper": Life(
        (Span((Append((Rec(0), Rec(1)), magic=1, codec=1, stamped=True, nested=True),), _SMALL),)
    ),
    # ... and the base timestamp is -1 when they are written again.
    "v0-in-a-stamped-wrapper-written-again": Life(
        (
            Span(
                (
                    Append((Rec(0), Rec(1)), magic=1, codec=1, stamped=True, nested=True),
                    Append((Rec(0),)),
                    Roll(),
                    Append(),
                ),
                _SMALL,
            ),
        )
    ),
    # Before 4.0 Kafka writes them as v1 even if their wrapper loses none (KAFKA-4298).
    "v0-in-a-wrapper-that-loses-none": Life(
        (
            Span(
                (
                    Append((Rec(0), Rec(1)), magic=1, codec=1, nested=True),
                    Append((Rec(2), Rec(3)), magic=1, codec=3, stamped=True, nested=True),
                    Roll(),
                    Append(),
                ),
                _SMALL,
            ),
            Span((Append((Rec(0),)), Roll(), Append()), _SMALL),
        )
    ),
    # Kafka asks whether the time index has room even if it has nothing to add, and gives the
    # partition up.
    "a-full-time-index-and-nothing-to-add": Life(
        (
            Span(
                (
                    Append((Rec(0),), gap=1),
                    Append((Rec(1),), gap=1),
                    Roll(),
                    Append((Rec(2),), gap=1),
                    Append((Rec(3),), gap=1),
                    Roll(),
                ),
                Config(segment_index_bytes=24, index_interval_bytes=0),
            ),
        )
    ),
    # A transaction that a snapshot shows open ends at the first marker after it: we took the
    # segment's last one, which was not below the high watermark.
    "a-transaction-ends-at-its-first-marker": Life(
        (
            Span(
                (
                    Append((Rec(0),)),
                    Roll(),
                    Append((Rec(0),), producer=3),
                    Roll(),
                    End(),
                    Append((Rec(1),)),
                    End(),
                ),
                _SMALL,
                uncommitted=1,
            ),
        )
    ),
    # The data of such a transaction counts as committed: the producer's next COMMIT marker stays
    # for its sake.
    "aborted-below-the-log-start-and-a-commit-without-data": Life(
        (
            Span(
                (
                    Append((Rec(key=1),), producer=3),
                    End(commit=False),
                    End(),
                    End(),
                    Append((Rec(key=2),)),
                    Append((Rec(key=2),)),
                    DeleteRecords(500),
                    Roll(),
                ),
                _SMALL,
            ),
            Span((Append((Rec(key=2),)), Roll()), _SMALL),
        )
    ),
    # Kafka reads a log from its start on, and so knows of no transaction whose data lies below it:
    # we took it for open.
    "an-open-transaction-below-the-log-start": Life(
        (
            Span(
                (
                    Append((Rec(0),), producer=3),
                    Append((Rec(1),)),
                    Append((Rec(1),)),
                    DeleteRecords(1000),
                ),
                _SMALL,
            ),
            Span((Append((Rec(0),)), Append((Rec(0),)), Roll(), Append()), _SMALL),
            Span((Append((Rec(0),)),), _SMALL),
        )
    ),
    # Nor is there an entry in the transaction index if such a transaction is aborted later.
    "an-abort-marker-of-data-below-the-log-start": Life(
        (
            Span((Append((Rec(0),), producer=3), DeleteRecords(1000)), _SMALL),
            Span((End(commit=False), Append((Rec(1),)), Roll(), Append((Rec(1),)), Roll()), _SMALL),
            Span((Append((Rec(1),)), Roll(), End(), Append((Rec(1),)), Roll()), _SMALL),
        )
    ),
    "data-below-and-above-the-log-start-that-is-aborted": Life(
        (
            Span(
                (Append((Rec(0),), producer=3), Append((Rec(1),), producer=3), DeleteRecords(500)),
                _SMALL,
            ),
            Span((End(commit=False), Append((Rec(1),)), Roll(), Append((Rec(1),)), Roll()), _SMALL),
            Span((Append((Rec(1),)), Roll(), End(), Append((Rec(1),)), Roll()), _SMALL),
        )
    ),
    # If a snapshot tells of it, Kafka stops at the first batch of the log, not at the log start
    # before it.
    "a-transaction-below-the-log-start-in-a-snapshot": Life(
        (
            Span((Append((Rec(0),), producer=3), Append((Rec(1),)), Roll()), _SMALL),
            Span(
                (
                    DeleteRecords(1000),
                    Append((Rec(0),), gap=1000),
                    Roll(),
                    Append((Rec(0),)),
                    Roll(),
                ),
                _SMALL,
            ),
            Span((Append((Rec(0),)), Roll()), _SMALL),
        )
    ),
}
