"""How a start finishes an interrupted swap, and which records it deletes then.

Real brokers judge the same states in `tests/kafka/starts` (`rare.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash import logs
from tests.unit.logdir import metadata_logs
from tests.unit.start.test_broker import log_of, start_of
from tests.unit.wire import metadata_values
from winnow import api
from winnow.policy.sources import Settings, parse_topic_set
from winnow.policy.versions import asked_version
from winnow.start.values import Fate, LogStart

BASES = (0, 3, 6)
SEGMENTS = {base: [logs.record(o, o % 5) for o in range(base, base + 3)] for base in BASES}
FIRST, SECOND = (f"{base:020d}.log" for base in BASES[:2])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = logs.make_log(tmp_path / "log", SEGMENTS, end=9, checkpoints={})
    (root / ".kafka_cleanshutdown").touch()
    return root


def start(root: Path, policy: str = "delete", version: str | None = None) -> LogStart:
    values = (f"cleanup.policy={policy}", "retention.ms=-1")
    sets = [parse_topic_set(f"t:{value}") for value in values]
    return log_of(
        start_of(root, settings=Settings(topic_sets=sets, kafka=asked_version(version))), "t-0"
    )


def batches(log: Path) -> list[bytes]:
    data, found = log.read_bytes(), list[bytes]()
    while data:
        size = 12 + int.from_bytes(data[8:12])
        found.append(data[:size])
        data = data[size:]
    return found


@pytest.mark.parametrize(
    "data_of",
    [
        lambda _: b"",
        lambda _: b"\x01" * 500,
        lambda log: log.read_bytes()[:-7],
        lambda log: b"".join(batches(log)[:-1]),
    ],
    ids=["empty", "noise", "torn", "shorter"],
)
def test_swap_log_that_lacks_batches_loses_them_and_recover_keeps_the_segment(
    root: Path, data_of: Callable[[Path], bytes]
) -> None:
    log = root / "t-0" / SECOND
    (root / "t-0" / f"{SECOND}.swap").write_bytes(data_of(log))
    before = log.read_bytes()
    found = start(root)
    assert (found.fate, found.cut_bytes) == (Fate.LOSES, len(before))
    assert f"{SECOND}.swap replaces {SECOND}" in found.reason
    result = api.recover(str(root))
    assert result.partitions[0].error is not None
    assert log.read_bytes() == before
    result = api.recover(str(root), lose_records=True)
    assert result.partitions[0].error is None
    [kept] = (root / "t-0").glob(f".winnow-quarantine-*/{SECOND}")
    assert kept.read_bytes() == before
    assert log.read_bytes() == data_of(kept)
    then, is_torn = start(root), log.read_bytes() == before[:-7]
    assert then.fate.is_harmless is not is_torn
    assert ("and the next segment begins at offset" in then.reason) is is_torn


def test_swap_log_with_all_batches_is_finished(root: Path) -> None:
    directory = root / "t-0"
    (directory / f"{FIRST}.swap").write_bytes(
        b"".join((directory / n).read_bytes() for n in (FIRST, SECOND))
    )
    found = start(root)
    assert (found.fate, found.log_start_offset, found.log_end_offset) == (Fate.RECOVERS, 0, 9)
    assert not start_of(root).is_harmful
    assert start(root, version="2.8").fate is Fate.UNKNOWN


def test_cleaner_may_leave_out_batches_of_a_compacted_topic_only(root: Path) -> None:
    directory = root / "t-0"
    for name, data in logs.segment_bytes(3, SEGMENTS[3][:1]).items():
        (directory / f"{3:020d}{name}.swap").write_bytes(data)
    assert start(root, policy="compact").fate is Fate.RECOVERS
    found = start(root, policy="delete")
    assert (found.fate, "2 records in 2 whole batches" in found.reason) == (Fate.LOSES, True)


def _shorter_swap(root: Path) -> dict[str, bytes]:
    """A swap with sound indexes whose log has one of three batches."""
    for name, data in logs.segment_bytes(3, SEGMENTS[3][:1]).items():
        (root / "t-0" / f"{3:020d}{name}.swap").write_bytes(data)
    return {path.name: path.read_bytes() for path in (root / "t-0").iterdir()}


def _metadata(root: Path, policy: str) -> None:
    directory = root / "__cluster_metadata-0"
    directory.mkdir()
    values = (metadata_values.topic("t"), metadata_values.config("t", "cleanup.policy", policy))
    metadata_logs.log(directory, *values)


@pytest.mark.parametrize("policy", ["delete", None])
def test_recover_leaves_a_swap_alone_that_loses_batches_unless_the_topic_is_compacted(
    root: Path, policy: str | None
) -> None:
    before = _shorter_swap(root)
    if policy is not None:
        _metadata(root, policy)
        words = "an interrupted swap would delete records: found it finishes an interrupted swap"
    else:
        assert start_of(root).logs(Fate.UNKNOWN)
        words = "the topic's cleanup.policy is unknown"
    for dry_run in (True, False):
        [result] = api.recover(str(root), dry_run=dry_run).partitions
        assert words in str(result.error)
        assert {p.name: p.read_bytes() for p in (root / "t-0").iterdir()} == before
    [result] = api.recover(str(root), lose_records=True).partitions
    assert result.error is None
    [kept] = (root / "t-0").glob(f".winnow-quarantine-*/{SECOND}")
    assert kept.read_bytes() == before[SECOND]


@pytest.mark.parametrize("policy", ["compact", "compact,delete", None])
def test_recover_finishes_a_swap_that_leaves_out_batches_of_a_compacted_topic(
    root: Path, policy: str | None
) -> None:
    before = _shorter_swap(root)
    if policy is not None:
        _metadata(root, policy)
    else:
        (root / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 3\n")
        assert start_of(root).logs(Fate.RECOVERS)
    [result] = api.recover(str(root)).partitions
    assert result.error is None
    assert (root / "t-0" / SECOND).read_bytes() == before[f"{SECOND}.swap"]


def test_swap_above_a_cleaned_file_goes_with_the_only_copy(root: Path) -> None:
    directory = root / "t-0"
    (directory / f"{FIRST}.cleaned").touch()
    swap = directory / f"{SECOND}.swap"
    swap.write_bytes((directory / SECOND).read_bytes())
    assert start(root).fate is Fate.LOADS
    (directory / SECOND).unlink()
    data = swap.read_bytes()
    assert api.recover(str(root)).partitions[0].error is not None
    assert swap.read_bytes() == data
    found = start(root)
    assert (found.fate, found.cut_bytes) == (Fate.LOSES, swap.stat().st_size)
    assert "a .cleaned file is below it" in found.reason


@pytest.mark.parametrize(
    ("name", "fate"),
    [("x.log.swap", Fate.STOPS), ("x.cleaned", Fate.STOPS), ("5.cleaned", Fate.LOADS)],
)
def test_name_without_an_offset_stops_the_broker(root: Path, name: str, fate: Fate) -> None:
    (root / "t-0" / name).touch()
    assert start(root).fate is fate


@pytest.mark.parametrize("data", [b"", bytes(100), b"garbage", None], ids=str)
def test_no_start_of_2_8_is_promised_on_a_swap(root: Path, data: bytes | None) -> None:
    """Real brokers of 2.8.2 finish it in many ways (`tests/kafka/starts/swaps.py`)."""
    log = root / "t-0" / SECOND
    log.with_suffix(".log.swap").write_bytes(log.read_bytes() if data is None else data)
    found = start(root, version="2.8")
    assert (found.fate, "before 3.0" in found.reason) == (Fate.UNKNOWN, True)
    assert not start_of(root, settings=Settings(kafka=asked_version("2.8"))).is_safe
