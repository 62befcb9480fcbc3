"""The story of one version: its broker fills a log directory, Winnow cleans it, the broker starts
on the result, and its own cleaner cleans a copy.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fixtures.data import copy_tree
from tests.kafka.cleaner.runs import read_checkpoint
from tests.kafka.judge.broker import Broker, BrokerFailedError
from tests.kafka.judge.child import Child
from tests.kafka.judge.live_clients import LiveClients
from tests.kafka.versions.eras import Era
from tests.kafka.versions.seen import Partition, Record, read_all
from tests.kafka.versions.zookeeper import ZooKeeperBroker
from winnow.policy.versions import KafkaVersion

Command = Callable[..., tuple[int, str]]
"""A verb with its arguments -> exit code and standard output."""

CHECKPOINT = "cleaner-offset-checkpoint"
COMMITTED = 150
"""The offset of a group on c-none-0, see Fill.java."""
WAIT_SECONDS = 90
DAY_MS = 86_400_000
FILLS = {"log.retention.ms": "-1"}
CLEANS = {
    # Cleans all that is dirty and deletes all that has expired, at once.
    "log.retention.ms": str(5 * DAY_MS),
    "log.cleaner.min.cleanable.ratio": "0",
    "log.cleaner.backoff.ms": "200",
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "0",
}
UNCOMPRESSED = re.compile(r"(c-none|c-plain|c-large|c-tombstones|d-|cd-|f-v.-none)")
HAS_TOMBSTONES = re.compile(r"(c-none|c-plain|c-tombstones)")
RETAINED = ("d-time-0", "d-size-0", "cd-both-0")
CLEANED_ONCE = ("b-plain-0", "b-txn-0")


@dataclass
class Outcome:
    """What was seen. `problems` is empty if all is as it must be."""

    era: Era
    partitions: int = 0
    compacted: int = 0
    records_before: int = 0
    records_after: int = 0
    rules: str = ""
    rules_without: str = ""
    """The rules that Winnow uses without --kafka-version, and how it knows."""
    same_as_broker: int = 0
    """Partitions in which the broker's own cleaner and retention keep the same records."""
    same_bytes: int = 0
    same_without: int = 0
    """Partitions with the same records without --kafka-version."""
    problems: list[str] = field(default_factory=list)

    def expect(self, what: str, found: object, expected: object) -> None:
        if found != expected:
            self.problems.append(f"{what}: expected {expected}, found {found}"[:1000])


def tell(
    era: Era, home: Path, command: Command, *, keep: Path | None = None, quick: bool = False
) -> Outcome:
    """`home`: an empty directory. `keep`: where real outputs of the version's tools go. `quick`:
    clean with the version only, and don't wait 30 s for the retention of old brokers.
    """
    outcome = Outcome(era)
    broker = era.broker(home / "filled" / "log-dir", home / "filled" / "home", FILLS)
    with (
        broker,
        LiveClients(broker.bootstrap, segment_key=era.segment_key) as clients,
        _clients_of_its_version(era, broker) as fill,
    ):
        _fill(fill, broker)
        relied_on = clients.ask("before")
        before = read_all(broker)
        _done(fill, "last")
        if era.zookeeper or keep is not None:
            described = broker.kafka_configs("--entity-type", "topics", "--describe")
            (home / "configs").write_text(described)
            if keep is not None:
                _keep(era, broker, described, keep)
        broker.stop()
        for copy in ("own", *([] if quick else ["without"])):
            copy_tree(home / "filled", home / copy)
        results = _cleaned(era, home, outcome, command)
        if not quick:
            _cleaned_without(era, home, outcome, command)
        copy_tree(home / "filled", home / "cleaned")
        broker.start()
        after = read_all(broker)
        complaints = _kinds(broker)
        _go_on(clients.ask("after"), relied_on, outcome)
        next_one = next(r[0] for r in after["c-none-0"].committed if r[0] >= COMMITTED)
        outcome.expect("clients of the version", _done(fill, "again"), f"{COMMITTED} {next_one}")
        broker.stop()
    outcome.expect(
        "a clean stop", (broker.log_dir / ".kafka_cleanshutdown").exists(), expected=True
    )
    retained = () if quick and era.waits_for_retention else RETAINED
    own, own_complaints = _own(era, home, retained)
    outcome.expect("complaints of the broker", complaints - own_complaints, set())
    _compare_with_before(before, after, results, outcome)
    compared = {name: own[name] for name in after if name not in {*RETAINED} - {*retained}}
    _compare_with_own(era, home, compared, after, outcome)
    if not quick:
        _compare_without(era, home, after, outcome)
    return outcome


def _clients_of_its_version(era: Era, broker: Broker) -> Child:
    formats = str(era.old_formats).lower()
    program = ("Fill", broker.bootstrap, era.segment_key, formats)
    return Child(*program, patience=120, version=era.release)


