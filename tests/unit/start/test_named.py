"""A verdict counts what server.properties names, and Winnow was not given."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fixtures.data import copy_log_dir, copy_tree
from tests.kafka.starts.bases import copy_base
from tests.unit.start.test_broker import METADATA, NOW, start_of
from winnow.cleaning.plan.settings import with_metadata
from winnow.logdir.names import CLEAN_SHUTDOWN
from winnow.logdir.survey import survey_log_dirs
from winnow.policy.server_properties import parse_server_properties
from winnow.policy.sources import Settings
from winnow.policy.versions import asked_version
from winnow.recovery.logs.run import recover_dirs
from winnow.recovery.logs.values import TruncateRequest
from winnow.start.values import BrokerStart, Fate
from winnow.start.words import verdict
from winnow.storage.places import Places

KRAFT = "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@localhost:9093\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two log directories of one broker, of which `a` has the metadata log."""
    copy_base("4.3.1", "stopped", tmp_path / "r")
    return tmp_path / "r"


@pytest.fixture
def of_zookeeper(tmp_path: Path) -> Path:
    copy_base("2.8.2", "stopped", tmp_path / "r")
    return tmp_path / "r"


def started(root: Path, given: str, text: str | None) -> BrokerStart:
    """The verdict on the directories `given`, `text` being the server.properties if there is one,
    with @/ for the parent of the directories.
    """
    properties = None if text is None else parse_server_properties(text.replace("@/", f"{root}/"))
    settings = Settings(server_properties=properties)
    return start_of(*(root / name for name in given.split()), settings=settings)


def said(start: BrokerStart) -> str:
    return "\n".join(start.reasons)


SOUND = [
    ("a b", None),
    ("a b", f"{KRAFT}log.dirs=@/a,@/b"),
    ("b a", f"{KRAFT}log.dirs=@/a,@/b\nmetadata.log.dir=@/a"),
    ("a b", f"{KRAFT}log.dirs=@/b,@/a\nmetadata.log.dir=@/a"),
    ("a b", f"{KRAFT}log.dirs=@/link,@/b"),
    ("a b", f"{KRAFT}log.dirs=@/a/,@/b"),
    ("a b", f"{KRAFT}log.dirs=r/a,r/b"),
    ("a b", KRAFT),
]


@pytest.mark.parametrize(("given", "text"), SOUND)
def test_broker_of_which_all_is_given_starts_at_once(
    root: Path, given: str, text: str | None
) -> None:
    (root / "link").symlink_to("a")
    start = started(root, given, text)
    assert (start.is_safe, start.is_harmful, start.reasons) == (True, False, ())


@pytest.mark.parametrize(
    ("given", "text", "words"),
    [
        ("a", None, "started last with 2 log directories"),
        ("a", KRAFT, "started last with 2 log directories"),
        ("b", None, "its --server-properties FILE"),
        ("b", KRAFT, "its --server-properties FILE"),
        ("b", f"{KRAFT}log.dirs=@/a,@/b", "/r/a was not given"),
        ("a", f"{KRAFT}log.dirs=@/a,@/b", "/r/b was not given"),
        ("a", f"{KRAFT}log.dirs=a,elsewhere/b", "names elsewhere/b"),
        (
            "a b",
            f"config.providers=env\n{KRAFT}log.dirs=${{env:DIRS}}",
            "log.dirs of --server-properties comes from a config provider",
        ),
        (
            "a b",
            f"config.providers=x,env\n{KRAFT}log.dirs=@/a,@/b\nmetadata.log.dir=${{env:p:M}}",
            "metadata.log.dir of --server-properties comes from a config provider",
        ),
    ],
)
def test_no_start_is_promised_while_something_that_the_broker_reads_is_not_given(
    root: Path, given: str, text: str | None, words: str
) -> None:
    start = started(root, given, text)
    assert (start.fate, start.is_safe, start.is_harmful) == (Fate.UNKNOWN, False, False)
    [reason] = start.unseen
    assert words in reason
    assert reason in start.reasons
    assert verdict(start) == "it can't be predicted what broker 1 does"


