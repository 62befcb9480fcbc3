"""The verb `explain`: its arguments, its text and its JSON."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.cli.results import in_json, printed
from winnow.cleaning.result import Setting
from winnow.cli.explain import ExplainOptions, key_bytes, page, to_json
from winnow.cli.main import run
from winnow.errors import UsageError
from winnow.policy.fate import Decision, Fact, Verdict
from winnow.verbs.explain.values import Explanation, RecordFate, SegmentDecision

AT = 1_790_000_000_001
RECORD = RecordFate(
    offset=17,
    verdict=Verdict.GOES,
    rule="S5.5",
    words="offset 23 is the last record of its key in the dirty range",
    key=b"k\xff",
    segment=10,
    position=61,
    facts=(Fact("timestamp", AT, time=True), Fact("superseded_by", 23)),
)
FOUND = Explanation(
    topic="orders",
    partition=3,
    log_dir="/logs",
    policy="compact",
    now=AT,
    actions=("compacted",),
    rule="S3.4",
    reason="dirty ratio 1 is above 0.5",
    error=None,
    left_alone=False,
    exit_code=0,
    facts=(Fact("dirty_ratio", 1.0), Fact("cleaner_checkpoint", None)),
    settings=(
        Setting("cleanup.policy", "compact", "--topic-configs line 1", is_default=False),
        Setting("delete.retention.ms", "86400000", "Kafka's default", is_default=True),
        Setting("retention.ms", "604800000", "Kafka's default", is_default=True),
        Setting("segment.bytes", "1073741824", "Kafka's default", is_default=True),
    ),
    segments=(
        SegmentDecision(
            base_offset=10,
            log_bytes=2048,
            newest=AT,
            fate=Decision(Verdict.GOES, "S7.3", "too old"),
        ),
    ),
)
WHOLE = ExplainOptions(partition="orders-3")


def test_key_is_given_as_text_or_hexadecimal() -> None:
    assert key_bytes(WHOLE) is None
    assert key_bytes(replace(WHOLE, key="Zürich")) == "Zürich".encode()
    assert key_bytes(replace(WHOLE, key="")) == b""
    assert key_bytes(replace(WHOLE, key_hex="00fF")) == b"\x00\xff"


@pytest.mark.parametrize(
    "asked",
    [
        replace(WHOLE, key="a", offset=1),
        replace(WHOLE, key="a", key_hex="61"),
        replace(WHOLE, key_hex="6"),
        replace(WHOLE, key_hex="no"),
    ],
)
def test_malformed_key_is_refused(asked: ExplainOptions) -> None:
    with pytest.raises(UsageError):
        key_bytes(asked)


def test_partition_is_shown_with_rule_segments_and_settings() -> None:
    text = printed(page(FOUND, WHOLE))
    assert "compacted (S3.4): dirty ratio 1 is above 0.5" in text
    assert "10  2.0 KiB, newest 2026-09-21T14:13:20.001Z: deleted: too old (S7.3)" in text
    assert "cleanup.policy=compact  --topic-configs line 1" in text
    assert "delete.retention.ms=86400000  Kafka's default" in text
    assert "segment.bytes" not in text
    assert "retention.ms=604800000" not in text
    both = printed(page(replace(FOUND, policy="compact,delete"), WHOLE))
    assert "retention.ms=604800000  Kafka's default" in both


def test_record_is_shown_first() -> None:
    told = printed(page(replace(FOUND, records=(RECORD,)), replace(WHOLE, offset=17))).splitlines()
    assert (
        told[0]
        == "offset 17 is removed (S5.5): offset 23 is the last record of its key in the dirty range"
    )
    assert any(line.split() == ["superseded", "by", "23"] for line in told)
    assert any("2026-09-21T14:13:20.001Z" in line for line in told)


def test_key_without_records_is_reported() -> None:
    told = printed(page(FOUND, replace(WHOLE, key="k"))).splitlines()
    assert told[0] == "no record in the log has this key"
    assert "no record" not in printed(page(FOUND, WHOLE))


def test_older_records_of_the_key_are_counted() -> None:
    told = printed(page(replace(FOUND, records=(RECORD,), older=5), replace(WHOLE, key="k")))
    assert "and 5 older records of the key" in told


def test_json_has_all_facts_and_times_in_ms_and_iso() -> None:
    told = in_json(to_json(replace(FOUND, records=(RECORD,), older=2)))
    assert (told["topic"], told["partition"], told["rule"], told["older_records"]) == (
        "orders",
        3,
        "S3.4",
        2,
    )
    assert told["facts"] == {"dirty_ratio": 1.0, "cleaner_checkpoint": None}
    (record,) = told["records"]
    assert (record["offset"], record["verdict"], record["rule"], record["key_hex"]) == (
        17,
        "goes",
        "S5.5",
        "6bff",
    )
    assert record["facts"] == {
        "timestamp": AT,
        "timestamp_iso": "2026-09-21T14:13:20.001Z",
        "superseded_by": 23,
    }
    (segment,) = told["segments"]
    assert (segment["base_offset"], segment["verdict"], segment["rule"]) == (10, "goes", "S7.3")
    assert told["settings"][0] == {
        "key": "cleanup.policy",
        "value": "compact",
        "source": "--topic-configs line 1",
        "is_default": False,
    }


def test_usage_errors_are_found_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", str(tmp_path), "--partition", "t-0", "--key", "a", "--offset", "1"]) == 2
    assert "--offset and --key" in capsys.readouterr().err
    assert run(["explain", str(tmp_path)]) == 2
    assert run(["explain", str(tmp_path / "none"), "--partition", "t-0"]) == 2
