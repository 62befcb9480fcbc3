"""`doctor` counts what takes the space of a disk as `df` does, and names what frees it."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.disks import disk_or_skip, fill, fill_names, free_bytes
from tests.fixtures.data import TOPIC_CONFIGS, copy_log_dir
from tests.session import verbs_use
from tests.spark.runs import NOW
from tests.unit.logdir.metadata_logs import remove_other_topics
from winnow.cli.main import run as run_command
from winnow.logdir.metadata import METADATA_DIR
from winnow.logdir.names import CLEAN_SHUTDOWN, INDEX, LOG, TIMEINDEX
from winnow.storage.places import Places
from winnow.verbs.doctor.disk_use import disk_use
from winnow.verbs.doctor.space import DiskUse, SpaceKind, Use

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

HEX = "0123456789abcdef0123456789abcdef"
GIVEN = ["--topic-configs", str(TOPIC_CONFIGS), "--now", str(NOW)]
Command = Callable[..., tuple[int, str]]


@pytest.fixture
def command(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    verbs_use(spark, monkeypatch)

    def call(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = run_command(list(words))
        said = capsys.readouterr()
        return code, " ".join((said.out + said.err).split())

    return call


def use_of(*log_dirs: Path) -> tuple[DiskUse, ...]:
    return disk_use(Places(), [str(path) for path in log_dirs])


def by_kind(use: DiskUse) -> dict[SpaceKind, Use]:
    return {one.kind: one for one in use.uses}


def blocks(*paths: Path) -> int:
    """As `du` counts them, each inode once, no link followed."""
    found = {}
    for path in paths:
        for below in (path, *path.rglob("*")) if path.is_dir() else (path,):
            status = below.lstat()
            found[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sum(found.values())


def inodes(path: Path) -> int:
    return len({one.lstat().st_ino for one in (path, *path.rglob("*"))})


def test_every_kind_has_its_bytes_and_the_sum_is_that_of_du(tmp_path: Path) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "logs", only=["c-none-0", "d-*", "t-closed-0"])
    shutil.copytree(log_dir / "c-none-0", log_dir / f"c-none-0.{HEX}-future")
    (log_dir / "d-size-0").rename(log_dir / f"d-size-0.{HEX}-delete")
    (log_dir / "d-time-0").rename(log_dir / f"d-time-0.{HEX}-stray")
    partition = log_dir / "c-none-0"
    (partition / f"{7:020d}.log.deleted").write_bytes(bytes(50_000))
    (partition / ".winnow-kept-r").mkdir()
    (partition / ".winnow-kept-r" / f"{0:020d}.log").write_bytes(bytes(60_000))
    (partition / "notes.txt").write_bytes(bytes(70_000))
    (log_dir / "deep" / "er").mkdir(parents=True)
    (log_dir / "deep" / "er" / "core").write_bytes(bytes(80_000))
    (log_dir / "__cluster_metadata-0").mkdir()
    (log_dir / "__cluster_metadata-0" / f"{0:020d}.log").write_bytes(bytes(90_000))
    (use,) = use_of(log_dir)
    found = by_kind(use)
    assert (
        found[SpaceKind.FUTURE].count,
        found[SpaceKind.DELETE].count,
        found[SpaceKind.STRAY].count,
    ) == (1,) * 3
    assert found[SpaceKind.FUTURE].bytes == blocks(log_dir / f"c-none-0.{HEX}-future")
    assert found[SpaceKind.DELETE].bytes == blocks(log_dir / f"d-size-0.{HEX}-delete")
    assert found[SpaceKind.STRAY].bytes == blocks(log_dir / f"d-time-0.{HEX}-stray")
    assert found[SpaceKind.LEFTOVERS].apparent_bytes == 50_000
    assert found[SpaceKind.KEPT].bytes == blocks(partition / ".winnow-kept-r")
    assert found[SpaceKind.OTHER].bytes == blocks(partition / "notes.txt", log_dir / "deep")
    assert found[SpaceKind.METADATA_LOG].bytes == blocks(log_dir / "__cluster_metadata-0")
    logs = [*log_dir.glob(f"[cdt]-*-0/*{LOG}")]
    assert found[SpaceKind.LOGS].count == len(logs)
    assert found[SpaceKind.LOGS].apparent_bytes == sum(path.stat().st_size for path in logs)
    assert use.bytes == blocks(log_dir)
    assert use.inodes == inodes(log_dir)


def test_where_no_inode_is_free_files_are_counted_and_not_bytes(
    command: Command, tmp_path: Path
) -> None:
    with disk_or_skip(tmp_path / "disk", mib=64, options=",nr_inodes=300") as disk:
        log_dir = copy_log_dir("clean", disk / "d", only=["c-none-0", "d-size-0", METADATA_DIR])
        remove_other_topics(log_dir)
        (log_dir / ".lock").touch()
        fill_names(disk)
        code, said = command("doctor", str(log_dir), *GIVEN, "--all")
        assert (code, "MiB free" in said, ", 0 inodes free" in said) == (3, True, True)
        assert "0 free inodes: no more files can be made there, although" in said
        assert "broker 1 does not start" in said
        assert f"the file system of {log_dir} has no free inode" in said
        assert "15 files (" in said
        code, said = command(
            "clean", str(log_dir), *GIVEN, "--only", "compaction", "--no-ledger", "--report", "none"
        )
        assert code == 6
        assert "No file can be made there, although" in said
        assert "Inodes are what is missing" in said
        (log_dir / CLEAN_SHUTDOWN).unlink()
        fill_names(disk / "names")
        code, said = command("recover", "--truncate", str(log_dir), *GIVEN)
        assert (code, "No file can be made there, although" in said) == (3, True)
        assert "is full (hardly any inode is free)" in said
        (log_dir / ".lock").unlink()
        fill_names(disk / "names" / "names")
        # Kafka from 3.9 on removes `.lock`: who looks needs none there, who changes does.
        code, said = command("doctor", str(log_dir), *GIVEN, "--all")
        assert (code, ", 0 inodes free" in said) == (3, True)
        code, said = command("recover", "--truncate", str(log_dir), *GIVEN)
        assert (code, "Inodes are what is missing" in said) == (1, True)


def test_names_on_one_file_system_add_up_to_what_df_shows(tmp_path: Path) -> None:
    with disk_or_skip(tmp_path / "disk", mib=32) as disk:
        logs = copy_log_dir("clean", disk / "logs", only=["c-none-0"])
        more = copy_log_dir("clean", disk / "more", only=["t-closed-0"])
        os.link(logs / "c-none-0" / f"{0:020d}.log", more / "backup")
        (disk / "core").write_bytes(bytes(2**20))
        first, second = use_of(logs, more)
        status = os.statvfs(disk)
        used = (status.f_blocks - status.f_bfree) * status.f_frsize
        assert first.bytes + second.bytes + (first.outside_bytes or 0) == used
        assert first.outside_bytes == second.outside_bytes == 2**20 + blocks_of_top(disk)
        assert first.inodes + second.inodes + (first.outside_inodes or 0) == (
            status.f_files - status.f_ffree
        )


def blocks_of_top(disk: Path) -> int:
    return disk.stat().st_blocks * 512


def test_a_link_names_its_target_and_a_hostile_tree_ends(tmp_path: Path, command: Command) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "logs", only=["c-none-0", "d-size-0"])
    shutil.move(log_dir / "d-size-0", tmp_path / "other")
    (log_dir / "d-size-0").symlink_to(tmp_path / "other")
    (log_dir / "loop-0").symlink_to(log_dir)
    (log_dir / "nowhere-0").symlink_to("/does/not/exist\x1b[2J")
    os.mkfifo(log_dir / "pipe")
    os.mkfifo(log_dir / "c-none-0" / f"{9:020d}.index")
    deep = log_dir / "c-none-0" / "deep"
    for _ in range(100):
        deep = deep / "d"
    deep.mkdir(parents=True)
    (use,) = use_of(log_dir)
    links = {one.name: one for one in use.elsewhere}
    assert links["d-size-0"].target == str(tmp_path / "other")
    files = [path for path in (tmp_path / "other").iterdir() if path.is_file()]
    assert links["d-size-0"].bytes == blocks(*files)
    assert links["nowhere-0"].bytes is None
    assert len(use.uncounted) == 1
    assert by_kind(use)[SpaceKind.LOGS].count == len([*(log_dir / "c-none-0").glob(f"*{LOG}")])
    code, text = command("doctor", str(log_dir), *GIVEN, "--all")
    assert code == 3
    assert f"d-size-0: a link to {tmp_path / 'other'}" in text
    assert "d-size 0 B" not in text
    assert "\x1b" not in text


def test_holes_are_no_gain_but_written_zeros_are(tmp_path: Path) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "logs", only=["c-none-0", "t-closed-0"])
    (log_dir / CLEAN_SHUTDOWN).unlink()
    for name in ("c-none-0", "t-closed-0"):
        active = max((log_dir / name).glob(f"*{LOG}"))
        for suffix in (INDEX, TIMEINDEX):
            os.truncate(active.with_suffix(suffix), 10_485_756)
    (use,) = use_of(log_dir)
    assert use.index_zeros.bytes == 0
    indexes = by_kind(use)[SpaceKind.INDEXES]
    assert indexes.apparent_bytes > 4 * 10_000_000
    assert indexes.bytes < 2**20
    written = max((log_dir / "c-none-0").glob(f"*{LOG}")).with_suffix(INDEX)
    with written.open("r+b") as file:
        file.seek(0)
        begin = file.read(4096).rstrip(b"\0")
        file.seek(0)
        file.write(begin + bytes(2**20 - len(begin)))
    (use,) = use_of(log_dir)
    assert use.index_zeros.indexes == use.index_zeros.partitions == 1
    assert 2**20 - 8192 <= use.index_zeros.bytes <= 2**20


def test_full_disk_of_preallocated_indexes_is_named_and_freed_by_the_printed_command(
    tmp_path: Path, command: Command
) -> None:
    with disk_or_skip(tmp_path / "disk", mib=32) as disk:
        only = ["c-none-0", "t-closed-0", METADATA_DIR]
        log_dir = copy_log_dir("clean", disk / "logs", only=only)
        remove_other_topics(log_dir)
        (log_dir / CLEAN_SHUTDOWN).unlink()
        for name in ("c-none-0", "t-closed-0"):
            active = max((log_dir / name).glob(f"*{LOG}"))
            for suffix in (INDEX, TIMEINDEX):
                with active.with_suffix(suffix).open("ab") as file:
                    file.write(bytes(5 * 2**20 // 12 * 12 - file.tell()))
        fill(disk)
        kept = ["--topic-set", "*:cleanup.policy=delete", "--topic-set", "*:retention.ms=-1"]
        code, out = command("doctor", str(log_dir), "--json", *kept)
        assert code == 3  # a broker that starts there dies for want of space
        told = json.loads(out)
        (zeros,) = [gain for gain in told["gains"] if gain["what"] == "index zeros"]
        assert 19 * 2**20 < zeros["freed_bytes"] < 20 * 2**20
        first = told["advice"][0]["command"]
        assert first[1:4] == ["recover", str(log_dir), "--truncate"]
        code, text = command("doctor", str(log_dir), *kept, "--all")
        assert "of these, zeros at their end 20.0 MiB in 2 partitions" in text
        assert "index zeros 20.0 MiB in 2 partitions" in text
        code, text = command(*first[1:])
        assert code == 0, text
        assert free_bytes(disk) >= zeros["freed_bytes"] - 2**16
        assert (log_dir / CLEAN_SHUTDOWN).exists()


def test_thousands_of_partitions_are_counted_in_seconds(tmp_path: Path) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "logs", only=["t-closed-0"])
    one = log_dir / "t-closed-0"
    for number in range(1, 2000):
        (log_dir / f"t-closed-{number}").mkdir()
        for file in one.iterdir():
            os.link(file, log_dir / f"t-closed-{number}" / file.name)
    began = time.process_time()
    (use,) = use_of(log_dir)
    assert use.bytes == blocks(log_dir)
    assert time.process_time() - began < 20
