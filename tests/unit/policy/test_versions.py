"""The table of rules by version (docs/decisions/0046)."""

import pytest

from tests.pages import ROOT
from winnow.errors import UsageError
from winnow.policy.versions import (
    ANY_VERSION,
    KEEPS_MORE,
    NEWEST,
    OLDEST,
    PRODUCER_ID,
    RULES,
    TRANSACTIONAL_ID,
    EmptiedBatch,
    KafkaVersion,
    KnownVersion,
    Range,
    Rules,
    asked_version,
    rules_of,
)


def rules(text: str) -> Rules:
    return asked_version(text).rules


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2.8", KafkaVersion(2, 8)),
        ("3.9", KafkaVersion(3, 9)),
        (" 3.9.1 ", KafkaVersion(3, 9, 1)),
        ("4.4.0", KafkaVersion(4, 4, 0)),
    ],
)
def test_version_is_parsed(text: str, expected: KafkaVersion) -> None:
    assert KafkaVersion.parse(text) == expected
    assert str(expected) == text.strip()


@pytest.mark.parametrize("text", ["", "4", "four", "4.x", "3.9.1.1", "-3.9", "3.9-IV0", "9999.1"])
def test_text_that_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"expected a version such as 3\.9"):
        KafkaVersion.parse(text)


@pytest.mark.parametrize("text", ["2.7", "2.7.2", "4.5", "5.0", "0.11"])
def test_version_without_rules_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"expected 2\.8 to 4\.4"):
        KafkaVersion.parse(text)


def test_each_switch_has_one_value_in_each_release() -> None:
    boundaries = {KafkaVersion.parse(row.since) for row in RULES}
    for version in boundaries:
        release = KafkaVersion(version.major, version.minor, version.patch or 0)
        for switch in {row.switch for row in RULES}:
            held = [row for row in RULES if row.switch == switch and row.holds_in(release, release)]
            assert len(held) == 1, (switch, release)


def test_each_value_of_a_switch_has_a_place_in_its_order() -> None:
    for switch, order in KEEPS_MORE.items():
        assert {row.value for row in RULES if row.switch == switch} == set(order)


def test_patch_release_decides_which_emptied_batch_is_kept() -> None:
    assert rules("3.9.1").emptied_batch is EmptiedBatch.NONE
    assert rules("3.9.2").emptied_batch is EmptiedBatch.END_OF_ROUND
    assert rules("4.3").emptied_batch is EmptiedBatch.END_OF_ROUND
    assert rules("4.4").emptied_batch is EmptiedBatch.HIGH_WATERMARK


def test_minor_version_means_all_its_releases_and_keeps_more() -> None:
    assert rules("3.9").emptied_batch is EmptiedBatch.END_OF_ROUND
    assert str(asked_version("3.9")) == (
        "rules of Kafka 3.9 (--kafka-version). Where these differ, the rule that deletes less "
        "applies"
    )
    assert str(asked_version("3.9.2")) == "rules of Kafka 3.9.2 (--kafka-version)"


def test_range_of_versions_keeps_more() -> None:
    found = rules_of(OLDEST, NEWEST)
    assert found.delete_horizons
    assert found.emptied_batch is EmptiedBatch.END_OF_ROUND
    assert found.producer_expiration == (TRANSACTIONAL_ID, PRODUCER_ID)
    assert found.settings["segment.bytes"] == Range(14)
    assert ANY_VERSION.versions == "4.0 to 4.4"
    assert ANY_VERSION.rules.emptied_batch is EmptiedBatch.END_OF_ROUND
    assert ANY_VERSION.rules.producer_expiration == (PRODUCER_ID,)
    assert not rules_of(KafkaVersion(2, 8), KafkaVersion(3, 0)).delete_horizons


def test_versions_and_source_are_named() -> None:
    known = KnownVersion(KafkaVersion(4, 1), KafkaVersion(4, 3), "metadata.version 4.1-IV1")
    assert str(known) == "rules of Kafka 4.1 to 4.3 (metadata.version 4.1-IV1)"


def test_each_row_names_a_rule_a_source_and_a_test() -> None:
    for row in RULES:
        assert row.rule.startswith("S")
        assert row.source
        assert (ROOT / "tests" / row.test).is_file(), row.test
