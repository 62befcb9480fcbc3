"""States that are recorded, but not drawn: each is a corner of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tests.fixtures.data import unpacked
from tests.kafka.starts.bases import SETTINGS_FILE, VERSIONS
from tests.kafka.starts.changes import Change
from tests.kafka.starts.moving import moving
from tests.kafka.starts.swaps import swaps
from tests.kafka.starts.table import METADATA, State
from tests.kafka.starts.tiered import tiered
from tests.kafka.starts.unwritable import unwritable
from winnow.logdir.names import (
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCHS,
    OFFSET_CHECKPOINTS,
    SNAPSHOT,
)

HIGHEST = 2**63 - 1
_NEWEST = HIGHEST - 999


Of = Callable[[str, str], Iterator[State]]


def rare(version: str, kind: str) -> Iterator[State]:
    for of in OF:
        yield from of(version, kind)


def _highest_offset(version: str, kind: str) -> Iterator[State]:
    """The last batch ends at the highest offset, with an offset index and, after a clean stop,
    without.
    """
    root = unpacked(f"starts-{version}") / kind
    (found,) = root.glob("?/d-0")
    segment = Path(found.relative_to(root), f"{_NEWEST:020d}")
    batch = ("last-batch", f"{segment}.log", str(HIGHEST))
    yield State(version, kind, (batch, ("write", f"{segment}.index", "")))
    if kind == "stopped":
        yield State(version, kind, (batch,))


def _lost_directories(version: str, kind: str) -> Iterator[State]:
    """The directories of all partitions are gone, or those of one disk, and the metadata log is
    whole; or a disk is not to be read, and a directory on another one is gone.
    """
    root = unpacked(f"starts-{version}") / kind
    dirs = [path.relative_to(root) for path in sorted(root.glob("?/*-?"))]
    dirs = [path for path in dirs if not path.name.startswith("__cluster_metadata")]
    yield _changed(version, kind, [("remove", str(path)) for path in dirs])
    if kind != "stopped":
        return
    yield _changed(version, kind, [("remove", str(path)) for path in dirs if path.parts[0] == "b"])
    ending = ".0123456789abcdef0123456789abcdef-stray"
    yield _changed(version, kind, [("move", "b/d-1", f"b/d-1{ending}")])
    for lost in (("remove", "a/d-0"), ("remove", "b/d-1")):
        yield _changed(version, kind, [lost, ("mode", "b", "0")])


def _lost_ends(version: str, kind: str) -> Iterator[State]:
    """After an unclean shutdown a log ends below its checkpoints, or has no segment; a crash ended
    the deletion of a `-delete` directory.
    """
    if kind != "killed":
        return
    root = unpacked(f"starts-{version}") / kind
    (found,) = root.glob("?/d-0")
    path = found.relative_to(root)
    names = sorted(one.name for one in found.iterdir() if one.name[:20].isdigit())
    bases = sorted({int(name[:20]) for name in names})
    watermark = _offset_in(root / path.parent / HIGH_WATERMARK_CHECKPOINT, "d 0")
    last = max(base for base in bases if base < watermark)
    later = [("remove", f"{path}/{name}") for name in names if int(name[:20]) > last]
    yield _changed(version, kind, [("batches", f"{path}/{last:020d}.log", "1"), *later])
    gone = [LEADER_EPOCHS, *names]
    yield _changed(version, kind, [("remove", f"{path}/{name}") for name in gone])
    deleted = f"{path}.0123456789abcdef0123456789abcdef-delete"
    log = ("remove", f"{deleted}/{bases[1]:020d}.log")
    yield _changed(version, kind, [("copy", deleted, str(path)), log])


def _offset_in(checkpoint: Path, key: str) -> int:
    lines = checkpoint.read_text().splitlines()
    (found,) = (line for line in lines if line.startswith(f"{key} "))
    return int(found.rpartition(" ")[2])


def _names_of_snapshots(version: str, kind: str) -> Iterator[State]:
    """Files and directories in the place of snapshots, and names that are almost those of one."""
    if kind != "alone" or VERSIONS[version].zookeeper:
        return
    root = unpacked(f"starts-{version}") / kind
    newest = str(max(root.glob(f"{METADATA}/*.checkpoint")).relative_to(root))
    for name in ("bootstrap", "5-1", f"{1:020d}-", f"{1:020d}-x000000001", "\u0660" * 31):
        yield _changed(version, kind, [("write", f"{METADATA}/{name}.checkpoint", "")])
    for ending in ("part", "deleted"):
        yield _changed(version, kind, [("write", f"{METADATA}/abc.checkpoint.{ending}", "")])
        directory = ("mkdir", f"{METADATA}/{1:020d}-{1:010d}.checkpoint.{ending}")
        yield _changed(version, kind, [directory])
        yield _changed(version, kind, [directory, ("write", f"{directory[1]}/x", "")])
    name = newest.removesuffix(".checkpoint")
    for copy in (
        f"{METADATA}/old-{Path(newest).name}",
        f"{name} (1).checkpoint",
        f"{newest}.bak",
        f"{METADATA}/-{1:019d}-{1:010d}.checkpoint",
        f"{METADATA}/+{1:019d}-+{1:09d}.checkpoint",
        f"{METADATA}/{100000:020d}_{9:010d}x.checkpoint",
        f"{METADATA}/{10:020d}-{99:010d}.checkpoint",
    ):
        yield _changed(version, kind, [("copy", copy, newest)])
    yield _changed(version, kind, [("move", newest, f"{name} (1).checkpoint")])
    for offset, epoch in ((1, 1), (100000, 9)):
        directory = ("mkdir", f"{METADATA}/{offset:020d}-{epoch:010d}.checkpoint")
        yield _changed(version, kind, [directory])
    yield _changed(version, kind, [("remove", newest), ("mkdir", newest)])


def _small_texts(version: str, kind: str) -> Iterator[State]:
    """Spaces at the end of values, ids in other spellings, and versions without what they need."""
    zookeeper = VERSIONS[version].zookeeper
    node = "broker.id" if zookeeper else "node.id"
    root = unpacked(f"starts-{version}") / kind
    meta = (root / "a/meta.properties").read_text()
    values = dict(line.split("=", 1) for line in meta.splitlines() if "=" in line)
    where = {"alone": ["a/meta.properties"], "stopped": ["b/meta.properties"]}.get(kind, [])
    for path in where:
        for key in (node, "cluster.id", "version", "directory.id"):
            if key in values:
                own = dict(
                    line.split("=", 1)
                    for line in (root / path).read_text().splitlines()
                    if "=" in line
                )
                yield _changed(version, kind, [("line", path, key, f"{own[key]} ")])
        yield _changed(version, kind, [("line", path, node, "\t+01")])
        cluster = ("replace", path, f"cluster.id={values['cluster.id']}", "cluster.id=")
        yield _changed(version, kind, [cluster])
        yield _changed(version, kind, [("line", path, "version", f"0{values['version']}")])
        if zookeeper:
            continue
        padded = ("replace", path, own["directory.id"], f"{own['directory.id']}==")
        yield _changed(version, kind, [padded])
        old = [("line", path, "version", "0"), ("line", path, "broker.id", "1")]
        for missing in ("cluster.id", "broker.id", "node.id"):
            changes = [*old[: 1 if missing == "broker.id" else 2], ("line", path, missing, "")]
            yield _changed(version, kind, changes)
    if kind == "alone" and not zookeeper:
        state = f"{METADATA}/quorum-state"
        for number in ('"0"', "0.0", " 0 ", "1", '"1"', "true"):
            yield _changed(
                version, kind, [("replace", state, '"data_version":0', f'"data_version":{number}')]
            )
        text = (root / state).read_text()
        for key in ("leaderId", "leaderEpoch", "votedId", "appliedOffset"):
            (found,) = re.findall(f'"{key}":[^,}}]+', text)
            for value in ('"x"', '"1"', "1.0", "true", "null", str(2**31), str(2**31 - 1)):
                yield _changed(version, kind, [("replace", state, found, f'"{key}":{value}')])


def _settings(version: str, kind: str) -> Iterator[State]:
    """Lists of log directories as somebody wrote them."""
    if kind != "alone":
        return
    roles = () if VERSIONS[version].zookeeper else ("process.roles=broker,controller ",)
    for lines in (
        *roles,
        "log.dirs=@/a,",
        "log.dirs=,@/a",
        "log.dirs=@/a, ,",
        "log.dirs=\nlog.dir=@/a",
        "log.dirs=  \nlog.dir=@/a",
        "log.dirs=,\nlog.dir=@/a",
        "log.dirs=@/a\nmetadata.log.dir=",
        "log.dirs=@/a\nlog.dir=",
        "log.dirs=@/a\nlog.dir=@/a,",
        "log.dirs=@/a ",
        "log.dirs=@/a\nmetadata.log.dir=@/a ",
    ):
        yield _changed(version, kind, [("write", SETTINGS_FILE, lines)])


def _refused_properties(version: str, kind: str) -> Iterator[State]:
    """Values in server.properties that a broker refuses."""
    if kind != "alone":
        return
    for line in (
        "log.retention.hours=abc",
        "log.segment.bytes=1024",
        "log.cleanup.policy=foo",
        "num.io.threads=0",
        "auto.create.topics.enable=yes",
        "message.max.bytes=",
        *(() if VERSIONS[version].zookeeper else ("compression.type=x", "process.roles=Broker")),
        *(() if VERSIONS[version].zookeeper else ("controller.quorum.voters=1@localhost",)),
        *(() if VERSIONS[version].zookeeper else ("queued.max.request.bytes=1",)),
    ):
        yield _changed(version, kind, [("write", SETTINGS_FILE, f"log.dirs=@/a\n{line}")])


def _gaps(version: str, kind: str) -> Iterator[State]:
    """Records in the middle of the metadata log are missing, with and without snapshots."""
    if kind != "alone" or VERSIONS[version].zookeeper:
        return
    root = unpacked(f"starts-{version}") / kind
    snapshots = sorted(str(p.relative_to(root)) for p in root.glob(f"{METADATA}/*.checkpoint"))
    log = f"{METADATA}/{0:020d}.log"
    for change in (("batches", log, "3"), ("move", log, f"{log}.deleted"), ("remove", log)):
        yield _changed(version, kind, [change])
    for first, after in ((3, 12), (34, 60), (20, 30), (55, 63)):
        gap = ("gap", log, str(first), str(after))
        yield _changed(version, kind, [gap])
        yield _changed(version, kind, [*(("remove", path) for path in snapshots), gap])


def _metadata_records(version: str, kind: str) -> Iterator[State]:
    """Features, records and topic configs that the version does not accept, at the end of the
    metadata log.
    """
    if kind != "stopped" or VERSIONS[version].zookeeper:
        return
    log = f"{METADATA}/{0:020d}.log"
    if version.startswith("4."):
        yield _changed(version, kind, [("record", log, "feature", "metadata.version", "5")])
    for name, level in (
        ("share.version", 1),
        ("share.version", 2),
        ("transaction.version", 2),
        ("transaction.version", 9),
        ("group.version", 0),
        ("brand.new", 0),
        ("brand.new", 1),
    ):
        yield _changed(version, kind, [("record", log, "feature", name, str(level))])
    yield _changed(version, kind, [("record", log, "unknown", "99")])
    for key, value in REFUSED + ACCEPTED:
        yield _changed(version, kind, [("record", log, "topic-config", "d", key, value)])


def _control_records(version: str, kind: str) -> Iterator[State]:
    """Control records at the end of the metadata log that a node can't read, or that it can't use:
    their keys and values in hex.
    """
    if kind != "alone" or VERSIONS[version].zookeeper:
        return
    log = f"{METADATA}/{0:020d}.log"
    voters, kraft_version, leader = "00000006", "00000005", "00000002"
    for key, value in (
        *((voters, value) for value in ("", "0000", "00000000", "0000ffffffff07")),
        *((kraft_version, value) for value in ("000000000000", "0000000100", "0000000900")),
        *((leader, value) for value in ("", "0000")),
        ("00000063", "0000"),  # of an unknown kind
        ("00000001", "000000000000"),  # a COMMIT
        ("00", "0000"),
    ):
        yield _changed(version, kind, [("control-record", log, key, value)])


def _special_files(version: str, kind: str) -> Iterator[State]:
    """A named pipe in place of a file of the metadata log, and one that a broker ignores."""
    if kind != "alone" or VERSIONS[version].zookeeper:
        return
    root = unpacked(f"starts-{version}") / kind
    newest = str(max(root.glob(f"{METADATA}/*.checkpoint")).relative_to(root))
    yield _changed(version, kind, [("remove", newest), ("fifo", newest)])
    later = f"{METADATA}/{100000:020d}-{9:010d}.checkpoint"
    yield _changed(version, kind, [("fifo", later)])
    yield _changed(version, kind, [("fifo", "a/notes")])


REFUSED = (
    ("cleanup.policy", "foo"),
    ("retention.ms", "abc"),
    ("retention.ms", "-2"),
    ("segment.bytes", "13"),
    ("segment.index.bytes", "2"),
    ("compression.type", "xyz"),
    ("compression.gzip.level", "99"),
    ("min.insync.replicas", "0"),
    ("leader.replication.throttled.replicas", "x"),
    ("message.timestamp.type", "None"),
    ("preallocate", "maybe"),
    ("segment.ms", "0"),
    ("max.message.bytes", "-1"),
)
ACCEPTED = (
    ("cleanup.policy", ""),
    ("foo.bar", "1"),
    ("segment.bytes", "1000"),
    ("message.format.version", "9.9"),
    ("leader.replication.throttled.replicas", "*"),
    ("leader.replication.throttled.replicas", "0:1,1:2"),
    ("compression.type", "zstd"),
    ("min.compaction.lag.ms", str(HIGHEST)),
    ("preallocate", " TRUE "),
    ("segment.ms", "+1"),
)
"""By some versions at least."""


def _markers(version: str, kind: str) -> Iterator[State]:
    """A directory or a link in place of the marker of a clean shutdown."""
    marker = "b/.kafka_cleanshutdown" if kind == "stopped" else "a/.kafka_cleanshutdown"
    gone = [] if kind == "killed" else [("remove", marker)]
    yield _changed(version, kind, [*gone, ("mkdir", marker)])
    if kind == "stopped":  # without another log directory a broker may end only after a while
        yield _changed(version, kind, [*gone, ("mkdir", marker), ("write", f"{marker}/x", "")])
    yield _changed(version, kind, [*gone, ("write", "away", ""), ("link", marker, "away")])
    yield _changed(version, kind, [*gone, ("link", marker, "nowhere")])


def _numbers(version: str, kind: str) -> Iterator[State]:
    """Offsets and partitions at and beyond the bounds of Java's numbers, in the checkpoints."""
    if kind == "stopped" or (version != "4.3.1" and kind == "killed"):
        return
    root = unpacked(f"starts-{version}") / kind
    (found,) = root.glob("?/d-0")
    directory = found.relative_to(root).parts[0]
    bounds = (HIGHEST, HIGHEST + 1, -HIGHEST - 1, -HIGHEST - 2)
    for name in OFFSET_CHECKPOINTS:
        if version == "2.8.2" and name == HIGH_WATERMARK_CHECKPOINT:
            continue  # whether it stops depends on the time
        path = f"{directory}/{name}"
        for offset in bounds if version == "4.3.1" else bounds[1:2]:
            yield _changed(version, kind, [("entry", path, "d-0", str(offset))])
        yield _changed(version, kind, [("entry", path, f"gone-{2**31}", "1")])
    epochs = str(found.relative_to(root) / LEADER_EPOCHS)
    yield _changed(version, kind, [("write", epochs, f"0\n1\n0 {HIGHEST + 1}\n")])


