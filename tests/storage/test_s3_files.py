"""The contract of `winnow.storage.contract.Storage` in S3, file by file. `test_s3_in_place.py` has
the changes that are visible to others only at their end.
"""

from __future__ import annotations

import errno
import os

import pytest

from tests.storage.test_s3_in_place import contents
from winnow.cleaning.in_place import check_in_place
from winnow.errors import UsageError
from winnow.storage.places import storage_of
from winnow.storage.s3.bucket import S3Bucket
from winnow.storage.s3.client import bucket_and_key
from winnow.storage.s3.storage import S3Storage
from winnow.storage.segment_io import SegmentWriter, map_range

MTIME_NS = 1_700_000_000_123_000_000


def test_files_are_created_read_listed_and_removed(storage: S3Storage, root: str) -> None:
    storage.create(f"{root}/t-0/a", b"0123456789")
    storage.create(f"{root}/t-0/empty", b"")
    with pytest.raises(FileExistsError):
        storage.create(f"{root}/t-0/a", b"other")
    assert storage.read_bytes(f"{root}/t-0/a") == b"0123456789"
    assert storage.read_range(f"{root}/t-0/a", 8, 5) == b"89"
    assert (
        storage.read_range(f"{root}/t-0/a", 10, 5)
        == storage.read_range(f"{root}/t-0/empty", 0, 5)
        == b""
    )
    assert [(e.name, e.is_file, e.size) for e in storage.list_dir(f"{root}/t-0")] == [
        ("a", True, 10),
        ("empty", True, 0),
    ]
    assert [(e.name, e.is_dir) for e in storage.list_dir(root)] == [("t-0", True)]
    assert storage.entry(f"{root}/t-0").is_dir
    assert storage.exists(f"{root}/t-0/a")
    assert not storage.exists(f"{root}/t-0/b")
    storage.unlink(f"{root}/t-0/a")
    for gone in (storage.entry, storage.read_bytes, storage.unlink):
        with pytest.raises(FileNotFoundError):
            gone(f"{root}/t-0/a")
    with pytest.raises(FileNotFoundError):
        storage.read_range(f"{root}/t-0/a", 0, 1)
    with pytest.raises(OSError, match="not empty") as refused:
        storage.rmdir(f"{root}/t-0")
    assert refused.value.errno == errno.ENOTEMPTY


def test_directory_has_one_canonical_url(storage: S3Storage) -> None:
    assert storage.canonical("s3a://bucket//a/b/") == "s3://bucket/a/b"
    assert storage_of("s3a://bucket/a") is storage_of("s3://bucket/b")


def test_file_times_are_kept(storage: S3Storage, root: str) -> None:
    path = f"{root}/t-0/00000000000000000000.log"
    with SegmentWriter(path, mtime_ns=MTIME_NS) as writer:
        writer.write(b"x" * 1000)
    tag = storage.entry(path).stamp
    storage.set_mtime_ns(path, MTIME_NS)
    assert storage.entry(path).mtime_ns == storage.list_dir(f"{root}/t-0")[0].mtime_ns == MTIME_NS
    storage.set_mtime_ns(path, MTIME_NS + 1)
    with storage.changing(f"{root}/t-0"):
        storage.rename(path, f"{path}.deleted")
        assert storage.entry(f"{path}.deleted").mtime_ns == MTIME_NS + 1
    assert (
        storage.list_dir(f"{root}/t-0")[0].mtime_ns
        == storage.entry(f"{path}.deleted").mtime_ns
        == MTIME_NS + 1
    )
    assert storage.entry(f"{path}.deleted").stamp == tag
    assert storage.read_bytes(f"{path}.deleted") == b"x" * 1000


def test_multipart_file_is_written_and_read(storage: S3Storage, root: str) -> None:
    data = os.urandom(17 * 2**20)
    with SegmentWriter(f"{root}/large.log") as writer:
        writer.write(data)
    storage.set_mtime_ns(f"{root}/large.log", MTIME_NS)
    with storage.changing(root):
        storage.rename(f"{root}/large.log", f"{root}/other.log")
    with map_range(f"{root}/other.log", 5, len(data)) as found:
        assert bytes(found) == data[5:]
        del found
    assert storage.entry(f"{root}/other.log").mtime_ns == MTIME_NS
    with pytest.raises(FileExistsError), SegmentWriter(f"{root}/other.log") as writer:
        writer.write(data)


def test_failed_write_leaves_nothing(storage: S3Storage, root: str) -> None:
    def fails() -> None:
        with SegmentWriter(f"{root}/file") as writer:
            writer.write(b"x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fails()
    assert contents(storage, root) == {}


def test_in_place_run_refuses_unsupported_options_on_s3(root: str, bucket: S3Bucket) -> None:
    key = bucket_and_key(root)[1]
    with pytest.raises(UsageError, match="moved aside only on a file system"):
        check_in_place([root], on_corrupt="quarantine")
    with pytest.raises(UsageError, match="no links, which --keep-replaced needs"):
        check_in_place([root], keep_replaced=True)
    check_in_place([f"{root}/logs"])
    tiered = f"{key}/topic-dPmf4XJcSqeHO6mZ3pFIzQ/0/00000000000000000000-Wm8M3Y9fRy2yOSRPvVVQ4A.log"
    bucket.create(tiered, b"")
    with pytest.raises(UsageError, match="tiered storage"):
        check_in_place([f"{root}/logs"])
    bucket.delete([tiered])  # tests that come later share the bucket
