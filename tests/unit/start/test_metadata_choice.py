"""Which metadata log counts, if any: only one that the broker uses (docs/reference/sources.md)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

import pytest

from tests.unit.logdir.metadata_logs import COMPACT, LEADER_CHANGE, batch, control, log, segment
from tests.unit.wire.metadata_values import config, migration, no_op, partition, register, topic
from winnow.cleaning.plan.settings import with_metadata
from winnow.errors import UsageError
from winnow.logdir.metadata import METADATA_DIR
from winnow.logdir.survey import LogDir, survey_log_dirs
from winnow.policy.config import TopicConfig
from winnow.policy.known_version import HIGHEST_LEVELS
from winnow.policy.server_properties import ServerProperties, parse_server_properties
from winnow.policy.sources import Settings
from winnow.start.metadata_choice import choose_metadata
from winnow.storage.local import LocalStorage
from winnow.verbs.verify.findings import Finding
from winnow.verbs.verify.kinds import Kind
from winnow.verbs.verify.sources import choice_of, log_dirs_of, unused_metadata_logs
from winnow.wire.metadata_records import MigrationRecord

STORAGE = LocalStorage()
DELETE = config("t", "cleanup.policy", "delete")
ONE_MS = config("t", "retention.ms", "1")
TOPIC = (topic("t"), partition(0))
NO_OP = no_op()
EVERY_STATE = [*MigrationRecord, None]


def made(path: Path, *values: bytes, node: int | None = 1, version: int = 1) -> Path:
    """Create a log directory, with a metadata log of these records if there are any."""
    path.mkdir()
    ids = "" if node is None else f"{'node' if version else 'broker'}.id={node}\ncluster.id=c\n"
    (path / "meta.properties").write_text(f"version={version}\n{ids}")
    (path / ".kafka_cleanshutdown").touch()
    if values:
        (path / METADATA_DIR).mkdir()
        log(path / METADATA_DIR, *values)
    return path


def surveyed(paths: Sequence[Path]) -> tuple[LogDir, ...]:
    return survey_log_dirs(STORAGE, [str(path) for path in paths])


def unused_in(*paths: Path) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    own = log_dirs_of(STORAGE, [str(path) for path in paths])
    return unused_metadata_logs(choice_of(STORAGE, own).unused)


def server(text: str, *, file: str = "server.properties") -> ServerProperties:
    return parse_server_properties(text, file=file)


def policy(paths: Sequence[Path], *servers: ServerProperties, **more: bool) -> tuple[str, str]:
    """Return the policy of topic `t`, or why it is unknown, and the notes. They are the same in
    every order of the directories.
    """
    found = set()
    for order in permutations(paths):
        given = Settings(server_properties=servers or None, **more)  # type: ignore[arg-type]
        settings, notes = with_metadata(given, STORAGE, surveyed(order))
        config = settings.resolve("t", node_id=1)
        words = config.cleanup_policy if isinstance(config, TopicConfig) else config.reason
        found.add((words, "\n".join(sorted(notes))))
    [only] = found
    return only


# --- ZooKeeper


@pytest.mark.parametrize("state", EVERY_STATE)
def test_metadata_log_beside_a_broker_with_zookeeper_gives_nothing_until_the_migration_is_finished(
    tmp_path: Path, state: MigrationRecord | None
) -> None:
    of_state = [] if state is None else [migration(state)]
    path = made(tmp_path / "a", *of_state, *TOPIC, DELETE, ONE_MS, version=0)
    settings, notes = with_metadata(Settings(), STORAGE, surveyed([path]))
    if state is MigrationRecord.POST_MIGRATION:
        assert settings.metadata is not None
        assert (settings.metadata.problem, notes) == (None, ())
        return
    assert settings.metadata is None
    assert str(settings.kafka.versions) == "2.8 to 3.9"
    assert len(notes) == 1
    assert f"{path}/{METADATA_DIR} (leader epoch 1, end offset {5 + len(of_state)}" in notes[0]
    assert "meta.properties has version 0" in notes[0]
    assert "left of a migration to KRaft" in notes[0]
    assert "--topic-configs FILE" in notes[0]
    assert state is None or f"(state {state.name})" in notes[0]


def test_broker_that_was_started_with_kafka_4_uses_the_metadata_log_whatever_its_meta_has(
    tmp_path: Path,
) -> None:
    """Brokers 3.9.2 to 4.4.0 with KRaft start with version 0 and keep it."""
    for version, used in (("3.9", False), ("4.0", True), ("4.4", True)):
        level = HIGHEST_LEVELS[version]
        path = made(tmp_path / version, *TOPIC, COMPACT, register(1, level), version=0)
        assert (policy([path])[0] == "compact") is used
        other = made(tmp_path / f"{version}-2", *TOPIC, COMPACT, register(2, level), version=0)
        assert policy([other])[0] != "compact"


def test_server_properties_decides_whether_a_broker_has_zookeeper(tmp_path: Path) -> None:
    old, new = (made(tmp_path / str(v), *TOPIC, COMPACT, version=v) for v in (0, 1))
    kraft = server("process.roles=broker\nnode.id=1\nzookeeper.connect=z:1")
    zookeeper = server("broker.id=1\nzookeeper.connect=z:1")
    silent = server("broker.id=1")
    for path in (old, new):
        assert policy([path], kraft)[0] == "compact"
        reason, notes = policy([path], zookeeper)
        assert "is unknown" in reason
        assert "server.properties has zookeeper.connect and no process.roles" in notes
    assert policy([new], silent)[0] == "compact"
    assert "is unknown" in policy([old], silent)[0]


def test_broker_with_meta_of_both_versions_is_unknown(tmp_path: Path) -> None:
    old, new = made(tmp_path / "0", version=0), made(tmp_path / "1", *TOPIC, COMPACT)
    reason, notes = policy([old, new])
    assert "is unknown" in reason
    assert "version 0 in one directory of the broker and version 1 in another" in notes
    assert policy([old, new], server("process.roles=broker\nnode.id=1"))[0] == "compact"


def test_log_of_a_controller_gives_nothing_to_a_broker_with_zookeeper(tmp_path: Path) -> None:
    broker = made(tmp_path / "broker", version=0)
    controller = made(tmp_path / "controller", *TOPIC, DELETE, ONE_MS, node=3000)
    reason, notes = policy([broker, controller])
    assert "is unknown" in reason
    assert f"{controller}/{METADATA_DIR}" in notes


def test_emptied_meta_properties_prove_nothing(tmp_path: Path) -> None:
    path = made(tmp_path / "a", *TOPIC, DELETE, ONE_MS)
    (path / "meta.properties").write_text("")
    reason, notes = policy([path])
    assert "is unknown" in reason
    assert "nothing shows that this log is the broker's" in notes


def test_newer_version_of_meta_properties_is_read_as_version_1(tmp_path: Path) -> None:
    assert policy([made(tmp_path / "a", *TOPIC, COMPACT, version=2)])[0] == "compact"


# --- several logs


def test_newest_of_two_logs_of_one_broker_counts_and_the_other_is_outside(tmp_path: Path) -> None:
    old = made(tmp_path / "a", *TOPIC, DELETE, ONE_MS)
    new = made(tmp_path / "b", *TOPIC, COMPACT, NO_OP, NO_OP)
    found, notes = policy([old, new])
    assert found == "compact"
    assert f"{old}/{METADATA_DIR} (leader epoch 1, end offset 5" in notes
    assert f"{new}/{METADATA_DIR} (leader epoch 1, end offset 6" in notes
    assert "Found unexpected metadata location" in notes
    [unused] = choose_metadata(Settings(), STORAGE, surveyed([old, new])).unused
    assert (unused.log_dir, unused.stops_broker) == (str(old), True)


def test_verify_reports_a_log_that_keeps_a_broker_from_starting(tmp_path: Path) -> None:
    old = made(tmp_path / "a", *TOPIC, DELETE, ONE_MS)
    new = made(tmp_path / "b", *TOPIC, COMPACT, NO_OP, NO_OP)
    other = made(tmp_path / "c", *TOPIC, COMPACT, node=2)
    for order in permutations([old, new, other]):
        findings, notes = unused_in(*order)
        assert [(f.kind, f.log_dir, f.file) for f in findings] == [
            (Kind.METADATA_LOG, str(old), METADATA_DIR)
        ]
        assert notes == ()


def test_verify_names_the_metadata_log_that_a_broker_with_zookeeper_does_not_use(
    tmp_path: Path,
) -> None:
    path = made(tmp_path / "a", *TOPIC, DELETE, version=0)
    findings, [note] = unused_in(path)
    assert findings == ()
    assert f"{path}/{METADATA_DIR}" in note
    (path / "meta.properties").write_text("version=one")
    assert unused_in(path) == ((), ())


def test_higher_epoch_counts_before_a_higher_offset(tmp_path: Path) -> None:
    long = made(tmp_path / "a", *TOPIC, DELETE, ONE_MS, *[NO_OP] * 9)
    late = made(tmp_path / "b", *TOPIC)
    records = [*TOPIC, COMPACT]
    batches = [batch(1 + n, value, epoch=2) for n, value in enumerate(records)]
    segment(late / METADATA_DIR, 0, control(0, LEADER_CHANGE), *batches)
    assert policy([long, late])[0] == "compact"


def test_newest_log_of_three_nodes_counts_for_all(tmp_path: Path) -> None:
    paths = [
        made(tmp_path / str(n), *TOPIC, COMPACT if n == 2 else DELETE, *[NO_OP] * (n == 2), node=n)
        for n in (1, 2, 3)
    ]
    found, notes = policy(paths)
    assert found == "compact"
    for path, end in zip(paths, (4, 5, 4), strict=True):
        assert f"{path}/{METADATA_DIR} (leader epoch 1, end offset {end}" in notes
    assert "Found unexpected" not in notes


def test_logs_that_end_alike_and_differ_give_nothing(tmp_path: Path) -> None:
    one, other = made(tmp_path / "a", *TOPIC, DELETE), made(tmp_path / "b", *TOPIC, COMPACT)
    assert "end alike, but differ" in policy([one, other])[0]
    same = made(tmp_path / "c", *TOPIC, COMPACT, node=2)
    assert policy([other, same])[0] == "compact"


@pytest.mark.parametrize("how", ["torn", "flipped", "empty", "no segment", "link", "dangling"])
def test_log_that_may_have_been_newer_and_can_not_be_read_is_not_passed_over(
    tmp_path: Path, how: str
) -> None:
    sound = made(tmp_path / "sound", *TOPIC, DELETE, ONE_MS)
    damaged = made(tmp_path / "damaged", *TOPIC, COMPACT, *[NO_OP] * 9)
    directory = damaged / METADATA_DIR
    file = directory / f"{0:020d}.log"
    data = file.read_bytes()
    if how == "torn":
        file.write_bytes(data[: len(data) // 4])
    elif how == "flipped":
        file.write_bytes(data[:200] + bytes([data[200] ^ 1]) + data[201:])
    elif how == "empty":
        file.write_bytes(b"")
    elif how == "no segment":
        file.unlink()
    else:
        directory.rename(tmp_path / "elsewhere")
        directory.symlink_to(tmp_path / ("elsewhere" if how == "link" else "nowhere"))
    reason, notes = policy([sound, damaged])
    assert "the cleanup.policy of topic t is unknown" in reason
    assert f"{directory} (" in notes


# --- metadata.log.dir


def test_only_the_log_in_metadata_log_dir_counts(tmp_path: Path) -> None:
    old = made(tmp_path / "a", *TOPIC, COMPACT)
    new = made(tmp_path / "b", *TOPIC, DELETE, ONE_MS, *[NO_OP] * 9)
    (tmp_path / "link").symlink_to(old)
    for place in (old, tmp_path / "link", f"{old}/"):
        found, notes = policy(
            [old, new], server(f"node.id=1\nmetadata.log.dir={place}\nlog.dirs={old},{new}")
        )
        assert found == "compact"
        assert f"{new}/{METADATA_DIR}" in notes
        assert "Found unexpected metadata location" in notes


def test_first_of_log_dirs_has_the_log_where_metadata_log_dir_is_not_set(tmp_path: Path) -> None:
    first = made(tmp_path / "a", *TOPIC, COMPACT)
    second = made(tmp_path / "b", *TOPIC, DELETE, ONE_MS, *[NO_OP] * 9)
    assert policy([first, second], server(f"log.dirs={first},{second}"))[0] == "compact"


@pytest.mark.parametrize("what", ["empty", "none"])
def test_log_elsewhere_does_not_replace_the_one_that_the_broker_would_use(
    tmp_path: Path, what: str
) -> None:
    used = made(tmp_path / "a", *([NO_OP] if what == "empty" else []))
    good = made(tmp_path / "b", *TOPIC, DELETE, ONE_MS)
    if what == "empty":
        (used / METADATA_DIR / f"{0:020d}.log").write_bytes(b"")
    reason, notes = policy([used, good], server(f"node.id=1\nmetadata.log.dir={used}"))
    assert "is unknown" in reason
    assert ("the metadata log is empty" if what == "empty" else "it has no __cluster_met") in reason
    assert f"{good}/{METADATA_DIR}" in notes
    assert "is not used" in notes


def test_relative_metadata_log_dir_counts_where_one_directory_fits(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    old = made(tmp_path / "x" / "meta", *TOPIC, COMPACT)
    new = made(tmp_path / "data", *TOPIC, DELETE, ONE_MS, *[NO_OP] * 9)
    for place in ("meta", "./meta", "../x/meta", "x/meta/"):
        assert policy([old, new], server(f"node.id=1\nmetadata.log.dir={place}"))[0] == "compact"
    reason, _ = policy([old, new], server("node.id=1\nmetadata.log.dir=eta"))
    assert "do not show which one it is" in reason


def test_copies_of_a_broker_elsewhere_are_compared_with_each_other(tmp_path: Path) -> None:
    old = made(tmp_path / "a", *TOPIC, DELETE, ONE_MS)
    new = made(tmp_path / "b", *TOPIC, COMPACT, NO_OP, NO_OP)
    given = server("node.id=1\nlog.dirs=/var/lib/kafka")
    assert policy([old, new], given, allow_other_broker=True)[0] == "compact"
    assert policy([old, new], given, compare_log_dirs=False)[0] == "compact"


def test_each_node_with_its_file_and_the_newest_of_their_logs_counts(tmp_path: Path) -> None:
    one = made(tmp_path / "1", *TOPIC, COMPACT, NO_OP, NO_OP)
    two = made(tmp_path / "2", *TOPIC, DELETE, node=2)
    stale = made(tmp_path / "3", *TOPIC, DELETE, *[NO_OP] * 9, node=2)
    files = (
        server(f"node.id=1\nlog.dirs={one}", file="one"),
        server(f"node.id=2\nlog.dirs={two},{stale}", file="two"),
    )
    assert policy([one, two, stale], *files)[0] == "compact"


def test_directories_of_two_clusters_are_not_changed_in_any_order(tmp_path: Path) -> None:
    paths = [made(tmp_path / str(n), *TOPIC, node=n) for n in (1, 2)]
    file = paths[1] / "meta.properties"
    file.write_text(file.read_text().replace("=c", "=d"))
    paths.append(made(tmp_path / "3", node=None, version=0))
    for order in permutations(paths):
        with pytest.raises(UsageError, match=r"different cluster\.id"):
            survey_log_dirs(STORAGE, [*map(str, order)], to_change=True)
