"""What the command lines of benchmarks have in common."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.data import DATA


def benchmark_parser(description: str | None, *, output: Path) -> argparse.ArgumentParser:
    """Return a parser with `--on` and `--output`. `description`: docstring of the module."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--on", type=Path, default=DATA, help="a directory of the disk to measure")
    parser.add_argument("--output", type=Path, default=output, help="the page of results")
    return parser
