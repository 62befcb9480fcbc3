#!/usr/bin/env python3
"""Clean a cluster, one broker after the other, with the downtime of a restart for each.

    rolling.py rolling.toml [--dry-run] [--allow-unavailable]

On all brokers: `prepare`, while they serve. Then for each broker: check that all partitions are in
sync, stop it, `commit`, start it, wait until all partitions are in sync again. The first step that
fails ends the run, with the broker started again; the same command continues the run. Exit codes: 0
done, 1 ended early, 2 the command or its file is invalid.

Each step is a function that you may replace. Needs Python 3.11 and requirements.txt.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

COMMANDS = ("prepare", "stop", "commit", "start")
DONE = (0, 3)
"""Exit codes of Winnow: done; done, but some partitions were left alone."""
LOOKS = 3
"""How often in a row all partitions must be in sync, a second apart: metadata may be old."""
STOPPED, STARTED, CLEANED = "stopped", "started", "done"
"""States of a broker in the state file."""
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Surprise(Exception):  # noqa: N818 - it is what ends a run, not an error of this program
    """What ends the run."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The file of the command line."""

    bootstrap: str
    brokers: Mapping[int, str]
    """Id -> name, in the order in which they are cleaned."""
    commands: Mapping[str, str]
    state: Path
    limit: float
    prepare_limit: float
    prepare_at_once: int
    client: Mapping[str, str]

    def command(self, step: str, broker: int) -> str:
        words = self.commands[step].replace("{name}", self.brokers[broker])
        return words.replace("{id}", str(broker))


def read_plan(file: Path) -> Plan:
    """Raises ValueError, KeyError, TypeError or OSError for a file that can't be used."""
    given = tomllib.loads(file.read_text(encoding="utf-8"))
    commands = given["commands"]
    if missing := [step for step in COMMANDS if not commands.get(step)]:
        raise ValueError(f"[commands] lacks {', '.join(missing)}")
    return Plan(
        bootstrap=given["bootstrap"],
        brokers={int(broker["id"]): str(broker["name"]) for broker in given["brokers"]},
        commands=commands,
        state=Path(given["state"]),
        limit=float(given["limit"]),
        prepare_limit=float(given["prepare_limit"]),
        prepare_at_once=int(given["prepare_at_once"]),
        client={key: str(value) for key, value in given.get("client", {}).items()},
    )


# --- What the cluster says ------------------------------------------------------------------------


def connect(plan: Plan) -> AdminClient:
    return AdminClient({"bootstrap.servers": plan.bootstrap, "log_level": 0, **plan.client})


def in_sync_minimums(admin: AdminClient, topics: list[str]) -> dict[str, int]:
    """Return `min.insync.replicas` of each topic."""
    asked = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name) for name in topics])
    return {
        resource.name: int(answer.result(timeout=30)["min.insync.replicas"].value)
        for resource, answer in asked.items()
    }


def not_in_sync(admin: AdminClient, plan: Plan, stopping: int | None = None) -> list[str]:
    """Return what is wrong with the cluster. `stopping`: also what a stop of this broker breaks."""
    seen = admin.list_topics(timeout=30)
    problems = [
        f"broker {plan.brokers[broker]} is not in the cluster"
        for broker in plan.brokers
        if broker not in seen.brokers
    ]
    minimums = in_sync_minimums(admin, list(seen.topics)) if seen.topics else {}
    for topic in seen.topics.values():
        least = minimums[topic.topic]
        for partition in topic.partitions.values():
            name, in_sync = f"{topic.topic}-{partition.id}", set(partition.isrs)
            if partition.leader < 0:
                problems.append(f"{name} has no leader")
            elif len(in_sync) < least:
                problems.append(f"{name} is below its in-sync minimum: {len(in_sync)} of {least}")
            elif out := set(partition.replicas) - in_sync:
                problems.append(f"{name} is under-replicated: not in sync on {sorted(out)}")
            elif stopping in in_sync and len(in_sync) <= least:
                problems.append(
                    f"{name} would be below its in-sync minimum without broker {stopping}: "
                    f"{len(in_sync) - 1} of {least}"
                )
    return problems


