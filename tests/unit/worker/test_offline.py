"""What `package --offline` packs."""

from __future__ import annotations

import re
import tarfile
from importlib.metadata import distribution
from itertools import takewhile
from pathlib import Path

import pytest

from winnow.resources import resource
from winnow.worker.offline import CACHE, SITE, _content
from winnow.worker.package import _NOT_RUN, Content, _installed, files_of, needed, write_archive
from winnow.worker.package import SITE as EXECUTORS_SITE
from winnow.worker.package import _content as executors_content

LEGAL = re.compile(r"^(licen[cs]e|copying|notice|copyright)", re.IGNORECASE)
LICENSES = "lib/winnow/licenses"
WITHOUT_A_FILE = {"hdfs-native": f"{LICENSES}/LICENSE", "obstore": f"{LICENSES}/obstore.txt"}
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


def legal_files(package: str) -> set[str]:
    return {
        str(file)
        for file in distribution(package).files or ()
        if "licenses" in file.parent.parts
        or (LEGAL.match(file.name) and file.suffix != ".py" and "include" not in file.parts)
    }


def test_license_files_of_every_package_are_in_the_archive_for_executors() -> None:
    files = takewhile(lambda one: one[0].startswith(EXECUTORS_SITE), executors_content([]))
    own = {name for name, _ in files if "/licenses/" in name}
    packages = {package.name: package for package in _installed()}
    for name, package in packages.items():
        packed = {file for file, _ in needed(files_of(package), _NOT_RUN)}
        if name in WITHOUT_A_FILE:
            assert WITHOUT_A_FILE[name].replace("lib", EXECUTORS_SITE, 1) in own
        else:
            assert packed >= legal_files(name) != set(), name
    assert WITHOUT_A_FILE.keys() <= packages.keys()
    text = resource(f"{LICENSES}/LICENSE").read_text(encoding="utf-8")
    assert text == resource("LICENSE").read_text(encoding="utf-8")


def test_license_files_of_every_package_are_in_the_archive(
    content: list[Content], tmp_path: Path
) -> None:
    requirements = resource("requirements.txt").read_text(encoding="utf-8")
    packages = re.findall(r"^([\w.-]+)==", requirements, re.MULTILINE)
    wanted = {name: {f"{SITE}/{file}" for file in legal_files(name)} for name in packages}
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
