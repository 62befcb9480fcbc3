"""Results, reports and metrics are private, never replace other files through a link, and are
complete or absent.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.disks import MIB, disk_or_skip
from tests.unit.cli.results import NOW, partition
from winnow.cleaning.result import RunResult
from winnow.cli.options import CommandLine
from winnow.cli.out import complain
from winnow.cli.outlets import Outlets, check_outlets, logged
from winnow.cli.text.json_output import to_json
from winnow.errors import NoSpaceError, UsageError, WinnowError
from winnow.ledger.append import LOCK, _alone
from winnow.metrics.lineage import Lineage
from winnow.metrics.prometheus import tell_prometheus
from winnow.report.write import write_report
from winnow.storage.output_file import OutputFile, replacing, write_output


def write_result(result: RunResult, path: str) -> None:
    file = Outlets(CommandLine(result=path))
    file.begin_file(())
    file.end_file(to_json(result) | {"exit_code": 0})


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


def test_links_are_neither_followed_nor_replaced(tmp_path: Path) -> None:
    """The names of former temporary files are not followed either."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    for name in ("result", "result.tmp", "report.html", "m.prom"):
        (tmp_path / name).symlink_to(secret)
    with pytest.raises(UsageError, match="this is a symbolic link"):
        write_result(result(), str(tmp_path / "result"))
    with pytest.raises(WinnowError, match="this is a symbolic link"):
        write_report(result(), tmp_path / "report.html")
    with pytest.raises(WinnowError, match="symbolic link"):
        tell_prometheus([], str(tmp_path / "m.prom"))
    assert secret.read_bytes() == b"secret"
    assert all((tmp_path / name).is_symlink() for name in ("result", "report.html", "m.prom"))


