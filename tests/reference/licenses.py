"""Licenses of Winnow's dependencies, as the installed packages state them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import metadata

from tests.pages import ROOT
from tests.reference.markdown import table

_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
_SPDX = {
    "Apache Software License": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "ISC License": "ISC",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
}
_UNSTATED = {"hdfs-native": "Apache-2.0", "numba": "BSD-2-Clause"}
"""hdfs-native states none: its repository has Apache-2.0. numba states "BSD": its license file has
two clauses.
"""
_JARS = {"io/delta": "Apache-2.0", "io/unitycatalog": "Apache-2.0"}


def licenses() -> Iterator[str]:
    """Each pinned package and each jar that set-up fetches."""
    packages = _PINNED.findall((ROOT / "requirements.txt").read_text(encoding="utf-8"))
    yield from table(
        ("Python package", "version", "license"), [(n, v, _license(n)) for n, v in packages]
    )
    yield ""
    jars = [
        line.split()[1]
        for line in (ROOT / "conf" / "jars.txt").read_text(encoding="utf-8").splitlines()
        if line[:1] != "#"
    ]
    yield from table(("Java library", "version", "license"), [_jar(path) for path in jars])


def _license(package: str) -> str:
    if package in _UNSTATED:
        return _UNSTATED[package]
    stated = metadata(package)
    classifiers = [
        c.split(" :: ")[-1]
        for c in stated.get_all("Classifier") or ()
        if c.startswith("License ::")
    ]
    named = (
        stated.get("License-Expression")
        or next(iter(classifiers), None)
        or stated.get("License")
        or ""
    )
    assert named, f"{package} states no license: read its license file and add it to _UNSTATED"
    return _SPDX.get(named, named)


def _jar(path: str) -> tuple[str, str, str]:
    group, name, version = path.rsplit("/", 3)[:3]
    return name, version, _JARS[group]
