"""The process from which Spark forks its Python workers, with everything loaded before the first
fork.

`spark.python.daemon.module` names this module. Without it each worker imports numba and loads the
compiled kernels itself. It also spends 40 ms after every task on collecting garbage among objects
that never die, and 60 ms before every task on reading archives (`winnow.worker.archives`).
"""

from __future__ import annotations

import gc


def main() -> None:
    from winnow.runtime.core_files import make_no_core_files  # noqa: PLC0415
    from winnow.worker.standby import describe, hand_over  # noqa: PLC0415
    from winnow.worker.warm_up import ensure_compiled  # noqa: PLC0415

    make_no_core_files()
    if not hand_over(describe()):
        ensure_compiled()
        load()
        serve()


def load() -> None:
    from winnow.runtime.freed_memory import keep_freed_memory  # noqa: PLC0415
    from winnow.worker.archives import load_from_files  # noqa: PLC0415

    load_from_files()
    keep_freed_memory()
    # Load the worker and everything below before forking. Otherwise each task's garbage collection
    # examines these objects.
    from pyspark import daemon, worker  # noqa: F401, PLC0415

    from winnow.cleaning.rewrite import compaction  # noqa: F401, PLC0415
    from winnow.survey import survey  # noqa: F401, PLC0415
    from winnow.worker.warm_up import warm_up  # noqa: PLC0415

    warm_up()
    gc.collect()
    gc.freeze()


def serve() -> None:
    """Fork workers for Spark until it closes the standard input."""
    from pyspark import daemon  # noqa: PLC0415

    from winnow.runtime.hung_up import until_hung_up  # noqa: PLC0415

    daemon.worker = until_hung_up(daemon.worker)
    daemon.manager()


if __name__ == "__main__":
    main()
