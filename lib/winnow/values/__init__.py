"""The Python API for notebooks: plans and results that display themselves, try other settings, and
can be executed.

A layer over `winnow.api`, which the command line uses as well.
"""

from winnow.values.plans import Plan, compare
from winnow.values.result import Result
from winnow.values.verbs import clean, explain, ledger_table, plan, verify

__all__ = ["Plan", "Result", "clean", "compare", "explain", "ledger_table", "plan", "verify"]
