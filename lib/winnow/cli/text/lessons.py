"""The help of each verb besides its options: what it does and changes, examples, exit codes."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from winnow.resources import program

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
    codes: Mapping[int, str]
    """The meaning of its exit codes. Scripts depend on them: do not change them. A process that a
    signal ended before it had a result exits with 128 plus the signal's number, as in a shell.
    """


_STOPPED = "The broker must be stopped: Winnow takes its lock."

_FAILED = {
    1: "failed; the message says why",
    2: "the command is invalid, or no path is a Kafka log directory",
}
_IN_USE = {5: "the log directory is in use; the message says by whom"}
_NO_SPACE = "not enough space for any partition"
_CLEANED = {
    3: "done, but some partitions were left alone or failed, each with its reason, or damaged "
    "batches were quarantined",
    4: "verification of the new files failed; none of them was committed",
    **_IN_USE,
    6: f"{_NO_SPACE}, or retention freed less than --free-at-least",
}

LESSONS: Mapping[str, Lesson] = {
    "plan": Lesson(
        "Show what would be cleaned, and by which rule.",
        f"Changes nothing. {_STOPPED}",
        (
            "plan /var/lib/kafka",
            "plan /var/lib/kafka --topics 'orders*' --estimate --json",
            "plan /var/lib/kafka --out plan.json",
        ),
        {
            0: "every partition is understood, whether there is work to do or not",
            **_FAILED,
            3: "some partitions would be left alone, each with its reason",
            **_IN_USE,
            6: f"{_NO_SPACE}, or retention allows less than --free-at-least",
            10: "with --detailed-exitcode: there is work to do",
            11: "with --detailed-exitcode: partitions are not cleaned because log.cleaner.enable "
            "is false, and --replace-cleaner was not given",
        },
    ),
    "clean": Lesson(
        "Clean, and show every partition before and after.",
        "Replaces and deletes segments. Each replacement is first read back from the disk. "
        f"{_STOPPED}",
        (
            "clean /var/lib/kafka --server-properties FILE",
            "clean /disk1/kafka /disk2/kafka --free-at-least 20GiB",
        ),
        {
            0: "done, or nothing to do",
            **_FAILED,
            **_CLEANED,
        },
    ),
    "prepare": Lesson(
        "Stage a cleaning while the broker runs, for `commit`.",
        "Writes only into directories .winnow-RUN_ID inside partition directories, at a limited "
        "rate, and leaves a tenth of the disk free. The broker may run, stop and start. What was "
        "prepared before and still holds is kept.",
        (
            "prepare /var/lib/kafka --server-properties FILE",
            "prepare /var/lib/kafka --throttle 20MiB --max-age 7d",
        ),
        {
            0: "everything that needs it is prepared",
            **_FAILED,
            3: "done, but some partitions were left alone or failed, each with its reason",
            4: "verification of the new files failed; none of them was kept",
            5: "another run prepares this log directory",
            6: _NO_SPACE,
        },
    ),
    "commit": Lesson(
        "Install what `prepare` staged, while the broker is stopped.",
        "Checks that each preparation still holds, then replaces and deletes segments as `clean` "
        f"does. What no longer holds is dropped, with the reason. {_STOPPED}",
        (
            "commit /var/lib/kafka",
            "commit /var/lib/kafka --timeout 60s --summary",
        ),
        {
            0: "every preparation is installed, or there was none",
            **_FAILED,
            3: "done, but some preparations were dropped or failed, each with its reason",
            **_IN_USE,
        },
    ),
    "apply": Lesson(
        "Carry out a saved plan, exactly, or refuse.",
        "Decides again with the plan's clock and settings, and cleans only if every file and "
        f"every decision is still that of the plan. Otherwise it changes nothing. {_STOPPED}",
        ("apply plan.json",),
        {
            0: "done as planned, or nothing to do",
            1: "refused, because something has changed since the plan was made; or failed",
            2: "the command or the plan is invalid",
            **_CLEANED,
        },
    ),
    "erase": Lesson(
        "Remove all records of some keys, and prove it.",
        "Rewrites only closed segments that contain one of the keys, whatever the cleanup "
        f"policy. Then reads everything again to prove it. --dry-run only counts, and plans the "
        f"erasure over all replicas of the cluster. {_STOPPED}",
        (
            "erase /var/lib/kafka --keys keys.txt --dry-run",
            "erase /var/lib/kafka --keys keys.txt --certificate DIR",
        ),
        {
            0: "none of the keys is left in these partitions, and this is proven",
            **_FAILED,
            1: f"{_FAILED[1]}; also if everything was done but the certificate",
            2: f"{_FAILED[2]}, or no record has any of the keys",
            3: "records are left that no erasure reaches, or something was not searched or not "
            "proven; the output lists it",
            4: "the proof failed",
            **_IN_USE,
            6: _NO_SPACE,
        },
    ),
    "explain": Lesson(
        "Explain what happens to a partition, a record or a key.",
        f"Changes nothing. {_STOPPED}",
        (
            "explain /var/lib/kafka --partition orders-0 --offset 17",
            "explain /var/lib/kafka --partition orders-0 --key ann",
        ),
        {0: "explained", **_FAILED, 3: "the partition can't be understood", **_IN_USE},
    ),
    "verify": Lesson(
        "Read everything and report all that is wrong.",
        f"Changes nothing. {_STOPPED}",
        (
            "verify /var/lib/kafka",
            "verify /var/lib/kafka --key-hash erasure-RUN_ID.json",
        ),
        {
            0: "nothing is wrong",
            **_FAILED,
            3: "no erased key was found (--key-hash), or replicas agree (--compare), but some "
            "directories were not read",
            4: "something is wrong, or an erased key is there (--key-hash); the output lists it",
            **_IN_USE,
        },
    ),
    "doctor": Lesson(
        "One page: what is wrong, what can be freed, what to run next.",
        f"Changes nothing. {_STOPPED}",
        (
            "doctor /var/lib/kafka --server-properties FILE",
            "doctor /var/lib/kafka --summary --detailed-exitcode",
        ),
        {
            0: "no partition is in trouble",
            **_FAILED,
            3: "some partitions can't be cleaned in their current state, or a start of the broker "
            "does harm",
            **_IN_USE,
            6: "the disk is full, and nothing can be freed there",
            10: "something needs attention, and this exit code was asked for",
        },
    ),
    "history": Lesson(
        "Show what past runs did, and what is due again.",
        "Reads only the ledger, no log directory.",
        ("history --since 2026-11-01",),
        {0: "shown", **_FAILED},
    ),
    "demo": Lesson(
        "Clean a copy of a small real log directory.",
        "Works on its own copy, in a new temporary directory.",
        ("demo",),
        {0: "done", **_FAILED, 3: "a partition failed"},
    ),
    "recover": Lesson(
        "Finish what a crash left; recover for a broker; undo a run.",
        "Finishes or rolls back an interrupted run. After a broker crashed, it shows what the "
        "broker's recovery would cut, and --truncate does it. Changes nothing else unless "
        f"asked to. {_STOPPED}",
        ("recover /var/lib/kafka --dry-run", "recover /var/lib/kafka --undo RUN_ID"),
        {
            0: "done, or nothing to do",
            **_FAILED,
            3: "some partitions failed, or a start of the broker would do harm",
            **_IN_USE,
            6: "not enough space for Spark's files",
        },
    ),
    "inspect": Lesson(
        "Show and verify what is in Kafka's files.",
        "Changes nothing and takes no lock: the broker may run. Needs no Spark.",
        (
            "inspect /var/lib/kafka/orders-0",
            "inspect /var/lib/kafka/orders-0 --offset 17 --json",
        ),
        {0: "all that was read is sound", **_FAILED, 3: "some of it is damaged"},
    ),
    "package": Lesson(
        "Pack what the executors of a cluster need, as one archive.",
        "Packs Winnow, its packages and the compiled kernels. Reads no log directory and needs "
        "no Spark. With --master spark://... Winnow does this automatically. Pack the archive "
        "yourself to store it where executors fetch it, as in "
        "`--archives hdfs:///winnow.tar.gz#winnow`.",
        ("package --output FILE",),
        {0: "written", **_FAILED, 2: "the command is invalid"},
    ),
    "set-up": Lesson(
        "Set up what is missing on this machine, and nothing else.",
        "The first command does the same, in about 5 minutes. So run `set-up` before a broker is "
        "stopped, and set WINNOW_SET_UP=no for all other commands: they then fail at once if the "
        "set-up is not complete. Reads no log directory and needs no Spark.",
        ("set-up",),
        {0: "everything is set up", 1: _FAILED[1], 2: "the command is invalid"},
    ),
}


ALL = Lesson(
    "Cleans Apache Kafka log directories without a broker: retention and compaction, exactly as "
    "Kafka would.",
    "Start with `doctor`, which changes nothing. VERB --help has examples.",
    ("doctor /var/lib/kafka",),
    {
        0: "done, or nothing to do",
        1: "failed",
        2: "the command is invalid",
        3: "some partitions left alone or failed",
        4: "verification failed and nothing was committed, or findings of verify",
        5: "the log directory is in use",
        6: "not enough space",
    },
)
"""The help without a verb."""


def epilog(lesson: Lesson) -> str:
    """Return the text for click: paragraphs that it wraps, and lines that it does not."""
    commands = [f"{program()} {example}" for example in lesson.examples]
    meanings = [f"{code}  {words}" for code, words in lesson.codes.items()]
    title = "Example" if len(commands) == 1 else "Examples"
    parts = (lesson.changes, _listed(title, commands), _listed("Exit codes", meanings))
    return "\n\n".join(parts)


def _listed(title: str, lines: Sequence[str]) -> str:
    wrapped = [
        textwrap.fill(line, WIDTH, initial_indent="  ", subsequent_indent="     ") for line in lines
    ]
    return "\n".join((VERBATIM, f"{title}:", *wrapped))
