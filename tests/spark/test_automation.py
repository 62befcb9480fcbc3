"""What scripts build on: the JSON schema, exit codes, --exclude, --summary, --log-file."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from tests.fixtures.data import TOPIC_CONFIGS, copy_log_dir
from tests.pages import DOCS, blocks, commands
from tests.session import verbs_use
from tests.spark.runs import NOW
from tests.unit.cli.results import idle, left_alone, partition, run_of
from winnow.cleaning.result import ALL_CODES
from winnow.cli.main import run
from winnow.cli.out import as_json
from winnow.cli.text.json_output import failure_to_json, to_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = json.loads(
    (Path(__file__).resolve().parents[2] / "docs" / "reference" / "result.schema.json").read_text()
)
PAGE = DOCS / "reference/configuration.md"
SOME = ("c-tomb-0", "c-none-0", "d-size-0", "__consumer_offsets-0", "x-unknown-0")
Command = Callable[..., int]


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    path = copy_log_dir("clean", tmp_path / "d", only=SOME[:3])
    (path / "x-unknown-0").mkdir()
    for file in (path / "c-none-0").iterdir():
        (path / "x-unknown-0" / file.name).write_bytes(file.read_bytes())
    return path


@pytest.fixture
def command(spark: SparkSession, log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    verbs_use(spark, monkeypatch)
    given = ["--topic-configs", str(TOPIC_CONFIGS), "--now", str(NOW), "--no-ledger"]

    def call(verb: str, *more: str) -> int:
        report = ["--report", "none"] if verb == "clean" else []
        return run([verb, str(log_dir), *given, *report, *more])

    return call


def checked(text: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(text)
    jsonschema.Draft202012Validator(SCHEMA).validate(told)
    return told


def test_json_of_plan_and_clean_follows_the_schema(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    for verb in ("plan", "clean"):
        assert command(verb, "--json") == 3
        told = checked(capsys.readouterr().out)
        assert told["exit_code"] == 3
        (alone,) = told["left_alone"]
        assert (alone["topic"], alone["code"]) == ("x-unknown", "settings-unknown")
        assert told["totals"]["partitions"] == 4
        assert bool(told["settings"]) == (verb == "plan")


def test_schema_knows_every_code_and_every_failure() -> None:
    known = SCHEMA["$defs"]["left_alone"]["properties"]["code"]["enum"]
    assert sorted(known) == sorted(ALL_CODES)
    checked(as_json(failure_to_json("in use", now=NOW, exit_code=5)))
    checked(as_json(to_json(run_of(partition("a"), left_alone("b", error="x"), idle("c")))))
    with pytest.raises(jsonschema.ValidationError):
        checked(as_json(to_json(run_of()) | {"unknown": 1}))


def test_excluded_topics_are_not_looked_at(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("plan", "--json", "--exclude", "x-*", "--exclude", "c-tomb") == 0
    topics = {p["topic"] for p in checked(capsys.readouterr().out)["partitions"]}
    assert topics == {"c-none", "d-size"}
    assert command("plan", "--exclude", "nothing-like-it") == 2
    assert "--exclude matches no topic" in capsys.readouterr().err


def test_detailed_exit_code_tells_whether_there_is_work(
    command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    fine = ("--exclude", "x-*")
    assert command("plan", "--detailed-exitcode", "--json", *fine) == 10
    assert checked(capsys.readouterr().out)["exit_code"] == 10
    assert command("plan", "--detailed-exitcode") == 3
    assert command("clean", "--detailed-exitcode", *fine) == 2
    assert command("clean", *fine) == 0
    assert command("plan", "--detailed-exitcode", *fine) == 0


def test_file_of_options_on_its_page_is_used(
    spark: SparkSession,
    log_dir: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    verbs_use(spark, monkeypatch)
    [toml] = blocks(PAGE, "toml")
    (tmp_path / "server.properties").write_text("node.id=1\nlog.retention.hours=1\n")
    (tmp_path / "winnow.toml").write_text(
        toml.text.replace("/var/lib/kafka", str(log_dir))
        .replace("/etc/kafka", str(tmp_path))
        .replace("/var/log", str(tmp_path))
    )
    [shown] = [one for block in blocks(PAGE, "console") for one in commands(block)]
    words = shown.line.replace("/etc", str(tmp_path)).split()[1:]
    more = ["--set", "log.cleanup.policy=delete", "--now", str(NOW), "--json"]
    assert run([*words, *more]) == 0
    out, err = capsys.readouterr()
    assert "[environment.prod]: LOG_DIR, --throttle" in err
    assert "note: clean would record it in /srv/winnow/ledger" in err
    assert "/srv/winnow/ledger" in (tmp_path / "winnow.log").read_text()
    assert checked(out)["totals"]["with_work"] == 3
    assert run([*words[:-1], "test", str(log_dir), *more]) == 2
    assert "--topic-set matches no topic" in (tmp_path / "winnow.log").read_text()


def test_json_names_the_file_that_a_setting_comes_from(
    command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "w.toml"
    file.write_text('[environment.a.plan]\ntopic-set = ["d-size:retention.ms=5"]\n')
    fine = ("--exclude", "x-*", "--json", "--config", str(file), "--environment", "a")
    assert command("plan", *fine) == 0
    sources = {
        one["source"]
        for group in checked(capsys.readouterr().out)["settings"]
        for one in group["settings"]
    }
    assert f"--topic-set d-size:retention.ms=5, in {file}, [environment.a.plan]" in sources


def test_metrics_of_the_options_file_need_their_library_only_to_be_written(
    command: Command,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    file, plan = tmp_path / "w.toml", str(tmp_path / "plan.json")
    # Neither the library nor the directory is on the machine where somebody looks at a plan.
    file.write_text('metrics = "/no/such/directory/winnow.prom"\n')
    fine = ("--exclude", "x-*", "--config", str(file))
    assert command("clean", "--dry-run", *fine) == 0
    assert command("plan", "--out", plan, *fine) == 0
    file.write_text(f'metrics = "{tmp_path}/winnow.prom"\n')
    capsys.readouterr()
    for words in (["clean"], ["apply", plan]):
        carried_out = (
            command("clean", *fine)
            if words == ["clean"]
            else run([*words, "--no-ledger", "--report", "none", "--config", str(file)])
        )
        assert carried_out == 2
        errors = capsys.readouterr().err
        assert f"Run {sys.executable} -m pip install 'prometheus-client" in errors
    assert command("plan", "--detailed-exitcode", *fine) == 10, "nothing was cleaned"


def test_summary_is_one_line(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("clean", "--summary") == 3
    (line,) = capsys.readouterr().out.splitlines()
    assert re.fullmatch(
        r"clean: [23] of 4 partitions, .+B freed of .+B; 1 left alone \(settings-unknown 1\)", line
    )


def test_log_file_has_the_notes_with_their_time(
    command: Command, log_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "winnow.log"
    for _ in range(2):
        assert command("plan", "--log-file", str(log)) == 3
    lines = log.read_text().splitlines()
    assert all(re.match(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ", line) for line in lines)
    assert sum("clean would not be recorded" in line for line in lines) == 2
    assert "clean would not be recorded" in capsys.readouterr().err
    assert command("plan", "--log-file", str(log_dir / "log")) == 2
    assert not (log_dir / "log").exists()
