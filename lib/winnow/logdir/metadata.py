"""Read topics and settings from the log directory's own `__cluster_metadata-0` (S9.3): the newest
complete snapshot, then the log after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from winnow.errors import CorruptLogError
from winnow.logdir.metadata_image import MetadataImage
from winnow.logdir.metadata_log import (
    LogEnd,
    MetadataValue,
    decompression_budget,
    list_snapshots,
    read_log,
    read_snapshot,
)
from winnow.logdir.names import METADATA_TOPIC
from winnow.state import Section, Texts, TopicIdentity
from winnow.storage.contract import Storage
from winnow.wire.metadata_records import MigrationRecord

METADATA_DIR = f"{METADATA_TOPIC}-0"
_MOST_SNAPSHOTS = 10
"""How many are tried, the newest first. Each may have many records before the place where it turns
out to be unusable.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetadata:
    """The metadata at `end`: all that this node knew of the cluster when it was stopped."""

    end: LogEnd
    topics: Mapping[str, TopicIdentity]
    """By name."""
    configs: Mapping[Section, Texts] = field(repr=False)
    """Overrides of topics and dynamic configs of brokers. A topic or broker without any is
    missing. Not in `repr`: a broker's settings may be passwords.
    """
    features: Mapping[str, int]
    supported: Mapping[int, Mapping[str, int]]
    """Node id -> feature -> the highest level that the broker supported at its last start."""
    log_dirs: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """Node id -> `directory.id` of each log directory that the broker had at its last start, from
    Kafka 3.7 on.
    """
    migration: MigrationRecord | None = None
    """The state of the migration from ZooKeeper. None: nothing tells it. Versions without such a
    migration write no record.
    """
    voters: Mapping[int, str] = field(default_factory=dict)
    """Node id -> `directory.id` of each voter of the quorum, if it can change (KIP-853)."""
    kraft_version: int = 0
    """1: the quorum can change."""
    notes: tuple[str, ...] = ()

    @property
    def end_offset(self) -> int:
        return self.end.offset


def read_cluster_metadata(
    storage: Storage,
    directory: str,
    *,
    unclean: bool = False,
    as_broker: bool = False,
    see: Callable[[MetadataValue], None] = lambda _: None,
) -> ClusterMetadata:
    """Read the state in a `__cluster_metadata-0` directory.

    Raises CorruptLogError if the state is uncertain: a batch or record is not sound, records are
    missing, or a setting has an unknown version. An incomplete snapshot is skipped, with a note, if
    an older one and the log, or the log alone, give the same state. The same holds for a torn end
    of the last segment. After an `unclean` shutdown that segment is read up to its first damage.
    `as_broker`: an incomplete snapshot is read as far as it goes, and is not skipped; what follows
    missing records of the log counts, and `end.missing` names them. `see`: is
    called with each record before it counts.
    """
    notes: list[str] = []
    unusable: list[CorruptLogError] = []
    budget = decompression_budget()
    before = LogEnd(offset=0, epoch=-1, timestamp=-1)
    image = MetadataImage(METADATA_DIR)
    for offset, name in list_snapshots(storage, directory)[:_MOST_SNAPSHOTS]:
        path, found = f"{directory}/{name}", MetadataImage(METADATA_DIR, snapshot=offset)
        try:
            take = partial(_take, found, see)
            before = read_snapshot(storage, path, take, complete=not as_broker, budget=budget)
        except CorruptLogError as error:
            unusable.append(error)
            continue
        image = found.of_log()
        break
    if unusable:
        others = f", and so are {len(unusable) - 1} older ones" if unusable[1:] else ""
        notes.append(f"{unusable[0]}{others}; an older snapshot or the log is read instead")
    take = partial(_take, image, see)
    end = read_log(
        storage,
        directory,
        take,
        start=before.offset,
        unclean=unclean,
        whole=not as_broker,
        budget=budget,
    )
    torn = end.torn
    if end.below is not None and not as_broker:
        raise CorruptLogError(
            "the metadata log ends below its newest snapshot",
            expected=f"offset {before.offset} or more",
            found=f"offset {end.below}",
            where=directory,
            hint="Later records may be lost, and settings with them: name the topics in "
            "--topic-configs FILE.",
        )
    if end.epoch < 0:  # no batch follows the snapshot
        end = replace(before, torn=torn, below=end.below)
    if end.offset == 0:
        raise CorruptLogError(
            "the metadata log is empty",
            expected="a snapshot or records",
            found=torn or "none",
            where=directory,
        )
    image.check()
    if torn is not None:
        notes.append(
            f"{torn}. A broker cuts them off, so {METADATA_DIR} is read up to offset "
            f"{end.offset - 1}. Settings that changed after it are unknown here"
        )
    notes += image.newer_notes
    if image.transaction is not None:
        notes.append(
            f"{METADATA_DIR} ends inside a transaction of the controller; "
            "the changes of that transaction are ignored"
        )
    return ClusterMetadata(
        end=end,
        topics=image.topics,
        configs={section: configs for section, configs in image.configs.items() if configs},
        features=image.features,
        supported=image.supported,
        log_dirs=image.log_dirs,
        migration=image.migration,
        voters=image.voters,
        kraft_version=image.kraft_version,
        notes=tuple(notes),
    )


def _take(image: MetadataImage, see: Callable[[MetadataValue], None], value: MetadataValue) -> None:
    see(value)
    image.take(value)
