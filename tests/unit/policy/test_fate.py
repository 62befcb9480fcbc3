"""What happens to one record, rule by rule (S5.4, S5.5, S5.8). The cleaner's own filter agrees."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.twins.encoding import encode_batch
from winnow.policy.fate import (
    Fact,
    RecordFacts,
    RoundFacts,
    Verdict,
    delete_horizon,
    header_stays,
    record_fate,
)
from winnow.policy.survival import batch_retention
from winnow.wire.batch import BATCH, CONTROL, DELETE_HORIZON, TRANSACTIONAL
from winnow.wire.filtering import filter_batches
from winnow.wire.inflate import inflate
from winnow.wire.plain import Record
from winnow.wire.walk import walk_batches

NOW = 1_800_000_000_000
DAY = 86_400_000
ROUND = RoundFacts(
    first_dirty_offset=50,
    end_offset=100,
    delete_retention_ms=DAY,
    delete_horizons=True,
    legacy_delete_horizon_ms=0,
    converts=True,
    emptied_end=100,
    last_records={},
)


def batch(
    attributes: int = 0, *, last: int = 60, horizon: int | None = None, producer: int = -1
) -> NDArray[np.void]:
    row = np.zeros(1, BATCH)
    row["base_offset"], row["last_offset"], row["magic"], row["producer_id"] = (
        last,
        last,
        2,
        producer,
    )
    row["attributes"] = attributes | (0 if horizon is None else DELETE_HORIZON)
    row["base_timestamp"] = NOW if horizon is None else horizon
    return row


PLAIN = RecordFacts(now=NOW, offset=60, batch=batch(), null_key=False, null_value=False, latest=60)
TOMBSTONE = replace(PLAIN, null_value=True)
MARKER = replace(
    PLAIN, batch=batch(CONTROL | TRANSACTIONAL, producer=7), marker="COMMIT", latest=None
)


def told(record: RecordFacts, of_round: RoundFacts = ROUND) -> tuple[str, str]:
    fate = record_fate(record, of_round)
    assert fate.words
    return fate.verdict.value, fate.rule


def test_last_record_of_a_key_is_kept_and_earlier_ones_dropped() -> None:
    assert told(PLAIN) == ("stays", "S5.5")
    fate = record_fate(replace(PLAIN, latest=61), ROUND)
    assert (fate.verdict, fate.facts) == (Verdict.GOES, (Fact("superseded_by", 61),))


def test_clean_record_is_dropped_if_its_key_is_in_the_dirty_range() -> None:
    clean = replace(PLAIN, offset=10, latest=None)
    assert told(clean) == ("stays", "S5.5")
    assert "dirty range [50, 100)" in record_fate(clean, ROUND).words
    assert told(replace(clean, latest=50)) == ("goes", "S5.5")


def test_record_without_a_key_is_dropped() -> None:
    assert told(replace(PLAIN, null_key=True, latest=None)) == ("goes", "S5.5")


def test_aborted_record_is_dropped_even_if_last_of_its_key() -> None:
    aborted = replace(PLAIN, aborted=(55, 70))
    assert told(aborted) == ("goes", "S5.4")
    assert {fact.name: fact.value for fact in record_fate(aborted, ROUND).facts} == {
        "transaction_first_offset": 55,
        "abort_marker_offset": 70,
    }


@pytest.mark.parametrize(
    ("horizon", "verdict"), [(None, "stays"), (NOW + 1, "stays"), (NOW, "goes"), (NOW - 1, "goes")]
)
def test_tombstone_is_dropped_exactly_at_its_horizon(horizon: int | None, verdict: str) -> None:
    assert told(replace(TOMBSTONE, batch=batch(horizon=horizon))) == (verdict, "S5.5")


def test_tombstone_without_a_horizon_gets_one() -> None:
    assert record_fate(TOMBSTONE, ROUND).facts == (
        Fact("delete_horizon_after", NOW + DAY, time=True),
    )


def test_old_format_tombstone_expires_by_the_age_of_its_segment() -> None:
    old = batch()
    old["magic"] = 1
    assert told(replace(TOMBSTONE, batch=old, retain_legacy_deletes=True)) == ("stays", "S5.5")
    assert told(replace(TOMBSTONE, batch=old, retain_legacy_deletes=False)) == ("goes", "S5.5")


def test_without_horizons_tombstones_and_markers_expire_by_the_age_of_their_segment() -> None:
    before = replace(ROUND, delete_horizons=False)
    marker = replace(
        MARKER, batch=batch(CONTROL | TRANSACTIONAL, horizon=NOW - 1, producer=7), emptied=True
    )
    for record, rule in ((TOMBSTONE, "S5.5"), (marker, "S5.8")):
        for young, verdict in ((True, Verdict.STAYS), (False, Verdict.GOES)):
            fate = record_fate(replace(record, retain_legacy_deletes=young), before)
            assert (fate.verdict, fate.rule) == (verdict, rule)
            assert "delete.retention.ms" in fate.words


def test_tombstone_that_keeps_its_old_format_gets_no_horizon() -> None:
    old = batch()
    old["magic"] = 0
    fate = record_fate(replace(TOMBSTONE, batch=old), replace(ROUND, converts=False))
    assert (fate.verdict, fate.facts) == (Verdict.STAYS, ())
    assert "v2" not in fate.words


def test_superseded_tombstone_is_dropped_at_once() -> None:
    assert told(replace(TOMBSTONE, latest=80)) == ("goes", "S5.5")


@pytest.mark.parametrize(
    ("emptied", "horizon", "verdict"),
    [
        (False, None, "stays"),
        (False, NOW - 1, "stays"),
        (True, None, "stays"),
        (True, NOW + 1, "stays"),
        (True, NOW, "goes"),
    ],
)
def test_marker_is_dropped_only_when_empty_and_at_its_horizon(
    emptied: bool,  # noqa: FBT001
    horizon: int | None,
    verdict: str,
) -> None:
    marker = replace(
        MARKER, batch=batch(CONTROL | TRANSACTIONAL, horizon=horizon, producer=7), emptied=emptied
    )
    assert told(marker) == (verdict, "S5.8")


@pytest.mark.parametrize(
    "record", [TOMBSTONE, replace(MARKER, emptied=True)], ids=["tombstone", "marker"]
)
def test_overflowing_delete_horizon_is_not_reported(record: RecordFacts) -> None:
    last_with_one = replace(ROUND, delete_retention_ms=2**63 - 1 - NOW)
    assert [fact.value for fact in record_fate(record, last_with_one).facts] == [2**63 - 1]
    fate = record_fate(record, replace(ROUND, delete_retention_ms=2**63 - NOW))
    assert (fate.verdict, fate.facts) == (Verdict.STAYS, ())
    assert "gets no delete horizon" in fate.words


def test_kept_batch_header_is_reported() -> None:
    last_of_round, of_producer = batch(last=99), batch(last=60, producer=7)
    known = replace(ROUND, last_records={7: (60, 0)})
    assert "last batch" in (header_stays(last_of_round, ROUND) or "")
    assert "producer 7" in (header_stays(of_producer, known) or "")
    assert header_stays(of_producer, ROUND) is None
    superseded = replace(PLAIN, batch=of_producer, latest=61)
    assert "its batch keeps its header" in record_fate(superseded, known).words
    assert "header" not in record_fate(superseded, ROUND).words


def test_batch_without_the_horizon_bit_has_no_horizon() -> None:
    assert delete_horizon(batch()) is None
    assert delete_horizon(batch(horizon=NOW)) == NOW


def test_only_time_facts_have_an_iso_form() -> None:
    assert Fact("t", 1_790_000_000_001, time=True).iso == "2026-09-21T14:13:20.001Z"
    assert Fact("t", -1, time=True).iso is None
    assert Fact("t", 1_790_000_000_001).iso is None
    assert Fact("t", 2**62, time=True).iso == f"{2**62} ms"


@settings(deadline=None)  # the first call compiles
@given(
    values=st.lists(st.sampled_from([None, b"v"]), min_size=1, max_size=6),
    latest=st.lists(st.sampled_from([None, 0, 100]), min_size=6, max_size=6),
    horizon=st.sampled_from([None, NOW - 1, NOW, NOW + 1]),
    producer=st.sampled_from([-1, 7]),
)
def test_record_fate_agrees_with_the_cleaners_filter(
    values: list[bytes | None], latest: list[int | None], horizon: int | None, producer: int
) -> None:
    """`latest` is relative to the record: no record of its key, itself, or a later one."""
    records = [Record(50 + i, NOW, b"k%d" % i, value) for i, value in enumerate(values)]
    data = np.frombuffer(
        encode_batch(records, delete_horizon=horizon, producer_id=producer, producer_epoch=0),
        np.uint8,
    )
    rows = np.zeros(2, BATCH)
    count, _, _ = walk_batches(data, 0, 0, rows)
    rows = rows[:count]
    known = replace(ROUND, last_records={7: (50 + len(values) - 1, 0)})
    facts = [
        RecordFacts(
            now=NOW,
            offset=r.offset,
            batch=rows,
            null_key=False,
            null_value=r.value is None,
            latest=None if after is None else r.offset + after,
        )
        for r, after in zip(records, latest, strict=False)
    ]
    stays = [record_fate(fact, known).verdict is Verdict.STAYS for fact in facts]
    filtered = filter_batches(
        inflate(data, rows),
        np.array([fact.latest is None or fact.latest <= fact.offset for fact in facts]),
        batch_retention(rows, last_records=known.last_records, emptied_end=known.emptied_end),
        now=NOW,
        delete_retention_ms=DAY,
    )
    assert filtered.records_out == sum(stays)
    if not any(stays):
        assert len(filtered.batches) == (header_stays(rows, known) is not None)
