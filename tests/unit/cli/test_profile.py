import io
import subprocess
import time
from contextlib import nullcontext

import pytest

from winnow.cli.call import Call
from winnow.cli.options import CommandLine
from winnow.cli.profile import began_ms, table
from winnow.runtime.profile import Phase, Profile
from winnow.runtime.progress import Silence

PROFILE = Profile(
    4.0,
    (
        Phase(name="starting Spark", seconds=3.0, driver_seconds=3.0),
        Phase(
            name="compacting 2 partitions",
            seconds=1.0,
            driver_seconds=0.25,
            jobs=1,
            stages=3,
            tasks=9,
            task_seconds=1.5,
            python_cpu_seconds=1.0,
            read_back_seconds=0.3,
            jvm_cpu_seconds=0.004,
            bytes_read=3 << 20,
            bytes_written=1 << 20,
            shuffle_bytes_written=2048,
        ),
    ),
)


def test_table_has_a_line_per_phase_and_a_total() -> None:
    assert list(table(PROFILE)) == [
        "profile: 4.00 s until here",
        (
            "phase                    seconds  share  driver  jobs  tasks  task s  Python s     "
            "read  "
            "written  shuffled"
        ),
        "starting Spark              3.00   75 %    3.00",
        (
            "compacting 2 partitions     1.00   25 %    0.25     1      9    1.50      1.00  3.0 "
            "MiB  "
            "1.0 MiB   2.0 KiB"
        ),
        (
            "all                         4.00  100 %    3.25     1      9    1.50      1.00  3.0 "
            "MiB  "
            "1.0 MiB   2.0 KiB"
        ),
        "reading back what was written: 0.30 s of the tasks' time",
    ]


def test_run_without_profile_measures_and_prints_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    call = Call(CommandLine(quiet=True))
    monkeypatch.setattr("winnow.cli.call.started_spark", lambda **_: nullcontext())
    with call.spark():
        call.begins("anything")
        with call.progress() as progress:
            assert isinstance(progress, Silence)
    assert call.profile() == {}
    call.tell_profile()
    assert capsys.readouterr() == ("", "")


def test_run_of_zero_seconds_has_no_shares() -> None:
    assert "share" not in io.StringIO("\n".join(table(Profile(0.0, ())))).read()


def test_begin_of_a_process_is_exact_to_a_few_hundredths_of_a_second() -> None:
    before = time.time() * 1000
    with subprocess.Popen(["sleep", "60"]) as process:
        after = time.time() * 1000
        time.sleep(0.3)
        began = began_ms(process.pid)
        process.kill()
    assert before - 30 <= began <= after + 30
