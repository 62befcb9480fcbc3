"""Log directories as real brokers left them: `python -m tests.kafka.starts.bases VERSION...` makes
them anew.

Of each version there is an archive in tests/fixtures with three of them, so that a state is the
same to the bit on each machine. A ZooKeeper broker has its ZooKeeper beside it.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import pyarrow as pa

from tests.fixtures.data import HERE, unpacked
from tests.kafka.judge.broker import Broker
from tests.kafka.judge.jars import quick_java
from tests.kafka.versions.eras import Era
from tests.kafka.versions.zookeeper import ZooKeeperBroker

VERSIONS = {
    era.release: era
    for era in (Era("2.8.2", zookeeper=True), Era("3.9.2"), Era("4.3.1"), Era("4.4.0"))
}
KINDS = ("stopped", "killed", "alone")
"""Two log directories, stopped cleanly or killed; one log directory, stopped cleanly."""
LOG_DIRS = ("a", "b")
SETTINGS_FILE = "server.properties"
"""Beside the log directories: lines for the broker, with @/ for the parent of the directories."""
SETTINGS = {
    "metadata.log.max.record.bytes.between.snapshots": "1500",
    "log.index.size.max.bytes": "4096",
    # What it finds about a clock of weeks ago is no concern of ours.
    "transactional.id.expiration.ms": "2147483647",
    "initial.broker.registration.timeout.ms": "15000",
    # The controller holds a broker that was killed for alive that long.
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
}
OF_ZOOKEEPER = {"zookeeper.session.timeout.ms": "2000", "zookeeper.connection.timeout.ms": "18000"}
SESSION_SECONDS = 8
"""Until ZooKeeper has forgotten a broker that was killed."""
_BLOCK = 4096
_ZEROS = bytes(_BLOCK)


def broker_on(version: str, root: Path, home: Path) -> Broker:
    """A broker on the log directories in `root`."""
    era = VERSIONS[version]
    log_dirs = [str(root / name) for name in LOG_DIRS if (root / name).exists()]
    settings = SETTINGS | {"log.dirs": ",".join(log_dirs)}
    if era.zookeeper:
        settings |= OF_ZOOKEEPER
    own = root / SETTINGS_FILE
    if own.exists():
        lines = own.read_text().replace("@/", f"{root}/").splitlines()
        settings |= dict(line.partition("=")[::2] for line in lines)
    broker = era.broker(root / "a", home, settings)
    if isinstance(broker, ZooKeeperBroker):
        broker.zookeeper_tick = ("500",)
        broker.zookeeper_flags = ("-Dzookeeper.preAllocSize=64", "-Dzookeeper.snapCount=1000000")
    return broker


def copy_base(version: str, kind: str, root: Path) -> None:
    """Make a writable copy of a base at `root`. Zeros become holes."""
    source = unpacked(f"starts-{version}") / kind
    for path in [source, *sorted(source.rglob("*"))]:
        target = root / path.relative_to(source)
        if path.is_dir():
            target.mkdir()
        else:
            _copy_with_holes(path, target)


def _copy_with_holes(source: Path, target: Path) -> None:
    with source.open("rb") as reader, target.open("xb") as writer:
        while block := reader.read(_BLOCK):
            if block != _ZEROS[: len(block)]:
                writer.write(block)
            else:
                writer.seek(len(block), 1)
        writer.truncate(writer.tell())


def make_bases(version: str, root: Path) -> None:
    """Fill `root` with a directory for each kind."""
    for kind in KINDS:
        directory, home = root / kind, root.parent / f"home-{version}-{kind}"
        for name in LOG_DIRS[: 1 if kind == "alone" else 2]:
            (directory / name).mkdir(parents=True)
        broker = broker_on(version, directory, home)
        with broker:
            _write(version, broker, "first")
        if kind == "killed":
            broker.start()
            _write(version, broker, "more")
            if isinstance(broker, ZooKeeperBroker):
                broker.kill_alone()
                time.sleep(SESSION_SECONDS)
            broker.kill()


def _write(version: str, broker: Broker, what: str) -> None:
    program = ("FewTopics", broker.bootstrap, VERSIONS[version].segment_key, what)
    command = [*quick_java("-Xmx256m", version=version), *program]
    subprocess.run(command, check=True, timeout=120)


def pack(root: Path, archive: Path) -> None:
    with (
        pa.output_stream(str(archive), compression="zstd") as stream,
        tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in sorted(root.rglob("*")):
            tar.add(path, str(path.relative_to(root)), recursive=False, filter=_nobodys)


def _nobodys(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def main() -> None:
    for version in sys.argv[1:] or VERSIONS:
        with tempfile.TemporaryDirectory(prefix="winnow-bases-") as scratch:
            root = Path(scratch) / "bases"
            make_bases(version, root)
            pack(root, HERE / f"starts-{version}.tar.zst")


if __name__ == "__main__":
    main()