def wait_until_in_sync(admin: AdminClient, plan: Plan, seconds: float) -> None:
    latest, good = time.monotonic() + seconds, 0
    while True:
        try:
            problems = not_in_sync(admin, plan)
        except KafkaException as error:
            problems = [f"the cluster does not answer: {error}"]
        good = 0 if problems else good + 1
        if good == LOOKS:
            return
        if problems and time.monotonic() > latest:
            raise Surprise(f"not in sync after {seconds:.0f} s: {in_short(problems)}")
        time.sleep(1)


def in_short(problems: list[str]) -> str:
    more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
    return "; ".join(problems[:5]) + more


# --- Steps ----------------------------------------------------------------------------------------


def say(words: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {words}\n")
    sys.stdout.flush()


def run(
    plan: Plan, step: str, broker: int, seconds: float, ending: threading.Event | None = None
) -> int:
    """Run a command of the file. Return its exit code. It is ended after this time, by an exception
    such as that of Ctrl-C, and when `ending` is set.
    """
    name, began = plan.brokers[broker], time.monotonic()
    say(f"{name}: {step}")
    # A process group of its own: Ctrl-C is for this program, which ends the steps in order.
    process = subprocess.Popen(
        plan.command(step, broker), shell=True, process_group=0, stdin=subprocess.DEVNULL
    )
    try:
        while process.poll() is None:
            if ending is not None and ending.is_set():
                raise Surprise(f"{name}: {step} was ended")
            if time.monotonic() - began > max(seconds, 1):
                raise Surprise(f"{name}: {step} did not end within {seconds:.0f} s")
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.5)
    finally:
        if process.poll() is None:
            end(process)
    say(f"{name}: {step} took {time.monotonic() - began:.1f} s")
    return process.returncode


