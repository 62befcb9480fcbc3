import os
import pty
import time
from collections.abc import Iterator
from contextlib import (
    AbstractContextManager,
    contextmanager,
    nullcontext,
    redirect_stderr,
    redirect_stdout,
    suppress,
)
from pathlib import Path
from typing import TextIO

import pytest
from rich.status import Status

from tests.twins.encoding import encode_batch
from winnow.cli.call import Call
from winnow.cli.main import run
from winnow.cli.options import CommandLine
from winnow.cli.out import Styled, complain, tell_errors, tell_page
from winnow.cli.outlets import logged
from winnow.cli.text import progress as progress_module
from winnow.cli.text.progress import Display, progress_on_stderr
from winnow.logdir.names import CLEAN_SHUTDOWN, LOG, segment_file
from winnow.runtime.progress import Progress as Told
from winnow.runtime.progress import Silence
from winnow.wire.plain import Record


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def terminal() -> Iterator[tuple[TextIO, bytearray]]:
    """Return a stream that is a terminal, and what was written to it once it is closed."""
    reader, writer = pty.openpty()
    written = bytearray()
    with os.fdopen(writer, "w", encoding="utf-8") as stream:
        yield stream, written
    # When the other end of a terminal is closed, Linux raises EIO. Other systems report the
    # end of the file.
    with suppress(OSError), os.fdopen(reader, "rb", buffering=0) as stream_end:
        while some := stream_end.read(1 << 16):
            written += some


def test_line_shows_share_rate_and_time_left() -> None:
    clock = Clock()
    progress = Display(clock=clock)
    told = [progress.line()]

    def after(seconds: float, done: int) -> None:
        clock.now += seconds
        progress.advance(done)
        told.append(progress.line())

    progress.stage("looking at 12 partitions")
    after(12.4, 0)
    progress.stage("compacting 3 partitions", total_bytes=4 << 30)
    after(1, 0)
    after(0.5, 512 << 20)
    after(2.5, 512 << 20)
    after(36, 1 << 20)
    after(960, 1 << 20)
    after(0, (3 << 30) - (2 << 20))
    after(5, 0)
    progress.stage("committing", total_tasks=8)
    after(3, 2)
    after(1, 6)
    assert told == [
        "starting (0 s)",
        "looking at 12 partitions (12 s)",
        "compacting 3 partitions: 0 % of 4.0 GiB (13 s)",
        "compacting 3 partitions: 12 % of 4.0 GiB, 341.3 MiB/s (14 s)",
        "compacting 3 partitions: 25 % of 4.0 GiB, 256.0 MiB/s, 12 s left (16 s)",
        "compacting 3 partitions: 25 % of 4.0 GiB, 25.6 MiB/s, 2 min left (52 s)",
        "compacting 3 partitions: 25 % of 4.0 GiB, 1.0 MiB/s, 50 min left (1012 s)",
        "compacting 3 partitions: 100 % of 4.0 GiB, 4.1 MiB/s (1012 s)",
        "compacting 3 partitions: 100 % of 4.0 GiB, 4.1 MiB/s (1017 s)",
        "committing: 2 of 8, 9 s left (1020 s)",
        "committing: 8 of 8 (1021 s)",
    ]


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.2, "1 s"),
        (59.1, "60 s"),
        (61, "2 min"),
        (3540, "59 min"),
        (3541, "1 h 0 min"),
        (7500, "2 h 5 min"),
    ],
)
def test_time_left_is_rounded_up(seconds: float, told: str) -> None:
    assert progress_module._duration(seconds) == told


def test_short_run_without_a_terminal_prints_no_progress(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Display() as progress:
        progress.stage("looking")
    assert capsys.readouterr() == ("", "")


def test_without_a_terminal_a_line_is_written_every_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert progress_module.LOG_EVERY_S == 10
    clock = Clock()
    told: list[str] = []
    progress = Display(clock=clock)
    progress.stage("compacting 1 partition", total_bytes=1 << 20)
    clock.now += 10
    progress.advance(1 << 19)
    monkeypatch.setattr(progress_module, "LOG_EVERY_S", 0.01)
    deadline = time.monotonic() + 60
    with progress:
        while len(told) < 2 and time.monotonic() < deadline:
            told += capsys.readouterr().err.splitlines(keepends=True)
            time.sleep(0.01)
    line = "winnow: compacting 1 partition: 50 % of 1.0 MiB, 51.2 KiB/s, 10 s left (10 s)\n"
    assert told[:2] == 2 * [line]


@pytest.mark.parametrize("profile", [False, True])
def test_no_progress_is_shown_until_a_question_is_answered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, profile: bool
) -> None:
    """Where there is no live line. A profiler stands between the verb and the display."""

    class Profiler(Silence):
        def tell(self, display: Told) -> None:
            assert isinstance(display, Display)

    def wait_for_a_line() -> None:
        deadline = time.monotonic() + 60
        while not capsys.readouterr().err:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    monkeypatch.setattr(progress_module, "LOG_EVERY_S", 0.01)
    monkeypatch.setattr("winnow.cli.call.started_spark", lambda **_: nullcontext())
    monkeypatch.setattr("winnow.cli.call.profiling_verb", lambda *_, **__: nullcontext(Profiler()))
    call = Call(CommandLine(profile=profile))
    with call.spark(), call.progress():
        wait_for_a_line()
        with call.paused():
            capsys.readouterr()
            time.sleep(0.2)
            assert capsys.readouterr().err == ""
        wait_for_a_line()


