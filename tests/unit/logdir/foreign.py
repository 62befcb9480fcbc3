"""Everything that somebody with write access can put in place of each file and directory of a log
directory.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from tests.unit.logdir.test_lookup import batch, partition
from winnow.logdir.names import SNAPSHOT, TXNINDEX, segment_file

RUN = "20261121T000000Z-1"
UNREADABLE = "what nobody else may read"
TOPIC_ID = "version: 0\ntopic_id: Z4RmYuRAQUiWYxVMfwzKsQ"
SPARSE_BYTES = 60 * 2**30
LOG = f"t-0/{segment_file(0, '.log')}"
NAMES = (
    "meta.properties", ".lock", ".kafka_cleanshutdown", "cleaner-offset-checkpoint",
    "cleaner-offset-checkpoint.tmp",
    "replication-offset-checkpoint", "log-start-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "__cluster_metadata-0", "t-0", LOG, LOG + ".swap", LOG + ".cleaned", LOG + ".deleted",
    "t-0/00000000000000000000.index", "t-0/00000000000000000000.timeindex",
    "t-0/00000000000000000000.txnindex",
    f"t-0/{segment_file(50, SNAPSHOT)}", "t-0/leader-epoch-checkpoint",
    "t-0/leader-epoch-checkpoint.tmp",
    "t-0/partition.metadata", "t-0/.winnow-r", "t-0/.winnow-r/round.json", "t-0/.winnow-r-keep",
    f"t-0/.winnow-kept-{RUN}", f"t-0/.winnow-kept-{RUN}/run.json", f"t-0/.winnow-kept-{RUN}/000001",
    f"t-0/.winnow-kept-{RUN}/000001/step.json",
    f"t-0/.winnow-kept-{RUN}/000001/{segment_file(0, '.log')}",
    f"t-0/.winnow-quarantine-{RUN}",
)  # fmt: skip


def make(home: Path) -> Path:
    """Create a log directory at `home`/logs, and at `home`/outside files that must not be
    touched.
    """
    log_dir, outside = home / "logs", home / "outside"
    first, second = [batch(0, 4), batch(5, 9)], [batch(50, 54)]
    log_dir.mkdir(parents=True)
    directory = partition(log_dir / "t-0", {0: first, 50: second})
    (directory / segment_file(0, TXNINDEX)).write_bytes(b"")
    (directory / segment_file(50, SNAPSHOT)).write_bytes(b"")
    (directory / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (directory / "partition.metadata").write_text(TOPIC_ID)
    (log_dir / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    (log_dir / ".kafka_cleanshutdown").write_text("")
    for name in ("cleaner", "replication", "log-start", "recovery-point"):
        (log_dir / f"{name}-offset-checkpoint").write_text("0\n1\nt 0 0\n")
    (directory / ".winnow-r").mkdir()
    kept = directory / f".winnow-kept-{RUN}"
    (kept / "000001").mkdir(parents=True)
    log = kept / "000001" / segment_file(0, ".log")
    log.hardlink_to(directory / segment_file(0, ".log"))
    about = {"name": log.name, "size": log.stat().st_size, "mtime_ns": log.stat().st_mtime_ns}
    step = {"version": 1, "kind": "deleted", "files": [about], "outputs": [], "next_base": 50}
    (kept / "000001" / "step.json").write_text(json.dumps(step))
    before = {
        "version": 1,
        "run_id": RUN,
        "topic": "t",
        "partition": 0,
        "kept_at_ms": 1,
        "log_start_offset": 0,
    }
    before |= {"log_start_checkpoint": 0, "cleaner_checkpoint": 0, "leader_epochs": [[0, 0]]}
    (kept / "run.json").write_text(json.dumps(before))
    (outside / "below").mkdir(parents=True)
    for path in (
        outside / "file",
        outside / "below" / segment_file(0, ".log.deleted"),
        outside / "round.json",
    ):
        path.write_text(f"{UNREADABLE}\n")
        path.chmod(0o600)
    return log_dir


def _link(to: str) -> Callable[[Path, Path], None]:
    return lambda path, outside: path.symlink_to(to.replace("OUTSIDE", str(outside)))


def _sparse(path: Path, outside: Path) -> None:
    del outside
    path.touch()
    os.truncate(path, SPARSE_BYTES)


def _hard_link(path: Path, outside: Path) -> None:
    path.hardlink_to(outside / "file")


KINDS: dict[str, Callable[[Path, Path], None]] = {
    "link to a file": _link("OUTSIDE/file"),
    "link to a directory": _link("OUTSIDE/below"),
    "link to itself": _link("."),
    "link to nowhere": _link("OUTSIDE/new"),
    "hard link": _hard_link,
    "named pipe": lambda path, _: os.mkfifo(path),
    "sparse": _sparse,
    "empty": lambda path, _: path.touch(),
    "directory": lambda path, _: path.mkdir(),
}


def put(log_dir: Path, name: str, kind: str) -> None:
    """Put it in place of the existing file. A link may point to the original."""
    path = log_dir / name
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    KINDS[kind](path, log_dir.parent / "outside")


def state_of(root: Path) -> list[tuple[object, ...]]:
    """Return names, kinds, owners, modes, times and contents of everything there, without following
    links.
    """
    found: list[tuple[object, ...]] = []
    for path in [root, *sorted(root.rglob("*"))]:
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        # A second name for a file changes its link count.
        found.append(
            (str(path), status.st_mode, status.st_uid, status.st_gid, status.st_mtime_ns, content)
        )
    return found


@contextmanager
def bounded(*, seconds: int = 20, more_bytes: int = 1536 * 2**20) -> Iterator[None]:
    """Fail if the block waits on a pipe, and raise MemoryError if it reads a whole sparse file."""

    def alarm(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise AssertionError(f"it did not end within {seconds} s")

    limits = resource.getrlimit(resource.RLIMIT_AS)
    used = (
        int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        * resource.getpagesize()
    )
    before = signal.signal(signal.SIGALRM, alarm)
    signal.alarm(seconds)
    resource.setrlimit(resource.RLIMIT_AS, (used + more_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
