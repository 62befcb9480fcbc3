"""What the console loads before it knows the command."""

import subprocess
import sys

import pytest

_LOADED = """
import sys
import winnow.cli.main
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


@pytest.mark.parametrize(
    "heavy", ["numba", "pyarrow", "pyspark", "pandas", "jinja2", "numpy", "http"]
)
def test_heavy_modules_are_not_loaded_at_start(heavy: str, loaded: set[str]) -> None:
    assert "winnow" in loaded
    assert heavy not in loaded


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    """Return the top-level modules of a fresh interpreter that has loaded the console's
    commands.
    """
    shown = subprocess.run(
        [sys.executable, "-c", _LOADED], capture_output=True, text=True, check=True
    )
    return set(shown.stdout.split())


def test_plan_and_clean_do_not_load_pyarrow() -> None:
    script = "import sys, winnow.api.run; print('numba' in sys.modules, 'pyarrow' in sys.modules)"
    shown = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert shown.stdout.split() == ["True", "False"]


def test_last_collection_of_a_process_visits_nothing() -> None:
    """Functions that were registered first run last."""
    script = """
import atexit, gc, sys
atexit.register(lambda: print("left:", len(gc.get_objects())))
from winnow.cli.main import main
sys.argv = ["winnow", "--version"]
main()
"""
    shown = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert int(shown.stdout.rpartition("left: ")[2]) < 100
