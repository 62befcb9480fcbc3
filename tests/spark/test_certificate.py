"""Certificates of erasures hold without Winnow. `verify --key-hash` finds what they name."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.crash.runs import read_log
from tests.fixtures.data import copy_log_dir, copy_tree
from tests.pages import DOCS, blocks
from tests.session import verbs_use
from tests.spark.runs import changes, files_of
from winnow.api import erase
from winnow.cli.main import run as run_command
from winnow.errors import UsageError
from winnow.reading import read
from winnow.report.certificate import canonical

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from winnow.verbs.erase.values import EraseResult

pytestmark = pytest.mark.spark

NAMES = ("c-tomb-0", "c-zstd-0", "d-size-0")


@pytest.fixture(autouse=True)
def _own_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    verbs_use(spark, monkeypatch)


@dataclass(frozen=True)
class Certified:
    before: Path
    log_dir: Path
    keys: tuple[bytes, ...]
    place: Path
    result: EraseResult

    @property
    def file(self) -> Path:
        return Path(self.result.certificate or "")

    @property
    def content(self) -> dict[str, Any]:
        read: dict[str, Any] = json.loads(self.file.read_text(encoding="utf-8"))
        return read


@pytest.fixture(scope="module")
def certified(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Certified:
    scratch = tmp_path_factory.mktemp("certified")
    before = copy_log_dir("clean", scratch / "before", only=NAMES)
    copy_tree(before, scratch / "kafka")
    records = read_log(before / "c-tomb-0").records
    active = max(int(path.stem) for path in (before / "c-tomb-0").glob("*.log"))
    here = {r.key for r in records if r.key is not None and r.offset < active}
    later = {r.key for r in records if r.offset >= active}
    keys = (*sorted(here - later)[:3], b"in no record")
    result = erase(
        spark, [str(scratch / "kafka")], keys=list(keys), certificate=str(scratch / "certificates")
    )
    return Certified(before, scratch / "kafka", keys, scratch / "certificates", result)


def test_certificate_says_what_was_done(certified: Certified) -> None:
    content, result = certified.content, certified.result
    assert sorted(path.suffix for path in certified.place.iterdir()) == [
        ".hash-key",
        ".html",
        ".json",
    ]
    assert (content["status"], content["proven"], content["left"]) == ("done", True, [])
    assert (content["keys"]["given"], content["keys"]["found"]) == (4, 3)
    assert content["records_erased"] == sum(
        r.key in certified.keys for r in read_log(certified.before / "c-tomb-0").records
    )
    read = {f"{p['topic']}-{p['partition']}": p["proof"] for p in content["partitions"]}
    assert read == {
        name: {
            "records_read": len(read_log(certified.log_dir / name).records),
            "with_a_key": 0,
            "unreadable": 0,
        }
        for name in NAMES
    }
    assert content["log_dirs"] == [
        {"path": str(certified.log_dir), "cluster_id": "V2lubm93T3JhY2xlMDAwMQ", "node_id": 1}
    ]
    assert result.hash_key is not None
    assert content["patterns"] is None
    assert any("Values and headers: only keys are compared" in w for w in content["not_shown"])


def test_certificate_has_the_hash_of_each_rewritten_file_and_of_no_other(
    certified: Certified,
) -> None:
    told = {
        file["file"]: (file["bytes"], file["sha256"])
        for partition in certified.content["partitions"]
        for file in partition["rewritten"]
    }
    changed = {}
    for path in sorted(certified.log_dir.glob("*-*/*.log")):
        name = str(path.relative_to(certified.log_dir))
        data = path.read_bytes()
        if data != (certified.before / name).read_bytes():
            changed[name] = (len(data), hashlib.sha256(data).hexdigest())
    assert told == changed != {}


def test_no_key_and_no_hash_key_is_in_a_certificate(certified: Certified) -> None:
    """Keys are short here, so they are looked for as words."""
    for suffix in (".json", ".html"):
        text = certified.file.with_suffix(suffix).read_text(encoding="utf-8")
        words = {*text.replace('"', " ").replace("<", " ").replace(">", " ").split()}
        assert not {key.decode() for key in certified.keys} & words
        assert (certified.result.hash_key or "?") not in text
    assert certified.file.with_suffix(".hash-key").stat().st_mode & 0o777 == 0o600


def test_changed_certificate_does_not_match_its_hash(certified: Certified) -> None:
    content = certified.content
    stated = content.pop("sha256")
    assert hashlib.sha256(canonical(content)).hexdigest() == stated
    content["records_erased"] += 1
    assert hashlib.sha256(canonical(content)).hexdigest() != stated


def test_checks_of_the_page_find_a_changed_certificate_and_a_changed_file(
    certified: Certified, tmp_path: Path
) -> None:
    """The page itself is run by tests/docs/test_pages.py, where all checks pass."""
    snippet, _ = blocks(DOCS / "erase.md", "python")
    copy_tree(certified.log_dir, tmp_path / "kafka")
    hash_key = certified.file.with_suffix(".hash-key").read_text(encoding="utf-8")
    (tmp_path / "hash-key").write_text(hash_key, encoding="utf-8")
    code = snippet.text.replace("/var/lib/kafka", str(tmp_path / "kafka"))

    def printed(content: dict[str, Any]) -> list[str]:
        (tmp_path / "certificate.json").write_text(json.dumps(content), encoding="utf-8")
        done = subprocess.run(
            ["python3", "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return done.stdout.split()

    assert printed(certified.content)[:2] == ["True", "True"]
    assert printed(certified.content | {"user": "else"})[:2] == ["False", "True"]
    file = certified.content["partitions"][0]["rewritten"][0]["file"]
    data = bytearray((tmp_path / "kafka" / file).read_bytes())
    data[-1] ^= 1
    (tmp_path / "kafka" / file).write_bytes(data)
    assert printed(certified.content)[:2] == ["True", "False"]


def test_verify_finds_erased_keys_by_their_hashes(
    certified: Certified, capsys: pytest.CaptureFixture[str]
) -> None:
    def verify(log_dir: Path, *words: str) -> tuple[int, dict[str, Any]]:
        code = run_command(
            ["verify", str(log_dir), "--key-hash", str(certified.file), "--json", *words]
        )
        return code, json.loads(capsys.readouterr().out or "{}")

    code, told = verify(certified.log_dir)
    assert (code, told["found"], told["problems"], told["keys"]) == (0, 0, 0, 4)
    assert told["records"] == sum(len(read_log(certified.log_dir / n).records) for n in NAMES)
    code, told = verify(certified.before)
    assert (code, told["found"]) == (4, certified.content["records_erased"])
    hit = {s["segment"] for s in told["segments"] if s["found"]}
    rewritten = certified.content["partitions"][0]["rewritten"]
    assert hit == {file["file"].rpartition("/")[2] for file in rewritten}
    assert run_command(["verify", str(certified.before), "--key-hash", str(certified.file)]) == 4
    out = capsys.readouterr().out
    assert f"{told['found']} records of {told['records']} with an erased key" in out
    assert "c-tomb-0" in out


def test_verify_refuses_a_directory_without_the_topics(
    certified: Certified, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = copy_log_dir("clean", tmp_path / "other", only=["c-lz4-0"])
    words = ["--key-hash", str(certified.file)]
    assert run_command(["verify", str(other), *words]) == 2
    assert "none of the topics to search is here" in capsys.readouterr().err
    part = copy_log_dir("clean", tmp_path / "part", only=[NAMES[0]])
    assert run_command(["verify", str(part), *words, "--json"]) == 4
    told = json.loads(capsys.readouterr().out)
    missing = [name.rpartition("-")[0] for name in NAMES[1:]]
    assert told["notes"] == [f"topic {m} is not here: nothing of it was searched" for m in missing]
    assert run_command(["verify", str(certified.log_dir), *words, "--topics", "nope"]) == 2
    assert run_command(["verify", str(certified.log_dir), *words, "--topics", "["]) == 2


def test_verify_refuses_what_is_no_certificate_and_a_wrong_hash_key(
    certified: Certified, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = tmp_path / "alone.json"
    alone.write_bytes(certified.file.read_bytes())
    wrong = tmp_path / "wrong"
    wrong.write_text("zz\n")
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(certified.content | {"user": "else"}))
    other = tmp_path / "other.json"
    other.write_text('{"format": "x"}')
    key = str(certified.file.with_suffix(".hash-key"))
    for words, told in (
        ((str(alone),), "needs the hash key"),
        ((str(alone), "--hash-key", str(wrong)), "hexadecimal"),
        ((str(alone), "--hash-key", str(tmp_path / "none")), "can't read"),
        ((str(changed), "--hash-key", key), "does not match its SHA-256"),
        ((str(other), "--hash-key", key), "not a certificate"),
    ):
        assert run_command(["verify", str(certified.log_dir), "--key-hash", *words]) == 2, words
        assert told in capsys.readouterr().err
    another = tmp_path / "another"
    another.write_text("00" * 32)
    words = (str(alone), "--hash-key", str(another))
    assert run_command(["verify", str(certified.log_dir), "--key-hash", *words]) == 2
    assert "not the hash key" in capsys.readouterr().err


def test_certificate_place_is_checked_before_anything_is_erased(
    certified: Certified, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "log-dir", only=["c-tomb-0"])
    (tmp_path / "file").write_text("")
    command = ["erase", str(log_dir), "--key", certified.keys[0].decode(), "--no-ledger"]
    for place, told in (
        (str(log_dir / "certificates"), "inside a log directory"),
        (str(tmp_path / "file" / "x"), "--certificate can't be written"),
    ):
        assert run_command([*command, "--certificate", place]) == 2
        assert told in capsys.readouterr().err
    assert run_command([*command, "--certificate", str(tmp_path), "--dry-run"]) == 2
    assert "--dry-run" in capsys.readouterr().err
    assert len(read_log(log_dir / "c-tomb-0").records) == 1000


@pytest.mark.parametrize("verb", ["erase", "verify", "read"])
def test_path_that_is_not_utf8_is_refused_before_anything_is_done(
    certified: Certified,
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    verb: str,
) -> None:
    """Spark reads the records, also those of the proof after an erasure."""
    root = tmp_path / os.fsdecode(b"k\xff")
    root.mkdir()
    copy_tree(certified.before, root / "kafka")
    before = files_of(root / "kafka")
    path = str(root / "kafka")
    if verb == "read":
        with pytest.raises(UsageError) as raised:
            read(spark, path)
        told = str(raised.value)
    else:
        words = {
            "erase": ["--key", certified.keys[0].decode(), "--no-ledger"],
            "verify": ["--key-hash", str(certified.file)],
        }[verb]
        assert run_command([verb, path, *words]) == 2
        told = capsys.readouterr().err
    assert "the path of the log directory is not UTF-8" in told
    assert "found byte 0xff" in told
    assert "mount --bind" in told
    assert changes(before, files_of(root / "kafka")) == []
