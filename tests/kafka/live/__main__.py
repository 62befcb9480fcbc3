"""Run all read-only verbs in a loop while a broker is under load.

    python -m tests.kafka.live --minutes 60 --kafka-version 4.3.1 [--moves | --truncations]

Prints each false finding, and records the result in docs/proofs/running-broker.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path

from tests.fixtures.data import TOPIC_CONFIGS, copy_log_dir
from tests.kafka.judge.jars import KAFKA_VERSION
from tests.kafka.live.load import BUSY, QUIET, load
from tests.kafka.live.truncating import TOPICS, truncating
from tests.kafka.versions.eras import ERAS
from tests.machine import machine
from winnow.errors import CorruptLogError

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[2]
PAGE = PROJECT / "docs" / "proofs" / "running-broker.md"
VERBS = {
    "doctor": ["doctor"],
    "plan": ["plan"],
    "plan --estimate": ["plan", "--estimate"],
    "explain": ["explain", "--partition", f"{QUIET}-0"],
    "verify": ["verify"],
    "verify --key-hash": ["verify", "--key-hash"],
    "inspect": ["inspect"],
    "winnow.read": [],
}
MINUTE = 60
HEAD = """\
# Read-only verbs while a broker runs

Each read-only verb runs as a command of its own, in a loop. The broker's cleaner runs at ratio 0.01
and its retention each second. Clients write, with transactions and commits, and create and delete
topics. With `--moves`, partitions move between two log directories. With `--truncations`, the log
directories are those of two brokers, which truncate in turns: the other one is elected although it
lacks records below the high watermark. A false result is a finding, an unsafe start, or an exit
code other than 0, or 3 of `verify --key-hash` that names only replicas which are about to be moved
or deleted.

    python -m tests.kafka.live --minutes 60 --kafka-version V [--moves | --truncations]

