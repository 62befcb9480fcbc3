"""Who is measured: Kafka's cleaner, Winnow warm and cold, and as floors a plain copy and the disk
alone. Each works in place.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.data import NOW, DataSet
from tests.kafka.judge.jars import PROJECT, installation, java
from tests.kafka.judge.judge import ORACLE, Kafka
from winnow.logdir.names import CLEANER_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT

SESSION_SECONDS = 1200
_PIECE_BYTES = 16 * 2**20


class ContestantFailedError(Exception):
    """Nothing was measured."""


@dataclass(frozen=True, slots=True)
class Measure:
    seconds: float
    """Of the cleaning itself, from opening the log to the last fsync; of the whole process for
    `winnow cold`.
    """
    process_seconds: float | None
    """From process start to its end, None in a session that lives on."""
    bytes_after: int
    rounds: int = 1
    segments: int | None = None
    """Closed segments before. None: not counted."""
    unchanged: int | None = None
    """Of these, those that were not written because they lose nothing."""


def log_bytes(log_dir: Path) -> int:
    return sum(file.stat().st_size for file in log_dir.glob("*/*.log"))


def kafka(data: DataSet, log_dir: Path, *, dedupe_mib: int, threads: int) -> Measure:
    """Kafka's Cleaner in a fresh JVM, its buffers as a broker with so many cleaner threads has
    them.

    `dedupe_mib` is per thread; Kafka's default is 128 for all threads together.
    """
    heap = 1024 + dedupe_mib * threads
    command = [java(), f"-Xms{heap}m", f"-Xmx{heap}m", "-cp", installation().class_path, ORACLE]
    begin = time.perf_counter()
    done = subprocess.run(
        command + _kafka_arguments(data, log_dir, dedupe_mib, threads),
        check=False,
        capture_output=True,
        text=True,
    )
    process_seconds = time.perf_counter() - begin
    if done.returncode != 0:
        raise ContestantFailedError(
            f"Kafka's cleaner ended with {done.returncode}\n{done.stderr[-3000:]}"
        )
    return _kafka_measure([json.loads(line) for line in done.stdout.splitlines()], process_seconds)


class WarmKafka:
    """Kafka's Cleaner in one JVM that keeps running, as in a broker, so its compiler is warm."""

    def __init__(self) -> None:
        self._jvm = Kafka(heap="4g", quick=False, timeout_seconds=SESSION_SECONDS)

    def clean(self, data: DataSet, log_dir: Path, *, dedupe_mib: int, threads: int) -> Measure:
        return _kafka_measure(
            self._jvm.ask(*_kafka_arguments(data, log_dir, dedupe_mib, threads)), None
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._jvm.close()


def _kafka_arguments(data: DataSet, log_dir: Path, dedupe_mib: int, threads: int) -> list[str]:
    arguments = ["clean"]
    for partition in data.partitions:
        arguments += ["--dir", str(log_dir / partition.name)]
    arguments += [
        "--rounds",
        "0",
        "--now",
        str(NOW),
        "--hw-checkpoint",
        "--topic-configs",
        str(data.topic_configs),
    ]
    arguments += ["--threads", str(threads), "--dedupe-buffer", str(dedupe_mib << 20)]
    return [*arguments, "--io-buffer", str((512 << 10) // threads // 2)]


def _kafka_measure(answers: list[dict[str, Any]], process_seconds: float | None) -> Measure:
    errors = [answer["error"] for answer in answers if "error" in answer]
    if errors:
        raise ContestantFailedError(f"Kafka's cleaner failed: {errors}")
    cleaned = [answer for answer in answers if answer["cmd"] == "clean"]
    return Measure(
        seconds=answers[-1]["wall_s"],  # of the one directory, or the total
        process_seconds=process_seconds,
        bytes_after=sum(answer["after"]["bytes"] for answer in cleaned),
        rounds=max(len(answer["rounds"]) for answer in cleaned),
    )


class WarmWinnow:
    """Winnow in one Spark session that keeps running."""

    def __init__(self, *, cores: int, patience: float = SESSION_SECONDS) -> None:
        """`patience`: seconds after which a run is given up."""
        self.left = 0
        """Log bytes in the directory that was cleaned last."""
        self._patience = patience
        self._log = tempfile.NamedTemporaryFile(prefix="winnow-warm-", suffix=".log")  # noqa: SIM115 - as long as the process
        self._process = subprocess.Popen(
            [sys.executable, str(PROJECT / "benchmarks" / "warm.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=session_environment(cores),
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def clean(self, data: DataSet, log_dir: Path, *, ledger: Path | None = None) -> Measure:
        return self.clean_profiled(data, log_dir, ledger=ledger, profile=False)[0]

    def clean_profiled(
        self, data: DataSet, log_dir: Path, *, ledger: Path | None = None, profile: bool = True
    ) -> tuple[Measure, dict[str, Any]]:
        """The second is the `winnow.runtime.profile.Profile`, as a dictionary; empty if it is not
        wanted.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise ContestantFailedError("Winnow's pipes are not open")
        order = {
            "log_dir": str(log_dir),
            "topic_configs": str(data.topic_configs),
            "now": NOW,
            "profile": profile,
        }
        stdin.write(json.dumps(order | {"ledger": None if ledger is None else str(ledger)}) + "\n")
        stdin.flush()
        alarm = threading.Timer(self._patience, self._process.kill)
        alarm.start()
        line = stdout.readline()
        alarm.cancel()
        if not line:
            logged = Path(self._log.name).read_text(errors="replace")
            raise ContestantFailedError(
                f"Winnow's session ended, or said nothing for {self._patience} s\n{logged[-3000:]}"
            )
        answer: dict[str, Any] = json.loads(line)
        if answer["status"] != "done" or (ledger is not None and answer["ledger"] is None):
            raise ContestantFailedError(f"Winnow: {answer}")
        self.left = log_bytes(log_dir)
        measure = Measure(
            seconds=answer["seconds"],
            process_seconds=None,
            bytes_after=self.left,
            segments=answer["segments"],
            unchanged=answer["unchanged"],
        )
        return measure, answer["profile"] or {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.stdin:
            self._process.stdin.close()
        self._process.wait(timeout=60)
        if self._process.stdout:
            self._process.stdout.close()
        self._log.close()


def older_part_first(data: DataSet, clean: Callable[..., Measure], log_dir: Path) -> Measure:
    """The run that is measured. If the case was cleaned before, a run on the older part precedes
    it, with the same ledger and so the same key summaries.

    The first run sees the older part not cleaned and nothing after it, by other checkpoints.
    """
    if not data.case.cleaned_before:
        return clean(log_dir)
    ledger = log_dir.parent / "ledger"
    until, cleaned = log_dir / HIGH_WATERMARK_CHECKPOINT, log_dir / CLEANER_CHECKPOINT
    kept, bounds = until.read_bytes(), cleaned.read_bytes()
    until.write_bytes(bounds)  # no cleaning goes above the high watermark
    cleaned.unlink()
    clean(log_dir, ledger=ledger)
    until.write_bytes(kept)
    if cleaned.read_bytes().split() != bounds.split() or log_bytes(log_dir) != data.log_bytes:
        raise ContestantFailedError(
            f"{data.case.name}: the first cleaning did not leave the older part as it was"
        )
    os.sync()
    return clean(log_dir, ledger=ledger)


def winnow_cold(
    data: DataSet,
    log_dir: Path,
    *,
    cores: int,
    ledger: Path | None = None,
    options: Sequence[str] = (),
) -> Measure:
    """`./spark-submit.sh clean` from process start to its end, everything set up. `ledger`: not the
    default one. `options`: more of the verb's.
    """
    command = [
        str(PROJECT / "spark-submit.sh"),
        "--master",
        f"local[{cores}]",
        "clean",
        str(log_dir),
        "--json",
    ]
    command += ["--topic-configs", str(data.topic_configs), "--now", str(NOW), *options]
    command += [] if ledger is None else ["--ledger", str(ledger)]
    begin = time.perf_counter()
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    seconds = time.perf_counter() - begin
    if done.returncode != 0 or json.loads(done.stdout)["status"] != "done":
        raise ContestantFailedError(
            "winnow clean ended with "
            f"{done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
        )
    return Measure(seconds=seconds, process_seconds=seconds, bytes_after=log_bytes(log_dir))


def copy(data: DataSet, target: Path) -> Measure:
    """`cp -r` and `sync`: what the disk asks of anybody who writes as much as was read."""
    begin = time.perf_counter()
    shutil.copytree(data.log_dir, target)
    os.sync()
    seconds = time.perf_counter() - begin
    return Measure(seconds=seconds, process_seconds=seconds, bytes_after=log_bytes(target))


def disk(target: Path, size: int, *, cores: int) -> Measure:
    """Writes `size` bytes, syncs them, and reads them back from the disk: what it takes to know
    that they are there, when there is nothing else to do. A file for each core.
    """
    target.mkdir()
    begin = time.perf_counter()
    with ThreadPoolExecutor(cores) as threads:
        list(
            threads.map(
                lambda core: _there_and_back(target / f"{core}.log", size // cores), range(cores)
            )
        )
    seconds = time.perf_counter() - begin
    return Measure(seconds=seconds, process_seconds=None, bytes_after=size)


def _there_and_back(path: Path, size: int) -> None:
    piece = bytearray(_PIECE_BYTES)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    try:
        for at in range(0, size, _PIECE_BYTES):
            os.pwrite(file, memoryview(piece)[: size - at], at)
        if os.fstat(file).st_size != size:
            raise ContestantFailedError(f"{path}: there is no room for {size} bytes")
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        for at in range(0, size, _PIECE_BYTES):
            os.preadv(file, [piece], at)
    finally:
        os.close(file)


def session_environment(cores: int, *, conf: Sequence[str] = ()) -> dict[str, str]:
    """As `./spark-submit.sh` has it. Not by spark-submit itself, which keeps stdin from the job."""
    submit = [
        "--properties-file",
        str(PROJECT / "conf" / "spark-defaults.conf"),
        "--master",
        f"local[{cores}]",
    ]
    submit += ["--conf", "spark.python.daemon.module=winnow.worker.daemon", *conf, "pyspark-shell"]
    return os.environ | {
        "NUMBA_CACHE_DIR": os.environ.get("NUMBA_CACHE_DIR", str(PROJECT / ".cache" / "numba")),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": shlex.join(submit),
        "PYTHONPATH": str(PROJECT / "lib"),
        "SPARK_DIST_CLASSPATH": str(PROJECT / ".cache" / "jars" / "*"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SUBMIT_OPTS": f'-Dlog4j2.configurationFile="{PROJECT}/conf/log4j2.properties"',
    }