def test_broker_with_one_log_directory_needs_no_file(tmp_path: Path) -> None:
    copy_base("4.3.1", "alone", tmp_path / "r")
    assert started(tmp_path / "r", "a", None).is_safe


def test_partition_that_is_also_in_a_directory_that_is_not_given_is_named(root: Path) -> None:
    copy_tree(root / "b" / "d-1", root / "a" / "d-1")
    start = started(root, "b", f"{KRAFT}log.dirs=@/a,@/b")
    assert (start.fate, "It has d-1, too." in said(start)) == (Fate.UNKNOWN, True)
    assert "d-1 is in 2 directories" in said(started(root, "a b", f"{KRAFT}log.dirs=@/a,@/b"))


TWICE = [
    "log.dirs=@/a,@/b\nmetadata.log.dir=@/link",
    "log.dirs=@/a,@/b\nmetadata.log.dir=@/a/",
    "log.dirs=@/a,@/b,@/link",
    "log.dirs=@/a,@/b,@/a/",
    "log.dirs=@/a,@/b,@/a/../b",
]


@pytest.mark.parametrize("text", TWICE)
def test_directory_under_two_names_keeps_a_broker_from_starting(root: Path, text: str) -> None:
    (root / "link").symlink_to("a")
    start = started(root, "a b", KRAFT + text)
    assert (start.fate, "names one directory as" in said(start)) == (Fate.STOPS, True)


@pytest.mark.parametrize(("version", "fate"), [("3.9", Fate.STOPS), ("4.3", Fate.LOADS)])
def test_name_that_is_repeated_is_forgiven_from_4_2_on(
    of_zookeeper: Path, version: str, fate: Fate
) -> None:
    dirs = ",".join(f"{of_zookeeper}/{name}" for name in "aba")
    text = f"broker.id=1\nzookeeper.connect=z:1\nlog.dirs={dirs}"
    settings = Settings(
        server_properties=parse_server_properties(text), kafka=asked_version(version)
    )
    assert start_of(of_zookeeper / "a", of_zookeeper / "b", settings=settings).fate is fate


@pytest.mark.parametrize("there", [True, False])
def test_named_directory_that_is_not_formatted_keeps_a_broker_from_starting(
    root: Path, *, there: bool
) -> None:
    if there:
        (root / "c").mkdir()
    (root / "a" / "d-0").rename(root / "d-0")
    start = started(root, "a b", f"{KRAFT}log.dirs=@/a,@/b,@/c")
    assert (start.fate, start.made_anew) == (Fate.STOPS, ("d-0",))
    assert "/r/c/meta.properties is missing" in said(start)


def test_separate_directory_of_the_metadata_log_is_looked_at(root: Path) -> None:
    (root / "m").mkdir()
    meta = (root / "a" / "meta.properties").read_text()
    lines = [line for line in meta.splitlines() if not line.startswith("directory.id")]
    own = "\n".join([*lines, "directory.id=m4Fq-xQAQdW2q0Y0zXk2sg", ""])
    (root / "m" / "meta.properties").write_text(own)
    (root / "a" / METADATA).rename(root / "m" / METADATA)
    text = f"{KRAFT}log.dirs=@/a,@/b\nmetadata.log.dir=@/m"
    assert started(root, "a b", text).is_safe
    (root / "m" / "meta.properties").write_text(meta)
    assert "have the directory.id" in said(started(root, "a b", text))
    (root / "m" / "meta.properties").unlink()
    assert started(root, "a b", text).fate is Fate.STOPS


def test_only_metadata_log_is_never_to_be_moved_when_log_dirs_are_in_another_order(
    root: Path,
) -> None:
    text = f"{KRAFT}log.dirs=@/b,@/a"
    start = started(root, "a b", text)
    assert start.fate is Fate.STOPS
    assert f"set metadata.log.dir={root}/a" in said(start)
    assert "never move or delete it" in said(start)
    assert "elsewhere" not in said(start)
    assert started(root, "a b", f"{text}\nmetadata.log.dir=@/a").is_safe


