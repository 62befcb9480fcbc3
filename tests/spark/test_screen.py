"""What a person sees on a terminal of 80 columns, with 300 partitions of topics with long names."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.fixtures.data import copy_file, copy_tree
from tests.spark.runs import NOW, add_partition, new_log_dir
from tests.terminal import COLUMNS, Seen, on_a_terminal

pytestmark = pytest.mark.spark

KINDS = {
    # a recorded partition, the topic of its copies, the topic's own settings
    "c-tomb-0": ("orders.customer-master-data.v{0}", "cleanup.policy=compact"),
    "c-none-0": (
        "payments-service-eu-central-1-KSTREAM-AGGREGATE-STATE-STORE-00000000{0}-changelog",
        "cleanup.policy=compact",
    ),
    "d-time-0": ("audit-{0}", "cleanup.policy=delete,retention.ms=1000"),
    "c-zstd-0": ("unknown-{0}", ""),
}
PER_TOPIC = 25
TOPICS = 3


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("screen")
    log_dir = new_log_dir(root / "kafka")
    ends, configs = [], []
    for source, (pattern, settings) in KINDS.items():
        model = add_partition(log_dir, f"{source}-model", source).rename(root / source)
        bases = sorted(path.stem for path in model.glob("*.log"))
        files = [path for path in model.iterdir() if path.stem not in bases[1:-1]]
        for number in range(TOPICS):
            topic = pattern.format(number)
            configs += [f"{topic} {one}\n" for one in settings.split(",") if one]
            for partition in range(PER_TOPIC):
                directory = log_dir / f"{topic}-{partition}"
                directory.mkdir()
                for file in files:
                    copy_file(file, directory / file.name)
                ends.append(f"{topic} {partition} {int(bases[-1]) + 1}")
    (log_dir / "replication-offset-checkpoint").write_text(
        "\n".join(["0", str(len(ends)), *ends, ""])
    )
    (root / "topic-configs.txt").write_text("".join(configs))
    return root


def typed(place: Path, verb: str, *more: str, settings: bool = True, **environment: str) -> Seen:
    words = [sys.executable, "jobs/winnow_job.py", verb, *more]
    if settings:
        words += [str(place / "kafka"), "--now", str(NOW)]
        words += ["--topic-configs", str(place / "topic-configs.txt")]
    return on_a_terminal(words, environment={"XDG_STATE_HOME": str(place / "state")} | environment)


def too_wide(lines: list[str]) -> list[str]:
    """Names, paths and commands, which a person copies, are not wrapped."""
    return [
        line
        for line in lines
        if len(line) > COLUMNS and "/" not in line and max(map(len, line.split())) < COLUMNS - 10
    ]


def test_plan_fits_a_screen_and_shows_each_phase(place: Path) -> None:
    seen = typed(place, "plan")
    assert seen.code == 3, seen.text[-3000:]
    assert too_wide(seen.lines) == []
    assert len(seen.lines) < 60, "\n".join(seen.lines)
    assert "225 of 300 partitions have work to do, at 2026-11-21T22:26:40Z" in seen.lines
    assert "205 more partitions have a line with --all." in seen.lines
    assert "Left alone: 75 partitions" in seen.lines
    (reason,) = [line for line in seen.lines if "more like this; --all" in line]
    assert "(and 2 more like this; --all shows each)" in reason
    live = live_lines(seen)
    for phase in (
        r"starting Spark \(\d+ s\)",
        r"looking at 225 partitions: [\d]+ of 225 \(\d+ s\)",
        r"reading batch headers of 150 partitions: \d+ % of [\d.]+ MiB.*",
    ):
        assert any(re.fullmatch(phase, line) for line in live), sorted(live)
    assert max(map(len, live)) <= COLUMNS - 2  # or the screen would scroll


def live_lines(seen: Seen) -> set[str]:
    """What stood behind the spinner."""
    return {line[2:] for line in seen.painted if "⠀" < line[:1] < "⣿"}


def test_clean_and_history_show_progress_and_fit_a_screen(place: Path, tmp_path: Path) -> None:
    copy_tree(place / "kafka", tmp_path / "kafka")
    copy_file(place / "topic-configs.txt", tmp_path / "topic-configs.txt")
    place = tmp_path
    # A rate makes each phase long enough to be seen.
    seen = typed(place, "clean", "--throttle", "4MiB")
    assert seen.code == 3, seen.text[-3000:]
    live = live_lines(seen)
    for phase in (
        "starting Spark",
        "looking at 225 partitions: 0 of 225",
        "compacting 150 partitions: ",
        "committing 150 partitions: ",
        "writing the ledger",
    ):
        assert any(line.startswith(phase) for line in live), sorted(live)
    assert any(re.search(r"\d+ % of .*, \d+ s left \(\d+ s\)$", line) for line in live), live
    assert max(map(len, live)) <= COLUMNS - 2
    assert too_wide(seen.lines) == []
    assert any(line.startswith("225 of 300 partitions cleaned") for line in seen.lines)
    assert len(seen.lines) < 60, "\n".join(seen.lines)
    past = typed(place, "history", settings=False)
    assert past.code == 0
    assert too_wide(past.lines) == []
    assert len(past.lines) < 50
    assert "Left alone by the last run: 75 partitions" in past.lines


def test_no_color_means_no_escape_sequence_at_all(place: Path) -> None:
    seen = typed(place, "plan", "--topics", "orders*", NO_COLOR="1")
    assert seen.code == 0, seen.text[-3000:]
    assert "\x1b" not in seen.text
    assert "\r" not in seen.text.replace("\r\n", "")


def test_verify_and_doctor_fit_a_screen(place: Path) -> None:
    for verb in ("doctor", "verify"):
        seen = (
            typed(place, verb)
            if verb == "doctor"
            else typed(place, verb, str(place / "kafka"), settings=False)
        )
        assert seen.code in (0, 3, 4), seen.text[-3000:]
        assert too_wide(seen.lines) == []
        assert len(seen.lines) < (150 if verb == "verify" else 30), "\n".join(seen.lines)
        assert any(line.startswith("looking at") for line in live_lines(seen))
