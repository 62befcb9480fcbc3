"""Refuse to change a remote log directory in place where that is not supported."""

from __future__ import annotations

from collections.abc import Sequence

from winnow.clean.request import OnCorrupt
from winnow.clean.tiered import refuse_tiered_around
from winnow.errors import UsageError
from winnow.storage.open_tree import open_tree
from winnow.storage.urls import is_remote

_S3 = ("s3://", "s3a://")


def check_in_place(
    log_dirs: Sequence[str], *, on_corrupt: OnCorrupt = "leave", keep_replaced: bool = False
) -> None:
    """Raise UsageError for tiered storage and for unsupported options, before anything is
    written.
    """
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
