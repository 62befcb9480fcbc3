"""A machine without Python, Java or a set-up tree, and `spark-submit.sh` on it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOOLS = ("bash", "dirname", "readlink", "find", "mkdir", "rm", "touch", "mv", "cp", "cat")


def bare_machine(tmp_path: Path) -> Path:
    """The scripts in a tree of their own, and a `bin` with the usual commands but no Python or
    Java.
    """
    for name in (
        "spark-submit.sh",
        "lib/set-up.sh",
        "lib/winnow/runtime/java.sh",
        "requirements.txt",
        "conf/spark-defaults.conf",
    ):
        target = tmp_path / "tree" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found is not None
        (tools / tool).symlink_to(found)
    return tmp_path


def command(machine: Path, name: str, script: str) -> None:
    path = machine / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)


def java(machine: Path, version: str) -> None:
    command(machine, "java", f"echo 'openjdk version \"{version}\" 2026-01-01' >&2")


def python(machine: Path, answer: str, name: str = "python3") -> None:
    command(machine, name, f"echo {answer}")


def start(machine: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [machine / "tree" / "spark-submit.sh", *arguments],
        env={"PATH": str(machine / "bin"), "HOME": str(machine), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def dry(machine: Path, *arguments: str, **environment: str) -> list[str]:
    ended = start(machine, *arguments, WINNOW_DRY="1", **environment)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()
