"""Read a partition's topic id, which tells two topics of the same name apart (S1.2)."""

from __future__ import annotations

import re

from winnow.errors import CorruptLogError
from winnow.logdir.names import PARTITION_METADATA
from winnow.storage.contract import Storage

_CONTENT = re.compile(r"version:\s*(?P<version>[0-9]+)\s*\n\s*topic_id:\s*(?P<id>\S+)\s*")
_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{22}")
_MAX_BYTES = 4096


def read_topic_id(storage: Storage, directory: str) -> str | None:
    """Return the topic id in `partition.metadata`, as Kafka spells it. None if the file is missing
    or empty.

    Raises CorruptLogError for a file that a broker could not read.
    """
    path = f"{directory}/{PARTITION_METADATA}"
    try:
        text = storage.read_range(path, 0, _MAX_BYTES).decode("utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not text.strip():
        return None
    content = _CONTENT.fullmatch(text)
    if content is None or content["version"] != "0" or not _TOPIC_ID.fullmatch(content["id"]):
        raise CorruptLogError(
            "partition.metadata can't be read",
            expected="version: 0 and a topic_id",
            found=f"{len(text)} characters of something else",
            where=path,
        )
    return content["id"]
