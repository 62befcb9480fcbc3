"""A log directory that gives every stage of a run something to do, and a comparison of two of
them.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from tests.fixtures.data import TOPIC_CONFIGS, copy_tree, unpacked
from tests.spark.runs import NOW, add_partition, new_log_dir, set_checkpoint
from winnow.logdir.names import STAGING_PREFIX

PARTITIONS = (
    # Compacted: tombstones, segments of several keys, a codec.
    *("c-tomb-0", "c-4p-1", "c-hotkey-0", "c-zstd-0"),
    *("t-closed-0", "t-long-0", "b-txn-0"),  # transactions, some cleaned by a broker before
    # Deleted by time (with a roll), size and log start offset.
    *("d-time-0", "d-size-0", "d-start-0"),
    *("cd-mixed-0", "__consumer_offsets-0"),
)
LEGACY = "v1-gzip-0"
LEGACY_END_OFFSET = 1000
SETS = (
    "cd-mixed:retention.ms=432000000",
    "b-txn:min.cleanable.dirty.ratio=0",
    "v1-*:cleanup.policy=compact",
)


def make(path: Path) -> Path:
    """12 partitions as a broker wrote them, and one of an older format."""
    log_dir = new_log_dir(path)
    for name in PARTITIONS:
        add_partition(log_dir, name, name)
    recorded = unpacked("before-clean") / "clean"
    for name in ("log-start-offset-checkpoint", "cleaner-offset-checkpoint"):
        (log_dir / name).write_bytes((recorded / name).read_bytes())
    legacy = unpacked("before-legacy") / "legacy"
    copy_tree(legacy / LEGACY, log_dir / LEGACY)
    set_checkpoint(log_dir / "replication-offset-checkpoint", LEGACY, LEGACY_END_OFFSET)
    return log_dir


def arguments(log_dir: Path) -> list[str]:
    """Of `./spark-submit.sh`."""
    return ["clean", str(log_dir), *settings(), "--now", str(NOW), "--yes"]


def settings() -> list[str]:
    """The part of `arguments` that every verb with settings takes."""
    sets = [word for text in SETS for word in ("--topic-set", text)]
    return ["--topic-configs", str(TOPIC_CONFIGS), *sets]


def content(log_dir: Path) -> dict[str, str]:
    """Every file's bytes, times of logs that have records, owner and mode; without `.lock`, which
    brokers make too.
    """
    found = {}
    for path in sorted(log_dir.rglob("*")):
        name = str(path.relative_to(log_dir))
        if path.is_dir():
            found[f"{name}/"] = ""
        elif name != ".lock":
            status = path.stat()
            age = status.st_mtime_ns // 10**6 if name.endswith(".log") and status.st_size else ""
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            found[name] = f"{digest} {status.st_mode:o} {status.st_uid} {status.st_gid} {age}"
    return found


def committed(log_dir: Path) -> dict[str, str]:
    """`content` without staging directories."""
    return {
        name: value for name, value in content(log_dir).items() if f"/{STAGING_PREFIX}" not in name
    }


def assert_same(found: Path, wanted: Path, *, may_lack: tuple[str, ...] = ()) -> None:
    """`may_lack`: suffixes of files that may be missing in `found`."""
    ours, theirs = content(found), content(wanted)
    lacking = {name for name in theirs if name.endswith(may_lack) and name not in ours}
    different = sorted(
        name for name in {*ours, *theirs} - lacking if ours.get(name) != theirs.get(name)
    )
    assert not different, (
        f"{len(different)} files differ from those of an undisturbed run: {different[:10]}"
    )