def end(process: subprocess.Popen[bytes]) -> None:
    """Winnow ends cleanly at SIGTERM: it finishes the partition whose commit has begun."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def prepare(plan: Plan, broker: int, ending: threading.Event) -> None:
    """`ending` is set by the first failure, and ends the others."""
    if ending.is_set():
        return
    try:
        code = run(plan, "prepare", broker, plan.prepare_limit, ending)
        check(plan, "prepare", broker, code, DONE)
    except BaseException:
        ending.set()
        raise


def prepare_all(plan: Plan, brokers: list[int]) -> None:
    """Run `prepare` on these brokers. The first failure or a signal ends all of them."""
    ending = threading.Event()
    with ThreadPoolExecutor(plan.prepare_at_once) as pool:
        try:
            for done in as_completed(pool.submit(prepare, plan, b, ending) for b in brokers):
                done.result()
        finally:
            ending.set()


def check(plan: Plan, step: str, broker: int, code: int, expected: tuple[int, ...]) -> None:
    if code not in expected:
        raise Surprise(f"{plan.brokers[broker]}: {step} ended with exit code {code}")


def clean(admin: AdminClient, plan: Plan, broker: int, *, allow_unavailable: bool) -> None:
    """Stop a broker, commit, start it, and wait until all partitions are in sync."""
    if problems := not_in_sync(admin, plan, None if allow_unavailable else broker):
        raise Surprise(f"{plan.brokers[broker]} is not stopped: {in_short(problems)}")
    latest = time.monotonic() + plan.limit
    remember(plan, broker, STOPPED)
    state = STARTED
    try:
        code = run(plan, "stop", broker, latest - time.monotonic())
        check(plan, "stop", broker, code, (0,))
        code = run(plan, "commit", broker, latest - time.monotonic())
        check(plan, "commit", broker, code, DONE)
        state = CLEANED
    finally:  # also after a failure, a signal or the end of the time
        start(plan, broker)
        remember(plan, broker, state)
    wait_until_in_sync(admin, plan, max(latest - time.monotonic(), 0))


def start(plan: Plan, broker: int) -> None:
    """Start a broker, whatever signals arrive meanwhile. It has the time limit for itself."""
    name = plan.brokers[broker]
    before = {
        number: signal.signal(number, lambda *_: say(f"{name} is being started; wait"))
        for number in STOP_SIGNALS
    }
    try:
        check(plan, "start", broker, run(plan, "start", broker, plan.limit), (0,))
    except BaseException:
        say(f"{name} MAY BE STOPPED: start it")
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# --- The run --------------------------------------------------------------------------------------


def states(plan: Plan) -> dict[int, str]:
    """Return what earlier runs have written down, by broker."""
    if not plan.state.exists():
        return {}
    return {int(b): state for b, state in json.loads(plan.state.read_text("utf-8")).items()}


def remember(plan: Plan, broker: int, state: str) -> None:
    new = plan.state.with_name(f"{plan.state.name}.new")
    with new.open("w", encoding="utf-8") as file:
        json.dump(states(plan) | {broker: state}, file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(plan.state)


def roll(plan: Plan, *, allow_unavailable: bool) -> None:
    admin, before = connect(plan), states(plan)
    for broker in (b for b, state in before.items() if state == STOPPED):
        say(f"{plan.brokers[broker]} was stopped by a run that was killed")
        start(plan, broker)
        wait_until_in_sync(admin, plan, plan.limit)
        remember(plan, broker, STARTED)
    left = [broker for broker in plan.brokers if before.get(broker) != CLEANED]
    if problems := not_in_sync(admin, plan):
        raise Surprise(f"nothing was begun: {in_short(problems)}")
    prepare_all(plan, left)
    for number, broker in enumerate(left, len(plan.brokers) - len(left) + 1):
        say(f"{plan.brokers[broker]}: broker {number} of {len(plan.brokers)}")
        clean(admin, plan, broker, allow_unavailable=allow_unavailable)
    plan.state.unlink(missing_ok=True)
    say(f"all {len(plan.brokers)} brokers are cleaned")


def tell(plan: Plan, *, allow_unavailable: bool) -> None:
    """Print what `roll` would do, and what would end it now."""
    admin, before = connect(plan), states(plan)
    left = [broker for broker in plan.brokers if before.get(broker) != CLEANED]
    for broker in left:
        print(plan.command("prepare", broker))
    for broker in left:
        problems = not_in_sync(admin, plan, None if allow_unavailable else broker)
        print(f"# {plan.brokers[broker]}: {in_short(problems) or 'all partitions are in sync'}")
        for step in COMMANDS[1:]:
            print(plan.command(step, broker))
    print(f"# {len(plan.brokers) - len(left)} of {len(plan.brokers)} brokers were cleaned before")


@contextmanager
def alone(file: Path) -> Iterator[None]:
    """Keep another run with the same file out."""
    with file.open("rb") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Surprise(f"another run uses {file}") from None
        yield


def interrupted(number: int, _frame: FrameType | None) -> None:
    raise Surprise(f"stopped by {signal.Signals(number).name}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path, help="such as rolling.toml")
    parser.add_argument("--dry-run", action="store_true", help="print the commands and the checks")
    parser.add_argument(
        "--allow-unavailable",
        action="store_true",
        help="continue if a stop takes partitions below their in-sync minimum, such as those with "
        "one replica",
    )
    given = parser.parse_args()
    try:
        plan = read_plan(given.file)
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"{given.file}: {error!r}", file=sys.stderr)
        return 2
    for number in STOP_SIGNALS:
        signal.signal(number, interrupted)
    try:
        with alone(given.file):
            act = tell if given.dry_run else roll
            act(plan, allow_unavailable=given.allow_unavailable)
    except (Surprise, KafkaException) as error:
        say(f"ended: {error}. The same command continues the run.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
