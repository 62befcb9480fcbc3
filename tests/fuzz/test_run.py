"""`fuzz/run.py` runs the targets it was given and records the results, also when stopped."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def command(output: Path, executions: int) -> list[str]:
    targets = ("varint", "file-name")
    numbers = (f"--executions={executions}", "--seed=7", f"--output={output}")
    return [sys.executable, str(ROOT / "fuzz" / "run.py"), *numbers, "--target", *targets]


def test_finished_run_records_its_results(tmp_path: Path) -> None:
    output = tmp_path / "results.md"
    assert (
        subprocess.run(command(output, 3000), check=False, stderr=subprocess.DEVNULL).returncode
        == 0
    )
    text = output.read_text(encoding="utf-8")
    assert "3,000 executions of 3,000 planned, 0 findings.\nSeed 7" in text
    assert re.search(r"^\| varint \| 1,500 \| \d+% \|", text, re.MULTILINE)
    assert re.search(r"^\| file-name \| 1,500 \| \d+% \|", text, re.MULTILINE)


def test_stopped_run_records_its_results_so_far(tmp_path: Path) -> None:
    output = tmp_path / "results.md"
    with subprocess.Popen(command(output, 10**9), stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        first = run.stderr.readline()
        run.send_signal(signal.SIGTERM)
        assert run.wait() == 0
    assert first.startswith("200,000 of 1,000,000,000 ")
    done = re.search(
        r"([\d,]+) executions of 1,000,000,000 planned", output.read_text(encoding="utf-8")
    )
    assert done is not None
    assert int(done[1].replace(",", "")) >= 200_000
