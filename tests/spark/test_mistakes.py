"""What a user mistyped is refused with a sentence. It never passes as a run with nothing to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.session import verbs_use
from tests.spark.runs import NOW, add_partition, clean, files_of, new_log_dir, plan, run, settings
from winnow import api, values
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
    with pytest.raises(UsageError, match=r"c-tomb is a topic.*Its partition is c-tomb-0"):
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
