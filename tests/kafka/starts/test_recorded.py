"""What real brokers did when they started."""

from __future__ import annotations

import pytest

from tests.kafka.starts.bases import KINDS, VERSIONS
from tests.kafka.starts.recorded import load
from tests.kafka.starts.table import State


@pytest.mark.parametrize("version", VERSIONS)
def test_a_base_as_it_is_starts_with_all_its_logs(version: str) -> None:
    record = load(version)
    for kind in KINDS:
        fate = record.fates[State(version, kind)]
        assert not fate.stops
        assert not fate.renamed
        assert len(fate.loaded) == 7
        assert all(one.leads for one in fate.loaded.values())
