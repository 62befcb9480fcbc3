"""`spark.read.format("kafka-log")` in a session: the examples of the documentation, SQL, plans and
errors.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession

import winnow
from tests.fixtures.data import unpacked
from tests.pages import DOCS, LOG_DIR, ROOT, Reader, blocks

pytestmark = pytest.mark.spark

PAGE = DOCS / "kafka-log.md"
CLEAN = str(unpacked("before-clean") / "clean")
DAMAGED = str(unpacked("before-damaged") / "damaged")


@pytest.fixture(scope="module", autouse=True)
def registered(spark: SparkSession) -> None:
    winnow.register(spark)


def load(
    spark: SparkSession, path: str = CLEAN, schema: str | None = None, **options: str
) -> DataFrame:
    reader = spark.read.format("kafka-log").options(**options)
    return (reader.schema(schema) if schema else reader).load(path)


def test_examples_of_the_documentation_run(spark: SparkSession, tmp_path: Path) -> None:
    reader = Reader(spark, tmp_path, instead={LOG_DIR: CLEAN})
    reader.follow(PAGE)
    assert reader.names["latest"].count() > 1
    assert reader.names["hour"].count() > 0
    assert (
        min(row.offset for row in reader.names["some"].where("topic = 'c-tomb'").collect()) >= 600
    )
    assert "problem" in reader.names["damage"].columns


def test_sql_example_of_the_page_runs(spark: SparkSession) -> None:
    [block] = blocks(PAGE, "sql")
    *statements, query = (
        part for part in block.text.replace(LOG_DIR, CLEAN).split(";") if part.strip()
    )
    for statement in statements:
        spark.sql(statement)
    last = {row["key"]: row["last"] for row in spark.sql(query).collect()}
    expected: dict[str, int] = {}
    for row in load(spark, f"{CLEAN}/c-tomb-0").collect():
        if row.value is not None:
            expected[row.key.decode()] = row.offset
    assert last == expected != {}


def test_partition_gives_same_rows_alone_and_in_its_log_directory(spark: SparkSession) -> None:
    alone = load(spark, f"{CLEAN}/c-multi-0", maxBytesPerPartition="2k")
    assert alone.rdd.getNumPartitions() > 5
    within = load(spark).where("topic LIKE 'c-mul%' AND partition = 0")
    assert_df_equality(alone.orderBy("offset"), within.orderBy("offset"))


def test_options_give_same_rows_as_filters_and_read_less(spark: SparkSession) -> None:
    condition = load(spark).where("topic = 'c-none' AND offset >= 100 AND timestamp < '2100-01-01'")
    options = load(spark, topics="c-none", startingOffsets="100", timestampBefore="2100-01-01")
    assert condition.count() == options.count() == 5900
    assert options.rdd.getNumPartitions() == 1 < condition.rdd.getNumPartitions()
    mixed = load(spark, topics="c-none").where("key IS NOT NULL AND offset IN (5, 50, 5999)")
    assert sorted(row.offset for row in mixed.collect()) == [5, 50, 5999]


def test_schema_selects_columns(spark: SparkSession) -> None:
    chosen = load(spark, f"{CLEAN}/c-tomb-0", "offset bigint, key binary")
    assert_df_equality(
        chosen, load(spark, f"{CLEAN}/c-tomb-0").select("offset", "key"), ignore_metadata=True
    )
    with pytest.raises(Exception, match="no such column"):
        load(spark, CLEAN, "nothing int").collect()


def test_modes_for_damaged_batches(spark: SparkSession) -> None:
    path = f"{DAMAGED}/x-badcrc-0"
    bad = load(spark, path).where("NOT crcOk").collect()
    assert [(row.baseOffset, row.offset) for row in bad] == [(1608, None)]
    assert (
        load(spark, path).where("offset >= 0").count()
        == load(spark, path, mode="DROPMALFORMED").count()
    )
    with pytest.raises(Exception, match="does not match its CRC: base offset 1608"):
        load(spark, path, mode="FAILFAST").collect()


def test_errors_say_what_to_do(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="Did you mean startingOffsets"):
        load(spark, startingOffset="5")
    with pytest.raises(Exception, match="not a Kafka log directory, nor a partition's"):
        load(spark, str(ROOT / "docs")).collect()
    with pytest.raises(Exception, match="found an empty text"):
        load(spark, "")
    with pytest.raises(Exception, match=r"topics matches no topic .*'c-tom'.*Similar: c-tomb"):
        load(spark, topics="c-none,c-tom").collect()


@pytest.mark.parametrize("scheme", ["file://", "file:", "FILE://"])
def test_url_of_a_local_file_is_a_path(spark: SparkSession, scheme: str) -> None:
    assert load(spark, f"{scheme}{CLEAN}/c-tomb-0").count() == 1000
    assert winnow.read(spark, f"{scheme}{CLEAN}", topics="c-tomb").count() == 1000
    with pytest.raises(Exception, match=r"no such directory: .* \(/nothing/here\)"):
        load(spark, f"{scheme}/nothing/here").collect()


def test_table_of_a_catalog_is_refused_with_what_to_use(spark: SparkSession) -> None:
    what_to_do = "Use CREATE TEMPORARY VIEW"
    options = f"USING `kafka-log` OPTIONS (path '{CLEAN}', topics 'c-none')"
    with pytest.raises(Exception, match=what_to_do):
        spark.sql(f"CREATE TABLE no_table {options}")
    spark.sql(f"CREATE TABLE no_options (offset bigint) {options}")  # not even asked
    try:
        with pytest.raises(Exception, match=what_to_do):
            spark.table("no_options").collect()
    finally:
        spark.sql("DROP TABLE no_options")


def test_script_can_import_winnow(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text(
        "import sys\n"
        "from pyspark.sql import SparkSession\n"
        "import winnow\n"
        "spark = SparkSession.builder.getOrCreate()\n"
        "winnow.register(spark)\n"
        "print(spark.read.format('kafka-log').load(sys.argv[1]).count())\n"
    )
    command = [ROOT / "spark-submit.sh", "--master", "local[1]", script, f"{CLEAN}/c-tomb-0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "1000\n"), done.stderr


HUNG_UP = """
import sys, time
from pyspark.sql import SparkSession
import winnow
spark = SparkSession.builder.getOrCreate()
print(winnow.read(spark, sys.argv[1]).count())
env = spark._jvm.org.apache.spark.SparkEnv.get()
field = env.getClass().getDeclaredField("pythonWorkers")
field.setAccessible(True)
factories = field.get(env).values().iterator()
while factories.hasNext():
    prefix = "org$apache$spark$api$python$PythonWorkerFactory$$"
    getattr(factories.next(), prefix + "cleanupIdleWorkers")()
time.sleep(2)
"""


def test_processes_that_plan_reads_end_quietly(tmp_path: Path) -> None:
    """Spark hangs up on them when they were idle for a minute, as here, and at its end."""
    script = tmp_path / "mine.py"
    script.write_text(HUNG_UP)
    command = [ROOT / "spark-submit.sh", "--master", "local[1]", script, f"{CLEAN}/c-tomb-0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1000\n", "")


def test_importing_winnow_loads_nothing() -> None:
    code = (
        "import sys, winnow; print([m for m in ('pyspark', 'numba', 'numpy', 'pyarrow') if m "
        "in "
        "sys.modules])"
    )
    python = ROOT / ".venv" / "bin" / "python"
    done = subprocess.run(
        [python, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": "lib"},
        cwd=ROOT,
    )
    assert done.stdout == "[]\n"
