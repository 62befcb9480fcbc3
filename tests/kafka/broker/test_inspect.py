"""`inspect --json` shows of each recorded file what Kafka's own tools print, and finds the same
offsets as a consumer.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.data import LOG_DIRS, copy_log_dir, partition_dirs
from tests.kafka.judge.broker import Broker
from tests.kafka.judge.judge import Kafka
from winnow.cli.main import run
from winnow.logdir.survey import read_offset_checkpoint
from winnow.storage.local import LocalStorage
from winnow.wire.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE

DUMPED = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
JUDGED_APART = {
    # kafka-dump-log does not mind the half entry at the end of this index,
    "x-badindex-0/00000000000000000070.index",
    # and gives up on this time index, which is sound, because of garbage in the log after all that
    # it points to.
    "x-zerotail-0/00000000000000001223.timeindex",
}
SEED = 20_261_121

File = dict[str, Any]


def inspect(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    run(["inspect", "--json", "--quiet", *arguments])
    out, err = capsys.readouterr()
    assert err == ""
    told: dict[str, Any] = json.loads(out)
    return told


def files_of(told: dict[str, Any], suffixes: Sequence[str]) -> dict[Path, File]:
    return {
        Path(file["path"]): file for file in told["files"] if file["path"].endswith(tuple(suffixes))
    }


@pytest.mark.parametrize("log_dir", LOG_DIRS)
def test_every_file_matches_kafka_dump_log(
    log_dir: str, kafka: Kafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = copy_log_dir(log_dir, tmp_path / "log-dir")
    ours = files_of(inspect(capsys, "--records", str(copy)), DUMPED)
    theirs = kafka.dump_log(ours, "--deep-iteration", "--print-data-log")
    assert len(ours) > 100
    for path, (printed, complaints) in theirs.items():
        said, judged = as_kafka_prints(ours[path]), printed
        if path.parent.name.startswith("__") or not _is_text(ours[path]):
            said, judged = list(_shortened(said)), list(_shortened(judged))
        if "CorruptRecordException" in complaints:  # then it gives up, with less said than there is
            said = [line for line in said if not line.startswith("Found ")]
            said = said if path.suffix == ".log" else []
        # Of records of v0 and v1 it has CRCs, too; a wrong one would have been a problem here.
        judged = [re.sub(r" isValid: true crc: \d+", "", line) for line in judged]
        assert said == judged, path
        sound = not re.search("invalid|isvalid: false", "".join(judged)) and not _is_damage(
            complaints
        )
        if f"{path.parent.name}/{path.name}" not in JUDGED_APART:
            assert sound == (ours[path]["problems"] == []), (
                path,
                complaints,
                ours[path]["problems"],
            )


def _is_damage(complaints: str) -> bool:
    """Offsets that do not follow one another are what compaction leaves, and a segment may begin
    with any.
    """
    return complaints != "" and not complaints.startswith("Non-consecutive offsets")


def as_kafka_prints(file: File) -> list[str]:
    """kafka-dump-log's lines for what `inspect` found in a file."""
    if file["kind"] == "log":
        return list(_log(file))
    if file["kind"] == "index" and not file["entries"]:
        return [f"{file['path']} is empty."]
    return [_ENTRIES[file["kind"]](entry) for entry in file["entries"]]


def _log(file: File) -> Iterator[str]:
    name, entries = Path(file["path"]).name, file["entries"]
    yield f"Log starting offset: {int(name[:20])}"
    for batch in entries:
        yield _batch(batch)
        for record in batch["records"]:
            yield _record(batch, record)
    end = entries[-1]["position"] + entries[-1]["size"] if entries else 0
    if end != file["bytes"]:
        yield f"Found {file['bytes'] - end} invalid bytes at the end of {name}"


def _batch(b: File) -> str:
    stamp = f"{b['timestamp_type']}: {b['max_timestamp']} size: {b['size']} magic: {b['magic']} "
    stamp += f"compresscodec: {b['codec']} crc: {b['crc']} isvalid: {str(b['crc_valid']).lower()}"
    if b["magic"] < 2:
        return f"offset: {b['last_offset']} position: {b['position']} {stamp}"
    return (
        f"baseOffset: {b['base_offset']} lastOffset: {b['last_offset']} count: {b['count']} "
        f"baseSequence: {b['base_sequence']} lastSequence: {b['last_sequence']} producerId: "
        f"{b['producer_id']} "
        f"producerEpoch: {b['producer_epoch']} partitionLeaderEpoch: {b['leader_epoch']} "
        f"isTransactional: {str(b['transactional']).lower()} isControl: "
        f"{str(b['control']).lower()} "
        f"deleteHorizonMs: {_optional(b['delete_horizon'])} position: {b['position']} {stamp}"
    )


