"""The output of `history`."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest

from tests.unit.cli.results import NOW, in_json, printed
from winnow.cli.history import (
    MOST_PARTITIONS,
    MOST_RUNS,
    page,
    to_json,
)
from winnow.cli.inputs import ledger_of
from winnow.cli.main import run
from winnow.cli.options import CommandLine
from winnow.errors import UsageError
from winnow.ledger.history import History, PastErasure, PastPartition, PastRun

HOUR = 3_600_000


def past_run(run_id: str, **changes: object) -> PastRun:
    values: dict[str, object] = {
        "run_id": run_id,
        "user": "u",
        "host": "h",
        "started": NOW - 4000,
        "ended": NOW,
        "status": "done",
        "partitions": 3,
        "cleaned": 2,
        "left_alone": 0,
        "freed_bytes": 3 << 20,
        "kept_bytes": 0,
    }
    return PastRun(**{**values, **changes})  # type: ignore[arg-type]


def past_partition(topic: str, **changes: object) -> PastPartition:
    values: dict[str, object] = {
        "topic": topic,
        "partition": 0,
        "host": "h",
        "log_dir": "/kafka",
        "runs": 2,
        "freed_bytes": 1 << 20,
        "last_cleaned": NOW,
        "last_run": NOW,
        "left_alone": None,
        "due": None,
    }
    return PastPartition(**{**values, **changes})  # type: ignore[arg-type]


def past_erasure(run_id: str, *, proven: bool = True) -> PastErasure:
    return PastErasure(
        run_id=run_id,
        user="u",
        host="h",
        started=NOW - 4000,
        ended=NOW,
        status="partial",
        proven=proven,
        keys=3,
        keys_found=2,
        partitions=1,
        records_erased=40,
        records_left=5,
        freed_bytes=1 << 10,
    )


def shown(history: History, *, now: int = NOW + HOUR) -> list[str]:
    return printed(page(history, 200, now), width=200).splitlines()


def test_text_has_tables_of_runs_and_partitions() -> None:
    history = History(
        ledger="/ledger",
        runs=(past_run("r2", kept_bytes=1 << 20), past_run("r1", left_alone=1, freed_bytes=0)),
        partitions=(
            past_partition("a"),
            past_partition("b", due=NOW + 3 * HOUR, left_alone="its CRC is wrong\x1b[2J"),
            past_partition("c", due=NOW - HOUR, last_cleaned=None),
        ),
    )
    assert shown(history) == [
        "2 runs over 3 partitions: 3.0 MiB freed (/ledger)",
        "",
        "run                     freed  cleaned  left alone  took                 ended  who",
        "r2   3.0 MiB (+ 1.0 MiB kept)   2 of 3           0   4 s  2026-11-21T22:26:40Z  u@h",
        "r1                        0 B   2 of 3           1   4 s  2026-11-21T22:26:40Z  u@h",
        "",
        "Partitions in h:/kafka",
        "partition  due by max lag  last cleaned    freed  runs  last looked at",
        "c-0           overdue 2 h         never  1.0 MiB     2         1 h ago",
        "b-0                in 2 h       1 h ago  1.0 MiB     2         1 h ago",
        "a-0                             1 h ago  1.0 MiB     2         1 h ago",
        "",
        "Left alone by the last run: 1 partition",
        "  b-0: its CRC is wrong\\x1b[2J",
    ]


def test_erasures_have_their_own_table() -> None:
    told = shown(History("/ledger", (), (), (past_erasure("r"), past_erasure("s", proven=False))))
    assert told == [
        "0 runs over 0 partitions: 0 B freed, 2 erasures (/ledger)",
        "",
        "erasure  proven  records erased  left  keys found    freed                 ended  who",
        "r           yes              40     5      2 of 3  1.0 KiB  2026-11-21T22:26:40Z  u@h",
        "s            NO              40     5      2 of 3  1.0 KiB  2026-11-21T22:26:40Z  u@h",
    ]


def test_ledger_without_matching_runs_shows_zero_runs() -> None:
    assert shown(History("/ledger", (), ()))[0] == "0 runs over 0 partitions: 0 B freed (/ledger)"


def test_long_tables_are_cut_with_a_count_of_the_rest() -> None:
    history = History(
        ledger="/ledger",
        runs=tuple(past_run(f"r{number}") for number in range(MOST_RUNS + 1)),
        partitions=tuple(past_partition(f"t{number}") for number in range(MOST_PARTITIONS + 2)),
    )
    lines = shown(history)
    assert "and 1 more run; --json has all" in lines
    assert lines[-1] == "and 2 more partitions; --json has all"


def test_tables_of_a_history_fit_80_columns() -> None:
    name = "payments-service-eu-central-1-KSTREAM-AGGREGATE-STATE-STORE-0000000012-changelog"
    many = tuple(
        replace(
            past_partition(f"{name}-{number}", due=NOW - 90 * HOUR, left_alone=f"{number} is open"),
            log_dir=f"/srv/kafka/brokers/eu-central-1/disk-{number % 4}/log-dir",
        )
        for number in range(200)
    )
    one = replace(past_run("20261124T091536Z-810e6a79"), host="broker-07.kafka.example.org")
    history = History("/ledger", (one,), many, (past_erasure("20261124T091536Z-810e6a79"),))
    told = printed(page(history, 80, NOW), width=80)
    lines = told.splitlines()
    assert [line for line in lines if len(line) > 80 and name not in line] == []
    assert len(lines) < 60
    assert "overdue" in told
    assert "(and 199 more like this; --json shows each)" in " ".join(told.split())


def test_json_keys_match_the_fields() -> None:
    told = in_json(to_json(History("/ledger", (past_run("r"),), (past_partition("a"),))))
    assert set(told) == {"ledger", "freed_bytes", "runs", "partitions", "erasures"}
    assert set(told["runs"][0]) == {one.name for one in fields(PastRun)}
    assert set(told["partitions"][0]) == {one.name for one in fields(PastPartition)}
    assert told["freed_bytes"] == 3 << 20


def test_clean_records_in_the_ledger_that_the_options_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINNOW_LEDGER", "/l")
    log_dir = str(tmp_path)
    assert ledger_of(CommandLine(log_dirs=[log_dir])) == "/l"
    assert ledger_of(CommandLine(log_dirs=[log_dir], ledger="/other")) == "/other"
    assert ledger_of(CommandLine(log_dirs=[log_dir], no_ledger=True)) is None
    with pytest.raises(UsageError, match="--ledger and --no-ledger"):
        ledger_of(CommandLine(log_dirs=[log_dir], ledger="/l", no_ledger=True))
    with pytest.raises(UsageError, match="inside a log directory"):
        ledger_of(CommandLine(log_dirs=[log_dir], ledger=f"{log_dir}/ledger"))


def test_malformed_since_is_found_before_spark_starts(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["history", "--ledger", "/l", "--quiet", "--since", "yesterday"]) == 2
    assert "--since can't be understood" in capsys.readouterr().err
