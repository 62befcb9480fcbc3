"""What the console loads before it knows what is asked of it."""

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
def test_help_and_mistakes_wait_for_nothing_heavy(heavy: str, loaded: set[str]) -> None:
    assert "winnow" in loaded
    assert heavy not in loaded


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    """The top-level modules of a fresh interpreter that knows the console's commands."""
    shown = subprocess.run(
        [sys.executable, "-c", _LOADED], capture_output=True, text=True, check=True
    )
    return set(shown.stdout.split())


def test_a_cleaning_waits_for_no_arrow() -> None:
    script = "import sys, winnow.api; print('numba' in sys.modules, 'pyarrow' in sys.modules)"
    shown = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert shown.stdout.split() == ["True", "False"]
