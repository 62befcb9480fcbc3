"""Files of settings that somebody else wrote take bounded time and memory, and print few notes."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from winnow.errors import UsageError
from winnow.policy import describe
from winnow.policy.config import BY_TOPIC_NAME
from winnow.policy.describe import MOST_NOTES, parse_topic_configs
from winnow.policy.server_properties import parse_server_properties

HEADING = "Dynamic configs for topic t are:\n"
LISTED = " sensitive=true synonyms={"


@pytest.mark.parametrize("end", ["", "}", "} x"])
def test_long_line_takes_linear_time(end: str) -> None:
    """40,000 pieces took the pattern of a line 160 s."""
    begun = time.process_time()
    parse_topic_configs(f"{HEADING}  a={LISTED * 40_000}{end}\n")
    assert time.process_time() - begun < 1


def test_synonyms_end_with_the_last_brace() -> None:
    line = "  retention.ms=5 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms={5}} "
    (entry,) = parse_topic_configs(HEADING + line).of("topic", "t").values()
    assert (entry.value, entry.where) == (5, "--topic-configs line 2")


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"t{n} retention.ms=1\n" for n in range(101)),
        HEADING + "  retention.ms=1\n" * 100,
        "Configs for topic t are " + ",".join(["retention.ms=1"] * 100),
    ],
    ids=["lines", "printed", "one line"],
)
def test_settings_in_a_file_have_a_limit(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe, "_MOST_LINES", 100)
    with pytest.raises(UsageError, match="too large: expected at most 100 lines and settings"):
        parse_topic_configs(text)


def lines(n: int) -> Iterator[str]:
    return (f"topic-{i} retention.ms={1_000 + i}" for i in range(n))


def wrong(n: int) -> Iterator[str]:
    return (f"{i:0240d} a{i}={i}" for i in range(n))


def keys_of_one_topic(n: int) -> Iterator[str]:
    return (f"t a{i}=1" for i in range(n))


def topics(n: int) -> Iterator[str]:
    return (f"topic-{i}" for i in range(n))


def described(n: int) -> Iterator[str]:
    for i in range(n // (1 + len(BY_TOPIC_NAME))):
        yield f"All configs for topic \U0001f600{i} are:"
        for key in BY_TOPIC_NAME:
            yield f"  {key}=1 sensitive=false synonyms={{DEFAULT_CONFIG:{key}=1}}"


def brokers(n: int) -> Iterator[str]:
    for i in range(n // 2):
        yield f"Dynamic configs for broker {i} are:"
        yield f"  log.retention.ms={1_000 + i}"


@pytest.mark.parametrize(
    "kind", [lines, wrong, keys_of_one_topic, topics, described, brokers], ids=lambda f: f.__name__
)
def test_memory_of_what_is_kept_is_counted(kind: Callable[[int], Iterator[str]]) -> None:
    """A million lines of 28 bytes took 742 MiB: the text, a list of its lines, a key for each."""
    text = "\n".join(kind(3_000))
    reader = describe._Reader(describe.UNCHECKED)
    tracemalloc.start()
    try:
        for number, line in enumerate(describe._lines(text), start=1):
            reader.read(line, f"--topic-configs line {number}")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    counted = describe._MOST_BYTES - reader._memory.left
    assert peak < counted < 3 * peak


def test_memory_of_topic_configs_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe, "_MOST_BYTES", 10_000)
    assert parse_topic_configs("t retention.ms=1\n" * 1_000).entries
    with pytest.raises(UsageError, match="at most 10000 bytes of memory in all") as error:
        parse_topic_configs("\n".join(lines(1_000)))
    assert "fewer topics at a time" in str(error.value)
    with pytest.raises(UsageError, match="too large"):
        parse_topic_configs(HEADING + "".join(f"  retention.ms={'x' * n}\n" for n in (1, 9_999)))


@pytest.mark.parametrize("text", ["t retention.ms=1\n" * 20_000, "#" * 30 + "\n" * 20_000])
def test_lines_are_read_one_after_the_other(text: str) -> None:
    tracemalloc.start()
    try:
        parse_topic_configs(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


def test_pairs_of_one_line_are_split_only_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe, "_MOST_LINES", 100)
    text = "Configs for topic t are " + ",a=" * 200_000
    tracemalloc.start()
    try:
        with pytest.raises(UsageError, match="at most 100 lines"):
            parse_topic_configs(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * len(text)


def test_notes_on_unknown_settings_are_limited() -> None:
    many = "".join(f"  k{n}=v\n" for n in range(1_000))
    notes = parse_topic_configs(HEADING + many).notes
    assert len(notes) == MOST_NOTES + 1
    assert notes[-1] == "--topic-configs: 980 more settings are ignored"
    begun = time.process_time()
    own = "".join(f"log.k{n}=v\nretention.ms={n}\n" for n in range(10_000))
    notes = parse_server_properties(own, file="f").notes
    assert time.process_time() - begun < 2
    assert len(notes) == MOST_NOTES + 1
    assert notes[-1] == "f: 19,980 more settings are ignored"
    assert len(parse_server_properties("log.k=v\n" * 3).notes) == 3


def test_parsing_can_be_stopped() -> None:
    """Before the job handles signals, and where a file has many lines."""
    asked = []

    def check() -> None:
        asked.append(None)
        if len(asked) == 50:
            raise UsageError("stopped")

    for text in ("t retention.ms=1\n" * 100, "Configs for topic t are " + ",retention.ms=1" * 100):
        with pytest.raises(UsageError, match="stopped"):
            parse_topic_configs(text, check=check)
        asked.clear()
    with pytest.raises(UsageError, match="stopped"):
        parse_server_properties("log.retention.ms=1\n" * 100, check=check)
