"""The package for executors: all that the tasks' modules import, with byte code that Python loads
without checking the source.
"""

from __future__ import annotations

import ast
import importlib.util
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from winnow.errors import UsageError, WinnowError
from winnow.worker import package

LIBRARY = Path(package.__file__).parents[1]
ROOMS = (
    "cleaning",
    "survey",
    "scan",
    "verbs",
    "recovery",
    "kafka_log",
    "reading",
    "runtime",
    "logdir",
    "policy",
    "storage",
    "wire",
)
"""Folders with the code that tasks run."""
OF_SPARK = {"pyspark", "py4j"}
WITH_NUMBA = {"llvmlite"}


def imported(module: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def test_package_contains_all_that_tasks_import() -> None:
    found = set().union(
        *(imported(module) for room in ROOMS for module in (LIBRARY / room).rglob("*.py"))
    )
    others = found - set(sys.stdlib_module_names) - {"winnow"} - OF_SPARK - WITH_NUMBA
    assert others == {*package.IMPORTED, *package.OPTIONAL}


def test_package_contains_dependencies() -> None:
    names = {found.name.replace("-", "_") for found in package._installed()}
    assert names >= {*package.IMPORTED, *WITH_NUMBA}
    assert not names & OF_SPARK


def test_byte_code_is_loaded_unchecked_and_tests_are_excluded(tmp_path: Path) -> None:
    source = tmp_path / "source" / "some.py"
    source.parent.mkdir()
    source.write_text("SAID = 'packed'\n", encoding="utf-8")
    names = (
        "p/some.py",
        "p/tests/t.py",
        "p/include/t.h",
        "p/__pycache__/some.cpython-311.pyc",
        "../../../bin/p",
    )
    packed = dict(package._with_byte_code((name, source) for name in names))
    compiled = importlib.util.cache_from_source("p/some.py")
    assert packed.keys() == {"p/some.py", compiled}
    unpacked = tmp_path / "site"
    (unpacked / compiled).parent.mkdir(parents=True)
    content = packed[compiled]
    assert isinstance(content, bytes)
    (unpacked / compiled).write_bytes(content)
    (unpacked / "p" / "some.py").write_text("SAID = 'compiled'\n", encoding="utf-8")
    os.utime(unpacked / "p" / "some.py", (1, 1))
    told = subprocess.run(
        [sys.executable, "-c", "import p.some; print(p.some.SAID, p.some.__file__)"],
        env={"PYTHONPATH": str(unpacked)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.split() == ["packed", str(unpacked / "p" / "some.py")]


def test_files_and_bytes_are_added_to_an_archive(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"of a file")
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as archive:
        package.add_entry(archive, "site/a", tmp_path / "file")
        package.add_entry(archive, "site/b", b"bytes")
    written.seek(0)
    with tarfile.open(fileobj=written) as archive:
        members = {
            member.name: (member.mode, archive.extractfile(member))
            for member in archive.getmembers()
        }
        contents = {
            name: (mode, file.read() if file else None) for name, (mode, file) in members.items()
        }
    assert contents == {"site/a": (0o644, b"of a file"), "site/b": (0o644, b"bytes")}


def test_missing_directory_or_wrong_file_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no such directory \(.*gone\)"):
        package.make_package(str(tmp_path / "gone" / "winnow.tar.gz"))
    with pytest.raises(
        UsageError, match=r"expected a name that ends in .tar.gz or .tgz, found winnow.rar"
    ):
        package.make_package(str(tmp_path / "winnow.rar"))
    assert list(tmp_path.iterdir()) == []


def test_missing_package_is_an_error() -> None:
    with pytest.raises(WinnowError, match=r"found no-such-package. Run ./spark-submit.sh package."):
        package._installed(("numpy", "no-such-package"))


def test_unwritable_place_is_an_error() -> None:
    with pytest.raises(WinnowError, match=r"the package could not be written \(/proc/winnow.tgz\)"):
        package.make_package("/proc/winnow.tgz")
