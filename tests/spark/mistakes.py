"""Log directories for users who mistype something."""

from __future__ import annotations

from pathlib import Path

from tests.spark.runs import add_partition, new_log_dir


def two_log_dirs(path: Path) -> tuple[Path, Path]:
    """Of one broker, with one topic each."""
    first, second = new_log_dir(path / "1"), new_log_dir(path / "2")
    add_partition(first, "c-tomb-0", "c-tomb-0")
    add_partition(second, "d-size-0", "d-size-0")
    for log_dir in (first, second):
        meta = (log_dir / "meta.properties").read_text().splitlines()
        kept = [line for line in meta if not line.startswith("directory.id")]
        (log_dir / "meta.properties").write_text("\n".join([*kept, ""]))
    return first, second


def with_two_topics(path: Path) -> Path:
    """A log directory that no mistake changes."""
    log_dir = new_log_dir(path)
    for name in ("c-tomb-0", "d-size-0"):
        add_partition(log_dir, name, name)
    return log_dir