def test_links_are_not_appended_to(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    (tmp_path / "events").symlink_to(secret)
    with pytest.raises(WinnowError, match="symbolic link"):
        OutputFile(str(tmp_path / "events"), "--openlineage", "an event").append(b"x")
    (tmp_path / LOCK).symlink_to(tmp_path / "new")
    with pytest.raises(WinnowError, match="can't write the ledger"), _alone(str(tmp_path)):
        pass
    assert secret.read_bytes() == b"secret"
    assert not (tmp_path / "new").exists()


def as_a_strangers(path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root gives files away")
    os.chown(path, 54_321, 54_321)


READ_ALONG = {
    "a stranger's": (as_a_strangers, "it belongs to user 54321"),
    "readable for all": (lambda one: one.chmod(0o604), "everybody can read or change it"),
    "writable for all": (lambda one: one.chmod(0o602), "everybody can read or change it"),
    "with another name": (lambda one: os.link(one, f"{one}2"), "it has 2 names"),
}


@pytest.mark.parametrize("name", READ_ALONG)
def test_nothing_private_is_appended_to_a_file_that_others_made_or_read(
    name: str, tmp_path: Path
) -> None:
    change, words = READ_ALONG[name]
    path = tmp_path / "events"
    path.write_bytes(b"old")
    path.chmod(0o640)
    out = OutputFile(str(path), "--openlineage", "an event")
    out.append(b" and new")
    change(path)
    for refused in (lambda: out.append(b"x"), lambda: out.check(appended=True)):
        with pytest.raises(WinnowError, match=words):
            refused()
    for request in (CommandLine(log_file=str(path)), CommandLine(openlineage=str(path))):
        with pytest.raises(UsageError, match=words):
            check_outlets(request)
    with logged(CommandLine(log_file=str(path))):
        complain("a note")
    assert path.read_bytes() == b"old and new"
    out.check()  # a file that is replaced is another one


def test_log_file_belongs_to_the_user_of_the_run_in_any_directory(tmp_path: Path) -> None:
    """The owner of the directory can't read along."""
    as_a_strangers(tmp_path)
    for _ in range(2):
        with logged(CommandLine(log_file=str(tmp_path / "log"))):
            complain("a note")
    assert (tmp_path / "log").stat().st_uid == os.geteuid()
    assert (tmp_path / "log").read_text().count("a note") == 2


def test_fifo_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(WinnowError, match=r"No such device|not a regular file"):
        OutputFile(str(tmp_path / "fifo"), "--openlineage", "an event").append(b"x")
    with pytest.raises(OSError, match="this is a named pipe"):
        write_output(tmp_path / "fifo", b"x")
    assert stat.S_ISFIFO((tmp_path / "fifo").stat().st_mode)


def test_failed_write_leaves_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    with suppress(ZeroDivisionError), replacing(tmp_path / "a") as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"old"}


PARTS = ("expected", "found", "where", "hint")


def out(path: Path | str) -> OutputFile:
    return OutputFile(str(path), "--out", "the plan")


def assert_names(error: WinnowError, path: Path | str) -> None:
    assert all(getattr(error, part) for part in PARTS), error
    assert error.where == str(path)
    assert "--out" in (error.hint or "")


@contextmanager
def as_nobody() -> Iterator[Path]:
    """Yield a directory of root's, as another user."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    with tempfile.TemporaryDirectory() as place:  # other users cannot enter pytest's directories
        os.chmod(place, 0o755)  # noqa: S103 - so that the other user finds it
        os.seteuid(65534)
        try:
            yield Path(place)
        finally:
            os.seteuid(0)
        assert os.listdir(place) == []


BAD = {
    "link": "this is a symbolic link",
    "dangling": "this is a symbolic link",
    "directory": "this is a directory",
    "pipe": "this is a named pipe",
    "gone/file": "No such file",
    "file/below": "Not a directory",
    "directory/": "this is a directory",
    "": "this is a directory",
}


@pytest.mark.parametrize("name", BAD)
def test_bad_target_is_found_before_and_refused_afterwards(tmp_path: Path, name: str) -> None:
    (tmp_path / "target").write_bytes(b"other")
    (tmp_path / "file").write_bytes(b"other")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "pipe")
    path = f"{tmp_path}/{name}"
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UsageError, match=BAD[name]) as refused:
        out(path).check()
    assert_names(refused.value, path)
    for write in (out(path).write, out(path).append):
        with pytest.raises(WinnowError) as failed:
            write(b"x")
        assert_names(failed.value, path)
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "target").read_bytes() == (tmp_path / "file").read_bytes() == b"other"
    assert list((tmp_path / "directory").iterdir()) == []


def test_directory_of_another_user_is_found_before() -> None:
    with as_nobody() as place:
        with pytest.raises(UsageError, match="Permission denied") as refused:
            out(place / "plan").check()
        assert_names(refused.value, place / "plan")
        with pytest.raises(WinnowError, match="Permission denied"):
            out(place / "plan").write(b"x")


def test_read_only_file_system_is_found_before(tmp_path: Path) -> None:
    with disk_or_skip(tmp_path / "disk", mib=1, options=",ro") as disk:
        with pytest.raises(UsageError, match="Read-only file system") as refused:
            out(disk / "plan").check()
        assert_names(refused.value, disk / "plan")


def test_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    with disk_or_skip(tmp_path / "disk", mib=1) as disk:
        for name in ("plan", "events"):
            (disk / name).write_bytes(b"old\n")
            (disk / name).chmod(0o600)
        out(disk / "plan").check(room=MIB // 2)
        with pytest.raises(NoSpaceError) as refused:
            out(disk / "plan").check(room=MIB)
        assert_names(refused.value, disk / "plan")
        out(disk / "plan").check()
        for write in (out(disk / "plan").write, out(disk / "events").append):
            with pytest.raises(NoSpaceError, match="could not be written") as failed:
                write(bytes(2 * MIB))
            assert_names(failed.value, failed.value.where or "")
        assert {path.name: path.read_bytes() for path in disk.iterdir()} == {
            "plan": b"old\n",
            "events": b"old\n",
        }
        out(disk / "plan").write(b"new")
        assert (disk / "plan").read_bytes() == b"new"


def test_link_that_appears_while_the_file_is_written_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"other")
    with pytest.raises(OSError, match="symbolic link"), replacing(tmp_path / "a"):
        (tmp_path / "a").symlink_to("target")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "target"]
    assert (tmp_path / "target").read_bytes() == b"other"


def test_an_output_file_in_the_directory_of_any_broker_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "meta.properties").write_text("node.id=1\n")
    for place in (tmp_path, tmp_path / "t-0"):
        with pytest.raises(UsageError, match="inside a log directory"):
            out(place / "plan").check()
