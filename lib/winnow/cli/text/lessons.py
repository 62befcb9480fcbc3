"""The help of each verb besides its options: what it does and changes, examples, exit codes."""

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
    """The first line of its help, and its line in the list of all verbs: at most 65 characters."""
    changes: str
    """What it does to the log directory, and whether the broker must be stopped."""
    examples: tuple[str, ...]
    """Command lines without the program, short enough for one line of a terminal."""


_STOPPED = "The broker must be stopped: Winnow takes its lock."

LESSONS: Mapping[str, Lesson] = MappingProxyType(
    {
        "plan": Lesson(
            "Show what would be cleaned, and by which rule.",
            f"Changes nothing. {_STOPPED}",
            (
                "plan /var/lib/kafka",
                "plan /var/lib/kafka --topics 'orders*' --estimate --json",
                "plan /var/lib/kafka --out plan.json",
            ),
        ),
        "clean": Lesson(
            "Clean, and show every partition before and after.",
            "Replaces and deletes segments. Each replacement is first read back from the disk. "
            f"{_STOPPED}",
            (
                "clean /var/lib/kafka --server-properties FILE",
                "clean /disk1/kafka /disk2/kafka --free-at-least 20GiB",
            ),
        ),
        "apply": Lesson(
            "Carry out a saved plan, exactly, or refuse.",
            "Decides again with the plan's clock and settings, and cleans only if every file and "
            f"every decision is still that of the plan. Otherwise it changes nothing. {_STOPPED}",
            ("apply plan.json",),
        ),
        "erase": Lesson(
            "Remove all records of some keys, and prove it.",
            "Rewrites only closed segments that contain one of the keys, whatever the cleanup "
            f"policy. Then reads everything again to prove it. --dry-run only counts. {_STOPPED}",
            (
                "erase /var/lib/kafka --keys keys.txt --dry-run",
                "erase /var/lib/kafka --keys keys.txt --certificate DIR",
            ),
        ),
        "explain": Lesson(
            "Explain what happens to a partition, a record or a key.",
            f"Changes nothing. {_STOPPED}",
            (
                "explain /var/lib/kafka --partition orders-0 --offset 17",
                "explain /var/lib/kafka --partition orders-0 --key ann",
            ),
        ),
        "verify": Lesson(
            "Read everything and report all that is wrong.",
            f"Changes nothing. {_STOPPED}",
            (
                "verify /var/lib/kafka",
                "verify /var/lib/kafka --key-hash erasure-RUN_ID.json",
            ),
        ),
        "doctor": Lesson(
            "One page: what is wrong, what can be freed, what to run next.",
            f"Changes nothing. {_STOPPED}",
            ("doctor /var/lib/kafka --server-properties FILE",),
        ),
        "history": Lesson(
            "Show what past runs did, and what is due again.",
            "Reads only the ledger, no log directory.",
            ("history --since 2026-11-01",),
        ),
        "demo": Lesson(
            "Clean a copy of a small real log directory.",
            "Works on its own copy, in a new temporary directory.",
            ("demo",),
        ),
        "recover": Lesson(
            "Finish what a crash left; recover for a broker; undo a run.",
            "Finishes or rolls back an interrupted run. After a broker crashed, it shows what the "
            "broker's recovery would cut, and --truncate does it. Changes nothing else unless "
            f"asked to. {_STOPPED}",
            ("recover /var/lib/kafka --dry-run", "recover /var/lib/kafka --undo RUN_ID"),
        ),
        "inspect": Lesson(
            "Show and verify what is in Kafka's files.",
            "Changes nothing and takes no lock: the broker may run. Needs no Spark.",
            (
                "inspect /var/lib/kafka/orders-0",
                "inspect /var/lib/kafka/orders-0 --offset 17 --json",
            ),
        ),
        "package": Lesson(
            "Pack what the executors of a cluster need, as one archive.",
            "Packs Winnow, its packages and the compiled kernels. Reads no log directory and needs "
            "no Spark. With --master spark://... Winnow does this automatically. Pack the archive "
            "yourself to store it where executors fetch it, as in "
            "`--archives hdfs:///winnow.tar.gz#winnow`.",
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
    first = "Start with `doctor`, which changes nothing. VERB --help has examples."
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
