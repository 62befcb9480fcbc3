"""HDFS errors become file system errors, and malformed URLs are refused."""

from __future__ import annotations

import errno

import pytest

from winnow.errors import UsageError
from winnow.storage.hdfs.client import canonical_url, hdfs_errors, split_url

TRACE = "\\n\\tat org.apache.hadoop.hdfs.server.namenode.FSDirectory.verify(FSDirectory.java:1)"


def _raise(error: BaseException) -> None:
    with hdfs_errors("hdfs://nn/logs/t-0"):
        raise error


@pytest.mark.parametrize(
    ("kind", "number", "base"),
    [
        ("org.apache.hadoop.security.AccessControlException", errno.EACCES, PermissionError),
        ("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException", errno.EDQUOT, OSError),
        ("org.apache.hadoop.hdfs.protocol.NSQuotaExceededException", errno.EDQUOT, OSError),
        ("org.apache.hadoop.fs.PathIsNotEmptyDirectoryException", errno.ENOTEMPTY, OSError),
        ("java.io.IOException", errno.EREMOTEIO, OSError),
    ],
)
def test_hdfs_error_becomes_an_oserror_with_errno_and_first_line(
    kind: str, number: int, base: type[OSError]
) -> None:
    with pytest.raises(base) as caught:
        _raise(RuntimeError(f'RPCError("{kind}", "user=kafka may not{TRACE}")'))
    assert caught.value.errno == number
    assert caught.value.filename == "hdfs://nn/logs/t-0"
    assert caught.value.strerror == f"HDFS answers {kind.rpartition('.')[2]}: user=kafka may not"
    assert caught.value.__suppress_context__


def test_missing_file_error_has_no_stack_trace() -> None:
    with pytest.raises(FileNotFoundError) as caught:
        _raise(FileNotFoundError("File does not exist: /logs\n\tat org.apache.hadoop"))
    assert str(caught.value) == "[Errno 2] No such file or directory: 'hdfs://nn/logs/t-0'"


def test_client_error_is_reported_with_its_message() -> None:
    with pytest.raises(OSError, match="HDFS answers BlocksNotFound") as caught:
        _raise(RuntimeError('BlocksNotFound("/logs/t-0")'))
    assert caught.value.errno == errno.EREMOTEIO
    with pytest.raises(OSError, match="Connection refused") as caught:
        _raise(OSError("Connection refused (os error 111)"))
    assert caught.value.filename == "hdfs://nn/logs/t-0"


def test_equivalent_urls_have_one_canonical_form() -> None:
    for url in ("hdfs://NN:8020/a/b", "hdfs://nn:8020//a/b/", "hdfs://nn:8020/a/./c/../b"):
        assert canonical_url(url) == "hdfs://nn:8020/a/b"
    assert split_url("hdfs:///a") == ("", "/a")
    assert canonical_url("hdfs://nn") == "hdfs://nn/"


@pytest.mark.parametrize(
    "url", ["hdfs://user:secret@nn/a", "hdfs://nn/a?secret=1", "hdfs://nn/a#secret"]
)
def test_credentials_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(UsageError) as refused:
        split_url(url)
    assert "secret" not in str(refused.value)
