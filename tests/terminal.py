"""Programs on a real pseudo-terminal, and what a person sees there."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

COLUMNS, LINES = 80, 24
_ROOT = Path(__file__).resolve().parent.parent
_PART = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|[\r\n]|[^\x1b\r\n]+|\x1b")


@dataclass(frozen=True)
class Seen:
    """What a program wrote to its terminal."""

    code: int
    text: str
    """All of it, escape sequences included."""

    @property
    def lines(self) -> list[str]:
        """The lines that remain on the screen and above it, as written: one that was too long for
        the screen is one line here.
        """
        return _play(self.text)[0]

    @property
    def painted(self) -> list[str]:
        """All lines that were ever on the screen, also those that were erased again."""
        return _play(self.text)[1]


def on_a_terminal(
    words: Sequence[str],
    answer: str | bytes = "",
    *,
    until: str = "",
    environment: Mapping[str, str] | None = None,
    wait_s: float = 240,
) -> Seen:
    """Run on a terminal of its own, of 80 columns, and type `answer` when `until` is shown."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(_ROOT)
        own = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        own |= {"TERM": "xterm-256color"} | dict(environment or {})
        os.execve(words[0], list(words), own)  # noqa: S606 - a shell would quote the words
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    shown, answered, deadline = b"", False, time.monotonic() + wait_s
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.5)[0]:
            try:
                data = os.read(terminal, 65536)
            except OSError:  # the terminal's last process has ended
                break
            shown += data
        if until and not answered and until.encode() in shown:
            os.write(terminal, answer.encode() if isinstance(answer, str) else answer)
            answered = True
    else:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    text = shown.decode(errors="replace")
    assert answered or not until, text[-3000:]
    return Seen(os.waitstatus_to_exitcode(status), text)


def _play(text: str) -> tuple[list[str], list[str]]:
    """Obey what Winnow uses: carriage return, new line, cursor up, erase line. Styles and the
    cursor's look are skipped; anything else is an error.
    """
    rows, painted, row, column = [""], [], 0, 0
    for found in _PART.finditer(text):
        part, order = found[0], found[2]
        if order == "A":
            row = max(row - int(found[1] or 1), 0)
        elif order == "K":
            rows[row] = "" if found[1] == "2" else rows[row][:column]
        elif order is not None:
            assert order in "mhl", repr(part)
        elif part == "\r":
            column = 0
        elif part == "\n":
            row += 1
            rows += [""] * (row + 1 - len(rows))
        else:
            assert part != "\x1b", repr(text[found.start() : found.start() + 10])
            rows[row] = rows[row][:column].ljust(column) + part + rows[row][column + len(part) :]
            column += len(part)
            painted.append(rows[row])
    return [row.rstrip() for row in rows], painted
