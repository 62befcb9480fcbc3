"""C functions called from kernels accept and return the same as the packages' own Python
functions.
"""

from __future__ import annotations

import ctypes
import random
import threading
from types import SimpleNamespace

import lz4.frame
import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twins.codecs import decompress
from tests.twins.encoding import encode_batch
from winnow.errors import CorruptLogError
from winnow.wire.batch import BATCH, Codec
from winnow.wire.buffers import as_bytes
from winnow.wire.choice import Retention
from winnow.wire.codecs import LZ4_BLOCK, compress
from winnow.wire.filtering import Filtered, filter_batches
from winnow.wire.inflate import inflate
from winnow.wire.kernels import c_codecs
from winnow.wire.kernels import codec as codec_kernels
from winnow.wire.kernels.codec import compress_many, decompress_many
from winnow.wire.plain import Record
from winnow.wire.sink import Sink
from winnow.wire.walk import walk_batches

CODECS = [Codec.LZ4, Codec.ZSTD]
LIMIT = 1 << 22
WORDS = b" ".join(random.Random(3).randbytes(3).hex().encode() for _ in range(30_000))
NOISE = random.Random(1).randbytes(150_000)
EDGES = [data[: LZ4_BLOCK + more] for data in (WORDS, NOISE) for more in (-1, 0, 1)]
RAWS = [b"a", WORDS[:100], WORDS[:16_000], NOISE[:16_000], WORDS, NOISE, bytes(10**6), *EDGES]


def decompressed(
    codec: Codec,
    payloads: list[bytes],
    *,
    limit: int = LIMIT,
    room: int = 1 << 23,
    enough: int = 1 << 40,
) -> list[bytes]:
    """Decompress as many payloads as the kernel accepts."""
    end = np.cumsum([len(payload) for payload in payloads], dtype=np.int64)
    begin = end - [len(payload) for payload in payloads]
    kinds, chosen = np.full(len(payloads), int(codec)), np.arange(len(payloads))
    sink, raw = Sink(room), as_bytes(b"".join(payloads))
    done = decompress_many(sink, raw, kinds, begin, end, chosen, limit=limit, enough=enough)
    data = sink.data().tobytes()
    return [data[begin[i] : end[i]] for i in range(done)]


def compressed(codec: Codec, raws: list[bytes], *, room: int = 1 << 23) -> list[bytes]:
    """Compress as many payloads as the kernel accepts."""
    bounds = np.cumsum([0, *map(len, raws)], dtype=np.int64)
    kinds, sizes = np.full(len(raws), int(codec)), np.zeros(len(raws), np.int64)
    sink = Sink(room)
    done = compress_many(sink, as_bytes(b"".join(raws)), bounds, kinds, np.arange(len(raws)), sizes)
    ends = np.cumsum(sizes).tolist()
    data = sink.data().tobytes()
    return [data[end - size : end] for end, size in zip(ends[:done], sizes.tolist(), strict=False)]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("compresses", [False, True])
def test_installed_packages_export_the_c_functions(codec: Codec, *, compresses: bool) -> None:
    assert c_codecs.c_function(codec, compresses=compresses)[0] != 0


@pytest.mark.parametrize("codec", CODECS)
def test_c_and_python_functions_write_the_same_bytes(codec: Codec) -> None:
    assert compressed(codec, RAWS) == [compress(codec, raw) for raw in RAWS]


@settings(max_examples=300)
@given(st.sampled_from(CODECS), st.randoms(use_true_random=False), st.integers(1, 600))
def test_c_and_python_functions_agree_on_incompressible_bytes(
    codec: Codec, rng: random.Random, size: int
) -> None:
    raw = bytearray(rng.randbytes(size))
    for _ in range(rng.randrange(4)):
        start, length = rng.randrange(size), rng.randrange(9)
        raw += raw[start : start + length] + rng.randbytes(rng.randrange(9))
    assert compressed(codec, [bytes(raw)]) == [compress(codec, bytes(raw))]


@pytest.mark.parametrize("codec", CODECS)
def test_compressed_bytes_decompress_to_the_same(codec: Codec) -> None:
    assert decompressed(codec, [compress(codec, raw) for raw in RAWS]) == RAWS


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("room", [0, 10, 100, 16_100, 33_000, 150_000])
def test_kernel_stops_when_the_room_is_full(codec: Codec, room: int) -> None:
    made = compressed(codec, RAWS[1:4] * 3, room=room)
    assert made == [compress(codec, raw) for raw in RAWS[1:4] * 3][: len(made)]
    read = decompressed(codec, [compress(codec, raw) for raw in RAWS[1:4] * 3], room=room)
    assert read == (RAWS[1:4] * 3)[: len(read)]
    assert sum(map(len, read)) <= room


@pytest.mark.parametrize("codec", CODECS)
def test_limit_is_exact_and_the_kernel_stops_at_enough(codec: Codec) -> None:
    payload = compress(codec, bytes(100_000))
    assert decompressed(codec, [payload], limit=100_000) == [bytes(100_000)]
    for limit in (0, 1, LZ4_BLOCK, 99_999):
        assert decompressed(codec, [payload], limit=limit) == []
    for enough, taken in ((0, 0), (1, 1), (100_000, 1), (100_001, 2)):
        assert len(decompressed(codec, [payload] * 3, enough=enough)) == taken


