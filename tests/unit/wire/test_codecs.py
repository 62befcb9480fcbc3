from __future__ import annotations

import contextlib
import gzip
import random
import struct
import zlib

import cramjam
import lz4.block
import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twins.codecs import decompress
from winnow.errors import CorruptLogError
from winnow.wire.batch import Codec
from winnow.wire.codecs import compress
from winnow.wire.kernels.xxhash32 import xxhash32

LIMIT = 1 << 22
CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
WORDS = b" ".join(random.Random(3).randbytes(3).hex().encode() for _ in range(30_000))


def back(codec: Codec, payload: bytes, *, limit: int = LIMIT, magic: int = 2) -> bytes:
    return decompress(codec, payload, limit=limit, magic=magic).tobytes()


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("size", [0, 1, 1000, 32 * 1024, 65536, 65537, 200_000])
def test_compressed_bytes_decompress_to_the_same(codec: Codec, size: int) -> None:
    assert back(codec, compress(codec, WORDS[:size])) == WORDS[:size]


@pytest.mark.parametrize("codec", CODECS)
def test_incompressible_bytes_decompress_to_the_same(codec: Codec) -> None:
    data = random.Random(1).randbytes(150_000)
    assert back(codec, compress(codec, data)) == data


def test_other_libraries_read_compressed_batches() -> None:
    assert gzip.decompress(compress(Codec.GZIP, WORDS)) == WORDS
    assert lz4.frame.decompress(compress(Codec.LZ4, WORDS)) == WORDS
    assert (
        zstandard.ZstdDecompressor().decompressobj().decompress(compress(Codec.ZSTD, WORDS))
        == WORDS
    )


def test_frames_have_the_headers_that_java_writes() -> None:
    assert compress(Codec.GZIP, b"abc")[:10].hex() == "1f8b08000000000000ff"
    assert compress(Codec.LZ4, b"abc")[:7].hex() == "04224d18604082"
    assert compress(Codec.LZ4, b"abc")[-4:] == bytes(4)
    snappy = compress(Codec.SNAPPY, WORDS[: 32 * 1024 + 1])
    assert snappy[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    first = struct.unpack_from(">i", snappy, 16)[0]
    assert struct.unpack_from(">i", snappy, 20 + first)[0] == len(snappy) - 24 - first
    assert zstandard.frame_content_size(compress(Codec.ZSTD, b"abc")) == -1


def test_several_gzip_members_are_read() -> None:
    assert back(Codec.GZIP, gzip.compress(b"one ") + gzip.compress(b"two")) == b"one two"


def test_raw_snappy_without_a_frame_is_read() -> None:
    assert back(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(WORDS))) == WORDS


def test_concatenated_snappy_streams_are_read() -> None:
    assert (
        back(Codec.SNAPPY, compress(Codec.SNAPPY, b"one ") + compress(Codec.SNAPPY, b"two"))
        == b"one two"
    )


@pytest.mark.parametrize("sums", [False, True])
@pytest.mark.parametrize("block_size", [lz4.frame.BLOCKSIZE_MAX64KB, lz4.frame.BLOCKSIZE_MAX4MB])
def test_lz4_frames_of_other_clients_are_read(*, sums: bool, block_size: int) -> None:
    frame = lz4.frame.compress(
        WORDS,
        block_linked=False,
        store_size=sums,
        block_checksum=sums,
        content_checksum=sums,
        block_size=block_size,
    )
    assert back(Codec.LZ4, frame) == WORDS


def test_lz4_block_with_a_wrong_checksum_is_refused() -> None:
    frame = bytearray(
        lz4.frame.compress(b"abc" * 50, block_linked=False, store_size=False, block_checksum=True)
    )
    frame[-5] ^= 1
    with pytest.raises(CorruptLogError, match="checksum"):
        back(Codec.LZ4, bytes(frame))


def test_lz4_block_that_begins_like_a_size_is_read_as_a_block() -> None:
    block = bytes.fromhex("72 0000003c925000 0100 f048") + (noise := random.Random(1).randbytes(87))
    frame = compress(Codec.LZ4, b"")[:7] + struct.pack("<I", len(block)) + block + bytes(4)
    assert back(Codec.LZ4, frame) == bytes.fromhex("0000003c9250") + bytes(7) + noise


def test_linked_lz4_blocks_are_refused() -> None:
    with pytest.raises(CorruptLogError, match="independent blocks"):
        back(Codec.LZ4, lz4.frame.compress(WORDS, block_linked=True))


def test_wrong_lz4_header_checksum_is_accepted_only_in_v0() -> None:
    frame = bytearray(compress(Codec.LZ4, b"abc"))
    frame[6] ^= 1
    assert back(Codec.LZ4, bytes(frame), magic=0) == b"abc"
    for magic in (1, 2):
        with pytest.raises(CorruptLogError, match="header"):
            back(Codec.LZ4, bytes(frame), magic=magic)


@pytest.mark.parametrize("size", [True, False])
def test_zstd_is_read_with_or_without_size_and_in_several_frames(*, size: bool) -> None:
    frame = zstandard.ZstdCompressor(
        level=1, write_content_size=size, write_checksum=True
    ).compress(WORDS)
    assert back(Codec.ZSTD, frame + frame) == WORDS + WORDS


