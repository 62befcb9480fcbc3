"""What an operator is told about a place that refuses or does not answer: one sentence with its
URL. No disk of this machine is blamed, and there is no traceback.
"""

from __future__ import annotations

import re
import socket
import subprocess

import obstore
import pytest

from tests.kill.processes import ROOT
from tests.storage.s3 import free_port
from winnow.storage.s3.client import connect, errors

pytestmark = pytest.mark.spark


def told(*words: str) -> str:
    """Return what a command that fails has on stderr."""
    ended = subprocess.run(
        [ROOT / "spark-submit.sh", *words, "--quiet"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == 1, ended.stderr
    return ended.stderr.strip()


def unreachable(why: str, url: str) -> re.Pattern[str]:
    place = rf"{re.escape(url)}[^ ]*"
    return re.compile(rf"winnow: a place can't be reached, read or written: {why} \({place}\)")


@pytest.mark.usefixtures("s3")
def test_missing_bucket_is_reported() -> None:
    missing = unreachable("S3 answers NoSuchBucket", "s3://no-such-bucket/logs")
    assert missing.fullmatch(told("verify", "s3://no-such-bucket/logs"))


@pytest.mark.slow
def test_refused_credentials_are_reported(gateway: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    refused = unreachable("S3 answers SignatureDoesNotMatch", f"{gateway}/logs")
    assert refused.fullmatch(told("verify", f"{gateway}/logs"))


def test_silent_s3_server_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        store = connect("bucket", retry={"max_retries": 0}, timeout="1s")
        with (
            pytest.raises(OSError, match="s3://bucket/logs: S3 does not answer in time"),
            errors("s3://bucket/logs"),
        ):
            obstore.head(store, "logs")


@pytest.mark.parametrize("verb", [pytest.param("verify", marks=pytest.mark.slow), "plan"])
def test_silent_name_node_is_reported(verb: str) -> None:
    url = f"hdfs://127.0.0.1:{free_port()}/logs"
    lines = told(verb, url).splitlines()
    assert unreachable(r"Connection refused \(os error 111\)", url).fullmatch(lines[-1]), lines
