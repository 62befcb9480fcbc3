"""`erase --search-values` counts the records that name a person but have another key, and erases
none of them.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.log_writer.writer import LogWriter
from tests.session import verbs_use
from tests.spark.runs import changes, files_of, new_log_dir, set_checkpoint
from winnow.api import erase
from winnow.cli.main import run as run_command
from winnow.errors import UsageError
from winnow.wire.batch import Codec
from winnow.wire.plain import Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

WHO = b"person-4711"
NOW = 1_790_000_000_000


@pytest.fixture(autouse=True)
def _own_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    verbs_use(spark, monkeypatch)


def group_key(group: bytes) -> bytes:
    """The key of an offset that a group has committed (`OffsetCommitKey`)."""
    parts = (group, b"people")
    strings = b"".join(len(part).to_bytes(2) + part for part in parts)
    return (1).to_bytes(2) + strings + bytes(4)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    place = new_log_dir(tmp_path / "kafka")
    ref = ((b"ref", WHO),)
    people = [
        Record(0, NOW, WHO, b"the person's own record, with " + WHO, ref),
        Record(1, NOW, b"order-1", b'{"customer": "person-4711"}'),
        Record(2, NOW, b"order-2", b"{}", ref),
        Record(3, NOW, WHO + b"/address", None),
        Record(4, NOW, b"person-", b"4711"),
        Record(5, NOW, b"order-3", WHO, ref),
    ]
    groups = [Record(n, NOW, group_key(b"app-" + WHO), bytes(24)) for n in range(5)]
    for name, records in (("people-0", people), ("__consumer_offsets-0", groups)):
        with LogWriter(place / name, clock=lambda: NOW) as log:
            log.append_records(records, codec=Codec.ZSTD)
            log.roll()
            log.append_records([Record(9, NOW, b"active", b"")])
        set_checkpoint(place / "replication-offset-checkpoint", name, len(records) + 1)
    return place


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = run_command(["erase", *words, "--key", WHO.decode(), "--quiet"])
    out, err = capsys.readouterr()
    return code, out, err


def counts(found: dict[str, Any]) -> tuple[int, ...]:
    return tuple(found[name] for name in ("records", "in_keys", "in_values", "in_headers"))


def test_dry_run_counts_records_with_other_keys_by_their_parts(
    log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files_of(log_dir)
    words = (str(log_dir), "--search-values", WHO.decode(), "--dry-run")
    code, out, err = run(capsys, *words, "--json")
    stored = sum(path.stat().st_size for path in log_dir.glob("*-0/*.log"))
    assert f"note: --search-values reads and decompresses all of 2 partitions, {stored} B as" in err
    told = json.loads(out)["patterns"]
    assert code == 0
    assert told["patterns"] == 1
    assert {f"{p['topic']}-{p['partition']}": counts(p["matches"]) for p in told["partitions"]} == {
        "people-0": (4, 1, 2, 2),
        "__consumer_offsets-0": (5, 5, 0, 0),
    }
    assert counts(told) == (9, 6, 2, 2)
    assert told["searched_records"] == 5 + 1 + 5 + 1
    assert told["searched_bytes"] > 0
    assert changes(before, files_of(log_dir)) == []
    code, out, _ = run(capsys, *words)
    assert "9 records of 12 with other keys hold the pattern" in out
    assert "people-0                    4        1          2           2" in out
    assert "__consumer_offsets-0        5        5          0           0" in out


def test_certificate_has_the_counts_and_a_hash_instead_of_the_pattern(
    log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--search-values", f"hex:{WHO.hex()}", "--search-values", "no such text")
    place = tmp_path / "certificates"
    code, out, _ = run(
        capsys, str(log_dir), *options, "--certificate", str(place), "--no-ledger", "--json"
    )
    assert code == 0
    told = json.loads(out)
    content = json.loads(Path(told["certificate"]).read_text(encoding="utf-8"))
    assert counts(content["patterns"]) == counts(told["patterns"]) == (9, 6, 2, 2)
    assert {one["partition"] for one in content["patterns"]["partitions"]} == {
        "people-0",
        "__consumer_offsets-0",
    }
    hash_key = bytes.fromhex(told["hash_key"])
    hashed = blake2b(WHO, digest_size=16, key=hash_key).hexdigest()
    assert hashed in content["patterns"]["hashes"]
    assert any("that were searched for" in words for words in content["not_shown"])
    assert (content["status"], content["proven"]) == ("done", True)
    page = Path(told["certificate"]).with_suffix(".html").read_text(encoding="utf-8")
    assert "Search in keys, values and headers" in page
    assert "9 of 12 records with other keys hold one of 2 patterns" in page
    for text in (out, page, json.dumps(content)):
        assert WHO.decode() not in text
    assert content["records_erased"] == 1


def test_internal_topic_that_cannot_be_searched_is_named(
    log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segment = min((log_dir / "__consumer_offsets-0").glob("*.log"))
    damaged = bytearray(segment.read_bytes())
    damaged[-1] ^= 1
    segment.write_bytes(damaged)
    options = ("--search-values", WHO.decode(), "--certificate", str(tmp_path / "c"))
    code, out, _ = run(capsys, str(log_dir), *options, "--no-ledger")
    assert code == 3
    assert "not searched: __consumer_offsets-0: " in out
    assert "Proven" in out
    (certificate,) = (tmp_path / "c").glob("*.json")
    content = json.loads(certificate.read_text(encoding="utf-8"))
    assert any("not searched for patterns" in words for words in content["left"])


def test_named_internal_topic_is_searched_once(spark: SparkSession, log_dir: Path) -> None:
    found = erase(
        spark,
        str(log_dir),
        keys=[b"none"],
        topics=["__consumer_offsets"],
        search_values=[WHO, WHO],
        dry_run=True,
    )
    assert found.patterns is not None
    assert found.patterns.patterns == 1
    assert [one.name for one in found.patterns.partitions] == ["__consumer_offsets-0"]


@pytest.mark.parametrize("patterns", [[b""], [bytes(4000), bytes(97)], b"text", ["text"]])
def test_patterns_that_cannot_be_used_are_refused(
    patterns: list[bytes], spark: SparkSession, log_dir: Path
) -> None:
    with pytest.raises(UsageError, match=r"pattern|search_values"):
        erase(spark, str(log_dir), keys=[b"k"], search_values=patterns, dry_run=True)
