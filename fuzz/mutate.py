"""Inputs out of other inputs: edits as values, so that a random number generator, and Hypothesis,
can choose them.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

LONGEST = 8192
"""Bytes of an input: enough for every structure there is, few enough for thousands in a second."""

NUMBERS = (
    *(0, 1, -1, 2, 7, 8, 13, 14, 21, 22, 48, 49, 60, 61, 62, 63, 64, 127, 128, 255, 256),
    *(32767, 32768, 65535, 65536),
    *(2**31 - 61, 2**31 - 12, 2**31 - 2, 2**31 - 1, 2**31, 2**32 - 1, -(2**31), -(2**31) - 1),
    *(
        2**62,
        2**63 - 2**31 - 1,
        2**63 - 2**31,
        2**63 - 2,
        2**63 - 1,
        -(2**63),
        -(2**63) + 1,
        -2,
        -5,
    ),
)
"""Where lengths, counts and offsets turn over."""

_WORDS = (
    *(
        b"",
        b"\n",
        b" ",
        b"=",
        b":",
        b",",
        b"\\",
        b"\\u12",
        b"#",
        b"\r",
        b"\0",
        b"\t",
        b"-",
        b"+",
        b"..",
        b"../../x",
    ),
    *(
        b"0",
        b"-1",
        b"9" * 20,
        b"9" * 5000,
        b"\xff\xfe",
        b"\xc3\xa9",
        b"\xe2\x80\xa8",
        b"\x1c",
        b"null",
        b"1e9",
    ),
    *(
        b"\x80" * 9 + b"\x01",
        b"\xff" * 10,
        b"\xff" * 4 + b"\x0f",
        b"\x80" * 5,
        b"\xfe\xff\xff\xff\x0f",
        b"NaN",
    ),
)


class Kind(IntEnum):
    """What an edit does at its place."""

    FLIP = 0
    BYTE = 1
    INT16 = 2
    INT32 = 3
    INT64 = 4
    WORD = 5
    DELETE = 6
    REPEAT = 7
    CUT = 8
    NOISE = 9
    SPLICE = 10
    DIGITS = 11


class Edit(NamedTuple):
    """`place` and `value` are any numbers of 0 or more: each kind takes them modulo what it has
    room for.
    """

    kind: int
    place: int
    value: int


def apply(data: bytes, edits: Sequence[Edit], *, others: Sequence[bytes]) -> bytes:
    """`data` after the edits, at most LONGEST bytes. `others`: what a SPLICE takes its end from;
    not empty.
    """
    out = bytearray(data)
    for edit in edits:
        _apply(out, edit, others)
    return bytes(out[:LONGEST])


def random_edits(rng: random.Random) -> list[Edit]:
    """One edit mostly, seldom many: a structure that is wrong in one place is the one that gets
    far.
    """
    count = 1
    while count < 16 and rng.random() < 0.45:
        count += 1
    bits = rng.getrandbits
    return [Edit(bits(8) % len(Kind), bits(24), bits(24)) for _ in range(count)]


def _apply(out: bytearray, edit: Edit, others: Sequence[bytes]) -> None:
    kind = Kind(edit.kind % len(Kind))
    at = edit.place % (len(out) + 1)
    value = edit.value
    if kind in _SIZES:
        _overwrite(out, at, NUMBERS[value % len(NUMBERS)], _SIZES[kind])
    elif kind is Kind.WORD:
        out[at:at] = _WORDS[value % len(_WORDS)]
    elif kind is Kind.SPLICE:
        other = others[value % len(others)]
        out[at:] = other[min(at, len(other)) :]
    elif kind is Kind.DIGITS:
        out[at : at + 1] = str(NUMBERS[value % len(NUMBERS)]).encode()
    elif kind is Kind.NOISE:
        out[at : at + 1 + value % 8] = random.Random(value).randbytes(1 + value % 8)
    elif at < len(out):
        size = 1 + value % 16
        if kind is Kind.FLIP:
            out[at] ^= 1 << value % 8
        elif kind is Kind.BYTE:
            out[at] = value & 0xFF
        elif kind is Kind.DELETE:
            del out[at : at + size]
        elif kind is Kind.REPEAT:
            out[at:at] = out[at : at + 4 * size]
        else:
            del out[at:]


_SIZES = {Kind.INT16: 2, Kind.INT32: 4, Kind.INT64: 8}
_FORMS = {2: struct.Struct(">H"), 4: struct.Struct(">I"), 8: struct.Struct(">Q")}


def _overwrite(out: bytearray, at: int, number: int, size: int) -> None:
    """`number`, as far as it fits, over the bytes at `at`, which may be the last."""
    packed = _FORMS[size].pack(number % (1 << 8 * size))
    out[at : at + size] = packed
