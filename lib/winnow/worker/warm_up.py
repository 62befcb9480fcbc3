"""Compile every kernel, or load it from where compiled ones are kept (`winnow.compiled`): once at
set-up, as `python -m winnow.worker.warm_up`, then in the process that workers fork from.
"""

from __future__ import annotations

import sys


def warm_up() -> None:
    """Call each package's kernels on tiny input of exactly the types that real input has. Record
    that all are compiled.
    """
    # Not at the top: importing this module must not pay for numba.
    from winnow.cleaning.summaries import truncated  # noqa: PLC0415
    from winnow.compiled import mark_complete  # noqa: PLC0415
    from winnow.logdir.indexes import kernels as indexes  # noqa: PLC0415
    from winnow.scan import cut, last_offsets  # noqa: PLC0415
    from winnow.storage import small_files  # noqa: PLC0415
    from winnow.wire import warm_up as wire  # noqa: PLC0415

    for module in (wire, small_files, indexes, cut, last_offsets, truncated):
        module.warm_up()
    mark_complete()


def ensure_compiled() -> None:
    """Compile all kernels if this machine's are not kept anywhere, with a note on stderr."""
    from winnow.compiled import is_complete  # noqa: PLC0415

    if is_complete():
        return
    note = "winnow: compiling the kernels for this processor (once, about half a minute)"
    print(note, file=sys.stderr, flush=True)  # noqa: T201
    warm_up()


if __name__ == "__main__":
    warm_up()
