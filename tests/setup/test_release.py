"""What a release publishes is built by one command, and is whole."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from winnow.version import VERSION

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\(([^)]*)\)")


@pytest.mark.parametrize("source", ["", "https://example.org/winnow"])
def test_page_on_pypi_has_no_link_that_leads_nowhere(tmp_path: Path, source: str) -> None:
    for name in ("setup.py", "README.md"):
        shutil.copy(ROOT / name, tmp_path)
    known = (ROOT / "setup.cfg").read_text()
    if source:
        known = known.replace("project_urls =", f"project_urls =\n    Source = {source}")
    (tmp_path / "setup.cfg").write_text(known)
    page = subprocess.run(
        [sys.executable, "-W", "ignore", "setup.py", "--long-description"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    links = LINK.findall(page)
    assert [link for link in links if not link.startswith("https://")] == []
    start = f"{source}/blob/v{VERSION}/"
    paths = [link.removeprefix(start) for link in links if source and link.startswith(start)]
    assert [path for path in paths if not (ROOT / path.partition("#")[0]).exists()] == []
    assert len(LINK.findall((ROOT / "README.md").read_text())) - 1 == len(paths) or not source
    assert (f"{source}/raw/v{VERSION}/docs/images/report.png" in links) == bool(source)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_release_is_built_checked_and_listed(tmp_path: Path) -> None:
    out = tmp_path / "dist"
    command = ["bash", str(ROOT / ".ci" / "release"), str(out)]
    environment = os.environ | {"PYTHON": sys.executable}
    subprocess.run(command, check=True, env=environment)
    assert subprocess.run(command, env=environment, check=False).returncode == 2, "it is there"
    wheel, archive = f"winnow_kafka-{VERSION}-py3-none-any.whl", f"winnow_kafka-{VERSION}.tar.gz"
    assert {path.name for path in out.iterdir()} == {wheel, archive, "sbom.cdx.json", "SHA256SUMS"}
    for line in (out / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split()
        assert hashlib.sha256((out / name).read_bytes()).hexdigest() == digest
    with tarfile.open(out / archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    assert {"LICENSE", "setup.cfg", "conf/jars.txt", "demo/log-dir.tar.gz"} <= names
    listed = json.loads((out / "sbom.cdx.json").read_text())
    versions = {part["name"].lower(): part["version"] for part in listed["components"]}
    assert listed["bomFormat"] == "CycloneDX"
    assert versions["winnow-kafka"] == VERSION
    assert {"pyspark", "pyarrow", "numba", "fastavro", "obstore", "hdfs-native"} <= versions.keys()
    jars = [line.split()[0] for line in (ROOT / "conf" / "jars.txt").read_text().splitlines()]
    hashes = {one["content"] for part in listed["components"] for one in part.get("hashes", [])}
    assert {jar for jar in jars if jar != "#"} <= hashes
