"""A user who can write to a log directory can neither run code as the user who starts Winnow there
nor read the files of a run.
"""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest

from winnow.cli.demo import unpack

ROOT = Path(__file__).parents[2]
MODULES = (
    "pyspark",
    "winnow",
    "numpy",
    "sitecustomize",
    "usercustomize",
    "numba",
    "json",
    "venv",
    "py4j",
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A log directory with modules that write a mark file when imported."""
    place = tmp_path_factory.mktemp("hostile")
    log_dir = unpack(str(place))
    for name in MODULES:
        code = f"open({str(place / 'mark')!r}, 'a').write({name!r} + '\\n')\n"
        (log_dir / f"{name}.py").write_text(code, encoding="utf-8")
    yield log_dir
    assert not (place / "mark").exists()


def run(directory: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROOT / "spark-submit.sh", *arguments],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": ":", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["inspect", "."], ["recover", ".", "--dry-run"]],
    ids=lambda a: a[0],
)
def test_verbs_without_spark_import_nothing_from_working_directory(
    hostile: Path, arguments: list[str]
) -> None:
    ended = run(hostile, *arguments)
    assert ended.returncode in {0, 3}, ended.stderr
    assert ended.stdout


def test_spark_imports_nothing_from_working_directory_and_keeps_its_files_private(
    hostile: Path, tmp_path: Path
) -> None:
    seen: dict[str, int] = {}
    over = Event()

    def watch() -> None:
        while not over.wait(0.05):
            seen.update(
                {path.name: stat.S_IMODE(path.lstat().st_mode) for path in tmp_path.iterdir()}
            )

    watcher = Thread(target=watch)
    watcher.start()
    ended = run(
        hostile,
        "plan",
        ".",
        "--estimate",
        "--topic-configs",
        str(ROOT / "demo/topic-configs.txt"),
        TMPDIR=str(tmp_path),
    )
    over.set()
    watcher.join()
    assert ended.returncode in {0, 3}, ended.stderr
    assert "compacted" in ended.stdout
    assert [name.startswith("winnow-run-") for name in seen] == [True]
    assert set(seen.values()) == {0o700}
    wait_until_empty(tmp_path)


def test_script_imports_modules_beside_it(tmp_path: Path) -> None:
    (tmp_path / "beside_me.py").write_text("WORDS = 'found it'\n", encoding="utf-8")
    (tmp_path / "script.py").write_text(
        "import beside_me\nprint(beside_me.WORDS)\n", encoding="utf-8"
    )
    (tmp_path / "tmp").mkdir()
    ended = run(ROOT, str(tmp_path / "script.py"), TMPDIR=str(tmp_path / "tmp"))
    assert ended.stdout == "found it\n", ended.stderr
    wait_until_empty(tmp_path / "tmp")


def test_console_of_python_alone_imports_nothing_from_working_directory(
    hostile: Path, tmp_path: Path
) -> None:
    """Without spark-submit.sh, Python starts Java, and Java starts Python's workers."""
    code = "import sys; from winnow.cli.main import run; sys.exit(run(['plan', '.', '--estimate']))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "lib"), "TMPDIR": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=hostile,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode in {0, 3}, ended.stderr
    wait_until_empty(tmp_path)


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGKILL]
)
def test_files_of_run_that_is_killed_are_removed(
    hostile: Path, tmp_path: Path, number: int
) -> None:
    command = [ROOT / "spark-submit.sh", "plan", ".", "--estimate"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    quiet = subprocess.DEVNULL
    with subprocess.Popen(
        command, cwd=hostile, env=environment, stdout=quiet, stderr=quiet
    ) as process:
        for _ in range(600):
            if list(tmp_path.glob("winnow-run-*/blockmgr-*")):
                break
            time.sleep(0.05)
        assert list(tmp_path.glob("winnow-run-*/blockmgr-*"))
        process.send_signal(number)
    wait_until_empty(tmp_path)


def wait_until_empty(path: Path) -> None:
    """Wait until the run's directories are removed, which happens right after it."""
    for _ in range(100):
        if not list(path.iterdir()):
            return
        time.sleep(0.05)
    assert list(path.iterdir()) == []
