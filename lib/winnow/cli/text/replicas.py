"""Format the replicas of an erasure on all brokers of the cluster: their partitions, the order in
which the brokers are erased, and the commands that verify the result.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from winnow.cli.options import CommandLine
from winnow.cli.out import Line, Paragraph, Styled, aligned, fields_of, item, section
from winnow.cli.text.next_command import command, typed
from winnow.verbs.erase.replicas import Replicas, ReplicatedPartition
from winnow.verbs.erase.values import EraseResult
from winnow.words import counted, first_few, instant, listed, printable

MOST = 20
"""Partitions and brokers that are shown. --json has all."""
_FEW = 5


def to_json(result: EraseResult, request: CommandLine) -> dict[str, Any]:
    replicas = result.replicas
    return {
        **fields_of(replicas),
        "order": [*replicas.per_broker],
        "verify": [
            {"node_id": node, "command": words} for node, words in _verify_commands(result, request)
        ],
    }


def replicas_section(result: EraseResult, request: CommandLine) -> Iterator[Line]:
    """Yield the lines: the whole plan for a dry run, and what remains to be done otherwise."""
    replicas = result.replicas
    yield from section("Replicas on other brokers", _replicas(replicas, planned=result.dry_run))
    if replicas.other_brokers:
        yield from section("The order of work", _steps(result, request))


def _replicas(replicas: Replicas, *, planned: bool) -> Iterator[Line]:
    if replicas.problem is not None:
        yield item(f"unknown: {printable(replicas.problem)}")
        return
    if replicas.metadata_log is None:
        return
    others = replicas.other_brokers
    where = f"on {_brokers(others)}" if others else "none"
    at = "" if replicas.written_at < 0 else f", {instant(replicas.written_at)}"
    yield item(f"{where}, by {replicas.metadata_log}{at}")
    if replicas.missing:
        missing = first_few([partition.name for partition in replicas.missing], _FEW)
        yield item(
            f"NOT GIVEN: this broker has {counted(len(replicas.missing), 'partition')} in log "
            f"directories that are not here: {missing}. Give all of its log.dirs",
            "bold yellow",
        )
    if replicas.reassigned:
        yield item(_reassigned(replicas, planned=planned), "bold red")
    if planned and others:
        yield from _table(replicas)


def _reassigned(replicas: Replicas, *, planned: bool) -> str:
    moves = [*map(_move, replicas.reassigned)]
    begins = "DO NOT BEGIN" if planned else "ERASE AGAIN LATER"
    are = "is" if len(moves) == 1 else "are"
    return (
        f"{begins}: {counted(len(moves), 'partition')} {are} being reassigned: "
        f"{first_few(moves, _FEW)}. A new replica brings erased records back. First wait until "
        "kafka-reassign-partitions.sh --list shows no reassignment, or cancel it"
    )


def _move(partition: ReplicatedPartition) -> str:
    words, move = [partition.name], partition.reassignment
    if move is not None and move.adding:
        words.append(f"to {listed(move.adding)}")
    if move is not None and move.removing:
        words.append(f"from {listed(move.removing)}")
    return " ".join(words)


def _table(replicas: Replicas) -> Iterator[Line]:
    by_records = sorted(replicas.partitions, key=lambda partition: -(partition.records or 0))
    rows = [
        {
            "partition": printable(partition.name),
            "records here": "-" if partition.records is None else str(partition.records),
            "brokers": ", ".join(str(r.node_id) for r in partition.replicas) or "unknown",
            "log directory here": printable(_here(partition) or "-"),
        }
        for partition in by_records[:MOST]
    ]
    yield ""
    yield from aligned(rows, "partition", "brokers", "log directory here")
    if len(by_records) > MOST:
        yield f"and {counted(len(by_records) - MOST, 'partition')} more; --json has all"


def _here(partition: ReplicatedPartition) -> str | None:
    paths = (replica.log_dir for replica in partition.replicas)
    return next((path for path in paths if path is not None), None)


def _steps(result: EraseResult, request: CommandLine) -> Iterator[Line]:
    replicas = result.replicas
    others, last = replicas.other_brokers, replicas.other_brokers[-1]
    here = "" if replicas.node_id is None else f"broker {replicas.node_id}, "
    yield _step(
        1,
        "Until the last step is done: no reassignment, no new replica, no replaced disk. A replica "
        "that is copied from a broker that was not erased yet brings the records back.",
    )
    done = "First erase" if result.dry_run else "Erased"
    yield _step(2, f"{done}: {here}in these log directories. Then start the broker.")
    turns = ", one after the other" if len(others) > 1 else ""
    turns += "" if result.dry_run else ", where that is not done yet"
    yield _step(
        3,
        f"Erase on {_brokers(others)}{turns}: wait until all replicas are in sync, stop the "
        "broker, erase in all of its log directories, start it.",
    )
    yield _step(
        4,
        f"After the last, broker {last}: list the replicas again (kafka-topics.sh --describe). "
        "Erase also on a broker that has one now and is not in this list.",
    )
    yield _step(5, "Last, search every replica; each command must end with exit code 0:")
    commands = list(_verify_commands(result, request))
    yield from (f"     broker {node}: {words}" for node, words in commands[:MOST])
    if len(commands) > MOST:
        yield f"     and {counted(len(commands) - MOST, 'broker')} more; --json has all"
    yield Paragraph(
        "LOG_DIR stands for all log directories of that broker. CERTIFICATE stands for that of "
        "any of these erasures, with its hash key beside it.",
        indent=5,
    )


def _step(number: int, words: str) -> Styled:
    return Paragraph(f"{number}. {words}", indent=2, hang=3)


def _brokers(nodes: tuple[int, ...]) -> str:
    if len(nodes) > MOST:
        return f"brokers {first_few([*map(str, nodes)], MOST)}"
    return f"broker{'s' if len(nodes) > 1 else ''} {listed(nodes)}"


def _verify_commands(result: EraseResult, request: CommandLine) -> Iterator[tuple[int, str]]:
    """Yield node id and command. The paths of other brokers are not known here: LOG_DIR stands for
    all of them. CERTIFICATE stands for that of any of the erasures.
    """
    topics = [word for glob in request.topics or ("*",) for word in ("--topics", glob)]
    certificate = result.certificate or "CERTIFICATE"
    for node in result.replicas.per_broker:
        here = node == result.replicas.node_id
        paths = [os.path.abspath(path) for path in request.log_dirs] if here else ["LOG_DIR"]
        search = ("verify", "--key-hash", certificate, *topics)
        yield node, typed(command(search, request, paths))
