"""`erase --keys-delta`: keys from a real Delta table erase the same records as a file with the same
keys.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from chispa import assert_df_equality

from tests.crash.runs import read_log
from tests.fixtures.data import copy_log_dir
from tests.session import verbs_use
from tests.spark.runs import changes, files_of
from winnow.cli.line.keys import delta_keys
from winnow.cli.main import run as run_command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NAME = "c-tomb-0"
Erase = Callable[..., tuple[int, str, str]]


@pytest.fixture
def erase(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Erase:
    verbs_use(spark, monkeypatch)

    def call(log_dir: Path, *words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run_command(["erase", str(log_dir), "--no-ledger", "--quiet", *words])
        return code, *capsys.readouterr()

    return call


def write(spark: SparkSession, path: Path, schema: str, rows: list[tuple[Any, ...]]) -> str:
    """A Delta table of two files, by Delta's own writer. Not in a session of its own:
    `createDataFrame` would leave that to all later tests as the active one.
    """
    check = "spark.databricks.delta.requiredSparkConfsCheck.enabled"
    spark.conf.set(check, "false")
    try:
        spark.createDataFrame(rows, schema).repartition(2).write.format("delta").save(
            f"file:{path}"
        )
    finally:
        spark.conf.unset(check)
    return str(path)


@pytest.mark.parametrize("kind", ["binary", pytest.param("string", marks=pytest.mark.slow)])
def test_keys_of_table_and_file_erase_the_same(
    kind: str, spark: SparkSession, tmp_path: Path, erase: Erase
) -> None:
    from_file = copy_log_dir("clean", tmp_path / "from-file", only=[NAME])
    from_table = copy_log_dir("clean", tmp_path / "from-table", only=[NAME])
    before = files_of(from_file)
    keys = sorted(
        {record.key.decode() for record in read_log(from_file / NAME).records if record.key}
    )[::7]
    assert keys
    (tmp_path / "keys").write_text("".join(f"{key}\n" for key in keys), encoding="utf-8")
    rows: list[tuple[Any, ...]] = [
        (n, key if kind == "string" else bytearray(key.encode())) for n, key in enumerate(keys)
    ]
    schema = f"customer bigint, key {kind}"
    # Some key is there twice.
    url = write(spark, tmp_path / "table", schema, [*rows, rows[0]])
    assert_df_equality(
        delta_keys(spark, url),
        spark.createDataFrame([*rows, rows[0]], schema),
        ignore_row_order=True,
    )

    told = []
    for log_dir, option in (
        (from_file, ["--keys", str(tmp_path / "keys")]),
        (from_table, ["--keys-delta", url]),
    ):
        code, out, err = erase(log_dir, *option, "--json")
        result = json.loads(out.replace(str(log_dir), "LOG_DIR"))
        told.append(
            (code, err, {name: value for name, value in result.items() if name != "run_id"})
        )
    assert told[0] == told[1]
    assert told[0][2]["keys"] == len(keys) == told[0][2]["keys_found"]
    assert changes(before, files_of(from_file)) != []
    assert {name: file and file.digest for name, file in files_of(from_file).items()} == {
        name: file and file.digest for name, file in files_of(from_table).items()
    }


@pytest.mark.parametrize(
    ("schema", "row", "problem"),
    [
        ("key bigint", (1,), "found key of bigint"),
        ("key struct<id: string>", (("a",),), "found key of struct<id:string>"),
        ("id string", ("a",), "found columns id"),
        ("key string", (None,), "a key is null"),
    ],
)
def test_column_that_holds_no_keys_is_refused(
    schema: str,
    row: tuple[Any, ...],
    problem: str,
    spark: SparkSession,
    tmp_path: Path,
    erase: Erase,
) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "log-dir", only=[NAME])
    before = files_of(log_dir)
    code, out, err = erase(log_dir, "--keys-delta", write(spark, tmp_path / "table", schema, [row]))
    assert (code, out) == (2, "")
    assert problem in err
    assert changes(before, files_of(log_dir)) == []


def test_missing_table_is_refused(tmp_path: Path, erase: Erase) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "log-dir", only=[NAME])
    (tmp_path / "no table").mkdir()
    for missing in ("none", "no table"):
        code, out, err = erase(log_dir, "--keys-delta", str(tmp_path / missing))
        assert (code, out) == (2, "")
        assert "--keys-delta can't be read" in err
        assert str(tmp_path / missing) in err
