"""A server.properties applies only to the broker that it belongs to."""

from __future__ import annotations

from pathlib import Path

import pytest

from winnow.cleaning.plan.settings import with_metadata
from winnow.errors import UsageError
from winnow.logdir.lock import lock_log_dir
from winnow.logdir.survey import LogDir, survey_log_dirs
from winnow.policy.config import TopicConfig
from winnow.policy.describe import parse_topic_configs
from winnow.policy.server_properties import ServerProperties, parse_server_properties
from winnow.policy.sources import Settings, Unknown
from winnow.storage.local import LocalStorage

STORAGE = LocalStorage()
NAMED = parse_topic_configs("Dynamic configs for topic t are:")


def log_dir(path: Path, *, node_id: int | None = 1) -> Path:
    path.mkdir(exist_ok=True)
    ids = "version=0\n" if node_id is None else f"version=1\nnode.id={node_id}\n"
    (path / "meta.properties").write_text(f"{ids}cluster.id=c\n")
    return path


def surveyed(*paths: Path) -> tuple[LogDir, ...]:
    return survey_log_dirs(STORAGE, [str(path) for path in paths])


def properties(text: str, *, file: str = "server.properties") -> ServerProperties:
    return parse_server_properties(f"log.cleanup.policy=compact\n{text}", file=file)


def checked(
    server: ServerProperties | list[ServerProperties], *paths: Path, **more: bool
) -> tuple[str, ...]:
    return with_metadata(Settings(server_properties=server, **more), STORAGE, surveyed(*paths))[1]  # type: ignore[arg-type]


@pytest.mark.parametrize("key", ["node.id", "broker.id"])
def test_properties_of_another_node_are_refused(tmp_path: Path, key: str) -> None:
    server = properties(f"{key}=99")
    with pytest.raises(
        UsageError, match=r"another broker.*expected node.id 1.*found node.id 99.*server.properties"
    ):
        checked(server, log_dir(tmp_path / "a"))
    (note,) = checked(server, log_dir(tmp_path / "a"), allow_other_broker=True)
    assert (
        "server.properties is used although it is the server.properties of another broker" in note
    )


@pytest.mark.parametrize("key", ["log.dirs", "log.dir"])
def test_properties_with_other_log_directories_are_refused(tmp_path: Path, key: str) -> None:
    server = properties(f"node.id=1\n{key}=/elsewhere/a, /elsewhere/b")
    with pytest.raises(
        UsageError, match=rf"other log directories.*{tmp_path}/a in log.dirs.*/elsewhere/a"
    ):
        checked(server, log_dir(tmp_path / "a"))
    assert len(checked(server, log_dir(tmp_path / "a"), allow_other_broker=True)) == 1
    assert checked(server, log_dir(tmp_path / "a"), compare_log_dirs=False) == ()


def test_own_properties_accepted_by_any_path_to_the_log_directory(tmp_path: Path) -> None:
    path = log_dir(tmp_path / "a")
    (tmp_path / "link").symlink_to(path)
    assert checked(properties(f"node.id=1\nlog.dirs={tmp_path}/link/"), path) == ()
    assert checked(properties(""), path) == ()
    assert checked(properties("broker.id=-1\nlog.dirs=relative"), path) == ()
    assert checked(properties("node.id=7"), log_dir(tmp_path / "old", node_id=None)) == ()


def test_log_dirs_entry_not_given_to_the_run_is_noted(tmp_path: Path) -> None:
    (note,) = checked(properties(f"log.dirs={tmp_path}/a,{tmp_path}/b"), log_dir(tmp_path / "a"))
    assert f"log.dirs also names {tmp_path}/b, not given to this run" in note


def test_broker_that_runs_on_another_log_directory_is_noted(tmp_path: Path) -> None:
    server = properties(f"log.dirs={tmp_path}/a,{tmp_path}/b")
    path, other = log_dir(tmp_path / "a"), log_dir(tmp_path / "b")
    with lock_log_dir(str(other)):
        _, note = checked(server, path)
    assert f"the broker is running: {other} is in use" in note
    assert len(checked(server, path)) == 1


def test_each_broker_uses_its_own_properties(tmp_path: Path) -> None:
    paths = [log_dir(tmp_path / str(node), node_id=node) for node in (1, 2, 3)]
    one, two = properties("node.id=1", file="one"), parse_server_properties("node.id=2", file="two")
    settings, notes = with_metadata(
        Settings(server_properties=[two, one], topic_configs=NAMED), STORAGE, surveyed(*paths)
    )
    found = [settings.resolve("t", node_id=node) for node in (1, 2, 3)]
    assert [config.cleanup_policy for config in found[:2] if isinstance(config, TopicConfig)] == [
        "compact",
        "delete",
    ]
    assert isinstance(found[2], Unknown)
    assert notes == (
        (
            f"{tmp_path}/3 belongs to node 3, for which no server.properties was given: "
            "Kafka's defaults are not confirmed there"
        ),
    )


def test_properties_of_one_broker_do_not_apply_to_another(tmp_path: Path) -> None:
    paths = [log_dir(tmp_path / str(node), node_id=node) for node in (1, 2)]
    (note,) = checked(properties("node.id=1"), *paths)
    assert f"{tmp_path}/2 belongs to node 2" in note


@pytest.mark.parametrize("text", ["", "node.id=1"])
def test_several_properties_files_must_each_name_a_different_broker(
    tmp_path: Path, text: str
) -> None:
    with pytest.raises(UsageError, match="unknown which broker each"):
        checked([properties("node.id=1"), properties(text, file="other")], log_dir(tmp_path / "a"))
