"""Names and values from files never reach the terminal as control characters."""

from __future__ import annotations

import ast
import io
import json
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import winnow.cli
from tests.unit.cli.hostile import FORGED, hostile
from tests.unit.cli.results import partition, printed, run_of
from winnow.cleaning.result import PartitionResult, RunResult, Setting
from winnow.cli import doctor, erase, explain, history, recover
from winnow.cli.explain import ExplainOptions
from winnow.cli.main import run
from winnow.cli.options import CommandLine
from winnow.cli.out import Guarded, Line, Styled, as_json, complain, errors, tell_errors
from winnow.cli.text import compare as compare_text
from winnow.cli.text import erase as erase_text
from winnow.cli.text import table
from winnow.cli.text import verify as verify_text
from winnow.cli.text.json_output import to_json
from winnow.cli.text.one_page import one_page
from winnow.cli.text.progress import Display
from winnow.cli.text.replicas import replicas_section
from winnow.ledger.history import History
from winnow.recovery.runs.values import Action, PartitionRecovery, RecoverResult
from winnow.scan.values import Holder
from winnow.verbs.compare.values import CompareResult
from winnow.verbs.doctor.values import Diagnosis
from winnow.verbs.erase.values import EraseResult
from winnow.verbs.explain.values import Explanation
from winnow.verbs.verify.verify import SweepResult
from winnow.words import one_line, printable

OSC = "\x1b]0;title\x07"
REQUEST = CommandLine(log_dirs=[OSC])


def test_control_and_invalid_characters_are_escaped() -> None:
    assert (
        printable(f"a{OSC}\r\udcff\u202e\nb\u00e9")
        == "a\\x1b]0;title\\x07\\r\\udcff\\u202e\nb\u00e9"
    )


def test_complaint_has_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    complain(f"{OSC}-0 is left alone")
    assert capsys.readouterr().err == "winnow: \\x1b]0;title\\x07-0 is left alone\n"


def test_inspect_has_no_control_characters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "meta.properties").write_text(
        f"version=1\nnode.id=1\ncluster.id=c\nx=\\u001b]0;{OSC}\n"
    )
    (tmp_path / "replication-offset-checkpoint").write_bytes(f"0\n1\n{OSC} 0 1\n".encode())
    partition = tmp_path / "t-0"
    partition.mkdir()
    (partition / "partition.metadata").write_text(f"version: 0\ntopic_id: {OSC}\n")
    (partition / f"{OSC}.log").write_bytes(b"")
    for path in (tmp_path, partition / "partition.metadata", tmp_path / "meta.properties"):
        run(["inspect", str(path)])
        out = capsys.readouterr().out
        assert "\\x1b" in out
        assert printable(out) == out


def run_result(verb: str) -> RunResult:
    """Return a run with partitions that are cleaned, idle and skipped."""
    one = replace(hostile(PartitionResult), actions=("compacted",), error=None, left_alone=False)
    alone = replace(hostile(PartitionResult), actions=("none",), left_alone=True)
    return replace(
        hostile(RunResult, verb=verb), partitions=(one, replace(one, actions=("none",)), alone)
    )


SHOWN: dict[str, Callable[[], Iterable[Line]]] = {
    "plan": lambda: table.page(run_result("plan"), 100),
    "clean": lambda: table.page(run_result("clean"), 100),
    "explain": lambda: explain.page(hostile(Explanation), ExplainOptions(partition=OSC, offset=1)),
    "verify": lambda: verify_text.page(hostile(SweepResult), 100),
    "compare": lambda: compare_text.page(hostile(CompareResult), 100),
    "history": lambda: history.page(hostile(History), 100, now=10),
    "erase": lambda: erase_text.page(
        hostile(EraseResult), replicas_section(hostile(EraseResult), REQUEST)
    ),
    "doctor": lambda: doctor.page(hostile(Diagnosis), REQUEST),
    "doctor, one page": lambda: one_page(hostile(Diagnosis), REQUEST),
    "recover": lambda: recover.page(
        hostile(
            RecoverResult,
            partitions=(hostile(PartitionRecovery, actions=tuple(Action)),),
            dry_run=False,
        )
    ),
}


@pytest.mark.parametrize("line", [str, Styled])
def test_every_control_character_is_escaped(line: Callable[[str], Line]) -> None:
    """Rich would leave some of them out."""
    assert printed([line("a\x07\x08\x0b\x0c\rb")]).strip() == "a\\x07\\x08\\x0b\\x0c\\rb"


