"""Write one archive with everything a Spark executor needs besides Spark and Python, for Spark's
`--archives` (docs/decisions/0028). Its `site/`, which goes on PYTHONPATH, contains

    winnow/, numba/, numpy/, ...        the packages that tasks import, as installed here
    .../__pycache__/*.pyc               their byte code, valid whatever the source's time

Beside `site/` is `.cache/numba/` with the compiled kernels, as in a checkout.

Each cluster manager unpacks archives in its own way, so file times can't be relied on. Python would
compile everything again, on each executor.
"""

from __future__ import annotations

import io
import marshal
import re
import sys
import sysconfig
import tarfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import MAGIC_NUMBER, cache_from_source, find_spec, source_hash
from pathlib import Path, PurePosixPath

from winnow.errors import UsageError, WinnowError
from winnow.resources import program
from winnow.storage.output_file import READABLE, replacing
from winnow.version import VERSION
from winnow.worker.warm_up import warm_up

IMPORTED = (
    "cramjam",
    "deflate",
    "google_crc32c",
    "hdfs_native",
    "isal",
    "javaproperties",
    "lz4",
    "numba",
    "numpy",
    "obstore",
    "pyarrow",
    "zstandard",
)
"""Packages that task modules import. Their dependencies are added."""
OPTIONAL = ("fastavro",)
"""Packages of which tasks import those that this installation has."""

SITE = "site"
"""The entry on PYTHONPATH. spark-submit.sh uses the same name."""
_NOT_RUN = ("__pycache__", "include", "tests")
"""Directories in packages that no task reads."""
_UNCHECKED = 1
"""Flag of byte code that is never checked against its source (PEP 552)."""
_FASTEST = 1
"""zlib level. Most is machine code: a higher level saves 11 % and takes three times as long."""

Content = tuple[str, Path | bytes]
"""A name in an archive, and the file or its bytes."""


@dataclass(frozen=True, slots=True)
class Package:
    path: str
    size: int
    python: str
    """The Python version that executors must have, as `3.11`."""
    platform: str
    """The platform that executors must have, as `linux-x86_64`."""
    versions: Mapping[str, str]


def make_package(path: str) -> Package:
    """Write the archive; it gets its name when complete. UsageError for a missing directory."""
    target = Path(path).absolute()
    if target.suffixes[-2:] != [".tar", ".gz"] and target.suffix != ".tgz":
        raise UsageError(
            "Spark recognises archives by their names",
            expected="a name that ends in .tar.gz or .tgz",
            found=target.name,
        )
    packages = _installed()
    size = write_archive(target, "the package", _content(packages), level=_FASTEST)
    python, platform = made_for().split()
    versions = {"winnow": VERSION} | {package.name: package.version for package in packages}
    return Package(str(target), size, python, platform, versions)


def made_for() -> str:
    """Return the Python and the platform of what is installed here, as `3.11 linux-x86_64`."""
    return f"{sys.version_info.major}.{sys.version_info.minor} {sysconfig.get_platform()}"


def write_archive(target: Path, what: str, content: Iterable[Content], *, level: int) -> int:
    """Write an archive, which gets its name when it is complete, and return its size. `level`: that
    of zlib. Raises UsageError for a missing directory, and WinnowError.
    """
    if not target.parent.is_dir():
        raise UsageError(
            "no such directory", where=str(target.parent), hint="Create it, or choose another file."
        )
    try:
        with (
            replacing(target, mode=READABLE) as file,
            tarfile.open(fileobj=file, mode="w:gz", compresslevel=level) as archive,
        ):
            for name, found in content:
                add_entry(archive, name, found)
        return target.stat().st_size
    except OSError as error:
        raise WinnowError(
            f"{what} could not be written", where=str(target), hint=str(error)
        ) from error


def _installed(imported: Sequence[str] = IMPORTED) -> list[Distribution]:
    """Return the packages that tasks import, and their dependencies."""
    found: dict[str, Distribution] = {}
    wanted = [*imported, *(name for name in OPTIONAL if find_spec(name) is not None)]
    while wanted:
        name = wanted.pop()
        if name in found:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError as error:
            raise WinnowError(
                "a package that Winnow needs is not installed here",
                found=name,
                hint=f"Run {program()} package.",
            ) from error
        requires = [need for need in found[name].requires or () if "extra ==" not in need]
        wanted += [re.split(r"[^\w.-]", need, maxsplit=1)[0] for need in requires]
    return [found[name] for name in sorted(found)]


def _content(packages: Iterable[Distribution]) -> Iterator[Content]:
    root = Path(__file__).parents[1]
    own = ((f"winnow/{file.relative_to(root).as_posix()}", file) for file in root.rglob("*"))
    for files in (own, *map(files_of, packages)):
        for name, content in _with_byte_code(files):
            yield f"{SITE}/{name}", content
    yield from kernels()


def files_of(package: Distribution) -> Iterator[tuple[str, Path]]:
    """Yield the files of an installed package, by their names where it is installed."""
    return ((str(file), Path(str(package.locate_file(file)))) for file in package.files or ())


def needed(
    files: Iterable[tuple[str, Path]], not_needed: Collection[str]
) -> Iterator[tuple[str, Path]]:
    """Yield the files that lie in packages, but not in directories with these names. Licenses are
    always needed.
    """
    for name, file in files:
        parts = PurePosixPath(name).parts
        # Commands are installed outside the packages, in `../../../bin`.
        wanted = "licenses" in parts or set(parts).isdisjoint(not_needed)
        if parts[0] != ".." and wanted and file.is_file():
            yield name, file


def _with_byte_code(files: Iterable[tuple[str, Path]]) -> Iterator[Content]:
    for name, file in sorted(needed(files, _NOT_RUN)):
        yield name, file
        if file.suffix == ".py":
            with suppress(SyntaxError):  # some packages contain templates
                yield cache_from_source(name), _byte_code(file)


def _byte_code(file: Path) -> bytes:
    """Return the byte code of a file as a `.pyc` stores it."""
    code = SourceFileLoader(file.stem, str(file)).get_code(file.stem)
    header = MAGIC_NUMBER + _UNCHECKED.to_bytes(4, "little") + source_hash(file.read_bytes())
    return header + marshal.dumps(code)


def kernels() -> Iterator[Content]:
    """Compile what is missing, and yield the compiled kernels."""
    from winnow.compiled import place  # noqa: PLC0415 - takes half a second

    warm_up()
    for file in sorted(place().iterdir()):
        if file.suffix == ".nbc" or file.name.startswith("complete-"):
            yield f".cache/numba/{file.name}", file


def add_entry(archive: tarfile.TarFile, name: str, content: Path | bytes) -> None:
    """Add a file or its bytes to an archive, readable for everybody."""
    entry = tarfile.TarInfo(name)
    entry.mode = 0o644
    if isinstance(content, Path):
        entry.mode |= content.stat().st_mode & 0o111
        content = content.read_bytes()
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))
