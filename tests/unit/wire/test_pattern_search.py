from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twins.encoding import encode_batch
from tests.twins.records import find_patterns_plain
from tests.unit.wire.legacy_logs import entry
from tests.unit.wire.logs import log, random_log
from winnow.errors import CorruptLogError
from winnow.wire.batch import Codec
from winnow.wire.inflate import inflate
from winnow.wire.kernels.pattern_search import MOST_PATTERN_BYTES, Where, automaton, find_patterns
from winnow.wire.plain import Record, read_records

AB = st.binary(min_size=1, max_size=6).map(lambda text: bytes(97 + byte % 2 for byte in text))
"""Texts of two letters, so that they often hold and overlap each other."""


def one(*records: Record) -> bytes:
    return encode_batch(list(records), codec=Codec.LZ4)


@given(st.integers(0, 2**32), st.data())
def test_kernel_agrees_with_twin(seed: int, data: st.DataObject) -> None:
    """Searches pieces of the log itself, and other texts."""
    buf, rows = log(random_log(seed))
    blocks = inflate(buf, rows)
    texts = [
        text
        for i, row in enumerate(rows)
        for r in read_records(blocks.area(i), row)
        for text in (r.key, r.value, *(part for header in r.headers for part in header))
        if text
    ]
    chosen = data.draw(st.lists(st.sampled_from(texts))) if texts else []
    pieces = [text[len(text) // 3 :][:9] for text in chosen]
    patterns = [*pieces, *data.draw(st.lists(st.binary(min_size=1, max_size=5), max_size=3)), b"?!"]
    found = find_patterns(blocks, automaton(patterns))
    assert found.tolist() == find_patterns_plain(blocks, patterns)


@given(st.lists(AB, min_size=1), st.lists(AB, min_size=1))
def test_patterns_that_overlap_are_all_found(patterns: list[bytes], texts: list[bytes]) -> None:
    buf, rows = log([one(*(Record(n, 0, None, text) for n, text in enumerate(texts)))])
    found = find_patterns(inflate(buf, rows), automaton(patterns))
    assert found.tolist() == [
        int(Where.VALUE) * any(pattern in text for pattern in patterns) for text in texts
    ]


def test_pattern_does_not_match_across_record_fields() -> None:
    """Not where it begins in one part and ends in the next."""
    buf, rows = log(
        [
            one(
                Record(0, 0, b"ref-4711", b""),
                Record(1, 0, b"ref-", b"4711"),
                Record(2, 0, None, b"<ref-4711>", ((b"ref-", b"4711"),)),
                Record(3, 0, None, None, ((b"a", None), (b"ref-4711", b"x"), (b"b", b"ref-4711"))),
            )
        ]
    )
    found = find_patterns(inflate(buf, rows), automaton([b"ref-4711"]))
    assert found.tolist() == [Where.KEY, 0, Where.VALUE, Where.HEADERS]


def test_old_formats_are_searched() -> None:
    long = bytes(99)
    old = [entry(0, 0, key=b"k", value=long + b"person"), entry(1, 1, key=b"person" + long)]
    buf, rows = log(old)
    found = find_patterns(inflate(buf, rows), automaton([b"erso"]))
    assert found.tolist() == [Where.VALUE, Where.KEY]


def test_automaton_has_a_bound() -> None:
    assert automaton([bytes(MOST_PATTERN_BYTES)]).shape == (MOST_PATTERN_BYTES + 2, 256)
    for patterns in ([], [b"a", b""], [b"a", bytes(MOST_PATTERN_BYTES)]):
        with pytest.raises(ValueError, match="patterns of"):
            automaton(patterns)


def test_malformed_record_is_refused_with_its_place() -> None:
    batch = bytearray(encode_batch([Record(0, 0, b"a", b"b")]))
    batch[61] += 2  # the length of the record
    buf, rows = log([bytes(batch)])
    with pytest.raises(CorruptLogError, match="batch at byte 0"):
        find_patterns(inflate(buf, rows), np.array(automaton([b"a"])))
