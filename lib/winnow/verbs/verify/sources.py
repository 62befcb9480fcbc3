"""Metadata logs that no broker of these log directories uses (docs/reference/sources.md)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from winnow.errors import FAILS_ONE_PARTITION
from winnow.logdir.meta import read_meta, was_shut_down_cleanly
from winnow.logdir.metadata import METADATA_DIR
from winnow.logdir.survey import Checkpoints, LogDir
from winnow.policy.sources import Settings
from winnow.start.metadata_choice import MetadataInUse, UnusedLog, choose_metadata
from winnow.storage.contract import Storage
from winnow.verbs.verify.findings import Finding, Scope
from winnow.verbs.verify.kinds import Kind


def unused_metadata_logs(
    unused: Sequence[UnusedLog],
) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    """Return findings for metadata logs that keep a broker from starting, and notes about the
    others that no broker uses.
    """
    findings = tuple(
        Scope(log.log_dir).finding(Kind.METADATA_LOG, METADATA_DIR, log.why)
        for log in unused
        if log.stops_broker
    )
    return findings, tuple(log.why for log in unused if not log.stops_broker)


def choice_of(storage: Storage, log_dirs: Sequence[LogDir]) -> MetadataInUse:
    """Return which metadata log the brokers use, without a server.properties."""
    return choose_metadata(Settings(), storage, log_dirs)


def log_dirs_of(storage: Storage, paths: Sequence[str]) -> list[LogDir]:
    """Return the log directories whose meta.properties can be read, without their partitions."""
    log_dirs = []
    for path in paths:
        # A meta.properties that can't be read is a finding of its own.
        with suppress(FAILS_ONE_PARTITION):
            log_dirs.append(
                LogDir(
                    path=path,
                    meta=read_meta(storage, path),
                    clean_shutdown=was_shut_down_cleanly(storage, path),
                    partitions=(),
                    skipped=(),
                    checkpoints=Checkpoints(),
                    error=None,
                )
            )
    return log_dirs
