"""Three nodes of a cluster as their log directories: all vote, and were killed."""

from __future__ import annotations

import shutil
from base64 import urlsafe_b64decode
from collections.abc import Sequence
from pathlib import Path

from tests.kafka.starts.bases import copy_base
from tests.unit.logdir.metadata_logs import batch, read
from tests.unit.start.test_broker import NOW
from tests.unit.wire.metadata_values import replicas_of
from winnow.logdir.meta import read_meta
from winnow.logdir.metadata import METADATA_DIR
from winnow.logdir.names import CLEAN_SHUTDOWN
from winnow.logdir.survey import survey_log_dirs
from winnow.policy.server_properties import parse_server_properties
from winnow.policy.sources import Settings
from winnow.start.broker import expected_starts
from winnow.start.values import BrokerStart
from winnow.storage.places import Places

IDS = (1, 2, 3)


def voters(*nodes: int) -> str:
    return ",".join(f'{{"voterId":{node}}}' for node in nodes)


def make_nodes(root: Path) -> list[Path]:
    """Make the log directories of nodes 1, 2 and 3. Node 1 has all partitions."""
    paths = [root / str(node) / "a" for node in IDS]
    for node, path in zip(IDS, paths, strict=True):
        copy_base("4.3.1", "alone", path.parent)
        state = path / METADATA_DIR / "quorum-state"
        state.write_text(state.read_text().replace(voters(1), voters(*IDS)))
        (path / CLEAN_SHUTDOWN).unlink()
        if node > 1:
            meta = path / "meta.properties"
            meta.write_text(meta.read_text().replace("node.id=1", f"node.id={node}"))
            for entry in path.iterdir():
                if entry.is_dir() and entry.name != METADATA_DIR:
                    shutil.rmtree(entry)
    return paths


def replicate(
    nodes: Sequence[Path], topic: str, in_sync: Sequence[int], eligible: Sequence[int] = ()
) -> None:
    """Let all three nodes have a replica of partition 0, in the directories that they have."""
    metadata = read(nodes[0] / METADATA_DIR)
    topic_id = urlsafe_b64decode(f"{metadata.topics[topic].topic_id}==")
    ids = [read_meta(Places(), str(path)).directory_id for path in nodes]
    directories = [urlsafe_b64decode(f"{one}==") for one in ids]
    change = replicas_of(
        0,
        *IDS,
        topic_id=topic_id,
        version=2,
        directories=directories,
        in_sync=in_sync,
        eligible=eligible,
    )
    for path in nodes:
        with (path / METADATA_DIR / f"{0:020d}.log").open("ab") as writer:
            writer.write(batch(metadata.end_offset, change, epoch=metadata.end.epoch))
        target = path / f"{topic}-0"
        if not target.exists():
            shutil.copytree(nodes[0] / f"{topic}-0", target)


def servers_of(nodes: Sequence[Path]) -> Settings:
    """Return settings with the server.properties of each node."""
    texts = (f"node.id={node}\nlog.dirs={path}\n" for node, path in zip(IDS, nodes, strict=False))
    return Settings(server_properties=[*map(parse_server_properties, texts)])


def starts_of(paths: Sequence[Path], settings: Settings | None = None) -> tuple[BrokerStart, ...]:
    dirs = survey_log_dirs(Places(), [str(path) for path in paths])
    return expected_starts(None, dirs, settings or Settings(), now=NOW)
