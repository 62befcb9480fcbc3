from __future__ import annotations

from pathlib import Path

import pytest

from winnow.errors import UsageError
from winnow.logdir.meta import read_meta, was_shut_down_cleanly
from winnow.storage.local import LocalStorage

STORAGE = LocalStorage()


def _write(tmp_path: Path, text: str) -> str:
    (tmp_path / "meta.properties").write_text(text)
    return str(tmp_path)


def test_kraft_file_is_read(tmp_path: Path) -> None:
    meta = read_meta(
        STORAGE,
        _write(tmp_path, "#\n#Sat\nnode.id=1\ndirectory.id=rIa3\nversion=1\ncluster.id=V2\\:l\n"),
    )
    assert (meta.version, meta.node_id, meta.cluster_id) == (1, 1, "V2:l")


def test_version_0_may_lack_every_field(tmp_path: Path) -> None:
    meta = read_meta(STORAGE, _write(tmp_path, "broker.id=7\n"))
    assert (meta.version, meta.node_id, meta.cluster_id) == (0, 7, None)
    assert read_meta(STORAGE, _write(tmp_path, "")).node_id is None


@pytest.mark.parametrize(
    "text",
    [
        "version=2\n",
        "version=-1\nnode.id=1\ncluster.id=c\n",
        "version=1\nnode.id=1\n",
        "version=1\ncluster.id=c\n",
        "version=x\n",
        "broker.id=one\n",
    ],
)
def test_file_that_a_broker_refuses_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="is invalid"):
        read_meta(STORAGE, _write(tmp_path, text))


def test_newer_version_is_read_as_version_1(tmp_path: Path) -> None:
    meta = read_meta(STORAGE, _write(tmp_path, "version=2\nnode.id=1\ncluster.id=c\nmore=x\n"))
    assert (meta.version, meta.node_id, meta.cluster_id) == (2, 1, "c")


def test_directory_without_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a Kafka log directory"):
        read_meta(STORAGE, str(tmp_path))


def test_clean_shutdown_marker_may_be_empty(tmp_path: Path) -> None:
    assert not was_shut_down_cleanly(STORAGE, str(tmp_path))
    (tmp_path / ".kafka_cleanshutdown").write_bytes(b"")
    assert was_shut_down_cleanly(STORAGE, str(tmp_path))
