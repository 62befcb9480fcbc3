"""Which version of Kafka a log directory tells (docs/decisions/0046)."""

from __future__ import annotations

import pytest

from winnow.policy.known_version import (
    HIGHEST_LEVELS,
    LEVELS,
    known_version,
    level_name,
    newer_features,
)
from winnow.policy.versions import ANY_VERSION, MINORS, EmptiedBatch


@pytest.mark.parametrize(
    ("supported", "versions"),
    [
        ([30], "4.3"),
        ([33], "4.4"),
        ([21], "3.9"),
        ([30, 33], "4.3 to 4.4"),
        ([99], "4.4"),
        ([30, None], "3.9 to 4.4"),
        ([26], "3.9 to 4.4"),
        ([], "3.9 to 4.4"),
    ],
)
def test_brokers_registration_tells_its_version(supported: list[int | None], versions: str) -> None:
    assert known_version(zookeeper=False, level=21, supported=supported).versions == versions


@pytest.mark.parametrize(
    ("level", "versions"),
    [(1, "3.0 to 4.4"), (21, "3.9 to 4.4"), (30, "4.3 to 4.4"), (33, "4.4"), (34, "4.4"),
     (99, "4.4")],
)  # fmt: skip
def test_feature_level_tells_the_oldest_version(level: int, versions: str) -> None:
    found = known_version(zookeeper=False, level=level, supported=[None])
    assert found.versions == versions
    assert found.source == f"metadata.version is {level_name(level)}"


def test_zookeeper_tells_a_range_whose_rules_keep_more() -> None:
    found = known_version(zookeeper=True, level=None, supported=[None])
    assert found.versions == "2.8 to 3.9"
    assert found.rules.delete_horizons
    assert found.rules.emptied_batch is EmptiedBatch.END_OF_ROUND
    assert str(found) == (
        "rules of Kafka 2.8 to 3.9 (meta.properties of a broker with ZooKeeper). Where these "
        "differ, the rule that deletes less applies"
    )


def test_nothing_tells_the_version() -> None:
    assert known_version(zookeeper=False, level=None, supported=[None]) == ANY_VERSION


def test_highest_level_of_a_version_is_one_of_its_own_levels() -> None:
    for version, level in HIGHEST_LEVELS.items():
        assert version in MINORS
        assert LEVELS[level - 1].startswith(f"{version}-")


def test_newer_features_are_named() -> None:
    features = {"metadata.version": 34, "kraft.version": 1, "brand.new": 3, "group.version": 0}
    assert newer_features(features) == ("brand.new 3", "metadata.version 34")
