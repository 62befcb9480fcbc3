"""`doctor` fits 24 lines of 80 columns, whatever is wrong and however much of it."""

from __future__ import annotations

import string
import unicodedata
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.one_page import checked, columns
from tests.unit.cli.hostile import hostile
from tests.unit.diagnoses import diagnosis
from winnow.cleaning.prepared.preparation import Preparation
from winnow.cli.options import CommandLine
from winnow.cli.text.narrow import COLUMNS, NAME, Names, rows
from winnow.start.values import BrokerStart, Fate, LogDirStart, LogStart
from winnow.state import TopicPartition
from winnow.verbs.doctor.space import DiskUse
from winnow.verbs.doctor.values import (
    Advice,
    Diagnosis,
    Disk,
    Expired,
    Gain,
    Held,
    HeldBack,
    MisplacedEntry,
    Overdue,
    Topic,
    Trouble,
)

MIB = 2**20
LOGS = "/var/lib/kafka"
DISK = Disk(
    log_dir=LOGS,
    log_bytes=900 * MIB,
    free_bytes=500 * MIB,
    total_bytes=1000 * MIB,
    free_files=10**6,
    read_only=False,
    clean_shutdown=True,
    cleaner_checkpoint_ms=None,
)
LONG = "payments-service-eu-central-1-KSTREAM-AGGREGATE-STATE-STORE-{0:010}-changelog"
WIDE = "漢字ひらカナ한글Ａｂ😀é\u0301\u0300\u20dd"
"""Two columns, one, and none."""
WORDS = st.text(string.ascii_letters + "./:;- " + WIDE, max_size=400)
NAMES = st.text(string.ascii_letters + string.digits + "._-" + WIDE, min_size=1, max_size=249)
FLAGS = st.booleans()
PLACES = st.builds("/{}".format, NAMES)


def of(kind: type, **given: Any) -> st.SearchStrategy[tuple[Any, ...]]:
    """Up to 6 values, with names and words of any length."""
    model = hostile(kind)
    own = {name: WORDS for name in ("reason", "words", "dropped") if hasattr(model, name)}
    own |= ({"topic": NAMES} if hasattr(model, "topic") else {}) | given
    return st.lists(
        st.fixed_dictionaries(own).map(lambda fields: replace(model, **fields)), max_size=6
    ).map(tuple)


STARTS = st.lists(
    st.builds(
        BrokerStart,
        node_id=st.none() | st.just(1),
        fate=st.sampled_from(Fate),
        of_broker=st.sampled_from(Fate),
        reasons=st.lists(WORDS, max_size=12).map(tuple),
        log_dirs=st.just(()),
        needs_quorum=FLAGS,
    ),
    max_size=4,
).map(tuple)
DISKS = st.lists(
    st.builds(
        replace,
        st.just(DISK),
        log_dir=PLACES,
        free_bytes=st.sampled_from([0, 500 * MIB]),
        free_files=st.sampled_from([0, None]),
        read_only=FLAGS,
        lacks_lock=FLAGS,
        clean_shutdown=FLAGS,
        broker_runs=FLAGS,
        metadata_log_bytes=st.sampled_from([None, 0, 5]),
    ),
    min_size=1,
    max_size=12,
).map(tuple)
FOUND = st.fixed_dictionaries(
    {
        "disks": DISKS,
        "starts": STARTS,
        "topics": of(Topic),
        "troubles": of(Trouble, error=st.none() | WORDS),
        "overdue": of(Overdue, passed_over=FLAGS),
        "expired": of(Expired),
        "held": of(Held, by=st.sampled_from(["high-watermark", "future-timestamp"])),
        "held_back": of(HeldBack),
        "misplaced": of(MisplacedEntry),
        "preparations": of(Preparation),
        "gains": of(Gain),
        "space": of(DiskUse),
        "strangers": st.lists(WORDS, max_size=9).map(tuple),
        "dead_cleaner": st.none() | WORDS,
        "zookeeper": FLAGS,
        "advice": st.lists(
            st.builds(Advice, st.tuples(st.just("clean"), NAMES), WORDS), max_size=7
        ).map(tuple),
    }
)


