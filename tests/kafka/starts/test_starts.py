"""Real brokers start on damaged log directories, and meet the fate that Winnow foretells."""

from __future__ import annotations

import pytest

from tests.kafka.starts.bases import VERSIONS
from tests.kafka.starts.campaign import judged, started
from tests.kafka.starts.recorded import load
from tests.kafka.starts.table import drawn

STATES = 10
"""Of each version."""
SEED = 44


@pytest.mark.parametrize("version", VERSIONS)
def test_brokers_meet_the_fate_that_was_foretold(version: str) -> None:
    record = load(version)
    states = drawn(version, STATES, SEED)
    found = [judged(record, state, fate) for state, fate in started(states, jobs=3)]
    assert len(found) == STATES
    assert not [one.words() for one in found if one.unexplained]
