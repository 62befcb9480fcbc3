"""`clean --output` killed at every effect on its destination: `python -m tests.crash.output
DIRECTORY`.

This is a process of its own because it forks. A child does the run and dies at once, as by SIGKILL.
It leaves its private copy behind. Cleaning that copy is not part of this test and does nothing.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path

from winnow.cleaning.result import RunResult
from winnow.errors import UsageError
from winnow.runtime.progress import Silence
from winnow.runtime.stop import Stop
from winnow.storage.local_tree import LocalTree
from winnow.verbs.output.clean import Elsewhere, clean_elsewhere
from winnow.verbs.output.source import look_at

KILLED = 9
BESIDE = {".lock", ".winnow-unfinished"}


class Dying(LocalTree):
    """Ends the process before the effect of number `at`."""

    def __init__(self, directory: str, at: int) -> None:
        super().__init__(directory)
        self._left = at
        self._guard = threading.Lock()

    def create(self, name: str, data: bytes) -> None:
        self._count()
        super().create(name, data)

    def put(self, name: str, path: str) -> None:
        self._count()
        super().put(name, path)

    def delete(self, name: str) -> None:
        self._count()
        super().delete(name)

    def settle(self) -> None:
        self._count()
        super().settle()

    def _count(self) -> None:
        with self._guard:
            if self._left == 0:
                os._exit(KILLED)
            self._left -= 1


def write_source(directory: Path) -> None:
    directory.mkdir()
    (directory / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    (directory / ".kafka_cleanshutdown").write_text('{"version":0}')
    (directory / "cleaner-offset-checkpoint").write_text("0\n0\n")
    for name in ("a-0", "b-0", "__cluster_metadata-0"):
        (directory / name).mkdir()
        for suffix in ("log", "index", "timeindex"):
            (directory / name / f"00000000000000000000.{suffix}").write_bytes(os.urandom(100))


def run(source: Path, output: Path, at: int) -> None:
    asked = Elsewhere(
        sources=[LocalTree(str(source))],
        destinations=[Dying(str(output), at)],
        begin_again=True,
        work_space=400,
    )
    clean_elsewhere(asked, _nothing, run_id="x", stop=Stop(), progress=Silence(), check=_anything)


def _anything(*_: object) -> None:
    pass


def _nothing(copies: Sequence[str]) -> RunResult:
    assert len(copies) == 1
    return RunResult(run_id="x", verb="clean", now=0, partitions=())


def killed(source: Path, output: Path, at: int) -> bool:
    """Whether the run died; else it came to its end."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            run(source, output, at)
            code = 0
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) in {0, KILLED}
    return os.waitstatus_to_exitcode(status) == KILLED


def contents(directory: Path) -> dict[str, bytes]:
    files = {
        str(path.relative_to(directory)): path for path in directory.rglob("*") if path.is_file()
    }
    return {name: path.read_bytes() for name, path in files.items() if name not in BESIDE}


def is_log_directory(output: Path) -> bool:
    try:
        look_at(LocalTree(str(output)))
    except UsageError:
        return False
    return True


def main(home: Path) -> None:
    """Prints how many crashes there were and how many of them left a whole log directory."""
    source = home / "source"
    write_source(source)
    expected = contents(source)
    at = whole = 0
    while killed(source, output := home / f"output-{at}", at):
        if is_log_directory(output):
            whole += 1
        else:
            assert not (output / "meta.properties").exists()
            # What a first run left another one may leave as well: a crash of the clearing.
            for later in range(at + 1):
                if not killed(source, output, 2 * later):
                    break
                if is_log_directory(output):
                    break
            if not is_log_directory(output):
                assert not killed(source, output, 10_000)
        assert contents(output) == expected
        assert not [
            path
            for path in output.iterdir()
            if path.is_dir() and path.name not in os.listdir(source)
        ]
        at += 1
    assert contents(source) == expected
    sys.stdout.write(f"{at} {whole}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
