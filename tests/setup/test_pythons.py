"""What older supported versions of Python do not have."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNPACK = """
import sys
from winnow.cli.demo import unpack
print(unpack(sys.argv[1]))
"""


def test_demo_is_unpacked_by_python_without_tar_filters(tmp_path: Path) -> None:
    """Python 3.11.0 to 3.11.3, of which Debian 12 has 3.11.2, do not know `filter=`."""
    python = shutil.which("/usr/bin/python3")
    if python is None:
        pytest.skip("no system Python")
    of_this_machine = subprocess.run(
        [python, "-c", "import sys; print(*sys.version_info[:3])"],
        capture_output=True,
        text=True,
        check=True,
    )
    if not of_this_machine.stdout.startswith(sysconfig.get_python_version().replace(".", " ")):
        pytest.skip("the system's Python can't import the packages of this one")
    packages = sysconfig.get_path("platlib")
    ended = subprocess.run(
        [python, "-W", "error::DeprecationWarning:winnow", "-c", UNPACK, str(tmp_path)],
        env={"PYTHONPATH": f"{ROOT / 'lib'}:{packages}", "NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    assert (Path(ended.stdout.strip()) / "meta.properties").is_file()
