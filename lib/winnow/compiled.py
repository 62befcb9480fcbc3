"""Compile kernels with numba, and keep them with the installation for all of its users.

numba's own cache is keyed by the path of a source file. It does not notice when a kernel that a
kernel calls has changed, and it fails if it can write nowhere. Here a kernel is found by the
contents of its source and of everything that this imports, so it may be copied with the sources,
is read where nobody may write, and a stale one is never found. numba adds the version of Python,
its own version, the processor and its features to that.
"""

# ruff: noqa: ANN401 - numba has few types
# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

import hashlib
import os
import pickle
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar, cast

import llvmlite.binding
import numba
from numba.core.caching import FunctionCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from winnow.resources import is_checkout, user_dir

_Function = TypeVar("_Function")
_CONFIG: Any = numba.config
_PACKAGE = Path(__file__).parent
_IMPORT = re.compile(
    r"^[ \t]*+(?:from (winnow[\w.]*) import (\([^)]*\)|[^\n]*)|import (winnow[\w.]*))", re.MULTILINE
)
_ALL_OF_API = _PACKAGE / "__init__.py"
_WITH_KERNELS = (
    "scan/cut_kernel.py",
    "scan/last_offsets.py",
    "cleaning/summaries/kernels.py",
    "logdir/indexes/kernels.py",
    "storage/small_files.py",
    "wire/columns.py",
    "wire/digests.py",
    "wire/kernels/control.py",
    "wire/kernels/filter.py",
    "wire/kernels/legacy.py",
    "wire/kernels/names.py",
    "wire/kernels/pattern_search.py",
    "wire/kernels/records.py",
    "wire/kernels/walk.py",
    "wire/key_search.py",
    "wire/record_checks.py",
)
"""All files with kernels, here or in what they import."""


def njit(**options: Any) -> Callable[[_Function], _Function]:
    """Do as numba's `njit`, but find and keep compiled code by contents. `cache` has no effect."""
    options.pop("cache", None)

    def decorate(function: _Function) -> _Function:
        qualname: str = cast("Any", function).__qualname__
        if "<locals>" in qualname:
            # Its compiled code is named by its place in the source and a number that counts from 0
            # in each process: two of one factory, from two processes, may have one name.
            raise TypeError(f"{qualname} can't be kept compiled: move it out of its function")
        kernel: Any = numba.njit(**options)(function)
        kernel._cache = _Cache(function)  # noqa: SLF001 - as enable_caching() does
        return cast("_Function", kernel)

    return decorate


def target_features() -> Mapping[str, bool]:
    """Return the features of the processor that numba compiles for, by LLVM's names. It is not this
    machine's if the user chose another by NUMBA_CPU_NAME or NUMBA_CPU_FEATURES. Unknown features
    are missing.
    """
    if _CONFIG.CPU_NAME or _CONFIG.CPU_FEATURES is not None:
        given = (_CONFIG.CPU_FEATURES or "").split(",")
        return {feature.strip()[1:]: feature.strip().startswith("+") for feature in given}
    return _host_features()


def _host_features() -> Mapping[str, bool]:
    try:
        features: Mapping[str, bool] = llvmlite.binding.get_host_cpu_features()
    except RuntimeError:  # LLVM can't detect them on every system
        return {}
    return features


def is_complete() -> bool:
    """Return whether all kernels are compiled for this machine, so that no process compiles."""
    return (place() / _complete()).exists()


def mark_complete() -> None:
    """Record that all kernels are compiled. Does nothing where nobody can write."""
    with suppress(OSError):
        (place() / _complete()).touch()


@cache
def place() -> Path:
    """Return the directory of compiled kernels: the first that has all of them, else the first that
    can be written, else one that does not exist.
    """
    places = list(_places())
    complete = (directory for directory in places if (directory / _complete()).exists())
    return next(chain(complete, filter(_is_writable, places)), _PACKAGE / "none")


