"""Leases that anybody may have written. A reader waits no longer than allowed, and its error names
the holder or says that it is unknown.
"""

from __future__ import annotations

import json
import time
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.mutate import Edit, Kind, apply
from winnow.errors import LogDirInUseError
from winnow.logdir import lease
from winnow.logdir.lease import LENGTH_S, refuse_leased
from winnow.storage.lease_file import Seen

WRITTEN = json.dumps(
    {
        "owner": "kafka",
        "host": "a",
        "pid": 7,
        "token": "0",
        "since": "2026-01-01T00:00:00Z",
        "seconds": 60.0,
        "renewals": 3,
    }
).encode()
NUMBERS = st.integers(0, 2**24 - 1)
EDITS = st.lists(
    st.builds(Edit, st.integers(0, len(Kind) - 1), NUMBERS, NUMBERS), min_size=1, max_size=4
)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
)


class Renewed:
    """A lease file that is renewed between any two reads."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._looks = 0

    def look(self) -> Seen:
        self._looks += 1
        return Seen(self._data, str(self._looks))

    def take(self, data: bytes, expired: Seen | None) -> Seen:
        raise FileExistsError(expired, data)

    def renew(self, mine: Seen, data: bytes) -> Seen:
        raise FileNotFoundError(mine, data)

    def remove(self, mine: Seen) -> None:
        del mine


def refused(data: bytes) -> str:
    """Return the error's text. Check that it waited once, for no less than the shortest lease needs
    and no more than the longest.
    """
    waited: list[float] = []
    with pytest.MonkeyPatch.context() as patch:
        # Do not patch the time module: other threads of this process sleep, too.
        patch.setattr(
            "winnow.logdir.lease.time", SimpleNamespace(**(vars(time) | {"sleep": waited.append}))
        )
        with pytest.raises(LogDirInUseError) as caught:
            refuse_leased("/logs", Renewed(data), clock=lambda: sum(waited))
    assert len(waited) == 1
    assert 0.1 / 30 <= waited[0] <= 3600 / 30
    said = str(caught.value)
    assert said.encode().decode().replace("\n", "").isprintable()
    return said


@given(edits=EDITS)
def test_mutated_lease_is_refused(edits: list[Edit]) -> None:
    refused(apply(WRITTEN, edits, others=[b"{}"]))


@settings(max_examples=50)
@given(field=st.sampled_from(sorted(json.loads(WRITTEN))), value=ANY)
def test_lease_with_any_field_value_is_refused(field: str, value: object) -> None:
    refused(json.dumps({**json.loads(WRITTEN), field: value}).encode())


def test_error_names_the_holder() -> None:
    assert "user kafka, process 7 on a, since 2026-01-01T00:00:00Z" in refused(WRITTEN)


@pytest.mark.parametrize("depth", [1, 900, 2000])
def test_deeply_nested_lease_has_no_holder(depth: int) -> None:
    data = WRITTEN.replace(b'"kafka"', b"[" * depth + b"]" * depth)
    assert "an unknown process" in refused(data)


def test_invalid_lease_length_becomes_the_default() -> None:
    for length in ("NaN", "Infinity", "-1", "0", "1e9", "true", '"60"', "9" * 400):
        assert lease._length_s(Seen(WRITTEN.replace(b"60.0", length.encode()), "")) == LENGTH_S
