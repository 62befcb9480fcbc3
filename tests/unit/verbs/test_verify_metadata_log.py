"""The cluster's metadata log is judged as what it is: recovered at each start, with snapshots of a
header, records and a footer.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.data import copy_log_dir
from tests.unit.cleaning.sweeps import brief, findings
from tests.unit.logdir.metadata_logs import COMPACT, FOOTER, HEADER, batch, control, log, snapshot
from tests.unit.wire.metadata_values import framed
from winnow.logdir import metadata_log as metadata_log_files
from winnow.logdir.metadata import METADATA_DIR
from winnow.logdir.metadata_log import read_snapshot
from winnow.storage.contract import Storage
from winnow.verbs.verify import metadata_log
from winnow.verbs.verify.findings import Finding
from winnow.wire.batch import Codec

SNAPSHOT = f"{METADATA_DIR}/00000000000000000030-0000000001.checkpoint"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return copy_log_dir("clean", tmp_path / "log-dir", only=[METADATA_DIR, "c-tomb-0", "c-4p-*"])


def only(log_dir: Path) -> Finding:
    [found] = findings(log_dir)
    return found


def last_log(log_dir: Path) -> Path:
    return max((log_dir / METADATA_DIR).glob("*.log"))


@pytest.mark.parametrize(
    "name",
    [
        "00000000000000000010-0000000001.checkpoint.deleted",
        "00000000000000000010-0000000001.checkpoint.part",
        "00000000000000000000.log.deleted",
    ],
)
def test_files_that_a_stop_leaves_are_normal(log_dir: Path, name: str) -> None:
    (log_dir / METADATA_DIR / name).write_bytes(b"x" * 100)
    assert brief(log_dir) == []


def test_indexes_do_not_matter(log_dir: Path) -> None:
    """A 4.4.0 broker leaves them at their preallocated size, and rebuilds them when it starts."""
    for suffix in (".index", ".timeindex"):
        path = last_log(log_dir).with_suffix(suffix)
        path.write_bytes(path.read_bytes().ljust(10 << 20, b"\0"))
    assert brief(log_dir) == []
    path.unlink()
    assert brief(log_dir) == []


def test_link_is_named_and_the_partitions_beside_it_are_checked(log_dir: Path) -> None:
    target = log_dir.parent / "elsewhere"
    (log_dir / METADATA_DIR).rename(target)
    (log_dir / METADATA_DIR).symlink_to(target)
    assert only(log_dir).message == f"not checked: a symbolic link to {target}"


def test_torn_end_is_cut_at_each_start(log_dir: Path) -> None:
    path = last_log(log_dir)
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"\x07" * 50)
    assert [(f.kind, f.position, f.is_damage) for f in findings(log_dir)] == [
        ("torn-tail", size, False)
    ]


WHOLE = [control(0, HEADER), batch(1, COMPACT), control(2, FOOTER)]


@pytest.mark.parametrize(
    "content",
    [b"", b"".join(WHOLE)[:-5], b"".join(WHOLE[:-1]), b"".join(WHOLE[1:]), bytes(500)],
    ids=["empty", "torn", "no footer", "no header", "zeros"],
)
def test_newest_snapshot_that_is_not_whole_is_reported(log_dir: Path, content: bytes) -> None:
    """The log has all records, so it may go, but nothing else."""
    (log_dir / SNAPSHOT).write_bytes(content)
    found = only(log_dir)
    assert (found.kind, found.file, found.is_damage) == ("metadata", SNAPSHOT, True)
    assert "a broker does not start with it" in found.message
    assert "move this file elsewhere" in found.message
    assert "Never delete __cluster_metadata-0" in found.meaning
    assert "delete its directory" not in found.meaning


def test_older_snapshot_that_is_not_whole_is_not_read(log_dir: Path) -> None:
    (log_dir / SNAPSHOT).write_bytes(b"")
    snapshot(log_dir / METADATA_DIR, 31, COMPACT)
    messages = [found.message for found in findings(log_dir) if found.file == SNAPSHOT]
    assert len(messages) == 1
    assert "A broker reads a newer snapshot" in messages[0]


def test_torn_snapshot_without_the_records_below_it_is_not_to_be_moved(log_dir: Path) -> None:
    for path in (log_dir / METADATA_DIR).glob("0*"):
        path.unlink()
    log(log_dir / METADATA_DIR, COMPACT, base=30)
    (log_dir / SNAPSHOT).write_bytes(b"".join(WHOLE[:-1]))
    torn, state = findings(log_dir)
    assert (torn.file, state.file) == (SNAPSHOT, METADATA_DIR)
    assert "move this file elsewhere" not in torn.message
    assert "sets all 5 partitions beside it aside" in state.message


def without_bytes(directory: Path) -> None:
    for path in directory.glob("0*"):
        path.unlink()
    (directory / "00000000000000000000.log").touch()


def without_files(directory: Path) -> None:
    for path in directory.iterdir():
        path.unlink()


def without_topics(directory: Path) -> None:
    without_bytes(directory)
    log(directory)


@pytest.mark.parametrize("lose", [without_bytes, without_files, without_topics])
def test_log_without_topics_beside_partitions_is_reported(
    log_dir: Path, lose: Callable[[Path], None]
) -> None:
    lose(log_dir / METADATA_DIR)
    found = only(log_dir)
    assert (found.kind, found.file, found.is_damage) == ("metadata", METADATA_DIR, True)
    assert found.message.endswith(
        "Without the records of another controller, a broker starts empty and sets all 5 "
        "partitions beside it aside"
    )


def test_node_that_has_not_started_yet_is_sound(tmp_path: Path) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "log-dir", only=[METADATA_DIR])
    without_bytes(log_dir / METADATA_DIR)
    assert brief(log_dir) == []


def test_broker_of_zookeeper_does_not_use_it(log_dir: Path) -> None:
    without_bytes(log_dir / METADATA_DIR)
    meta = log_dir / "meta.properties"
    meta.write_text(re.sub("version=1", "version=0", meta.read_text()).replace("node.", "broker."))
    assert brief(log_dir) == []


@pytest.mark.parametrize("content", ["", "{", "[]", "{}"])
def test_quorum_state_that_cannot_be_read_is_reported(log_dir: Path, content: str) -> None:
    path = log_dir / METADATA_DIR / "quorum-state"
    path.write_text(content)
    assert brief(log_dir) == [("metadata", f"{METADATA_DIR}/quorum-state", None)]
    path.unlink()
    assert brief(log_dir) == []


@pytest.mark.parametrize("content", [b"", b"".join(WHOLE[:-1])])
def test_bootstrap_checkpoint_that_is_not_whole_is_reported(log_dir: Path, content: bytes) -> None:
    path = log_dir / "bootstrap.checkpoint"
    path.write_bytes(b"".join(WHOLE))
    assert brief(log_dir) == []
    path.write_bytes(content)
    assert brief(log_dir) == [("metadata", "bootstrap.checkpoint", None)]


def test_a_snapshot_with_many_names_is_read_once(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hard link costs nothing, and a snapshot may have many records."""
    log_dir = log_dir / METADATA_DIR
    first = snapshot(log_dir, 30, COMPACT)
    for end in range(31, 50):
        os.link(first, log_dir / f"{end:020d}-0000000001.checkpoint")
    read: list[str] = []

    def counted(storage: Storage, path: str, **more: Any) -> Any:
        read.append(path.removeprefix(f"{log_dir}/"))
        return read_snapshot(storage, path, **more)

    monkeypatch.setattr(metadata_log, "read_snapshot", counted)
    assert [one.file for one in findings(log_dir.parent) if one.file.endswith(".checkpoint")] == []
    assert [name for name in read if name.startswith("0")] == [f"{49:020d}-0000000001.checkpoint"]


def test_decompression_limit_applies_to_all_snapshots_together(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_log_files, "_MAX_DECOMPRESSED_BYTES", 100_000)
    small = batch(1, *[framed(15, bytes(1_000))] * 40, codec=Codec.ZSTD)
    for end in range(30, 36):
        snapshot(
            log_dir / METADATA_DIR, end, batches=[control(0, HEADER), small, control(41, FOOTER)]
        )
    told = [found.message for found in findings(log_dir)]
    over = [message for message in told if "compressed batches of a metadata log" in message]
    assert len(over) == 4, "two are within the limit"
