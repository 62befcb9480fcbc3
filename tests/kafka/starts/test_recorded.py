"""Winnow foretells the fates that real brokers had, without a broker."""

from __future__ import annotations

from functools import cache

import pytest

from tests.kafka.starts.bases import KINDS, VERSIONS
from tests.kafka.starts.campaign import Judged, judged
from tests.kafka.starts.known import KNOWN, reason_of
from tests.kafka.starts.recorded import load
from tests.kafka.starts.table import State

STATES = 400
"""At least, of all versions."""


PARTS = 5
"""Every fifth state is judged in CI, all of them with the slow tests."""


@cache
def results(version: str, part: int) -> list[Judged]:
    record = load(version)
    return [judged(record, state, fate) for state, fate in [*record.fates.items()][part::PARTS]]


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, PARTS))]
)
@pytest.mark.parametrize("version", VERSIONS)
def test_recorded_fates_are_foretold(version: str, part: int) -> None:
    assert not [one.words() for one in results(version, part) if one.unexplained]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_base_as_it_is_starts_with_all_its_logs(version: str) -> None:
    record = load(version)
    for kind in KINDS:
        fate = record.fates[State(version, kind)]
        assert not fate.stops
        assert not fate.renamed
        assert len(fate.loaded) == 7
        assert all(one.leads for one in fate.loaded.values())


def test_there_are_hundreds_of_states_of_every_fate() -> None:
    fates = [fate for version in VERSIONS for fate in load(version).fates.values()]
    assert len(fates) >= STATES
    assert sum(fate.stops for fate in fates) > 50
    assert sum(bool(fate.offline) and not fate.stops for fate in fates) > 10
    assert sum(bool(fate.renamed) for fate in fates) > 10
    assert sum(bool(fate.resized) for fate in fates) > 10


@pytest.mark.slow
def test_each_known_difference_is_met() -> None:
    met = {
        reason_of(one.state, text)
        for version in VERSIONS
        for part in range(PARTS)
        for one in results(version, part)
        for text in one.differences
    }
    assert [one.reason for one in KNOWN if one not in met] == []
