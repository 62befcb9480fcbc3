"""Small texts of a node as somebody has edited them: spaces, other spellings, and empty names.

Real brokers judge the same states in `tests/kafka/starts`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafka.starts.bases import copy_base
from tests.unit.start.test_broker import METADATA, start_of
from winnow.errors import UsageError
from winnow.logdir.meta import canonical_uuid, read_meta
from winnow.policy.server_properties import parse_server_properties
from winnow.policy.sources import Settings
from winnow.policy.versions import asked_version
from winnow.start.values import BrokerStart, Fate
from winnow.storage.places import Places


def base(tmp_path: Path, version: str, kind: str) -> Path:
    copy_base(version, kind, tmp_path / "r")
    return tmp_path / "r"


def line(log_dir: Path, key: str, value: str | None) -> None:
    path = log_dir / "meta.properties"
    kept = [one for one in path.read_text().splitlines() if not one.startswith(f"{key}=")]
    path.write_text("\n".join([*kept, *([] if value is None else [f"{key}={value}"]), ""]))


def of(log_dir: Path, key: str) -> str:
    lines = (log_dir / "meta.properties").read_text().splitlines()
    return next(one.partition("=")[2] for one in lines if one.startswith(f"{key}="))


def said(start: BrokerStart) -> str:
    return "\n".join([*start.reasons, *(r for one in start.log_dirs for r in one.reasons)])


@pytest.mark.parametrize(("version", "key"), [("4.3.1", "node.id"), ("2.8.2", "broker.id")])
def test_space_behind_the_id_of_a_node_is_named_where_the_directory_is_refused(
    tmp_path: Path, version: str, key: str
) -> None:
    root = base(tmp_path, version, "alone")
    line(root / "a", key, "1 ")
    with pytest.raises(UsageError, match=rf"{key} '1 ' \(a space at its end: a broker can't read"):
        read_meta(Places(), str(root / "a"))


def test_space_behind_the_id_of_a_node_takes_a_second_directory_offline(tmp_path: Path) -> None:
    root = base(tmp_path, "4.3.1", "stopped")
    line(root / "b", "node.id", "1 ")
    start = start_of(root / "a", root / "b")
    assert [one.fate for one in start.log_dirs] == [Fate.LOADS, Fate.OFFLINE]
    assert "node.id '1 ' (a space at its end" in said(start)


def test_ids_and_versions_are_numbers_and_not_texts(tmp_path: Path) -> None:
    root = base(tmp_path, "4.3.1", "stopped")
    line(root / "b", "node.id", "+01")
    line(root / "b", "version", " 01 ")
    line(root / "b", "directory.id", f"{of(root / 'b', 'directory.id')}==")
    start = start_of(root / "a", root / "b")
    assert (start.is_safe, start.reasons) == (True, ())


def test_id_of_a_directory_is_taken_in_two_spellings() -> None:
    bare = "K_35LAnyL_MOG01wHAmSpw"
    assert canonical_uuid(bare) == canonical_uuid(f"{bare}==") == bare
    assert [canonical_uuid(text) for text in ("", "x", f"{bare} ", f"{bare}AA", "é" * 22)] == [
        None
    ] * 5


@pytest.mark.parametrize(
    ("missing", "fate", "words"),
    [
        ("cluster.id", Fate.STOPS, "has no cluster.id"),
        ("broker.id", Fate.UNKNOWN, "node of version 0 starts only with ZooKeeper"),
    ],
)
def test_node_with_kraft_needs_its_id_and_that_of_its_cluster_in_version_0_too(
    tmp_path: Path, missing: str, fate: Fate, words: str
) -> None:
    root = base(tmp_path, "4.3.1", "alone")
    line(root / "a", "version", "0")
    line(root / "a", "broker.id", "1")
    assert start_of(root / "a").is_safe
    line(root / "a", missing, None)
    start = start_of(root / "a")
    assert (start.fate, words in said(start)) == (fate, True)
    with_roles = parse_server_properties("process.roles=broker,controller\nnode.id=1")
    start = start_of(root / "a", settings=Settings(server_properties=with_roles))
    assert start.fate is Fate.STOPS


def test_space_behind_the_id_of_the_cluster(tmp_path: Path) -> None:
    root = base(tmp_path, "4.3.1", "alone")
    line(root / "a", "cluster.id", f"{of(root / 'a', 'cluster.id')} ")
    assert start_of(root / "a").is_safe  # its own quorum takes any
    state = root / "a" / METADATA / "quorum-state"
    state.write_text(state.read_text().replace('[{"voterId":1}]', '[{"voterId":1},{"voterId":2}]'))
    start = start_of(root / "a")
    assert (start.fate, "with a space at its end: the other" in said(start)) == (Fate.UNKNOWN, True)


def test_broker_with_zookeeper_takes_no_space(tmp_path: Path) -> None:
    root = base(tmp_path, "2.8.2", "stopped")
    old = Settings(kafka=asked_version("2.8"))
    both = (root / "a", root / "b")
    assert start_of(*both, settings=old).is_safe
    line(root / "b", "version", "00")
    start = start_of(*both, settings=old)
    assert (start.fate, "not alike to the character" in said(start)) == (Fate.STOPS, True)
    assert start_of(*both, settings=Settings(kafka=asked_version("3.9"))).is_safe
    for one in both:
        line(one, "version", "0")
        line(one, "cluster.id", f"{of(one, 'cluster.id')} ")
    start = start_of(*both, settings=old)
    assert (start.fate, "with a space at its end, unlike" in said(start)) == (Fate.STOPS, True)


@pytest.mark.parametrize(
    ("found", "fate"),
    [
        *((text, Fate.LOADS) for text in ('"0"', "true", "null", "0.9", "65536")),
        *((text, Fate.STOPS) for text in ("2", "1")),
    ],
)
def test_version_of_quorum_state_is_read_as_java_does(
    tmp_path: Path, found: str, fate: Fate
) -> None:
    root = base(tmp_path, "4.3.1", "alone")
    state = root / "a" / METADATA / "quorum-state"
    state.write_text(state.read_text().replace('"data_version":0', f'"data_version":{found}'))
    assert start_of(root / "a").fate is fate


@pytest.mark.parametrize(
    ("lines", "before", "after", "unknown"),
    [
        ("log.dirs=@/a,", Fate.LOADS, Fate.STOPS, Fate.UNKNOWN),
        ("log.dirs=,@/a", Fate.LOADS, Fate.STOPS, Fate.UNKNOWN),
        ("log.dirs=@/a\nlog.dir=", Fate.LOADS, Fate.STOPS, Fate.UNKNOWN),
        ("log.dirs=\nlog.dir=@/a", Fate.STOPS, Fate.STOPS, Fate.STOPS),
        ("log.dirs=,\nlog.dir=@/a", Fate.STOPS, Fate.STOPS, Fate.STOPS),
        ("log.dirs=@/a\nmetadata.log.dir=", Fate.STOPS, Fate.STOPS, Fate.STOPS),
        ("log.dirs=@/a ", Fate.LOADS, Fate.LOADS, Fate.LOADS),
    ],
)
def test_empty_names_of_log_directories_end_a_broker_from_4_2_on(
    tmp_path: Path, lines: str, before: Fate, after: Fate, unknown: Fate
) -> None:
    root = base(tmp_path, "3.9.2", "alone")
    text = f"process.roles=broker,controller\nnode.id=1\n{lines.replace('@', str(root))}"
    server = parse_server_properties(text)
    versions = [*map(asked_version, ("3.9", "4.2")), asked_version(None)]
    fates = [
        start_of(root / "a", settings=Settings(server_properties=server, kafka=version)).fate
        for version in versions
    ]
    assert fates == [before, after, unknown]