@pytest.mark.parametrize("verb", SHOWN)
def test_text_of_verb_has_no_control_characters(verb: str) -> None:
    out = printed(SHOWN[verb]())
    assert "\\x1b]0;title\\x07" in out
    assert printable(out) == out


def test_json_of_verbs_escapes_control_characters_and_keeps_values() -> None:
    values = {
        "plan": to_json(run_result("plan")),
        "explain": explain.to_json(hostile(Explanation)),
        "verify": verify_text.to_json(hostile(SweepResult)),
        "compare": compare_text.to_json(hostile(CompareResult)),
        "history": history.to_json(hostile(History)),
        "erase": erase.to_json(hostile(EraseResult), REQUEST),
        "doctor": doctor.to_json(hostile(Diagnosis), REQUEST),
    }
    for verb, value in values.items():
        text = as_json(value)
        assert printable(text) == text, verb
        assert OSC in "".join(strings(json.loads(text))), verb


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for one in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from strings(one)


def test_name_with_line_break_is_one_line() -> None:
    holder = Holder(
        name=f"group{FORGED}", records_before=1, bytes_before=1, records_after=1, bytes_after=1
    )
    setting = Setting(key="k", value=f"v{FORGED}", source="s", is_default=False)
    one = partition(f"t{FORGED}", holders=(holder,), holders_total=1, settings=(setting,))
    out = printed(table.page(run_of(one, verb="plan"), 100))
    kept = hostile(PartitionRecovery, removed=(f"x{FORGED}",))
    out += printed(recover.page(RecoverResult(partitions=(kept,), dry_run=False)))
    assert not [line for line in out.splitlines() if line.startswith("winnow:")]


def test_progress_and_errors_have_no_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress = Display(clock=lambda: 0.0)
    progress.stage(f"reading {OSC}{FORGED}")
    complain(progress.line())
    try:
        int(OSC)
    except ValueError:
        errors().write(traceback.format_exc())
    tell_errors([f"{OSC}{FORGED}"])
    complain(f"note: /logs/t{FORGED}-0 is skipped")
    err = capsys.readouterr().err
    assert "note: " in err
    assert printable(err) == err
    assert not [line for line in err.splitlines() if line.startswith(FORGED.strip())]


def test_hostile_option_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", f"--{OSC}"]) == 2
    err = capsys.readouterr().err
    assert "\\x1b]0;title" in err
    assert printable(err) == err


def test_guarded_stream_escapes_direct_writes() -> None:
    raw = io.StringIO()
    stream: Any = Guarded(raw)
    print(OSC, "s3a://KEY:SECRET@bucket/x", file=stream)
    assert raw.getvalue() == f"{printable(OSC)} s3a://***@bucket/x\n"
    assert stream.isatty() is False


def test_warning_is_one_line() -> None:
    script = f"""
import contextlib, logging, sys
from winnow.cli.main import main
sys.argv = ["winnow", "--version"]
with contextlib.suppress(SystemExit):
    main()
logging.getLogger("winnow").warning("could not remove %s", {f"{OSC}{FORGED}"!r})
"""
    shown = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert shown.stderr == f"could not remove {one_line(f'{OSC}{FORGED}')}\n"


def test_log_of_spark_replaces_control_characters() -> None:
    pattern = (Path(__file__).parents[3] / "conf" / "log4j2.properties").read_text(encoding="utf-8")
    assert "%replace{%m%notEmpty{: %rEx{1}{separator()}}%n}{[" in pattern


def test_cli_modules_write_only_through_the_output_layer() -> None:
    root = Path(winnow.cli.__file__ or "").parent
    found = {
        f"{path.name}: {name}"
        for path in root.rglob("*.py")
        if path.name not in {"out.py", "streams.py"}
        for name in writes(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found == set()
    code = "print(x); sys.stdout.write(x); typer.echo(x); from rich.console import Console"
    assert set(writes(ast.parse(code))) == {"print", "typer.echo", "rich.console", "sys.stdout"}


WRITES = {"print", "typer.echo", "typer.secho", "traceback.print_exc", "warnings.warn", "os.write"}


def writes(tree: ast.Module) -> list[str]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in WRITES:
            found.append(ast.unparse(node.func))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in {"sys.stdout", "sys.stderr"}:
            found.append(ast.unparse(node))
        if isinstance(node, ast.ImportFrom) and node.module in {"rich.console", "logging"}:
            found.append(node.module)
    return found
