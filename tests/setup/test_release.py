"""What a release publishes is built by one command, and is whole."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from winnow.version import VERSION

ROOT = Path(__file__).parents[2]


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
