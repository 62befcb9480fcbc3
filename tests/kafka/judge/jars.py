"""Kafka's own jars, fetched once from Maven Central, and our few Java classes around them, compiled
once.

A Java runtime need not include `javac`, so the compiler is Eclipse's (one jar). Everything is put
into `.cache/`, which git ignores.

Environment variables work as usual: JAVA_HOME, JAVA_TOOL_OPTIONS, https_proxy, and WINNOW_MAVEN for
a mirror of Maven Central.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

KAFKA_VERSION = "4.3.1"
"""Judges wherever no other version is asked for."""

HERE = Path(__file__).resolve().parent
JAR_LISTS = HERE / "jars"
"""A file for each version. The compiler is in that of `KAFKA_VERSION`."""
PROJECT = HERE.parents[2]
CACHE = PROJECT / ".cache"
JAR = "judge.jar"


class KafkaSetupError(Exception):
    """Kafka's jars can't be had, or our classes don't compile against them."""


@dataclass(frozen=True, slots=True)
class KafkaInstallation:
    """Where the jars, that of our classes and the logging configuration among them, lie."""

    jars: Path
    classes: Path

    @property
    def class_path(self) -> str:
        return f"{self.classes}{os.pathsep}{self.jars}/*"

    @property
    def archive(self) -> Path:
        """Of Java's classes, once a broker has left it: a start with it takes half the time."""
        return self.classes.with_name("classes.jsa")


def java() -> str:
    """The Java runtime of JAVA_HOME, else the one on PATH."""
    home = os.environ.get("JAVA_HOME")
    found = f"{home}/bin/java" if home else shutil.which("java")
    if not found:
        raise KafkaSetupError("no Java runtime: install Java 17 or newer, or set JAVA_HOME")
    return found


def quick_java(
    *flags: str, archive_at_exit: Path | None = None, version: str = KAFKA_VERSION
) -> list[str]:
    """A JVM with all of `installation(version)` that lives for seconds: it compiles little. What
    follows is a main class.

    `archive_at_exit`: where it leaves an archive of its classes, should there be none yet.
    """
    found = installation(version)
    quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xlog:disable"]
    if found.archive.exists():
        quick.append(f"-XX:SharedArchiveFile={found.archive}")
    elif archive_at_exit is not None:
        quick.append(f"-XX:ArchiveClassesAtExit={archive_at_exit}")
    return [java(), *quick, *flags, "-cp", found.class_path]


def versions() -> list[str]:
    """The releases that can judge, from the oldest on."""
    return sorted(path.stem for path in JAR_LISTS.glob("*.txt"))


def release(version: str) -> str:
    """The release that judges a version: that of `jars/`, with or without its last number."""
    found = [one for one in versions() if version in {one, one.rpartition(".")[0]}]
    if not found:
        raise KafkaSetupError(
            f"no jars of Kafka {version}: expected one of {', '.join(versions())}"
        )
    return found[0]


@cache
def installation(version: str = KAFKA_VERSION) -> KafkaInstallation:
    """Kafka's jars and our classes, fetched and compiled on first use (some seconds), found in no
    time afterwards.

    `version` as for `release`. The classes of `java/every` are in all, the others in that of
    `KAFKA_VERSION` only: its clients talk to all brokers, its tools read all files.
    """
    version = release(version)
    CACHE.mkdir(exist_ok=True)
    with _locked(CACHE / "kafka.lock"):
        jars = _fetched_jars(version)
        return KafkaInstallation(jars=jars, classes=_compiled_classes(version, jars))


def _fetched_jars(version: str) -> Path:
    listed = JAR_LISTS / f"{version}.txt"
    wanted = hashlib.sha256(listed.read_bytes()).hexdigest()[:12]
    target = CACHE / f"kafka-{version}" / f"jars-{wanted}"
    if not (target / "complete").exists():
        with _replacing(target) as directory:
            _run(
                "Kafka's jars can't be had",
                sys.executable,
                PROJECT / "lib" / "winnow" / "ledger" / "fetch_jars.py",
                listed,
                directory,
            )
    return target


def _sources(version: str) -> list[Path]:
    """What judges and fills compiles against every version, the rest against one only."""
    return sorted((HERE / "java").glob("**/*.java" if version == KAFKA_VERSION else "every/*.java"))


def _compiled_classes(version: str, jars: Path) -> Path:
    """As a jar: Java keeps no archive of classes from a directory."""
    sources = _sources(version)
    logging = HERE / "conf" / "log4j2.properties"
    digest = hashlib.sha256(jars.name.encode())
    for source in (*sources, logging):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    target = CACHE / f"kafka-{version}" / f"classes-{digest.hexdigest()[:12]}"
    if not (target / "complete").exists():
        with _replacing(target) as directory:
            if sources:
                _compile(sources, jars, directory)
            shutil.copy(logging, directory)
            with zipfile.ZipFile(directory / JAR, "w") as jar:
                for file in sorted(directory.rglob("*")):
                    if file.suffix in {".class", ".properties"}:
                        jar.write(file, file.relative_to(directory))
    return target / JAR


def printed_lines(program: str, arguments: Sequence[str], *, version: str) -> list[str]:
    """Return what one of our classes prints with the jars of a version of Kafka."""
    class_path = f"{installation().classes}{os.pathsep}{installation(version).jars}/*"
    command = [java(), "-XX:TieredStopAtLevel=1", "-cp", class_path, program, *arguments]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    return done.stdout.splitlines()


def _compile(sources: list[Path], jars: Path, directory: Path) -> None:
    (compiler,) = _fetched_jars(KAFKA_VERSION).glob("ecj-*.jar")
    class_path = os.pathsep.join(str(jar) for jar in sorted(jars.glob("*.jar")))
    flags = ["-17", "-nowarn", "-d", directory, "-classpath", class_path]
    _run(
        "the Java sources in tests/kafka/judge/java do not compile",
        java(),
        "-jar",
        compiler,
        *flags,
        *sources,
    )


def _run(failed: str, *command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise KafkaSetupError(f"{failed}:\n{done.stdout}{done.stderr}")


@contextmanager
def _replacing(target: Path) -> Iterator[Path]:
    """A fresh directory that becomes `target`, with a file `complete` in it, only if nothing was
    raised.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(dir=target.parent, prefix=".new-"))
    try:
        yield directory
        (directory / "complete").touch()
        shutil.rmtree(target, ignore_errors=True)
        directory.rename(target)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Two test sessions at once fetch once."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
