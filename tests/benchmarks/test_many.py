from pathlib import Path

from benchmarks.many import make
from winnow.logdir.listing import list_segments
from winnow.logdir.survey import survey_log_dirs
from winnow.storage.local import LocalStorage


def test_linked_partitions_are_listed_like_any_others(tmp_path: Path) -> None:
    assert make(tmp_path, 250, 3, 0.1) == 25
    (log_dir,) = survey_log_dirs(LocalStorage(), [str(tmp_path / "log-dir")])
    assert (len(log_dir.partitions), log_dir.skipped, log_dir.error, log_dir.clean_shutdown) == (
        250,
        (),
        None,
        True,
    )
    assert {partition.topic for partition in log_dir.partitions} == {
        "c0000",
        "d0000",
        "d0001",
        "d0002",
    }
    assert set(log_dir.checkpoints.high_watermark) == set(log_dir.partitions)
    for partition in log_dir.partitions[::50]:
        listing = list_segments(LocalStorage(), f"{log_dir.path}/{partition}")
        assert (listing.problems, listing.leftovers) == ((), ())
        assert [(segment.base_offset, segment.log_bytes > 0) for segment in listing.segments] == [
            *((0, True), (10, True), (20, False)),
        ]