def test_on_a_terminal_the_line_is_live_and_erased_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with terminal() as (stream, written), redirect_stderr(stream), Display() as progress:
        progress.stage("compacting 1 partition", total_tasks=2)
        progress.advance(1)
        assert isinstance(progress._shown, Status)
        progress._shown._live.refresh()
    shown = written.decode()
    assert "compacting 1 partition: 1 of 2" in shown
    assert shown.rstrip("\r\n").endswith("\x1b[2K")


def test_note_beside_the_live_line_is_in_the_log_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    file = tmp_path / "run.log"
    with (
        terminal() as (stream, written),
        redirect_stderr(stream),
        logged(CommandLine(log_file=str(file))),
    ):
        complain("before")
        with Display() as progress:
            assert isinstance(progress._shown, Status)
            complain("during")
            tell_errors(["a line", "another line"])
            with progress.paused():
                complain("a question")
            complain("an answer")
        complain("after")
    lines = [line.partition("Z ")[2] for line in file.read_text(encoding="utf-8").splitlines()]
    assert lines == [
        *("winnow: before", "winnow: during", "a line", "another line"),
        *("winnow: a question", "winnow: an answer", "winnow: after"),
    ]
    shown = written.decode()
    assert all(line in shown for line in lines)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Display]:
    """Collect the progress that verbs report, except of quiet ones."""
    made: list[Display] = []

    def progress_of_verb(*, quiet: bool) -> AbstractContextManager[Told]:
        if quiet:
            return nullcontext(Silence())
        made.append(Display(clock=Clock()))
        return made[-1]

    for module in ("call", "inspect"):
        monkeypatch.setattr(f"winnow.cli.{module}.progress_on_stderr", progress_of_verb)
    return made


def test_inspecting_a_file_reports_its_bytes(tmp_path: Path, told: list[Display]) -> None:
    log = tmp_path / "t-0" / segment_file(0, LOG)
    log.parent.mkdir()
    log.write_bytes(
        b"".join(encode_batch([Record(offset, 0, b"k", bytes(3000))]) for offset in range(100))
    )
    assert run(["inspect", str(log)]) == 0
    assert [progress.line() for progress in told] == [
        f"reading {log.name}: 100 % of 299.9 KiB (0 s)"
    ]
    assert run(["inspect", str(log), "--quiet"]) == 0
    assert len(told) == 1


def test_recovery_reports_partitions(tmp_path: Path, told: list[Display]) -> None:
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=abc\n")
    (tmp_path / CLEAN_SHUTDOWN).touch()
    for number in range(3):
        directory = tmp_path / f"t-{number}"
        directory.mkdir()
        (directory / segment_file(0, LOG)).write_bytes(b"")
    assert run(["recover", str(tmp_path)]) == 0
    assert [progress.line() for progress in told] == ["recovering 3 partitions: 3 of 3 (0 s)"]
    assert run(["recover", str(tmp_path), "--quiet"]) == 0
    assert len(told) == 1


def test_quiet_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_on_stderr(quiet=True) as progress:
        assert isinstance(progress, Silence)
        progress.stage("compacting", total_bytes=7)
        progress.advance(7)
    with progress_on_stderr(quiet=False) as progress:
        assert isinstance(progress, Display)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("no_color", "attributes"), [("", True), ("1", False)])
def test_no_color_means_no_attributes_at_all(
    monkeypatch: pytest.MonkeyPatch, *, no_color: str, attributes: bool
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", no_color)
    with terminal() as (stream, written), redirect_stdout(stream):
        tell_page([Styled("sums", "bold"), Styled("left alone", "yellow")])
    assert b"sums" in written
    assert (b"\x1b" in written) == attributes
