"""A plan in a file: `apply` does exactly what it says, or changes nothing."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pages import ROOT
from tests.session import verbs_use
from tests.spark.runs import NOW, add_partition, changes, files_of
from tests.spark.saved_plans import QUIET, Place
from winnow.cli.main import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    verbs_use(spark, monkeypatch)
    return Place(tmp_path)


def test_apply_does_what_clean_would_have_done_at_the_time_of_the_plan(
    place: Place,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = Path(shutil.copytree(place.log_dir, tmp_path / "other"))
    before = files_of(place.log_dir)
    monkeypatch.chdir(tmp_path)
    words = ["--topic-configs", place.configs.name, "--now", str(NOW), "--no-ledger"]
    assert run(["plan", "d", *words, "--out", "plan.json", "--only", "compaction"]) == 0
    assert changes(before, files_of(place.log_dir)) == []
    assert stat.S_IMODE(place.file.stat().st_mode) == 0o600
    assert "`apply` carries it out" in capsys.readouterr().err
    monkeypatch.chdir("/")
    assert place.apply("--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["now"] == NOW
    assert {p["topic"]: p["actions"] for p in told["partitions"]} == {
        "c-tomb": ["compacted"],
        "d-size": ["none"],
        "d-time": ["none"],
        "t-closed": ["compacted"],
    }
    words = ["--topic-configs", str(place.configs), "--now", str(NOW), "--only", "compaction"]
    assert run(["clean", str(other), *words, *QUIET]) == 0
    logs = {
        name: digest
        for name, digest in digests(place.log_dir).items()
        if not name.startswith(".winnow")
    }
    assert logs == digests(other)
    done = files_of(place.log_dir)
    assert place.apply() == 1
    assert changes(done, files_of(place.log_dir)) == []


def touch(path: Path) -> None:
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 10**9))


def first(place: Place, partition: str) -> Path:
    return min((place.log_dir / partition).glob("*.log"))


def active(place: Place, partition: str) -> Path:
    return max((place.log_dir / partition).glob("*.log"))


def append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + bytes(1))


def shorten(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def delete_segment(log: Path) -> None:
    for file in log.parent.glob(f"{log.stem}.*"):
        file.unlink()


def other_cluster(place: Place) -> None:
    meta = place.log_dir / "meta.properties"
    lines = meta.read_text().splitlines()
    meta.write_text(
        "\n".join("cluster.id=other" if one.startswith("cluster.id") else one for one in lines)
    )


def linked(place: Place) -> None:
    place.log_dir.rename(place.log_dir.with_name("moved"))
    place.log_dir.symlink_to(place.log_dir.with_name("moved"))


CHANGES: dict[str, tuple[Callable[[Place], object], str]] = {
    "touched": (lambda p: touch(first(p, "c-tomb-0")), "00000000000000000000.log"),
    "appended": (lambda p: append(active(p, "t-closed-0")), "t-closed-0"),
    "torn": (lambda p: shorten(first(p, "d-size-0")), "d-size-0"),
    "deleted": (lambda p: delete_segment(first(p, "d-size-0")), ".log any more"),
    "lost": (lambda p: delete_segment(active(p, "d-size-0")), "d-size-0). Nothing was cleaned"),
    "added": (lambda p: add_partition(p.log_dir, "c-none-0", "c-none-0"), "c-none-0"),
    "gone": (lambda p: shutil.rmtree(p.log_dir / "d-size-0"), "it is not there any more"),
    "cleaned": (
        lambda p: (p.log_dir / "cleaner-offset-checkpoint").write_text("0\n1\nc-tomb 0 90\n"),
        "another cleaner checkpoint",
    ),
    "cluster": (other_cluster, "another one than that of the plan"),
    "settings": (
        lambda p: p.configs.write_text(p.configs.read_text() + "c-tomb retention.ms=1\n"),
        "--topic-configs has changed",
    ),
    "broker": (lambda p: (p.log_dir / ".kafka_cleanshutdown").unlink(), "another"),
    "link": (linked, "a link"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changed_directory_is_refused(
    name: str, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    change, words = CHANGES[name]
    assert place.plan() == 0
    capsys.readouterr()
    change(place)
    before = files_of(place.log_dir)
    assert place.apply() == (2 if name == "link" else 1)
    assert words in " ".join(capsys.readouterr().err.split())
    assert changes(before, files_of(place.log_dir)) == []


def test_options_that_delete_more_are_confirmed_again(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    assert place.plan("--topic-set", "d-size:retention.bytes=1000") == 0
    before = files_of(place.log_dir)
    assert place.apply() == 2
    assert "needs --yes" in capsys.readouterr().err
    assert changes(before, files_of(place.log_dir)) == []
    assert place.apply("--yes", "--summary") == 0
    assert capsys.readouterr().out.startswith("clean: 4 of 4 partitions")


def test_plan_is_saved_only_where_it_can_be_carried_out(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert place.plan(verb="clean") == 2
    assert place.plan("--output", str(tmp_path / "new")) == 2
    assert place.plan("--out", str(place.log_dir / "plan.json")) == 2
    assert place.plan("--out", str(tmp_path / "gone" / "plan.json")) == 2
    assert place.plan("--server-properties", "/dev/null") == 2
    assert "no file" in capsys.readouterr().err
    assert not place.file.exists()


@pytest.mark.parametrize(
    ("made", "carried_out"),
    [("C", "C.UTF-8"), pytest.param("C.UTF-8", "C", marks=pytest.mark.slow)],
)
def test_plan_of_a_path_that_is_not_utf8_is_carried_out_in_another_locale(
    place: Place, tmp_path: Path, made: str, carried_out: str
) -> None:
    """By real commands: Java passes the words on, and replaces bytes that are not UTF-8."""
    root = tmp_path / os.fsdecode(b"k\xff")
    root.mkdir()
    other, place = place, Place(root)

    def command(language: str, *words: str) -> None:
        environment = {**os.environ, "LANG": language, "XDG_STATE_HOME": str(root)}
        environment = {k: v for k, v in environment.items() if not k.startswith("LC_")}
        subprocess.run(
            [ROOT / "spark-submit.sh", *words, "--quiet", "--result", str(root / "last.json")],
            env=environment, check=True, capture_output=True,
        )  # fmt: skip

    deciding = ["--topic-configs", str(place.configs), "--now", str(NOW)]
    command(made, "plan", str(place.log_dir), *deciding, "--out", str(place.file))
    told = json.loads(place.file.read_text())
    assert os.fsencode(told["log_dirs"][0]["path"]) == os.fsencode(place.log_dir)
    command(carried_out, "apply", str(place.file), "--no-ledger", "--report", str(root / "page"))
    assert json.loads((root / "last.json").read_text())["totals"]["with_work"] == 4
    assert "</html>" in (root / "page").read_text(encoding="utf-8")
    assert run(["clean", str(other.log_dir), *deciding, *QUIET]) == 0
    assert digests(place.log_dir) == digests(other.log_dir)


def digests(log_dir: Path) -> dict[str, str | None]:
    return {name: file and file.digest for name, file in files_of(log_dir).items()}
