"""Results, reports and metrics are private, never replace other files through a link, and are
complete or absent.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.unit.cli.results import NOW, partition
from winnow.cleaning.result import RunResult
from winnow.cli.run import write_result
from winnow.errors import WinnowError
from winnow.ledger.append import LOCK, _alone
from winnow.metrics.lineage import Lineage
from winnow.metrics.prometheus import tell_prometheus
from winnow.report.write import write_report
from winnow.storage.output_file import append_output, replacing, write_output


def result() -> RunResult:
    return RunResult(run_id="r", verb="clean", now=NOW, partitions=(partition("t"),))


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_results_and_reports_are_readable_only_by_their_owner(tmp_path: Path) -> None:
    write_result(result(), str(tmp_path / "result"))
    write_report(result(), tmp_path / "report.html")
    Lineage(str(tmp_path / "events"), job="winnow.clean").start()
    assert {path.name: mode(path) for path in tmp_path.iterdir()} == {
        "result": 0o600,
        "report.html": 0o600,
        "events": 0o600,
    }


def test_metrics_are_readable_but_not_wider_than_umask(tmp_path: Path) -> None:
    tell_prometheus([], str(tmp_path / "a.prom"))
    os.umask(0o027)
    tell_prometheus([], str(tmp_path / "b.prom"))
    assert (mode(tmp_path / "a.prom"), mode(tmp_path / "b.prom")) == (0o644, 0o640)


def test_links_are_not_followed(tmp_path: Path) -> None:
    """The names of former temporary files are not followed either."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    for name in ("result", "result.tmp", "report.html", "m.prom"):
        (tmp_path / name).symlink_to(secret)
    write_result(result(), str(tmp_path / "result"))
    write_report(result(), tmp_path / "report.html")
    with pytest.raises(WinnowError, match="symbolic link"):
        tell_prometheus([], str(tmp_path / "m.prom"))
    assert secret.read_bytes() == b"secret"
    assert not any((tmp_path / name).is_symlink() for name in ("result", "report.html"))


def test_links_are_not_appended_to(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    (tmp_path / "events").symlink_to(secret)
    with pytest.raises(OSError, match="symbolic link"):
        append_output(tmp_path / "events", b"x")
    (tmp_path / LOCK).symlink_to(tmp_path / "new")
    with pytest.raises(WinnowError, match="can't write the ledger"), _alone(str(tmp_path)):
        pass
    assert secret.read_bytes() == b"secret"
    assert not (tmp_path / "new").exists()


def test_fifo_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OSError, match=r"No such device|not a regular file"):
        append_output(tmp_path / "fifo", b"x")
    write_output(tmp_path / "fifo", b"x")
    assert (tmp_path / "fifo").read_bytes() == b"x"


def test_failed_write_leaves_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    with suppress(ZeroDivisionError), replacing(tmp_path / "a") as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"old"}
