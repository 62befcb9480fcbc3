"""A run must not read, shuffle or start more than before. Counts are the same on every machine,
times are not.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.counts import COUNTS, Counts, measured, recorded

pytestmark = pytest.mark.spark

SLACK = {"shuffle_bytes_written": 1.01}
"""The size of pickled shuffle data depends a little on the order of its pieces.
"""

RENEW = "If that is meant to be, `.venv/bin/python -m tests.spark.counts` records the new figures."


def grown(found: Counts, known: Counts) -> list[str]:
    """What there is more of than there was, in words."""
    new = [f"{phase}: a new phase with Spark jobs" for phase in found if phase not in known]
    return new + [
        f"{phase}: {name} {counts[name]}, it was {known[phase][name]}"
        for phase, counts in found.items()
        if phase in known
        for name in COUNTS
        if counts[name] > known[phase][name] * SLACK.get(name, 1)
    ]


def shrunk(found: Counts, known: Counts) -> list[str]:
    """What there is less of, by a tenth and more, than there was, in words."""
    return [f"{phase}: no Spark jobs any more" for phase in known if phase not in found] + [
        f"{phase}: {name} {found[phase][name]}, it was {then[name]}"
        for phase, then in known.items()
        if phase in found
        for name in COUNTS
        if found[phase][name] < 0.9 * then[name]
    ]


def test_no_run_does_more_than_recorded(spark: SparkSession, tmp_path: Path) -> None:
    found, known = measured(spark, tmp_path), recorded()
    assert found.keys() == known.keys()
    more = [
        f"{case}, {line}" for case, counts in found.items() for line in grown(counts, known[case])
    ]
    assert not more, "\n".join([*more, RENEW])
    # Figures that are far too high would let anything through.
    less = [
        f"{case}, {line}" for case, counts in known.items() for line in shrunk(found[case], counts)
    ]
    assert not less, "\n".join([*less, RENEW])


def test_higher_count_is_reported() -> None:
    one = dict.fromkeys(COUNTS, 1000)
    assert grown({"a": one}, {"a": one}) == []
    for name in COUNTS:
        assert grown({"a": one | {name: 1011}}, {"a": one}) == [f"a: {name} 1011, it was 1000"]
    assert grown({"a": one, "b": one}, {"a": one}) == ["b: a new phase with Spark jobs"]
    assert grown({}, {"a": one}) == []


def test_much_lower_count_is_reported() -> None:
    one = dict.fromkeys(COUNTS, 1000)
    assert shrunk({"a": dict.fromkeys(COUNTS, 900)}, {"a": one}) == []
    for name in COUNTS:
        assert shrunk({"a": one | {name: 899}}, {"a": one}) == [f"a: {name} 899, it was 1000"]
    assert shrunk({}, {"a": one}) == ["a: no Spark jobs any more"]
