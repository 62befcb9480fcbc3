"""Another user of this machine tries what a run listens to while it lasts."""

from __future__ import annotations

import os
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

RUN = """
from winnow.cli.session import started_spark
from winnow.runtime.core_files import make_no_core_files
make_no_core_files()
with started_spark(sql=False, quiet=True) as spark:
    assert spark.sparkContext.parallelize([1, 2], 2).map(str).count() == 2
    print("ready", flush=True)
    input()
"""
CLIENT = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 10) as connection:
    connection.settimeout(1)
    connection.sendall(bytes.fromhex(sys.argv[2]))
    try:
        while data := connection.recv(65536):
            sys.stdout.buffer.write(data)
    except OSError:
        pass
"""
LISTENS = "0A"
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
NOBODY = 65534
REQUEST, RESPONSE = 3, 4
"""Message types of Spark's network protocol."""


@pytest.fixture(scope="module")
def run_under_way() -> Iterator[int]:
    """The process id of a command that has started Spark as each verb does."""
    hidden = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_SUBMIT_OPTS")
    process = subprocess.Popen(
        [sys.executable, "-c", RUN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={k: v for k, v in os.environ.items() if k not in hidden}
        | {"PYTHONPATH": str(Path("lib").resolve()), "TMPDIR": "/tmp"},  # noqa: S108 - short
    )
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == b"ready\n"
    yield process.pid
    process.stdin.close()
    process.wait()


def processes(root: int) -> list[int]:
    """The process and all that descend from it."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
        parents.setdefault(parent, []).append(int(path.parent.name))
    found = [root]
    for process in found:
        found += parents.get(process, [])
    return found


def sockets(root: int) -> set[str]:
    """Inodes of the sockets of a run."""
    found = set()
    for process in processes(root):
        for path in Path(f"/proc/{process}/fd").iterdir():
            try:
                found.add(os.readlink(path).removeprefix("socket:[").removesuffix("]"))
            except OSError:
                continue
    return found


def ports(root: int) -> dict[int, str]:
    """The TCP ports at which a run listens, with the address in hexadecimal."""
    own, found = sockets(root), {}
    for family in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{family}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == LISTENS and words[9] in own:
                address, port = words[1].split(":")
                found[int(port, 16)] = address
    return found


def answer(port: int, sent: bytes) -> bytes:
    """What a client without a secret is answered, as another user where that is possible."""
    user = {"user": NOBODY, "group": NOBODY} if os.geteuid() == 0 else {}
    return subprocess.run(
        ["/usr/bin/env", "python3", "-c", CLIENT, str(port), sent.hex()],
        capture_output=True, check=True, cwd="/", timeout=60, **user,  # type: ignore[call-overload]
    ).stdout  # fmt: skip


def text(value: str) -> bytes:
    return struct.pack(">i", len(value)) + value.encode()


def message(body: bytes) -> bytes:
    """A request in Spark's network protocol."""
    head = struct.pack(">bqi", REQUEST, 7, len(body))
    return struct.pack(">q", 8 + len(head) + len(body)) + head + body


OPEN_BLOCKS = b"\x00" + text("app") + text("driver") + struct.pack(">i", 1) + text("broadcast_0")
JAVA_OBJECT = b"\xac\xed\x00\x05t\x00\x01x"


def test_every_port_is_for_this_machine_only(run_under_way: int) -> None:
    found = ports(run_under_way)
    assert len(found) == 3, "Python's gateway, Spark's messages, Spark's blocks"
    assert set(found.values()) <= LOOPBACK


def test_python_s_gateway_does_nothing_without_its_secret(run_under_way: int) -> None:
    for port in ports(run_under_way):
        for command in (b"r\nu\njava.lang.System\nrj\ne\n", b"s\ne\n", b"A\n\ne\ns\ne\n"):
            assert b"!y" not in answer(port, command)
    assert len(ports(run_under_way)) == 3, "a stranger must not stop it"


@pytest.mark.parametrize("body", [OPEN_BLOCKS, JAVA_OBJECT], ids=["blocks", "object"])
def test_spark_answers_no_request_without_its_secret(run_under_way: int, body: bytes) -> None:
    for port in ports(run_under_way):
        told = answer(port, message(body))
        assert told[8:9] != bytes([RESPONSE])
        assert b"StreamHandle" not in told


def test_sockets_in_the_file_system_are_in_a_private_directory(run_under_way: int) -> None:
    own = sockets(run_under_way)
    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    accepting = [line for line in lines if line[6] in own and line[3] == "00010000"]
    for line in accepting:
        assert len(line) > 7
        assert line[7].startswith("/"), "an abstract socket has no owner"
        assert stat.S_IMODE(Path(line[7]).parent.stat().st_mode) == 0o700


def test_a_stranger_cannot_look_into_the_processes(run_under_way: int) -> None:
    if os.geteuid():
        pytest.skip("only root can try as another user")
    code = "import sys; open(sys.argv[1], 'rb').read(1)"
    for process in processes(run_under_way):
        for name in ("mem", "environ"):
            done = subprocess.run(
                ["/usr/bin/env", "python3", "-c", code, f"/proc/{process}/{name}"],
                user=NOBODY, group=NOBODY, cwd="/", capture_output=True, check=False,
            )  # fmt: skip
            assert b"PermissionError" in done.stderr


def test_no_process_leaves_a_core_file(run_under_way: int) -> None:
    for process in processes(run_under_way):
        try:
            limits = Path(f"/proc/{process}/limits").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):  # a worker that has ended
            continue
        [core] = [line.split() for line in limits if line.startswith("Max core file size")]
        assert core[4:6] == ["0", "0"]