@pytest.mark.parametrize("codec", CODECS)
def test_truncated_or_extended_payloads_are_left_to_python(codec: Codec) -> None:
    payload = compress(codec, WORDS[:300])
    for end in range(len(payload)):
        assert decompressed(codec, [payload[:end]]) == []
    assert decompressed(codec, [payload + b"more"]) == []
    assert decompressed(codec, [payload + payload]) == []


def test_frames_of_other_clients_are_read_or_left_to_python() -> None:
    for size in (True, False):
        frame = zstandard.ZstdCompressor(
            level=1, write_content_size=size, write_checksum=True
        ).compress(WORDS)
        assert decompressed(Codec.ZSTD, [frame]) == [WORDS]
        wrong = bytearray(frame)
        wrong[-1] ^= 1
        assert decompressed(Codec.ZSTD, [bytes(wrong)]) == []
    frame = lz4.frame.compress(
        WORDS, block_linked=False, store_size=True, block_checksum=True, content_checksum=True
    )
    assert decompressed(Codec.LZ4, [frame]) == []


@settings(max_examples=300)
@given(
    st.sampled_from(CODECS),
    st.sampled_from([WORDS[:40], WORDS[:500], NOISE[:60], bytes(70_000)]),
    st.data(),
)
def test_damaged_payloads_are_accepted_only_if_python_accepts_them(
    codec: Codec, raw: bytes, draw: st.DataObject
) -> None:
    payload = bytearray(compress(codec, raw))
    for _ in range(draw.draw(st.integers(1, 4))):
        payload[draw.draw(st.integers(0, len(payload) - 1))] = draw.draw(st.integers(0, 255))
    limit = draw.draw(st.sampled_from([100, 600, 100_000]))
    for taken in decompressed(codec, [bytes(payload)], limit=limit):
        assert taken == decompress(codec, bytes(payload), limit=limit).tobytes()


@pytest.mark.parametrize("codec", CODECS)
def test_threads_do_not_share_contexts(codec: Codec) -> None:
    payloads, found = [compress(codec, raw) for raw in RAWS], []

    def both() -> None:
        found.extend(compressed(codec, decompressed(codec, payloads)) == payloads for _ in range(5))

    threads = [threading.Thread(target=both) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 20


def test_contexts_are_freed() -> None:
    freed: list[int] = []

    def create() -> int:
        return 7

    library = {
        "ZSTD_createDCtx": create,
        "ZSTD_freeDCtx": lambda address: freed.append(address.value),
    }
    context = c_codecs._Context(library, "DCtx")  # type: ignore[arg-type]
    assert context.address == 7
    del context
    assert freed == [7]


@pytest.mark.parametrize("failure", [ModuleNotFoundError, OSError])
def test_packages_without_the_functions_are_accepted(
    monkeypatch: pytest.MonkeyPatch, failure: type[Exception]
) -> None:
    def library(_: str) -> ctypes.CDLL:
        raise failure

    for loaded in (library, lambda _: SimpleNamespace()):
        monkeypatch.setattr(c_codecs, "_library", loaded)
        for codec in CODECS:
            for compresses in (False, True):
                assert c_codecs._exported.__wrapped__(codec, compresses) == (None, 0)


def cleaned(log: bytes) -> Filtered | str:
    rows = np.zeros(100, BATCH)
    count, _, _ = walk_batches(log, 0, 0, rows)
    try:
        blocks = inflate(log, rows[:count], limit=100_000)
    except CorruptLogError as error:
        return str(error)
    keep = np.arange(int(blocks.rows["record_count"].sum())) % 3 != 0
    retention = np.full(count, Retention.DELETE_EMPTY, np.int8)
    return filter_batches(blocks, keep, retention, now=1, delete_retention_ms=1)


@pytest.mark.parametrize("damage", [None, 0, 3, 6, 7])
def test_logs_are_the_same_without_the_c_functions(
    monkeypatch: pytest.MonkeyPatch, damage: int | None
) -> None:
    log, codecs = (
        bytearray(),
        [*CODECS, Codec.GZIP, Codec.LZ4, Codec.NONE, Codec.ZSTD, Codec.ZSTD, Codec.SNAPPY],
    )
    for n, codec in enumerate(codecs):
        size = 40_000 if n == 5 else 300
        batch = bytearray(
            encode_batch(
                [Record(10 * n + m, m, b"key %d" % m, WORDS[m : m + size]) for m in range(9)],
                codec=codec,
            )
        )
        if n == damage:
            batch[90] ^= 0xFF
        log += batch
    with_them = cleaned(bytes(log))
    monkeypatch.setattr(codec_kernels, "c_function", lambda *_, **__: (0, 0))
    without = cleaned(bytes(log))
    if isinstance(with_them, str) or isinstance(without, str):
        assert with_them == without
    else:
        assert with_them.data.tobytes() == without.data.tobytes()
        assert (with_them.batches == without.batches).all()
