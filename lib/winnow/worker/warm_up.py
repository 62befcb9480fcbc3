"""Compile every kernel, or load it from numba's cache: once at set-up, then in the process that
workers fork from.

Run as `python -m winnow.worker.warm_up` with NUMBA_CACHE_DIR set as for the workers.
"""

from __future__ import annotations


def warm_up() -> None:
    """Call each package's kernels on tiny input of exactly the types that real input has."""
    # Not at the top: importing this module must not pay for numba.
    from winnow.clean.scan import cut  # noqa: PLC0415
    from winnow.clean.scan import last_offsets as kernels  # noqa: PLC0415
    from winnow.logdir import fast_listing  # noqa: PLC0415
    from winnow.logdir.indexes import index  # noqa: PLC0415
    from winnow.storage import small_files  # noqa: PLC0415
    from winnow.wire import warm_up as wire  # noqa: PLC0415

    wire.warm_up()
    small_files.warm_up()
    index.warm_up()
    fast_listing.warm_up()
    cut.warm_up()
    kernels.warm_up()


if __name__ == "__main__":
    warm_up()
