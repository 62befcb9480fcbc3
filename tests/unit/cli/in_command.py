"""What a command has set for the programs that it starts."""

from __future__ import annotations

import os
import subprocess
import sys


def output_in_command(shell: str, *, before: str) -> list[str]:
    """Return the words that a shell command prints if a command of Winnow runs it.

    `before`: Python statements that come before the command.
    """
    code = (
        "import os, resource\n"
        f"{before}\n"
        "from winnow.cli import main as command\n"
        f"command.run = lambda *words, **options: os.system({shell!r})\n"
        "command.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": "lib"},
    )  # fmt: skip
    return done.stdout.split()
