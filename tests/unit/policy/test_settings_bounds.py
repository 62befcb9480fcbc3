"""Files of settings that somebody else wrote take bounded time and memory, and print few notes."""

from __future__ import annotations

import time

import pytest

from winnow.errors import UsageError
from winnow.policy import describe
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
