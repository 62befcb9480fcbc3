"""Winnow's Python API. Each function describes its arguments: `help(winnow.clean)`.

`winnow` itself offers those that notebooks need. The command line calls these functions too; for
`plan` and `clean` it calls `winnow.api.run`, which they are built on. Each function is loaded when
it is first used, for its modules take up to a second.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from winnow.api.checking import compare_replicas, doctor, explain, verify
    from winnow.api.cleaning import clean, plan
    from winnow.api.erasing import erase, verify_key_hashes
    from winnow.api.plans import Plan, compare
    from winnow.api.prepared import commit, prepare
    from winnow.api.result import Result
    from winnow.ledger.history import erasures, history, ledger_table
    from winnow.recovery.runs.run import recover

__all__ = [
    "Plan",
    "Result",
    "clean",
    "commit",
    "compare",
    "compare_replicas",
    "doctor",
    "erase",
    "erasures",
    "explain",
    "history",
    "ledger_table",
    "plan",
    "prepare",
    "recover",
    "verify",
    "verify_key_hashes",
]

_HOMES = {
    "winnow.api.checking": ("compare_replicas", "doctor", "explain", "verify"),
    "winnow.api.cleaning": ("clean", "plan"),
    "winnow.api.erasing": ("erase", "verify_key_hashes"),
    "winnow.api.plans": ("Plan", "compare"),
    "winnow.api.prepared": ("commit", "prepare"),
    "winnow.api.result": ("Result",),
    "winnow.ledger.history": ("erasures", "history", "ledger_table"),
    "winnow.recovery.runs.run": ("recover",),
}


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
