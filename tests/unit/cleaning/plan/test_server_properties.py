"""A server.properties applies only to the broker that it belongs to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from winnow.cleaning.plan.settings import other_places, with_metadata
from winnow.errors import UsageError
from winnow.logdir.lock import lock_log_dir
from winnow.logdir.survey import LogDir, survey_log_dirs
from winnow.policy.config import TopicConfig
from winnow.policy.describe import parse_topic_configs
from winnow.policy.server_properties import (
    DEFAULT_LOG_DIR,
    ServerProperties,
    parse_server_properties,
)
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
    server = properties(f"{key}=99\nlog.dirs={tmp_path}/a")
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
    old = log_dir(tmp_path / "old", node_id=None)
    assert checked(properties(f"node.id=7\nlog.dirs={tmp_path}/old"), old) == ()
    assert checked(properties("broker.id=-1\nlog.dirs=../a,./old"), path, old) == ()


@pytest.mark.parametrize("dirs", ["", "log.dirs=data", "log.dir=", "log.dirs=b"])
@pytest.mark.parametrize("copied", [False, True])
def test_properties_that_name_neither_the_directory_nor_its_node_are_refused(
    tmp_path: Path, dirs: str, *, copied: bool
) -> None:
    path = log_dir(tmp_path / "a")
    expected = rf"nothing shows.*expected {path} in log.dirs, or node.id=1 as in its meta.prop"
    for node in ("", "broker.id=-1"):
        with pytest.raises(UsageError, match=f"{expected}.*found .*, and no node.id"):
            checked(properties(f"{node}\n{dirs}"), path, compare_log_dirs=not copied)
    (note,) = checked(properties(f"{dirs}\nbroker.id=1"), path, compare_log_dirs=not copied)
    default = dirs.removeprefix("log.dirs=") if "s=" in dirs else DEFAULT_LOG_DIR
    assert f"only its node.id shows that it is that of {path}" in note
    assert note.endswith(f"A broker that has nothing but this file uses {default}")
    (note,) = checked(properties(dirs), path, allow_other_broker=True)
    assert "is used although" in note


def test_properties_without_log_dirs_are_those_of_a_broker_on_kafkas_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = log_dir(tmp_path / "kafka-logs")
    monkeypatch.setattr("winnow.cleaning.plan.settings.DEFAULT_LOG_DIR", str(path))
    (tmp_path / "link").symlink_to(path)
    assert checked(properties("process.roles=broker"), tmp_path / "link") == ()
    with pytest.raises(UsageError, match=r"no log\.dirs, with which a broker uses"):
        checked(properties("process.roles=broker"), path, log_dir(tmp_path / "b"))


def test_properties_without_a_node_can_be_those_of_no_remote_directory() -> None:
    server = properties("log.dirs=/var/lib/kafka")
    (problem,) = other_places(STORAGE, server, ["s3://bucket/kafka"])
    assert "nothing shows" in str(problem)
    assert other_places(STORAGE, replace(server, node_id=1), ["s3://bucket/kafka"]) == []


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
        *(
            f"{file} names no directory of this run, so only its node.id shows that it is that of "
            f"{path}. A broker that has nothing but this file uses {DEFAULT_LOG_DIR}"
            for file, path in zip(("one", "two"), paths, strict=False)
        ),
        (
            f"{tmp_path}/3 belongs to node 3, for which no server.properties was given: "
            "Kafka's defaults are not confirmed there"
        ),
    )


def test_properties_of_one_broker_do_not_apply_to_another(tmp_path: Path) -> None:
    paths = [log_dir(tmp_path / str(node), node_id=node) for node in (1, 2)]
    (note,) = checked(properties(f"node.id=1\nlog.dirs={tmp_path}/1"), *paths)
    assert f"{tmp_path}/2 belongs to node 2" in note


@pytest.mark.parametrize("text", ["", "node.id=1"])
def test_several_properties_files_must_each_name_a_different_broker(
    tmp_path: Path, text: str
) -> None:
    with pytest.raises(UsageError, match="unknown which broker each"):
        checked([properties("node.id=1"), properties(text, file="other")], log_dir(tmp_path / "a"))
