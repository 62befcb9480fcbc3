"""The Python API as it is used in a notebook: plans and results that show themselves, ask further
and act.

A layer over `winnow.api`, which the command line uses as well.
"""

from winnow.values.comparing import compare
from winnow.values.plans import Plan
from winnow.values.result import Result
from winnow.values.verbs import clean, explain, ledger_table, plan, verify

__all__ = ["Plan", "Result", "clean", "compare", "explain", "ledger_table", "plan", "verify"]
