"""Kafka's own jars, fetched once from Maven Central, and our few Java classes around them, compiled once.

Ivy does the fetching: it comes with pyspark, so nothing but Python and a Java runtime is needed. The compiler
is Eclipse's (one jar), because a Java runtime need not bring `javac`. All goes to `.cache/`, which git ignores.

The environment is honoured as usual: JAVA_HOME, JAVA_TOOL_OPTIONS, https_proxy, and IVY_SETTINGS (path or URL of an
Ivy settings file) where Maven Central is only to be had through a mirror.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

KAFKA_VERSION = "4.3.1"
LOG4J_VERSION = "2.25.4"
COMPILER_VERSION = "3.44.0"
"""ecj: 3.44 runs on Java 17, the oldest that we support."""

DEPENDENCIES = (
    ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    ("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J_VERSION),
    ("org.apache.logging.log4j", "log4j-core", LOG4J_VERSION),
    ("org.eclipse.jdt", "ecj", COMPILER_VERSION),
)
ATTEMPTS = 4
FETCH_SECONDS = 600

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent.parent
CACHE = PROJECT / ".cache"


class KafkaSetupError(Exception):
    """Kafka's jars can't be had, or our classes don't compile against them."""


@dataclass(frozen=True, slots=True)
class KafkaInstallation:
    """Where the jars, our compiled classes and the logging configuration lie."""

    jars: Path
    classes: Path
    conf: Path = HERE / "conf"

    @property
    def class_path(self) -> str:
        return os.pathsep.join((str(self.conf), str(self.classes), f"{self.jars}/*"))


def java() -> str:
    """The Java runtime of JAVA_HOME, else the one on PATH."""
    home = os.environ.get("JAVA_HOME")
    found = f"{home}/bin/java" if home else shutil.which("java")
    if not found:
        message = "no Java runtime: install Java 17 or newer, or set JAVA_HOME"
        raise KafkaSetupError(message)
    return found


@cache
def installation() -> KafkaInstallation:
    """Kafka's jars and our classes, fetched and compiled on first use (about a minute), found in no time afterwards."""
    CACHE.mkdir(exist_ok=True)
    with _locked(CACHE / "kafka.lock"):
        jars = _fetched_jars()
        return KafkaInstallation(jars=jars, classes=_compiled_classes(jars))


def _fetched_jars() -> Path:
    wanted = hashlib.sha256(repr(DEPENDENCIES).encode()).hexdigest()[:12]
    target = CACHE / f"kafka-{KAFKA_VERSION}" / f"jars-{wanted}"
    if not (target / "complete").exists():
        with _replacing(target) as directory, tempfile.TemporaryDirectory(dir=CACHE) as work:
            _fetch(directory, Path(work))
    return target


def _fetch(directory: Path, work: Path) -> None:
    (work / "ivy.xml").write_text(_ivy_file())
    command = [java(), *_proxy_options(), "-jar", str(_ivy_jar()), "-cache", f"{work}/cache", "-m2compatible"]
    if settings := os.environ.get("IVY_SETTINGS"):
        command += ["-settings", settings]
    command += ["-ivy", f"{work}/ivy.xml", "-confs", "default", "-types", "jar", "bundle"]
    command += ["-retrieve", f"{directory}/[artifact]-[revision].[ext]"]
    output = ""
    for attempt in range(ATTEMPTS):
        time.sleep(5 * attempt)
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
        except subprocess.TimeoutExpired as slow:
            output = f"no answer within {FETCH_SECONDS} s: {slow}"
            continue
        output = done.stdout + done.stderr
        missing = [name for _, name, version in DEPENDENCIES if not (directory / f"{name}-{version}.jar").exists()]
        if done.returncode == 0 and not missing:
            return
        output += f"\nexit code {done.returncode}, missing {missing}"
    message = (
        f"could not fetch Kafka {KAFKA_VERSION} from Maven Central in {ATTEMPTS} attempts: "
        "is repo1.maven.org reachable, or does IVY_SETTINGS name a mirror?\n" + output[-3000:]
    )
    raise KafkaSetupError(message)


def _ivy_file() -> str:
    dependencies = "\n".join(
        f'<dependency org="{org}" name="{name}" rev="{version}" conf="default->default"/>'
        for org, name, version in DEPENDENCIES
    )
    return (
        '<ivy-module version="2.0"><info organisation="winnow" module="kafka-for-tests"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )


def _ivy_jar() -> Path:
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None or not pyspark.submodule_search_locations:
        message = "pyspark is not installed, and its Ivy is what fetches Kafka"
        raise KafkaSetupError(message)
    jars = sorted(Path(pyspark.submodule_search_locations[0], "jars").glob("ivy-*.jar"))
    if not jars:
        message = f"no ivy-*.jar in {pyspark.submodule_search_locations[0]}/jars"
        raise KafkaSetupError(message)
    return jars[-1]


def _proxy_options() -> list[str]:
    """Java does not read https_proxy by itself."""
    address = os.environ.get("https_proxy") or os.environ.get("HTTPS_PROXY")
    if not address:
        return []
    proxy = urlsplit(address if "//" in address else f"//{address}")
    return [f"-Dhttps.proxyHost={proxy.hostname}", f"-Dhttps.proxyPort={proxy.port or 80}"]


def _compiled_classes(jars: Path) -> Path:
    sources = sorted((HERE / "java").glob("*.java"))
    digest = hashlib.sha256(jars.name.encode())
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    target = CACHE / f"kafka-{KAFKA_VERSION}" / f"classes-{digest.hexdigest()[:12]}"
    if not (target / "complete").exists():
        with _replacing(target) as directory:
            compiler = [
                java(),
                "-jar",
                str(jars / f"ecj-{COMPILER_VERSION}.jar"),
                "-17",
                "-nowarn",
                "-d",
                str(directory),
            ]
            class_path = os.pathsep.join(str(jar) for jar in sorted(jars.glob("*.jar")))
            command = [*compiler, "-classpath", class_path, *map(str, sources)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                message = "the Java sources in tests/kafka/java do not compile:\n" + done.stdout + done.stderr
                raise KafkaSetupError(message)
    return target


@contextmanager
def _replacing(target: Path) -> Iterator[Path]:
    """A fresh directory that becomes `target`, with a file `complete` in it, only if nothing was raised."""
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
