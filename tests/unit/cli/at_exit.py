"""What a command has set for the programs that it starts."""

from __future__ import annotations

import os
import subprocess
import sys


def said_at_exit(shell: str, *, before: str) -> list[str]:
    """Run a command of Winnow, and return the words that a shell command prints at its exit.

    `before`: Python statements that come before the command.
    """
    code = (
        "import atexit, os, resource, sys\n"
        f"{before}\n"
        f"atexit.register(lambda: os.system({shell!r}))\n"
        "from winnow.cli.main import main\n"
        "sys.argv = ['winnow', '--version']\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": "lib"},
    )  # fmt: skip
    return done.stdout.split()
