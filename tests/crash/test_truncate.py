"""`recover --truncate` is stopped anywhere. Kafka's loader then reaches the log that it reaches
without Winnow, and so does Winnow when it runs again (S8.9).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.replay import CrashPoint, RecordingStorage, crash_points
from tests.crash.runs import CrashRun
from tests.kafka.judge.judge import Kafka
from tests.kafka.recover.compare import (
    EXPIRATION_MS,
    INTERVAL_BYTES,
    NOW,
    assert_same_log_dir,
    log_dir_of_tails,
    partitions_of,
    recover_with_winnow,
    sources,
)
from winnow.logdir.names import (
    CLEAN_SHUTDOWN,
    INDEX,
    LOG,
    RECOVERY_POINT_CHECKPOINT,
    TIMEINDEX,
)

SEEDS = (7, 11, 23, 42)
"""Each is a log directory with up to three damaged logs."""
PREALLOCATED = (7, 23)
"""Those with zeros at the end of the indexes of active segments, as a broker leaves them."""
AT_ONCE = 40


@pytest.fixture(scope="module")
def among(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    return sources(tmp_path_factory.mktemp("sources"))


def load_with_kafka(kafka: Kafka, log_dirs: list[Path]) -> None:
    kafka.recover(
        log_dirs,
        now=NOW,
        index_interval=INTERVAL_BYTES,
        producer_expiration_ms=EXPIRATION_MS,
    )


def recover(storage: RecordingStorage, root: Path) -> None:
    assert recover_with_winnow(root, storage=storage).marked


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("out_of_order", [False, True], ids=["in order", "reordered"])
def test_crash_at_any_point_leaves_the_same_log_to_kafka_and_to_winnow(
    seed: int, *, out_of_order: bool, kafka: Kafka, tmp_path: Path, among: tuple[Path, ...]
) -> None:
    pristine, whole = tmp_path / "pristine", tmp_path / "whole"
    log_dir_of_tails(pristine, range(100 * seed, 100 * seed + 3), among, all_logs=True)
    if seed in PREALLOCATED:
        _preallocate(pristine)
    shutil.copytree(pristine, whole)
    load_with_kafka(kafka, [whole])
    twice = tmp_path / "twice"
    shutil.copytree(whole, twice)
    load_with_kafka(kafka, [twice])
    marked = 0
    states: list[tuple[str, Path, Path]] = []
    points = crash_points(
        pristine,
        tmp_path / "crash",
        recover,
        out_of_order=out_of_order,
        every=7 if out_of_order else 1,
    )
    for number, point in enumerate(points):
        copy = tmp_path / "loaded" / str(number)
        shutil.copytree(point.root, copy)
        is_marked = (copy / CLEAN_SHUTDOWN).exists()
        states.append((point.label, copy, twice if is_marked else whole))
        marked += is_marked
        if number % 3 == 0:
            _run_again(point, whole)
    for begin in range(0, len(states), AT_ONCE):
        load_with_kafka(kafka, [copy for _, copy, _ in states[begin : begin + AT_ONCE]])
    for label, copy, expected in states:
        try:
            # A broker that finds the marker and no snapshot takes an empty one.
            assert_same_log_dir(copy, expected, ignore_empty=expected is twice)
        except AssertionError as error:
            raise AssertionError(f"{label}: {error}") from error
    assert marked, "no state with the marker: the last step was not tried"


def _preallocate(log_dir: Path) -> None:
    """Append zeros to the indexes of each active segment, to 64 KiB, in whole entries."""
    extended = 0
    for partition in partitions_of(log_dir):
        active = max(partition.glob(f"*{LOG}"))
        for suffix, entry in ((INDEX, 8), (TIMEINDEX, 12)):
            index = active.with_suffix(suffix)
            if index.exists():
                with index.open("ab") as file:
                    file.write(bytes(2**16 // entry * entry - file.tell() % entry))
                extended += 1
    assert extended


def _run_again(point: CrashPoint, whole: Path) -> None:
    """With the marker there is nothing to do: a broker removes what is left of old snapshots."""
    if (point.root / CLEAN_SHUTDOWN).exists():
        return
    assert recover_with_winnow(point.root).marked, point.label
    try:
        assert_same_log_dir(point.root, whole)
    except AssertionError as error:
        raise AssertionError(f"{point.label}: {error}") from error


@pytest.mark.spark
@pytest.mark.parametrize("name", ["compact", "compact,delete", "delete", "transactions"])
@pytest.mark.parametrize(
    ("out_of_order", "every"),
    [
        (False, 6),
        (True, 40),
        pytest.param(False, 1, marks=pytest.mark.slow),
        pytest.param(True, 1, marks=pytest.mark.slow),
    ],
)
def test_crash_state_of_a_run_is_recovered_as_by_kafka(
    name: str,
    *,
    out_of_order: bool,
    every: int,
    crash_run: Callable[[str], CrashRun],
    kafka: Kafka,
    tmp_path: Path,
) -> None:
    """The machine stops, and takes Winnow along in the middle of a run."""
    run = crash_run(name)
    pairs: list[tuple[str, Path, Path]] = []
    points = run.crashes(tmp_path / "crash", out_of_order=out_of_order, every=every)
    for number, point in enumerate(points):
        if point.in_order is out_of_order:
            continue
        ours, theirs = (tmp_path / who / str(number) for who in ("ours", "theirs"))
        shutil.copytree(point.root, ours)
        (ours / CLEAN_SHUTDOWN).unlink(missing_ok=True)
        (ours / RECOVERY_POINT_CHECKPOINT).unlink(missing_ok=True)
        shutil.copytree(ours, theirs)
        assert recover_with_winnow(ours).marked, point.label
        pairs.append((point.label, ours, theirs))
    for begin in range(0, len(pairs), AT_ONCE):
        load_with_kafka(kafka, [theirs for _, _, theirs in pairs[begin : begin + AT_ONCE]])
    for label, ours, theirs in pairs:
        try:
            assert_same_log_dir(ours, theirs)
        except AssertionError as error:
            raise AssertionError(f"{label}: {error}") from error
    assert pairs