def _lost_segments(version: str, kind: str) -> Iterator[State]:
    """All files of a segment but its producer snapshot are gone: one in the middle, and the last
    one of a log that no checkpoint knows. A segment lacks its indexes and the end of its log.
    """
    if kind == "stopped":
        return
    root = unpacked(f"starts-{version}") / kind
    for name in ("d-0", "c-0"):
        (directory,) = root.glob(f"?/{name}")
        logs = sorted(directory.glob("*.log"))
        files = [[str(p.relative_to(root)) for p in _without_snapshot(log)] for log in logs]
        yield _changed(version, kind, [("remove", path) for path in files[1]])
        indexes = [("remove", path) for path in files[1] if not path.endswith(".log")]
        log = str(logs[1].relative_to(root))
        yield _changed(version, kind, [*indexes, ("cut-bytes", log, "9")])
        if kind == "alone":
            checkpoints = (f"a/{name}" for name in OFFSET_CHECKPOINTS[2:])
            gone = [*files[-1], *checkpoints]
            yield _changed(version, kind, [("remove", path) for path in gone])


def _without_snapshot(log: Path) -> list[Path]:
    return sorted(path for path in log.parent.glob(f"{log.stem}.*") if path.suffix != SNAPSHOT)


def _names_of_others(version: str, kind: str) -> Iterator[State]:
    """A directory of a later version, and names that are no UTF-8."""
    if kind == "stopped":
        return
    root = unpacked(f"starts-{version}") / kind
    (found,) = root.glob("?/d-0")
    for name in ("%FF%FE.log", f"{0:020d}%FF.index", f"{40:019d}%FF.snapshot", "%FF.swap"):
        yield _changed(version, kind, [("named", str(found.relative_to(root)), name)])
    yield _changed(version, kind, [("named", "a", "caf%E9-0/")])
    yield _changed(version, kind, [("named", "a", "caf%E9/")])


def _changed(version: str, kind: str, changes: Iterable[Change]) -> State:
    return State(version, kind, tuple(changes))


OF: tuple[Of, ...] = (
    _highest_offset,
    _lost_directories,
    _lost_ends,
    _names_of_snapshots,
    _small_texts,
    _settings,
    _refused_properties,
    _gaps,
    _metadata_records,
    _control_records,
    _special_files,
    _markers,
    _numbers,
    _lost_segments,
    _names_of_others,
    moving,
    swaps,
    tiered,
    unwritable,
)
