"""A partition that this user may not list keeps none of the others from being recovered."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.data import copy_log_dir
from tests.kafka.recover.compare import recover_with_winnow
from winnow.logdir.names import CLEAN_SHUTDOWN, LOG

KAFKA = 4242
TAIL = 7


@pytest.fixture
def log_dir() -> Iterator[Path]:
    """Of a broker that crashed, owned by its user, except for one partition."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    with tempfile.TemporaryDirectory(prefix="winnow-user-") as home:
        Path(home).chmod(0o755)
        # This loads all that the other user may not read: Python may be in root's own directory.
        loads = copy_log_dir("clean", Path(home) / "loads", only=("c-plain-0", "t-closed-0"))
        (loads / CLEAN_SHUTDOWN).unlink(missing_ok=True)
        recover_with_winnow(loads)
        path = copy_log_dir("clean", Path(home) / "logs", only=("c-plain-0", "t-closed-0"))
        (path / CLEAN_SHUTDOWN).unlink(missing_ok=True)
        with max((path / "c-plain-0").glob(f"*{LOG}")).open("ab") as torn:
            torn.write(b"x" * TAIL)
        for one in (path, *path.rglob("*")):
            os.chown(one, KAFKA, KAFKA)
        os.chown(path / "t-closed-0", 0, 0)
        (path / "t-closed-0").chmod(0o700)
        os.seteuid(KAFKA)
        try:
            yield path
        finally:
            os.seteuid(0)


def test_other_partitions_are_recovered(log_dir: Path) -> None:
    found = recover_with_winnow(log_dir)
    plain, closed = found.logs
    assert (plain.name, plain.error, plain.cut_bytes) == ("c-plain-0", None, TAIL)
    assert (closed.name, closed.cut_bytes) == ("t-closed-0", 0)
    assert "Permission denied" in (closed.error or "")
    assert not found.marked
