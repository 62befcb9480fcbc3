"""Search the keys, values and headers of records for byte strings (Aho-Corasick).

The automaton reads each byte once, whatever the patterns and the bytes are. So no input makes a
search slow, unlike a regular expression.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntFlag

import numpy as np
from numpy.typing import NDArray

from winnow.wire.buffers import Bytes, RecordBlocks, read_only
from winnow.wire.kernels.memory import load_byte
from winnow.wire.kernels.record import (
    AHEAD,
    inlined,
    kernel,
    open_area,
    parse_record,
    prefetch,
    read_sized,
)
from winnow.wire.kernels.varint import read_varint
from winnow.wire.record_faults import Fault, check_fault
from winnow.wire.records import record_total

MOST_PATTERN_BYTES = 4096
"""Bytes of all patterns together. The table of the automaton then has 2 MiB."""
_START, _FOUND = 0, 1
"""States. `_FOUND` is never left."""


class Where(IntFlag):
    """Parts of a record that hold a pattern."""

    KEY = 1
    VALUE = 2
    HEADERS = 4
    """The name or the value of a header."""


_KEY, _VALUE, _HEADERS = (int(part) for part in Where)


def automaton(patterns: Sequence[bytes]) -> NDArray[np.uint16]:
    """Return uint16[states, 256]: the state that follows a state and a byte.

    Raises ValueError for an empty pattern, for none, and for more than `MOST_PATTERN_BYTES`.
    """
    total = sum(map(len, patterns))
    if not patterns or not all(patterns) or total > MOST_PATTERN_BYTES:
        raise ValueError(f"{len(patterns)} patterns of {total} bytes, or an empty one")
    children: list[dict[int, int]] = [{}, {}]
    ends = set[int]()
    for pattern in patterns:
        state = _START
        for byte in pattern:
            if byte not in children[state]:
                children[state][byte] = len(children)
                children.append({})
            state = children[state][byte]
        ends.add(state)
    following = np.zeros((len(children), 256), np.uint16)
    following[_START, [*children[_START]]] = [*children[_START].values()]
    # Breadth first: the rows of all shorter prefixes are complete.
    suffixes = [(state, _START) for state in children[_START].values()]
    for state, suffix in suffixes:
        if suffix in ends:
            ends.add(state)
        following[state] = following[suffix]
        for byte, child in children[state].items():
            suffixes.append((child, int(following[suffix, byte])))
            following[state, byte] = child
    following[np.isin(following, [*ends])] = _FOUND
    following[_FOUND] = _FOUND
    return read_only(following)


def find_patterns(blocks: RecordBlocks, following: NDArray[np.uint16]) -> NDArray[np.uint8]:
    """Return the parts (`Where`) of each record that hold one of the patterns, in file order.
    `following`: of `automaton`.

    Raises CorruptLogError, naming the batch's position, for any record that violates S2.2.
    """
    where = np.zeros(record_total(blocks), np.uint8)
    # Unpickled arrays are writable, and kernels are compiled for read-only ones.
    check_fault(_find(blocks, read_only(following), where), blocks.rows, blocks.begin)
    return where


@inlined
def _holds(following: NDArray[np.uint16], buf: Bytes, at: int, size: int) -> bool:
    state = 0
    for k in range(at, at + size):
        byte = load_byte(buf, k)
        # At most bytes no pattern begins. The processor predicts that, and does not wait for the
        # state.
        if state != 0 or following[0, byte] != 0:
            state = following[state, byte]
            if state == 1:
                return True
    return False


@kernel
def _find(
    blocks: RecordBlocks, following: NDArray[np.uint16], where: NDArray[np.uint8]
) -> tuple[int, int, int]:
    """Return (fault, row of its batch, position in the area's array)."""
    n = 0
    for i in range(blocks.rows.size):
        fault, area, pos, stop = open_area(blocks, i)
        if fault != 0:
            return fault, i, pos
        if n + blocks.rows[i].record_count > where.size:
            return Fault.CHANGED, i, pos
        for _ in range(blocks.rows[i].record_count):
            prefetch(area, pos + AHEAD)
            fault, after, _, _, key, key_size, value_size, _, _ = parse_record(area, pos, stop)
            if fault != 0:
                return fault, i, pos
            if _holds(following, area, key, key_size):
                where[n] |= _KEY
            # parse_record has read all numbers that follow, so they exist.
            _, value = read_varint(area, key + max(key_size, 0), after)
            if _holds(following, area, value, value_size):
                where[n] |= _VALUE
            headers, at = read_varint(area, value + max(value_size, 0), after)
            for part in range(2 * headers):
                size, at, _ = read_sized(area, at, after, -(part & 1))
                if at < 0:
                    return Fault.HEADER, i, pos
                if _holds(following, area, at, size):
                    where[n] |= _HEADERS
                at += max(size, 0)
            n += 1
            pos = after
        if pos != stop:
            return Fault.LEFT_OVER, i, pos
    return 0, 0, 0