def _record(b: File, r: File) -> str:
    line = (
        f"| offset: {r['offset']} {b['timestamp_type']}: {r['timestamp']} keySize: "
        f"{_size(r['key'])} "
    )
    line += f"valueSize: {_size(r['value'])}"
    if b["magic"] == 2:
        line += (
            f" sequence: {r['sequence']} headerKeys: [{','.join(name for name, _ in r['headers'])}]"
        )
    if r["control"] in ("ABORT", "COMMIT"):
        return f"{line} endTxnMarker: {r['control']} coordinatorEpoch: {r['coordinator_epoch']}"
    key = "" if r["key"] is None else f" key: {_decoded(r['key'])}"
    return line + key + ("" if r["value"] is None else f" payload: {_decoded(r['value'])}")


def _producer(p: File) -> str:
    line = (
        f"producerId: {p['producer_id']} producerEpoch: {p['epoch']} coordinatorEpoch: "
        f"{p['coordinator_epoch']} "
    )
    txn = None if p["current_txn_first_offset"] < 0 else p["current_txn_first_offset"]
    line += f"currentTxnFirstOffset: {_optional(txn)} lastTimestamp: {p['timestamp']} "
    if p["last_offset"] < 0:
        return line.rstrip()
    return line + (
        f"firstSequence: {p['last_sequence'] - p['offset_delta']} lastSequence: "
        f"{p['last_sequence']} "
        f"lastOffset: {p['last_offset']} offsetDelta: {p['offset_delta']} timestamp: "
        f"{p['timestamp']}"
    )


_ENTRIES: dict[str, Callable[[File], str]] = {
    "index": lambda e: f"offset: {e['offset']} position: {e['position']}",
    "timeindex": lambda e: f"timestamp: {e['timestamp']} offset: {e['offset']}",
    "txnindex": lambda e: (
        f"version: 0 producerId: {e['producer_id']} firstOffset: {e['first_offset']} "
        f"lastOffset: {e['last_offset']} lastStableOffset: {e['last_stable_offset']}"
    ),
    "snapshot": _producer,
}


def _optional(value: int | None) -> str:
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def _raw(value: str | dict[str, str] | None) -> bytes:
    if value is None:
        return b""
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) else value.encode()


def _size(value: str | dict[str, str] | None) -> int:
    return -1 if value is None else len(_raw(value))


def _decoded(value: str | dict[str, str] | None) -> str:
    return _raw(value).decode("utf-8", "replace")


def _is_text(file: File) -> bool:
    records = (
        [r for batch in file["entries"] for r in batch.get("records") or ()]
        if file["kind"] == "log"
        else ()
    )
    return all(_decoded(value).isprintable() for r in records for value in (r["key"], r["value"]))


_ONE_LINE = re.compile(
    "Log starting|baseOffset:|offset:|timestamp:|version:|producerId:|.*index is empty.$"
)


def _shortened(lines: Iterable[str]) -> Iterator[str]:
    """Lines without keys and payloads. These are bytes, and may contain line feeds."""
    for line in lines:
        if _ONE_LINE.match(line):
            yield line
        elif line.startswith("| offset:"):
            yield line.partition(" headerKeys:")[0]


