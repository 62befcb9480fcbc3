"""The verb `package`. Needs no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from winnow.cli.options import CommandLine
from winnow.cli.out import Paper, tell, tell_json
from winnow.cli.run import guarded
from winnow.cli.text.progress import progress_on_stderr
from winnow.words import size


def run_package(path: str, request: CommandLine) -> int:

    def work() -> int:
        from winnow.worker.package import Package, make_package  # noqa: PLC0415 - it loads what it packs

        def lines(package: Package) -> Iterator[str]:
            packed = ", ".join(f"{name} {version}" for name, version in package.versions.items())
            yield (
                f"{package.path}: {size(package.size)}, for Python {package.python} on "
                f"{package.platform}"
            )
            yield f"      {packed}"
            yield (
                f"For a cluster: --archives {package.path}#winnow, or the URL of a copy instead of "
                "the path."
            )

        with progress_on_stderr(quiet=request.quiet) as progress:
            progress.stage("packing")
            package = make_package(path)
        if request.json:
            tell_json({"status": "done", **asdict(package)})
        else:
            tell(lambda: Paper().lines(lines(package)))
        return 0

    return guarded(work, json=request.json, now=lambda: None)


def run_offline(path: str, request: CommandLine) -> int:

    def work() -> int:
        from winnow.worker.offline import TOP, made_for, make_offline  # noqa: PLC0415 - as above

        with progress_on_stderr(quiet=request.quiet) as progress:
            progress.stage("packing")
            bytes_written = make_offline(path)
        python, platform = made_for().split()
        if request.json:
            told = {"path": path, "size": bytes_written, "python": python, "platform": platform}
            tell_json({"status": "done", **told})
        else:
            lines = [
                f"{path}: {size(bytes_written)}, for Java and Python {python} on {platform}",
                f"There: tar -xzf {path} && ./{TOP}/spark-submit.sh VERB ...",
            ]
            tell(lambda: Paper().lines(lines))
        return 0

    return guarded(work, json=request.json, now=lambda: None)
