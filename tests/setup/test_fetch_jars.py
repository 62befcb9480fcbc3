"""The jars of Delta Lake are fetched once, and only with the checksum in jars.txt."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    (tmp_path / "maven" / "a" / "1").mkdir(parents=True)
    (tmp_path / "maven" / "a" / "1" / "a-1.jar").write_bytes(b"the jar")
    digest = hashlib.sha256(b"the jar").hexdigest()
    (tmp_path / "jars.txt").write_text(f"# why\n{digest}  a/1/a-1.jar\n", encoding="utf-8")
    return tmp_path


def fetch(mirror: Path) -> subprocess.CompletedProcess[str]:
    # Each try after the first is preceded by a wait, which this test has no use for.
    code = (
        "import sys; sys.path.insert(0, 'lib/winnow/ledger'); import fetch_jars as f; "
        "f.ATTEMPTS = 1; f.command(*sys.argv[1:])"
    )
    return subprocess.run(
        [sys.executable, "-c", code, str(mirror / "jars.txt"), str(mirror / "jars")],
        env={**os.environ, "WINNOW_MAVEN": f"{(mirror / 'maven').as_uri()}/"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_present_jar_is_kept_and_unlisted_jar_removed(mirror: Path) -> None:
    assert fetch(mirror).returncode == 0
    (mirror / "jars" / "a-0.jar").touch()
    (mirror / "maven" / "a" / "1" / "a-1.jar").unlink()
    assert fetch(mirror).returncode == 0
    assert [path.name for path in (mirror / "jars").iterdir()] == ["a-1.jar"]
    assert (mirror / "jars" / "a-1.jar").read_bytes() == b"the jar"


def test_jar_with_wrong_checksum_is_refused(mirror: Path) -> None:
    (mirror / "maven" / "a" / "1" / "a-1.jar").write_bytes(b"another")
    ended = fetch(mirror)
    assert ended.returncode == 1
    assert "its SHA-256 is" in ended.stderr
    assert list((mirror / "jars").iterdir()) == []


def test_damaged_jar_is_fetched_again(mirror: Path) -> None:
    fetch(mirror)
    (mirror / "jars" / "a-1.jar").write_bytes(b"the j")
    fetch(mirror)
    assert (mirror / "jars" / "a-1.jar").read_bytes() == b"the jar"


def test_jar_that_cannot_be_fetched_is_named(mirror: Path) -> None:
    (mirror / "maven" / "a" / "1" / "a-1.jar").unlink()
    ended = fetch(mirror)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert f"can't fetch {(mirror / 'maven').as_uri()}/a/1/a-1.jar" in ended.stderr
    assert "WINNOW_MAVEN" in ended.stderr
