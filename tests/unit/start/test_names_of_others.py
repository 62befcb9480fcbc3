"""Directories that only later versions know, and names that a broker does not see.

Real brokers judge the same names in `tests/kafka/starts`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kafka.starts.bases import copy_base
from tests.unit.start.test_broker import log_of, start_of
from winnow.logdir.listing import list_segments
from winnow.logdir.survey import survey_log_dirs
from winnow.policy.sources import Settings
from winnow.policy.versions import KafkaVersion, KnownVersion, asked_version
from winnow.start.values import Fate
from winnow.storage.local import LocalStorage
from winnow.storage.places import Places
from winnow.verbs.verify.directories import check_directory, check_log_dir
from winnow.verbs.verify.findings import Scope


@pytest.fixture
def root(tmp_path: Path) -> Path:
    copy_base("4.3.1", "alone", tmp_path / "r")
    return tmp_path / "r" / "a"


@pytest.mark.parametrize(
    ("name", "version", "stops"),
    [
        ("remote-log-index-cache", "2.8", True),
        ("remote-log-index-cache", "3.4", True),
        ("remote-log-index-cache", "3.5", False),
        ("x-0.0123456789abcdef0123456789abcdef-stray", "3.5", True),
        ("x-0.0123456789abcdef0123456789abcdef-stray", "3.6", False),
    ],
)
def test_directory_of_a_later_version_keeps_an_earlier_broker_from_starting(
    root: Path, name: str, version: str, *, stops: bool
) -> None:
    (root / name).mkdir()
    start = start_of(root, settings=Settings(kafka=asked_version(version)))
    words = [reason for one in start.log_dirs for reason in one.reasons]
    assert (start.log_dirs[0].fate is Fate.STOPS) is stops
    assert any(f"{name} is a directory of Kafka 3." in one for one in words) is stops


def test_broker_of_an_unknown_version_may_not_start_on_it(root: Path) -> None:
    (root / "remote-log-index-cache").mkdir()
    kafka = KnownVersion(KafkaVersion(2, 8), KafkaVersion(3, 9))
    [log_dir] = start_of(root, settings=Settings(kafka=kafka)).log_dirs
    assert log_dir.fate is Fate.UNKNOWN
    assert "Give --kafka-version" in log_dir.reasons[0]
    assert start_of(root).is_safe


@pytest.mark.parametrize("name", [b"\xff\xfe.log", b"\xff.swap", b"%020d\xff.index" % 0])
def test_file_whose_name_is_no_utf_8_does_not_count(root: Path, name: bytes) -> None:
    path = os.fsencode(root / "d-0") + b"/" + name
    with open(path, "wb") as file:
        file.write(b"x")
    start = start_of(root)
    assert log_of(start, "d-0").fate is Fate.LOADS
    assert start.is_safe
    assert not list_segments(LocalStorage(), f"{root}/d-0").problems
    assert not check_directory(LocalStorage(), Scope(str(root), "d-0", "d", 0)).findings
    assert os.path.exists(path)


@pytest.mark.parametrize("name", [b"caf\xe9-0", b"caf\xe9"])
def test_directory_whose_name_is_no_utf_8_does_not_count(root: Path, name: bytes) -> None:
    before = survey_log_dirs(Places(), [str(root)])
    os.mkdir(os.fsencode(root) + b"/" + name)
    assert start_of(root).is_safe
    assert survey_log_dirs(Places(), [str(root)]) == before
    assert not check_log_dir(LocalStorage(), str(root), topics=()).findings


def test_producer_snapshot_with_such_a_name_keeps_a_broker_from_starting(root: Path) -> None:
    path = os.fsencode(root / "d-0") + b"/%019d\xff.snapshot" % 40
    os.mknod(path)
    assert start_of(root).fate is Fate.STOPS


@pytest.mark.parametrize("name", ["é.log", "caf\u00e9/"])
def test_name_that_a_broker_can_decode_counts(root: Path, name: str) -> None:
    path = root / "d-0" / name if name.endswith("log") else root / name
    path.mkdir() if name.endswith("/") else path.touch()
    assert start_of(root).fate is Fate.STOPS
