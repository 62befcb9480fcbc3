"""What a verb's help shows besides its options: what it changes, an example, its exit codes."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from winnow.cli.exit_codes import EXIT_CODES, IN_SHORT

VERBATIM = "\b"
"""Click does not wrap the lines of a paragraph that begins with this character."""
WIDTH = 76
"""80 columns of a terminal, less click's own indentation."""


@dataclass(frozen=True, slots=True)
class Lesson:
    short: str
    """For the list of all verbs: at most 65 characters."""
    changes: str
    """What it does to the log directory, and whether the broker must be stopped."""
    examples: tuple[str, ...]
    """Command lines without the program, short enough for one line of a terminal."""


_STOPPED = "The broker is stopped: its lock is taken."

LESSONS: Mapping[str, Lesson] = MappingProxyType(
    {
        "plan": Lesson(
            "Show what would be cleaned, and which rule says so.",
            f"Changes nothing. {_STOPPED}",
            ("plan /var/lib/kafka", "plan /var/lib/kafka --topics 'orders*' --estimate --json"),
        ),
        "clean": Lesson(
            "Clean, and show before and after of every partition.",
            f"Replaces and deletes segments, each after its replacement was read back from the disk. {_STOPPED}",
            (
                "clean /var/lib/kafka --server-properties FILE",
                "clean /disk1/kafka /disk2/kafka --free-at-least 20GiB",
            ),
        ),
        "erase": Lesson(
            "Take all records of some keys out, and prove it.",
            f"Rewrites the segments that hold one of the keys, and no others; --dry-run only counts. {_STOPPED}",
            ("erase /var/lib/kafka --keys keys.txt --dry-run",),
        ),
        "explain": Lesson(
            "Say why: of a partition, of a record, of a key.",
            f"Changes nothing. {_STOPPED}",
            (
                "explain /var/lib/kafka --partition orders-0 --offset 17",
                "explain /var/lib/kafka --partition orders-0 --key ann",
            ),
        ),
        "verify": Lesson(
            "Read everything and name all that is wrong.",
            f"Changes nothing. {_STOPPED}",
            ("verify /var/lib/kafka", "verify /var/lib/kafka --json"),
        ),
        "doctor": Lesson(
            "One page: what ails it, what can be freed, what to run next.",
            f"Changes nothing. {_STOPPED}",
            ("doctor /var/lib/kafka --server-properties FILE",),
        ),
        "history": Lesson(
            "Show what past runs did, and what is due again.",
            "Reads the ledger; no log directory is looked at.",
            ("history --since 2026-11-01",),
        ),
        "demo": Lesson(
            "Clean a copy of a small real log directory.",
            "Works on a copy of its own, in a new directory for temporary files.",
            ("demo",),
        ),
        "recover": Lesson(
            "Finish what a crash left; undo a run, or free what it kept.",
            f"Puts right what an interrupted run left, and nothing else unless asked to. {_STOPPED}",
            ("recover /var/lib/kafka --dry-run", "recover /var/lib/kafka --undo RUN_ID"),
        ),
        "inspect": Lesson(
            "Show what is in Kafka's files, verified.",
            "Changes nothing and takes no lock: the broker may run.",
            (
                "inspect /var/lib/kafka/orders-0",
                "inspect /var/lib/kafka/orders-0 --offset 17 --json",
            ),
        ),
        "package": Lesson(
            "Pack what the executors of a cluster need, as one archive.",
            "No log directory is looked at. With --master spark://... this is done by itself; the archive is for those "
            "who keep it where executors fetch it, as in `--archives hdfs:///winnow.tar.gz#winnow`.",
            ("package --output FILE",),
        ),
    }
)


def epilog(verb: str, *, program: str = "./spark-submit.sh") -> str:
    """Return the text for click: paragraphs that it wraps, and lines that it does not."""
    lesson = LESSONS[verb]
    examples = [f"{program} {example}" for example in lesson.examples]
    codes = [f"{code}  {words}" for code, words in EXIT_CODES[verb].items()]
    return "\n\n".join(
        (
            lesson.changes,
            _listed("Example" if len(examples) == 1 else "Examples", examples),
            _listed("Exit codes", codes),
        )
    )


def epilog_of_all(*, program: str = "./spark-submit.sh") -> str:
    first = "Begin with `doctor`, which changes nothing; VERB --help has examples."
    codes = [f"{code}  {words}" for code, words in IN_SHORT.items()]
    return "\n\n".join(
        (
            first,
            _listed("Example", [f"{program} doctor /var/lib/kafka"]),
            _listed("Exit codes", codes),
        )
    )


def _listed(title: str, lines: Sequence[str]) -> str:
    wrapped = [
        textwrap.fill(line, WIDTH, initial_indent="  ", subsequent_indent="     ") for line in lines
    ]
    return "\n".join((VERBATIM, f"{title}:", *wrapped))
