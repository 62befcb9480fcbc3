"""Refuse tiered storage (KIP-405), which only its broker may change."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain

from winnow.errors import UsageError
from winnow.storage.file_tree import FileTree

_SEGMENT = re.compile(
    r"""
    [0-9]{20} - [A-Za-z0-9_-]{22}                 # base offset, Kafka's id of the remote segment
    \. (log | indexes | rsm-manifest | index | timeindex | txnindex | snapshot
       | leader-epoch-checkpoint | offset_index | time_index | transaction_index
       | producer_snapshot | leader_epoch_checkpoint)
    | .* \. rsm-manifest
    """,
    re.VERBOSE,
)
"""Files of a remote segment: of Aiven's plug-in for S3, GCS and Azure, and of the one in Kafka's
own tests.
"""
_TOPIC_DIRECTORY = re.compile(r"[a-zA-Z0-9._-]{1,249}-[A-Za-z0-9_-]{22}/?")
"""`TOPIC-TOPICID`, the directory name of Aiven's plug-in. A partition's directory ends in
digits.
"""
_PARTITION_DIRECTORY = re.compile(r".*-[0-9]{1,10}/?")


def refuse_tiered(tree: FileTree, names: Iterable[str]) -> None:
    """Raise UsageError if a name in `tree` is of a segment that a broker has moved to tiered
    storage.
    """
    found = next((name for name in names if _SEGMENT.fullmatch(name.rpartition("/")[2])), None)
    if found is not None:
        raise _tiered(tree, found)


def refuse_tiered_around(tree: FileTree) -> None:
    """Raise UsageError if there is tiered storage at or around a place that is to be written to."""
    for name in chain(tree.list_top(), tree.neighbours()):
        plain = name.rstrip("/").rpartition("/")[2]
        if _SEGMENT.fullmatch(plain) or (
            name.endswith("/")
            and _TOPIC_DIRECTORY.fullmatch(plain)
            and not _PARTITION_DIRECTORY.fullmatch(plain)
        ):
            raise _tiered(tree, name)


def _tiered(tree: FileTree, found: str) -> UsageError:
    return UsageError(
        "this is tiered storage, which belongs to a running cluster",
        found=found,
        where=tree.url,
        hint="Its brokers know each object by their own metadata and delete by retention.ms and "
        "retention.bytes: change those. Tiered topics can't be compacted. "
        "Choose another place, preferably another bucket.",
    )
