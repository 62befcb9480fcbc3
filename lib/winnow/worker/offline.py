"""Write one archive that sets up a host without a network: a checkout, with the packages of
requirements.txt as installed here, Delta's jars, and the compiled kernels.

The host needs Python of the same minor version, on the same platform, and Java. lib/set-up.sh moves
the packages into the virtual environment instead of fetching them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

from winnow.errors import UsageError
from winnow.resources import is_checkout, resource
from winnow.worker.package import Content, files_of, kernels, made_for, needed, write_archive

TOP = "winnow"
CHECKOUT = ("LICENSE", "README.md", "conf", "demo", "jobs", "lib", "requirements.txt")
START = "spark-submit.sh"
CACHE = ".cache"
SITE = f"{CACHE}/offline/site"
MADE_FOR = f"{CACHE}/offline/made-for"
_NOT_RUN = ("__pycache__", "include", "tests", "examples", "R", "sbin")
"""Directories in packages that nothing reads. Licenses go along."""
_PINNED = re.compile(r"^([\w.-]+)==", re.MULTILINE)
_NEVER_LOADED = re.compile(
    "rocksdbjni|breeze|spire|algebra_|cats-kernel|spark-mllib|spark-graphx|JTransforms|lapack|arpack"
    "|blas|netlib|hive-(?!storage-api)|spark-hive|datanucleus|derby|spark-connect_|kubernetes|spark-kubernetes"
    "|vertx|spark-streaming_|spark-repl|jline|curator|netty-tcnative.*(aarch|osx|windows)"
)
"""Spark's jars for machine learning, Hive, Kubernetes, streaming state and other platforms."""


def make_offline(path: str) -> int:
    """Write the archive and return its size in bytes. It gets its name when it is complete.

    Raises UsageError if this is no checkout or the directory of `path` does not exist.
    """
    if not is_checkout():
        raise UsageError(
            "--offline packs a checkout", expected="a checkout", found="an installed package"
        )
    files = ((f"{TOP}/{name}", found) for name, found in _content())
    return write_archive(Path(path).absolute(), "the archive", files, level=6)


def _content() -> Iterator[Content]:
    """Yield names below `TOP`, and files or bytes; last the start script, which completes it."""
    for name in CHECKOUT:
        top = resource(name)
        files = [top] if top.is_file() else sorted(top.rglob("*"))
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts:
                yield str(file.relative_to(resource("."))), file
    for file in sorted(resource(f"{CACHE}/jars").iterdir()):
        yield f"{CACHE}/jars/{file.name}", file
    yield from kernels()
    # Without these marks, lib/set-up.sh removes the kernels there and compiles them again.
    for file in sorted(resource(f"{CACHE}/numba").glob("warm*")):
        yield f"{CACHE}/numba/{file.name}", file
    for name in _PINNED.findall(resource("requirements.txt").read_text(encoding="utf-8")):
        for installed, file in needed(files_of(distribution(name)), _NOT_RUN):
            if not (file.suffix == ".jar" and _NEVER_LOADED.match(file.name)):
                yield f"{SITE}/{installed}", file
    yield MADE_FOR, made_for().encode()
    yield START, resource(START)
