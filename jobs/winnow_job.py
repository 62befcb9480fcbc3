"""The application that `spark-submit` runs for every verb: Winnow's command line."""

import sys
from pathlib import Path

try:
    from winnow.worker import standby
except ModuleNotFoundError as error:
    lib = Path(__file__).resolve().parent.parent / "lib"
    sys.exit(
        f"winnow: Python lacks {error.name}. ./spark-submit.sh sets up what Winnow needs. For "
        f"plain spark-submit, set PYTHONPATH={lib} and install the packages of requirements.txt."
    )

if __name__ == "__main__":
    standby.start()  # before anything else is imported
    from winnow.cli.main import main

    main()
