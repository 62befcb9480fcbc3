"""Checksums of batches: CRC-32C for v2, CRC-32 for v0 and v1 (S2.1, S2.2).

CRC-32C is computed by the kernel (`winnow.wire.kernels.crc`) where numba is loaded: it is twice as
fast as the library, and lets other threads run.
"""

from __future__ import annotations

import zlib

import numpy as np

from winnow.small_work import has_numba
from winnow.wire.buffers import Buffer, Bytes, as_bytes


def crc32c(buf: Bytes, start: int, end: int) -> int:
    """Return the CRC-32C of buf[start:end]. The caller has checked 0 <= start <= end <= size."""
    return crc32c_extended(0, buf[start:end])


def crc32_part(buf: Bytes, start: int, end: int) -> int:
    """Return the CRC-32 (IEEE) of buf[start:end]. The caller has checked these bounds."""
    return zlib.crc32(buf[start:end].data)


def crc32c_extended(crc: int, data: Buffer) -> int:
    """Return the CRC-32C of some bytes, whose own is `crc` (0 for none), followed by `data`."""
    part = as_bytes(data)
    if not has_numba():
        import google_crc32c  # noqa: PLC0415 - not needed beside the kernel

        return int(google_crc32c.extend(crc, part))
    from winnow.wire.kernels.crc import extended  # noqa: PLC0415 - with numba

    return int(extended(np.uint32(crc), part, 0, len(part)))
