"""A segment that others follow lacks its indexes and its end. A start recovers it, cuts the torn
batch, keeps the later segments, and serves a gap: the batch is lost, and its rest shows it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.kafka.starts.bases import VERSIONS, copy_base
from tests.unit.start.test_broker import NOW, log_of, start_of
from winnow.logdir.names import INDEX, LOG, TIMEINDEX, segment_file
from winnow.logdir.survey import survey_log_dirs
from winnow.policy.sources import Settings, parse_topic_set
from winnow.recovery.logs.run import recover_dirs
from winnow.recovery.logs.values import TruncateRequest
from winnow.start.values import Fate
from winnow.storage.places import Places

DELETES, COMPACTS = (parse_topic_set(f"*:cleanup.policy={one}") for one in ("delete", "compact"))


@pytest.fixture(params=VERSIONS)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    copy_base(request.param, "alone", tmp_path / "r")
    return tmp_path / "r" / "a"


def tear(log: Path, *, zeros: bool = False) -> None:
    """Take the indexes, and the end of the last batch."""
    data = log.read_bytes()
    log.write_bytes(data[:-9])
    if zeros:
        last = max(at for at in range(len(data)) if data[at : at + 8] == _last_offset(data))
        log.write_bytes(data[:last] + bytes(len(data) - last))
    for suffix in (INDEX, TIMEINDEX):
        log.with_suffix(suffix).unlink()


def _last_offset(data: bytes) -> bytes:
    at = last = 0
    while at < len(data):
        last, at = at, at + 12 + int.from_bytes(data[at + 8 : at + 12])
    return data[last : last + 8]


@pytest.mark.parametrize("policy", [DELETES, COMPACTS])
def test_torn_end_of_a_closed_segment_is_a_loss(root: Path, policy: object) -> None:
    first, following = sorted((root / "d-0").glob("*.log"))[1:3]
    tear(first)
    start = start_of(root, settings=Settings(topic_sets=(policy,)))
    log = log_of(start, "d-0")
    assert log.fate is Fate.LOSES
    assert f"{first.name} is cut at offset " in log.reason
    assert f", and the next segment begins at offset {int(following.stem)}: " in log.reason
    assert not start.is_safe


def test_zeros_at_the_end_of_a_closed_segment_are_a_loss_only_if_offsets_are_missing(
    root: Path,
) -> None:
    log = sorted((root / "d-0").glob("*.log"))[1]
    whole = log.read_bytes()
    tear(log)
    log.write_bytes(whole + bytes(4096))
    start = partial(start_of, root)
    assert log_of(start(settings=Settings(topic_sets=(DELETES,))), "d-0").fate is Fate.RECOVERS
    log.with_suffix(INDEX).touch()
    log.with_suffix(TIMEINDEX).touch()
    log.write_bytes(whole)
    tear(log, zeros=True)
    assert log_of(start(settings=Settings(topic_sets=(DELETES,))), "d-0").fate is Fate.LOSES
    assert log_of(start(settings=Settings(topic_sets=(COMPACTS,))), "d-0").fate is Fate.RECOVERS


def test_recovery_leaves_a_log_alone_whose_end_only_deleted_files_have(root: Path) -> None:
    """A recovery that goes on would lower the checkpoints that show it, and write the marker."""
    (root / ".kafka_cleanshutdown").unlink()
    directory = root / "d-0"
    for log in sorted(directory.glob("*.log"))[2:]:
        for suffix in (LOG, INDEX, TIMEINDEX):
            path = log.with_suffix(suffix)
            path.rename(f"{path}.deleted")
    before = {path.name: path.stat().st_size for path in directory.iterdir()}
    request = TruncateRequest(settings=Settings(topic_sets=(DELETES,)), truncate=True, now=NOW)
    for _ in range(2):
        dirs = survey_log_dirs(Places(), [str(root)])
        [done], [start] = recover_dirs(Places(), dirs, request, run_id="run")
        [error] = [one.error for one in done.logs if one.name == "d-0"]
        assert "have records that the log has lost" in (error or "")
        assert not done.marked
        assert log_of(start, "d-0").fate is Fate.LOSES
        assert {path.name: path.stat().st_size for path in directory.iterdir()} == before
    consented = replace(request, lose_records=True)
    [done], [start] = recover_dirs(Places(), dirs, consented, run_id="again")
    assert not [one.error for one in done.logs if one.error]


def test_torn_end_of_the_last_segment_is_none(root: Path) -> None:
    (root / ".kafka_cleanshutdown").unlink()
    tear(max((root / "d-0").glob("*.log")))
    for name in ("recovery-point", "replication"):
        (root / f"{name}-offset-checkpoint").unlink()
    start = start_of(root, settings=Settings(topic_sets=(DELETES,)))
    assert log_of(start, "d-0").fate is Fate.RECOVERS


def test_truncate_requires_lose_records_for_a_torn_closed_segment(root: Path) -> None:
    (root / ".kafka_cleanshutdown").unlink()
    log = sorted((root / "d-0").glob("*.log"))[1]
    tear(log)
    torn = log.read_bytes()
    request = TruncateRequest(settings=Settings(topic_sets=(DELETES,)), truncate=True, now=NOW)
    dirs = survey_log_dirs(Places(), [str(root)])
    [done], _ = recover_dirs(Places(), dirs, request, run_id="run")
    [error] = [one.error for one in done.logs if one.name == "d-0"]
    assert "is not done without --lose-records" in (error or "")
    assert log.read_bytes() == torn
    assert not done.marked
    assert (root / "d-0" / segment_file(0, LOG)).exists()
