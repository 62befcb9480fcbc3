"""Write lists of jars: `python -m tests.kafka.judge.resolve 3.9.2 4.4.0`. Only this needs Maven.

A list holds what a broker of that version needs, with one logging for all.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.kafka.judge.jars import JAR_LISTS

LOGGING = "2.25.4"
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>winnow</groupId><artifactId>judge</artifactId><version>1</version>
<dependencies>{}</dependencies></project>
"""
DEPENDENCY = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
)
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:list"
HEAD = (
    "# Kafka's broker of this version and its logging on Maven Central: SHA-256 and path.\n"
    "# Written by tests/kafka/judge/resolve.py.\n"
)


def main(versions: list[str]) -> None:
    for version in versions:
        lines = sorted(_resolved(version), key=lambda line: line.split()[1])
        (JAR_LISTS / f"{version}.txt").write_text(HEAD + "".join(lines), encoding="utf-8")
        sys.stdout.write(f"{version}: {len(lines)} jars\n")


def _resolved(version: str) -> list[str]:
    logging = ["log4j-core", "log4j-slf4j-impl"]
    if int(version.split(".", maxsplit=1)[0]) < 4:
        logging.append("log4j-1.2-api")  # Kafka itself calls Log4j 1
    wanted = [
        ("org.apache.kafka", "kafka_2.13", version),
        *(("org.apache.logging.log4j", name, LOGGING) for name in logging),
    ]
    with tempfile.TemporaryDirectory() as project:
        pom = Path(project) / "pom.xml"
        pom.write_text(POM.format("".join(DEPENDENCY.format(*one) for one in wanted)))
        found = Path(project) / "found"
        repository = Path.home() / ".m2" / "repository"
        subprocess.run(
            [
                "mvn",
                "--batch-mode",
                "--quiet",
                f"-Dmaven.repo.local={repository}",
                f"-DoutputFile={found}",
                "-DoutputAbsoluteArtifactFilename=true",
                "-DincludeScope=runtime",
                PLUGIN,
            ],
            cwd=project,
            check=True,
        )
        jars = [Path(path) for path in re.findall(r"(/\S+\.jar)", found.read_text())]
    return [
        f"{hashlib.sha256(jar.read_bytes()).hexdigest()}  {jar.relative_to(repository)}\n"
        for jar in jars
    ]


if __name__ == "__main__":
    main(sys.argv[1:])