def _fill(fill: Child, broker: Broker) -> None:
    _done(fill, "first")
    checkpoint = broker.log_dir / CHECKPOINT
    _wait("the cleaner", lambda: set(CLEANED_ONCE) <= read_checkpoint(checkpoint).keys())
    _done(fill, "main")


def _done(fill: Child, what: str) -> str:
    answer = fill.answer(what)
    if not answer:
        raise fill.failure(f"the clients died at {what!r}")
    return answer


def _cleaned(era: Era, home: Path, outcome: Outcome, command: Command) -> dict[str, dict[str, Any]]:
    """Clean `filled` with the version. Return the results by partition."""
    words = ["--kafka-version", era.version]
    outcome.rules, told = _clean(era, home, "filled", words, outcome, command)
    results = {f"{p['topic']}-{p['partition']}": p for p in told["partitions"]}
    outcome.partitions = len(results)
    for one in results.values():
        outcome.compacted += "compacted" in one["actions"]
        outcome.records_before += one["records_before"] or 0
        outcome.records_after += one["records_after"] or 0
    return results


def _cleaned_without(era: Era, home: Path, outcome: Outcome, command: Command) -> None:
    """Clean `without` as one who does not know the version, and start a broker on the result."""
    outcome.rules_without, told = _clean(era, home, "without", [], outcome, command)
    compacted = sum("compacted" in p["actions"] for p in told["partitions"])
    outcome.expect("partitions compacted without --kafka-version", compacted, outcome.compacted)


def _clean(
    era: Era, home: Path, name: str, words: list[str], outcome: Outcome, command: Command
) -> tuple[str, dict[str, Any]]:
    log_dir = home / name / "log-dir"
    properties = home / f"{name}.properties"
    settings = era.broker(log_dir, home / "unused", CLEANS).properties
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    arguments = [str(log_dir), "--json", "--server-properties", str(properties), *words]
    if era.zookeeper:
        arguments += ["--topic-configs", str(home / "configs")]
    _, planned = command("plan", *arguments)
    plan = json.loads(planned)
    rules = plan["kafka_version"]
    if not _covers(rules, era):
        outcome.problems.append(f"plan uses the rules of {rules}")
    code, cleaned = command("clean", *arguments)
    outcome.expect(f"exit code of clean {' '.join(words)}", code, 0)
    return f"{rules} ({plan['kafka_version_source']})", json.loads(cleaned)


def _go_on(after: Mapping[str, Any], before: Mapping[str, Any], outcome: Outcome) -> None:
    """The clients that lived on while Winnow cleaned."""
    end = before["ends"]["idem-0"]
    committed = [f"{number}-{n}-c" for number in (1000, 1002) for n in range(3)]
    expected = {
        "ends_before": before["ends"],
        "duplicate": ["NONE", before["last_offset"]],
        "gap": "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "ends_after_duplicate": before["ends"],
        "idempotent_offsets": list(range(end, end + 10)),
        "idempotent_epoch_is_the_same": True,
        "idempotent_sequence": before["last_sequence"] + 10,
        "open_committed": [f"undecided-{n}" for n in range(60)]
        + [f"decided-{n}" for n in range(5)],
        "read_committed": committed,
        "read_uncommitted": committed[:3] + [f"1001-{n}-a" for n in range(3)] + committed[3:],
        "read_committed_position": True,
        "read_uncommitted_position": True,
        "committed": before["committed"],
        "metadata": "commit 150",
        "resumed_at": before["committed"],
        "committed_then": 200,
    }
    for what, value in expected.items():
        outcome.expect(f"live clients: {what}", after[what], value)
    if after["fenced"] not in {"ProducerFencedException", "InvalidProducerEpochException"}:
        outcome.problems.append(f"the old transactional producer was not fenced: {after['fenced']}")


def _own(era: Era, home: Path, retained: Sequence[str]) -> tuple[dict[str, Partition], set[str]]:
    """Let the broker clean its copy until it has done what Winnow did, and read it."""
    ours, log_dir = home / "cleaned" / "log-dir", home / "own" / "log-dir"
    with era.broker(log_dir, home / "own" / "home", CLEANS) as broker:

        def as_ours() -> bool:
            done = read_checkpoint(log_dir / CHECKPOINT)
            wanted = read_checkpoint(ours / CHECKPOINT)
            return wanted == done and all(_first(ours / n) == _first(log_dir / n) for n in retained)

        _wait(None, as_ours)
        return read_all(broker), _kinds(broker)


