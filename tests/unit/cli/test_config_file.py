"""Options from a file: each means what it means on the command line, and none is taken silently."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import typer.main

from tests.pages import DOCS, blocks
from winnow.cli.app import app
from winnow.cli.inputs import parse_settings
from winnow.cli.line.config import keys_of
from winnow.cli.line.takes import origins_of
from winnow.cli.main import run
from winnow.cli.options import CommandLine
from winnow.errors import UsageError

GROUP: Any = typer.main.get_command(app)
VERBS = {name: keys_of(command) for name, command in GROUP.commands.items()}
NEEDED = {"explain": ["--partition", "t-0"], "inspect": ["path"], "apply": ["plan.json"]}
"""Words without which a verb does not start. LOG_DIR may come from the file."""
ENVIRONMENTS = """
throttle = "1MiB"
topics = ["top"]
[clean]
throttle = "2MiB"
timeout = "1m"
[environment.prod]
throttle = "3MiB"
quiet = true
[environment.prod.clean]
throttle = "4MiB"
[environment.test]
throttle = "5MiB"
"""


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("WINNOW_CONFIG", "WINNOW_ENVIRONMENT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def options(verb: str, *words: str) -> dict[str, Any]:
    """What a verb is given for these words, by parameter."""
    command = GROUP.commands[verb]
    with (
        GROUP.make_context("winnow", [], resilient_parsing=True) as root,
        command.make_context(verb, list(words), parent=root) as context,
    ):
        params: dict[str, Any] = context.params
        return params | {"origins": origins_of(context)}


def written(text: str) -> list[str]:
    Path("w.toml").write_text(text)
    return ["--config", "w.toml"]


SAMPLES = {
    "DURATION": "12s",
    "FILE.prom|URL": "winnow.prom",
    "GLOB:KEY=VALUE": "t:retention.ms=1",
    "HEX": "12",
    "KEY=VALUE": "log.retention.ms=1",
    "MS|ISO-8601": "1795300000000",
    "RATE": "12MiB",
    "SIZE": "12MiB",
    "X.Y": "3.9",
}


def sample(one: Any) -> tuple[Any, list[str]]:
    """A value for a file, and the same as words."""
    if getattr(one, "is_flag", False):
        return True, []
    choices = one.type_descriptor.choices
    if choices:
        return choices[-1], [choices[-1]]
    word = SAMPLES.get(one.metavar, "12")
    if one.nargs == -1 or one.multiple:
        return [word, word], [word, word]
    return (3, ["3"]) if one.type_descriptor.annotation == int | None else (word, [word])


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_means_in_a_file_what_it_means_on_the_command_line(verb: str) -> None:
    needed = NEEDED.get(verb, [])
    for name, key in VERBS[verb].items():
        value, words = sample(key.parameter)
        if key.parameter.param_type_name == "option":
            option = key.parameter.opts[0]
            words = [option, *words[:1], *(word for one in words[1:] for word in (option, one))]
        others = [] if words[:1] == needed[:1] else needed
        dirs = ["d"] if "log-dir" in VERBS[verb] and name != "log-dir" else []
        file = written(f"[{verb}]\n{name} = {json.dumps(value)}\n")
        in_file = options(verb, *dirs, *others, *file)
        typed = options(verb, *dirs, *others, *words)
        parameter = key.parameter.name
        assert in_file[parameter] == typed[parameter], name
        assert list(in_file["origins"]) == [parameter]


def test_no_key_is_the_name_of_a_table() -> None:
    keys = {name for known in VERBS.values() for name in known}
    assert keys & {*VERBS, "environment"} == set()


@pytest.mark.parametrize(
    ("verb", "words", "throttle"),
    [
        ("plan", [], "1MiB"),
        ("clean", [], "2MiB"),
        ("plan", ["--environment", "prod"], "3MiB"),
        ("clean", ["--environment", "prod"], "4MiB"),
        ("clean", ["--environment", "test"], "5MiB"),
        ("clean", ["--environment", "prod", "--throttle", "9MiB"], "9MiB"),
    ],
)
def test_more_specific_table_wins_and_the_command_line_always(
    verb: str, words: list[str], throttle: str
) -> None:
    assert options(verb, "d", *written(ENVIRONMENTS), *words)["throttle"] == throttle


def test_list_and_switch_of_a_file_are_replaced_by_the_command_line() -> None:
    file = [*written(ENVIRONMENTS), "--environment", "prod"]
    given = options("clean", "d", *file)
    assert (given["topics"], given["quiet"], given["timeout"]) == (["top"], True, "1m")
    given = options("clean", "d", *file, "--topics", "mine", "--no-quiet")
    assert (given["topics"], given["quiet"]) == (["mine"], False)
    assert "quiet" not in given["origins"]


def test_variables_name_file_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    written(ENVIRONMENTS)
    monkeypatch.setenv("WINNOW_CONFIG", "w.toml")
    assert options("plan", "d")["throttle"] == "1MiB"
    monkeypatch.setenv("WINNOW_ENVIRONMENT", "prod")
    assert options("plan", "d")["throttle"] == "3MiB"
    assert options("plan", "d", "--environment", "test")["throttle"] == "5MiB"
    Path("other.toml").write_text('[environment.prod]\nthrottle = "7MiB"\n')
    assert options("plan", "d", "--config", "other.toml")["throttle"] == "7MiB"
    assert [*options("history")["origins"]] == ["topics", "quiet"]


def test_file_in_the_current_directory_is_not_read() -> None:
    for name in ("winnow.toml", ".winnow.toml"):
        Path(name).write_text(ENVIRONMENTS)
    assert options("clean", "d")["throttle"] is None


def test_option_without_a_verb_is_ignored_by_verbs_that_do_not_have_it() -> None:
    assert options("verify", "d", *written(ENVIRONMENTS))["topics"] == ["top"]
    assert options("inspect", "p", *written(ENVIRONMENTS))["origins"] == {}


WRONG = {
    "unknown key": ('topic = "x"', "Similar: topics"),
    "unknown key of a verb": ('[verify]\ntimeout = "1m"', "option of plan"),
    "misspelt verb": ("[cleann]\nquiet = true", "Similar: clean"),
    "misspelt in another environment": ("[environment.test]\nthrotle = '1MiB'", "Similar: thro"),
    "option of one verb for all": ("deep = true", "[doctor]"),
    "option of several verbs that is dangerous for all": ("dry-run = true", "in the table"),
    "environment that is no table": ("environment = 'prod'", "tables [environment.NAME]"),
    "verb that is no table": ("plan = true", "expected a table"),
    "environment in an environment": ("[environment.a.environment.b]\nquiet = true", "no option"),
    "switch that is a text": ("quiet = 'yes'", "true or false"),
    "text that is a switch": ("throttle = true", "expected a text"),
    "text that is a table": ("[throttle]\nx = 1", "expected a text, found a table"),
    "text that is a number": ("throttle = 1.5", "expected a text"),
    "text that is a list": ("ledger = ['x']", "expected a text, found a list ("),
    "list of numbers": ("topics = [1]", "nothing but texts in it, found a list ("),
    "list of lists": ("topics = [['x']]", "nothing but texts in it"),
    "no choice": ("[plan]\nonly = 'all'", "[plan]"),
    "no choice of another verb": ("[explain]\nonly = 'all'", "[explain]"),
    "no number of another verb": ("[inspect]\noffset = -1", "[inspect]"),
    "empty value of another verb": ("[verify]\nhash-key = ''", "--hash-key is empty"),
    "config in a config": ("config = 'other.toml'", "no option"),
    "no TOML": ("quiet true", "a file in TOML"),
    "the same key twice": ("quiet = true\nquiet = true", "a file in TOML"),
    "deep": ("topics = " + "[" * 10_000, "a file in TOML"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_file_is_refused_whatever_the_verb_needs(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text, words = WRONG[name]
    assert run(["plan", "d", *written(text), "--json"]) == 2
    out, err = capsys.readouterr()
    assert words in err
    assert "w.toml" in err
    assert json.loads(out)["status"] == "failed"


NO_VALUES = {
    ("clean", "timeout"): "--timeout can't be understood",
    ("clean", "max-extra-space"): "--max-extra-space can't be understood",
    ("clean", "keep-free"): "--keep-free can't be understood",
    ("clean", "free-at-least"): "--free-at-least can't be understood",
    ("clean", "work-space"): "--work-space can't be understood",
    ("clean", "throttle"): "--throttle can't be understood",
    ("prepare", "max-age"): "--max-age can't be understood",
    ("clean", "now"): "--now can't be understood",
    ("clean", "set"): "a setting that can't be understood",
    ("clean", "topic-set"): "a setting that can't be understood",
    ("clean", "kafka-version"): "a version of Kafka that can't be understood",
    ("clean", "metrics"): "the target of the metrics is invalid",
    ("clean", "openlineage"): "the URL can't be understood",
    ("erase", "key"): "--key can't be read",
    ("erase", "search-values"): "--search-values can't be read",
    ("explain", "key-hex"): "--key-hex can't be read",
    ("history", "since"): "--since can't be understood",
    ("inspect", "timestamp"): "--timestamp can't be understood",
}
"""Options that are read by a parser -> what it says of a value that means nothing."""


def test_every_option_with_a_parser_is_known_here() -> None:
    parsed = {one for keys in VERBS.values() for one, key in keys.items() if key.parse}
    assert parsed == {option for _, option in NO_VALUES}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("environment", ["", "environment.test."])
@pytest.mark.parametrize(("of_verb", "option"), NO_VALUES)
def test_value_that_means_nothing_ends_every_verb(
    verb: str, environment: str, of_verb: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bytes_of = dict.fromkeys(("key", "search-values"), "hex:2 hourz")
    value = (bytes_of | {"openlineage": "http://[2 hourz"}).get(option, "2 hourz")
    table = f"[{environment}{of_verb}]"
    file = written(f"{table}\n{option} = {json.dumps(value)}\n")
    assert run([verb, *NEEDED.get(verb, []), *file]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert NO_VALUES[of_verb, option] in err
    assert f"w.toml, {table}" in err


def test_value_outside_of_all_tables_is_read_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify", ".", *written("keep-free = 20")]) == 2
    assert "--keep-free can't be understood" in capsys.readouterr().err
    assert run(["verify", ".", *written("set = ['retention.ms=1']")]) == 2
    assert "found retention.ms=1 (w.toml)" in capsys.readouterr().err
    assert run(["verify", ".", *written("set = ['x=1']")]) == 2
    assert "(--set x=1, in w.toml)" in capsys.readouterr().err


def test_time_of_a_file_may_stand_without_quotes() -> None:
    now = options("plan", "d", *written("now = 2026-11-21T22:26:40Z"))["now"]
    assert now == "2026-11-21T22:26:40+00:00"


def test_files_that_are_none_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo("pipe")
    Path("large").write_bytes(b"#" * (2 << 20))
    Path("latin").write_bytes(b"# caf\xe9\n")
    for path in (".", "pipe", "gone", "large", "latin"):
        assert run(["plan", ".", "--config", path]) == 2
        assert "the configuration can't be read" in capsys.readouterr().err
    assert run(["plan", ".", "--environment", "prod"]) == 2
    assert run(["plan", ".", *written(ENVIRONMENTS), "--environment", "prd"]) == 2
    assert "expected prod or test" in capsys.readouterr().err


def test_source_of_a_setting_names_the_file() -> None:
    settings = parse_settings(
        CommandLine(
            sets=["log.retention.ms=1"],
            topic_sets=["t:cleanup.policy=delete"],
            origins={"sets": "w.toml, [plan]", "topic_sets": "w.toml"},
        )
    )
    config = settings.resolve("t")
    assert config.sources == config.sources | {  # type: ignore[union-attr]
        "retention.ms": "--set log.retention.ms=1, in w.toml, [plan]",
        "cleanup.policy": "--topic-set t:cleanup.policy=delete, in w.toml",
    }
    with pytest.raises(UsageError, match="--set x=1"):
        parse_settings(CommandLine(sets=["x=1"], origins={"sets": "w.toml"}))


@pytest.mark.parametrize("verb", VERBS)
def test_example_on_the_page_is_understood(verb: str) -> None:
    [block] = blocks(DOCS / "reference" / "configuration.md", "toml")
    file = [*written(block.text), "--environment"]
    assert all(
        options(verb, *NEEDED.get(verb, []), *file, environment)["environment"] == environment
        for environment in ("prod", "test")
    )


def test_help_needs_no_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "--help", "--config", "gone"]) == 0
    assert "--config FILE" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("in_file", "words", "ledger", "no_ledger"),
    [
        ("no-ledger = true", ["--ledger", "l"], "l", False),
        ('ledger = "f"', ["--no-ledger"], None, True),
        ('ledger = "f"', [], "f", False),
    ],
)
def test_typed_ledger_overrides_its_opposite_and_is_not_said_to_be_from_the_file(
    in_file: str, words: list[str], ledger: str | None, *, no_ledger: bool
) -> None:
    found = options("clean", "d", *written(f"[clean]\n{in_file}\n"), *words)
    assert (found["ledger"], found["no_ledger"]) == (ledger, no_ledger)
    assert bool(found["origins"]) == (not words)


def test_no_log_directories_at_all_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["clean", *written("log-dir = []\n")]) == 2
    assert "the value of log-dir can't be understood" in capsys.readouterr().err
