from __future__ import annotations

from pathlib import Path

import pytest

from winnow.errors import CorruptLogError
from winnow.logdir.meta import read_topic_id
from winnow.storage.local import LocalStorage

ID = "6zx0rX8OSnmCqLmZn3b4Tg"


def read(directory: Path, text: str) -> str | None:
    (directory / "partition.metadata").write_text(text)
    return read_topic_id(LocalStorage(), str(directory))


@pytest.mark.parametrize("text", [f"version: 0\ntopic_id: {ID}", f"version: 0\ntopic_id: {ID}\n"])
def test_topic_id_is_read_as_written(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == ID


def test_missing_file_has_no_id(tmp_path: Path) -> None:
    assert read_topic_id(LocalStorage(), str(tmp_path)) is None


def test_empty_file_is_named_for_it_keeps_a_broker_from_starting(tmp_path: Path) -> None:
    with pytest.raises(CorruptLogError, match="is empty: a broker does not start"):
        read(tmp_path, "")


@pytest.mark.parametrize(
    "text",
    [
        f"version: 1\ntopic_id: {ID}",
        f"topic_id: {ID}",
        "version: 0\ntopic_id: x",
        "version: 0",
        "\x00" * 50,
    ],
)
def test_file_that_a_broker_cannot_read_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(CorruptLogError, match=r"partition\.metadata can't be read"):
        read(tmp_path, text)
