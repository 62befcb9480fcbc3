"""An S3 server on loopback: moto, in a virtual environment of its own in `.cache/`, made on first use."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from http.client import HTTPConnection
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = HERE.parent.parent / ".cache"
START_SECONDS = 60
ACCESS_KEY, SECRET_KEY = "AKIAWINNOWTESTS", "not-a-secret-but-never-printed"


@contextmanager
def s3_server(log: Path) -> Iterator[str]:
    """Its URL; any credentials will do. `log` takes what it prints."""
    port = free_port()
    command = [str(_moto()), "-H", "127.0.0.1", "-p", str(port)]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as server:
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_for(port, server, log)
            yield url
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
    return {"AWS_ENDPOINT_URL": server, "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


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
            pip = [str(target / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, "--no-deps", "-r", str(wanted)], check=True)
            (target / "complete").touch()
    return target / "bin" / "moto_server"


def _wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=10).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError(f"moto did not start: {log.read_text(errors='replace')[-2000:]}")
