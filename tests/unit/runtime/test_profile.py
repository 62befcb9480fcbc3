from collections import Counter

import pytest

from winnow.runtime.profile import Job, Mark, Phase, Stages, profile_of


def stages(*numbers: int, tasks: int = 1) -> Stages:
    return {number: Counter(numCompleteTasks=tasks) for number in numbers}


def test_phases_are_contiguous() -> None:
    marks = [Mark("a", 1000), Mark("b", 1250), Mark("c", 1250), Mark("end", 4000)]
    profile = profile_of(marks, [], {})
    assert [(phase.name, phase.seconds, phase.driver_seconds) for phase in profile.phases] == [
        ("a", 0.25, 0.25),
        ("c", 2.75, 2.75),
    ]
    assert profile.seconds == sum(phase.seconds for phase in profile.phases) == 3.0


def test_phases_of_one_name_are_merged_at_the_first() -> None:
    marks = [
        Mark("wave", 0),
        Mark("commit", 10),
        Mark("wave", 15),
        Mark("commit", 35),
        Mark("end", 36),
    ]
    jobs = [Job(0, 10, (0,)), Job(15, 30, (1,))]
    ran = stages(0, tasks=2) | stages(1, tasks=3)
    wave, commit = profile_of(marks, jobs, ran).phases
    assert (wave.name, wave.seconds, wave.jobs, wave.stages, wave.tasks) == ("wave", 0.03, 2, 2, 5)
    assert (commit.name, commit.seconds, commit.jobs) == ("commit", 0.006, 0)


@pytest.mark.parametrize(
    ("jobs", "alone"),
    [
        ([], 100),
        ([(0, 100)], 0),
        ([(10, 30), (20, 50), (60, 70)], 50),
        ([(20, 50), (25, 30), (10, 22)], 60),
        ([(90, 250)], 90),
        ([(40, None)], 40),
    ],
)
def test_driver_time_is_the_time_without_a_job(
    jobs: list[tuple[int, int | None]], alone: int
) -> None:
    marks = [Mark("a", 0), Mark("b", 100), Mark("end", 300)]
    profile = profile_of(marks, [Job(begin, end, ()) for begin, end in jobs], {})
    assert profile.phases[0].driver_seconds == alone / 1000


def test_job_belongs_to_the_phase_that_submitted_it() -> None:
    marks = [Mark("a", 0), Mark("b", 100), Mark("end", 200)]
    jobs = [Job(99, 150, (1,)), Job(100, 120, (2,)), Job(200, 201, (3,))]
    first, second = profile_of(marks, jobs, stages(1, 2, 3)).phases
    assert (first.jobs, first.stages, second.jobs, second.stages) == (1, 1, 2, 2)


def test_stage_reused_by_a_later_job_is_counted_once() -> None:
    marks = [Mark("a", 0), Mark("b", 100), Mark("end", 200)]
    first, second = profile_of(
        marks, [Job(1, 50, (0, 1)), Job(101, 150, (0, 2))], stages(0, 2)
    ).phases
    assert (first.tasks, second.tasks) == (1, 1)


def test_counts_of_spark_and_tasks_are_converted_to_units() -> None:
    counts = Counter(
        numCompleteTasks=3,
        numFailedTasks=1,
        executorRunTime=1500,
        executorCpuTime=250_000_000,
        jvmGcTime=20,
        shuffleWriteBytes=11,
        shuffleWriteRecords=3,
        shuffleReadBytes=13,
        diskBytesSpilled=17,
        read=100,
        written=40,
        cpu_ns=1_250_000_000,
        read_back_ns=500_000_000,
    )
    of_others = {8: Counter(read=5, written=5, cpu_ns=5)}
    (phase,) = profile_of(
        [Mark("a", 0), Mark("end", 1000)], [Job(0, 900, (7,))], {7: counts, **of_others}
    ).phases
    assert phase == Phase(
        name="a",
        seconds=1.0,
        driver_seconds=0.1,
        jobs=1,
        stages=1,
        tasks=4,
        task_seconds=1.5,
        python_cpu_seconds=1.25,
        read_back_seconds=0.5,
        jvm_cpu_seconds=0.25,
        bytes_read=100,
        bytes_written=40,
        shuffle_bytes_written=11,
        shuffle_records_written=3,
        shuffle_bytes_read=13,
        spilled_bytes=17,
        gc_seconds=0.02,
    )
