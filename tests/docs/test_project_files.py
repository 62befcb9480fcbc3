"""License, version, links, paths and decisions of the project exist and agree."""

from __future__ import annotations

import configparser
import re
import subprocess
from pathlib import Path

import pytest

from tests.pages import ROOT
from tests.reference.markdown import COLUMNS
from winnow.version import VERSION

_LINK = re.compile(r"!?\[[^\]\n]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`([^`\n]+)`")
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_TOP = ("benchmarks", "conf", "demo", "docs", "examples", "fuzz", "jobs", "lib", "tests")
_PATH = re.compile(rf"(?:{'|'.join(_TOP)})/[\w./-]*\w")
ONE_SCREEN = 60
WORDS_OF_A_DECISION = 360
LEFT_BY_TOOLS = (
    ".mypy_worker.1.json",
    "build/lib/winnow/api.py",
    "derby.log",
    "dist/winnow.whl",
    "docs/page.md.orig",
    "docs/page.md~",
    "examples/.ipynb_checkpoints/notebook.ipynb",
    "lib/winnow/.api.py.swp",
    "lib/winnow/__pycache__/api.cpython-311.pyc",
    "lib/winnow_kafka.egg-info/PKG-INFO",
    "result.json.tmp",
    "spark-warehouse/table",
)
PAGES = sorted(
    page
    for page in (
        *ROOT.glob("*.md"),
        *(page for top in _TOP for page in (ROOT / top).rglob("*.md")),
    )
)


def _anchors(page: Path) -> set[str]:
    headings = re.findall(
        r"^#+ +(.+)$", _FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE
    )
    plain = (re.sub(r"[^\w\- ]", "", heading.lower().replace("`", "")) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_exist(page: Path) -> None:
    broken = []
    for link in _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        target, _, anchor = link.partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        file = (page.parent / target).resolve() if target else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in _anchors(file)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_that_a_page_names_exist(page: Path) -> None:
    named = {
        word
        for code in _CODE.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))
        for word in code.split()
        if _PATH.fullmatch(word.rstrip("/"))
    }
    assert sorted(word for word in named if not (ROOT / word).exists()) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_prose_of_a_page_wraps_at_100_columns(page: Path) -> None:
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    assert [line for line in text.splitlines() if len(line) > COLUMNS and line[0] != "|"] == []


def test_nothing_else_lies_at_the_top_of_the_tree() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    found = {file.split("/")[0] for file in listed.split("\0") if "/" in file}
    assert found == {*_TOP, ".ci", ".github"}


def test_no_generated_or_temporary_file_is_tracked() -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--ignored", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert tracked.splitlines() == []


@pytest.mark.parametrize("name", LEFT_BY_TOOLS)
def test_git_ignores_what_tools_leave(name: str) -> None:
    asked = ["git", "check-ignore", "--quiet", "--no-index", name]
    assert subprocess.run(asked, cwd=ROOT, check=False).returncode == 0


def test_package_names_its_authors_status_and_python_versions() -> None:
    metadata = configparser.ConfigParser()
    metadata.read(ROOT / "setup.cfg", encoding="utf-8")
    given = metadata["metadata"]
    assert given["author"]
    assert given["url"].endswith(f"/{given['name']}/")
    assert {"kafka", "spark"} <= {*given["keywords"].split(", ")}
    classifiers = given["classifiers"].splitlines()
    assert any(line.startswith("Development Status :: ") for line in classifiers)
    named = {line.split(" :: ")[2] for line in classifiers if ":: Python :: 3." in line}
    least, past = map(int, re.findall(r"3\.(\d+)", metadata["options"]["python_requires"]))
    assert named == {f"3.{minor}" for minor in range(least, past)}


def test_license_is_in_the_tree_and_in_the_metadata() -> None:
    metadata = configparser.ConfigParser()
    metadata.read(ROOT / "setup.cfg", encoding="utf-8")
    assert "Apache License" in (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert metadata["metadata"]["license"] == "Apache-2.0"
    assert "LICENSE" in metadata["metadata"]["license_files"].split()


def test_version_is_the_same_everywhere() -> None:
    metadata = configparser.ConfigParser()
    metadata.read(ROOT / "setup.cfg", encoding="utf-8")
    assert metadata["metadata"]["version"] == VERSION
    first = re.search(
        r"^## (\S+) \((unreleased|\d{4}-\d\d-\d\d)\)$",
        (ROOT / "CHANGELOG.md").read_text(),
        re.MULTILINE,
    )
    assert first is not None
    assert first[1] == VERSION


def test_each_version_takes_one_screen_of_the_changelog() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = {part.split(" ")[0]: len(part.splitlines()) for part in text.split("\n## ")[1:]}
    assert versions
    assert {version: lines for version, lines in versions.items() if lines > ONE_SCREEN} == {}


DECISIONS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))


INDEX = (ROOT / "docs" / "decisions" / "README.md").read_text(encoding="utf-8")
_ROW = re.compile(r"^\| (\d+) \| \[(.+)\]\((\d{4}-[\w-]+\.md)\) \| ([\d, ]*)\|$", re.MULTILINE)
_NUMBER = re.compile(r"(?:[Dd]ecisions?[\s#]+|decisions/)(\d+)\b")


def test_index_lists_each_decision_and_each_number_once() -> None:
    rows = _ROW.findall(INDEX)
    assert [name for _, _, name, _ in rows] == [page.name for page in DECISIONS]
    for number, title, name, _ in rows:
        page = ROOT / "docs" / "decisions" / name
        assert page.read_text(encoding="utf-8").startswith(f"# {number}. {title}\n")
        assert int(name[:4]) == int(number)
    every = [number for row in rows for number in (row[0], *re.findall(r"\d+", row[3]))]
    assert sorted(map(int, every)) == [*range(1, len(every) + 1)]


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.name)
def test_each_decision_is_short_and_accepted(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"^Status: .*$", text, re.MULTILINE) == ["Status: accepted."]
    assert len(text.split()) <= WORDS_OF_A_DECISION


def test_numbers_of_decisions_in_code_and_pages_exist() -> None:
    there = {int(page.name[:4]) for page in DECISIONS}
    files = (*PAGES, *(file for top in _TOP for file in (ROOT / top).rglob("*.py")))
    gone = [
        f"{path.relative_to(ROOT)}: {number}"
        for path in files
        for number in _NUMBER.findall(path.read_text(encoding="utf-8"))
        if int(number) not in there
    ]
    assert gone == []


def test_nothing_passes_a_filter_to_tarfile() -> None:
    """Python 3.11 takes one from 3.11.4 on, and Debian 12 has 3.11.2."""
    pattern = re.compile(r"\.extract(?:all)?\([^)\n]*\bfilter=")
    folders = ("lib", "jobs", "tests", "benchmarks", "examples", "docs")
    files = (path for folder in folders for path in (ROOT / folder).rglob("*"))
    assert [
        str(path)
        for path in files
        if path.suffix in {".py", ".ipynb", ".md"}
        and pattern.search(path.read_text(encoding="utf-8"))
    ] == []
