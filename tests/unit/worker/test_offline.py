"""What `package --offline` packs."""

from __future__ import annotations

import re
import tarfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

from winnow.resources import resource
from winnow.worker.offline import CACHE, SITE, _content
from winnow.worker.package import Content, write_archive

LEGAL = re.compile(r"^(licen[cs]e|copying|notice|copyright)", re.IGNORECASE)
WITHOUT_A_FILE = {"hdfs-native": "LICENSE", "obstore": "lib/winnow/licenses/obstore.txt"}
"""Packages that have no license file on PyPI, and the file with the text of their license."""


@pytest.fixture(scope="module")
def content() -> list[Content]:
    return [*_content()]


def test_offline_archive_marks_its_kernels_as_compiled(content: list[Content]) -> None:
    """`lib/set-up.sh` removes kernels without the mark, and compiles them again."""
    marks = {f"{CACHE}/numba/{file.name}" for file in resource(f"{CACHE}/numba").glob("warm*")}
    if not marks:
        pytest.skip("./run-tests.sh compiles the kernels and marks them")
    assert marks <= {name for name, _ in content}


def test_license_files_of_every_package_are_in_the_archive(
    content: list[Content], tmp_path: Path
) -> None:
    wanted: dict[str, set[str]] = {}
    requirements = resource("requirements.txt").read_text(encoding="utf-8")
    for package in re.findall(r"^([\w.-]+)==", requirements, re.MULTILINE):
        wanted[package] = {
            f"{SITE}/{file}"
            for file in distribution(package).files or ()
            if "licenses" in file.parent.parts
            or (LEGAL.match(file.name) and file.suffix != ".py" and "include" not in file.parts)
        }
    assert {name for name, files in wanted.items() if not files} == WITHOUT_A_FILE.keys()
    every = set(WITHOUT_A_FILE.values()).union(*wanted.values())
    assert len([name for name in every if "/pyspark/licenses/" in name]) > 50
    legal = [(name, found) for name, found in content if name in every]
    archive = tmp_path / "a.tar.gz"
    write_archive(archive, "the archive", legal, level=1)
    with tarfile.open(archive) as packed:
        sizes = {entry.name: entry.size for entry in packed}
    assert sizes.keys() == every
    assert all(sizes.values())
