"""Record values of the cluster's metadata log, as a controller writes them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

ID_A, ID_B = bytes(range(16)), bytes(range(16, 32))


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def string(text: str | None) -> bytes:
    return b"\x00" if text is None else uvarint(len(text.encode()) + 1) + text.encode()


def framed(key: int, body: bytes, *, version: int = 0, frame: int = 1) -> bytes:
    return uvarint(frame) + uvarint(key) + uvarint(version) + body


def topic(name: str, topic_id: bytes = ID_A) -> bytes:
    return framed(2, string(name) + topic_id + b"\x00")


def partition(
    number: int, topic_id: bytes = ID_A, *, version: int = 2, directory: bytes = bytes(16)
) -> bytes:
    """Return a partition with one replica on node 1."""
    ids = struct.pack(">i", number) + topic_id
    replicas = (uvarint(2) + struct.pack(">i", 1)) * 2 + b"\x01\x01" + struct.pack(">iii", 1, 0, 0)
    directories = uvarint(2) + directory if version >= 1 else b""
    return framed(3, ids + replicas + directories + b"\x00", version=version)


def replicas_of(
    number: int,
    *nodes: int,
    topic_id: bytes = ID_A,
    version: int = 0,
    directories: Sequence[bytes] = (),
    in_sync: Sequence[int] = (1,),
    eligible: Sequence[int] | None = None,
    removing: Sequence[int] | None = None,
    adding: Sequence[int] | None = None,
) -> bytes:
    """Return a change of a partition's in-sync replicas, and of its replicas, their log
    directories, its reassignment and its eligible leader replicas if given.
    """
    lists = (0, in_sync), (2, nodes or None), (3, removing), (4, adding), (6, eligible)
    fields = [
        (tag, uvarint(len(ids) + 1) + struct.pack(f">{len(ids)}i", *ids))
        for tag, ids in lists
        if ids is not None
    ]
    if directories:
        fields.append((8, uvarint(len(directories) + 1) + b"".join(directories)))
    tagged = b"".join(uvarint(tag) + uvarint(len(data)) + data for tag, data in fields)
    body = struct.pack(">i", number) + topic_id + uvarint(len(fields)) + tagged
    return framed(5, body, version=version)


def config(name: str, key: str, value: str | None, *, kind: int = 2) -> bytes:
    return framed(4, struct.pack(">b", kind) + string(name) + string(key) + string(value) + b"\x00")


def broker_config(node: str, key: str, value: str | None) -> bytes:
    return config(node, key, value, kind=4)


def remove_topic(topic_id: bytes = ID_A) -> bytes:
    return framed(9, topic_id + b"\x00")


def feature(name: str, level: int) -> bytes:
    return framed(12, string(name) + struct.pack(">h", level) + b"\x00")


def migration(state: int) -> bytes:
    """Return the state of a migration from ZooKeeper: 1 is MIGRATION, 3 POST_MIGRATION."""
    return framed(21, bytes([state]) + b"\x00")


def register(node: int, level: int) -> bytes:
    """Return the registration of a broker that supports `metadata.version` up to `level`."""
    features = uvarint(2) + string("metadata.version") + struct.pack(">hh", 1, level) + b"\x00"
    ids = struct.pack(">i", node) + bytes(16) + struct.pack(">q", 7)
    return framed(0, ids + uvarint(1) + features + b"\x00\x00\x00")


def no_op() -> bytes:
    return framed(20, b"\x00")


def begin(name: str | None = "a transaction") -> bytes:
    """Return a begin marker. Its name is a tagged field."""
    if name is None:
        return framed(23, b"\x00")
    tagged = string(name)
    return framed(23, b"\x01\x00" + uvarint(len(tagged)) + tagged)


def end() -> bytes:
    return framed(24, b"\x00")


def abort() -> bytes:
    return framed(25, b"\x00")