def test_checkpoints_are_read_like_kafka(
    kafka: Kafka, log_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours = files_of(inspect(capsys, str(log_dir)), ["-checkpoint"])
    theirs = kafka.checkpoints(ours)
    assert len(ours) == 39
    assert {path: sorted(lines) for path, lines in theirs.items()} == {
        path: sorted(" ".join(str(value) for value in entry.values()) for entry in file["entries"])
        for path, file in ours.items()
    }


@pytest.mark.parametrize(
    ("topic", "flag"),
    [
        (CONSUMER_OFFSETS, "--offsets-decoder"),
        (TRANSACTION_STATE, "--transaction-log-decoder"),
    ],
)
def test_names_in_internal_topics_are_shown(
    topic: str,
    flag: str,
    kafka: Kafka,
    log_dir: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    directories = sorted(log_dir.glob(f"{topic}-*"))
    ours = files_of(inspect(capsys, "--records", *map(str, directories)), [".log"])
    seen = 0
    for path, (lines, _) in kafka.dump_log(ours, flag).items():
        internal = {
            r["offset"]: r["internal"] for batch in ours[path]["entries"] for r in batch["records"]
        }
        for line in lines:
            found = re.match(r"\| offset: (\d+) .* key: (\{.*?\})(?: payload: (.*))?$", line)
            if found is None:
                continue
            mine, key = internal[int(found[1])], json.loads(found[2])["data"]
            assert mine["key"] == key, line
            seen += 1
            if mine["value"] is not None:
                _check_value(mine["value"], json.loads(found[3])["data"])
            else:
                assert found[3] == "<DELETE>", line
    assert seen > 100


def _check_value(mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    """All that ours names is as Kafka has it; it names more."""
    members = theirs.pop("members", None)
    if members is not None:
        assert mine.pop("members") == len(members)
    if "transactionStatus" in theirs:
        states = [
            "Empty",
            "Ongoing",
            "PrepareCommit",
            "PrepareAbort",
            "CompleteCommit",
            "CompleteAbort",
        ]
        assert mine.pop("state") == states[theirs["transactionStatus"]]
        partitions = [
            f"{t['topic']}-{p}"
            for t in theirs["transactionPartitions"] or ()
            for p in t["partitionIds"]
        ]
        assert mine.pop("partitions") == " ".join(partitions)
        assert mine.pop("lastUpdateTimestamp") == theirs["transactionLastUpdateTimestampMs"]
        assert mine.pop("startTimestamp") == theirs["transactionStartTimestampMs"]
    assert mine == {name: theirs[name] for name in mine}


def test_offsets_and_timestamps_lead_where_a_consumer_lands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    served, ours = (copy_log_dir("clean", tmp_path / name) for name in ("served", "ours"))
    rng = random.Random(SEED)
    ends = {
        f"{key.topic} {key.partition}": end
        for key, end in read_offset_checkpoint(
            LocalStorage(), str(ours / "replication-offset-checkpoint")
        ).items()
        if not key.topic.startswith("__")
    }
    questions: list[str] = []
    for partition, end in sorted(ends.items()):
        stamps = _stamps(ours / partition.replace(" ", "-"))
        offsets = {0, end - 1, end, end + 1, *(rng.randrange(end) for _ in range(5))}
        times = {
            0,
            max(stamps),
            max(stamps) + 1,
            *(rng.choice(stamps) + rng.choice((-1, 0, 1)) for _ in range(7)),
        }
        questions += [f"{partition} offset {offset}" for offset in sorted(offsets)]
        questions += [f"{partition} timestamp {time}" for time in sorted(times)]
    answers = [_answer(ours, question, capsys) for question in questions]
    with Broker(served, home=tmp_path / "home", settings={"log.cleaner.enable": "false"}) as broker:
        assert dict(zip(questions, answers, strict=True)) == dict(
            zip(questions, broker.seek(questions), strict=True)
        )
    assert len(questions) > 400


def _stamps(directory: Path) -> list[int]:
    """Timestamps that records may have: those in the time indexes."""
    data = [index.read_bytes() for index in sorted(directory.glob("*.timeindex"))]
    return [
        int.from_bytes(part[at : at + 8]) for part in data for at in range(0, len(part), 12)
    ] or [0]


def _answer(log_dir: Path, question: str, capsys: pytest.CaptureFixture[str]) -> str:
    topic, partition, what, value = question.split()
    told = inspect(capsys, str(log_dir / f"{topic}-{partition}"), f"--{what}", value)
    [position] = told["positions"]
    assert position["problems"] == []
    record = position["record"]
    if what == "timestamp":
        return "none" if record is None else f"{record['offset']} {record['timestamp']}"
    if any("refuses" in note for note in position["notes"]):
        return "refused"
    following = position["next_record"]
    return "end" if following is None else f"{following['offset']} {following['timestamp']}"


def test_only_damaged_partitions_have_problems(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in LOG_DIRS:
        copy = copy_log_dir(name, tmp_path / name)
        told = inspect(capsys, str(copy))
        damaged = {Path(file["path"]).parent.name for file in told["files"] if file["problems"]}
        torn = {
            "x-badcrc-0",
            "x-badcrc-old-0",
            "x-badindex-0",
            "x-cleaned-0",
            "x-torn-0",
            "x-zerotail-0",
        }
        assert damaged == (torn if name == "damaged" else set())
        assert told["status"] == ("damaged" if name == "damaged" else "sound")
        assert {Path(file["path"]).parent for file in told["files"]} >= set(partition_dirs(copy))
