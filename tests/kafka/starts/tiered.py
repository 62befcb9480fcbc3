"""States of topics with remote storage, whose logs may begin below their first segment: recorded,
but not drawn.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.fixtures.data import unpacked
from tests.kafka.judge.jars import KAFKA_VERSION
from tests.kafka.starts.bases import SETTINGS_FILE
from tests.kafka.starts.changes import Change
from tests.kafka.starts.table import METADATA, State
from winnow.logdir.names import LOG_START_CHECKPOINT

_REMOTE = (
    "remote.log.storage.system.enable=true",
    "remote.log.storage.manager.class.name=NoRemoteStorage",
    "remote.log.metadata.manager.class.name=NoRemoteMetadata",
    "remote.log.metadata.manager.listener.name=PLAINTEXT",
)
_LOG = f"{METADATA}/{0:020d}.log"


def tiered(version: str, kind: str) -> Iterator[State]:
    """The plug-ins are compiled for one version."""
    if version != KAFKA_VERSION or kind == "stopped":
        return
    for changes in _changes(version, kind):
        yield State(version, kind, changes)


def _changes(version: str, kind: str) -> Iterator[tuple[Change, ...]]:
    root = unpacked(f"starts-{version}") / kind
    log_dirs = ",".join(f"@/{path.name}" for path in sorted(root.glob("[ab]")))
    for settings, topic in ((_REMOTE, "d"), (_REMOTE, "c"), ((), "d")):
        broker: Change = ("write", SETTINGS_FILE, "\n".join((f"log.dirs={log_dirs}", *settings)))
        remote: Change = ("record", _LOG, "topic-config", topic, "remote.storage.enable", "true")
        (found,) = root.glob(f"?/{topic}-0")
        starts = f"{found.parent.name}/{LOG_START_CHECKPOINT}"
        bases = sorted({int(one.name[:20]) for one in found.glob("*.log")})
        files = {
            base: [str(one.relative_to(root)) for one in sorted(found.glob(f"{base:020d}.*"))]
            for base in bases
        }
        uploaded = [("remove", one) for base in bases[:2] for one in files[base]]
        yield broker, remote, *uploaded
        yield broker, remote, *uploaded, ("entry", starts, f"{topic}-0", str(bases[1]))
        if settings and topic == "d":
            for offset in (bases[2] + 1, 100_000):
                yield broker, remote, *uploaded, ("entry", starts, f"{topic}-0", str(offset))
            yield broker, remote, *(("remove", one) for one in files[bases[2]])
