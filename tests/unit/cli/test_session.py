"""Checks made before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import SparkConf

from winnow.cli.session import check_sockets
from winnow.errors import UsageError


def settings(place: object, *, enabled: str = "true") -> SparkConf:
    conf = SparkConf(loadDefaults=False)
    conf.set("spark.python.unix.domain.socket.enabled", enabled)
    return conf.set("spark.python.unix.domain.socket.dir", str(place))


def test_socket_directory_must_exist_and_have_a_short_path(tmp_path: Path) -> None:
    check_sockets(SparkConf(loadDefaults=False))
    check_sockets(settings("/var"))
    long = tmp_path / ("x" * 100)
    long.mkdir()
    for place, found in (
        (long, f"found {len(str(long))} bytes"),
        (tmp_path.anchor + "none", "found no directory"),
    ):
        check_sockets(settings(place, enabled="false"))
        with pytest.raises(UsageError, match=rf"sockets.*at most 64 bytes, {found}.*enabled=false"):
            check_sockets(settings(place))
