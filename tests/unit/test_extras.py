"""No file recommends installing `winnow` from PyPI: that package belongs to somebody else."""

from __future__ import annotations

import configparser
import re
import subprocess
import sys
from pathlib import Path

from packaging.requirements import Requirement

from winnow import extras
from winnow.storage.places import not_installed

ROOT = Path(__file__).parents[2]
STRANGER = re.compile(rb"""pip3? install\b[^\n`]*?['" ]winnow\b""")


def test_no_file_recommends_the_package_of_strangers() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
    ).stdout
    files = [ROOT / name for name in listed.decode().split("\0") if name]
    assert files
    found = [str(path) for path in files if path.is_file() and STRANGER.search(path.read_bytes())]
    assert found == []


def test_pattern_matches_only_the_package_of_strangers() -> None:
    pip = b"pip install"
    for end in (b" 'winnow[s3]'", b" winnow", b' --upgrade "winnow>=1"'):
        assert STRANGER.search(pip + end)
    for end in (b" '/path/to/winnow[s3]'", b" obstore", b" ./winnow"):
        assert not STRANGER.search(pip + end)


def test_packages_in_messages_match_the_extras() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    for extra in ("avro", "hdfs", "metrics", "s3"):
        named = getattr(extras, extra.upper())
        stated, told = (
            Requirement(setup["options.extras_require"][extra].strip()),
            Requirement(named),
        )
        assert (stated.name, stated.specifier) == (told.name, told.specifier)


def test_page_on_the_wheel_lists_each_extra_and_the_versions_of_spark() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    page = (ROOT / "docs" / "how-to" / "install.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", page, re.MULTILINE))
    stated = {
        extra: ", ".join(f"`{Requirement(each).name}`" for each in packages.strip().split("\n"))
        for extra, packages in setup["options.extras_require"].items()
    }
    assert listed == stated
    required = map(str.strip, setup["options"]["install_requires"].split("\n"))
    (spark,) = [each for each in required if each.startswith("pyspark")]
    assert f"requires `{spark}`" in page
    version = re.search(r"delta-spark_([\d.]+)_", (ROOT / "conf" / "jars.txt").read_text("utf-8"))
    assert version is not None
    assert version[1] in Requirement(spark).specifier


def test_message_names_the_package_and_the_python() -> None:
    told = str(not_installed("s3a", ImportError("No module named 'obstore'")))
    assert f"Run {sys.executable} -m pip install 'obstore>=0.12,<1'" in told
