"""Read a certificate of an erasure, and the file with its hash key."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from winnow.errors import CorruptLogError, UsageError
from winnow.report.certificate import FORMAT, KEY_SUFFIX, canonical
from winnow.storage.output_file import read_output
from winnow.storage.own_json import Value, parse_json
from winnow.verbs.erase.key_hashes import HASH_DIGITS, ErasedKeys, erased_keys, read_hash_key

_MOST_BYTES = 1 << 30


def read_certificate(file: str, hash_key: str | None) -> ErasedKeys:
    """Return the erased keys as hashes. `hash_key`: the file with the hash key. None: the one
    beside the certificate.

    Raises UsageError if either can't be read, or if they do not belong together. The certificate
    may come from anybody.
    """
    try:
        content = _certificate(file)
        keys = content["keys"].fields(("hashes", "all"), None)
        hashes = None
        if keys["hashes"].raw is not None:
            each = keys["hashes"].items()
            hashes = [one.text(shortest=HASH_DIGITS, longest=HASH_DIGITS) for one in each]
        partitions = content["partitions"].items()
        topics = {one.fields(("topic",), None)["topic"].text() for one in partitions}
        together, run_id = keys["all"].text(), content["run_id"].text()
    except (OSError, CorruptLogError) as error:
        raise UsageError(
            "this is not a certificate of an erasure",
            expected=f"the JSON file that `erase --certificate` wrote, {FORMAT}",
            found=error.found if isinstance(error, CorruptLogError) else str(error.strerror),
            where=file,
        ) from None
    beside = Path(file).with_suffix(KEY_SUFFIX)
    if hash_key is None and not beside.is_file():
        raise UsageError(
            "a certificate needs the hash key of its erasure",
            expected=f"--hash-key FILE, or a file {beside.name} beside it",
            found="neither",
            where=file,
        )
    secret = read_hash_key(str(beside) if hash_key is None else hash_key)
    return erased_keys(hashes, together, secret, topics=topics, run_id=run_id)


def _certificate(file: str) -> Mapping[str, Value]:
    """Return the fields of a whole certificate. Raises CorruptLogError, OSError, and UsageError for
    a changed one.
    """
    data = read_output(Path(file).resolve(), most=_MOST_BYTES + 1)
    whole = parse_json(data, file, most_bytes=_MOST_BYTES)
    content = whole.fields(("format", "sha256", "keys", "partitions", "run_id"), None)
    content["format"].one_of(FORMAT)
    stated = content["sha256"].text()
    found = hashlib.sha256(
        canonical({name: value.raw for name, value in content.items() if name != "sha256"})
    ).hexdigest()
    if found != stated:
        raise UsageError(
            "the certificate does not match its SHA-256: it was changed",
            expected=stated,
            found=found,
            where=file,
        )
    return content
