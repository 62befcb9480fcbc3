"""The verb `package`. Needs no Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from winnow.cli.call import Call
from winnow.cli.options import OTHER
from winnow.cli.out import fields_of
from winnow.words import size


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageOptions:
    archive: str = OTHER.option(
        "The archive to write; its name ends in .tar.gz.",
        "FILE",
        name="--output",
        default="winnow.tar.gz",
    )
    offline: bool = OTHER.switch("Pack all that sets up a host without a network instead.")


def run_package(call: Call, own: PackageOptions) -> int:
    make = _offline if own.offline else _package
    with call.progress() as progress:
        progress.stage("packing")
        packed, lines = make(own.archive)
    call.answer(lambda: {"status": "done", **packed}, lines)
    return 0


def _package(path: str) -> tuple[dict[str, Any], list[str]]:
    """Write the archive. Return what it is, for --json, and lines for a person."""
    from winnow.worker.package import make_package  # noqa: PLC0415 - it loads what it packs

    made = make_package(path)
    versions = ", ".join(f"{name} {version}" for name, version in made.versions.items())
    return fields_of(made), [
        f"{made.path}: {size(made.size)}, for Python {made.python} on {made.platform}",
        f"      {versions}",
        f"For a cluster: --archives {made.path}#winnow, or the URL of a copy instead of the path.",
    ]


def _offline(path: str) -> tuple[dict[str, Any], list[str]]:
    from winnow.worker.offline import TOP, make_offline  # noqa: PLC0415 - as above
    from winnow.worker.package import made_for  # noqa: PLC0415

    written = make_offline(path)
    python, platform = made_for().split()
    return {"path": path, "size": written, "python": python, "platform": platform}, [
        f"{path}: {size(written)}, for Java and Python {python} on {platform}",
        f"There: tar -xzf {path} && ./{TOP}/spark-submit.sh VERB ...",
    ]
