"""`python -m tests.kafka.starts [--kafka-version V ...] [--states N] [--seed S] [--record]`: real
brokers start on damaged log directories, and Winnow's verdict is compared with their fates.

`--states 0` compares the recorded fates, without a broker. The exit code is 1 if anything differs
that `known.py` does not explain.
"""

from __future__ import annotations

import argparse
import re
import sys
from datetime import UTC, datetime

from tests.kafka.starts.bases import KINDS, VERSIONS
from tests.kafka.starts.campaign import judged, started
from tests.kafka.starts.page import write
from tests.kafka.starts.rare import rare
from tests.kafka.starts.recorded import Record, file_of, load, merged, save
from tests.kafka.starts.table import State, drawn, singles
from tests.machine import processor


def main() -> int:
    options = _options()
    failed = False
    for version in options.kafka_version or VERSIONS:
        record = load(version) if file_of(version).exists() else Record(version, "", {})
        states = [State(version, kind) for kind in KINDS]
        states = [state for state in states if state not in record.fates] + _chosen(
            version, options
        )
        new = []
        for state, fate in started(states, jobs=options.jobs):
            new.append((state, fate))
            _say(f"{version} {state.name}: {fate.words}")
        if new:
            record = merged(record, new, _made())
        if options.record:
            save(record)
            record = load(version)
        shown = record.fates if options.record or not new else dict(new)
        results = [judged(record, state, fate) for state, fate in shown.items()]
        for one in results:
            if one.unexplained:
                _say(one.words())
        differing = sum(bool(one.unexplained) for one in results)
        _say(f"{version}: {len(results)} states, {differing} differ")
        failed = failed or differing > 0
    if options.record:
        write([load(version) for version in VERSIONS])
    return int(failed)


def _chosen(version: str, options: argparse.Namespace) -> list[State]:
    if options.only is None:
        return drawn(version, options.states, options.seed)
    every = [state for kind in KINDS for of in (singles, rare) for state in of(version, kind)]
    return [state for state in every if re.search(options.only, state.name)]


def _made() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d}, {processor()}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.kafka.starts", description=__doc__)
    parser.add_argument(
        "--kafka-version", nargs="+", choices=[*VERSIONS], metavar="V", help="default: all"
    )
    parser.add_argument("--states", type=int, default=20, help="of each version")
    parser.add_argument("--only", help="not drawn: all single and rare changes whose names match")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="brokers at a time")
    parser.add_argument("--record", action="store_true", help="keep the fates, and write the page")
    return parser.parse_args()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
