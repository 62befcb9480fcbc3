"""SECURITY.md and docs/safety.md are true, sentence by sentence: claims.toml names the tests."""

from __future__ import annotations

import ast
import re
import tomllib
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest

from fuzz.targets import TARGETS
from tests.pages import DOCS, ROOT
from tests.spark.damage import COMPRESSED, PLAIN
from tests.unit.logdir.foreign import KINDS, NAMES
from tests.unit.logdir.foreign_verbs import VERBS
from winnow import errors
from winnow.logdir import checkpoints, metadata, metadata_image, metadata_log
from winnow.metrics import lineage, prometheus
from winnow.policy import describe
from winnow.reading import avro_bounds, avro_values, registry
from winnow.storage import input_file
from winnow.storage.s3 import answers

TESTS = ROOT / "tests"
PAGES = {"security": ROOT / "SECURITY.md", "safety": DOCS / "safety.md"}
CLAIMS: dict[str, dict[str, list[str] | str]] = tomllib.loads(
    (TESTS / "docs" / "claims.toml").read_text(encoding="utf-8")
)
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_ITEM = re.compile(r"(?:[*-]|\d+\.) ")
_END = re.compile(r"(?<=[.:?!])\s+(?=[A-Z`*\[-])")
_MIB = 2**20
EACH_NIGHT = {"| brokers and clients"}
"""What only the slow set tests, as the page says."""


def sentences(page: Path) -> list[str]:
    """Return the sentences of a page, its list items and rows, but no headings, no code and no
    paragraphs that describe tests.
    """
    found: list[str] = []
    for paragraph in re.split(r"\n\s*\n", _FENCE.sub("", page.read_text(encoding="utf-8"))):
        if paragraph.lstrip().startswith(("#", "**Tests.**")):
            continue
        pieces: list[str] = []
        for line in paragraph.strip().splitlines():
            if not pieces or line.startswith("|") or _ITEM.match(line):
                pieces.append(_ITEM.sub("", line, count=1) if _ITEM.match(line) else line)
            else:
                pieces[-1] += " " + line.strip()
        rows = [piece for piece in pieces if piece.startswith("|")]
        if rows:
            found += rows[2:]  # without the heads of columns
            continue
        for piece in pieces:
            found += _END.split(re.sub(r"^\*\*(?:Promise|How)\.\*\* ", "", piece))
    return found


@cache
def found_in(file: str) -> dict[str, bool]:
    """Return the tests of a file, each with whether only the slow set runs it."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    slow = any(
        isinstance(node, ast.Assign)
        and "pytestmark" in ast.unparse(node)
        and "mark.slow" in ast.unparse(node)
        for node in tree.body
    )
    return {
        node.name: slow
        or any(ast.unparse(mark).endswith("mark.slow") for mark in node.decorator_list)
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def named(test: str) -> dict[str, bool]:
    file, _, pattern = test.partition("::")
    return {name: slow for name, slow in found_in(file).items() if fnmatchcase(name, pattern)}


def cases() -> list[tuple[str, str]]:
    return [(page, claim) for page, claims in CLAIMS.items() for claim in claims]


@pytest.mark.parametrize("page", PAGES)
def test_every_sentence_has_a_test_or_needs_none(page: str) -> None:
    claims = CLAIMS[page]
    said = sentences(PAGES[page])
    assert len(said) > 20
    open_ = [one for one in said if sum(map(one.startswith, claims)) != 1]
    assert open_ == [], "claims.toml must have the first words of each of these once"
    gone = [claim for claim in claims if sum(one.startswith(claim) for one in said) != 1]
    assert gone == [], "the page has no sentence, or several, that begin like these"


@pytest.mark.parametrize(("page", "claim"), cases())
def test_every_claim_has_a_test_in_each_run(page: str, claim: str) -> None:
    """The slow set may have more of them."""
    tests = CLAIMS[page][claim]
    if isinstance(tests, str):
        assert tests
        return
    assert [test for test in tests if not named(test)] == []
    slow = all(slow for test in tests for slow in named(test).values())
    assert slow == (claim in EACH_NIGHT)


def test_tests_named_in_paragraphs_exist() -> None:
    for page in PAGES.values():
        folder = Path()
        for name in re.findall(r"`([\w/]+\.py)`", page.read_text(encoding="utf-8")):
            if "/" in name:
                folder = Path(name).parent
            assert (ROOT / folder / Path(name).name).exists(), name


def test_figures_on_the_page_are_those_of_the_tests() -> None:
    page = PAGES["safety"].read_text(encoding="utf-8")
    assert f"| {len({*PLAIN, *COMPRESSED})} kinds |" in page
    assert f"| {len(NAMES) * len(KINDS)} pairs, {len(VERBS)} verbs each |" in page
    recorded = (ROOT / "fuzz" / "RESULTS.md").read_text(encoding="utf-8")
    executions = re.search(r"^([\d,]+) executions of .*, 0 findings\.$", recorded, re.MULTILINE)
    assert executions is not None
    assert f"| {executions[1]} |" in page
    assert set(re.findall(r"^\| ([\w-]+) \| \d", recorded, re.MULTILINE)) == set(TARGETS)


LIMITS = {
    f"may have {metadata_log._MAX_DECOMPRESSED_BYTES // _MIB} MiB in all": 1,
    f"a record counts as {metadata_log._LEAST_RECORD} bytes": 1,
    f"settings {metadata_image._MAX_STATE_BYTES >> 30} GiB of memory": 1,
    "the ten newest are tried": metadata._MOST_SNAPSHOTS == 10,
    f"may have {checkpoints.MOST_ENTRIES:,} entries": 1,
    f"registry may have {registry._MOST_BYTES // _MIB} MiB": 1,
    "take half an hour": registry._MOST_MS == 30 * 60_000,
    f"answered within {registry.SECONDS} seconds": 1,
    f"OpenLineage server within {lineage.TIMEOUT_S}": lineage.TIMEOUT_S == prometheus.TIMEOUT_S,
    f"may have {avro_bounds.MOST_TYPES:,} types, {avro_bounds.MOST_DEPTH} of them": 1,
    f"and {avro_bounds.MOST_BRANCHES} in a union": 1,
    f"may have {avro_bounds.MOST_DEFAULT_CHARACTERS:,} characters": 1,
    "four values for each byte": avro_bounds.VALUES_PER_BYTE == 4,
    f"{avro_bounds.MORE_VALUES:,} more are read": 1,
    f"{avro_bounds.MOST_VALUES // 10**6} million at most": 1,
    f"batch may take {avro_values._MOST_BATCH_BYTES >> 30} GiB": 1,
    "thousand objects, may take two minutes and 1 GiB": answers.LISTING_SECONDS == 120
    and answers.LISTING_BYTES == 2**30,
    f"listed tree may have {answers.MOST_LISTED // 10**6} million objects": 1,
    f"{answers.MOST_KEY_BYTES // _MIB} MiB of names": 1,
    f"its topics and settings {describe._MOST_BYTES // _MIB} MiB": 1,
    "may have a million lines": describe._MOST_LINES == 10**6,
    "end within five minutes": input_file.MOST_SECONDS == 300,
    f"at most {errors._LONGEST:,} characters": 1,
}
"""Words of the page, and whether the code agrees where the words have no digits."""


@pytest.mark.parametrize("words", LIMITS)
def test_limits_on_the_page_are_those_of_the_code(words: str) -> None:
    assert words in " ".join(PAGES["safety"].read_text(encoding="utf-8").split())
    assert LIMITS[words]
