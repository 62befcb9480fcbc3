"""`erase` over recorded log directories removes the given keys' records and nothing else, byte for
byte.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.crash.runs import files_of as content
from tests.crash.runs import read_log
from tests.fixtures.data import copy_log_dir, copy_tree
from tests.session import verbs_use
from tests.spark.runs import add_partition, changes, checkpoint, files_of, new_log_dir
from tests.unit.kafka_log.reading import rows
from winnow.api import erase, erasures, verify
from winnow.cleaning.request import Request
from winnow.cli.main import run as run_command
from winnow.errors import UsageError
from winnow.logdir.survey import survey_log_dirs
from winnow.policy.sources import Settings
from winnow.runtime.progress import Silence
from winnow.storage.local import LocalStorage
from winnow.storage.places import Places
from winnow.storage.turns import waiting
from winnow.verbs.erase.erase import NO_CLOCK, erase_from
from winnow.verbs.erase.key_hashes import hash_keys
from winnow.verbs.erase.keys import different_keys
from winnow.verbs.erase.proof import prove
from winnow.verbs.erase.targets import Target, find_targets
from winnow.verbs.erase.values import Amount, EraseResult, PartitionErasure
from winnow.wire.plain import Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COMPACTED = ("c-tomb-0", "c-zstd-0", "c-lz4-0", "c-multi-0")
USERS = (*COMPACTED, "b-txn-0", "t-open-0", "t-long-0", "d-start-0")
NAMES = (*USERS, "__consumer_offsets-0")
COLUMNS = (
    "topic",
    "partition",
    "offset",
    "key",
    "value",
    "timestamp",
    "segment",
    "position",
    "magic",
)


@dataclass(frozen=True)
class Erased:
    before: Path
    after: Path
    keys: frozenset[bytes]
    result: EraseResult

    @property
    def partitions(self) -> Mapping[str, PartitionErasure]:
        return {f"{p.topic}-{p.partition}": p for p in self.result.partitions}

    def reached(self, name: str) -> set[int]:
        """Base offsets: not the active segment, and below the high watermark."""
        end = checkpoint(self.before / "replication-offset-checkpoint")[name]
        bases = sorted(int(path.stem) for path in (self.before / name).glob("*.log"))
        return {base for base, following in pairwise(bases) if following <= end}

    def segment(self, name: str, record: Record) -> int:
        return max(
            int(p.stem) for p in (self.before / name).glob("*.log") if int(p.stem) <= record.offset
        )

    def matches(self, name: str) -> list[Record]:
        return [r for r in read_log(self.before / name).records if r.key in self.keys]


@pytest.fixture(scope="module")
def erased(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Erased:
    scratch = tmp_path_factory.mktemp("erased")
    before = copy_log_dir("clean", scratch / "before", only=NAMES)
    copy_tree(before, scratch / "after")
    # Those of markers begin with a zero; nobody can ask for them.
    there = {
        r.key
        for name in USERS
        for r in read_log(before / name).records
        if r.key and not r.key.startswith(b"\0")
    }
    keys = frozenset(sorted(there)[::5])
    result = erase(
        spark,
        [str(scratch / "after")],
        keys=[*keys, b"in no record"],
        ledger=str(scratch / "ledger"),
    )
    return Erased(before, scratch / "after", keys, result)


def test_only_records_of_given_keys_are_removed(erased: Erased) -> None:
    for name in USERS:
        before, after = read_log(erased.before / name), read_log(erased.after / name)
        reached = erased.reached(name)
        gone = {r.offset for r in erased.matches(name) if erased.segment(name, r) in reached}
        assert gone, name
        assert after.records == [r for r in before.records if r.offset not in gone], name
        assert after.end == before.end
        told = erased.partitions[name]
        assert told.error is None
        assert told.erased == told.closed
        assert told.closed is not None
        assert told.closed.records == len(gone)
        assert told.left.records == len(erased.matches(name)) - len(gone)


def test_result_and_output_report_the_erasure(erased: Erased) -> None:
    result = erased.result
    assert (result.keys, result.keys_found) == (len(erased.keys) + 1, len(erased.keys))
    assert result.proven is True
    left = sum(p.left.records for p in result.partitions)
    assert left == sum(p.proof.unreached for p in result.partitions if p.proof) > 0
    assert (result.status, result.exit_code) == ("partial", 3)
    assert not {key.hex() for key in erased.keys} & {*repr(result).split()}
    assert all(repr(key) not in repr(result) for key in erased.keys)


def test_files_without_a_match_are_untouched(erased: Erased) -> None:
    changed = changes(files_of(erased.before), files_of(erased.after))
    hit = {
        f"{name}/{erased.segment(name, record):020}"
        for name in USERS
        for record in erased.matches(name)
        if erased.segment(name, record) in erased.reached(name)
    }
    assert {file.rpartition(".")[0] for file in changed if "." in file} == hit
    # Of a segment the transaction index is another file and has the same bytes.
    for name in ("b-txn-0", "t-open-0"):
        assert content(erased.after / name, ".txnindex", ".snapshot") == content(
            erased.before / name, ".txnindex", ".snapshot"
        )
    before, after = files_of(erased.before), files_of(erased.after)
    assert all(
        before[file].mtime_ns // 10**6 == after[file].mtime_ns // 10**6
        for file in changed
        if file.endswith(".log")
    )


def test_ledger_holds_only_keyed_hashes_of_erased_keys(erased: Erased, spark: SparkSession) -> None:
    assert erased.result.ledger == str(erased.after.parent / "ledger")
    (row,) = erasures(spark, erased.result.ledger).collect()
    assert (row.run_id, row.proven, row.keys) == (erased.result.run_id, True, len(erased.keys) + 1)
    hash_key = bytes.fromhex(erased.result.hash_key or "")
    given = [*erased.keys, b"in no record"]
    assert row.key_hashes == sorted(
        blake2b(key, digest_size=16, key=hash_key).hexdigest() for key in given
    )
    assert row.keys_hash == hash_keys(reversed(given), hash_key).together
    told = {
        f"{p.topic}-{p.partition}": (p.records_erased, p.left_active, p.proof_reached)
        for p in row.partitions
    }
    partitions = erased.partitions.items()
    assert told == {
        name: (p.erased.records, p.active.records, 0)
        for name, p in partitions
        if p.erased and p.active
    }
    assert erased.result.hash_key not in str(row)


def test_internal_topics_are_erased_only_if_named(erased: Erased, spark: SparkSession) -> None:
    assert "__consumer_offsets-0" not in erased.partitions
    with pytest.raises(UsageError, match=r"no partition to erase from.*without a wildcard"):
        erase(spark, [str(erased.after)], keys=[b"none"], topics=["__consumer*"], dry_run=True)
    result = erase(
        spark, [str(erased.after)], keys=[b"none"], topics=["__consumer_offsets"], dry_run=True
    )
    assert [p.topic for p in result.partitions] == ["__consumer_offsets"]


def test_remaining_log_is_sound(erased: Erased, spark: SparkSession) -> None:
    assert verify(spark, [str(erased.after)]).findings == ()


def test_second_erasure_changes_nothing(
    erased: Erased, spark: SparkSession, tmp_path: Path
) -> None:
    copy_tree(erased.after, tmp_path / "again")
    before = files_of(tmp_path / "again")
    result = erase(spark, [str(tmp_path / "again")], keys=pa.array(sorted(erased.keys)))
    assert {p.erased for p in result.partitions} == {Amount()}
    assert changes(before, files_of(tmp_path / "again")) == []


def test_dry_run_counts_and_changes_nothing(
    erased: Erased, spark: SparkSession, tmp_path: Path
) -> None:
    copy_tree(erased.before, tmp_path / "dry")
    before = files_of(tmp_path / "dry")
    frame = spark.createDataFrame([(bytearray(key),) for key in sorted(erased.keys)], "key binary")
    result = erase(spark, [str(tmp_path / "dry")], keys=frame, dry_run=True)
    assert [p.closed for p in result.partitions] == [p.closed for p in erased.result.partitions]
    assert {(p.erased, p.proof) for p in result.partitions} == {(None, None)}
    assert result.proven is None
    assert changes(before, files_of(tmp_path / "dry")) == []


@pytest.mark.parametrize("keys", [[], [b"a", None]])
def test_empty_list_of_keys_is_refused(
    keys: list[bytes], spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(UsageError):
        erase(spark, [str(tmp_path)], keys=keys)


def test_old_formats_are_erased(spark: SparkSession, tmp_path: Path) -> None:
    """Only batches that lose records become v2."""
    log_dir = copy_log_dir("legacy", tmp_path / "legacy")
    before = rows(log_dir, columns=COLUMNS)
    keys = {row["key"] for row in before[::17] if row["key"] is not None}
    result = erase(spark, [str(log_dir)], keys=sorted(keys))
    assert {p.error for p in result.partitions} == {None}
    assert result.proven
    active = {
        p.name: max(path.name for path in p.glob("*.log")) for p in log_dir.iterdir() if p.is_dir()
    }
    wanted = [
        r
        for r in before
        if r["key"] not in keys or r["segment"] == active[f"{r['topic']}-{r['partition']}"]
    ]
    after = rows(log_dir, columns=COLUMNS)
    identity = ("topic", "partition", "offset", "key", "value", "timestamp")
    assert [[r[name] for name in identity] for r in after] == [
        [r[name] for name in identity] for r in wanted
    ]
    touched = {
        (r["topic"], r["partition"], r["segment"], r["position"]) for r in before if r not in wanted
    }
    formats = {(r["topic"], r["partition"], r["offset"]): r["magic"] for r in after}
    for row in wanted:
        alone = (row["topic"], row["partition"], row["segment"], row["position"]) not in touched
        assert formats[row["topic"], row["partition"], row["offset"]] == (
            row["magic"] if alone else 2
        )
    assert {0, 1, 2} <= {*formats.values()}


def test_verification_counts_the_same_records_as_the_scan(
    erased: Erased, spark: SparkSession
) -> None:
    """The verification runs before the erasure here, so it finds as many records as the erasure's
    own scan.
    """
    request = Request(settings=Settings(), topics=(), now=NO_CLOCK, only=None, touch=False)
    found = find_targets(
        spark.sparkContext, survey_log_dirs(LocalStorage(), [str(erased.before)]), request
    )
    targets = [target for target in found if isinstance(target, Target)]
    proofs = {
        str(at): proof
        for at, proof in prove(
            spark, targets, different_keys(sorted(erased.keys)), Silence()
        ).items()
    }
    assert {
        name: (proof.reached, proof.unreached, proof.problems) for name, proof in proofs.items()
    } == {
        name: (p.closed.records, p.left.records, 0)
        for name, p in erased.partitions.items()
        if p.closed
    }
    assert not any(proof.holds for proof in proofs.values())


class _Meeting(Places):
    """Before its first rename, each of two partitions waits until the other one is there, too."""

    def __init__(self) -> None:
        self._met: set[str] = set()
        self._both = threading.Barrier(2, timeout=30)

    def rename(self, source: str, target: str) -> None:
        directory = target.rpartition("/")[0]
        if directory not in self._met:
            self._met.add(directory)
            with waiting():
                self._both.wait()
        super().rename(source, target)


def test_erase_commits_two_partitions_at_the_same_time(
    erased: Erased, spark: SparkSession, tmp_path: Path
) -> None:
    names = ("c-multi-0", "c-tomb-0")
    log_dir = copy_log_dir("clean", tmp_path / "log-dir", only=names)
    storage = _Meeting()
    request = Request(settings=Settings(), now=NO_CLOCK, touch=True, storage=storage)
    log_dirs = survey_log_dirs(storage, [str(log_dir)])
    keys = different_keys(sorted(erased.keys))
    result = erase_from(spark, log_dirs, request, keys, run_id="run")
    assert [(p.error, p.proof and p.proof.holds) for p in result.partitions] == [(None, True)] * 2
    for name in names:
        assert content(log_dir / name) == content(erased.after / name)


def test_damage_and_older_copies_are_reported(spark: SparkSession, tmp_path: Path) -> None:
    log_dir = copy_log_dir("damaged", tmp_path / "log-dir", only=["x-badcrc-0"])
    before = files_of(log_dir)
    result = erase(spark, [str(log_dir)], keys=[b"none"])
    assert ["CRC" in (p.error or "") for p in result.partitions] == [True]
    assert (result.status, result.exit_code, result.proven) == ("partial", 3, None)
    assert changes(before, files_of(log_dir)) == []
    sound = new_log_dir(tmp_path / "sound")
    kept = add_partition(sound, "c-tomb-0", "c-tomb-0") / ".winnow-kept-run"
    kept.mkdir()
    result = erase(spark, [str(sound)], keys=[b"none"])
    assert [p.copies for p in result.partitions] == [(str(kept),)]
    assert (result.status, result.exit_code, result.proven) == ("partial", 3, None)


def test_erase_command(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "log-dir", only=["c-tomb-0"])
    verbs_use(spark, monkeypatch)
    log = read_log(log_dir / "c-tomb-0").records
    active = max(int(path.stem) for path in (log_dir / "c-tomb-0").glob("*.log"))
    key = min({r.key for r in log if r.key} - {r.key for r in log if r.offset >= active})
    (tmp_path / "keys").write_bytes(key + b"\r\n")
    assert (
        run_command(
            ["erase", str(log_dir), "--keys", str(tmp_path / "keys"), "--dry-run", "--json"]
        )
        == 0
    )
    planned = json.loads(capsys.readouterr().out)
    assert (planned["dry_run"], planned["keys"], planned["keys_found"], planned["proven"]) == (
        True,
        1,
        1,
        None,
    )
    (tmp_path / "hex").write_text(key.hex())
    assert (
        run_command(["erase", str(log_dir), "--keys-hex", str(tmp_path / "hex"), "--no-ledger"])
        == 0
    )
    out, _ = capsys.readouterr()
    assert "Proven" in out
    assert f"{planned['partitions'][0]['closed']['records']} records erased" in out
    assert key.decode() not in out.split()
    assert all(record.key != key for record in read_log(log_dir / "c-tomb-0").records)
    assert run_command(["erase", str(log_dir)]) == 2
    (tmp_path / "keys").write_bytes(b"a\n\nb\n")
    assert run_command(["erase", str(log_dir), "--keys", str(tmp_path / "keys")]) == 2


def test_after_a_crash_whole_logs_are_searched_and_torn_ones_left_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "log-dir", only=["c-tomb-0", "c-zstd-0"])
    (log_dir / ".kafka_cleanshutdown").unlink()
    for name in ("c-tomb-0", "c-zstd-0"):
        for index in (log_dir / name).glob("*.index"):
            index.write_bytes(index.read_bytes() + bytes(8))
    (log_dir / "recovery-point-offset-checkpoint").unlink()
    torn = max((log_dir / "c-zstd-0").glob("*.log"))
    torn.write_bytes(torn.read_bytes()[:-7])
    before = files_of(log_dir / "c-zstd-0")
    key = next(r.key for r in read_log(log_dir / "c-tomb-0").records if r.key is not None)
    result = erase(spark, [str(log_dir)], keys=[key], settings=Settings())
    found = {p.topic: p for p in result.partitions}
    assert (found["c-tomb"].why_left_alone, found["c-tomb"].error) == (None, None)
    assert found["c-tomb"].erased.records > 0
    assert f"it will cut segment {int(torn.stem)} at byte" in (found["c-zstd"].why_left_alone or "")
    assert changes(before, files_of(log_dir / "c-zstd-0")) == []
    assert result.exit_code == 3
