"""The verb `inspect`: its text, its JSON and its exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.twins.encoding import encode_batch
from tests.unit.logdir.test_lookup import T, batch, partition
from winnow.cli.main import run
from winnow.logdir.names import LOG, segment_file
from winnow.wire.plain import Record


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    log_dir = tmp_path / "logs"
    log_dir.mkdir()
    (log_dir / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=abc\n")
    (log_dir / "log-start-offset-checkpoint").write_text("0\n1\nt 0 7\n")
    return partition(log_dir / "t-0", {0: [batch(0, 4), batch(5, 9)], 10: [batch(10, 14)]})


def told(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert run(["inspect", "--quiet", *arguments]) == code
    out, err = capsys.readouterr()
    assert err == ""
    return out


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(told(capsys, "--json", *arguments, code=code))
    return found


def test_directory_has_a_line_per_file(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = told(capsys, str(directory)).splitlines()
    assert out[0] == str(directory)
    assert len(out) == 7
    [line] = [line for line in out if f" {segment_file(0, LOG)} " in line]
    assert "offsets 0-9, 2 batches, 10 records, v2 none, to 1970-01-01T00:16:40.090Z" in line


def test_file_has_a_line_per_batch_and_record(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = str(directory / segment_file(0, LOG))
    assert len(told(capsys, log).splitlines()) == 4
    out = told(capsys, log, "--records").splitlines()
    assert len(out) == 14
    assert out[3].split("  ")[-2:] == [
        'key "k0"',
        'value "' + "\\x00" * 14 + "\\x0... (30 characters)",
    ]


def test_log_directory_shows_all_of_its_files(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = as_json(capsys, str(directory.parent))
    assert found["status"] == "sound"
    assert [Path(file["path"]).name for file in found["files"]][:2] == [
        "log-start-offset-checkpoint",
        "meta.properties",
    ]
    assert len(found["files"]) == 8
    assert found["files"][0]["entries"] == [{"topic": "t", "partition": 0, "offset": 7}]


def test_damage_is_reported_with_exit_code_3(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = directory / segment_file(10, LOG)
    log.write_bytes(log.read_bytes()[:-1])
    found = as_json(capsys, str(directory), code=3)
    assert found["status"] == "damaged"
    [wrong] = [file for file in found["files"] if file["path"] == str(log)]
    assert "a whole batch of" in wrong["problems"][0]
    out = told(capsys, str(directory), code=3)
    assert f"PROBLEM: {wrong['problems'][0]}" in out
    assert out.splitlines()[-1] == f"{found['problems']} problems"


def test_offset_is_located_with_its_batch_and_record(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = told(capsys, str(directory), "--offset", "8").splitlines()
    assert out[0] == f"{directory}: offset 8, log from 7 to 15"
    assert out[1].endswith(segment_file(0, LOG))
    assert out[4].startswith("  record   8  1970-01-01T00:16:40.080Z")
    [position] = as_json(capsys, str(directory), "--offset", "8")["positions"]
    assert (position["batch"]["base_offset"], position["record"]["offset"]) == (5, 8)
    assert position["next_record"] == {"offset": 8, "timestamp": T + 80}


def test_timestamp_is_located_at_its_record(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for timestamp in (str(T + 115), "1970-01-01T00:16:40.115Z"):
        [position] = as_json(capsys, str(directory), "--timestamp", timestamp)["positions"]
        assert (position["asked"], position["record"]["offset"]) == ("timestamp", 12)
    [position] = as_json(capsys, str(directory), "--timestamp", "0")["positions"]
    assert position["record"]["offset"] == 7  # log start offset


def test_out_of_range_offsets_are_explained(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "a broker refuses offset 3: the log begins at 7" in told(
        capsys, str(directory), "--offset", "3"
    )
    assert "a broker refuses offset 16: the log ends at 15" in told(
        capsys, str(directory), "--offset", "16"
    )
    assert "not found" in told(capsys, str(directory), "--offset", "15")


def test_offset_and_timestamp_can_be_asked_together(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = as_json(capsys, str(directory), "--offset", "8", "--timestamp", "0")
    assert [position["asked"] for position in found["positions"]] == ["offset", "timestamp"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["/nowhere"],
        ["."],
        ["LOG", "--offset", "1"],
        ["LOGS", "--timestamp", "1"],
        ["T", "--offset", "-1"],
        ["T", "--timestamp", "yesterday"],
        [],
    ],
)
def test_malformed_arguments_are_usage_errors(
    arguments: list[str],
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (directory.parent.parent / "empty").mkdir()
    monkeypatch.chdir(directory.parent.parent / "empty")
    names = {
        "LOG": str(directory / segment_file(0, LOG)),
        "LOGS": str(directory.parent),
        "T": str(directory),
    }
    assert run(["inspect", *(names.get(argument, argument) for argument in arguments)]) == 2
    assert capsys.readouterr().out == ""


def test_records_with_control_characters_are_escaped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [Record(0, -1, b"\x1b[2Jk", b"\xff\xfe"), Record(1, 2**62, None, b"\n")]
    directory = partition(tmp_path / "t-0", {0: [encode_batch(records)]})
    out = told(capsys, str(directory / segment_file(0, LOG)), "--records")
    assert out.isascii()
    assert "\x1b" not in out
    assert 'no time  key "\\x1b[2Jk"  value 0xfffe' in out
    assert f'{2**62} ms  key null  value "\\n"' in out
    [file] = as_json(capsys, str(directory / segment_file(0, LOG)), "--records")["files"]
    keys = [(r["key"], r["value"]) for r in file["entries"][0]["records"]]
    assert keys == [("\x1b[2Jk", {"hex": "fffe"}), (None, "\n")]


def test_inspect_does_not_import_spark(directory: Path) -> None:
    code = f"""
import sys
from winnow.cli.main import run
code = run(["inspect", {str(directory)!r}])
sys.exit(code or any(name.partition(".")[0] in ("pyspark", "py4j") for name in sys.modules))
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)


def test_inspect_writes_nothing(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def state() -> list[tuple[str, int, int]]:
        return [
            (str(p), p.stat().st_mtime_ns, p.stat().st_size)
            for p in sorted(directory.parent.rglob("*"))
        ]

    before = state()
    told(capsys, str(directory.parent), "--records")
    told(capsys, str(directory), "--offset", "8", "--timestamp", "1")
    assert state() == before
