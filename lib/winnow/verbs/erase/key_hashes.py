"""Keys as hashes that nobody can compute or guess without the hash key. Only the result of the run,
and the file beside a certificate, contain the hash key. With both, one can show that a given key
was among those erased.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from winnow.errors import UsageError
from winnow.storage.output_file import read_output

HASH_DIGITS = 32
_MOST_BYTES = 1024
"""More than any file with a hash key has."""
MOST_LISTED = 100_000
"""For more keys than this, there is only one hash over all of them."""


@dataclass(frozen=True, slots=True)
class KeyHashes:
    """Hexadecimal, as in the ledger."""

    hash_key: str
    """Never in the ledger, nor in a certificate."""
    each: Sequence[str] | None
    together: str

    @property
    def secret(self) -> bytes:
        return bytes.fromhex(self.hash_key)


def hash_keys(keys: Iterable[bytes], hash_key: bytes | None = None) -> KeyHashes:
    """Hash the keys under `hash_key`, or under a new one."""
    secret = hash_key or secrets.token_bytes(32)
    hashes = sorted(hashlib.blake2b(key, digest_size=16, key=secret).digest() for key in keys)
    together = hashlib.blake2b(b"".join(hashes), digest_size=16, key=secret).hexdigest()
    each = [one.hex() for one in hashes] if len(hashes) <= MOST_LISTED else None
    return KeyHashes(secret.hex(), each, together)


@dataclass(frozen=True, slots=True)
class ErasedKeys:
    hashes: tuple[bytes, ...]
    """BLAKE2b of 16 bytes under `hash_key`."""
    hash_key: bytes
    topics: tuple[str, ...]
    """Names of the topics they were erased from. Other topics may have these keys."""
    run_id: str


def erased_keys(
    hashes: list[str] | None, together: str, hash_key: bytes, *, topics: set[str], run_id: str
) -> ErasedKeys:
    """Check that hashes and hash key belong together, and return them. Raises UsageError."""
    if hashes is None:
        raise UsageError(
            "there were too many keys to list their hashes",
            expected="an erasure of up to 100,000 keys",
            found=f"run {run_id}, which has one hash over all keys",
        )
    try:
        each = tuple(bytes.fromhex(one) for one in hashes)
    except ValueError:
        raise UsageError(
            "a hash of a key can't be understood",
            expected=f"{HASH_DIGITS} hexadecimal digits",
            where=f"the erasure of run {run_id}",
        ) from None
    if hashlib.blake2b(b"".join(each), digest_size=16, key=hash_key).hexdigest() != together:
        raise UsageError(
            "this is not the hash key of the erasure",
            expected=f"the one of run {run_id}",
            found="another one",
        )
    return ErasedKeys(each, hash_key, tuple(sorted(topics)), run_id)


def read_hash_key(file: str) -> bytes:
    """Return the hash key in a file, in hexadecimal. Raises UsageError."""
    try:
        data = read_output(Path(file).resolve(), most=_MOST_BYTES)
        key = bytes.fromhex(data.decode("ascii").strip())
    except OSError as error:
        raise UsageError(
            "can't read the file with the hash key",
            expected="a file that can be read",
            found=str(error.strerror),
            where=file,
        ) from error
    except ValueError:
        key = b""
    if not 1 <= len(key) <= 64:
        raise UsageError(
            "the file has no hash key",
            expected="pairs of hexadecimal digits, for 32 bytes",
            where=file,
        )
    return key
