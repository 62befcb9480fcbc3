"""Fetch the jars that a list names: `python fetch_jars.py LIST DIRECTORY`. Set-up runs it as a
script: it needs no package, nor Winnow.

Jars that exist with the right checksum are not fetched again. https_proxy is respected.
WINNOW_MAVEN may name a mirror of Maven Central.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

CENTRAL = "https://repo1.maven.org/maven2"
ATTEMPTS = 4
SECONDS = 120
AT_ONCE = 8


class FetchError(Exception):
    """A jar can't be fetched. The message names it and says what may help."""


def fetch_listed(list_of_jars: str | Path, directory: str | Path) -> None:
    """Fetch the jars of the list, and remove other jars. Raises FetchError."""
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    wanted = listed_jars(list_of_jars)
    for stray in set(target.glob("*.jar")) - {target / Path(path).name for path in wanted}:
        stray.unlink()  # another version: Java would load both
    fetch(wanted, target)


def listed_jars(list_of_jars: str | Path) -> dict[str, str]:
    """Return the SHA-256 of each jar in the list, by its path in Maven Central."""
    lines = Path(list_of_jars).read_text(encoding="utf-8").splitlines()
    listed = (line.split() for line in lines if line and not line.startswith("#"))
    return {path: digest for digest, path in listed}


def fetch(wanted: Mapping[str, str], target: Path) -> None:
    """Fetch jars. `wanted` maps paths to SHA-256. Raises FetchError."""
    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(partial(_fetch, target), wanted, wanted.values()))


def _fetch(target: Path, path: str, digest: str) -> None:
    jar, why = target / Path(path).name, ""
    if jar.is_file() and hashlib.sha256(jar.read_bytes()).hexdigest() == digest:
        return
    url = f"{os.environ.get('WINNOW_MAVEN', CENTRAL).rstrip('/')}/{path}"
    for attempt in range(ATTEMPTS):
        time.sleep(3 * attempt)
        try:
            with urllib.request.urlopen(url, timeout=SECONDS) as answer:  # noqa: S310 - its checksum is known
                content = answer.read()
        except OSError as error:
            why = str(error)
            continue
        found = hashlib.sha256(content).hexdigest()
        if found == digest:
            new = jar.with_suffix(".new")
            new.write_bytes(content)
            new.rename(jar)
            return
        why = f"its SHA-256 is {found}, not {digest}"
    raise FetchError(
        f"can't fetch {url}: {why}. Set https_proxy if you need a proxy, or WINNOW_MAVEN to a "
        f"mirror of {CENTRAL}."
    )


def command(*arguments: str) -> None:
    try:
        fetch_listed(*arguments)
    except FetchError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    command(*sys.argv[1:])
