"""A sweep finds nothing in logs of a real broker, and finds damage where it was made."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fixtures.data import copy_log_dir
from tests.spark.damage import COMPRESSED, PLAIN
from tests.spark.runs import add_partition, new_log_dir
from tests.unit.cleaning.sweeps import brief, findings, swept
from winnow.verbs.verify.findings import Checked, Finding
from winnow.verbs.verify.kinds import Kind

KIND_OF_DAMAGE = {
    "count-few-sealed": Kind.RECORDS,
    "count-huge": Kind.CRC,
    "count-huge-sealed": Kind.RECORDS,
    "count-zero-sealed": Kind.RECORDS,
    "delta-huge": Kind.OFFSETS,
    "flipped-bit": Kind.CRC,
    "foreign-log": Kind.NAME,
    "index-missing": Kind.MISSING,
    "leader-epochs": Kind.LEADER_EPOCHS,
    "log-directory": Kind.UNREADABLE,
    "log-unreadable": Kind.UNREADABLE,
    "next-segment": Kind.OFFSETS,
    "no-segment": Kind.MISSING,
    "offset-back": Kind.OFFSETS,
    "offset-largest": Kind.OFFSETS,
    "offset-negative": Kind.OFFSETS,
    "timeindex-missing": Kind.MISSING,
    **dict.fromkeys(("index-garbage", "index-torn"), Kind.OFFSET_INDEX),
    **dict.fromkeys(("timeindex-garbage", "timeindex-torn"), Kind.TIME_INDEX),
    **dict.fromkeys(("bomb-gzip", "bomb-lz4", "bomb-zstd", "large-zstd"), Kind.OVERSIZED),
    **dict.fromkeys(("codec-7", "codec-wrong", "key-length", "record-length"), Kind.RECORDS),
    **{
        f"{how}-{codec}": Kind.RECORDS
        for how in ("half", "garbage")
        for codec in ("gzip", "snappy", "lz4", "zstd")
    },
}
"""All others are of kind `batch`."""
TWOFOLD = {"delta-huge", "torn-swap"}
"""Also the batch behind it; also that it is left over."""


@pytest.mark.parametrize(
    ("log_dir", "checked"),
    [
        (
            "clean",
            Checked(partitions=35, segments=257, bytes=15_815_176, batches=6684, records=100_694),
        ),
        (
            "legacy",
            Checked(partitions=11, segments=55, bytes=476_766, batches=4225, records=11_000),
        ),
    ],
)
def test_broker_logs_have_no_findings(log_dir: str, checked: Checked, tmp_path: Path) -> None:
    assert swept(copy_log_dir(log_dir, tmp_path / "log-dir")) == ([], checked)


def test_recorded_crashes_and_damage_are_all_found(tmp_path: Path) -> None:
    log_dir = copy_log_dir("damaged", tmp_path / "log-dir")
    found = brief(log_dir)
    leftovers = {
        (file.partition("/")[0], Path(file).suffix) for kind, file, _ in found if kind == "leftover"
    }
    assert leftovers == {
        ("x-cleaned-0", ".cleaned"),
        ("x-swap-0", ".swap"),
    }
    assert [item for item in found if item[0] != "leftover"] == [
        ("crc", "x-badcrc-0/00000000000000001223.log", 14148),
        ("crc", "x-badcrc-old-0/00000000000000000445.log", 987),
        ("offset-index", "x-badindex-0/00000000000000000070.index", 24),
        ("missing", "x-noindex-0/00000000000000000070.index", None),
        ("missing", "x-noindex-0/00000000000000000070.timeindex", None),
        ("missing", "x-noindex-0/00000000000000000445.index", None),
        ("missing", "x-noindex-0/00000000000000000445.timeindex", None),
        ("missing", "x-nosnapshot-0", None),
        ("transaction-index", "x-notxnindex-0/00000000000000000070.txnindex", None),
        ("transaction-index", "x-notxnindex-0/00000000000000000480.txnindex", None),
        ("transaction-index", "x-notxnindex-0/00000000000000000868.txnindex", None),
        ("batch", "x-torn-0/00000000000000001223.log", 14148),
        ("batch", "x-zerotail-0/00000000000000001223.log", 14805),
    ]


@pytest.fixture(scope="module")
def damaged(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[dict[str, list[Finding]], dict[str, str]]:
    """Return by name of the damage: the findings, and a pattern for the expected place."""
    log_dir = new_log_dir(tmp_path_factory.mktemp("damaged") / "log-dir")
    patterns = {}
    for name, damage in PLAIN.items():
        patterns[name] = damage(add_partition(log_dir, f"{name}-0", "c-4p-1"))
    for name, (source, damage) in COMPRESSED.items():
        patterns[name] = damage(add_partition(log_dir, f"{name}-0", source))
    found: dict[str, list[Finding]] = {name: [] for name in patterns}
    for finding in findings(log_dir, limit=1 << 20):
        assert finding.topic is not None
        found[finding.topic].append(finding)
    return found, patterns


@pytest.mark.parametrize("name", sorted([*PLAIN, *COMPRESSED]))
def test_only_the_damage_made_is_found_at_its_place(
    damaged: tuple[dict[str, list[Finding]], dict[str, str]], name: str
) -> None:
    found, patterns = damaged[0][name], damaged[1][name]
    told = [f"{f.log_dir}/{f.file} at byte {f.position}: {f.kind}, {f.message}" for f in found]
    assert any(re.search(patterns, text) for text in told), told
    assert KIND_OF_DAMAGE.get(name, Kind.BATCH) in {f.kind for f in found}
    assert len(found) == 1 + (name in TWOFOLD), told
