"""Refuse to change a remote log directory in place where that is not supported."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain

from winnow.cleaning.request import OnCorrupt
from winnow.errors import UsageError
from winnow.storage.file_tree import FileTree
from winnow.storage.places import open_tree
from winnow.storage.urls import is_remote

_S3 = ("s3://", "s3a://")


def check_in_place(
    log_dirs: Sequence[str], *, on_corrupt: OnCorrupt = "leave", keep_replaced: bool = False
) -> None:
    """Raise UsageError for tiered storage and unsupported options, before anything is written."""
    elsewhere = [log_dir for log_dir in log_dirs if is_remote(log_dir)]
    if keep_replaced and elsewhere:
        raise UsageError(
            "HDFS and S3 have no links, which --keep-replaced needs",
            expected="log directories of this machine with --keep-replaced",
            found=", ".join(elsewhere),
            hint="Take a snapshot of the directory before the run, let the bucket keep versions, "
            "or clean into another place with --output.",
        )
    if on_corrupt == "quarantine":
        in_s3 = [log_dir for log_dir in log_dirs if log_dir.lower().startswith(_S3)]
        if in_s3:
            raise UsageError(
                "damaged batches can be moved aside only on a file system",
                expected="log directories of this machine or in HDFS with --on-corrupt=quarantine",
                found=", ".join(in_s3),
                hint="Leave damaged partitions alone, or clean into another place with --output.",
            )
    for log_dir in elsewhere:
        refuse_tiered_around(open_tree(log_dir))


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
"""Files of a remote segment, of Aiven's plug-in and of the one in Kafka's own tests."""
_TOPIC_DIRECTORY = re.compile(r"[a-zA-Z0-9._-]{1,249}-[A-Za-z0-9_-]{22}/?")
"""`TOPIC-TOPICID`, a directory of Aiven's plug-in. A partition's directory ends in digits."""
_PARTITION_DIRECTORY = re.compile(r".*-[0-9]{1,10}/?")


def refuse_tiered(tree: FileTree, names: Iterable[str]) -> None:
    """Raise UsageError if a name in `tree` is of a segment in tiered storage."""
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
