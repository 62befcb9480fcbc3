"""Gaps between the segments of topics that are not compacted are noted: nothing proves a loss."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.logdir.metadata_logs import COMPACT, log, read
from tests.unit.wire.metadata_values import topic
from winnow.logdir.names import CLEANER_CHECKPOINT
from winnow.verbs.verify.findings import Scope
from winnow.verbs.verify.gaps import gaps_note

GAP = [(0, 40), (40, 80), (115, 150)]


def notes(
    directory: Path, *values: bytes, ends: list[tuple[int, int]] = GAP, cleaned: bool = False
) -> list[str]:
    log(directory, *values)
    checkpoints = {CLEANER_CHECKPOINT: 40} if cleaned else {}
    place = Scope("/d", "t-0", "t", 0, checkpoints=checkpoints)
    return [*gaps_note([(place, ends)], read(directory))]


def test_gap_is_noted_with_its_offsets(tmp_path: Path) -> None:
    [note] = notes(tmp_path, topic("t"))
    assert note.startswith("offsets between segments are missing: t-0 (offsets 80 to 114). ")
    assert "compare with another replica" in note


@pytest.mark.parametrize(
    ("values", "more"),
    [
        ((topic("t"), COMPACT), {}),
        ((topic("t"),), {"cleaned": True}),
        ((topic("t"),), {"ends": [(0, 40), (40, 80), (80, 150)]}),
        ((topic("other"),), {}),
    ],
)
def test_no_gap_and_topics_that_may_have_been_compacted(
    tmp_path: Path, values: tuple[bytes, ...], more: dict[str, object]
) -> None:
    assert notes(tmp_path, *values, **more) == []  # type: ignore[arg-type]


def test_without_a_metadata_log_nothing_is_known() -> None:
    assert [*gaps_note([(Scope("/d", "t-0", "t", 0), GAP)], None)] == []
