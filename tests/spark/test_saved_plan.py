"""A plan in a file: `apply` does exactly what it says, or changes nothing."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures.data import TOPIC_CONFIGS, copy_log_dir
from tests.pages import ROOT
from tests.session import verbs_use
from tests.spark.runs import NOW, add_partition, changes, files_of
from winnow.cli.main import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

QUIET = ("--no-ledger", "--report", "none", "--quiet")
PARTITIONS = ("c-tomb-0", "d-size-0", "d-time-0", "t-closed-0")


class Place:
    """A log directory, files of settings, and a plan."""

    def __init__(self, root: Path) -> None:
        self.log_dir = copy_log_dir("clean", root / "d", only=PARTITIONS)
        self.configs = root / "topic-configs.txt"
        self.configs.write_bytes(TOPIC_CONFIGS.read_bytes())
        self.file = root / "plan.json"

    def plan(self, *more: str, verb: str = "plan") -> int:
        words = ["--topic-configs", str(self.configs), "--now", str(NOW), "--no-ledger", "--quiet"]
        return run([verb, str(self.log_dir), *words, "--out", str(self.file), *more])

    def apply(self, *more: str) -> int:
        return run(["apply", str(self.file), *QUIET, *more])

    def edit(self, change: Callable[[dict[str, Any]], object]) -> None:
        told = json.loads(self.file.read_text())
        change(told)
        self.file.write_text(json.dumps(told))


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    verbs_use(spark, monkeypatch)
    return Place(tmp_path)


@pytest.fixture(scope="module")
def planned(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """One plan for all tests that end before a log directory is looked at."""
    with pytest.MonkeyPatch.context() as patch:
        verbs_use(spark, patch)
        place = Place(tmp_path_factory.mktemp("planned"))
        assert place.plan() == 0
    return place


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
    "deleted": (lambda p: delete_segment(active(p, "d-size-0")), ".log any more"),
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


TAMPERED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "asks for more": (
        lambda told: told["asked"].update(topic_sets=["d-size:retention.bytes=1"]),
        "another value than in the plan",
    ),
    "another clock": (lambda told: told.update(now=10**12), "another decision than in the plan"),
    "less is to be done": (
        lambda told: next(iter(told["partitions"].values()))["decided"].update(compaction=None),
        "another decision than in the plan",
    ),
    "a decision is nonsense": (
        lambda told: next(iter(told["partitions"].values())).update(decided=[[]]),
        "another decision than in the plan",
    ),
    "what was found is nonsense": (
        lambda told: next(iter(told["partitions"].values())).update(found="x"),
        "it is not what the plan says",
    ),
    "segments are nonsense": (
        lambda told: next(iter(told["partitions"].values()))["found"].update(
            segments=[3, [], ["x"], [-1], [2**70], [0]]
        ),
        "has changed since",
    ),
    "a partition of elsewhere": (
        lambda told: told["partitions"].update({"/etc": {"found": None, "decided": None}}),
        "it is not there any more",
    ),
    "another version of Kafka": (
        lambda told: told.update(kafka_version="3.9"),
        "another version of Kafka",
    ),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_plan_that_winnow_would_not_make_is_refused(
    name: str, place: Place, planned: Place, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    change, words = TAMPERED[name]
    monkeypatch.setattr(place, "log_dir", planned.log_dir)
    place.file.write_bytes(planned.file.read_bytes())
    place.edit(change)
    before = files_of(planned.log_dir)
    assert place.apply("--yes") == 1
    assert words in " ".join(capsys.readouterr().err.split())
    assert changes(before, files_of(planned.log_dir)) == []


DAMAGED: dict[str, Callable[[dict[str, Any]], object]] = {
    "no version": lambda told: told.pop("format"),
    "a newer version": lambda told: told.update(format=2),
    "another Winnow": lambda told: told.update(winnow_version="99.0"),
    "a field more": lambda told: told.update(command="rm -rf /"),
    "a field less": lambda told: told.pop("now"),
    "a clock that is no number": lambda told: told.update(now="0"),
    "a clock out of range": lambda told: told.update(now=2**63),
    "a relative path": lambda told: told["log_dirs"][0].update(path="d"),
    "a path with dots": lambda told: told["log_dirs"][0].update(
        path=told["log_dirs"][0]["path"] + "/../d"
    ),
    "a path with a surrogate that is no byte": lambda told: told["log_dirs"][0].update(
        path="/\ud800"
    ),
    "a path with a zero byte": lambda told: told["log_dirs"][0].update(path="/d\0"),
    "a URL": lambda told: told["log_dirs"][0].update(path="s3://bucket/d"),
    "no log directory": lambda told: told.update(log_dirs=[]),
    "a node that is no number": lambda told: told["log_dirs"][0].update(node_id="x"),
    "an unknown option": lambda told: told["asked"].update(output=["/x"]),
    "an option of execution": lambda told: told["asked"].update(yes=True),
    "a glob that is no text": lambda told: told["asked"].update(topics=[1]),
    "one glob instead of a list": lambda told: told["asked"].update(topics="*"),
    "a choice that is none": lambda told: told["asked"].update(only="everything"),
    "a switch that is a text": lambda told: told["asked"].update(allow_other_broker="no"),
    "a setting that is none": lambda told: told["asked"].update(sets=["x=1"]),
    "a size that is none": lambda told: told["asked"].update(free_at_least="many"),
    "a file without a digest": lambda told: told.update(files={}),
    "a file of elsewhere": lambda told: told["asked"].update(server_properties=["/etc/passwd"]),
    "a device": lambda told: (
        told["asked"].update(server_properties=["/dev/zero"]),
        told["files"].update({"/dev/zero": "0" * 64}),
    ),
    "a short digest": lambda told: told["files"].update(dict.fromkeys(told["files"], "0")),
    "a partition without facts": lambda told: told["partitions"].update({"/x": {}}),
    "partitions as a list": lambda told: told.update(partitions=[]),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_plan_is_refused_before_spark_starts(
    name: str, planned: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plan.json"
    told = json.loads(planned.file.read_text())
    DAMAGED[name](told)
    file.write_text(json.dumps(told))
    assert run(["apply", str(file), *QUIET, "--json"]) == 2
    out, err = capsys.readouterr()
    assert json.loads(out)["exit_code"] == 2
    assert "Traceback" not in err


def test_file_that_is_no_plan_is_refused(
    planned: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = planned.file.read_bytes()
    deep = b'{"format": 1, "now": ' + b"[" * 5000 + b"]" * 5000 + b"}"
    nan = whole.replace(b'"now": 1', b'"now": NaN, "x": 1', 1)
    for content in (b"", whole[: len(whole) // 2], b"\xff\xfe", b"[]", b"null", deep, nan):
        file = tmp_path / "plan.json"
        file.write_bytes(content)
        assert run(["apply", str(file), *QUIET]) == 2, content[:40]
        assert "Traceback" not in capsys.readouterr().err
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path, tmp_path / "pipe", tmp_path / "gone"):
        assert run(["apply", str(place), *QUIET]) == 2
        assert "the plan can't be read" in capsys.readouterr().err


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


def test_apply_takes_no_option_that_decides(
    planned: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    for option in (["--now", "1"], ["--topics", "*"], ["--topic-set", "*:retention.ms=1"]):
        assert run(["apply", str(planned.file), *option]) == 2
        assert "No such option" in capsys.readouterr().err


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
