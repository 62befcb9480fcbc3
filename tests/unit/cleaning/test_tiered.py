"""What counts as tiered storage and is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from winnow.cleaning.in_place import refuse_tiered, refuse_tiered_around
from winnow.errors import UsageError
from winnow.storage.local_tree import LocalTree

ID = "tqimKeZwStOEOwRzT3L5oQ"


@pytest.mark.parametrize(
    "name",
    [
        f"topic-{ID}/0/00000000000000000023-{ID}.log",
        f"prefix/topic-{ID}/0/00000000000000000023-{ID}.indexes",
        f"topic-{ID}/0/00000000000000000023-{ID}.rsm-manifest",
        f"{ID}-0-topic/00000000000000000023-{ID}.offset_index",
    ],
)
def test_tiered_storage_segments_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"tiered storage.*retention\.ms"):
        refuse_tiered(LocalTree(str(tmp_path)), ["meta.properties", name])


@pytest.mark.parametrize(
    "name",
    [
        "meta.properties",
        "t-0/00000000000000000023.log",
        f"topic-{ID}-0/00000000000000000023.log",
        "t-0/.winnow-kept-20261121T200000Z-00000000/00000000000000000023.log",
        f"t.{ID[:20]}-delete/00000000000000000023.log",
    ],
)
def test_log_directory_is_not_tiered_storage(name: str, tmp_path: Path) -> None:
    refuse_tiered(LocalTree(str(tmp_path)), [name])


def test_directory_beside_tiered_storage_topics_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    refuse_tiered_around(LocalTree(str(tmp_path)))
    (tmp_path / f"t-{ID}").mkdir()
    with pytest.raises(UsageError, match="tiered storage"):
        refuse_tiered_around(LocalTree(str(tmp_path)))