def test_older_metadata_log_is_the_one_to_move(root: Path) -> None:
    old = copy_log_dir("clean", root / "old", only=[METADATA]) / METADATA
    old.rename(root / "b" / METADATA)
    newer, older = f"{root}/a/{METADATA}", f"{root}/b/{METADATA}"
    used_is_newer = said(started(root, "a b", f"{KRAFT}log.dirs=@/a,@/b"))
    used_is_older = said(started(root, "a b", f"{KRAFT}log.dirs=@/b,@/a"))
    texts = (used_is_newer, used_is_older)
    assert ["It is newer than" in text for text in texts] in ([False, True], [True, False])
    assert f"Keep {newer}, and move this one" in used_is_newer or f"newer than {newer}" in texts[0]
    assert f"newer than {older}" in used_is_older or f"Keep {older}" in used_is_older


def _changing(root: Path) -> None:
    """A quorum whose voters are in the metadata log, as `--standalone` formats it."""
    state = root / "a" / METADATA / "quorum-state"
    fields = {"leaderId": 1, "leaderEpoch": 1, "votedId": -1, "votedDirectoryId": ""}
    state.write_text(json.dumps({**fields, "data_version": 1}))


def _without_records(root: Path) -> None:
    directory = root / "a" / METADATA
    for file in directory.iterdir():
        if file.suffix == ".checkpoint":
            file.unlink()
    for file in directory.glob("*.log"):
        file.write_bytes(b"")


def _without_log(root: Path) -> None:
    (root / "a" / METADATA).rename(root / "elsewhere")


@pytest.mark.parametrize("damage", [_without_records, _without_log])
def test_quorum_that_can_change_has_lost_its_voters_with_its_log(
    root: Path, damage: Callable[[Path], None]
) -> None:
    dynamic = KRAFT.replace("voters=1@", "bootstrap.servers=") + "log.dirs=@/a,@/b"
    static = f"{KRAFT}log.dirs=@/a,@/b"
    damage(root)
    assert started(root, "a b", static).fate is Fate.LOSES
    if damage is _without_records:
        _changing(root)
    start = started(root, "a b", dynamic)
    assert (start.fate, "does not start" in said(start)) == (Fate.UNKNOWN, True)
    assert not start.logs(Fate.SET_ASIDE)
    of_broker = dynamic.replace("broker,controller", "broker")
    if damage is _without_log:
        assert started(root, "a b", of_broker).fate is Fate.UNKNOWN


def test_broker_with_zookeeper_keeps_its_verdict(of_zookeeper: Path) -> None:
    text = "broker.id=1\nzookeeper.connect=z:1\nlog.dirs="
    for given in ("a b", "a", "b"):
        assert started(of_zookeeper, given, None).is_safe
    assert started(of_zookeeper, "a b", f"{text}@/a,@/b").is_safe
    start = started(of_zookeeper, "a", f"{text}@/a,@/b")
    assert (start.fate, "/b was not given" in said(start)) == (Fate.UNKNOWN, True)
    assert started(of_zookeeper, "a b", f"{text}@/a,@/b,@/a/").fate is Fate.STOPS


def test_migrated_broker_with_version_0_has_a_metadata_log(of_zookeeper: Path) -> None:
    assert started(of_zookeeper, "a b", f"{KRAFT}log.dirs=@/a,@/b").fate is Fate.LOSES
    assert started(of_zookeeper, "a b", KRAFT).fate is Fate.UNKNOWN


@pytest.mark.parametrize(("given", "marked"), [("b", False), ("a", False), ("a b", True)])
def test_recovery_writes_the_marker_only_if_all_that_the_broker_reads_was_given(
    tmp_path: Path, given: str, *, marked: bool
) -> None:
    root = tmp_path / "r"
    copy_base("4.3.1", "killed", root)
    paths = [str(root / name) for name in given.split()]
    storage = Places()
    log_dirs = survey_log_dirs(storage, paths)
    settings, _ = with_metadata(Settings(), storage, log_dirs)
    request = TruncateRequest(settings=settings, now=NOW, truncate=True)
    done, [start] = recover_dirs(storage, log_dirs, request, run_id="r")
    assert {one.marked for one in done} == {marked}
    assert start.is_safe is marked
    assert all((Path(path) / CLEAN_SHUTDOWN).exists() is marked for path in paths)
