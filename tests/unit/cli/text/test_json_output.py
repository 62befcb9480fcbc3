from dataclasses import replace

from tests.unit.cli.results import NOW, in_json, left_alone, partition, run_of
from winnow.cleaning.result import Setting
from winnow.cli.text.json_output import failure_to_json, to_json
from winnow.scan.values import Holder

# Repeated here, not imported: users' scripts depend on these names.
PARTITION_KEYS = {
    "topic",
    "partition",
    "log_dir",
    "policy",
    "actions",
    "rule",
    "reason",
    "dirty_ratio",
    "dirty_ratio_after",
    "first_dirty_offset_before",
    "first_dirty_offset_after",
    "log_start_offset_before",
    "log_start_offset_after",
    "segments_before",
    "segments_after",
    "segments_unchanged",
    "segments_unread",
    "bytes_before",
    "bytes_after",
    "records_before",
    "records_after",
    "records_removed",
    "holders",
    "holders_total",
    "kept_bytes",
    "quarantined_bytes",
    "duration_ms",
    "deletes_more",
    "error",
}


def test_run_has_exactly_these_keys() -> None:
    told = in_json(to_json(run_of(partition("orders", 3, records_before=10, records_after=4))))
    assert set(told) == {
        "run_id",
        "status",
        "now",
        "kafka_version",
        "kafka_version_source",
        "ledger",
        "peak_extra_bytes",
        "short_bytes",
        "partitions",
        "exit_code",
        "totals",
        "left_alone",
        "settings",
        "strangers",
        "notes",
        "starts",
    }
    assert (told["run_id"], told["status"], told["now"]) == ("20261121T000000Z-0", "done", NOW)
    (only,) = told["partitions"]
    assert set(only) == PARTITION_KEYS
    assert (only["topic"], only["partition"], only["actions"]) == ("orders", 3, ["compacted"])
    assert (only["records_before"], only["records_after"], only["error"]) == (10, 4, None)
    assert only["first_dirty_offset_after"] is None


def test_partition_of_an_internal_topic_lists_its_holders() -> None:
    holder = Holder(name="g", records_before=7, bytes_before=700, records_after=1, bytes_after=100)
    told = in_json(
        to_json(run_of(partition("__consumer_offsets", holders=(holder,), holders_total=12)))
    )
    (only,) = told["partitions"]
    assert only["holders_total"] == 12
    assert only["holders"] == [
        {
            "name": "g",
            "records_before": 7,
            "bytes_before": 700,
            "records_after": 1,
            "bytes_after": 100,
        }
    ]
    (other,) = in_json(to_json(run_of(partition("orders"))))["partitions"]
    assert (other["holders"], other["holders_total"]) == ([], None)


def test_skipped_partition_makes_the_run_partial() -> None:
    told = in_json(to_json(run_of(partition("a"), left_alone("b", error="CRC is wrong"))))
    assert told["status"] == "partial"
    assert [p["error"] for p in told["partitions"]] == [None, "CRC is wrong"]


def test_failed_run_has_the_same_keys_and_an_error() -> None:
    told = in_json(failure_to_json("held by process 12", now=NOW, exit_code=5))
    assert told.keys() == in_json(to_json(run_of())).keys() | {"error"}
    assert {name: value for name, value in told.items() if value} == {
        "status": "failed",
        "now": NOW,
        "error": "held by process 12",
        "exit_code": 5,
    }


def test_left_alone_partitions_have_codes_and_totals() -> None:
    told = in_json(
        to_json(
            run_of(
                partition("a"),
                replace(left_alone("b"), rule="S9.2"),
                replace(left_alone("c"), rule="S7.5"),
                left_alone("d", error="CRC is wrong"),
                partition("e", error="full", error_code=6),
            )
        )
    )
    codes = {one["topic"]: one["code"] for one in told["left_alone"]}
    assert codes == {"b": "settings-unknown", "c": "tiered", "d": "left-alone", "e": "no-space"}
    assert told["exit_code"] == 3
    assert told["totals"]["partitions"] == 5
    assert told["totals"]["left_alone"] == 4
    before, after = told["totals"]["bytes_before"], told["totals"]["bytes_after"]
    assert told["totals"]["bytes_freed"] == before - after


def test_settings_are_listed_once_for_all_topics_that_have_them() -> None:
    same = (Setting("retention.ms", "5", "--set log.retention.ms=5", is_default=False),)
    run = run_of(partition("a", settings=same), partition("b", settings=same), verb="plan")
    (one,) = in_json(to_json(run))["settings"]
    assert one["topics"] == ["a", "b"]
    assert one["settings"][0]["source"] == "--set log.retention.ms=5"
