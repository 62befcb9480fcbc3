"""What a run of an installed package would have to set up. In a checkout, spark-submit.sh looks."""

from __future__ import annotations

import os

from winnow.errors import WinnowError
from winnow.resources import is_checkout


def check_set_up() -> None:
    """Raise WinnowError if something is missing, and WINNOW_SET_UP=no forbids to set it up, as
    while a broker is stopped.
    """
    if os.environ.get("WINNOW_SET_UP") != "no" or is_checkout():
        return
    from winnow.compiled import is_complete  # noqa: PLC0415 - it loads numba
    from winnow.ledger.delta import missing_jars  # noqa: PLC0415 - rarely needed

    missing = ["compiled kernels"] * (not is_complete()) + ["Delta's jars"] * missing_jars()
    if missing:
        raise WinnowError(
            f"Winnow is not set up, and WINNOW_SET_UP=no: missing are {' and '.join(missing)}",
            hint="Run `winnow set-up` while the broker runs.",
        )
