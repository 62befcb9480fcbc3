"""Compiled kernels are found by contents: of their source and of all that it imports."""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from numba.core.registry import CPUDispatcher

from winnow import compiled
from winnow.worker.warm_up import warm_up

LIB = Path(__file__).parents[2] / "lib"
ADDING = """
from winnow.compiled import njit
from winnow.added_to import ADDEND

@njit(nogil=True)
def add(n):
    return n + ADDEND

def main():
    print(add(1), sum(add.stats.cache_hits.values()))
"""


def kernels() -> Iterator[Any]:
    for name, module in list(sys.modules.items()):
        if name.startswith("winnow."):
            yield from (
                value
                for value in vars(module).values()
                if isinstance(value, CPUDispatcher) and value.py_func.__module__ == name
            )


def files_of(file: Path) -> set[Path]:
    """Return all files that this one imports, in any depth, and itself."""
    found, new = {file}, [file]
    while new:
        new = [other for other in compiled._imported(new.pop()) if other not in found] + new
        found.update(new)
    return found


def test_list_of_files_with_kernels_is_whole() -> None:
    warm_up()
    listed = {found for file in compiled._WITH_KERNELS for found in files_of(LIB / "winnow" / file)}
    having = {Path(inspect.getfile(kernel.py_func)) for kernel in kernels()}
    assert len(having) > 10
    assert having <= listed


def test_everything_of_ours_that_a_kernel_names_is_part_of_its_stamp() -> None:
    warm_up()
    for kernel in kernels():
        function = kernel.py_func
        known = files_of(Path(inspect.getfile(function)))
        for name in function.__code__.co_names:
            value = function.__globals__.get(name)
            module = sys.modules.get(getattr(value, "__module__", None) or "")
            if module is not None and module.__name__.startswith("winnow."):
                assert Path(str(module.__file__)) in known, f"{function.__name__}: {name}"


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A copy of the library with a kernel that uses a constant of another module."""
    place = tmp_path / "one" / "lib"
    shutil.copytree(LIB, place, ignore=shutil.ignore_patterns("__pycache__"))
    (place / "winnow" / "adding.py").write_text(ADDING)
    (place / "winnow" / "added_to.py").write_text("ADDEND = 1\n")
    return place


def call(lib: Path, **environment: str) -> str:
    """Call the kernel in a new process. Return its result and whether it was found compiled."""
    known = {name: text for name, text in os.environ.items() if not name.startswith("NUMBA")}
    ended = subprocess.run(
        [sys.executable, "-c", "from winnow.adding import main; main()"],
        env={**known, "PYTHONPATH": str(lib), "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def test_kernel_is_found_in_a_copy_and_not_after_a_change_of_what_it_uses(library: Path) -> None:
    assert call(library) == "2 0"
    assert call(library) == "2 1"
    copy = library.parents[1] / "two" / "lib"
    shutil.copytree(library.parent, copy.parent, copy_function=shutil.copyfile)
    assert call(copy) == "2 1"
    (copy / "winnow" / "added_to.py").write_text("ADDEND = 2\n")
    assert call(copy) == "3 0"
    (copy / "winnow" / "added_to.py").write_text("ADDEND = 1\n")
    assert call(copy) == "2 1"


def test_kernel_for_other_processor_is_not_used(library: Path) -> None:
    assert call(library) == "2 0"
    assert call(library, NUMBA_CPU_NAME="nehalem") == "2 0"
    assert call(library, NUMBA_CPU_NAME="nehalem") == "2 1"


@pytest.mark.parametrize(("name", "features", "sets"), [("generic", "", 1), ("nehalem", None, 2)])
def test_complete_set_depends_on_the_machine_unless_name_and_features_are_chosen(
    name: str, features: str | None, sets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("numba.config.CPU_NAME", name)
    monkeypatch.setattr("numba.config.CPU_FEATURES", features)
    here = compiled._complete.__wrapped__()
    monkeypatch.setattr("llvmlite.binding.get_host_cpu_name", lambda: "another")
    assert len({compiled._complete.__wrapped__(), here}) == sets


def test_kernel_is_compiled_where_nothing_can_be_written(library: Path, tmp_path: Path) -> None:
    (library.parent / ".cache").write_text("not a directory")
    nowhere = {"HOME": "/dev/null", "XDG_CACHE_HOME": "/dev/null"}
    assert call(library, **nowhere) == "2 0"
    own = {**nowhere, "WINNOW_RUN_DIR": str(tmp_path)}
    assert (call(library, **own), call(library, **own)) == ("2 0", "2 1")


def test_directory_of_the_user_is_used_and_broken_files_in_it_are_replaced(
    library: Path, tmp_path: Path
) -> None:
    own = {"NUMBA_CACHE_DIR": str(tmp_path / "own")}
    assert call(library, **own) == "2 0"
    for file in (tmp_path / "own").iterdir():
        file.write_bytes(b"")
    assert call(library, **own) == "2 0"
    assert call(library, **own) == "2 1"
    assert not (library.parent / ".cache").exists()


def test_processes_that_compile_at_once_do_not_mix_their_kernels(library: Path) -> None:
    """With numba's index, each would have named its own code as number 1 of this function."""
    program = "import sys; from winnow.adding import add; print(add(eval(sys.argv[1])))"
    known = {name: text for name, text in os.environ.items() if not name.startswith("NUMBA")}
    arguments = ("1", "1.5", "1j", "True")

    def results() -> list[str]:
        running = [
            subprocess.Popen(
                [sys.executable, "-c", program, argument],
                env={**known, "PYTHONPATH": str(library), "PYTHONDONTWRITEBYTECODE": "1"},
                stdout=subprocess.PIPE,
                text=True,
            )
            for argument in arguments
        ]
        return [process.communicate(timeout=120)[0].strip() for process in running]

    assert results() == results() == ["2", "2.5", "(1+1j)", "2"]
    kept = library.parent / ".cache" / "numba"
    assert len([*kept.glob("winnow.adding.add-*.nbc")]) == len(arguments)


def test_kernel_made_inside_a_function_is_refused() -> None:
    def factory() -> None:
        @compiled.njit(nogil=True)
        def local(n: int) -> int:
            return n

        local(1)

    with pytest.raises(TypeError, match="move it out of its function"):
        factory()
