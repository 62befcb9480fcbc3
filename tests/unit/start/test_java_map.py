"""Keys come in the order of Java's HashMap. The orders here were printed by Java 17."""

from __future__ import annotations

import pytest

from winnow.start.java_map import JavaKeys, spread_hash


def order(keys: list[int], *, computed: bool = False) -> list[int]:
    map_of = JavaKeys(computed=computed)
    for key in keys:
        map_of.add(key)
    return list(map_of)


def test_hash_is_that_of_a_long() -> None:
    assert spread_hash(5) == 5
    assert spread_hash(1 << 32) == 1
    assert spread_hash(-1) == 0
    assert spread_hash(0x12345) == 0x12345 ^ 1


ORDERS = {
    "few": (False, [33, 17, 1, 2, 16, 100000], [16, 33, 17, 1, 100000, 2]),
    "12": (False, [48, 32, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8], [48, 32, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8]),
    "13": (
        False,
        [48, 32, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        [32, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 48, 16],
    ),
    "13, computed": (
        True,
        [48, 32, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        [0, 16, 32, 48, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    ),
    "14, computed": (
        True,
        [48, 32, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        [0, 32, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 16, 48],
    ),
    "full8, computed": (
        True,
        [0, 64, 128, 192, 256, 320, 384, 448],
        [448, 384, 320, 256, 192, 128, 64, 0],
    ),
    "full9, computed": (
        True,
        [0, 64, 128, 192, 256, 320, 384, 448, 512],
        [512, 448, 384, 320, 256, 192, 128, 64, 0],
    ),
    "big": (
        False,
        [5000000000, -1, -2, 9223372036854775807, -9223372036854775808, 123456789012, 42],
        [-1, 9223372036854775807, -9223372036854775808, -2, 123456789012, 5000000000, 42],
    ),
}
"""Whether `computeIfAbsent` added them; the keys as they came; as Java iterates over them."""


@pytest.mark.parametrize("name", ORDERS)
def test_keys_come_in_the_order_of_java(name: str) -> None:
    computed, keys, expected = ORDERS[name]
    assert order(keys, computed=computed) == expected


def test_key_that_comes_twice_counts_once() -> None:
    assert order([33, 17, 1, 33, 1]) == [33, 17, 1]
