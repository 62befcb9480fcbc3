"""A command and what it starts leave no core file: it would have keys."""

from __future__ import annotations

import os
import subprocess
import sys


def test_a_command_switches_core_files_off_for_what_it_starts() -> None:
    code = (
        "import atexit, os, resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_CORE, (2**20, 2**30))\n"
        "atexit.register(lambda: os.system('ulimit -Sc; ulimit -Hc'))\n"
        "from winnow.cli.main import main\n"
        "sys.argv = ['winnow', '--version']\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": "lib"},
    )  # fmt: skip
    assert done.stdout.split()[-2:] == ["0", "0"]
