from __future__ import annotations

from tests.unit.cli.results import in_json, printed
from winnow.cli.text.verify import MOST, page, to_json
from winnow.verbs.verify.findings import Checked, Finding, Scope
from winnow.verbs.verify.kinds import Kind
from winnow.verbs.verify.verify import SweepResult

CHECKED = Checked(partitions=2, segments=1, bytes=3 << 20, batches=7, records=70)
ORDERS = Scope("/d", "orders-3", "orders", 3)
CRC = ORDERS.finding(
    Kind.CRC,
    "00000000000000000012.log",
    "expected a, found b",
    position=81_920,
    offsets=(1290, 1301),
)
TORN = ORDERS.finding(
    Kind.TORN_TAIL, "00000000000000000012.log", "7 bytes", position=99, offsets=(1302, None)
)


def result(*findings: Finding) -> SweepResult:
    return SweepResult(checked=CHECKED, findings=findings)


def shown(*findings: Finding) -> list[str]:
    return printed(page(result(*findings), 100)).splitlines()


def test_result_without_findings_lists_the_checks() -> None:
    assert shown() == [
        "Nothing is wrong.",
        "Checked: 2 partitions, 1 segment, 3.0 MiB, 7 batches, 70 records",
    ]
    assert (result().status, result().exit_code) == ("sound", 0)


def test_findings_show_place_message_and_meaning() -> None:
    lines = shown(CRC, TORN)
    assert lines[:6] == [
        "2 findings in 1 partition, 1 of them repaired by a broker when it starts",
        "kind       file                                byte    offsets",
        "crc        orders-3/00000000000000000012.log  81920  1290-1301",
        "      expected a, found b",
        "torn-tail  orders-3/00000000000000000012.log     99      1302-",
        "      7 bytes",
    ]
    assert " ".join(" ".join(lines[9:13]).split()).startswith(CRC.meaning[:60])
    assert (result(CRC, TORN).status, result(TORN).status) == ("damaged", "recoverable")
    assert result(TORN).exit_code == 4


def test_surplus_findings_of_a_kind_are_counted() -> None:
    lines = shown(*[CRC] * (MOST + 5))
    assert sum("81920" in line for line in lines) == MOST
    assert any("... and 5 more of kind crc" in line for line in lines)


def test_many_findings_of_many_partitions_fit_a_screen() -> None:
    name = "payments-service-eu-central-1-KSTREAM-AGGREGATE-STATE-STORE-0000000012-changelog"
    many = [
        Scope("/d", f"{name}-{number}", name, number).finding(Kind.CRC, "", "wrong")
        for number in range(2_000)
    ]
    lines = printed(page(result(*many), 80), width=80).splitlines()
    assert len(lines) < 150
    assert "... and 1,960 more of kind crc: --json has all" in lines
    assert [line for line in lines if len(line) > 80 and name not in line] == []


def test_findings_have_no_control_characters() -> None:
    wrong = Scope("/d").finding(Kind.NAME, "\x1b]0;title\x07", "found \x1b[2J")
    assert "\x1b" not in "".join(shown(wrong, wrong))


def test_json_has_exactly_these_keys() -> None:
    told = in_json(to_json(result(CRC)))
    assert told["checked"] == {
        "partitions": 2,
        "segments": 1,
        "bytes": 3 << 20,
        "batches": 7,
        "records": 70,
    }
    assert (told["status"], told["notes"]) == ("damaged", [])
    assert told["findings"] == [
        {
            "log_dir": "/d",
            "topic": "orders",
            "partition": 3,
            "file": "orders-3/00000000000000000012.log",
            "position": 81_920,
            "first_offset": 1290,
            "last_offset": 1301,
            "kind": "crc",
            "message": "expected a, found b",
            "damage": True,
            "copies": "unknown",
            "meaning": CRC.meaning,
        }
    ]


def test_files_are_named_with_their_log_directory_if_several_were_checked() -> None:
    """A broker's replica next to it may be the good one."""
    one = SweepResult(checked=CHECKED, findings=(CRC,), log_dirs=2)
    assert "/d/orders-3/00000000000000000012.log" in printed(page(one, 100))
