"""Compile every kernel, or load it from where compiled ones are kept (`winnow.compiled`): once at
set-up, as `python -m winnow.worker.warm_up`, then in the process that workers fork from.
"""

from __future__ import annotations

import sys


def warm_up() -> None:
    """Call each package's kernels on tiny input of exactly the types that real input has."""
    # Not at the top: importing this module must not pay for numba.
    from winnow.cleaning.summaries import truncated  # noqa: PLC0415
    from winnow.logdir import fast_listing  # noqa: PLC0415
    from winnow.logdir.indexes import index  # noqa: PLC0415
    from winnow.scan import cut  # noqa: PLC0415
    from winnow.scan import last_offsets as kernels  # noqa: PLC0415
    from winnow.storage import small_files  # noqa: PLC0415
    from winnow.wire import warm_up as wire  # noqa: PLC0415

    wire.warm_up()
    small_files.warm_up()
    index.warm_up()
    fast_listing.warm_up()
    cut.warm_up()
    kernels.warm_up()
    truncated.warm_up()


def ensure_compiled() -> None:
    """Compile all kernels if this machine's are not kept anywhere, with a note on stderr."""
    from winnow.compiled import is_complete, mark_complete  # noqa: PLC0415

    if is_complete():
        return
    note = "winnow: compiling the kernels for this processor (once, about half a minute)"
    print(note, file=sys.stderr, flush=True)  # noqa: T201
    warm_up()
    mark_complete()


if __name__ == "__main__":
    from winnow.compiled import mark_complete

    warm_up()
    mark_complete()
