"""What a process remembers of listings in S3, and how many requests it makes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from winnow.storage.s3 import memory
from winnow.storage.s3.bucket import S3Bucket
from winnow.storage.s3.storage import S3Storage
from winnow.storage.segment_io import SegmentWriter

MTIME_NS = 1_700_000_000_123_000_000


class Told(S3Bucket):
    """Counts the requests that read objects or list them."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.made = 0

    @contextmanager
    def _request(self, key: str) -> Iterator[None]:
        self.made += 1
        with super()._request(key):
            yield


def test_listed_files_are_read_ahead_and_then_take_no_request(
    storage: S3Storage, bucket: S3Bucket, root: str
) -> None:
    names = ("0.log", "0.index", "partition.metadata")
    for name in names:
        storage.create(f"{root}/{name}", name.encode())
    told = Told(bucket.name)
    one = S3Storage(told)
    one.list_dir(root)
    assert told.made == 2, "the listing, and the log, whose time it needs"
    one.read_ahead(f"{root}/{name}" for name in names)
    assert told.made == 4
    for name in names:
        assert one.read_bytes(f"{root}/{name}") == name.encode()
    assert told.made == 4
    one.read_bytes(f"{root}/partition.metadata")
    assert told.made == 5, "other files than segments may be changed and are read again"


def test_reader_notices_that_a_listed_file_was_replaced_or_removed(
    storage: S3Storage, reader: S3Storage, root: str
) -> None:
    for name in ("a", "b"):
        storage.create(f"{root}/{name}", b"old")
    assert [entry.name for entry in reader.list_dir(root)] == ["a", "b"]
    storage.unlink(f"{root}/a")
    storage.create(f"{root}/a", b"a new one")
    storage.unlink(f"{root}/b")
    assert reader.read_bytes(f"{root}/a") == b"a new one"
    with pytest.raises(FileNotFoundError):
        reader.read_bytes(f"{root}/b")
    storage.create(f"{root}/b", b"again")
    assert reader.read_bytes(f"{root}/b") == b"again"


def _replaced_after_listing(storage: S3Storage, reader: S3Storage, root: str) -> str:
    """Return the path of an object that another writer replaced after the reader's listing."""
    path = f"{root}/0.log"
    storage.create(path, b"old")
    reader.list_dir(root)
    storage.unlink(path)
    storage.create(path, b"new one")
    return path


def test_reader_that_forgets_its_listing_reads_a_replaced_segment(
    storage: S3Storage, reader: S3Storage, root: str
) -> None:
    path = _replaced_after_listing(storage, reader, root)
    assert reader.read_bytes(path) == b"old", "as it was listed"
    reader.forget()
    assert reader.read_bytes(path) == b"new one"


def test_a_listing_that_is_too_old_is_read_again(
    storage: S3Storage, reader: S3Storage, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _replaced_after_listing(storage, reader, root)
    monkeypatch.setattr(memory, "GOOD_S", 0.0)
    assert reader.read_bytes(path) == b"new one"


def test_times_of_logs_are_learned_from_another_process(
    reader: S3Storage, bucket: S3Bucket, root: str
) -> None:
    with SegmentWriter(f"{root}/0.log", mtime_ns=MTIME_NS) as writer:
        writer.write(b"x")
    (entry,) = reader.list_dir(root)
    assert [one.entry for one in reader.listed_in(root)] == [entry]
    told = Told(bucket.name)
    one = S3Storage(told)
    one.learn(root, reader.listed_in(root))
    assert one.list_dir(root) == (entry,)
    assert told.made == 1


def test_no_more_than_sixteen_requests_are_under_way(bucket: S3Bucket) -> None:
    most, now, lock = 0, 0, threading.Lock()

    def request(_: int) -> None:
        nonlocal most, now
        with bucket._request("x"):
            with lock:
                now += 1
                most = max(most, now)
            time.sleep(0.01)
            with lock:
                now -= 1

    with ThreadPoolExecutor(40) as pool:
        list(pool.map(request, range(200)))
    assert most == 16
