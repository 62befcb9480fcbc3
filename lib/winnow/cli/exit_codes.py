"""The meaning of each verb's exit codes. Scripts depend on them: do not change them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_FAILED = {
    1: "failed; the message says why",
    2: "the command is invalid, or a path is not a Kafka log directory",
}
_IN_USE = {5: "the log directory is in use; the message says by whom"}
_LEFT = "some partitions were left alone or failed, each with its reason"

EXIT_CODES: Mapping[str, Mapping[int, str]] = MappingProxyType(
    {
        "plan": {
            0: "every partition is understood, whether there is work to do or not",
            **_FAILED,
            3: "some partitions would be left alone, each with its reason",
            **_IN_USE,
            6: "not enough space for any partition, or retention allows less than --free-at-least",
            10: "there is work to do, and this exit code was asked for",
        },
        "clean": {
            0: "done, or nothing to do",
            **_FAILED,
            3: f"done, but {_LEFT}, or damaged batches were quarantined",
            4: "verification of the new files failed; none of them was committed",
            **_IN_USE,
            6: "not enough space for any partition, or retention freed less than --free-at-least",
        },
        "apply": {
            0: "done as planned, or nothing to do",
            1: "refused, because something has changed since the plan was made; or failed",
            2: "the command or the plan is invalid",
            3: f"done, but {_LEFT}, or damaged batches were quarantined",
            4: "verification of the new files failed; none of them was committed",
            **_IN_USE,
            6: "not enough space for any partition, or retention freed less than --free-at-least",
        },
        "erase": {
            0: "none of the keys is left in these partitions, and this is proven",
            **_FAILED,
            1: f"{_FAILED[1]}; also if everything was done but the certificate",
            2: f"{_FAILED[2]}, or no record has any of the keys",
            3: "proven in all rewritable segments, but records are left elsewhere; the output "
            "lists them",
            4: "the proof failed",
            **_IN_USE,
            6: "not enough space for any partition",
        },
        "explain": {0: "explained", **_FAILED, 3: "the partition can't be understood", **_IN_USE},
        "verify": {
            0: "nothing is wrong",
            **_FAILED,
            4: "something is wrong, or an erased key is there (--key-hash); the output lists it",
            **_IN_USE,
        },
        "doctor": {
            0: "no partition is in trouble",
            **_FAILED,
            3: "some partitions can't be cleaned in their current state",
            **_IN_USE,
            6: "the disk is full, and the topics' own settings allow nothing to be freed",
        },
        "history": {0: "shown", **_FAILED},
        "demo": {0: "done", **_FAILED, 3: "a partition failed"},
        "recover": {0: "done, or nothing to do", **_FAILED, 3: "some partitions failed", **_IN_USE},
        "inspect": {0: "all that was read is sound", **_FAILED, 3: "some of it is damaged"},
        "package": {
            0: "written",
            1: "failed; the message says why",
            2: "the command is invalid",
        },
    }
)
"""By verb. A process that a signal ended before it had a result exits with 128 plus the signal's
number, as in a shell.
"""

IN_SHORT = MappingProxyType(
    {
        0: "done, or nothing to do",
        1: "failed",
        2: "the command is invalid",
        3: "some partitions left alone or failed",
        4: "verification failed and nothing was committed, or findings of verify",
        5: "the log directory is in use",
        6: "not enough space",
    }
)
"""Over all verbs."""
