from benchmarks.notebook import Cpu
from tests.pages import DOCS, ROOT

RESULTS = ROOT / "benchmarks" / "results" / "notebook.md"


def rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| ")]


def test_notebook_guide_shows_the_benchmark_results() -> None:
    page = (DOCS / "how-to" / "notebook.md").read_text(encoding="utf-8")
    measured = RESULTS.read_text(encoding="utf-8")
    assert len(rows(page)) > 3
    assert {*rows(page)} <= {*rows(measured)}
    date, records = measured.split(" on ")[1].split(": ")[0], measured.split(": ")[1].split(" ")[0]
    assert date in page
    assert records in page


def test_cpu_seconds_never_decrease() -> None:
    cpu = Cpu()
    before = cpu.seconds
    assert cpu.seconds >= before > 0
