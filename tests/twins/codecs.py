"""Decompress one payload with the Python functions: what kernels must agree with."""

from __future__ import annotations

from winnow.wire.batch import Codec
from winnow.wire.buffers import Buffer, Bytes
from winnow.wire.codecs import decompress_into
from winnow.wire.sink import Sink


def decompress(codec: Codec, payload: Buffer, *, limit: int, magic: int = 2) -> Bytes:
    sink = Sink()
    decompress_into(sink, codec, payload, limit=limit, magic=magic)
    return sink.data()
