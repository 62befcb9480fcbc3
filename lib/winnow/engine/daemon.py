"""The process that Spark forks its Python workers from, with everything loaded before the first fork.

`spark.python.daemon.module` names this module. Without it each worker imports numba and loads the compiled kernels
itself, and pays 40 ms after every task to collect garbage among objects that never die.
"""

from __future__ import annotations

import gc


def main() -> None:
    # The second is what a worker runs. Loaded after the fork, it would be gone through after every task.
    from pyspark import daemon, worker  # noqa: F401, PLC0415

    from winnow.engine import compaction, survey  # noqa: F401, PLC0415 - loaded for the workers
    from winnow.warm_up import warm_up  # noqa: PLC0415

    warm_up()
    gc.collect()
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
