"""The short form of fuzzing: inputs that once failed, and some hundred mutations of each target's
seeds.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.mutate import LONGEST, Edit, Kind, apply
from fuzz.targets import TARGETS

REGRESSIONS = Path(__file__).resolve().parents[2] / "fuzz" / "regressions"
ONCE_FAILED = sorted(REGRESSIONS.glob("*/*"))
NUMBERS = st.integers(0, 2**24 - 1)
EDITS = st.lists(
    st.builds(Edit, st.integers(0, len(Kind) - 1), NUMBERS, NUMBERS), min_size=1, max_size=4
)
SEEDS = {name: list(target.seeds()) for name, target in TARGETS.items()}


@pytest.mark.parametrize(
    "path", ONCE_FAILED, ids=[f"{path.parent.name}/{path.name}" for path in ONCE_FAILED]
)
def test_inputs_that_once_failed_are_accepted_or_refused(path: Path) -> None:
    TARGETS[path.parent.name].accepts(path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_some_seeds_of_each_target_are_accepted(name: str) -> None:
    """Otherwise every mutation would be refused for the same reason."""
    target, seeds = TARGETS[name], SEEDS[name][:40]
    accepted = [target.accepts(seed) for seed in seeds]
    assert any(accepted)
    assert accepted == [target.accepts(seed, twins=False) for seed in seeds]


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(seed=NUMBERS, edits=EDITS)
def test_mutations_are_accepted_or_refused(name: str, seed: int, edits: list[Edit]) -> None:
    seeds = SEEDS[name]
    TARGETS[name].accepts(apply(seeds[seed % len(seeds)], edits, others=seeds))


@given(data=st.binary(max_size=64), edits=EDITS)
def test_edits_make_inputs_of_bounded_size(data: bytes, edits: list[Edit]) -> None:
    assert len(apply(data, edits, others=[b"other"])) <= LONGEST
