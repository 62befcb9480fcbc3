"""examples/notebook.ipynb runs from first to last cell in its own kernel and prints the output that
it shows.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "examples" / "notebook.ipynb"


def shown(cell: Any) -> list[str]:
    """What a cell has printed or displayed, as text, HTML or the name of the kind."""
    texts = []
    for output in cell.outputs:
        data = output.get("data", {})
        texts += [
            output.get("text", ""),
            *(data[kind] for kind in ("text/html", "text/plain") if kind in data),
            *data,
        ]
    return texts


def test_notebook_runs_and_prints_the_output_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, place in (
        ("IPYTHONDIR", "ipython"),
        ("JUPYTER_RUNTIME_DIR", "runtime"),
        ("MPLCONFIGDIR", "mpl"),
    ):
        monkeypatch.setenv(name, str(tmp_path / place))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("PYSPARK_PYTHON", os.environ.get("PYSPARK_PYTHON", "python3"))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert all(
        not cell.outputs and cell.execution_count is None
        for cell in notebook.cells
        if cell.cell_type == "code"
    )
    NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": str(NOTEBOOK.parent)}},
    ).execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    _, _, bloat, plan, plots, result, ledger = ("\n".join(shown(cell)) for cell in code)
    assert "c-hotkey" in bloat
    assert "<table>" in plan
    assert "to be cleaned" in plan
    assert "image/png" in plots
    assert "11 of 11 partitions cleaned" in result
    assert "compact,delete" in ledger
    (page,) = tmp_path.glob("winnow-notebook-*/cleaning.html")
    assert "c-hotkey" in page.read_text(encoding="utf-8")
