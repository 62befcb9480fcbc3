"""The disk is full, and Winnow runs: /tmp that is full or read-only stops no verb."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from winnow.cli.demo import unpack

ROOT = Path(__file__).parents[2]
TINY = "mount -t tmpfs -o size=1m tmp /tmp"
FULL = f"{TINY} && (dd if=/dev/zero of=/tmp/all bs=64k count=32 2>/dev/null || true)"
"""Fills the mounted file system, and never more than 2 MiB of any."""
READ_ONLY = "mount -t tmpfs -o ro tmp /tmp"
NO_MEMORY = "mount -t tmpfs -o ro tmp /dev/shm"
CAN_MOUNT = (
    os.geteuid() == 0
    and not subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode
)

pytestmark = pytest.mark.skipif(
    not CAN_MOUNT or ROOT.parts[1] == "tmp",
    reason="needs root, to mount another /tmp, and a checkout elsewhere",
)


@pytest.fixture(scope="module")
def log_dir() -> Iterator[Path]:
    """A log directory outside /tmp, of this process alone: others run other tests of this file."""
    places = ROOT / ".cache" / "tests"
    places.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="temporary-files-", dir=places) as place:
        yield unpack(place)


CHECKOUT = [str(ROOT / "spark-submit.sh")]
COMMAND_OF_WHEEL = [sys.executable, str(ROOT / "jobs" / "winnow_job.py")]


def run(
    mounts: str, *arguments: str, entry: list[str] = CHECKOUT, **environment: str
) -> subprocess.CompletedProcess[str]:
    command = f'{mounts} && exec "$@"'
    return subprocess.run(
        ["unshare", "-m", "bash", "-c", command, "-", *entry, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def plan(log_dir: Path) -> list[str]:
    return ["plan", str(log_dir), "--topic-configs", str(ROOT / "demo" / "topic-configs.txt")]


@pytest.mark.parametrize(
    ("mounts", "entry"),
    [(FULL, CHECKOUT), (READ_ONLY, CHECKOUT), (FULL, COMMAND_OF_WHEEL)],
    ids=["full", "read-only", "wheel"],
)
def test_checkout_takes_the_files_of_a_run(mounts: str, entry: list[str], log_dir: Path) -> None:
    ended = run(mounts, *plan(log_dir), entry=entry)
    assert ended.returncode in {0, 3}, ended.stderr
    note = f"note: /tmp is full or can't be written; temporary files are in {ROOT}/.cache"
    assert note in ended.stderr
    for word in ("Exception", "[warning]", "No space", "Read-only", "WARNING"):
        assert word not in ended.stderr


def test_tmpdir_is_used_without_a_note(log_dir: Path) -> None:
    place = ROOT / ".cache" / "tests" / "tmp"
    place.mkdir(exist_ok=True)
    ended = run(READ_ONLY, *plan(log_dir), TMPDIR=str(place))
    assert ended.returncode in {0, 3}, ended.stderr
    assert "temporary files" not in ended.stderr


def test_message_names_the_command_if_no_place_is_left(log_dir: Path) -> None:
    cache = f"{ROOT}/.cache"
    bound = f"mount --bind {cache} {cache}; mount -o remount,ro,bind {cache}"
    ended = run(f"{READ_ONLY}; {NO_MEMORY}; {bound}", *plan(log_dir))
    assert ended.returncode == 1
    (sentence,) = ended.stderr.splitlines()
    assert "no place for Spark's temporary files: /tmp, " in sentence
    assert f"TMPDIR=DIRECTORY {ROOT}/spark-submit.sh plan {log_dir}" in sentence


def test_command_of_the_wheel_names_the_places_if_none_is_left(log_dir: Path) -> None:
    cache = f"{ROOT}/.cache"
    bound = f"mount --bind {cache} {cache}; mount -o remount,ro,bind {cache}"
    ended = run(f"{READ_ONLY}; {NO_MEMORY}; {bound}", *plan(log_dir), entry=COMMAND_OF_WHEEL)
    assert ended.returncode == 1
    (sentence,) = ended.stderr.splitlines()
    assert f"(/tmp, {cache}, /dev/shm). Choose one with the variable TMPDIR." in sentence
