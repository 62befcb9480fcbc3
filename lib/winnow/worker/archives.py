"""Load pyspark from the files it is installed as, not from the archives that lie beside them.

For machines where it is not installed Spark puts `pyspark.zip`, py4j's archive and a jar at the
head of the module path of the driver and of every worker. What comes out of an archive is compiled
anew by each process, half a second of it; and before each task pyspark calls
`importlib.invalidate_caches()`, upon which Python reads the directory of an archive once for each
package in it: 60 ms of every task.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

_PY4J = re.compile(r"py4j-(.+)-src\.zip")


def load_from_files() -> None:
    """Takes the archives out of `sys.path` that are not needed. To be called before pyspark is
    imported.
    """
    needed = without_spare_archives(sys.path)
    for entry in set(sys.path) - set(needed):
        sys.path_importer_cache.pop(entry, None)
    sys.path[:] = needed


def without_spare_archives(path: Sequence[str]) -> list[str]:
    """A module path without those archives of Spark whose modules are there as files as well, of
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
    """The directory that it would be imported from."""
    found = PathFinder.find_spec(name, path)
    places = None if found is None else found.submodule_search_locations
    return Path(places[0]) if places else None
