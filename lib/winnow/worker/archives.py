"""Load pyspark from its installed files, not from the archives beside them.

For machines without pyspark, Spark puts `pyspark.zip`, py4j's archive and a jar at the head of the
module path of the driver and of every worker. Each process compiles what it loads from an archive
again, which takes half a second. Before each task pyspark also calls
`importlib.invalidate_caches()`. Python then reads an archive's directory once for each package in
it: 60 ms per task.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

_PY4J = re.compile(r"py4j-(.+)-src\.zip")


def load_from_files() -> None:
    """Remove archives that are not needed from `sys.path`. Call this before pyspark is imported."""
    needed = without_spare_archives(sys.path)
    for entry in set(sys.path) - set(needed):
        sys.path_importer_cache.pop(entry, None)
    sys.path[:] = needed


def without_spare_archives(path: Sequence[str]) -> list[str]:
    """Return the module path without Spark's archives whose modules are also installed as files, in
    the same version.
    """
    files = [entry for entry in path if not entry.endswith((".zip", ".jar"))]
    return [entry for entry in path if not _is_spare(Path(entry), files)]


def _is_spare(archive: Path, files: Sequence[str]) -> bool:
    if archive.name == "pyspark.zip":
        installed = _package("pyspark", files)
        return (
            installed is not None
            and archive.resolve() == (installed / "python" / "lib" / archive.name).resolve()
        )
    if py4j := _PY4J.fullmatch(archive.name):
        installed = _package("py4j", files)
        version = (
            "" if installed is None else (installed / "version.py").read_text(encoding="utf-8")
        )
        return repr(py4j[1]) in version
    return archive.name.startswith("spark-core_")  # a jar without Python


def _package(name: str, path: Sequence[str]) -> Path | None:
    """Return the directory from which the package would be imported."""
    found = PathFinder.find_spec(name, path)
    places = None if found is None else found.submodule_search_locations
    return Path(places[0]) if places else None
