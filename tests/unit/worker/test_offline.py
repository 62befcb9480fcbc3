"""What `package --offline` packs."""

from __future__ import annotations

import pytest

from winnow.resources import resource
from winnow.worker.offline import CACHE, _content


def test_offline_archive_marks_its_kernels_as_compiled() -> None:
    """`lib/set-up.sh` removes kernels without the mark, and compiles them again."""
    marks = {f"{CACHE}/numba/{file.name}" for file in resource(f"{CACHE}/numba").glob("warm*")}
    if not marks:
        pytest.skip("./run-tests.sh compiles the kernels and marks them")
    assert marks <= {name for name, _ in _content()}
