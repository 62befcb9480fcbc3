"""From a path or URL to its tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from winnow.errors import UsageError
from winnow.storage.hdfs.client import path_of
from winnow.storage.places import open_tree
from winnow.storage.urls import is_remote


def test_paths_and_file_urls_are_local(tmp_path: Path) -> None:
    for path in (str(tmp_path), f"file://{tmp_path}", f"file:{tmp_path}"):
        assert not is_remote(path)
        assert open_tree(path).local_path == str(tmp_path)


def test_store_keeps_its_url() -> None:
    assert open_tree("s3://bucket/a/b/").url == "s3://bucket/a/b"
    assert open_tree("s3a://bucket").url == "s3://bucket"
    assert open_tree("hdfs://127.0.0.1:1/a/b/").url == "hdfs://127.0.0.1:1/a/b"


def test_files_at_the_root_of_the_default_name_node_keep_their_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "core-site.xml").write_text(
        "<configuration><property><name>fs.defaultFS</name><value>hdfs://127.0.0.1:1</value>"
        "</property></configuration>",
        encoding="utf-8",
    )
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert path_of(f"{open_tree('hdfs:///').url}/t-0/0.log") == "/t-0/0.log"
    assert path_of(f"{open_tree('hdfs:///a/').url}/t-0/0.log") == "/a/t-0/0.log"


@pytest.mark.parametrize("url", ["gs://bucket/a", "s3:///a", "https://bucket.s3.amazonaws.com/a"])
def test_malformed_url_is_refused(url: str) -> None:
    assert is_remote(url)
    with pytest.raises(UsageError):
        open_tree(url)


@pytest.mark.parametrize(
    "url", ["s3://key:secret@bucket/a", "hdfs://user:secret@host/a", "s3://bucket/a?secret=1"]
)
def test_credentials_in_a_url_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(UsageError) as refused:
        open_tree(url)
    assert "secret" not in str(refused.value)