| Kafka | minutes | runs | partitions deleted meanwhile | false results | recorded |
|---|--:|--:|--:|--:|---|
"""


@dataclass(frozen=True, slots=True)
class Watched:
    """Log directories of a running broker, the options for its settings, and topics of the first
    log directory.
    """

    log_dirs: tuple[str, ...]
    given: tuple[str, ...]
    topics: tuple[str, ...]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--kafka-version", default=KAFKA_VERSION)
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--moves", action="store_true", help="between two log directories")
    kind.add_argument("--truncations", action="store_true", help="of two brokers, in turns")
    asked = parser.parse_args()
    runs: Counter[str] = Counter()
    wrong: list[str] = []
    gone = 0
    with tempfile.TemporaryDirectory(prefix="winnow-beside-") as place:
        home = Path(place)
        certificate = erase_elsewhere(home)
        brokers = (
            truncating_brokers(home, asked.kafka_version)
            if asked.truncations
            else busy_broker(home, asked.kafka_version, moves=asked.moves)
        )
        with brokers as watched:
            end = time.monotonic() + asked.minutes * MINUTE
            turns = cycle((name, one) for name in VERBS for one in watched)
            while time.monotonic() < end:
                name, one = next(turns)
                found, went = look(name, one, certificate)
                runs[name] += 1
                gone += went
                for problem in found:
                    wrong.append(f"{name}: {problem}")
                    sys.stdout.write(f"{wrong[-1]}\n")
                    sys.stdout.flush()
    minutes, many = f"{asked.minutes:g}", runs.total()
    sys.stdout.write(f"{many} runs, {gone} partitions deleted, {len(wrong)} false results\n")
    more = ", moves" if asked.moves else ", truncations" if asked.truncations else ""
    record(f"{asked.kafka_version}{more}", [minutes, f"{many:,}", str(gone), str(len(wrong))])
    return int(bool(wrong))


@contextmanager
def busy_broker(home: Path, version: str, *, moves: bool) -> Iterator[list[Watched]]:
    """A broker under load inside the block."""
    era = next(era for era in ERAS if version in era.names)
    log_dirs = [str(home / name) for name in ("log-dir", "log-dir-2")[: 1 + moves]]
    settings = BUSY | {"log.dirs": ",".join(log_dirs)}
    with era.broker(home / "log-dir", home / "home", settings) as broker:
        # The newer transaction protocol is not known to all versions, and the oldest ones make
        # the topic of offsets only for a consumer.
        others = "t-v1$|__consumer_offsets$" if era.zookeeper else "t-v1$"
        broker.produce("main", scale=0.2, topics=f"(?!{others}).*")
        given = ["--server-properties", str(broker.home / "server.properties")]
        if era.zookeeper:  # which knows the settings of topics, and not the log directory
            (home / "topics").write_text(broker.topic_configs())
            given += ["--topic-configs", str(home / "topics")]
            given += ["--topic-set", "comes-*:cleanup.policy=delete"]
        with load(broker, topics=True, log_dirs=log_dirs if moves else ()):
            topics = (QUIET, "c-lz4", "t-closed", "__transaction_state")
            yield [Watched((*log_dirs,), (*given,), topics)]


@contextmanager
def truncating_brokers(home: Path, version: str) -> Iterator[list[Watched]]:
    """Two brokers of a cluster, which truncate inside the block."""
    with truncating(home / "cluster", version) as followers:
        yield [
            Watched(
                (str(node.log_dir),),
                ("--server-properties", str(node.home / "server.properties")),
                (*TOPICS,),
            )
            for node in followers.nodes
        ]
        sys.stdout.write(f"{followers.truncations} truncations below a high watermark\n")


def look(verb: str, at: Watched, certificate: str) -> tuple[list[str], int]:
    """Return the false results of a verb, and how many partitions were deleted meanwhile."""
    if verb == "winnow.read":
        return read_states(at), 0
    more = [certificate] if verb == "verify --key-hash" else []
    return run([*VERBS[verb], *more], at.log_dirs, at.given)


def erase_elsewhere(home: Path) -> str:
    """Erase a key from another log directory, and return the certificate."""
    copy_log_dir("clean", home / "copy", only=["c-tomb-0", "c-lz4-0", f"{QUIET}-0"])
    command: list[str | Path] = [
        PROJECT / "spark-submit.sh",
        "erase",
        str(home / "copy"),
        "--key",
        "nobody",
    ]
    command += ["--topic-configs", str(TOPIC_CONFIGS), "--no-ledger", "--quiet"]
    command += ["--certificate", str(home / "certificates")]
    subprocess.run(command, check=False, capture_output=True)  # 2: there is no such key
    return str(next((home / "certificates").glob("*.json")))


def read_states(at: Watched) -> list[str]:
    """Return what is wrong with reading states of topics as a program does."""
    program = f"{HERE}/read_states.py"
    command = [sys.executable, program, ",".join(at.log_dirs), ",".join(at.topics)]
    env = os.environ | {"PYTHONPATH": f"{PROJECT / 'lib'}:{PROJECT}"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    return [] if done.returncode == 0 else [done.stderr[-2000:]]


def run(
    arguments: Sequence[str], log_dirs: Sequence[str], given: Sequence[str]
) -> tuple[list[str], int]:
    """Return the false results of a command, and how many partitions were deleted meanwhile.
    `given`: options for settings, without which those of topics are unknown.
    """
    verb, *options = arguments
    if verb in {"doctor", "plan", "explain"}:
        options += given
    command: list[str | Path] = [PROJECT / "spark-submit.sh", verb, *log_dirs]
    command += [*options, "--json", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    told = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    # What a broker is about to move or to delete is not searched, and that is no success.
    left_out = [one.partition(": ")[0] for one in told.get("not_searched", ())]
    moved = bool(left_out) and all(one.endswith(("-future", "-delete")) for one in left_out)
    good = {0, CorruptLogError.exit_code} if moved else {0}
    wrong = []
    if done.returncode not in good:
        wrong.append(f"exit code {done.returncode}: {done.stderr[-2000:]}")
    note = done.stderr + done.stdout
    if "beside its running broker" not in note:
        wrong.append(f"it does not say that a broker is running: {done.stderr[-2000:]}")
    wrong += [str(finding) for finding in told.get("findings", ())]
    partitions = told.get("partitions", ())
    wrong += [str(found["error"]) for found in partitions if found.get("error")]
    wrong += [str(trouble) for trouble in told.get("troubles", ())]
    wrong += [str(start) for start in told.get("starts", ()) if not start["is_safe"]]
    _, went, after = note.partition(" went away")
    number = note[: note.find(" partition" if went else "")].rpartition("; ")[2] if after else "0"
    return wrong, int(number) if number.isdigit() else 0


def record(version: str, figures: list[str]) -> None:
    """Put a row of this version in place of an earlier one."""
    rows = PAGE.read_text(encoding="utf-8").splitlines() if PAGE.exists() else []
    rows = [row for row in rows if row.startswith("| ") and not row.startswith(f"| {version} |")]
    rows = [row for row in rows if not row.startswith("| Kafka |")]
    made = f"{datetime.now(UTC):%Y-%m-%d}, {machine()}"
    rows.append(f"| {version} | {' | '.join(figures)} | {made} |")
    PAGE.write_text(HEAD + "".join(f"{row}\n" for row in sorted(rows)), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
