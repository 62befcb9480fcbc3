"""`--on-corrupt`: either nothing starts beside damage, or the damage is removed from the log and
Kafka can use the rest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures.data import copy_tree
from tests.kafka.judge.judge import Kafka
from tests.spark.damage import (
    LENGTH_AT,
    Damage,
    Log,
    field,
    flipped_bit,
    huge_delta,
    offset_back,
    torn,
    zeros_at_the_end,
)
from tests.spark.runs import (
    NOW,
    AtStage,
    add_partition,
    by_name,
    changes,
    clean,
    files_of,
    new_log_dir,
    run,
    settings,
)
from winnow.api import recover
from winnow.cleaning.commit.quarantine import commit, stage_quarantine
from winnow.cleaning.request import Request
from winnow.cleaning.result import PartitionResult, RunResult
from winnow.errors import CorruptLogError
from winnow.logdir.lock import lock_log_dir
from winnow.logdir.survey import survey_log_dirs
from winnow.runtime.stop import Stop
from winnow.state import TopicPartition
from winnow.storage.local import LocalStorage
from winnow.wire.batch import CONTROL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SOURCE = "c-4p-1"
SETS = (
    "q-*:cleanup.policy=compact",
    "q-*:internal.segment.bytes=65536",
)
CONFIG = {"cleanup.policy": "compact", "internal.segment.bytes": 65536}


def two_places(directory: Path) -> str:
    """In one segment and in the next."""
    flipped_bit(directory)
    return field(1, LENGTH_AT, ">i", 2**30, segment=0)(directory)


def offset_ahead(directory: Path) -> str:
    """The batches after it seem to be what is wrong."""
    log = Log(directory, 1)
    log.put(3, 0, ">q", int(log.rows["base_offset"][5]))
    log.write()
    return log.at(4)


def zeros_after(segment: int) -> Damage:
    def damage(directory: Path) -> str:
        log = Log(directory, segment)
        end = len(log.data)
        log.data += bytes(4096)
        log.write()
        return rf"at byte {end}\b"

    return damage


def active_too(directory: Path) -> str:
    """A cleaning does not read the active segment, but a quarantine does."""
    log = Log(directory, -1)
    log.data[log.position(0) + 70] ^= 1
    log.write()
    return flipped_bit(directory)


DAMAGE: Mapping[str, Damage] = {
    "bit": flipped_bit,
    "size": field(2, LENGTH_AT, ">i", 77),
    "offset": offset_back,
    "ahead": offset_ahead,
    "delta": huge_delta,
    "torn": torn(1),
    "zeros": zeros_after(1),
    "two": two_places,
}
ACTIVE: Mapping[str, Damage] = {"active": zeros_at_the_end, "both": active_too}


@dataclass(frozen=True)
class Quarantine:
    """One run over a log directory of damaged partitions, and copies of them before the run."""

    log_dir: Path
    damaged: Path
    result: RunResult

    @property
    def results(self) -> dict[str, PartitionResult]:
        return by_name(self.result)


@pytest.fixture(scope="module")
def quarantine(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Quarantine:
    home = tmp_path_factory.mktemp("quarantine")
    log_dir = new_log_dir(home / "log")
    for name, damage in {**DAMAGE, **ACTIVE}.items():
        damage(add_partition(log_dir, f"q-{name}-0", SOURCE))
    add_partition(log_dir, "q-sound-0", SOURCE)
    (next((add_partition(log_dir, "q-index-0", SOURCE)).glob("*.index"))).write_bytes(b"\7" * 77)
    copy_tree(log_dir, home / "damaged")
    return Quarantine(
        log_dir, home / "damaged", run(clean, spark, log_dir, sets=SETS, on_corrupt="quarantine")
    )


def moved(log_dir: Path, name: str) -> tuple[Path, dict[str, Any]]:
    (directory,) = (log_dir / name).glob(".winnow-quarantine-*")
    return directory, json.loads((directory / "manifest.json").read_text())


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_moved_aside_completely(quarantine: Quarantine, name: str) -> None:
    result = quarantine.results[f"q-{name}-0"]
    assert result.error is None
    assert result.actions == ("compacted",)
    assert "an older value of a key may be its newest now" in result.reason
    directory, manifest = moved(quarantine.log_dir, f"q-{name}-0")
    total = 0
    for segment in manifest["segments"]:
        data = (
            quarantine.damaged / f"q-{name}-0" / f"{segment['base_offset']:020d}.log"
        ).read_bytes()
        assert len(data) == segment["log_bytes"]
        for damage in segment["damages"]:
            copy = (directory / damage["file"]).read_bytes()
            assert copy == data[damage["start"] : damage["end"]]
            assert hashlib.sha256(copy).hexdigest() == damage["sha256"]
            total += len(copy)
    assert result.quarantined_bytes == total > 0


@pytest.mark.parametrize("name", DAMAGE)
def test_no_whole_batch_is_lost(quarantine: Quarantine, name: str) -> None:
    sound = Log(quarantine.log_dir.parent / "damaged" / "q-sound-0", 1)
    spans = [(int(row["position"]), int(row["position"] + row["size"])) for row in sound.rows]
    _, manifest = moved(quarantine.log_dir, f"q-{name}-0")
    damages = [
        d for s in manifest["segments"] if s["base_offset"] == sound.base for d in s["damages"]
    ]
    assert [(d["start"], d["end"]) for d in damages if (d["start"], d["end"]) not in spans] == (
        [(damages[0]["start"], damages[0]["end"])] if name in {"torn", "zeros"} else []
    )
    assert len(damages) == 1


@pytest.mark.parametrize("name", DAMAGE)
def test_remaining_log_equals_kafkas(
    quarantine: Quarantine, name: str, kafka: Kafka, tmp_path: Path
) -> None:
    """Kafka gets the damaged segments with the same bytes cut out, and builds their indexes
    itself.
    """
    theirs = tmp_path / f"q-{name}-0"
    copy_tree(quarantine.damaged / theirs.name, theirs)
    _, manifest = moved(quarantine.log_dir, theirs.name)
    for segment in manifest["segments"]:
        log = theirs / f"{segment['base_offset']:020d}.log"
        data = log.read_bytes()
        for damage in reversed(segment["damages"]):
            data = data[: damage["start"]] + data[damage["end"] :]
        log.write_bytes(data)
        for suffix in (".index", ".timeindex"):
            log.with_suffix(suffix).unlink()
    assert kafka.load(theirs, now=NOW, config=CONFIG).error is None
    kafka.clean(theirs, now=NOW, config=CONFIG)
    ours = tmp_path / "ours" / theirs.name
    ours.parent.mkdir()
    copy_tree(quarantine.log_dir / theirs.name, ours)
    mine, wanted = (kafka.load(directory, now=NOW, config=CONFIG) for directory in (ours, theirs))
    assert mine.error is None
    assert mine.records == wanted.records
    assert {key: mine.state[key] for key in ("start_offset", "end_offset")} == {
        key: wanted.state[key] for key in ("start_offset", "end_offset")
    }


@pytest.mark.parametrize("name", ACTIVE)
def test_active_segment_is_never_rewritten(quarantine: Quarantine, name: str) -> None:
    result = quarantine.results[f"q-{name}-0"]
    assert "the active segment is damaged, and it is never rewritten" in (result.error or "")
    assert result.quarantined_bytes is None
    assert (
        changes(
            files_of(quarantine.damaged / f"q-{name}-0"),
            files_of(quarantine.log_dir / f"q-{name}-0"),
        )
        == []
    )


def test_damage_outside_batches_is_not_quarantined(quarantine: Quarantine) -> None:
    result = quarantine.results["q-index-0"]
    assert "nothing was quarantined: " in (result.error or "")
    assert result.quarantined_bytes is None
    assert (
        changes(
            files_of(quarantine.damaged / "q-index-0"), files_of(quarantine.log_dir / "q-index-0")
        )
        == []
    )


def test_sound_partition_is_cleaned_once(quarantine: Quarantine) -> None:
    result = quarantine.results["q-sound-0"]
    assert (result.error, result.quarantined_bytes, result.actions) == (None, None, ("compacted",))
    assert not list((quarantine.log_dir / "q-sound-0").glob(".winnow*"))


def test_exit_code_reports_quarantined_records(spark: SparkSession, tmp_path: Path) -> None:
    log_dir = new_log_dir(tmp_path / "log")
    size = sum(
        path.stat().st_size for path in add_partition(log_dir, "q-bad-0", SOURCE).glob("*.log")
    )
    flipped_bit(log_dir / "q-bad-0")
    result = run(clean, spark, log_dir, sets=SETS, on_corrupt="quarantine")
    (partition,) = result.partitions
    assert (result.exit_code, result.status, partition.error) == (3, "partial", None)
    assert partition.bytes_before == size
    assert run(clean, spark, log_dir, sets=SETS, on_corrupt="quarantine").exit_code == 0


def test_undo_restores_the_damage(spark: SparkSession, tmp_path: Path) -> None:
    """The quarantined files remain, also when all kept files are purged."""
    log_dir = new_log_dir(tmp_path / "log")
    directory = add_partition(log_dir, "q-bad-0", SOURCE)
    flipped_bit(directory)
    before = files_of(directory)
    result = run(clean, spark, log_dir, sets=SETS, on_corrupt="quarantine", keep_replaced=True)
    recover([str(log_dir)], undo_run=result.run_id)
    aside, _ = moved(log_dir, "q-bad-0")
    changed = changes(before, files_of(directory))
    assert changed
    assert all(name.startswith(aside.name) for name in changed), changed
    run(clean, spark, log_dir, sets=SETS, on_corrupt="quarantine", keep_replaced=True)
    recover([str(log_dir)], purge_run="all")
    assert len(list(directory.glob(".winnow-quarantine-*"))) == 2
    assert not list(directory.glob(".winnow-kept-*"))


@pytest.mark.parametrize("stage", ["looking for damage in", "quarantined"])
def test_stopped_run_has_quarantined_all_or_nothing(
    spark: SparkSession, tmp_path: Path, stage: str
) -> None:
    log_dir = new_log_dir(tmp_path / "log")
    flipped_bit(add_partition(log_dir, "q-bad-0", SOURCE))
    before, stop = files_of(log_dir), Stop()
    progress = AtStage(stage, lambda: stop.request("by a test"))
    result = run(
        clean, spark, log_dir, sets=SETS, on_corrupt="quarantine", stop=stop, progress=progress
    )
    (partition,) = result.partitions
    assert result.exit_code == 3
    assert "stopped, by a test" in (partition.error or "")
    changed = changes(before, files_of(log_dir))
    if stage == "quarantined":
        assert partition.quarantined_bytes
        assert run(clean, spark, log_dir, sets=SETS).exit_code == 0
    else:
        assert (partition.quarantined_bytes, changed) == (None, [])


def test_damaged_transaction_marker_changes_no_verdict(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    """One marker after the other is damaged. Either the remaining log means the same to Kafka, or
    nothing changed.
    """
    log_dir = new_log_dir(tmp_path / "log")
    sound = add_partition(log_dir, "q-t-0", "t-closed-0")
    verdicts = {"moved": 0, "refused": 0}
    segments = sorted(sound.glob("*.log"))[:-1]
    controls = [
        (number, batch)
        for number in range(len(segments))
        for batch, row in enumerate(Log(sound, number).rows)
        if row["attributes"] & CONTROL
    ]
    assert len(controls) > 20
    for number, batch in controls[::4]:
        directory = add_partition(log_dir, f"q-{number}x{batch}-0", "t-closed-0")
        log = Log(directory, number)
        log.data[log.position(batch) + 65] ^= 1
        log.write()
        before = files_of(directory)
        verdict = _try(spark, log_dir, directory.name)
        verdicts["moved" if verdict is None else "refused"] += 1
        if verdict is not None:
            assert "transaction" in verdict, verdict
            assert changes(before, files_of(directory)) == []
            continue
        views = []
        for name in (sound.name, directory.name):
            copy = tmp_path / f"{number}x{batch}" / name
            copy.parent.mkdir(exist_ok=True)
            copy_tree(log_dir / name, copy)
            views.append(kafka.load(copy, unclean=True, now=NOW))
        assert views[0].state["last_stable_offset"] == views[1].state["last_stable_offset"]
    assert all(verdicts.values()), verdicts


def _try(spark: SparkSession, log_dir: Path, name: str) -> str | None:
    """Why it was refused; None if it was moved."""
    request = Request(settings=settings(*SETS), topics=(), now=NOW, touch=True, run_id="run")
    topic, _, partition = name.rpartition("-")
    with lock_log_dir(str(log_dir)):
        (home,) = survey_log_dirs(LocalStorage(), [str(log_dir)])
        try:
            state, staged = stage_quarantine(
                spark.sparkContext,
                home,
                TopicPartition(topic, int(partition)),
                request,
            )
        except CorruptLogError as error:
            return str(error)
        commit(state, staged, request)
    return None


@pytest.mark.parametrize(
    ("damage", "code", "room"),
    [(torn(1), 1, None), (flipped_bit, 3, None), (flipped_bit, 3, 50_000)],
    ids=["seen at once", "found later", "found in little room"],
)
def test_fail_compacts_nothing_beside_damage(
    spark: SparkSession,
    tmp_path: Path,
    damage: Callable[[Path], str],
    code: int,
    room: int | None,
) -> None:
    log_dir = new_log_dir(tmp_path / "log")
    damage(add_partition(log_dir, "q-bad-0", SOURCE))
    add_partition(log_dir, "q-good-0", SOURCE)
    add_partition(log_dir, "q-d-0", "d-size-0")
    before = files_of(log_dir)
    sets = (*SETS, "q-d:cleanup.policy=delete", "q-d:retention.bytes=200000", "q-d:retention.ms=-1")
    result = run(clean, spark, log_dir, sets=sets, on_corrupt="fail", max_extra_space=room)
    assert result.exit_code == code
    results = by_name(result)
    assert "damaged" in (results["q-good-0"].error or "")
    assert results["q-good-0"].actions == ("none",)
    changed = changes(before, files_of(log_dir))
    if code == 1:
        assert changed == []
        assert "q-bad-0 is damaged" in (results["q-d-0"].error or "")
    else:
        assert all(name.startswith("q-d-0") for name in changed), changed
        assert results["q-d-0"].actions == ("retained",)
