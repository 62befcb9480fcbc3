"""The log directory of killed cleanings, and of killed erasures, with what an undisturbed run makes
of it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tests.crash.runs import read_log
from tests.fixtures.data import copy_tree
from tests.kill import log
from tests.kill.kills import Field
from tests.spark.runs import clean, run
from winnow.api import erase
from winnow.logdir.names import SNAPSHOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Verb = Literal["clean", "erase"]
VERBS: tuple[Verb, ...] = ("clean", "erase")
ERASED_IN = ("c-4p-1", "c-zstd-0", "b-txn-0", "d-time-0", "cd-mixed-0")
"""A key of each is erased, in all partitions of user topics that have it."""


def make_field(spark: SparkSession, scratch: Path, verb: Verb = "clean") -> Field:
    source = log.make(scratch / "source")
    return _to_clean(spark, source) if verb == "clean" else _to_erase(spark, source)


def _to_clean(spark: SparkSession, source: Path) -> Field:
    def again(log_dir: Path) -> None:
        result = run(clean, spark, log_dir, sets=log.SETS)
        left = [
            f"{p.topic}-{p.partition}: {p.error or p.reason}"
            for p in result.partitions
            if p.left_alone or p.error
        ]
        assert not left, left

    return Field(source, _undisturbed(source, again), log.arguments, again)


def _to_erase(spark: SparkSession, source: Path) -> Field:
    keys = [_key_of_closed_segments(source / name) for name in ERASED_IN]
    listed = source.with_name("keys")
    listed.write_text("".join(f"{key.hex()}\n" for key in keys), encoding="ascii")

    def again(log_dir: Path) -> None:
        result = erase(spark, [str(log_dir)], keys=keys)
        assert (result.proven, result.status) == (True, "done")
        assert [p.error for p in result.partitions] == [None] * len(result.partitions)

    def arguments(log_dir: Path) -> list[str]:
        return ["erase", str(log_dir), "--keys-hex", str(listed), "--no-ledger"]

    undisturbed = _undisturbed(source, again)
    before, after = log.content(source), log.content(undisturbed)
    changed = {name.split("/")[0] for name in before if before[name] != after.get(name)}
    assert changed >= {*ERASED_IN}
    # Where a swap had begun, recovery takes the producer snapshot at its base along, as a loader
    # does (S6.3).
    return Field(source, undisturbed, arguments, again, may_lack=(SNAPSHOT,))


def _undisturbed(source: Path, again: Callable[[Path], None]) -> Path:
    log_dir = source.with_name("undisturbed")
    copy_tree(source, log_dir)
    again(log_dir)
    return log_dir


def _key_of_closed_segments(partition: Path) -> bytes:
    """The first key of which the active segment has no record: that one is never rewritten."""
    active = max(int(path.stem) for path in partition.glob("*.log"))
    found = read_log(partition)
    closed = [one for one in found.records if one.offset < active and one.offset not in found.void]
    rest = {one.key for one in found.records if one.offset >= active}
    return next(one.key for one in closed if one.key and one.key not in rest)
