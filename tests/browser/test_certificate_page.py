"""The certificate of an erasure in a real browser: it fits the screen, fetches nothing, and its
facts are read on the screen, in the dark and on paper.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.browser.chromium import HOW, find_chromium, pages_on_paper, show
from winnow.logdir.meta import MetaProperties
from winnow.logdir.survey import Checkpoints, LogDir
from winnow.report.certificate import NOT_SHOWN, Circumstances, write_certificate
from winnow.state import Reassignment
from winnow.verbs.erase.key_hashes import hash_keys
from winnow.verbs.erase.replicas import AssignedReplica, Replicas, ReplicatedPartition
from winnow.verbs.erase.values import (
    Amount,
    EraseResult,
    PartitionErasure,
    PartitionMatches,
    PatternMatches,
    PatternSearch,
    Proof,
    RewrittenFile,
)

pytestmark = pytest.mark.skipif(find_chromium() is None, reason=HOW)

PHONE, TERMINAL, DESK = 390, 640, 1200
"""TERMINAL: 80 characters of 8 pixels."""
LONG = "customers.europe.central.orders-and-returns.by-customer-and-delivery.v2"
HASHES = hash_keys([b"k%d" % n for n in range(3)], b"secret")


def partition(topic: str, **more: object) -> PartitionErasure:
    done: dict[str, object] = {
        "log_dir": "/var/lib/kafka",
        "erased": Amount(12, 3_000),
        "segments": 7,
        "bytes_before": 2**30,
        "bytes_after": 2**29,
        "proof": Proof(0, 0, 0, 123_456),
        "rewritten": (RewrittenFile(f"{topic}-0/{0:020d}.log", 1_234_567, "ab" * 32),),
    }
    return PartitionErasure(topic=topic, partition=0, **(done | more))  # type: ignore[arg-type]


RESULT = EraseResult(
    run_id="20261124T120000Z-0123abcd",
    dry_run=False,
    keys=3,
    keys_found=2,
    partitions=(
        partition("orders"),
        partition(LONG, active=Amount(2, 100), copies=(".winnow-kept-20261101T000000Z-aa",)),
        partition("tiered", remote=True, above_high_watermark=Amount(1, 10)),
        partition("<b>broken</b>", error="a batch that can't be understood (byte 4711)"),
        partition("quiet", erased=None, rewritten=()),
    ),
    replicas=Replicas(
        node_id=1,
        metadata_log="__cluster_metadata-0 up to offset 4711",
        written_at=1_795_300_000_000,
        partitions=(
            ReplicatedPartition(
                topic=LONG,
                partition=0,
                replicas=(AssignedReplica(1), AssignedReplica(2), AssignedReplica(3)),
                reassignment=Reassignment(adding=(3,)),
            ),
        ),
    ),
    patterns=PatternSearch(
        2,
        (PartitionMatches(LONG, 0, "/var/lib/kafka", PatternMatches(3, 0, 2, 1, 123_456, 2**30)),),
    ),
)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = LogDir(
        path="/var/lib/kafka",
        meta=MetaProperties(version=1, node_id=3, cluster_id="V2lubm93T3JhY2xlMDAwMQ"),
        clean_shutdown=True,
        partitions=(),
        skipped=(),
        checkpoints=Checkpoints(),
        error=None,
    )
    at = Circumstances("kafka", "broker-3", 1_795_521_600_000, 1_795_521_660_000, [directory])
    place = tmp_path_factory.mktemp("certificate")
    file = write_certificate(str(place), RESULT, HASHES, at).certificate
    assert file is not None
    assert json.loads(Path(file).read_text(encoding="utf-8"))["status"] == "partial"
    return Path(file).with_suffix(".html").read_text(encoding="utf-8")


FACTS = (
    *("2026-11-24T12:01:00Z", "broker-3", "/var/lib/kafka", "node 3"),
    *("NOT PROVEN: ", "INCOMPLETE", "orders-0", LONG, "<b>broken</b>-0"),
    *("2 records in the active segment", "1 record at or above the high watermark"),
    *("its remote storage was not searched", ".winnow-kept-20261101T000000Z-aa"),
    *("byte 4711", "ab" * 32, RESULT.run_id),
    *("on brokers 2, 3, by __cluster_metadata-0 up to offset 4711", "being reassigned"),
    *("3 of 123,456 records with other keys hold one of 2 patterns", "upper and lower case"),
    *(words for words in NOT_SHOWN if not words.startswith("Values")),
)
"""When, where, by whom, that it is not proven, and what could not be reached."""


@pytest.mark.parametrize("width", [PHONE, TERMINAL, DESK])
def test_page_fits_the_screen_and_fetches_nothing(page: str, tmp_path: Path, width: int) -> None:
    shown = show(page, tmp_path, width=width)
    assert (shown.width, shown.scroll_width, shown.wide) == (width, width, [])
    assert (shown.fetched, shown.console) == ([], [])
    assert [fact for fact in (*FACTS, *(HASHES.each or ())) if fact not in shown.text] == []


def test_dark_mode_follows_the_browser_setting(page: str, tmp_path: Path) -> None:
    assert show(page, tmp_path, width=DESK).background == "rgb(246, 247, 249)"
    assert show(page, tmp_path, width=DESK, dark=True).background == "rgb(16, 21, 27)"


def test_hashes_of_few_keys_are_in_sight_and_of_many_on_paper(page: str, tmp_path: Path) -> None:
    assert "<details open>" in page
    begin, end = page.replace("<details open>", "<details>").split("</p>\n  </details>")
    hashes = "".join(f"<br>{n:032x}" for n in range(1000))
    many = f"{begin}{hashes}</p>\n  </details>{end}"
    assert pages_on_paper(many, tmp_path) >= pages_on_paper(page, tmp_path) + 10
