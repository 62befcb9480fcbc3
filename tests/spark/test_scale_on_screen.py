"""What 2,000 partitions look like on a screen of 80 columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import winnow
from tests.session import verbs_use
from tests.spark.runs import NOW, add_partition, new_log_dir
from winnow.cli.main import run
from winnow.cli.text.progress import Display

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PARTITIONS = 2000


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory of 2,000 partitions in 100 topics: hard links to the first and the last
    segment of a recorded one.
    """
    root = tmp_path_factory.mktemp("many")
    log_dir = new_log_dir(root / "log-dir")
    source = add_partition(log_dir, "model-0", "c-tomb-0").rename(root / "model")
    bases = sorted(path.stem for path in source.glob("*.log"))
    files = [path for path in source.iterdir() if path.stem not in bases[1:-1]]
    names = [f"c{number // 20:04d}-{number}" for number in range(PARTITIONS)]
    for name in names:
        (log_dir / name).mkdir()
        for file in files:
            (log_dir / name / file.name).hardlink_to(file)
    ends = [f"{name.replace('-', ' ')} 1000" for name in names]
    (log_dir / "replication-offset-checkpoint").write_text(
        "\n".join(["0", str(len(ends)), *ends, ""])
    )
    topics = sorted({name.partition("-")[0] for name in names})
    lines = [f"{topic} cleanup.policy=compact\n" for topic in topics]
    (root / "topic-configs.txt").write_text("".join(lines))
    return root


def planned(
    spark: SparkSession,
    many: Path,
    capsys: pytest.CaptureFixture[str],
    *more: str,
) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        verbs_use(spark, patch)
        patch.setenv("COLUMNS", "80")
        words = ["plan", str(many / "log-dir"), "--now", str(NOW), "--no-ledger", "--quiet"]
        assert run([*words, "--topic-configs", str(many / "topic-configs.txt"), *more]) == 0
    return capsys.readouterr().out.splitlines()


def test_plan_of_2000_partitions_fits_a_screen(
    spark: SparkSession, many: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = planned(spark, many, capsys)
    assert len(lines) < 45, "\n".join(lines)
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("2,000 of 2,000 partitions have work to do")
    assert any(line.startswith("all 2,000") for line in lines)
    assert "1,980 more partitions have a line with --all." in lines
    reasons = [line for line in lines if line.split()[:1] == ["2,000"] and "(S3" in line]
    assert len(reasons) == 1, "\n".join(lines)
    assert "dirty ratio N is above min.cleanable.dirty.ratio N (S3.4)" in reasons[0]


def test_all_shows_each_partition(
    spark: SparkSession, many: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = planned(spark, many, capsys, "--all")
    rows = [line for line in lines if line.startswith("c0") and "compacted" in line]
    assert len(rows) == PARTITIONS


def test_repr_of_a_plan_is_one_short_line(spark: SparkSession, many: Path) -> None:
    plan = winnow.plan(
        spark, str(many / "log-dir"), topic_configs=str(many / "topic-configs.txt"), now=NOW
    )
    for one in (plan, plan.run):
        assert repr(one).endswith("done, 2,000 of 2,000 partitions>")
        assert len(repr(one)) < 100


def test_every_phase_of_a_plan_has_a_count(spark: SparkSession, many: Path) -> None:
    shown: list[str] = []

    class Kept(Display):
        def advance(self, amount: int) -> None:
            super().advance(amount)
            shown.append(self.line())

    with Kept() as progress:
        winnow.plan(
            spark,
            str(many / "log-dir"),
            topic_configs=str(many / "topic-configs.txt"),
            now=NOW,
            progress=progress,
        )
    for phase in ("deciding: 2,000 of 2,000", "reading batch headers"):
        assert any(phase in line for line in shown), sorted({x.split(":")[0] for x in shown})
