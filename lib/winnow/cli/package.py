"""The verb `package`: without Spark."""

from __future__ import annotations

import json as json_text
import sys
from dataclasses import asdict

from winnow.cli.progress import progress_on_stderr
from winnow.cli.run import guarded, tell
from winnow.words import size


def run_package(path: str, *, quiet: bool, json: bool) -> int:
    """The exit code."""

    def work() -> int:
        from winnow.package import Package, make_package  # noqa: PLC0415 - it loads what it packs

        def lines(package: Package) -> str:
            packed = ", ".join(f"{name} {version}" for name, version in package.versions.items())
            return (
                f"{package.path}: {size(package.size)}, for Python {package.python} on {package.platform}\n"
                f"      {packed}\n"
                f"For a cluster: --archives {package.path}#winnow, or the URL of a copy in the place of the path.\n"
            )

        with progress_on_stderr(quiet=quiet) as progress:
            progress.stage("packing")
            package = make_package(path)
        told = json_text.dumps({"status": "done", **asdict(package)}, indent=2) + "\n" if json else lines(package)
        tell(lambda: sys.stdout.write(told))
        return 0

    return guarded(work, json=json, now=lambda: None)
