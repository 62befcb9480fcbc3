"""Which directories are accepted, and what they contain (S1.1-S1.5)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from winnow.errors import UsageError
from winnow.logdir.survey import check_one_node, strangers_in, survey_log_dirs
from winnow.state import TopicPartition
from winnow.storage.local import LocalStorage

STORAGE = LocalStorage()


def _log_dir(
    path: Path, *names: str, node: int = 1, cluster: str = "c", directory_id: str | None = None
) -> str:
    path.mkdir()
    text = f"version=1\nnode.id={node}\ncluster.id={cluster}\n"
    if directory_id is not None:
        text += f"directory.id={directory_id}\n"
    (path / "meta.properties").write_text(text)
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


@pytest.mark.parametrize("name", ["a b-0", "x 0 5\ny-0", "\x1b[31mred-0", "..-0", ".-0"])
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


def test_stranger_is_named_and_the_partitions_are_listed(tmp_path: Path) -> None:
    path = _log_dir(tmp_path / "a", "t-0", "lost+found", ".snapshot", "t-7-delete")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "a" / "nested").symlink_to(tmp_path / "elsewhere")
    (found,) = survey_log_dirs(STORAGE, [path])
    assert found.partitions == (TopicPartition("t", 0),)
    assert {stranger.name for stranger in found.strangers} == {
        "lost+found", ".snapshot", "t-7-delete", "nested",
    }  # fmt: skip
    assert all(stranger.stops_broker for stranger in found.strangers)
    assert f"{path}/lost+found is a directory whose name is not that of a partition" in " ".join(
        strangers_in([found])
    )


def test_what_is_in_the_place_of_a_partition_is_a_stranger(tmp_path: Path) -> None:
    """A broker ignores other files, such as dated ones."""
    path = _log_dir(tmp_path / "a", "t-0")
    (tmp_path / "a" / "t-1").touch()
    os.mkfifo(tmp_path / "a" / "t-2")
    (tmp_path / "a" / "t-3").symlink_to(tmp_path / "nowhere")
    (tmp_path / "a" / "u-0").touch()
    (tmp_path / "a" / "server.log.2026-11-28").touch()
    (tmp_path / "a" / "recovery-point-offset-checkpoint").write_text("0\n1\nu 0 7\n")
    (found,) = survey_log_dirs(STORAGE, [path])
    assert [(stranger.name, stranger.stops_broker) for stranger in found.strangers] == [
        ("t-1", False), ("t-2", False), ("t-3", False), ("u-0", False),
    ]  # fmt: skip
    assert found.partitions == (TopicPartition("t", 0),)


def test_directory_given_twice_is_refused(tmp_path: Path) -> None:
    path = _log_dir(tmp_path / "a")
    (tmp_path / "b").symlink_to(path)
    with pytest.raises(UsageError, match="given twice"):
        survey_log_dirs(STORAGE, [path, f"{tmp_path}/b"])


def test_partition_in_two_directories_of_a_broker_is_known_in_both(tmp_path: Path) -> None:
    one, two = _log_dir(tmp_path / "a", "t-0", "t-1"), _log_dir(tmp_path / "b", "t-0", node=2)
    three = _log_dir(tmp_path / "c", "t-0", "t-2", directory_id="D")
    found = survey_log_dirs(STORAGE, [one, two, three])
    [(key, copies)] = found[0].duplicates.items()
    assert key == TopicPartition("t", 0)
    assert [(copy.path, copy.directory_id) for copy in copies] == [
        (f"{one}/t-0", None), (f"{three}/t-0", "D"),
    ]  # fmt: skip
    assert found[2].duplicates == found[0].duplicates
    assert not found[1].duplicates


def test_other_spelling_of_a_partition_is_a_second_directory_of_it(tmp_path: Path) -> None:
    """A broker loads t-00 as t-0."""
    path = _log_dir(tmp_path / "a", "t-0", "t-00", "t-07", "__cluster_metadata-0")
    (found,) = survey_log_dirs(STORAGE, [path])
    assert found.partitions == (TopicPartition("t", 0),)
    [(key, copies)] = found.duplicates.items()
    assert (key, [copy.name for copy in copies]) == (TopicPartition("t", 0), ["t-0", "t-00"])


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


def test_directory_of_another_cluster_is_in_doubt_and_of_two_none_is_changed(
    tmp_path: Path,
) -> None:
    a, c = _log_dir(tmp_path / "a"), _log_dir(tmp_path / "c", "t-0", node=2, cluster="d")
    b = _log_dir(tmp_path / "b", "t-0")
    for paths in ([a, b, c], [c, a, b]):
        found = survey_log_dirs(STORAGE, paths, to_change=True)
        [doubted] = [log_dir for log_dir in found if log_dir.in_doubt]
        assert (doubted.path, doubted.partitions) == (c, ())
        assert "of another cluster" in str(doubted.error)
        assert not any(log_dir.duplicates for log_dir in found)
    with pytest.raises(UsageError, match=r"different cluster\.id"):
        survey_log_dirs(STORAGE, [a, c], to_change=True)
    assert [log_dir.in_doubt for log_dir in survey_log_dirs(STORAGE, [a, c])] == [False, True]


def test_directory_without_meta_properties_is_in_doubt_beside_a_sound_one(tmp_path: Path) -> None:
    a, b = _log_dir(tmp_path / "a", "t-0", "u-0"), _log_dir(tmp_path / "b", "t-0", "lost+found")
    (tmp_path / "b" / "meta.properties").unlink()
    sound, doubted = survey_log_dirs(STORAGE, [a, b, str(tmp_path / "gone")])[:2]
    assert (sound.in_doubt, doubted.in_doubt) == (False, True)
    assert [*sound.duplicates] == [TopicPartition("t", 0)]
    assert (doubted.partitions, doubted.strangers) == ((TopicPartition("t", 0),), ())
    with pytest.raises(UsageError, match="not a Kafka log directory"):
        survey_log_dirs(STORAGE, [b, str(tmp_path / "gone")])
