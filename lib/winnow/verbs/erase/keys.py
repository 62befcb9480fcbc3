"""The keys to erase: from the caller's input to the tasks that look for them."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame

from winnow.arguments import refused
from winnow.errors import UsageError
from winnow.wire.buffers import Bytes, as_bytes
from winnow.wire.key_search import KeySet, key_set

KEY = "key"


def different_keys(keys: Sequence[bytes] | DataFrame | pa.Array) -> pa.Array:
    """Return the different keys, as large_binary.

    A DataFrame has them in a column `key` of type binary, or string (encoded as UTF-8). Raises
    UsageError if there is no key, and for a null.
    """
    if isinstance(keys, pa.Array):
        array = keys.cast(pa.large_binary())
    elif isinstance(keys, str | bytes):
        raise refused("keys", "a list of keys", keys)
    elif isinstance(keys, Sequence):
        try:
            array = pa.array(keys, pa.large_binary())
        except pa.ArrowException as error:  # of a type, or of text that is not UTF-8
            raise UsageError(
                "keys can't be used", expected="bytes or texts", found=str(error)
            ) from error
    else:
        array = _of_frame(keys)
    if array.null_count:
        raise UsageError(
            "a key is null", expected="bytes", hint="Records without a key can't be searched for."
        )
    if not len(array):
        raise UsageError("no keys were given", expected="at least one")
    return pc.unique(array)


def _of_frame(frame: DataFrame) -> pa.Array:
    kinds = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    if kinds.get(KEY) not in ("binary", "string"):
        found = f"{KEY} of {kinds[KEY]}" if KEY in kinds else f"columns {', '.join(kinds)}"
        raise UsageError(
            "the keys can't be read", expected="a column key of binary or string", found=found
        )
    table = frame.select(frame[KEY].cast("binary")).toArrow()
    chunks = [chunk.cast(pa.large_binary()) for chunk in table.column(0).chunks]
    return pa.concat_arrays(chunks) if chunks else pa.array([], pa.large_binary())


def searchable(keys: pa.Array) -> KeySet:
    """Hash the keys of `different_keys`, with a secret that nobody can know in advance."""
    return key_set(*ends_and_bytes(keys), (secrets.randbits(64), secrets.randbits(64)))


def ends_and_bytes(array: pa.Array) -> tuple[NDArray[np.int64], Bytes]:
    """Return the content of a large_binary array: item i is the bytes from ends[i] to
    ends[i + 1].
    """
    _, ends, data = array.buffers()
    bounds = np.frombuffer(ends, np.int64)[array.offset : array.offset + len(array) + 1]
    return bounds, as_bytes(b"" if data is None else np.frombuffer(data, np.uint8))
