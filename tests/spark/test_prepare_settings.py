"""A preparation names files of settings, and the broker's user can write it: a run as root reads
and shows nothing that this user could not read (S8.12).
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.fixtures.data import TOPIC_CONFIGS, copy_log_dir
from tests.spark.preparing import (
    CHANGED,
    OTHER,
    asked,
    committed,
    prepared,
    prepared_copy,
    results,
    staged,
)
from winnow.cleaning.prepared.status import preparations_of
from winnow.errors import UsageError
from winnow.logdir.names import PREPARED
from winnow.logdir.survey import survey_log_dirs
from winnow.runtime.stop import Stop
from winnow.storage.places import Places

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may read as another user"),
]
BROKER = 65534
HIDDEN = "only-root-knows-4711"
BROKER_FILE = f"node.id=1\nlog.dirs=/x\nlog.retention.ms={HIDDEN}\nlog.cleaner.enable={HIDDEN}\n"
CONTENT = {
    "topic_configs": (f"{HIDDEN} and more\n", f"c-tomb retention.ms={HIDDEN}\n"),
    "server_properties": (f"{HIDDEN}\n", BROKER_FILE, f"process.roles={HIDDEN}\n"),
}


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that other users can enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as path:
        os.chmod(path, 0o755)  # noqa: S103 - so that the other user finds it
        yield Path(path)


@pytest.fixture(scope="module")
def ready(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepared_copy(spark, tmp_path_factory.mktemp("ready") / "log-dir")


@pytest.fixture
def log_dir(ready: Path, place: Path) -> Path:
    """Preparations that belong to the broker's user."""
    shutil.copytree(ready, place / "log-dir")
    give(place / "log-dir", BROKER)
    return place / "log-dir"


def give(tree: Path, user: int) -> None:
    for path in (tree, *tree.rglob("*")):
        os.chown(path, user, user)


def name_source(log_dir: Path, field: str, source: Path) -> None:
    """As the broker's user may do."""
    for (staging,) in staged(log_dir).values():
        path = staging / PREPARED
        value = json.loads(path.read_text())
        value["asked"][field] = str(source) if field == "topic_configs" else [str(source)]
        path.write_text(json.dumps(value))


def shown(log_dir: Path) -> str:
    """All that a dry run, `doctor` and a commit say."""
    dirs = survey_log_dirs(Places(), [str(log_dir)])
    said = [*committed(log_dir, dry_run=True).partitions, *preparations_of(dirs, Stop())]
    return "\n".join(map(repr, [*said, *committed(log_dir).partitions]))


@pytest.mark.parametrize("mode", [(0o700, 0o644), (0o755, 0o600)])
@pytest.mark.parametrize("field", CONTENT)
def test_file_of_root_is_not_read(
    log_dir: Path, place: Path, field: str, mode: tuple[int, int]
) -> None:
    secret = place / "secret" / "key"
    secret.parent.mkdir(mode=mode[0])
    secret.write_text(CONTENT[field][0])
    secret.chmod(mode[1])
    name_source(log_dir, field, secret)
    said = shown(log_dir)
    assert HIDDEN not in said
    assert said.count("Permission denied") == 3 * 2
    assert not any(one.actions == ("compacted",) for one in committed(log_dir).partitions)


@pytest.mark.parametrize("through", ["a link", "a descriptor"])
def test_settings_files_are_not_read_through_links_or_descriptors(
    log_dir: Path, place: Path, through: str
) -> None:
    secret = place / "secret" / "key"
    secret.parent.mkdir(mode=0o700)
    secret.write_text(TOPIC_CONFIGS.read_text())
    with secret.open() as file:
        source = Path(f"/proc/self/fd/{file.fileno()}")
        if through == "a link":
            source = place / "link"
            source.symlink_to(secret)
        name_source(log_dir, "topic_configs", source)
        assert "Permission denied" in shown(log_dir)


@pytest.mark.parametrize(
    ("field", "number"), [(field, n) for field, texts in CONTENT.items() for n in range(len(texts))]
)
def test_content_of_a_readable_file_is_not_shown(
    log_dir: Path, place: Path, field: str, number: int
) -> None:
    source = place / "source"
    source.write_text(CONTENT[field][number])
    name_source(log_dir, field, source)
    said = shown(log_dir)
    assert HIDDEN not in said
    assert said.count(str(source)) >= 3 * 2


def test_owner_can_read_the_settings_of_a_sound_preparation(log_dir: Path, place: Path) -> None:
    """A file of the broker's group, in a directory of the broker's."""
    source = place / "private" / "topic-configs.txt"
    source.parent.mkdir(mode=0o700)
    shutil.copyfile(TOPIC_CONFIGS, source)
    os.chown(source.parent, BROKER, 0)
    os.chown(source, 0, BROKER)
    source.chmod(0o640)
    name_source(log_dir, "topic_configs", source)
    assert {one.actions for one in committed(log_dir).partitions} == {("compacted",)}


def test_settings_files_are_not_read_if_the_writer_of_a_preparation_is_unknown(
    log_dir: Path,
) -> None:
    (staging,) = staged(log_dir)[CHANGED]
    os.chown(staging, 1234, 1234)
    told = results(committed(log_dir))
    assert "several users may have written it" in told[CHANGED].why
    assert told[OTHER].actions == ("compacted",)


def test_prepare_refuses_what_a_commit_could_not_read(spark: SparkSession, place: Path) -> None:
    copy_log_dir("clean", place / "log-dir", only=[CHANGED])
    give(place / "log-dir", BROKER)
    source = place / "private" / "topic-configs.txt"
    source.parent.mkdir(mode=0o700)
    shutil.copyfile(TOPIC_CONFIGS, source)
    with pytest.raises(UsageError, match="files that user nobody can read: `commit` reads them"):
        prepared(spark, place / "log-dir", asked(configs=source))
    assert staged(place / "log-dir") == {}
