"""Every single damage of a base, and pairs of them drawn by a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.fixtures.data import unpacked
from tests.kafka.starts.bases import KINDS, SETTINGS_FILE, VERSIONS
from tests.kafka.starts.changes import Change
from winnow.logdir.names import INDEX, LEADER_EPOCHS, LOG, SNAPSHOT, TIMEINDEX, TXNINDEX

METADATA = "a/__cluster_metadata-0"
CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
ANOTHER = {"stopped": "killed", "killed": "stopped", "alone": "stopped"}
"""Base with other topic ids, directory ids and another metadata log."""
NEWER = {"2.8.2": "3.9.2", "3.9.2": "4.3.1", "4.3.1": "4.4.0", "4.4.0": "4.4.0"}
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
AN_ID = "Zm9vYmFyYmF6cXV4MTIzNA"


@dataclass(frozen=True, slots=True)
class State:
    """A base and its changes; no change: the base as it is."""

    version: str
    kind: str
    changes: tuple[Change, ...] = ()

    @property
    def name(self) -> str:
        said = "; ".join(" ".join(one).replace("\n", "|") for one in self.changes)
        return f"{self.kind}: {said or 'as it is'}"

    @property
    def has_settings(self) -> bool:
        """Whether the broker has settings of its own, which Winnow is given."""
        return any(path == SETTINGS_FILE for _, path, *_ in self.changes)


def singles(version: str, kind: str) -> list[State]:
    """Every single damage, in the order of their files."""
    base = _Base(version, kind)
    changes = [*_files(base), *_checkpoints(base), *_properties(base), *_directories(base)]
    if not VERSIONS[version].zookeeper:
        changes += _metadata(base)
    return [State(version, kind, one) for one in dict.fromkeys(map(_as_several, changes))]


def _as_several(change: Change | tuple[Change, ...]) -> tuple[Change, ...]:
    several = tuple(one for one in change if not isinstance(one, str))
    return several or (tuple(word for word in change if isinstance(word, str)),)


def drawn(version: str, count: int, seed: int) -> list[State]:
    """Single damages and pairs, half of each."""
    rng = random.Random(f"{version} {seed}")
    states: list[State] = []
    of_kind = {kind: singles(version, kind) for kind in KINDS}
    while len(states) < count:
        kind = rng.choice(KINDS)
        one, other = rng.sample(of_kind[kind], 2)
        changes = one.changes
        if rng.random() < 0.5:
            if _touch(one) & _touch(other):
                continue
            changes += other.changes
        state = State(version, kind, changes)
        if state not in states:
            states.append(state)
    return states


def _touch(state: State) -> set[str]:
    """The directories that it changes."""
    return {str(Path(one[1]).parent) for one in state.changes} | {
        one[1] for one in state.changes if one[0] in {"remove", "move"}
    }


class _Base:
    def __init__(self, version: str, kind: str) -> None:
        self.version, self.kind = version, kind
        self.root = unpacked(f"starts-{version}") / kind
        self.zookeeper = VERSIONS[version].zookeeper

    def partition(self, name: str) -> str:
        (found,) = self.root.glob(f"?/{name}")
        return str(found.relative_to(self.root))

    def files(self, directory: str, suffix: str) -> list[str]:
        return sorted(
            str(p.relative_to(self.root)) for p in self.root.glob(f"{directory}/*{suffix}")
        )

    def exists(self, path: str) -> bool:
        return (self.root / path).exists()

    def size(self, path: str) -> int:
        return (self.root / path).stat().st_size

    @property
    def second(self) -> str:
        """Another log directory, or the only one."""
        return "b" if self.exists("b") else "a"

    def end(self, name: str) -> int:
        """At least the log end."""
        snapshots = self.files(self.partition(name), SNAPSHOT)
        return int(Path(snapshots[-1]).name[:20]) if snapshots else 0


Changes = Iterator[Change | tuple[Change, ...]]


def _usual(base: _Base, path: str) -> Changes:
    yield ("remove", path)
    if base.size(path):
        yield ("empty", path)
        yield ("zero", path)
        yield ("cut", path, "60")
    yield ("garbage", path)


def _files(base: _Base) -> Changes:
    d, t, c, e = (base.partition(name) for name in ("d-0", "t-0", "c-0", "e-0"))
    logs = base.files(d, LOG)
    for log in (logs[0], logs[2], logs[-1]):
        yield from _usual(base, log)
        yield ("flip", log, "50")
        yield ("copy", log, base.files(c, LOG)[1])
    yield ("cut-bytes", logs[-1], "30")
    yield ("grow", logs[-1], "4096")
    yield ("grow", logs[2], "4096")
    yield ("zero-end", logs[-1], "700")
    yield ("append", logs[-1], "40")
    yield from _usual(base, base.files(e, LOG)[0])
    for suffix in (INDEX, TIMEINDEX):
        for index in (base.files(d, suffix)[2], base.files(d, suffix)[-1]):
            yield from _usual(base, index)
            yield ("copy", index, base.files(t, suffix)[0])
            yield ("grow", index, "1200")
            yield ("append", index, "3")
    for index in (base.files(t, TXNINDEX)[0], base.files(t, TXNINDEX)[-1]):
        yield from _usual(base, index)
        yield ("cut-bytes", index, "1")
        yield ("grow", index, "34")
    for snapshot in (base.files(t, SNAPSHOT)[-1], base.files(t, SNAPSHOT)[0]):
        yield from _usual(base, snapshot)
        yield ("copy", snapshot, base.files(c, SNAPSHOT)[0])
    yield tuple(("remove", path) for path in base.files(t, SNAPSHOT))
    segment = Path(logs[2]).name[:20]
    yield tuple(
        ("remove", str(p.relative_to(base.root)))
        for p in sorted((base.root / d).glob(f"{segment}.*"))
    )
    yield ("move", logs[2], f"{logs[2]}.deleted")
    yield ("copy", f"{logs[2]}.swap", logs[2])
    yield ("copy", f"{logs[2]}.cleaned", logs[2])
    for directory in (c, base.partition("d-0")):
        epochs = f"{directory}/{LEADER_EPOCHS}"
        yield from _usual(base, epochs)
        yield ("write", epochs, "0\n1\n")
        yield ("write", epochs, "1\n1\n0 0\n")
        yield ("write", epochs, "0\n1\n0 100000\n")
        yield ("write", epochs, "0\n2\n5 0\n3 50\n")
        yield ("write", epochs, "0\n1\n-1 0\n")
    yield ("mode", logs[2], "0")
    yield ("mode", logs[-1], "0")
    yield ("mode", logs[-1], "444")
    yield ("mode", base.files(d, INDEX)[2], "0")
    yield ("mode", base.files(d, INDEX)[-1], "444")
    yield ("mode", f"{c}/{LEADER_EPOCHS}", "0")
    yield ("mode", base.files(t, SNAPSHOT)[-1], "0")
    yield ("mode", base.files(t, TXNINDEX)[0], "0")
    yield ("write", f"{d}/notes.txt", "hello")
    yield ("mkdir", f"{d}/more")
    yield ("write", f"{d}/7.log", "hello")
    yield ("write", f"{d}/00000000000000000007x.log", "hello")
    yield ("copy", f"{d}/00000000000000100000.log", logs[2])
    yield ("write", f"{d}/00000000000000100000.log", "")
    yield ("write", f"{d}/00000000000000100000.index", "")
    yield ("copy", f"{t}/00000000000000100000.snapshot", base.files(t, SNAPSHOT)[-1])


def _checkpoints(base: _Base) -> Changes:
    for directory in sorted({"a", base.second}):
        for name in CHECKPOINTS:
            path = f"{directory}/{name}"
            if not base.exists(path):
                continue
            yield ("remove", path)
            yield ("empty", path)
            yield ("zero", path) if base.size(path) else ("write", path, "\0" * 20)
            yield ("garbage", path)
            if directory == "a":
                yield ("write", path, "0\n2\nd 0 5\n")
                yield ("write", path, "1\n0\n")
                yield ("write", path, "0\n1\nd 0\n")
                yield ("write", path, "0\n1\nd 0 -1\n")
                yield ("write", path, "0\n1\nd 0 x\n")
                yield ("mode", path, "0")
                yield ("mode", path, "444")
                yield ("entry", path, "gone-0", "12")
    for partition in ("d-0", "t-0"):
        directory = base.partition(partition)[0]
        end = base.end(partition)
        for name in CHECKPOINTS:
            path = f"{directory}/{name}"
            if not base.exists(path):
                continue
            offsets = (0, end // 2, end - 1, end, end + 100, 100000)
            for offset in ("", *map(str, offsets)):
                yield ("entry", path, partition, offset)
    yield ("entry", f"{base.partition('e-0')[0]}/log-start-offset-checkpoint", "e-0", "150")
    yield ("entry", f"{base.partition('e-0')[0]}/replication-offset-checkpoint", "e-0", "150")


def _properties(base: _Base) -> Changes:
    key = "broker.id" if base.zookeeper else "node.id"
    version = "0" if base.zookeeper else "1"
    for directory in sorted({"a", base.second}):
        path = f"{directory}/meta.properties"
        yield from _usual(base, path)
        yield ("line", path, key, "7")
        yield ("line", path, key, "")
        yield ("line", path, "cluster.id", "b3RoZXJjbHVzdGVyMDAwMQ")
        yield ("line", path, "cluster.id", "")
        yield ("line", path, "version", "")
        yield ("line", path, "version", "9")
        yield ("line", path, "version", "1" if version == "0" else "0")
        yield ("line", path, "version", "x")
        yield ("mode", path, "0")
        yield ("mode", path, "444")
        if base.second == "b":
            yield ("copy", path, f"{'b' if directory == 'a' else 'a'}/meta.properties")
        if not base.zookeeper:
            yield ("line", path, "directory.id", "")
            yield ("line", path, "directory.id", AN_ID)
            yield ("line", path, "directory.id", NO_ID)
            yield ("line", path, "directory.id", "x")
        marker = f"{directory}/.kafka_cleanshutdown"
        if base.exists(marker):
            yield from _usual(base, marker) if base.size(marker) else [("remove", marker)]
            yield ("write", marker, '{"version":0,"brokerEpoch":-1}')
            yield ("write", marker, '{"version":7,"brokerEpoch":3}')
            yield ("mode", marker, "0")
        else:
            yield ("write", marker, '{"version":0,"brokerEpoch":-1}')
            yield ("write", marker, "")
    for name in ("c-0", "e-0", "d-1"):
        path = f"{base.partition(name)}/partition.metadata"
        if not base.exists(path):
            continue
        yield from _usual(base, path)
        yield ("copy", path, f"{base.partition('t-0')}/partition.metadata")
        yield ("take", path, base.version, ANOTHER[base.kind], _elsewhere(base, path))
        yield ("replace", path, "version: 0", "version: 1")
        yield ("write", path, f"version: 0\ntopic_id: {NO_ID}")
        yield ("write", path, f"version: 0\ntopic_id: {AN_ID}")
        yield ("write", path, "version: 0\ntopic_id: nonsense")
        yield ("write", path, f"version: 0\ntopic_id: {AN_ID}\nmore: 1")
        yield ("mode", path, "0")


def _elsewhere(base: _Base, path: str) -> str:
    """Where the other base has that file."""
    _, partition, name = Path(path).parts
    return f"{_Base(base.version, ANOTHER[base.kind]).partition(partition)}/{name}"


def _directories(base: _Base) -> Changes:
    d, c = base.partition("d-0"), base.partition("c-0")
    for name in ("d-0", "e-0", "c-0"):
        directory = base.partition(name)
        yield ("remove", directory)
        yield ("mode", directory, "0")
        yield ("mode", directory, "555")
    yield (("remove", d), ("mkdir", d))
    yield (("remove", d), ("write", d, ""))
    yield (("move", d, "away"), ("link", d, "away"))
    yield ("link", "a/linked-0", "nowhere")
    yield ("mkdir", "a/lost+found")
    yield (("mkdir", "a/lost+found"), ("mode", "a/lost+found", "0"))
    yield ("mkdir", "a/backup")
    yield ("mkdir", "a/.snapshot")
    yield ("mkdir", "a/.trash-0")
    yield ("mkdir", "a/some folder-3")
    yield ("mkdir", "a/new-0")
    yield ("mkdir", "a/d-7")
    yield ("mkdir", "a/d-x")
    yield ("mkdir", "a/d--1")
    yield ("mkdir", "a/d-0.bak")
    yield ("mkdir", "a/-0")
    yield ("copy", "a/d-7", d)
    yield ("copy", "a/d-00", d)
    yield ("copy", "a/x-0", d)
    yield ("copy", "a/d-0.old", d)
    yield ("write", "a/notes.txt", "hello")
    yield ("write", "a/x-1", "hello")
    yield ("write", "a/d-0.tar.gz", "hello")
    ending = ".0123456789abcdef0123456789abcdef"
    for kind in ("delete", "future", "stray"):
        yield ("copy", f"a/d-0{ending}-{kind}", d)
        yield ("copy", f"a/x-0{ending}-{kind}", d)
        yield ("mkdir", f"a/x-0{ending}-{kind}")
        yield ("move", c, f"{c}{ending}-{kind}")
    yield ("copy", "a/d-0.0123-future", d)
    yield ("copy", "a/d-0-stray", d)
    if base.second == "b":
        for name in ("d-0", "e-0"):
            here = base.partition(name)
            there = "b" if here.startswith("a") else "a"
            yield ("copy", f"{there}/{name}", here)
            yield ("move", here, f"{there}/{name}")
            yield ("copy", f"{there}/{name}{ending}-future", here)
            yield ("mkdir", f"{there}/{name}")
        yield (("remove", "b"), ("mkdir", "b"))
        yield ("mode", "b", "0")
        yield ("mode", "b", "555")
        yield (("remove", "b"), ("write", "b", ""))
    yield ("mode", "a", "0")
    yield ("mode", "a", "555")
    yield ("write", "a/.lock", "")
    yield (("write", "a/.lock", ""), ("mode", "a/.lock", "0"))


def _metadata(base: _Base) -> Changes:
    log = base.files(METADATA, LOG)[0]
    snapshots = base.files(METADATA, ".checkpoint")
    newest, oldest = snapshots[-1], snapshots[0]
    yield ("remove", METADATA)
    yield (("remove", METADATA), ("mkdir", METADATA))
    yield from _usual(base, log)
    yield ("flip", log, "20")
    yield ("flip", log, "95")
    yield ("cut-bytes", log, "10")
    yield ("append", log, "40")
    yield ("grow", log, "4096")
    yield ("copy", log, base.files(base.partition("c-0"), LOG)[0])
    yield ("mode", log, "0")
    yield ("mode", log, "444")
    for suffix in (INDEX, TIMEINDEX):
        index = base.files(METADATA, suffix)[0]
        yield from _usual(base, index)
        yield ("grow", index, "10485600")
    for snapshot in (newest, oldest):
        yield from _usual(base, snapshot)
        yield ("cut-bytes", snapshot, "75")
        yield ("cut-bytes", snapshot, "1")
        yield ("flip", snapshot, "50")
        yield ("mode", snapshot, "0")
        yield ("copy", f"{snapshot}.deleted", snapshot)
        yield ("copy", f"{snapshot}.part", snapshot)
    yield tuple(("remove", path) for path in snapshots)
    yield tuple(("empty", path) for path in snapshots)
    yield (("remove", log), *(("remove", path) for path in snapshots))
    yield (("empty", log), *(("remove", path) for path in snapshots))
    yield (("empty", log), *(("empty", path) for path in snapshots))
    yield (("empty", log), ("empty", newest))
    yield ("copy", f"{METADATA}/00000000000000100000-0000000009.checkpoint", newest)
    for path in base.files(METADATA, SNAPSHOT)[-1:]:
        yield from _usual(base, path)
    for name in ("quorum-state", LEADER_EPOCHS, "partition.metadata"):
        path = f"{METADATA}/{name}"
        yield from _usual(base, path)
        yield ("mode", path, "0")
    state = f"{METADATA}/quorum-state"
    text = (base.root / state).read_text()
    yield ("replace", state, '"data_version":0', '"data_version":9')
    yield ("replace", state, '"leaderId":1', '"leaderId":9')
    at = text.index('"leaderEpoch":') + len('"leaderEpoch":')
    epoch = text[at:].partition(",")[0]
    yield ("replace", state, f'"leaderEpoch":{epoch}', '"leaderEpoch":99')
    yield ("replace", state, f'"leaderEpoch":{epoch}', '"leaderEpoch":0')
    alone, others = '[{"voterId":1}]', '[{"voterId":1},{"voterId":2},{"voterId":3}]'
    if alone in text:
        yield ("replace", state, alone, others)
        lost = (("empty", log), *(("remove", path) for path in snapshots))
        yield (*lost, ("replace", state, alone, others))
    yield ("write", f"{METADATA}/{LEADER_EPOCHS}", "0\n1\n99 0\n")
    yield ("write", f"{METADATA}/partition.metadata", f"version: 0\ntopic_id: {AN_ID}")
    for directory in sorted({"a", base.second}):
        path = f"{directory}/bootstrap.checkpoint"
        if base.exists(path):
            yield from _usual(base, path)
            yield ("mode", path, "0")
    other = ANOTHER[base.kind]
    yield (("remove", METADATA), ("take", METADATA, base.version, other, METADATA))
    if NEWER[base.version] != base.version:
        newer = NEWER[base.version]
        yield (("remove", METADATA), ("take", METADATA, newer, base.kind, METADATA))
    yield ("take", log, base.version, other, _Base(base.version, other).files(METADATA, LOG)[0])
    if base.second == "b":
        yield ("move", METADATA, "b/__cluster_metadata-0")
        yield ("copy", "b/__cluster_metadata-0", METADATA)
    yield ("mode", METADATA, "0")
    yield ("mode", METADATA, "555")
