"""The process that Spark forks its Python workers from, with everything loaded before the first fork.

`spark.python.daemon.module` names this module. Without it each worker imports numba and loads the compiled kernels
itself, and pays 40 ms after every task to collect garbage among objects that never die, and 60 ms before every task to
read archives (`winnow.engine.archives`).
"""

from __future__ import annotations

import gc


def main() -> None:
    from winnow.engine.archives import load_from_files  # noqa: PLC0415

    load_from_files()
    # The worker, as all that follows, is loaded for those that are forked: else it is gone through after each task.
    from pyspark import worker  # noqa: F401, PLC0415
    from pyspark.daemon import manager  # noqa: PLC0415

    from winnow.engine import compaction, survey  # noqa: F401, PLC0415
    from winnow.warm_up import warm_up  # noqa: PLC0415

    warm_up()
    gc.collect()
    gc.freeze()
    manager()


if __name__ == "__main__":
    main()
