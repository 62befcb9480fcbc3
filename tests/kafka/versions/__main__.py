"""`python -m tests.kafka.versions [--kafka-version 3.9 ...] [--record]`: real brokers of each
version fill, start again, and clean; see docs/proofs/kafka-versions.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from pathlib import Path

import pytest

from tests.conftest import local_session
from tests.kafka.judge.jars import PROJECT
from tests.kafka.versions.eras import ERAS, Era
from tests.kafka.versions.record import add_to, row
from tests.kafka.versions.story import Outcome, tell
from tests.kafka.versions.verbs import command_of

PAGE = PROJECT / "docs" / "proofs" / "kafka-versions.md"
OUTPUTS = PROJECT / "tests" / "fixtures" / "kafka-configs"


def main() -> int:
    options = _options()
    failed = False
    with pytest.MonkeyPatch.context() as patch:
        command = command_of(local_session(), patch)
        for era in _chosen(options.kafka_version):
            with tempfile.TemporaryDirectory(prefix="winnow-versions-") as scratch:
                patch.setenv("XDG_STATE_HOME", f"{scratch}/state")
                began = time.monotonic()
                keep = OUTPUTS if options.record else None
                try:
                    outcome = tell(era, Path(scratch), command, keep=keep)
                except (AssertionError, LookupError, ValueError, OSError) as error:
                    traceback.print_exc()
                    outcome = Outcome(era, problems=[f"{type(error).__name__}: {error}"])
            for problem in outcome.problems:
                sys.stdout.write(f"{era.name}: {problem}\n")
            sys.stdout.write(f"{row(outcome)} {time.monotonic() - began:.0f} s\n")
            sys.stdout.flush()
            if options.record:
                add_to(PAGE, outcome)
            failed = failed or bool(outcome.problems)
    return 1 if failed else 0


def _chosen(versions: list[str]) -> list[Era]:
    known = {text for era in ERAS for text in era.names}
    if unknown := set(versions) - known:
        sys.exit(f"no broker of {', '.join(sorted(unknown))}: expected {', '.join(sorted(known))}")
    return [era for era in ERAS if not versions or era.names & set(versions)]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--kafka-version", nargs="+", default=[], metavar="X.Y", help="only these; default: all"
    )
    parser.add_argument(
        "--record",
        action="store_true",
        help=f"write the rows of {PAGE.name}, and what the versions' tools print",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