def _places() -> Iterator[Path]:
    if _CONFIG.CACHE_DIR:  # NUMBA_CACHE_DIR
        yield Path(_CONFIG.CACHE_DIR)
    # In the archive for executors, it is beside `site`.
    yield _PACKAGE.parents[1] / ".cache" / "numba" if is_checkout() else _PACKAGE / "__pycache__"
    user = user_dir()
    if user is not None:
        yield user / "kernels"
    if run := os.environ.get("WINNOW_RUN_DIR"):
        yield Path(run) / "kernels"


def _is_writable(directory: Path) -> bool:
    with suppress(OSError):
        directory.mkdir(parents=True, exist_ok=True)
    return os.access(directory, os.W_OK | os.X_OK)


@cache
def _complete() -> str:
    """Return the name of the file that marks a complete set of kernels for this machine."""
    chosen = _CONFIG.CPU_NAME and _CONFIG.CPU_FEATURES is not None
    # With both chosen, kernels are the same for every machine, as in an image for many.
    host = (
        () if chosen else (llvmlite.binding.get_host_cpu_name(), sorted(_host_features().items()))
    )
    machine = (
        sys.implementation.cache_tag,
        numba.__version__,
        _CONFIG.BOUNDSCHECK,
        _CONFIG.CPU_NAME,
        _CONFIG.CPU_FEATURES,
        host,
    )
    sources = [_stamp(_PACKAGE / file) for file in _WITH_KERNELS]
    return f"complete-{hashlib.sha256(repr((sources, machine)).encode()).hexdigest()[:32]}"


@cache
def _stamp(source: Path) -> str:
    """Return a hash of a source file and of all files of Winnow that it imports, in any depth."""
    files, new = {source}, [source]
    while new:
        found = _imported(new.pop()) - files
        files |= found
        new += found
    stamp = hashlib.sha256()
    for file in sorted(files):
        stamp.update(f"{os.path.relpath(file, _PACKAGE)}\n".encode() + _content(file) + b"\0")
    return stamp.hexdigest()


@cache
def _content(file: Path) -> bytes:
    return file.read_bytes()


@cache
def _imported(file: Path) -> frozenset[Path]:
    """Return the files of the modules that this one imports anywhere."""
    modules = set()
    for package, names, module in _IMPORT.findall(_content(file).decode()):
        modules.add(package or module)
        modules |= {f"{package}.{name}" for name in re.findall(r"\w+", names)}
    paths = (_PACKAGE.joinpath(*module.split(".")[1:]) for module in modules)
    both = (file for path in paths for file in (path.with_suffix(".py"), path / "__init__.py"))
    return frozenset(file for file in both if file != _ALL_OF_API and file.is_file())


class _Cache(FunctionCache):
    """One file for each signature and processor, named by them and by the stamp of the source.
    Numba's index of numbered files is not safe: of two processes that compile at once, one may be
    given the code of the other.
    """

    def __init__(self, function: Any) -> None:  # numba's would choose a place of its own
        checked = "-checked" if _CONFIG.BOUNDSCHECK else ""
        stamp = _stamp(Path(function.__code__.co_filename))[:16]
        self._base = f"{function.__module__}.{function.__qualname__}-{stamp}{checked}"
        self._py_func = function
        self._cache_path = str(place())

    def _file(self, sig: Any, codegen: Any) -> Path:
        key = (self._index_key(sig, codegen), numba.__version__, sys.implementation.cache_tag)
        return place() / f"{self._base}-{hashlib.sha256(repr(key).encode()).hexdigest()[:32]}.nbc"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return what was saved, or None. Anything may be wrong with a file."""
        target_context.refresh()
        try:
            file = self._file(sig, target_context.codegen())
            saved = pickle.loads(file.read_bytes())  # noqa: S301 - as numba reads its own
        except (OSError, EOFError, pickle.UnpicklingError):
            return None
        return CompileResult._rebuild(target_context, *saved)  # noqa: SLF001 - as numba's cache

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save compiled code, whole or not at all."""
        if data.library.has_dynamic_globals:
            raise TypeError(f"{self._base} can't be kept compiled: it has addresses of the process")
        file = self._file(sig, data.codegen)
        new = file.with_name(f"{file.name}.{os.getpid()}.new")
        with suppress(OSError):
            new.write_bytes(dumps(data._reduce()))  # noqa: SLF001 - as numba's cache
            new.replace(file)
