"""The requirements files list every installed package and its dependencies, in exact versions."""

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
    """Return the version of each package."""
    return {name: version for name, version, _ in requirements(*names)}


def requirements(*names: str) -> list[tuple[str, str, list[str]]]:
    """Return package, version and hashes of each requirement."""
    text = "".join((ROOT / name).read_text(encoding="utf-8") for name in names).replace("\\\n", " ")
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    pairs = [(line[0].split("=="), line[1:]) for line in lines]
    return [(canonicalize_name(name), version, hashes) for (name, version), hashes in pairs]


def needed(name: str) -> Iterator[str]:
    """Yield the dependencies of an installed package, without its extras."""
    for text in requires(name) or ():
        wanted = Requirement(text)
        if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
            yield canonicalize_name(wanted.name)


@pytest.mark.parametrize("files", [WINNOW, DEVELOPERS], ids=["Winnow", "developers"])
def test_dependencies_of_requirements_are_listed_too(files: tuple[str, ...]) -> None:
    known = pinned(*files)
    assert {
        (name, other) for name in known for other in needed(name) if other not in known
    } == set()


def test_every_requirement_has_hashes() -> None:
    """At least one hash each: pip needs one for each published file."""
    for name, _, hashes in requirements(*DEVELOPERS):
        assert hashes, name
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for one in hashes), name


def test_installed_versions_match_the_requirements() -> None:
    wanted = pinned(*DEVELOPERS)
    assert {name: distribution(name).version for name in wanted} == wanted
