"""Somebody has changed a plan: `apply` does what `plan` would say now, or changes nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.session import verbs_use
from tests.spark.runs import changes, files_of
from tests.spark.saved_plans import QUIET, Place
from winnow.cleaning.plan.saved import MOST_VALUES
from winnow.cli.main import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


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


def swapped(part: str | None = None) -> Callable[[dict[str, Any]], None]:
    """Let a partition have what belongs to another one: a part, or everything."""

    def change(told: dict[str, Any]) -> None:
        partitions = told["partitions"]
        one, other = [*partitions][:2]
        if part is None:
            partitions[one], partitions[other] = partitions[other], partitions[one]
        else:
            first, second = partitions[one], partitions[other]
            first[part], second[part] = second[part], first[part]

    return change


def as_fractions(told: dict[str, Any]) -> None:
    for one in told["partitions"].values():
        for segment in one["found"]["segments"]:
            segment[:] = [value and float(value) for value in segment]


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
    "the segments of another partition": (swapped("found"), "another size than before"),
    "the decision about another partition": (swapped("decided"), "another value than in the plan"),
    "all of another partition": (swapped(), "another size than before"),
    "integers are fractions": (as_fractions, "has changed since"),
    "a clock in the year 9999": (
        lambda told: told.update(now=253402300799999),
        "another decision than in the plan",
    ),
    "the same partition by another path": (
        lambda told: told["partitions"].update(
            {f"{path}/../{Path(path).name}": one for path, one in [*told["partitions"].items()]}
        ),
        "it is not there any more",
    ),
    "a name that controls a terminal": (
        lambda told: told["partitions"].update(
            {"/x\x1b[2J\nnote: done": {"found": None, "decided": None}}
        ),
        "(/x\\x1b[2J\\nnote: done)",
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
    "a partition with a long name": lambda told: told["partitions"].update(
        {"/" + "x" * 100_000: {"found": None, "decided": None}}
    ),
    "a long option": lambda told: told["asked"].update(exclude=["x" * (2**17 + 1)]),
    "many options": lambda told: told["asked"].update(topics=["x*"] * 2**20),
    "a long name of an option": lambda told: told["asked"].update({"x" * 100_000: True}),
    "a text that is no UTF-8 where a path is": lambda told: told["log_dirs"][0].update(
        path="/\udcff\udc80"
    ),
}
SHOWN = 2000
"""Maximum characters of an error, whatever the plan has."""


def test_a_plan_cannot_write_to_a_directory_that_is_no_log_directory(
    planned: Place, place: Place, tmp_path: Path
) -> None:
    """Not even a lock."""
    other = tmp_path / "etc"
    other.mkdir()

    def change(told: dict[str, Any]) -> None:
        told["log_dirs"] = [{"path": str(other), "node_id": None, "cluster_id": None}]
        told["partitions"] = {}

    place.file.write_bytes(planned.file.read_bytes())
    place.edit(change)
    before = files_of(planned.log_dir)
    assert place.apply("--yes") == 2
    assert list(other.iterdir()) == []
    assert changes(before, files_of(planned.log_dir)) == []


def test_a_plan_with_one_directory_twice_is_refused(
    planned: Place, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.file.write_bytes(planned.file.read_bytes())
    place.edit(lambda told: told["log_dirs"].append(told["log_dirs"][0]))
    assert place.apply("--yes") == 2
    assert "given twice" in capsys.readouterr().err


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
    assert len(err) < SHOWN


def test_file_that_is_no_plan_is_refused(
    planned: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = planned.file.read_bytes()
    deep = b'{"format": 1, "now": ' + b"[" * 5000 + b"]" * 5000 + b"}"
    nan = whole.replace(b'"now": 1', b'"now": NaN, "x": 1', 1)
    many = b"[" + b"{}," * MOST_VALUES + b"{}]"
    wide = whole.decode().encode("utf-16")
    for content in (b"", whole[:999], b"\xff\xfe", b"[]", b"null", deep, nan, many, wide):
        file = tmp_path / "plan.json"
        file.write_bytes(content)
        assert run(["apply", str(file), *QUIET]) == 2, content[:40]
        assert "Traceback" not in capsys.readouterr().err
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path, tmp_path / "pipe", tmp_path / "gone", Path("/dev/zero")):
        assert run(["apply", str(place), *QUIET]) == 2
        assert "the plan can't be read" in capsys.readouterr().err


def test_apply_takes_no_option_that_decides(
    planned: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    for option in (["--now", "1"], ["--topics", "*"], ["--topic-set", "*:retention.ms=1"]):
        assert run(["apply", str(planned.file), *option]) == 2
        assert "No such option" in capsys.readouterr().err
