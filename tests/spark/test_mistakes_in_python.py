"""Wrong arguments of a function are refused with a sentence. They never pass as a call with nothing
to do.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import winnow
from tests.spark.mistakes import two_log_dirs, with_two_topics
from tests.spark.runs import NOW, clean, files_of, plan, run, settings
from winnow import api, reading
from winnow.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def log_dirs(tmp_path: Path) -> tuple[Path, Path]:
    return two_log_dirs(tmp_path)


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_two_topics(tmp_path_factory.mktemp("mistakes") / "d")


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
            run(clean, spark, *log_dirs, **given)
        assert run(plan, spark, *log_dirs, **given).partitions == ()


def test_empty_list_of_topics_is_not_all_of_them(
    spark: SparkSession, log_dirs: tuple[Path, Path]
) -> None:
    for call in (winnow.plan, winnow.clean):
        with pytest.raises(UsageError, match="topics is empty"):
            call(spark, str(log_dirs[0]), settings=settings(), now=NOW, topics=[])


def test_what_if_for_topics_that_the_plan_does_not_have_is_refused(
    spark: SparkSession, log_dirs: tuple[Path, Path]
) -> None:
    configs = settings()
    made = winnow.plan(spark, str(log_dirs[0]), settings=configs, now=NOW)
    for glob, words in (("c-tmob", "Similar: c-tomb"), ("d-size", "matches no"), ("", "empty")):
        with pytest.raises(UsageError, match=words):
            made.what_if(topics=glob, retention_ms=5)


def test_plan_executes_with_its_own_choice_of_topics(
    spark: SparkSession, log_dirs: tuple[Path, Path]
) -> None:
    """Also if it decides again, which compares nothing with the plan."""
    names = [str(path) for path in log_dirs]
    before = files_of(log_dirs[1])
    made = winnow.plan(spark, names, settings=settings(), now=NOW, exclude="d-*")
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
        lambda: winnow.plan(spark, names, now=now),
    ):
        with pytest.raises(UsageError, match="now is out of range"):
            call()


def test_topic_without_a_partition_number_is_answered_with_its_partitions(
    spark: SparkSession, log_dirs: tuple[Path, Path]
) -> None:
    with pytest.raises(UsageError, match=r"c-tomb is a topic.*The partition of c-tomb is c-tomb-0"):
        api.explain(spark, [str(log_dirs[0])], "c-tomb", settings=settings(), now=NOW)


def planned(spark: SparkSession, log_dir: str, **more: Any) -> object:
    return plan(spark, [log_dir], settings=settings(), now=NOW, **more)


def cleaned(spark: SparkSession, log_dir: str, **more: Any) -> object:
    return clean(spark, [log_dir], settings=settings(), now=NOW, **more)


PYTHON: dict[str, tuple[Callable[[SparkSession, str], object], str]] = {
    "no log directory": (lambda s, _: winnow.plan(s, []), "no log directory was given"),
    "nothing to verify": (lambda s, _: winnow.verify(s, []), "no log directory was given"),
    "an empty name": (lambda s, _: winnow.plan(s, ""), "the name of a log directory is empty"),
    "a path": (lambda s, d: winnow.plan(s, Path(d)), "log_dirs can't be used"),  # type: ignore[arg-type]
    "a number for a list": (lambda s, _: api.verify(s, 5), "expected a text or a list of texts"),  # type: ignore[arg-type]
    "no topics": (lambda s, d: winnow.clean(s, d, topics=[]), "topics is empty"),
    "topics that are None": (lambda s, d: winnow.clean(s, d, topics=None), "found None"),  # type: ignore[arg-type]
    "topics of numbers": (lambda s, d: winnow.clean(s, d, topics=[5]), r"found \[5\]"),  # type: ignore[list-item]
    "a clock as a text": (lambda s, d: winnow.plan(s, d, now="2026-01-01"), "now can't be used"),  # type: ignore[arg-type]
    "a clock as a truth": (lambda s, d: winnow.plan(s, d, now=True), "now can't be used"),
    "a clock in seconds": (lambda s, d: winnow.plan(s, d, now=NOW // 1000), "Is it in seconds"),
    "nothing to free": (lambda s, d: winnow.clean(s, d, free_at_least=0), "1 or more, found 0"),
    "a size as a text": (lambda s, d: winnow.clean(s, d, free_at_least="1G"), "found '1G'"),  # type: ignore[arg-type]
    "negative space": (lambda s, d: winnow.plan(s, d, max_extra_space=-1), "0 or more, found -1"),
    "negative free space": (lambda s, d: winnow.plan(s, d, keep_free=-1), "0 or more, found -1"),
    "no throttle": (lambda s, d: planned(s, d, throttle=0), "throttle can't be used"),
    "a switch as a text": (lambda s, d: winnow.clean(s, d, keep_replaced="no"), "True or False"),  # type: ignore[arg-type]
    "a refresh as a text": (lambda s, d: winnow.plan(s, d).execute(refresh="no"), "True or False"),  # type: ignore[arg-type]
    "an estimate that cleans": (lambda s, d: cleaned(s, d, estimate=True), "is for plans"),
    "sets as a text": (lambda s, d: winnow.plan(s, d, sets="a=b"), "sets can't be used"),  # type: ignore[arg-type]
    "values as a text": (
        lambda s, d: winnow.plan(s, d, topic_sets={"d-size": "retention.ms=5"}),  # type: ignore[dict-item]
        r"topic_sets\['d-size'\] can't be used: expected a mapping",
    ),
    "a topic's key": (lambda s, d: winnow.plan(s, d, sets={"retention.ms": 1}), "of topics"),
    "a version as a number": (
        lambda s, d: winnow.plan(s, d, kafka_version=3.9),  # type: ignore[arg-type]
        "kafka_version can't be used",
    ),
    "a file of another kind": (
        lambda s, d: winnow.plan(s, d, server_properties="/dev/null"),
        "not the server.properties of a broker",
    ),
    "an offset as a text": (lambda s, d: winnow.explain(s, d, "c-tomb-0", offset="5"), "offset"),  # type: ignore[arg-type]
    "a key as a number": (lambda s, d: winnow.explain(s, d, "c-tomb-0", key=5), "key can't"),  # type: ignore[arg-type]
    "one text for keys": (lambda s, d: api.erase(s, [d], keys="k1"), "expected a list of keys"),
    "a key of numbers": (lambda s, d: api.erase(s, [d], keys=[5]), "expected bytes or texts"),
    "no place": (lambda s, d: api.erase(s, [d], keys=[b"k"], certificate=""), "no name"),
    "an undo of nothing": (lambda _, d: api.recover([d], undo_run=""), "is empty"),
    "no path to read": (lambda s, _: reading.read(s, []), r"path can't be used: .* found \[\]"),
    "plans without names": (
        lambda s, d: winnow.compare([winnow.plan(s, d)]),  # type: ignore[arg-type]
        "plans can't be used: expected a mapping",
    ),
    "a plan that is none": (
        lambda _s, _d: winnow.compare({"a": 5}),  # type: ignore[dict-item]
        r"plans\['a'\] can't be used: expected Plan, found 5",
    ),
    "an unknown argument": (
        lambda s, d: winnow.plan(s, d, topcs="x"),  # type: ignore[call-arg]
        "there is no argument topcs: .*Did you mean topics",
    ),
    "no settings": (lambda s, d: api.doctor(s, d, now=NOW), "the argument settings is missing"),  # type: ignore[call-arg]
    "a range that ends first": (
        lambda s, d: reading.read(s, d, start=9, end=5),
        "end is before start",
    ),
}


@pytest.mark.parametrize("name", PYTHON)
def test_mistake_in_python_raises_a_usage_error(
    spark: SparkSession, log_dir: Path, name: str
) -> None:
    call, sentence = PYTHON[name]
    before = files_of(log_dir)
    with pytest.raises(UsageError, match=sentence) as caught:
        call(spark, str(log_dir))
    assert caught.value.expected or caught.value.hint
    assert files_of(log_dir) == before


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
