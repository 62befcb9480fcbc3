"""What a user mistyped is refused with a sentence. It never passes as a run with nothing to do.

The map: globs, names of partitions, sizes, times, settings, keys, empty values and repeated options
on the command line and in a file of options. `test_mistakes_in_python.py` has those of functions,
`test_confirm.py` options that delete more than a topic's own settings, `test_saved_plan.py` saved
plans.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.data import TOPIC_CONFIGS
from tests.session import verbs_use
from tests.spark.mistakes import two_log_dirs, with_two_topics
from tests.spark.runs import NOW, files_of
from winnow import api
from winnow.cli.main import run as main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def log_dirs(tmp_path: Path) -> tuple[Path, Path]:
    return two_log_dirs(tmp_path)


def test_erasure_that_finds_no_key_asks_about_quoting(
    spark: SparkSession,
    log_dirs: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    keys = tmp_path / "keys"
    keys.write_text('"nobody"\n')
    with pytest.MonkeyPatch.context() as patch:
        verbs_use(spark, patch)
        words = ["erase", str(log_dirs[0]), "--keys", str(keys), "--no-ledger", "--dry-run"]
        assert main(words) == 2
    assert "Is the quoting right?" in capsys.readouterr().err


IN_2100 = "4102444800000"
FILES = {
    "empty": b"",
    "crlf": b"k1\r\nk2\r\n",
    "blank": b"k1\n\n",
    "quoted": b'"k1"\n',
    "padded": b"k1 \n",
    "configs": b"d-size cleanup.policy=delete\nd-size retention.ms=-1\n",
    "size.toml": b"[clean]\nfree-at-least = 20\n",
    "glob.toml": b'topics = "c-tmob"\n',
    "no-topic.toml": b'[clean]\ntopics = ""\n',
    "no-topics.toml": b"[clean]\ntopics = []\n",
    "set.toml": b'set = "retention.ms=1000"\n',
    "now.toml": b"now = -1\n",
}
"""Files that the words below name."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """FILES, and the log directory `d`."""
    path = tmp_path_factory.mktemp("mistakes")
    for name, content in FILES.items():
        (path / name).write_bytes(content)
    with_two_topics(path / "d")
    return path


CLEAN = f"clean d --topic-configs {TOPIC_CONFIGS} --no-ledger --report none "
ERASE = "erase d --no-ledger "


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (CLEAN + "--topics c-tmob", "--topics matches no topic.*found 'c-tmob'. Similar: c-tomb"),
        (CLEAN + "--topics C-TOMB", "--topics matches no topic.*Similar: c-tomb"),
        (CLEAN + "--topics c-tomb-0", "--topics.*c-tomb-0 names a partition; its topic is c-tomb"),
        (CLEAN + "--topics c-tomb,d-size", "--topics.*a comma does not separate globs"),
        (CLEAN + "--topics c-[to*", "--topics matches no topic"),
        (CLEAN + "--topics ^c-tomb$", "--topics matches no topic"),
        (CLEAN + "--topics ''", "--topics is empty.*variable of the shell"),
        (CLEAN + "--exclude x*", "--exclude matches no topic"),
        (CLEAN + "--exclude ''", "--exclude is empty"),
        (CLEAN + "--exclude *", "--exclude leaves no topic"),
        (CLEAN + "--topic-set x*:retention.ms=5", "--topic-set matches no topic"),
        (CLEAN + "--topic-set :retention.ms=5", "expected GLOB:KEY=VALUE"),
        (CLEAN + "--topic-set retention.ms=5", "expected GLOB:KEY=VALUE"),
        (CLEAN + "--topic-set d-size:retention.ms=1d", "expected a whole number.*found '1d'"),
        (CLEAN + "--topic-set d-size:retenton.ms=5", "unknown config.*mean retention.ms"),
        (CLEAN + "--topic-set d-size:log.retention.ms=5", "is a broker config"),
        (CLEAN + "--set retention.ms=1000", "setting of topics.*--set log.retention.ms=1000"),
        (CLEAN + "--set d-size:retention.ms=5", "--topic-set takes GLOB:KEY=VALUE"),
        (CLEAN + "--set log.retention.msec=5", "unknown config.*mean log.retention.ms"),
        (CLEAN + "--topic-set d-size:retention.bytes=9", "needs --yes.*instead of 200000"),
        (CLEAN + "--free-at-least 20", "expected a size with a unit.*found '20'"),
        (CLEAN + "--free-at-least 0", "is zero: expected at least 1 byte"),
        (CLEAN + "--free-at-least 0K", "is zero: expected at least 1 byte"),
        (CLEAN + "--free-at-least 20GB", "expected a size with a unit"),
        (CLEAN + "--free-at-least -5G", "expected a size with a unit"),
        (CLEAN + "--max-extra-space 5", "--max-extra-space.*expected a size with a unit"),
        (CLEAN + "--throttle 0", "--throttle is zero"),
        (CLEAN + "--timeout 90", "expected a duration such as 90s"),
        (CLEAN + "--now -1", "--now can't be understood: expected milliseconds since 1970"),
        (CLEAN + "--now 1795300000", "--now is before Kafka existed.*Is it in seconds"),
        (CLEAN + "--now 2026", "--now is before Kafka existed"),
        (CLEAN + f"--now {IN_2100}", "--now is in the future.*found.*ahead.*add --yes"),
        (CLEAN + "--estimate", "--estimate is for plans"),
        (CLEAN + "--begin-again", "--begin-again without --output"),
        (CLEAN + "--topic-configs configs", "--topic-configs is given 2 times"),
        (CLEAN + "--server-properties empty", "not the server.properties of a broker.*empty"),
        (CLEAN + "--server-properties configs", "not the server.properties of a broker"),
        ("clean d --topic-configs empty", "names no topic.*empty.*Did the command fail"),
        ("clean '' --no-ledger", "LOG_DIR is empty"),
        ("clean d d --no-ledger", "given twice"),
        ("clean d --config size.toml", "--free-at-least.*expected a size with a unit"),
        ("clean d --config glob.toml", "--topics matches no topic"),
        ("clean d --config no-topic.toml", r"--topics is empty.*no-topic.toml, \[clean\]"),
        ("clean d --config no-topics.toml", r"value of topics.*an empty list.*\[clean\]"),
        ("clean d --config set.toml", "setting of topics"),
        ("clean d --config now.toml", "--now can't be understood"),
        ("clean d --config ''", "--config is empty"),
        ("explain d --partition c-tomb", "c-tomb is a topic.*The partition of c-tomb is c-tomb-0"),
        ("explain d --partition c-tomb-7", "no such partition.*c-tomb is c-tomb-0"),
        ("explain d --partition d/c-tomb-0", "no such partition.*without the path"),
        ("explain d --partition ''", "--partition is empty"),
        (ERASE + "--key nobody", "no record has any of the keys.*Is the quoting right"),
        (ERASE + "--keys quoted", "no record has any of the keys.*Is the quoting right"),
        (ERASE + "--keys padded", "1 key of padded with a blank.*Is the quoting right"),
        (ERASE + "--keys empty", "the file of --keys is empty.*Did the command fail"),
        (ERASE + "--keys blank", "an empty line.*blank, line 2"),
        (ERASE + "--keys d", "can't read the file of --keys.*Is a directory"),
        (ERASE + "--keys ''", "--keys is empty"),
        (ERASE + "--keys crlf --keys quoted", "--keys is given 2 times"),
        (ERASE + "--keys crlf --key k1", "give the keys in one way"),
        (ERASE + "--keys crlf --topics x", "--topics matches no topic"),
        (ERASE + "--keys crlf --certificate ''", "--certificate is empty"),
        ("recover d --undo ''", "--undo is empty"),
        ("recover d --topics x", "--topics matches no topic"),
        ("verify d --topics x", "--topics matches no topic"),
        ("verify d --key-hash ''", "--key-hash is empty"),
        ("doctor d --now -1", "--now can't be understood"),
        (f"history --since {IN_2100}", "--since is in the future"),
        ("inspect ''", "PATH is empty"),
        ("apply ''", "FILE is empty"),
    ],
)
def test_mistake_on_the_command_line_exits_with_2_and_a_sentence(
    spark: SparkSession,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: str,
    sentence: str,
) -> None:
    monkeypatch.chdir(place)
    verbs_use(spark, monkeypatch)
    before = files_of(place / "d")
    assert main(shlex.split(words)) == 2
    assert re.search(sentence, " ".join(capsys.readouterr().err.split()))
    assert files_of(place / "d") == before


@pytest.mark.parametrize("size", ["1K", "1KiB", "1M", "1MiB", "1G", "1GiB", "1T", "1TiB", "1024B"])
def test_size_with_any_unit_is_understood(
    spark: SparkSession, place: Path, monkeypatch: pytest.MonkeyPatch, size: str
) -> None:
    monkeypatch.chdir(place)
    verbs_use(spark, monkeypatch)
    settings = ["--topic-configs", str(TOPIC_CONFIGS)]
    assert main(["plan", "d", "--free-at-least", size, *settings]) in {0, 6}  # 6: it is not enough


def test_keys_of_a_file_with_crlf_are_found(
    spark: SparkSession,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(place)
    verbs_use(spark, monkeypatch)
    assert main(["erase", "d", "--keys", "crlf", "--dry-run", "--json"]) == 3  # the active segment
    assert json.loads(capsys.readouterr().out)["keys_found"] == 2


def test_clock_in_the_future_is_noted_in_a_plan_and_cleans_with_yes(
    spark: SparkSession,
    log_dirs: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    verbs_use(spark, monkeypatch)
    words = [str(log_dirs[0]), "--topic-configs", str(TOPIC_CONFIGS), "--now", IN_2100]
    assert main(["plan", *words]) == 0
    assert "ahead of this machine's clock: clean needs --yes" in capsys.readouterr().err
    assert main(["clean", *words, "--no-ledger", "--report", "none", "--yes"]) == 0


def test_options_that_delete_more_are_marked_in_plan_report_and_ledger(
    spark: SparkSession,
    log_dirs: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    verbs_use(spark, monkeypatch)
    marks = {
        "c-tomb": "delete.retention.ms=5 instead of 86400000",
        "d-size": "retention.bytes=9 instead of 200000",
    }
    words = [*map(str, log_dirs), "--topic-configs", str(TOPIC_CONFIGS), "--now", str(NOW)]
    words += ["--set", "log.cleaner.delete.retention.ms=5", "--topic-set", "d-*:retention.bytes=9"]
    page, ledger = tmp_path / "page.html", str(tmp_path / "ledger")
    more = ["--report", str(page)]
    assert main(["plan", *words, *more]) == 0
    for text in (capsys.readouterr().out, page.read_text(encoding="utf-8")):
        assert [mark for mark in marks.values() if mark not in text] == []
    assert main(["clean", *words, "--no-ledger", "--report", "none"]) == 2
    assert "needs --yes" in capsys.readouterr().err
    assert main(["clean", *words, *more, "--ledger", ledger, "--yes"]) == 0
    for text in (capsys.readouterr().out, page.read_text(encoding="utf-8")):
        assert [mark for mark in marks.values() if mark not in text] == []
    reasons = {row.topic: row.reason for row in api.ledger_table(spark, ledger).collect()}
    assert [mark for topic, mark in marks.items() if mark not in reasons[topic]] == []
