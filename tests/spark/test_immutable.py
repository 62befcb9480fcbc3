"""Files that nobody may change, not even root: `chattr +i`, `chattr +a`."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.data import copy_log_dir
from tests.spark.runs import by_name, changes, clean, files_of, plan, run, stray_files
from winnow.errors import WinnowError
from winnow.start.rights import why_not_used
from winnow.start.words import starts_to_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

GET, SET = 0x80086601, 0x40086602
IMMUTABLE, APPEND_ONLY = 0x10, 0x20
SOME = ("c-tomb-0", "d-size-0")


@contextmanager
def unchangeable(path: Path, attribute: int = IMMUTABLE) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDONLY)
    flags = bytearray(8)
    try:
        fcntl.ioctl(descriptor, GET, flags)
        before = bytes(flags)
        flags[0] |= attribute
        fcntl.ioctl(descriptor, SET, flags)
    except OSError as error:
        os.close(descriptor)
        pytest.skip(f"these attributes can't be set here: {error.strerror}")
    try:
        yield
    finally:
        fcntl.ioctl(descriptor, SET, before)
        os.close(descriptor)


def segment(log_dir: Path) -> Path:
    return min((log_dir / "c-tomb-0").glob("*.log"))


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    log_dir = copy_log_dir("clean", tmp_path / "d", only=SOME)
    for directory in (log_dir, *(log_dir / name for name in SOME)):
        os.chown(directory, 12345, 12345)  # the broker's user; Winnow runs as root
        for file in directory.iterdir():
            os.chown(file, 12345, 12345)
    return log_dir


@pytest.mark.parametrize(
    ("which", "attribute", "letter"),
    [
        (lambda log_dir: log_dir / "c-tomb-0", IMMUTABLE, "i"),
        (segment, IMMUTABLE, "i"),
        (segment, APPEND_ONLY, "a"),
        (lambda log_dir: log_dir / "cleaner-offset-checkpoint", IMMUTABLE, "i"),
    ],
)
def test_nothing_is_begun_where_a_file_can_not_be_replaced(
    spark: SparkSession,
    log_dir: Path,
    which: Callable[[Path], Path],
    attribute: int,
    letter: str,
) -> None:
    path = which(log_dir)
    before = files_of(log_dir / "c-tomb-0")
    with unchangeable(path, attribute):
        result = run(clean, spark, log_dir)
    left = by_name(result)["c-tomb-0"]
    assert (left.code, result.exit_code) == ("not-permitted", 3)
    assert f"`lsattr -d {path}` shows the attribute {letter}" in left.reason
    assert f"`chattr -{letter} {path}`" in left.reason
    assert "run as" not in left.reason
    assert changes(before, files_of(log_dir / "c-tomb-0")) == []
    assert stray_files(log_dir) == []


def test_log_directory_that_can_not_be_locked_says_why(spark: SparkSession, log_dir: Path) -> None:
    with unchangeable(log_dir), pytest.raises(WinnowError) as refused:
        run(plan, spark, log_dir)
    assert f"`lsattr -d {log_dir}` shows the attribute i" in str(refused.value)
    assert "run as" not in str(refused.value)


def test_start_of_a_broker_of_another_user_names_the_attribute(
    spark: SparkSession, log_dir: Path
) -> None:
    with unchangeable(segment(log_dir)):
        told = str(starts_to_json(run(plan, spark, log_dir).starts))
    assert f"`lsattr -d {segment(log_dir)}` shows the attribute i" in told
    with unchangeable(log_dir):
        forbidden = why_not_used(str(log_dir))
    assert forbidden is not None
    assert "the attribute i" in forbidden.words
