"""Read a certificate of an erasure, and the file with its hash key."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from winnow.errors import UsageError
from winnow.report.certificate import FORMAT, KEY_SUFFIX, canonical
from winnow.verbs.erase.key_hashes import ErasedKeys, erased_keys, read_hash_key


def read_certificate(file: str, hash_key: str | None) -> ErasedKeys:
    """Return the erased keys as hashes. `hash_key`: the file with the hash key. None: the one
    beside the certificate.

    Raises UsageError if either can't be read, or if they do not belong together.
    """
    content = _certificate(file)
    beside = Path(file).with_suffix(KEY_SUFFIX)
    if hash_key is None and not beside.is_file():
        raise UsageError(
            "a certificate needs the hash key of its erasure",
            expected=f"--hash-key FILE, or a file {beside.name} beside it",
            found="neither",
            where=file,
        )
    keys = content["keys"]
    return erased_keys(
        keys["hashes"],
        keys["all"],
        read_hash_key(str(beside) if hash_key is None else hash_key),
        topics={partition["topic"] for partition in content["partitions"]},
        run_id=content["run_id"],
    )


def _certificate(file: str) -> dict[str, Any]:
    try:
        content = json.loads(Path(file).read_text(encoding="utf-8"))
        stated = content.pop("sha256")
        if content["format"] != FORMAT:
            raise ValueError  # noqa: TRY301 - as for anything else that is no certificate
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise UsageError(
            "this is not a certificate of an erasure",
            expected=f"the JSON file that `erase --certificate` wrote, {FORMAT}",
            where=file,
        ) from None
    if hashlib.sha256(canonical(content)).hexdigest() != stated:
        raise UsageError(
            "the certificate does not match its SHA-256: it was changed",
            expected=str(stated),
            found=hashlib.sha256(canonical(content)).hexdigest(),
            where=file,
        )
    return dict(content)
