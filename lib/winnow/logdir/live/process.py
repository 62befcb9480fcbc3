"""What the system tells about another process (`/proc`)."""

from __future__ import annotations

import os
import re
from contextlib import suppress

from winnow.words import redacted

_SECRET = re.compile(
    r"((?:secret|password|passwd|token|credential|api.?key)[\w.-]*[= ])\S+", re.IGNORECASE
)
"""A setting or an option of another process that must not be shown."""
_MOST_COMMAND = 2**18
"""Bytes of a command line: a broker's class path alone has about 10,000."""


def described(pid: int | None) -> str:
    if pid is None:
        return "a process that can't be seen from here (another container or another host?)"
    command = _command_line(pid)
    return f"process {pid}" + (f": {command}" if command else "")


def start_ms(pid: int) -> int | None:
    """Return when a process started, in ms since 1970. None: unknown."""
    with suppress(OSError, ValueError, IndexError):
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            # The name of the program, in parentheses, may have spaces in it.
            ticks = int(file.read().rpartition(")")[2].split()[19])
        with open("/proc/stat", encoding="ascii") as lines:
            booted_s = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
        return booted_s * 1000 + ticks * 1000 // os.sysconf("SC_CLK_TCK")
    return None


def properties_file(pid: int) -> str | None:
    """Return the properties file that a broker was started with, if this process can see it."""
    given = next(iter(_command_words(pid)[2:]), "")  # after java and its main class
    with suppress(OSError):
        file = os.path.join(os.readlink(f"/proc/{pid}/cwd"), given)
        return file if file.endswith(".properties") and os.path.isfile(file) else None
    return None


def _command_line(pid: int) -> str:
    command = _SECRET.sub(r"\1***", redacted(" ".join(_command_words(pid))[:4096]))
    limit = 160
    return (
        command if len(command) <= limit else f"{command[: limit // 2]} … {command[-limit // 2 :]}"
    )


def _command_words(pid: int) -> list[str]:
    """Return the words of a command, without the JVM options. Empty: they are unknown."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(_MOST_COMMAND).decode(errors="replace").split("\0")
    except OSError:
        return []
    words = [word for word in words if word]
    if words and os.path.basename(words[0]) == "java":
        words = [words[0], *_without_options(words[1:])]
    return words


def _without_options(words: list[str]) -> list[str]:
    """Drop the JVM options: operators know a broker by its main class and arguments."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in {"-cp", "-classpath", "--class-path"} else 1
    return words[at:]
