"""A record of the metadata log that no earlier record allows ends a controller."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import pytest

from tests.unit.wire.metadata_values import (
    ID_A,
    ID_B,
    abort,
    begin,
    end,
    feature,
    framed,
    no_op,
    partition,
    register,
    remove_topic,
    replicas_of,
    topic,
)
from winnow.logdir.metadata_log import MetadataValue
from winnow.start.metadata_fit import MetadataFit

EPOCH = 7
"""Of `register`."""


FEATURES = {"metadata.version": range(7, 21), "transaction.version": range(3)}


def problem(*records: bytes, features: Mapping[str, range] | None = FEATURES) -> str | None:
    fit = MetadataFit(features)
    for offset, data in enumerate(records):
        fit.see(MetadataValue(offset, data, "here"))
    return fit.problem


def of_broker(kind: int, node: int, epoch: int = EPOCH) -> bytes:
    return framed(kind, struct.pack(">iq", node, epoch) + b"\x00")


@pytest.mark.parametrize(
    "records",
    [
        (topic("t"), partition(0), replicas_of(0, 1), no_op(), remove_topic(), topic("t")),
        (register(1, 20), of_broker(8, 1), of_broker(17, 1), of_broker(7, 1), of_broker(1, 1)),
        (register(1, 20), of_broker(1, 1), register(1, 20), of_broker(8, 1)),
        (topic("t"), partition(0), begin(), remove_topic(), abort(), replicas_of(0, 1)),
        (begin(), topic("t"), end(), partition(0)),
        (feature("metadata.version", 20), feature("transaction.version", 2)),
        (feature("share.version", 0),),
        (b"\x01", b""),
    ],
)
def test_records_that_fit(records: Sequence[bytes]) -> None:
    assert problem(*records) is None


def test_nothing_is_said_of_features_and_records_for_an_unknown_version() -> None:
    assert problem(feature("metadata.version", 99), framed(99, b""), features=None) is None


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ((of_broker(7, 1),), "broker 1 is fenced, and was never registered"),
        ((register(1, 20), of_broker(17, 2)), "broker 2 is changed, and was never registered"),
        (
            (register(1, 20), of_broker(8, 1, 9)),
            "broker 1 of epoch 9 is unfenced, and was registered with epoch 7",
        ),
        ((register(1, 20), *[of_broker(1, 1)] * 2), "broker 1 is unregistered, and was never"),
        ((topic("t"), partition(0, ID_B)), "is created, and no record has created the topic"),
        ((replicas_of(0, 1, topic_id=ID_A),), "is changed, and no record has created the topic"),
        ((topic("t"), partition(0), replicas_of(1, 1)), "is changed, and was never created"),
        ((remove_topic(),), "is removed, and was never created"),
        ((feature("metadata.version", 21),), "metadata.version 3.9-IV0 is newer than 3.8-IV0"),
        (
            (feature("transaction.version", 3),),
            "transaction.version has level 3, and this broker's version supports it up to 2",
        ),
        ((feature("share.version", 1),), "this broker's version supports no such feature"),
        ((feature("metadata.version", 6),), "metadata.version 3.3-IV2 is older than 3.3-IV3"),
        ((framed(99, b"\x00"),), "no record of kind 99 and version 0"),
    ],
)
def test_record_that_does_not_fit(records: Sequence[bytes], words: str) -> None:
    found = problem(no_op(), *records, topic("later"))
    assert found is not None
    assert words in found
    assert f"its record at offset {len(records)} " in found