@pytest.mark.parametrize("codec", CODECS)
def test_limit_is_exact_to_the_byte(codec: Codec) -> None:
    payload = compress(codec, bytes(100_000))
    assert len(back(codec, payload, limit=100_000)) == 100_000
    for limit in (0, 1, 65_536, 99_999):
        with pytest.raises(CorruptLogError):
            back(codec, payload, limit=limit)


def test_claimed_sizes_are_not_trusted() -> None:
    huge_snappy = b"\xff\xff\xff\xff\x07" + b"\x00a"
    claim = struct.pack("<IBQ", 0xFD2FB528, 0xE0, 1 << 40) + bytes([1, 0, 0])
    for codec, payload in ((Codec.SNAPPY, huge_snappy), (Codec.ZSTD, claim)):
        with pytest.raises(CorruptLogError):
            back(codec, payload, limit=2**31 - 9)


@pytest.mark.parametrize("codec", CODECS)
def test_every_truncation_is_refused(codec: Codec) -> None:
    payload = compress(codec, WORDS[:300])
    for end in range(1, len(payload)):
        if codec is Codec.SNAPPY and 16 <= end < 20:
            continue  # the header, and less than a size behind it: an empty stream
        with pytest.raises(CorruptLogError):
            back(codec, payload[:end])


def test_bytes_after_the_end_are_refused_or_ignored_as_by_java() -> None:
    with pytest.raises(CorruptLogError):
        back(Codec.ZSTD, compress(Codec.ZSTD, b"abc") + b"more")
    assert back(Codec.LZ4, compress(Codec.LZ4, b"abc") + b"more") == b"abc"


@settings(max_examples=100)
@given(st.sampled_from(CODECS), st.data())
def test_damage_gives_bytes_or_a_corrupt_log_error(codec: Codec, draw: st.DataObject) -> None:
    payload = bytearray(compress(codec, WORDS[:500]))
    for _ in range(draw.draw(st.integers(1, 4))):
        payload[draw.draw(st.integers(0, len(payload) - 1))] = draw.draw(st.integers(0, 255))
    with contextlib.suppress(CorruptLogError):
        assert len(back(codec, bytes(payload), limit=2000)) <= 2000


@given(st.binary(max_size=64))
def test_xxhash_matches_the_lz4_content_checksum(data: bytes) -> None:
    frame = lz4.frame.compress(data, content_checksum=True, block_linked=False)
    assert struct.unpack("<I", frame[-4:])[0] == xxhash32(data)


@settings(max_examples=100)
@given(st.data())
def test_gzip_is_accepted_and_refused_as_by_zlib(draw: st.DataObject) -> None:
    sizes = draw.draw(
        st.lists(st.sampled_from([0, 1, 300, 16_384, 70_000]), min_size=1, max_size=3)
    )
    payload = bytearray(
        b"".join(gzip.compress(WORDS[:size], draw.draw(st.integers(0, 9))) for size in sizes)
    )
    if draw.draw(st.booleans()):
        # Not the flags of the first header: zlib refuses reserved ones, while Java does not check
        # them.
        payload[draw.draw(st.integers(4, len(payload) - 1))] ^= 1 << draw.draw(st.integers(0, 7))
    payload = payload[: draw.draw(st.integers(1, len(payload)) | st.just(len(payload)))]
    try:
        expected = gzip.decompress(payload)
    except (EOFError, OSError, zlib.error):
        # Java treats bytes after a whole member that are not a member as padding
        # (kafka/cleaner/test_payloads.py).
        whole = _whole_members(bytes(payload))
        with contextlib.suppress(CorruptLogError) if whole else pytest.raises(CorruptLogError):
            assert back(Codec.GZIP, bytes(payload)) in whole
    else:
        assert back(Codec.GZIP, bytes(payload)) == expected


def _whole_members(payload: bytes) -> list[bytes]:
    """Yield the content of the first member, of the first two, and so on, up to a damaged one."""
    found = [b""]
    with contextlib.suppress(zlib.error):
        while payload:
            member = zlib.decompressobj(wbits=31)
            data = member.decompress(payload)
            if not member.eof:
                break
            found.append(found[-1] + data)
            payload = member.unused_data
    return found[1:]


@pytest.mark.parametrize("size", [100, 4_000, 16_384, 200_000])
def test_gzip_compresses_as_well_as_zlib(size: int) -> None:
    text = b" ".join(
        b"user-%05d ordered %d of item-%03d" % (n * n % 9973, n % 7, n % 131) for n in range(8_000)
    )
    for data in (WORDS[:size], text[:size]):
        assert len(compress(Codec.GZIP, data)) <= 1.01 * len(zlib.compress(data, 6, wbits=31)) + 1


def test_gzip_checksum_is_checked() -> None:
    payload = bytearray(zlib.compress(b"abc", wbits=31))
    payload[-8] ^= 1
    with pytest.raises(CorruptLogError):
        back(Codec.GZIP, bytes(payload))
