"""S3 servers on loopback, made in `.cache/` on first use.

moto has its own virtual environment. versitygw, which checks signatures, is built with Go.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from http.client import HTTPConnection
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = ROOT / ".cache"
START_SECONDS = 60
BUCKET = "bucket"
VERSITYGW = "v1.8.0"
ACCESS_KEY, SECRET_KEY = "AKIAWINNOWTESTS", "not-a-secret-but-never-printed"


@contextmanager
def moto(home: Path) -> Iterator[str]:
    """Its URL; any credentials will do. `home` takes what it prints."""
    port = free_port()
    with _server([str(_moto()), "-H", "127.0.0.1", "-p", str(port)], port, home / "log") as url:
        make_bucket(url, BUCKET)
        yield url


@contextmanager
def versitygw(home: Path) -> Iterator[str]:
    """Its URL; the credentials are those of `environment`. `home` takes the objects and what it
    prints.
    """
    (home / "objects" / BUCKET).mkdir(parents=True)
    port = free_port()
    command = [str(_versitygw()), "-p", f"127.0.0.1:{port}", "-a", ACCESS_KEY, "-s", SECRET_KEY]
    with _server([*command, "posix", str(home / "objects")], port, home / "log") as url:
        yield url


@contextmanager
def _server(command: Sequence[str], port: int, log: Path) -> Iterator[str]:
    with (
        log.open("wb") as output,
        subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as server,
    ):
        try:
            wait_for(port, server, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


def make_bucket(server: str, bucket: str) -> None:
    host, _, port = server.removeprefix("http://").partition(":")
    # moto takes the service from the signature's scope; it verifies none.
    signature = f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/20260101/us-east-1/s3/aws4_request"
    with closing(HTTPConnection(host, int(port), timeout=30)) as connection:
        connection.request("PUT", f"/{bucket}", headers={"Authorization": signature})
        assert connection.getresponse().status == 200


def environment(server: str) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": server,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    }


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@cache
def _versitygw() -> Path:
    target = CACHE / f"versitygw-{VERSITYGW}"
    go = shutil.which("go")
    if not (target / "versitygw").exists():
        if go is None:
            pytest.skip("versitygw is built by Go, and there is none")
        package = f"github.com/versity/versitygw/cmd/versitygw@{VERSITYGW}"
        subprocess.run(
            [go, "install", package], check=True, env={**os.environ, "GOBIN": str(target)}
        )
    return target / "versitygw"


@cache
def _moto() -> Path:
    wanted = HERE / "moto-requirements.txt"
    target = CACHE / f"moto-{hashlib.sha256(wanted.read_bytes()).hexdigest()[:12]}"
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "moto.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (target / "complete").exists():
            shutil.rmtree(target, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", str(target)], check=True)
            pip = [
                str(target / "bin/python"),
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ]
            subprocess.run([*pip, "--no-deps", "-r", str(wanted)], check=True)
            (target / "complete").touch()
    return target / "bin" / "moto_server"


def wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=10).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError(f"the S3 server did not start: {log.read_text(errors='replace')[-2000:]}")
