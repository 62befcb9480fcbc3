"""Credentials in URLs are never shown: not in messages, results, the ledger or events."""

from __future__ import annotations

import json
import pickle
import time
from pathlib import Path

import pytest

from tests.unit.cli.results import partition, run_of
from winnow.cli.main import run
from winnow.cli.options import CommandLine
from winnow.cli.out import complain, tell_json
from winnow.cli.outlets import Outlets
from winnow.cli.text.json_output import to_json
from winnow.errors import UsageError, WinnowError
from winnow.ledger.append import recorded
from winnow.logdir.live import process
from winnow.metrics.lineage import Lineage
from winnow.report.write import write_report
from winnow.storage.places import storage_of
from winnow.words import redacted

URL = "s3a://KEY:SEC/RET@bucket/ledger"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (URL, "s3a://***@bucket/ledger"),
        (
            "http://user:pw@host:9091/metrics and http://u@h/",
            "http://***@host:9091/metrics and http://***@h/",
        ),
        ("https://h/x?a=1&X-Amz-Signature=abc&b=2", "https://h/x?a=1&X-Amz-Signature=***&b=2"),
        ("https://h/x?my=1?access_token=a=b", "https://h/x?my=1?access_token=***"),
        ("https://h/x?access_token=abc", "https://h/x?access_token=***"),
        ("('s3://K:S@b')", "('s3://***@b')"),
        ("at https://user:p@w@host/x", "at https://***@host/x"),
        ("at https://user:p/@w@host/me@realm", "at https://***@host/me@realm"),
        ("at https://us@er@host/x", "at https://***@host/x"),
        ("at 'https://user:p'w'@host/x'", "at 'https://***@host/x'"),
        ("'http://h:80' and 'a@b'", "'http://h:80' and 'a@b'"),
        *(
            (same, same)
            for same in (
                "hdfs://namenode:8020/user/me@realm/logs",
                "http://h:80/a@b",
                "file:///x/@y",
                "s3://bucket/a:b@c",
                "a@b and c:d@e",
                '{"log_dir": "hdfs://nn/k", "reason": "x@y"}',
                "delete.retention.ms=1",
            )
        ),
    ],
)
def test_only_credentials_are_redacted(text: str, shown: str) -> None:
    assert redacted(text) == shown
    assert redacted(shown) == shown


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "a://",
        "a://b:",
        "a@b://c:",
        "@",
        "1",
        "?a",
        "?passw",
        "?passw=",
        "passw",
        "&key=:",
        "a://b:'",
        "a://b:'@",
        "@'",
    ],
)
def test_long_names_take_no_long_time(piece: str) -> None:
    began = time.monotonic()
    redacted("x://?" + piece * 10_000)
    redacted("x://y:" + piece * 10_000)
    process._SECRET.sub("", piece * 700 + "secret" * 700)  # of a command line, 4 KiB are read
    assert time.monotonic() - began < 2


def test_errors_have_no_credentials_in_any_text() -> None:
    error = WinnowError(URL, expected=URL, found=URL, where=URL, hint=URL)
    kept = pickle.loads(pickle.dumps(error))  # noqa: S301 - ours
    assert "SEC" not in str(error) + repr(vars(kept))


def test_written_files_have_no_credentials(tmp_path: Path) -> None:
    result = run_of(partition("t", log_dir=URL, reason=f"can't reach {URL}"))
    file = Outlets(CommandLine(result=str(tmp_path / "result")))
    file.begin_file(())
    file.end_file(to_json(result) | {"exit_code": 0})
    write_report(result, tmp_path / "report.html")
    lineage = Lineage(str(tmp_path / "events"), job="winnow.clean")
    lineage.complete(result)
    lineage.fail(f"can't reach {URL}")
    for path in tmp_path.iterdir():
        text = path.read_text(encoding="utf-8")
        assert "bucket/ledger" in text, path
        assert "RET@" not in text, path
    json.loads((tmp_path / "result").read_text(encoding="utf-8"))


def test_output_has_no_credentials(capsys: pytest.CaptureFixture[str]) -> None:
    complain(f"can't reach {URL}")
    tell_json({"ledger": URL})
    run(["history", "--ledger", URL, "--since", URL])
    out, err = capsys.readouterr()
    assert "RET" not in out + err
    assert "KEY" not in out + err


def test_url_with_credentials_is_refused_without_showing_them() -> None:
    for url in (
        "s3://KEY:SEC/RET@bucket/logs",
        "s3a://KEY:SECRET@bucket/logs",
        "hdfs://user:SECRET@host/logs",
    ):
        with pytest.raises(UsageError) as raised:
            storage_of(url)
        assert "SEC" not in str(raised.value)


def test_ledger_note_has_no_credentials() -> None:
    def fail() -> None:
        raise OSError(f"no {URL}")

    (note,) = recorded(URL, run_of(), fail).notes
    assert "RET" not in note


def test_lock_holder_is_named_without_its_secrets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    command = [
        "spark-submit",
        "--conf",
        "spark.hadoop.fs.s3a.secret.key=abc",
        "--ledger",
        URL,
        "--api-token",
        "abc",
    ]
    (tmp_path / "cmdline").write_bytes("\0".join(command).encode())
    real = open
    monkeypatch.setattr("builtins.open", lambda _, *rest: real(tmp_path / "cmdline", *rest))
    told = process._command_line(1)
    monkeypatch.undo()
    assert "abc" not in told
    assert "RET" not in told
    assert "fs.s3a.secret.key=***" in told
