"""Write one archive that sets up a host without a network: a checkout, with the packages of
requirements.txt as installed here, Delta's jars, and the compiled kernels.

The host needs Python of the same minor version, on the same platform, and Java. lib/set-up.sh moves
the packages into the virtual environment instead of fetching them.
"""

from __future__ import annotations

import re
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path, PurePosixPath

from winnow.errors import UsageError, WinnowError
from winnow.resources import is_checkout, resource
from winnow.storage.output_file import READABLE, replacing
from winnow.worker.package import add_entry

TOP = "winnow"
CHECKOUT = ("LICENSE", "README.md", "conf", "demo", "jobs", "lib", "requirements.txt")
START = "spark-submit.sh"
CACHE = ".cache"
SITE = f"{CACHE}/offline/site"
MADE_FOR = f"{CACHE}/offline/made-for"
_NOT_RUN = frozenset({"__pycache__", "include", "tests", "examples", "R", "sbin", "licenses"})
"""Directories in packages that nothing reads."""
_PINNED = re.compile(r"^([\w.-]+)==", re.MULTILINE)
_NEVER_LOADED = re.compile(
    "rocksdbjni|breeze|spire|algebra_|cats-kernel|spark-mllib|spark-graphx|JTransforms|lapack|arpack"
    "|blas|netlib|hive-(?!storage-api)|spark-hive|datanucleus|derby|spark-connect_|kubernetes|spark-kubernetes"
    "|vertx|spark-streaming_|spark-repl|jline|curator|netty-tcnative.*(aarch|osx|windows)"
)
"""Spark's jars for machine learning, Hive, Kubernetes, streaming state and other platforms."""


def made_for() -> str:
    """Return the Python and the platform of the archive, as `3.11 linux-x86_64`."""
    return f"{sys.version_info.major}.{sys.version_info.minor} {sysconfig.get_platform()}"


def make_offline(path: str) -> int:
    """Write the archive and return its size in bytes. It gets its name when it is complete.

    Raises UsageError if this is no checkout or the directory of `path` does not exist.
    """
    target = Path(path).absolute()
    if not is_checkout():
        raise UsageError(
            "--offline packs a checkout", expected="a checkout", found="an installed package"
        )
    if not target.parent.is_dir():
        raise UsageError(
            "no such directory", where=str(target.parent), hint="Create it, or choose another file."
        )
    try:
        with (
            replacing(target, mode=READABLE) as file,
            tarfile.open(fileobj=file, mode="w:gz", compresslevel=6) as archive,
        ):
            for name, content in _content():
                add_entry(archive, f"{TOP}/{name}", content)
        return target.stat().st_size
    except OSError as error:
        raise WinnowError(
            "the archive could not be written", where=str(target), hint=str(error)
        ) from error


def _content() -> Iterator[tuple[str, Path | bytes]]:
    """Yield names below `TOP`, and files or bytes; last the start script, which completes it."""
    for name in CHECKOUT:
        top = resource(name)
        files = [top] if top.is_file() else sorted(top.rglob("*"))
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts:
                yield str(file.relative_to(resource("."))), file
    for file in sorted(resource(f"{CACHE}/jars").iterdir()):
        yield f"{CACHE}/jars/{file.name}", file
    for file in sorted(resource(f"{CACHE}/numba").iterdir()):
        if file.suffix == ".nbc" or file.name.startswith(("complete-", "warm")):
            yield f"{CACHE}/numba/{file.name}", file
    for name in _PINNED.findall(resource("requirements.txt").read_text(encoding="utf-8")):
        yield from _installed(name)
    yield MADE_FOR, made_for().encode()
    yield START, resource(START)


def _installed(name: str) -> Iterator[tuple[str, Path]]:
    found = distribution(name)
    for file in found.files or ():
        parts = PurePosixPath(file).parts
        source = Path(str(found.locate_file(file)))
        needed = parts[0] != ".." and _NOT_RUN.isdisjoint(parts) and source.is_file()
        if needed and not (source.suffix == ".jar" and _NEVER_LOADED.match(source.name)):
            yield f"{SITE}/{file}", source
