"""Checks made before Spark starts."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import SparkConf, SparkContext

from winnow.cli.session import authenticate, check_sockets, end_of_jvm
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
        with pytest.raises(UsageError, match=rf"sockets.*at most 60 bytes, {found}.*enabled=false"):
            check_sockets(settings(place))


@pytest.mark.parametrize(
    "error", [ConnectionRefusedError("no"), EOFError(), Py4JNetworkError("no")]
)
def test_lost_jvm_is_told_from_other_errors(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
    assert end_of_jvm(ValueError("no")) is None
    assert end_of_jvm(error) is None
    process.communicate()
    assert "the JVM, which runs Spark, has ended before the run" in str(end_of_jvm(error))
    assert end_of_jvm(ValueError("no")) is None


@pytest.mark.parametrize(
    ("master", "given", "used"),
    [
        ("local[*,4]", None, "true"),
        ("local", None, "true"),
        ("local[2]", "false", "false"),
        ("local-cluster[2,1,1024]", None, "none"),
        ("yarn", None, "none"),
    ],
)
def test_other_users_are_kept_from_the_ports_of_a_local_spark(
    master: str, given: str | None, used: str
) -> None:
    conf = SparkConf(loadDefaults=False).set("spark.master", master)
    if given is not None:
        conf.set("spark.authenticate", given)
    authenticate(conf)
    assert conf.get("spark.authenticate", "none") == used