def _compare_with_before(
    before: Mapping[str, Partition],
    after: Mapping[str, Partition],
    results: Mapping[str, Mapping[str, Any]],
    outcome: Outcome,
) -> None:
    """Every partition has the records that it must have, and no others."""
    outcome.expect("partitions", sorted(after), sorted(before))
    outcome.expect("partitions in the result", sorted(results), sorted(before))
    for name in sorted(before.keys() & after.keys() & results.keys()):
        was, now, result = before[name], after[name], results[name]
        outcome.expect(f"{name}: error", result["error"], None)
        outcome.expect(f"{name}: end", now.end, was.end)
        begin = result["log_start_offset_after"]
        outcome.expect(f"{name}: begin", now.begin, was.begin if begin is None else begin)
        if set(now.all) - set(was.all):
            outcome.problems.append(f"{name}: has records that it did not have")
        lost = _from(was.state, now.begin).items() ^ now.state.items()
        if not was.has_undecided_or_aborted:
            lost |= _from(was.uncommitted_state, now.begin).items() ^ now.uncommitted_state.items()
        if lost:
            outcome.problems.append(f"{name}: {len(lost)} last values differ, {sorted(lost)[:2]}")
        if result["policy"] == "delete":
            kept = [record for record in was.all if record[0] >= now.begin]
            outcome.expect(f"{name}: records", now.all, kept)
    for name in RETAINED:
        if not before[name].begin < after[name].begin < after[name].end:
            outcome.problems.append(f"{name}: retention deleted nothing, or all")


def _compare_with_own(
    era: Era, home: Path, own: Mapping[str, Partition], ours: Mapping[str, Partition], out: Outcome
) -> None:
    """The broker's own cleaner and retention have left the same records; the same bytes where no
    codec was applied and no clock was written.
    """
    for name, one in sorted(own.items()):
        if one == ours[name]:
            out.same_as_broker += 1
        else:
            difference = _first_difference(ours[name], one)
            out.problems.append(f"{name}: not as the broker cleans it: {difference}")
        if not UNCOMPRESSED.match(name):
            continue
        same = _logs(home / "cleaned" / "log-dir" / name) == _logs(home / "own" / "log-dir" / name)
        out.same_bytes += same
        if not same and (era.numbers < (3, 1) or not HAS_TOMBSTONES.match(name)):
            out.problems.append(f"{name}: not the bytes that the broker leaves")


def _compare_without(era: Era, home: Path, ours: Mapping[str, Partition], outcome: Outcome) -> None:
    """What was cleaned without --kafka-version serves this version's broker as well. It may hold
    more records: the choice that keeps more was taken.
    """
    with era.broker(home / "without" / "log-dir", home / "without" / "home", FILLS) as broker:
        found = read_all(broker)
    for name, one in ours.items():
        other = found[name]
        outcome.same_without += other == one
        if (other.begin, other.end, other.state) != (one.begin, one.end, one.state):
            outcome.problems.append(f"{name}: not the same state without --kafka-version")
        if set(one.all) - set(other.all):
            outcome.problems.append(f"{name}: fewer records without --kafka-version")


def _covers(versions: str, era: Era) -> bool:
    """Whether `3.9.2` or `3.4 to 3.9` names the release."""
    oldest, _, newest = versions.partition(" to ")
    first, last = KafkaVersion.parse(oldest).first, KafkaVersion.parse(newest or oldest).last
    return first <= era.numbers <= last


def _first_difference(ours: Partition, own: Partition) -> str:
    if (ours.begin, ours.end) != (own.begin, own.end):
        return f"offsets {ours.begin} to {ours.end}, and {own.begin} to {own.end}"
    mine, theirs = set(ours.all) - set(own.all), set(own.all) - set(ours.all)
    return f"{len(mine)} other records, {sorted(mine)[:1]} for {sorted(theirs)[:1]}"


def _from(state: Mapping[str, Record], begin: int) -> dict[str, Record]:
    return {key: record for key, record in state.items() if record[0] >= begin}


def _logs(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(directory.glob("*.log"))}


def _first(directory: Path) -> str:
    return min(file.name for file in directory.glob("*.log"))


def _kinds(broker: Broker) -> set[str]:
    """What a broker has complained about so far, without times, numbers and paths."""
    return {
        re.sub(r"\d+", "N", re.sub(re.escape(str(broker.log_dir)), "D", line.split(" ", 1)[1]))
        for line in broker.complaints
    }


def _wait(who: str | None, condition: Callable[[], bool]) -> None:
    """Wait for a condition. `who`: raise an error if it never comes."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            if who is None:
                return
            raise BrokerFailedError(f"{who} was not done after {WAIT_SECONDS} s")
        time.sleep(0.1)


def _keep(era: Era, broker: Broker, described: str, keep: Path) -> None:
    """Keep what the tools of this version print, and its meta.properties."""
    keep.mkdir(parents=True, exist_ok=True)
    one = ("--entity-type", "topics", "--entity-name", "cd-both", "--describe", "--all")
    brokers = ("--entity-type", "brokers", "--entity-name", "1", "--describe")
    (keep / f"{era.name}.txt").write_text(
        described + broker.kafka_configs(*one) + broker.kafka_configs(*brokers)
    )
    if isinstance(broker, ZooKeeperBroker) and era.numbers < (3, 0):
        in_zookeeper = broker.configs_in_zookeeper("--entity-type", "topics", "--describe")
        (keep / f"{era.name}-option.txt").write_text(in_zookeeper)
    shutil.copy(broker.log_dir / "meta.properties", keep / f"{era.name}.meta.properties")