@given(FOUND)
@settings(max_examples=60, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_page_fits_whatever_is_wrong(given: dict[str, Any]) -> None:
    found = replace(diagnosis(0, DISK), **given)
    checked(found, CommandLine(log_dirs=tuple(disk.log_dir for disk in found.disks)))


@pytest.mark.parametrize("many", [1, 34, 400, 8000])
def test_page_fits_for_any_number_of_damaged_partitions(many: int) -> None:
    names = [LONG.format(number) for number in range(many)]
    common: dict[str, Any] = {"partition": 7, "log_dir": LOGS}
    troubles = tuple(
        Trouble(topic=t, rule="S8.8", reason="r", error=f"{LOGS}/{t}-7: bad CRC at {n}", **common)
        for n, t in enumerate(names)
    )
    logs = tuple(
        LogStart(
            log_dir=LOGS,
            name=f"{t}-7",
            topic_partition=TopicPartition(t, 7),
            fate=Fate.LOSES,
            reason=f"{t}-7 loses records",
        )
        for t in names
    )
    log_dir = LogDirStart(path=LOGS, fate=Fate.LOSES, reasons=(), logs=logs)
    start = BrokerStart(node_id=1, fate=Fate.LOSES, reasons=(), log_dirs=(log_dir,))
    found = replace(
        diagnosis(0, replace(DISK, clean_shutdown=False)),
        troubles=troubles,
        starts=(start,),
        advice=(Advice(("verify",), "lists everything that is wrong, by file and byte"),),
    )
    lines = checked(found, CommandLine(log_dirs=(LOGS,)))
    text = "\n".join(lines)
    assert f"damaged: {many:,} partition" in text
    assert "broker 1 starts and deletes records" in text
    assert "Do not start the broker" in text
    words = [word.strip(",():") for word in text.split() if "changelog-7" in word]
    shown = [word.rpartition("/")[2] for word in words]
    assert len({*shown}) == min(many, 2) or many == 1, text


def test_page_says_why_a_log_directory_goes_offline_before_what_was_not_seen() -> None:
    unseen = "no given directory has the __cluster_metadata-0 that the broker reads"
    log = LogStart(
        log_dir=LOGS,
        name="orders-0",
        topic_partition=TopicPartition("orders", 0),
        fate=Fate.OFFLINE,
        reason=f"{LOGS}/orders-0/0.log can't be changed by anybody, not even root: `lsattr -d "
        f"{LOGS}/orders-0/0.log` shows the attribute i. Find out who set it, and why",
    )
    start = BrokerStart(
        node_id=1,
        fate=Fate.STOPS,
        of_broker=Fate.STOPS,
        reasons=(unseen, f"{LOGS} goes offline, and a broker can't do without it"),
        log_dirs=(LogDirStart(path=LOGS, fate=Fate.OFFLINE, reasons=(), logs=(log,)),),
        unseen=(unseen,),
    )
    found = replace(diagnosis(0, DISK), starts=(start,))
    page = checked(found, CommandLine(log_dirs=(LOGS,)))
    assert f"    {LOGS} goes offline, and a broker can't do without it" in page
    at = next(n for n, line in enumerate(page) if line.startswith("    the log directory goes off"))
    assert "shows the attribute i." in " ".join(map(str.strip, page[at : at + 3]))


def test_names_never_look_equal_and_those_that_would_are_counted() -> None:
    head, tail = "a" * 60, "z" * 60
    every = [f"{head}{n:03d}{tail}" for n in range(50)] + ["short-0"]
    shown = Names(every)
    few = shown.few(every[:3], COLUMNS)
    assert len(few) <= COLUMNS
    first, second = few.split(" and ")[0].split(", ")
    assert first != second
    same = [f"{'b' * 40}{x}{'c' * 40}{y}{'d' * 40}" for x in "12" for y in "34"]
    named = [Names(same).few([name], COLUMNS) for name in same]
    told = [text for text in named if text]
    assert len(told) == len({*told})
    assert all(len(text) <= NAME for text in told)


@pytest.mark.parametrize(
    "names",
    [
        ("caf\u00e9-0", "cafe\u0301-0"),
        ("\uff21-0", "A-0"),
        ("a\ufe0f-0", "a-0"),
        tuple(f"{'漢' * 20}{x}{'字' * 20}" for x in "あいう"),
    ],
)
def test_names_that_look_equal_are_shown_in_ascii_or_counted(names: tuple[str, ...]) -> None:
    shown = [text for name in names if (text := Names(names).few([name], COLUMNS))]
    assert len({unicodedata.normalize("NFKC", text) for text in shown}) == len(shown) > 1
    assert all(columns(text) <= NAME for text in shown)


@pytest.mark.parametrize("word", ["漢" * 100, "漢字 " * 50, "e\u0301" * 100, "x" * 77 + "漢字"])
def test_rows_count_columns_of_wide_characters_and_marks(word: str) -> None:
    lines = rows(word, 9)
    assert max(map(columns, lines)) <= COLUMNS
    assert "".join("".join(lines).split()) == "".join(word.split())


def test_text_is_cut_at_a_sentence_or_a_word() -> None:
    assert rows("One. Two.") == ["  One. Two."]
    long = f"First sentence that is long enough to be shown alone, it is. {'More ' * 30}"
    assert rows(long) == ["  First sentence that is long enough to be shown alone, it is."]
    (line,) = rows("word " * 40)
    assert line.endswith("word …")
    assert len(line) <= COLUMNS
    assert all(len(line) <= COLUMNS for line in rows("x" * 500, 3))


def test_files_are_freed_where_inodes_lack() -> None:
    gain = Gain(what="retention", partitions=1, freed_bytes=5 * MIB, freed_inodes=12, seconds=1)
    found: Diagnosis = diagnosis(0, replace(DISK, free_files=0))
    assert found.freed(gain) == "12 files (5.0 MiB)"
    assert diagnosis(0, DISK).freed(gain) == "5.0 MiB"
