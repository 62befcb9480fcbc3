"""The verb `set-up`. Needs no Spark."""

from __future__ import annotations

import time

from winnow.cli.call import Call
from winnow.resources import is_checkout


def run_set_up(call: Call) -> int:
    """Set up what is missing: what `spark-submit.sh` has not set up before it started this."""
    began = time.monotonic()
    if not is_checkout():
        with call.progress() as progress:
            progress.stage("setting up")
            _set_up_package()
    seconds = round(time.monotonic() - began, 1)
    ready = f"Everything is set up ({seconds:.0f} s): no run will set up anything."
    call.answer(lambda: {"status": "done", "seconds": seconds}, [ready])
    return 0


def _set_up_package() -> None:
    """Compile the kernels, and fetch the jars that the ledger needs."""
    from winnow.ledger.delta import fetched_jars  # noqa: PLC0415 - rarely needed
    from winnow.worker.warm_up import ensure_compiled  # noqa: PLC0415 - it loads numba

    ensure_compiled()
    fetched_jars()
