"""Any exception in the work on one partition fails only that partition. The others continue."""

from __future__ import annotations

import ast
import json
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash import logs
from winnow.api import recover
from winnow.errors import CorruptLogError, failure_of
from winnow.recovery.runs.values import PartitionRecovery
from winnow.runtime.failure import failure
from winnow.storage.contract import Entry
from winnow.storage.local import LocalStorage

LIB = Path(__file__).resolve().parents[2] / "lib" / "winnow"
ROOMS = ("cleaning", "survey", "scan", "verbs", "recovery", "kafka_log", "runtime")
OTHERS = {"cleaning/plan/settings.py", "verbs/verify/logs.py", "verbs/inspect/directories.py"}
"""The first reads the metadata log of a broker, once per run. The others say at which byte a
file can't be read.
"""
SEGMENTS = {0: [logs.record(0, 0)], 3: [logs.record(3, 0)]}


def handlers() -> Iterator[tuple[str, int, set[str]]]:
    """Return (file, line, names of what is caught) of each `except` in code that works on many
    partitions.
    """
    for path in sorted(path for room in ROOMS for path in (LIB / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ExceptHandler) and node.type is not None:
                caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
                names = {name.id for name in caught if isinstance(name, ast.Name)}
                yield path.relative_to(LIB).as_posix(), node.lineno, names


def test_partition_failures_are_caught_as_fails_one_partition() -> None:
    """A list of the exceptions that one partition may raise is always incomplete."""
    own_lists = [
        f"{file}:{line}"
        for file, line, names in handlers()
        if "OSError" in names and names & {"WinnowError", "CorruptLogError"} and file not in OTHERS
    ]
    assert own_lists == [], "catch FAILS_ONE_PARTITION instead"
    assert len([1 for _, _, names in handlers() if "FAILS_ONE_PARTITION" in names]) > 20


@pytest.mark.parametrize(
    "error", [ValueError("x"), RecursionError("deep"), OverflowError(), KeyError(1)]
)
def test_unexpected_error_is_reported_with_its_type(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        told = failure_of(error)
    assert type(error).__name__ in told
    assert "report" in told
    assert caplog.records
    assert caplog.records[0].exc_info
    assert failure(error).exit_code == 3


def test_expected_error_is_reported_with_its_message(caplog: pytest.LogCaptureFixture) -> None:
    for error in (CorruptLogError("a batch", found="x"), OSError(13, "Permission denied")):
        assert failure_of(error) == str(error)
    bad_sector = OSError(5, "Input/output error")
    assert f"the disk can't read or write: {bad_sector}. " in failure_of(bad_sector)
    assert not caplog.records


class FailsIn(LocalStorage):
    """A storage with a defect that shows in one partition."""

    def __init__(self, name: str, error: BaseException) -> None:
        self._name, self._error = name, error

    def list_dir(self, path: str) -> tuple[Entry, ...]:
        if path.endswith(self._name):
            raise self._error
        return super().list_dir(path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two partitions, each with something to repair."""
    root = logs.make_log(tmp_path / "log", SEGMENTS, end=4, checkpoints={})
    for number in (0, 1):
        if number:
            shutil.copytree(root / "t-0", root / "t-1")
        (root / f"t-{number}" / f"{9:020d}.log.deleted").touch()
    return root


def test_defect_in_one_partition_does_not_stop_a_recovery(root: Path) -> None:
    done = recover([str(root)], storage=FailsIn("t-0", RuntimeError("a defect")))
    first, second = done.partitions
    assert first.error is not None
    assert "RuntimeError: a defect" in first.error
    assert (second.error, second.removed) == (None, (f"{9:020d}.log.deleted",))
    assert done.exit_code == 3


def test_interrupt_stops_a_recovery(root: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        recover([str(root)], storage=FailsIn("t-0", KeyboardInterrupt()))


BAD = {
    "text": '"a"',
    "infinity": "Infinity",
    "a float": "1e20",
    "a nest": "[" * 5000 + "]" * 5000,
}


def of(done: tuple[PartitionRecovery, ...], partition: int) -> PartitionRecovery:
    return next(one for one in done if one.partition == partition)


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
@pytest.mark.parametrize("kind", ["quarantine", "kept", "journal"])
def test_bad_manifest_does_not_stop_other_partitions(root: Path, kind: str, bad: str) -> None:
    directory = root / "t-0"
    whole = json.dumps(
        {
            "version": 1,
            "segments": [{"base_offset": "<here>", "log_bytes": 1}],
            "kept_at_ms": "<here>",
        }
    )
    content = whole.replace('"<here>"', bad)
    if kind == "journal":
        (directory / ".winnow-run").mkdir()
        (directory / ".winnow-run" / "round.json").write_text(content)
    elif kind == "kept":
        (directory / ".winnow-run-keep").mkdir()
        (directory / ".winnow-kept-run").mkdir()
        (directory / ".winnow-kept-run" / "run.json").write_text(content)
    else:
        (directory / ".winnow-run-quarantine").mkdir()
        (directory / ".winnow-quarantine-run").mkdir()
        (directory / ".winnow-quarantine-run" / "manifest.json").write_text(content)
    done = recover([str(root)]).partitions
    assert of(done, 1).error is None
    assert of(done, 1).removed
    if kind == "kept":
        error = of(done, 0).error
        assert error is not None
        assert "can't be understood" in error
    else:
        assert of(done, 0).error is None
    assert logs.listing_of(root).leftovers == ()
