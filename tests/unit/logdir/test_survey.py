"""Which directories are accepted, and what they contain (S1.1-S1.5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from winnow.errors import UsageError
from winnow.logdir.survey import check_one_node, survey_log_dirs
from winnow.state import TopicPartition
from winnow.storage.local import LocalStorage

STORAGE = LocalStorage()


def _log_dir(path: Path, *names: str, node: int = 1, cluster: str = "c") -> str:
    path.mkdir()
    (path / "meta.properties").write_text(f"version=1\nnode.id={node}\ncluster.id={cluster}\n")
    for name in names:
        (path / name).mkdir()
    return str(path)


def test_partitions_and_skipped_directories_are_listed(tmp_path: Path) -> None:
    marked = "t-2.0123456789abcdef0123456789abcdef"
    path = _log_dir(
        tmp_path / "a", "t-10", "t-2", "__cluster_metadata-0", "remote-log-index-cache", "u-007",
        f"{marked}-delete", f"{marked}-future", f"{marked}-stray",
    )  # fmt: skip
    (tmp_path / "a" / "some-file").touch()
    (tmp_path / "a" / "replication-offset-checkpoint").write_text("0\n1\nt 2 7\n")
    (found,) = survey_log_dirs(STORAGE, [path])
    assert found.partitions == (TopicPartition("t", 2), TopicPartition("t", 10))
    assert {skipped.name for skipped in found.skipped} == {
        "__cluster_metadata-0", "remote-log-index-cache", "u-007",
        f"{marked}-delete", f"{marked}-future", f"{marked}-stray",
    }  # fmt: skip
    assert all(skipped.why for skipped in found.skipped)
    assert found.checkpoints.high_watermark == {TopicPartition("t", 2): 7}
    assert found.checkpoints.cleaner == {}
    assert not found.clean_shutdown
    assert found.error is None


@pytest.mark.parametrize(
    "name", ["a b-0", "x 0 5\ny-0", "\x1b[31mred-0", "..-0", ".-0", "\udcff-0"]
)
def test_directory_of_an_illegal_topic_is_skipped(tmp_path: Path, name: str) -> None:
    path = _log_dir(tmp_path / "a", "t-0", name)
    (found,) = survey_log_dirs(STORAGE, [path])
    assert found.partitions == (TopicPartition("t", 0),)
    assert [(skipped.name, skipped.why) for skipped in found.skipped] == [
        (name, "not a legal topic name")
    ]


@pytest.mark.parametrize("digits", [20, 5000])
@pytest.mark.parametrize("line", ["t 0 {}", "t {} 0"])
def test_huge_number_is_a_malformed_checkpoint(tmp_path: Path, digits: int, line: str) -> None:
    path = _log_dir(tmp_path / "a", "t-0")
    checkpoint = tmp_path / "a" / "cleaner-offset-checkpoint"
    checkpoint.write_text(f"0\n1\n{line.format('9' * digits)}\n")
    (found,) = survey_log_dirs(STORAGE, [path])
    assert "malformed checkpoint" in str(found.error)
    checkpoint.write_text(f"0\n1\n{line.format('0' * digits + '7')}\n")
    (found,) = survey_log_dirs(STORAGE, [path])
    assert found.error is None
    assert 7 in {
        *found.checkpoints.cleaner.values(),
        *(key.partition for key in found.checkpoints.cleaner),
    }


def test_malformed_checkpoint_fails_the_whole_directory(tmp_path: Path) -> None:
    one, two = _log_dir(tmp_path / "a", "t-0"), _log_dir(tmp_path / "b", "t-1")
    (tmp_path / "a" / "replication-offset-checkpoint").write_text("0\n1\nt 0 7\n")
    (tmp_path / "a" / "cleaner-offset-checkpoint").write_text("0\n2\nt 0 7\n")
    first, second = survey_log_dirs(STORAGE, [one, two])
    assert "cleaner-offset-checkpoint" in str(first.error)
    assert first.checkpoints.high_watermark == {}
    assert second.error is None


def test_directory_name_that_stops_a_broker_is_refused(tmp_path: Path) -> None:
    path = _log_dir(tmp_path / "a", "t-0", "lost+found")
    with pytest.raises(UsageError, match=r"lost\+found"):
        survey_log_dirs(STORAGE, [path])


def test_directory_given_twice_is_refused(tmp_path: Path) -> None:
    path = _log_dir(tmp_path / "a")
    (tmp_path / "b").symlink_to(path)
    with pytest.raises(UsageError, match="given twice"):
        survey_log_dirs(STORAGE, [path, f"{tmp_path}/b"])


def test_partition_in_two_directories_of_a_broker_is_refused(tmp_path: Path) -> None:
    one, two = _log_dir(tmp_path / "a", "t-0", node=1), _log_dir(tmp_path / "b", "t-0", node=2)
    with pytest.raises(UsageError, match="t-0 is in two log directories of one broker"):
        survey_log_dirs(STORAGE, [one, two, _log_dir(tmp_path / "c", "t-0", node=1)])


def test_replicas_of_several_brokers_are_accepted(tmp_path: Path) -> None:
    """All brokers belong to one cluster. Some verbs accept only one broker."""
    paths = [_log_dir(tmp_path / str(node), "t-0", f"own-{node}", node=node) for node in (1, 2)]
    found = survey_log_dirs(STORAGE, paths)
    assert [log_dir.partitions for log_dir in found] == [
        (TopicPartition("own", node), TopicPartition("t", 0)) for node in (1, 2)
    ]
    check_one_node(found[:1], "erase")
    with pytest.raises(UsageError, match=r"different node\.id.*erase takes"):
        check_one_node(found, "erase")


def test_directories_of_different_clusters_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"different cluster\.id"):
        survey_log_dirs(
            STORAGE, [_log_dir(tmp_path / "a"), _log_dir(tmp_path / "c", node=2, cluster="d")]
        )
