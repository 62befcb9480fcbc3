"""Files that a run writes about itself, where they can't be written: before and during it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.crash.runs import read_log
from tests.disks import MIB, disk_or_skip
from tests.fixtures.data import TOPIC_CONFIGS, copy_log_dir
from tests.session import verbs_use
from tests.spark.runs import NOW, AtStage, changes, files_of
from winnow.api import erasures
from winnow.cli.main import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

GIVEN = ("--topic-configs", str(TOPIC_CONFIGS), "--now", str(NOW), "--no-ledger")
KEY = "k17"
During = Callable[[str, Callable[[], object]], None]


@pytest.fixture
def log_dir(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    verbs_use(spark, monkeypatch)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return copy_log_dir("clean", tmp_path / "d", only=["c-tomb-0", "d-size-0"])


@pytest.fixture
def during(monkeypatch: pytest.MonkeyPatch) -> During:
    """Do something once, when a stage of the run begins."""

    def arrange(part: str, action: Callable[[], object]) -> None:
        left = [action]
        progress = AtStage(part, lambda: left.pop()() and None if left else None)
        monkeypatch.setattr("winnow.cli.call.progress_on_stderr", lambda **_: nullcontext(progress))

    return arrange


def fill(disk: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        write_for_ever(disk / "ballast")


def write_for_ever(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        while file.write(bytes(MIB)):
            pass


def told(path: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(path.read_text())
    return read


OPTIONS = {
    "--result": "clean",
    "--metrics": "clean",
    "--openlineage": "clean",
    "--report": "clean",
    "--log-file": "clean",
    "--out": "plan",
    "--certificate": "erase",
}


@pytest.mark.parametrize("option", OPTIONS)
def test_bad_target_is_found_before_anything_is_changed(
    log_dir: Path, tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    verb = OPTIONS[option]
    words = [verb, str(log_dir), *(("--key", KEY, "--no-ledger") if verb == "erase" else GIVEN)]
    for name in ("file.prom", "there.prom"):
        (tmp_path / name).write_text("other")
    (tmp_path / "link.prom").symlink_to("there.prom")
    (tmp_path / "directory.prom").mkdir()
    bad = ["file.prom/x.prom", "log/x.prom"]
    bad += [] if verb == "erase" else ["link.prom", "directory.prom", "gone/x.prom"]
    (tmp_path / "log").symlink_to(log_dir)
    before = files_of(log_dir)
    for name in bad:
        path = tmp_path / name
        assert run([*words, option, str(path)]) == 2, name
        err = capsys.readouterr().err
        assert all(part in err for part in ("expected", "found", str(path))), err
        assert err.count("winnow:") == 1, err
    assert changes(before, files_of(log_dir)) == []
    assert [(tmp_path / name).read_text() for name in ("file.prom", "there.prom")] == ["other"] * 2
    assert not (tmp_path / "gone").exists()


def test_full_disk_of_outputs_fails_no_clean_and_leaves_no_parts(
    log_dir: Path, tmp_path: Path, during: During, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("last.json", "w.prom", "page.html", "log", "events")
    with disk_or_skip(tmp_path / "disk", mib=1) as disk:
        last, prom, page, log, events = (disk / name for name in names)
        page.write_text("yesterday")
        targets = ["--result", str(last), "--metrics", str(prom), "--report", str(page)]
        targets += ["--log-file", str(log), "--openlineage", str(events)]
        during("compacting", lambda: fill(disk))
        assert run(["clean", str(log_dir), *GIVEN, *targets]) == 0
        err = " ".join(capsys.readouterr().err.split())
        for what, path in (("the result", last), ("the metrics", prom), ("the report", page)):
            assert f"{what} could not be written: expected free space, found No space left" in err
            assert str(path) in err
        assert told(last)["status"] == "running"
        assert page.read_text() == "yesterday"
        assert all(line.endswith("}") for line in events.read_text().splitlines())
        assert log.read_text() == "" or log.read_text().endswith("\n")
        assert {one.name for one in disk.iterdir()} == {*names, "ballast"}


def test_log_file_on_a_full_disk_stops_no_run(
    log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with disk_or_skip(tmp_path / "disk", mib=1) as disk:
        (disk / "log").write_text("yesterday\n")
        (disk / "log").chmod(0o600)
        fill(disk)
        (disk / "log").open("a").close()
        with (disk / "log").open("ab", buffering=0) as log:  # the rest of its page
            log.write(bytes(4096 - len("yesterday\n") - 1) + b"\n")
        assert run(["plan", str(log_dir), *GIVEN, "--log-file", str(disk / "log")]) == 0
        err = capsys.readouterr().err
        assert err.count("the log file could not be written") == 1
        assert "--log-file" in err
        assert (disk / "log").stat().st_size == 4096


@pytest.mark.parametrize("how", ["full", "gone"])
def test_plan_that_can_not_be_saved_is_an_error_and_leaves_no_parts(
    log_dir: Path, tmp_path: Path, during: During, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with disk_or_skip(tmp_path / "disk", mib=1) as disk:
        place = disk / "plans"
        place.mkdir()
        out, last = place / "plan.json", tmp_path / "last.json"
        during("deciding", lambda: fill(disk) if how == "full" else shutil.rmtree(place))
        words = ["plan", str(log_dir), *GIVEN, "--out", str(out), "--result", str(last)]
        assert run(words) == (6 if how == "full" else 1)
        err = capsys.readouterr().err
        assert "the plan could not be written: expected" in err
        assert "--out" in err
        assert not out.exists()
        assert how == "gone" or list(place.iterdir()) == []
        assert (told(last)["status"], told(last)["exit_code"]) == (
            "failed",
            6 if how == "full" else 1,
        )


def test_a_full_disk_for_the_certificate_is_found_before_anything_is_erased(
    log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files_of(log_dir)
    with disk_or_skip(tmp_path / "disk", mib=1) as disk:
        fill(disk)
        words = ["erase", str(log_dir), "--key", KEY, "--no-ledger", "--certificate", str(disk)]
        assert run(words) == 6
        assert "the certificate could not be written" in capsys.readouterr().err
        assert [one.name for one in disk.iterdir()] == ["ballast"]
    assert changes(before, files_of(log_dir)) == []


@pytest.mark.parametrize("how", ["full", "gone", "file"])
def test_certificate_that_can_not_be_written_is_elsewhere_and_the_erasure_in_the_ledger(
    log_dir: Path, tmp_path: Path, spark: SparkSession, during: During, how: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    ledger = tmp_path / "ledger"
    with disk_or_skip(tmp_path / "disk", mib=1) as disk:
        place = disk / "certificates"

        def spoil() -> None:
            if how == "full":
                fill(disk)
            else:
                shutil.rmtree(place)
            if how == "file":
                place.write_text("other")

        during("writing the ledger", spoil)
        words = ["erase", str(log_dir), "--key", KEY, "--ledger", str(ledger), "--json"]
        assert run([*words, "--certificate", str(place)]) == 1
        out, err = capsys.readouterr()
        assert how != "full" or list(place.iterdir()) == []
        assert how != "file" or place.read_text() == "other"
    result = json.loads(out)
    assert f"THE CERTIFICATE IS NOT IN {place}; the erasure was done" in err
    elsewhere = tmp_path / "state" / "winnow" / "certificates"
    stem = f"erasure-{result['run_id']}"
    assert f"move {stem}.json {stem}.html {stem}.hash-key from there" in err
    assert {one.name: one.stat().st_mode & 0o777 for one in elsewhere.iterdir()} == {
        f"{stem}{suffix}": 0o600 for suffix in (".json", ".html", ".hash-key")
    }
    assert not any(r.key == KEY.encode() for r in closed_records(log_dir))
    [row] = erasures(spark, str(ledger)).collect()
    assert (row.run_id, row.proven) == (result["run_id"], True)
    moved = tmp_path / "moved"
    elsewhere.rename(moved)
    assert run(["verify", str(log_dir), "--key-hash", str(moved / f"{stem}.json")]) in (0, 4)
    assert "not a certificate" not in capsys.readouterr().err


def closed_records(log_dir: Path) -> list[Any]:
    partition = log_dir / "c-tomb-0"
    active = max(int(path.stem) for path in partition.glob("*.log"))
    return [r for r in read_log(partition).records if r.offset < active]


def test_certificate_that_can_be_written_nowhere_comes_with_the_next_erasure(
    log_dir: Path, tmp_path: Path, spark: SparkSession, during: During,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    place, ledger = tmp_path / "certificates", tmp_path / "ledger"

    def spoil() -> None:
        place.rmdir()
        place.write_text("in the way")
        (tmp_path / "state").write_text("in the way")

    during("writing the ledger", spoil)
    words = ["erase", str(log_dir), "--key", KEY, "--ledger", str(ledger)]
    assert run([*words, "--certificate", str(place)]) == 1
    err = capsys.readouterr().err
    assert "erase the same keys again with --certificate" in " ".join(err.split())
    assert erasures(spark, str(ledger)).count() == 1
    place.unlink()
    during("no such stage", list)
    run([*words, "--certificate", str(place)])
    [file] = place.glob("*.json")
    content = told(file)
    assert (content["proven"], content["keys"]["given"], content["records_erased"]) == (True, 1, 0)


def test_refused_run_replaces_the_result_and_the_metrics_of_the_last_one(
    log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    last, prom, plan = tmp_path / "last.json", tmp_path / "w.prom", tmp_path / "plan.json"
    outputs = ["--result", str(last), "--metrics", str(prom), "--report", "none"]
    assert run(["plan", str(log_dir), *GIVEN, "--out", str(plan)]) == 0
    clean = ["clean", str(log_dir), *GIVEN, *outputs]
    before = ["apply", str(plan), "--no-ledger", *outputs]
    refused = {
        "a setting": [*clean, "--set", "nonsense"],
        "a clock": ["yesterday" if word == str(NOW) else word for word in clean],
        "a log directory": ["clean", str(tmp_path / "gone"), *clean[2:]],
        "a topic": [*clean, "--topics", "no-such-*"],
        "a plan": ["apply", str(tmp_path / "gone.json"), *before[2:]],
        "a report": [*clean[:-1], str(tmp_path / "gone" / "page.html")],
    }
    for name, words in refused.items():
        assert run([*clean, "--topics", "d-size"]) == 0
        assert (told(last)["status"], "exit_code 0.0" in prom.read_text()) == ("done", True)
        assert run(words) == 2, name
        assert (told(last)["status"], told(last)["exit_code"]) == ("failed", 2), name
        assert told(last)["error"] in " ".join(capsys.readouterr().err.split()), name
        assert name == "a report" or "winnow_last_run_exit_code 2.0" in prom.read_text(), name
        assert "winnow_last_success_unixtime" in prom.read_text()
    assert run(before) == 1, "the directory was cleaned meanwhile"
    assert (told(last)["status"], told(last)["exit_code"]) == ("failed", 1)
    assert "winnow_last_run_exit_code 1.0" in prom.read_text()
