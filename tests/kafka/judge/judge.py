"""Kafka's own log classes as the tests' judge: one JVM for a whole session, called over a pipe.

Everything works IN PLACE on the given directories, so copy them first. Loading alone already
changes a directory (recovery, snapshots), as a starting broker does.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.kafka.judge.jars import KAFKA_VERSION, installation, java, quick_java, release

ORACLE = "org.apache.kafka.storage.internals.log.Oracle"
END = "."
DEDUPE_BYTES = 16 << 20
"""Room for 600,000 keys: plenty for tests, and much sooner allocated than Kafka's default of 128
MiB.
"""

Line = dict[str, Any]
Option = bool | int | float | str | Path | Mapping[str, object]


class KafkaFailedError(AssertionError):
    """Kafka threw, or did not answer. The message ends with what it logged."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A partition directory as Kafka's loader sees it, and its files afterwards."""

    error: str | None
    state: Mapping[str, Any]
    """start_offset, end_offset, high_watermark, last_stable_offset, active_segment, segments, bytes
    and more.
    """
    lines: list[Line]
    """As `Kafka.dump` gives them."""

    @property
    def records(self) -> list[Line]:
        return [line for line in self.lines if line["t"] == "rec"]


class Kafka:
    """A JVM that answers. Options are those at the head of Oracle.java, with `_` for `-`:
    `delete_retention_ms=0`.

    `config={"segment.bytes": 1048576}` gives any topic config, `topic_configs=FILE` one per topic
    as in the fixtures, a flag is given as `roll=True`. `now` is the clock that Kafka sees, ms since
    the epoch. `quick` as in `quick_java`; without it Java compiles all that is worth it.

    `version`: whose classes. Only those of `KAFKA_VERSION` clean single rounds, dump and recover;
    the others open, append, retain and attend.
    """

    def __init__(
        self,
        *,
        heap: str = "768m",
        quick: bool = True,
        timeout_seconds: float = 120,
        version: str = KAFKA_VERSION,
    ) -> None:
        self.version = release(version)
        self._timeout_seconds = timeout_seconds
        self._log = tempfile.NamedTemporaryFile(prefix="kafka-judge-", suffix=".log")  # noqa: SIM115 - lives as long as the JVM
        flags = [f"-Xmx{heap}", "-XX:+UseSerialGC"]
        command = (
            quick_java(*flags, version=version)
            if quick
            else [java(), *flags, "-cp", installation(version).class_path]
        )
        self._process = subprocess.Popen(
            [*command, ORACLE, "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            encoding="utf-8",
        )

    def clean(
        self, directories: Path | Iterable[Path], *, now: int, **options: Option
    ) -> list[Line]:
        """Kafka's Cleaner over partition directories, one round unless `rounds` says otherwise (0:
        until clean).
        """
        return self._answer(
            "clean", directories, {"dedupe_buffer": DEDUPE_BYTES, "now": now} | options
        )

    def clean_each(
        self, directories: Iterable[Path], *, now: int, **options: Option
    ) -> dict[Path, Line]:
        """As `clean`, one round; a log that Kafka's cleaner fails on has "error"."""
        return self._of_each(
            "clean", directories, {"dedupe_buffer": DEDUPE_BYTES, "now": now} | options
        )

    def accept(self, files: Iterable[Path]) -> dict[Path, Line]:
        """Whether a broker takes the batch in each file from a client: "refused" says why not, and
        "unchanged" whether it appends the records as they are (Accept.java).
        """
        answers = self._checked(self.ask("accept", *map(str, files)))
        return {Path(answer["file"]): answer for answer in answers}

    def retain(
        self, directories: Path | Iterable[Path], *, now: int, **options: Option
    ) -> list[Line]:
        """`UnifiedLog.deleteOldSegments`: retention by start offset, size and time."""
        return self._answer("retain", directories, {"now": now} | options)

    def open(
        self, directories: Path | Iterable[Path], *, now: int, **options: Option
    ) -> list[Line]:
        """Open and close, fsync included; `unclean=True` recovers as after a crash."""
        return self._answer("open", directories, {"now": now} | options)

    def rebuild(
        self, directories: Iterable[Path], *, now: int, **options: Option
    ) -> dict[Path, Line]:
        """Opens and closes, as `open`; a log whose missing indexes Kafka could not make anew has
        "error".
        """
        return self._of_each("open", directories, {"now": now} | options)

    def live(
        self, directories: Iterable[Path], *, now: int, steps: Path, **options: Option
    ) -> dict[Path, Line]:
        """Appends to each what the file of its name in `steps` says (Append.java), or nothing. One
        may have "error".
        """
        fixed: dict[str, Option] = {"now": now, "steps": steps, "write_checkpoint": True}
        return self._of_each("append", directories, fixed | options)

    def attend(
        self, directories: Iterable[Path], *, now: int, **options: Option
    ) -> dict[Path, Line]:
        """All that a broker's cleaner and retention do to the partitions of one log directory
        (Pass.java).
        """
        return self._of_each(
            "pass", directories, {"dedupe_buffer": DEDUPE_BYTES, "now": now} | options
        )

    def recover(
        self, log_dirs: Path | Iterable[Path], *, now: int, **options: Option
    ) -> list[Line]:
        """Load whole log directories with LogManager and shut it down cleanly (Recover.java)."""
        return self._answer("recover", log_dirs, {"now": now} | options)

    def load(self, directory: Path, *, now: int, **options: Option) -> Loaded:
        """Load one directory as a starting broker does; fast. `unclean=True`: without a
        clean-shutdown marker.
        """
        head, *lines = self.ask(
            "load", "--dir", str(directory), *_arguments({"now": now} | options)
        )
        return Loaded(
            error=head.get("error"),
            state=head.get("after") or head.get("before") or {},
            lines=lines,
        )

    def dump(self, directory: Path, *, aux: bool = True, records: bool = True) -> list[Line]:
        """Every segment, batch and record, read by Kafka; `aux` adds indexes, snapshots and more.
        Format: Dump.java.
        """
        flags = ["--aux"] * aux + ["--no-records"] * (not records)
        _, *lines = self._checked(self.ask("dump", "--dir", str(directory), *flags))
        return lines

    def dump_log(self, files: Iterable[Path], *flags: str) -> dict[Path, tuple[list[str], str]]:
        """What `kafka-dump-log` prints of each file: its lines, and what it says on stderr."""
        answers = self._checked(self.ask("dumplog", *flags, *map(str, files)))
        return {
            Path(answer["file"]): (answer["out"].split("\n")[1:-1], answer["err"])
            for answer in answers
        }

    def checkpoints(self, files: Iterable[Path]) -> dict[Path, list[str]]:
        """The entries of checkpoint files, as lines of their own kind."""
        answers = self._checked(self.ask("checkpoint", *map(str, files)))
        return {Path(answer["file"]): answer["entries"] for answer in answers}

    def run(self, command: str, directories: Path | Iterable[Path], *arguments: str) -> list[Line]:
        """A command line as recorded in the fixtures' cmd.txt, without its `--dir`."""
        name, *rest = command.split()
        return self._checked(self.ask(name, *_dirs(directories), *rest, *arguments))

    def ask(self, *arguments: str) -> list[Line]:
        """One command, its answer unjudged."""
        if any(c in argument for argument in arguments for c in "\t\n\r"):
            raise ValueError(f"tabs and line breaks can't be sent: {arguments}")
        alarm = threading.Timer(self._timeout_seconds, self._process.kill)
        alarm.start()
        try:
            return self._exchange("\t".join(arguments))
        finally:
            alarm.cancel()

    def close(self) -> None:
        if self._process.stdin:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _answer(
        self, command: str, directories: Path | Iterable[Path], options: Mapping[str, Option]
    ) -> list[Line]:
        answers = self._checked(self.ask(command, *_dirs(directories), *_arguments(options)))
        return [answer for answer in answers if answer["cmd"] != "total"]

    def _of_each(
        self, command: str, directories: Iterable[Path], options: Mapping[str, Option]
    ) -> dict[Path, Line]:
        answers = self.ask(command, *_dirs(directories), *_arguments(options))
        self._checked([answer for answer in answers if "cmd" not in answer])
        return {Path(answer["dir"]): answer for answer in answers if answer["cmd"] != "total"}

    def _exchange(self, line: str) -> list[Line]:
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise KafkaFailedError("Kafka's pipes are not open")
        try:
            stdin.write(line + "\n")
            stdin.flush()
        except OSError as gone:
            raise self._failure(f"Kafka is gone ({gone})") from gone
        answers: list[Line] = []
        while (text := stdout.readline().rstrip("\n")) != END:
            if not text:
                problem = f"Kafka died, or did not answer within {self._timeout_seconds} s: {line}"
                raise self._failure(problem)
            answers.append(json.loads(text))
        return answers

    def _checked(self, answers: list[Line]) -> list[Line]:
        errors = [
            f"{answer.get('dir', '')}: {answer['error']}" for answer in answers if "error" in answer
        ]
        if errors:
            raise self._failure("\n".join(errors))
        return answers

    def _failure(self, problem: str) -> KafkaFailedError:
        logged = Path(self._log.name).read_text(encoding="utf-8", errors="replace")
        return KafkaFailedError(f"{problem}\n{logged[-3000:]}")


def _dirs(directories: Path | Iterable[Path]) -> list[str]:
    several = [directories] if isinstance(directories, Path) else list(directories)
    return [argument for directory in several for argument in ("--dir", str(directory))]


def _arguments(options: Mapping[str, Option]) -> list[str]:
    arguments: list[str] = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if isinstance(value, Mapping):
            for key, setting in value.items():
                arguments += [option, f"{key}={setting}"]
        elif value is True:
            arguments.append(option)
        elif value is not False:
            arguments += [option, str(value)]
    return arguments
