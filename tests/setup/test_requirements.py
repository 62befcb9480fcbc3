"""What is installed is written down: the packages themselves, and those that they bring along, in
exact versions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import distribution, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
WINNOW, DEVELOPERS = ("requirements.txt",), ("requirements.txt", "requirements-dev.txt")


def pinned(*names: str) -> dict[str, str]:
    """Version by package."""
    return {name: version for name, version, _ in requirements(*names)}


def requirements(*names: str) -> list[tuple[str, str, list[str]]]:
    """Package, version and hashes."""
    text = "".join((ROOT / name).read_text(encoding="utf-8") for name in names).replace("\\\n", " ")
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    pairs = [(line[0].split("=="), line[1:]) for line in lines]
    return [(canonicalize_name(name), version, hashes) for (name, version), hashes in pairs]


def needed(name: str) -> Iterator[str]:
    """By a package that is installed here, without its extras."""
    for text in requires(name) or ():
        wanted = Requirement(text)
        if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
            yield canonicalize_name(wanted.name)


@pytest.mark.parametrize("files", [WINNOW, DEVELOPERS], ids=["Winnow", "developers"])
def test_what_they_bring_along_is_written_down_as_well(files: tuple[str, ...]) -> None:
    known = pinned(*files)
    assert {
        (name, other) for name in known for other in needed(name) if other not in known
    } == set()


def test_every_requirement_has_hashes() -> None:
    """Of each of its files that is published, so of one at least."""
    for name, _, hashes in requirements(*DEVELOPERS):
        assert hashes, name
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for one in hashes), name


def test_these_versions_are_here() -> None:
    wanted = pinned(*DEVELOPERS)
    assert {name: distribution(name).version for name in wanted} == wanted
