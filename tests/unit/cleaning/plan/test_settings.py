"""Which metadata log is read, and what happens when it cannot be read."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path

import pytest

from tests.fixtures.data import copy_tree, unpacked
from winnow.cleaning.plan.settings import io_rate, with_metadata
from winnow.errors import StoppedError
from winnow.logdir.survey import LogDir, survey_log_dirs
from winnow.policy.config import TopicConfig
from winnow.policy.describe import parse_topic_configs
from winnow.policy.server_properties import parse_server_properties
from winnow.policy.sources import Settings, Unknown
from winnow.runtime.stop import Stop
from winnow.storage.local import LocalStorage

STORAGE = LocalStorage()
RECORDED = unpacked("before-clean") / "clean"
LOG = f"{0:020d}.log"


def made(path: Path, *, metadata: bool, clean: bool = True, node_id: int = 1) -> Path:
    """Create a log directory of the recorded node, without partitions."""
    path.mkdir()
    text = (RECORDED / "meta.properties").read_text()
    (path / "meta.properties").write_text(text.replace("node.id=1", f"node.id={node_id}"))
    if clean:
        (path / ".kafka_cleanshutdown").touch()
    if metadata:
        copy_tree(RECORDED / "__cluster_metadata-0", path / "__cluster_metadata-0")
    return path


def surveyed(*paths: Path) -> tuple[LogDir, ...]:
    return survey_log_dirs(STORAGE, [str(path) for path in paths])


def policy(settings: Settings) -> str:
    config = settings.resolve("c-none", node_id=1)
    return config.cleanup_policy if isinstance(config, TopicConfig) else config.reason


def test_a_run_stops_while_it_reads_a_long_metadata_log(tmp_path: Path) -> None:
    """A signal is a request to stop, too. Each look at the clock is a record."""
    ticks = count()
    stop = Stop(timeout_s=3, clock=lambda: next(ticks))
    with pytest.raises(StoppedError):
        with_metadata(Settings(), STORAGE, surveyed(made(tmp_path / "a", metadata=True)), stop)
    assert next(ticks) < 10


def test_only_metadata_log_of_the_directories_is_read(tmp_path: Path) -> None:
    dirs = surveyed(made(tmp_path / "a", metadata=False), made(tmp_path / "b", metadata=True))
    settings, notes = with_metadata(Settings(), STORAGE, dirs)
    assert (policy(settings), notes, settings.notes()) == ("compact", (), ())
    dirs = surveyed(*(tmp_path / name for name in "ba"))
    settings, notes = with_metadata(Settings(), STORAGE, dirs)
    assert (policy(settings), notes) == ("compact", ())


def test_without_a_metadata_log_settings_are_unchanged(tmp_path: Path) -> None:
    given = Settings()
    assert with_metadata(given, STORAGE, surveyed(made(tmp_path / "a", metadata=False))) == (
        given,
        (),
    )


def test_metadata_log_dir_is_read_only_if_it_belongs_to_this_broker(tmp_path: Path) -> None:
    data = made(tmp_path / "data", metadata=False)
    meta = made(tmp_path / "meta", metadata=True, clean=False)
    server = parse_server_properties(f"log.dirs={data}\nmetadata.log.dir={meta}")
    settings, notes = with_metadata(Settings(server_properties=server), STORAGE, surveyed(data))
    assert (policy(settings), notes) == ("compact", ())
    other = made(tmp_path / "other", metadata=True, node_id=2)
    bare = made(tmp_path / "bare", metadata=False)
    for place, why in (
        (other, "it belongs to node 2"),
        (bare, "it has no"),
        (tmp_path / "nowhere", "it has no"),
    ):
        server = parse_server_properties(f"log.dirs={data}\nmetadata.log.dir={place}")
        settings, notes = with_metadata(Settings(server_properties=server), STORAGE, surveyed(data))
        assert (settings.metadata, len(notes)) == (None, 1)
        assert f"metadata.log.dir={place} of server.properties is ignored: {why}" in notes[0]


def test_first_of_log_dirs_has_the_metadata_log_of_the_others(tmp_path: Path) -> None:
    first = made(tmp_path / "first", metadata=True)
    second = made(tmp_path / "second", metadata=False)
    server = parse_server_properties(f"log.dirs={first},{second}")
    settings, notes = with_metadata(Settings(server_properties=server), STORAGE, surveyed(second))
    assert policy(settings) == "compact"
    assert notes[-1] == f"the topics and settings are those of {first}/__cluster_metadata-0"
    other = made(tmp_path / "other", metadata=True, node_id=2)
    server = parse_server_properties(f"log.dirs={other},{second}")
    settings, _ = with_metadata(Settings(server_properties=server), STORAGE, surveyed(second))
    assert settings.metadata is None


def test_torn_metadata_log_is_read_up_to_the_torn_batch(tmp_path: Path) -> None:
    log_dir = made(tmp_path / "a", metadata=True)
    log = log_dir / "__cluster_metadata-0" / LOG
    log.write_bytes(log.read_bytes()[:-1])
    settings, notes = with_metadata(Settings(), STORAGE, surveyed(log_dir))
    assert isinstance(settings.resolve("c-none"), TopicConfig)
    assert any("not a whole batch" in note for note in (*notes, *settings.notes()))


def test_unreadable_metadata_log_is_noted_and_policies_are_unknown(tmp_path: Path) -> None:
    log_dir = made(tmp_path / "a", metadata=True)
    log = log_dir / "__cluster_metadata-0" / LOG
    whole = log.read_bytes()
    log.write_bytes(whole[:200] + bytes([whole[200] ^ 1]) + whole[201:])
    settings, notes = with_metadata(Settings(), STORAGE, surveyed(log_dir))
    assert isinstance(settings.resolve("c-none"), Unknown)
    assert "wrong CRC" in policy(settings)
    assert len(notes) == 1
    assert notes[0].startswith("no topics or settings are known from a metadata log: __cluster_met")
    shutil.rmtree(log.parent)
    log.parent.write_text("not a directory")
    assert "can't be read" in policy(with_metadata(Settings(), STORAGE, surveyed(log_dir))[0])


def test_possibly_uncommitted_metadata_log_warns_if_another_dir_is_clean(tmp_path: Path) -> None:
    unclean = made(tmp_path / "a", metadata=True, clean=False)
    _, notes = with_metadata(Settings(), STORAGE, surveyed(unclean))
    assert notes == ()  # the run does not touch this directory anyway
    _, notes = with_metadata(
        Settings(), STORAGE, surveyed(unclean, made(tmp_path / "b", metadata=False))
    )
    assert len(notes) == 1
    assert "may not have been committed" in notes[0]


def test_lowest_io_rate_of_several_brokers_is_used(tmp_path: Path) -> None:
    text = "".join(
        f"Dynamic configs for broker {node} are:\n"
        f"  log.cleaner.io.max.bytes.per.second={rate} sensitive=false "
        f"synonyms={{DYNAMIC_BROKER_CONFIG:log.cleaner.io.max.bytes.per.second={rate}}}\n"
        for node, rate in ((1, 5000), (2, 1000))
    )
    settings = Settings(topic_configs=parse_topic_configs(text))
    dirs = surveyed(
        *(made(tmp_path / str(node), metadata=False, node_id=node) for node in (1, 2, 3))
    )
    assert io_rate(settings, dirs) == 1000
    assert io_rate(settings, dirs[:1]) == 5000
    assert io_rate(settings, dirs[2:]) is None
