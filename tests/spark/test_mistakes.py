"""What a user mistyped is refused with a sentence. It never passes as a run with nothing to do.

The map: globs, names of partitions, sizes, times, settings, keys, empty values, repeated options,
on the command line, in a file of options and in Python. `test_confirm.py` has options that delete
more than a topic's own settings, `test_saved_plan.py` saved plans.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures.data import TOPIC_CONFIGS
from tests.session import verbs_use
from tests.spark.runs import NOW, add_partition, clean, files_of, new_log_dir, plan, run, settings
from winnow import api, reading, values
from winnow.cli.main import run as main
from winnow.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def log_dirs(tmp_path: Path) -> tuple[Path, Path]:
    """Two log directories of one broker with one topic each."""
    first, second = new_log_dir(tmp_path / "1"), new_log_dir(tmp_path / "2")
    add_partition(first, "c-tomb-0", "c-tomb-0")
    add_partition(second, "d-size-0", "d-size-0")
    for log_dir in (first, second):
        meta = (log_dir / "meta.properties").read_text().splitlines()
        kept = [line for line in meta if not line.startswith("directory.id")]
        (log_dir / "meta.properties").write_text("\n".join([*kept, ""]))
    return first, second


VERBS: dict[str, Callable[..., Any]] = {
    "plan": lambda spark, dirs, **more: plan(spark, dirs, settings=settings(), now=NOW, **more),
    "clean": lambda spark, dirs, **more: clean(spark, dirs, settings=settings(), now=NOW, **more),
    "erase": lambda spark, dirs, **more: api.erase(spark, dirs, keys=[b"k"], **more),
    "verify": api.verify,
    "compare": api.compare_replicas,
    "doctor": lambda spark, dirs, **more: api.doctor(
        spark, dirs, settings=settings(), now=NOW, **more
    ),
    "recover": lambda _spark, dirs, **more: api.recover(dirs, **more),
}


@pytest.mark.parametrize("name", VERBS)
@pytest.mark.parametrize(
    ("glob", "words"), [("c-tmob*", "matches no topic"), ("", "has an empty glob")]
)
def test_glob_that_matches_nothing_is_refused(
    spark: SparkSession, log_dirs: tuple[Path, Path], name: str, glob: str, words: str
) -> None:
    before = files_of(log_dirs[0])
    with pytest.raises(UsageError, match=f"--topics {words}"):
        VERBS[name](spark, [str(path) for path in log_dirs], topics=["d-*", glob])
    assert files_of(log_dirs[0]) == before


def test_similar_topics_are_named(spark: SparkSession, log_dirs: tuple[Path, Path]) -> None:
    with pytest.raises(UsageError, match=r"Similar: c-tomb\."):
        run(plan, spark, *log_dirs, topics=["c-tmob"])


def test_glob_may_match_in_one_of_several_log_directories(
    spark: SparkSession, log_dirs: tuple[Path, Path]
) -> None:
    result = run(plan, spark, *log_dirs, topics=["c-*"], sets=["d-*:retention.ms=5"])
    assert [p.topic for p in result.partitions] == ["c-tomb"]


def test_topic_set_that_matches_nothing_is_refused(
    spark: SparkSession, log_dirs: tuple[Path, Path]
) -> None:
    with pytest.raises(UsageError, match=r"--topic-set matches no topic.*'x\*'"):
        run(plan, spark, *log_dirs, sets=["x*:retention.ms=5"])
    with pytest.raises(UsageError, match="--topic-set matches no topic"):
        api.explain(spark, [*map(str, log_dirs)], "c-tomb-0", settings=settings("x:retention.ms=5"),
                    now=NOW)  # fmt: skip


def test_globs_that_leave_no_topic_are_refused(
    spark: SparkSession, log_dirs: tuple[Path, Path]
) -> None:
    for given in ({"exclude": ["*"]}, {"topics": ["c-*"], "exclude": ["c-tomb"]}):
        with pytest.raises(UsageError, match="--exclude leaves no topic"):
            run(plan, spark, *log_dirs, **given)


def test_empty_list_of_topics_is_not_all_of_them(
    spark: SparkSession, log_dirs: tuple[Path, Path]
) -> None:
    for call in (values.plan, values.clean):
        with pytest.raises(UsageError, match="topics is empty"):
            call(spark, str(log_dirs[0]), settings=settings(), now=NOW, topics=[])


def test_what_if_for_topics_that_the_plan_does_not_have_is_refused(
    spark: SparkSession, log_dirs: tuple[Path, Path]
) -> None:
    configs = settings()
    made = values.plan(spark, str(log_dirs[0]), settings=configs, now=NOW)
    for glob, words in (("c-tmob", "Similar: c-tomb"), ("d-size", "matches no"), ("", "empty")):
        with pytest.raises(UsageError, match=words):
            made.what_if(topics=glob, retention_ms=5)


def test_plan_executes_with_its_own_choice_of_topics(
    spark: SparkSession, log_dirs: tuple[Path, Path]
) -> None:
    """Also if it decides again, which compares nothing with the plan."""
    names = [str(path) for path in log_dirs]
    before = files_of(log_dirs[1])
    made = values.plan(spark, names, settings=settings(), now=NOW, exclude="d-*")
    assert [p.topic for p in made.execute(refresh=True).partitions] == ["c-tomb"]
    assert files_of(log_dirs[1]) == before


def test_partition_that_does_not_exist_is_answered_with_the_form_of_a_name(
    spark: SparkSession, log_dirs: tuple[Path, Path]
) -> None:
    with pytest.raises(UsageError, match=r"no such partition.*TOPIC-PARTITION.*'c-tmob'"):
        api.explain(spark, [str(log_dirs[0])], "c-tmob", settings=settings(), now=NOW)


def test_globs_of_a_cleaned_copy_are_compared_with_all_partitions(
    spark: SparkSession, log_dirs: tuple[Path, Path], tmp_path: Path
) -> None:
    output = [str(tmp_path / "o1"), str(tmp_path / "o2")]
    with pytest.raises(UsageError, match="--topics matches no topic"):
        run(clean, spark, *log_dirs, topics=["x"], output=output)
    assert not (tmp_path / "o1").exists()
    result = run(clean, spark, *log_dirs, topics=["c-*"], output=output, work_space=2**20)
    assert [p.topic for p in result.partitions] == ["c-tomb"]


@pytest.mark.parametrize("now", [-1, 10**18])
def test_time_out_of_range_is_refused_in_python(
    spark: SparkSession, log_dirs: tuple[Path, Path], now: int
) -> None:
    names = [str(path) for path in log_dirs]
    for call in (
        lambda: plan(spark, names, settings=settings(), now=now),
        lambda: clean(spark, names, settings=settings(), now=now),
        lambda: api.explain(spark, names, "c-tomb-0", settings=settings(), now=now),
        lambda: api.doctor(spark, names, settings=settings(), now=now),
        lambda: values.plan(spark, names, now=now),
    ):
        with pytest.raises(UsageError, match="now is out of range"):
            call()


def test_topic_without_a_partition_number_is_answered_with_its_partitions(
    spark: SparkSession, log_dirs: tuple[Path, Path]
) -> None:
    with pytest.raises(UsageError, match=r"c-tomb is a topic.*The partition of c-tomb is c-tomb-0"):
        api.explain(spark, [str(log_dirs[0])], "c-tomb", settings=settings(), now=NOW)


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
    """FILES, and `d`: a log directory with two topics, which no mistake changes."""
    path = tmp_path_factory.mktemp("mistakes")
    for name, content in FILES.items():
        (path / name).write_bytes(content)
    log_dir = new_log_dir(path / "d")
    for name in ("c-tomb-0", "d-size-0"):
        add_partition(log_dir, name, name)
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


def planned(spark: SparkSession, log_dir: str, **more: Any) -> object:
    return plan(spark, [log_dir], settings=settings(), now=NOW, **more)


def cleaned(spark: SparkSession, log_dir: str, **more: Any) -> object:
    return clean(spark, [log_dir], settings=settings(), now=NOW, **more)


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


PYTHON: dict[str, tuple[Callable[[SparkSession, str], object], str]] = {
    "no log directory": (lambda s, _: values.plan(s, []), "no log directory was given"),
    "nothing to verify": (lambda s, _: values.verify(s, []), "no log directory was given"),
    "an empty name": (lambda s, _: values.plan(s, ""), "the name of a log directory is empty"),
    "a path": (lambda s, d: values.plan(s, Path(d)), "log_dirs can't be used"),  # type: ignore[arg-type]
    "one text for a list": (api.verify, "expected a list of texts"),
    "no topics": (lambda s, d: values.clean(s, d, topics=[]), "topics is empty"),
    "topics that are None": (lambda s, d: values.clean(s, d, topics=None), "found None"),  # type: ignore[arg-type]
    "topics of numbers": (lambda s, d: values.clean(s, d, topics=[5]), r"found \[5\]"),  # type: ignore[list-item]
    "a clock as a text": (lambda s, d: values.plan(s, d, now="2026-01-01"), "now can't be used"),  # type: ignore[arg-type]
    "a clock as a truth": (lambda s, d: values.plan(s, d, now=True), "now can't be used"),
    "a clock in seconds": (lambda s, d: values.plan(s, d, now=NOW // 1000), "Is it in seconds"),
    "nothing to free": (lambda s, d: values.clean(s, d, free_at_least=0), "1 or more, found 0"),
    "a size as a text": (lambda s, d: values.clean(s, d, free_at_least="1G"), "found '1G'"),  # type: ignore[arg-type]
    "negative space": (lambda s, d: values.plan(s, d, max_extra_space=-1), "0 or more, found -1"),
    "negative free space": (lambda s, d: values.plan(s, d, keep_free=-1), "0 or more, found -1"),
    "no throttle": (lambda s, d: planned(s, d, throttle=0), "throttle can't be used"),
    "a switch as a text": (lambda s, d: values.clean(s, d, keep_replaced="no"), "True or False"),  # type: ignore[arg-type]
    "an estimate that cleans": (lambda s, d: cleaned(s, d, estimate=True), "is for plans"),
    "sets as a text": (lambda s, d: values.plan(s, d, sets="a=b"), "sets can't be used"),  # type: ignore[arg-type]
    "values as a text": (
        lambda s, d: values.plan(s, d, topic_sets={"d-size": "retention.ms=5"}),  # type: ignore[dict-item]
        "the settings of 'd-size' can't be used",
    ),
    "a topic's key": (lambda s, d: values.plan(s, d, sets={"retention.ms": 1}), "of topics"),
    "a version as a number": (
        lambda s, d: values.plan(s, d, kafka_version=3.9),  # type: ignore[arg-type]
        "kafka_version can't be used",
    ),
    "a file of another kind": (
        lambda s, d: values.plan(s, d, server_properties="/dev/null"),
        "not the server.properties of a broker",
    ),
    "an offset as a text": (lambda s, d: values.explain(s, d, "c-tomb-0", offset="5"), "offset"),  # type: ignore[arg-type]
    "a key as a number": (lambda s, d: values.explain(s, d, "c-tomb-0", key=5), "key can't"),  # type: ignore[arg-type]
    "one text for keys": (lambda s, d: api.erase(s, [d], keys="k1"), "expected a list of keys"),
    "a key of numbers": (lambda s, d: api.erase(s, [d], keys=[5]), "expected bytes or texts"),
    "no place": (lambda s, d: api.erase(s, [d], keys=[b"k"], certificate=""), "no name"),
    "an undo of nothing": (lambda _, d: api.recover([d], undo_run=""), "is empty"),
    "a range that ends first": (
        lambda s, d: reading.read(s, d, start=9, end=5),
        "end is before start",
    ),
}


@pytest.mark.parametrize("name", PYTHON)
def test_mistake_in_python_raises_a_usage_error(
    spark: SparkSession, place: Path, name: str
) -> None:
    call, sentence = PYTHON[name]
    before = files_of(place / "d")
    with pytest.raises(UsageError, match=sentence) as caught:
        call(spark, str(place / "d"))
    assert caught.value.expected or caught.value.hint
    assert files_of(place / "d") == before


def test_history_of_a_topic_that_the_ledger_does_not_have_is_refused(
    spark: SparkSession, log_dirs: tuple[Path, Path], tmp_path: Path
) -> None:
    ledger = str(tmp_path / "ledger")
    run(clean, spark, log_dirs[0], ledger=ledger)
    assert api.history(spark, ledger, topics=["c-*"]).runs
    with pytest.raises(UsageError, match="--topics matches no topic of the ledger"):
        api.history(spark, ledger, topics=["c-*", "x"])


def test_topics_as_one_text_are_one_glob(spark: SparkSession, log_dirs: tuple[Path, Path]) -> None:
    names = [str(path) for path in log_dirs]
    found = plan(spark, names, settings=settings(), now=NOW, topics="d-*")
    assert [p.topic for p in found.partitions] == ["d-size"]
