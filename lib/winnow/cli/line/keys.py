"""Read the keys for `erase`: typed, in a file with one per line, or in a Delta table."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from winnow.cli.inputs import read_bytes
from winnow.cli.line.units import parse_bytes
from winnow.cli.options import dashed
from winnow.cli.out import complain
from winnow.errors import UsageError
from winnow.ledger.place import local_path
from winnow.storage.input_file import MOST_BYTES
from winnow.words import counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from winnow.cli.erase import EraseOptions

_BOM = b"\xef\xbb\xbf"


def given_keys(own: EraseOptions) -> Callable[[SparkSession], Any]:
    """Return a function that reads the keys once Spark has started. A file is read at once, so its
    errors are found without Spark.
    """
    ways = ("key", "keys", "keys_hex", "keys_delta")
    named = [name for name in ways if getattr(own, name)]
    if len(named) != 1:
        raise UsageError(
            "give the keys in one way",
            expected="one of --key KEY, --keys FILE, --keys-hex FILE and --keys-delta URL",
            found=" and ".join(map(dashed, named)) or "none",
        )
    if own.keys_delta is not None:
        return partial(delta_keys, url=own.keys_delta)
    if own.key:
        found: Any = [parse_bytes(text, option="--key") for text in own.key]
    elif own.keys is not None:
        found = read_keys(own.keys)
    else:
        found = read_hex_keys(own.keys_hex or "")
    return lambda _: found


def read_keys(file: str) -> Any:  # noqa: ANN401 - Arrow has no types
    """Return one key per line of UTF-8 text, as an Arrow array of bytes. Lines end in LF or CR LF.

    Raises UsageError for a file that can't be read, for an empty line and for text that is not
    UTF-8.
    """
    lines = _lines(file, "--keys")
    try:
        lines.validate(full=True)
    except pa.ArrowInvalid as error:
        raise UsageError(
            "--keys is not UTF-8",
            found=str(error),
            where=file,
            hint="Give such keys in hexadecimal: --keys-hex.",
        ) from error
    bare = pc.utf8_trim_whitespace(lines)
    if blanks := pc.sum(pc.not_equal(bare, lines)).as_py():
        complain(
            f"note: {counted(blanks, 'key')} of {file} with a blank at the beginning or the end, "
            "which is part of the key"
        )
    return lines.cast(pa.large_binary())


def read_hex_keys(file: str) -> Any:  # noqa: ANN401
    """Like `read_keys`, with one key per line in pairs of hexadecimal digits."""
    keys, lines = [], _lines(file, "--keys-hex").cast(pa.large_binary())
    for number, line in enumerate(lines.to_pylist(), start=1):
        try:
            keys.append(bytes.fromhex(line.decode("ascii")))
        except ValueError:
            raise UsageError(
                "--keys-hex can't be read",
                expected="pairs of hexadecimal digits",
                where=f"{file}, line {number}",
            ) from None
    return pa.array(keys, pa.large_binary())


def delta_keys(spark: SparkSession, url: str) -> DataFrame:
    """Read a Delta table by its path. Raises WinnowError if it does not exist."""
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - with Spark

    from winnow.ledger.delta import provide_delta  # noqa: PLC0415 - with Spark

    provide_delta(spark.sparkContext)
    session = spark.newSession()
    # The table is read by path, without a catalog.
    session.conf.set("spark.databricks.delta.requiredSparkConfsCheck.enabled", "false")
    local = local_path(url)
    try:
        return session.read.format("delta").load(url if local is None else f"file:{local}")
    except AnalysisException as error:
        raise UsageError(
            "--keys-delta can't be read",
            expected="a Delta table with a column `key`",
            found=str(error).partition("\n")[0],
            where=url,
        ) from error


def _lines(file: str, option: str) -> Any:  # noqa: ANN401
    """Return an Arrow array of non-empty lines. They are not yet checked to be UTF-8."""
    data = read_bytes(file, option=option, most=MOST_BYTES)
    if data.startswith(_BOM):
        raise UsageError(
            f"{option} begins with a byte order mark",
            where=file,
            hint="Save the file without it: it would become part of the first key.",
        )
    if not data:
        raise UsageError(
            f"the file of {option} is empty",
            expected="at least one key, one per line",
            where=file,
            hint="Did the command fail that writes it?",
        )
    bounds = pa.array([0, len(data)], pa.int64()).buffers()[1]
    whole = pa.LargeStringArray.from_buffers(1, bounds, pa.py_buffer(data))
    lines = pc.ascii_rtrim(pc.split_pattern(whole, "\n").flatten(), characters="\r\n")
    if data.endswith(b"\n"):
        lines = lines[:-1]
    empty = pc.index(pc.binary_length(lines), pa.scalar(0, pa.int64())).as_py()
    if empty >= 0:
        raise UsageError(
            "an empty line",
            expected=f"a key in each line of {option}",
            where=f"{file}, line {empty + 1}",
            hint="For the empty key itself use the Python API.",
        )
    return lines
