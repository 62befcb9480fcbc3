"""What an earlier run found in S3 is not requested again, and never counts for another object.

Each listing is compared with one that knows nothing.
"""

from __future__ import annotations

import json
import os
import re
import struct
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.data import copy_log_dir
from tests.spark.runs import NOW, clean, files_of, settings
from tests.storage.conftest import connected
from tests.storage.proxy import proxy
from tests.storage.test_output import download, upload
from winnow.errors import FAILS_ONE_PARTITION
from winnow.logdir.names import parse_partition_dir
from winnow.runtime.failure import Failure, failure
from winnow.storage.places import _remote
from winnow.storage.s3.bucket import S3Bucket
from winnow.storage.s3.client import bucket_and_key
from winnow.survey.place import Listed, Place
from winnow.survey.survey import _list_one

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITION = "t-closed-0"
"""It has transactions, leader epochs and an active segment with batches."""


class Directory:
    """A partition in S3, and what earlier listings of it left here."""

    def __init__(self, url: str, kept: Path) -> None:
        self.bucket = S3Bucket(bucket_and_key(url)[0])
        self.prefix = bucket_and_key(url)[1]
        self.kept = kept
        topic_partition = parse_partition_dir(PARTITION).topic_partition
        assert topic_partition is not None
        self._place = Place(url, topic_partition)

    def listed(self, *, fresh: bool = False) -> Listed | Failure:
        """List it in another process. `fresh`: without what was found before."""
        _remote.cache_clear()
        try:
            return _list_one(self._place if fresh else replace(self._place, kept=str(self.kept)))
        except FAILS_ONE_PARTITION as error:
            return failure(error)

    def key(self, name: str) -> str:
        return f"{self.prefix}/{PARTITION}/{name}"

    def names(self, suffix: str) -> list[str]:
        """Return the names of the files with this ending that are not empty, ascending."""
        objects = self.bucket.list_top(self.key("").rstrip("/"))[0]
        names = [one.key.rpartition("/")[2] for one in objects if one.size]
        return sorted(name for name in names if name.endswith(suffix))

    def change(self, name: str, how: Callable[[bytes], bytes], mtime_ns: int | None = None) -> None:
        data, _ = self.bucket.get(self.key(name))
        time = mtime_ns or self.bucket.look(self.key(name))[1]
        self.bucket.delete([self.key(name)])
        self.bucket.create(self.key(name), how(data), mtime_ns=time)

    def check(self) -> Listed | Failure:
        """Return what two listings agree on: with and without what was found before."""
        known, read = self.listed(), self.listed(fresh=True)
        assert _shown(known) == _shown(read)
        return read


def _shown(found: Listed | Failure) -> object:
    if isinstance(found, Failure):
        return found
    stamps = [one.log_stamp for one in found.listing.segments]
    return found.listing, stamps, found.log_end_offset


@pytest.fixture
def directory(s3: str, tmp_path: Path) -> Directory:
    url = f"{s3}/{tmp_path.name}"
    upload(copy_log_dir("clean", tmp_path / "source", only=[PARTITION]), url)
    (tmp_path / "kept").mkdir(mode=0o700)
    found = Directory(url, tmp_path / "kept" / PARTITION)
    found.check()
    assert (found.kept / "listing.json").exists()
    return found


def test_unchanged_partition_takes_one_listing(
    directory: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with proxy(os.environ["AWS_ENDPOINT_URL"], tmp_path) as counting:
        connected(counting.url, monkeypatch)
        directory.listed()
        assert [(one.kind, one.key) for one in counting.requests()] == [("LIST", directory.key(""))]
        directory.listed(fresh=True)
        assert len(counting.requests()) > 10


def test_replaced_time_index_of_the_same_size_is_read_again(directory: Directory) -> None:
    name = directory.names(".timeindex")[0]
    before = directory.check()
    directory.change(name, lambda data: data[:-12] + _later(data[-12:]))
    after = directory.check()
    assert isinstance(before, Listed)
    assert isinstance(after, Listed)
    assert (
        after.listing.segments[0].last_timeindex_timestamp
        == before.listing.segments[0].last_timeindex_timestamp + 1000
    )


def _later(entry: bytes) -> bytes:
    timestamp, offset = struct.unpack(">qi", entry)
    return struct.pack(">qi", timestamp + 1000, offset)


def test_damaged_index_of_the_same_size_is_found(directory: Directory) -> None:
    directory.change(directory.names(".index")[0], lambda data: b"\xff" * len(data))
    found = directory.check()
    assert isinstance(found, Failure)
    assert found == directory.listed(), "a damaged directory is not taken for a sound one"


def test_replaced_log_of_the_same_size_is_read_again(directory: Directory) -> None:
    before = directory.check()
    directory.change(directory.names(".log")[0], lambda data: data[:35] + b"\0" * 8 + data[43:])
    after = directory.check()
    assert isinstance(before, Listed)
    assert isinstance(after, Listed)
    assert after.listing.segments[0].first_batch_max_timestamp == 0
    assert before.listing.segments[0].first_batch_max_timestamp > 0


def test_replaced_active_segment_of_the_same_size_is_read_again(directory: Directory) -> None:
    before = directory.check()
    assert isinstance(before, Listed)
    directory.change(directory.names(".log")[-1], lambda data: b"\xff" * len(data))
    assert isinstance(directory.check(), Failure)


def test_same_bytes_with_another_time_have_that_time(directory: Directory) -> None:
    name = directory.names(".log")[0]
    time.sleep(1.1)  # S3 tells the time of an upload in seconds
    directory.change(name, bytes, mtime_ns=1_700_000_000_123_000_000)
    after = directory.check()
    assert isinstance(after, Listed)
    assert after.listing.segments[0].log_mtime_ms == 1_700_000_000_123


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", ".txnindex"])
def test_removed_file_is_missed(directory: Directory, suffix: str) -> None:
    directory.bucket.delete([directory.key(directory.names(suffix)[0])])
    directory.check()


def test_new_segment_after_one_changes_where_that_one_ends(directory: Directory) -> None:
    """The index of the first one then has entries beyond its end."""
    first = int(directory.names(".index")[0].removesuffix(".index"))
    for suffix in ("log", "index", "timeindex"):
        directory.bucket.create(directory.key(f"{first + 1:020}.{suffix}"), b"")
    assert isinstance(directory.check(), Failure)


def test_removed_segment_changes_where_the_one_before_ends(directory: Directory) -> None:
    base = directory.names(".log")[1].removesuffix(".log")
    directory.bucket.delete([directory.key(name) for name in directory.names("") if base in name])
    directory.check()


def test_replaced_leader_epochs_are_read_again(directory: Directory) -> None:
    directory.change("leader-epoch-checkpoint", lambda data: data.replace(b"0 0", b"3 0"))
    after = directory.check()
    assert isinstance(after, Listed)
    assert after.listing.leader_epochs[0] == (3, 0)


def _with_checksum(body: bytes) -> bytes:
    return body + b"\n%d" % zlib.crc32(body)


def _poisoned(how: Callable[[dict[str, list[list[int]]]], object]) -> Callable[[bytes], bytes]:
    def changed(data: bytes) -> bytes:
        found = json.loads(data.rpartition(b"\n")[0])
        how(found)
        return _with_checksum(json.dumps(found).encode())

    return changed


DAMAGED: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut": lambda data: data[:-40],
    "a digit changed": lambda data: re.sub(rb'("segments": \[\[\d+, )\d', rb"\g<1>9", data),
    "not JSON": lambda _: _with_checksum(b"{"),
    "too deep": lambda _: _with_checksum(b"[" * 100_000),
    "no text": lambda _: os.urandom(1000),
    "too long": lambda data: data.rjust(5 * 2**20),
    "another version": _poisoned(lambda found: found.update(format=2)),
    "no segments": _poisoned(lambda found: found.update(segments=[])),
    "a segment without a log": _poisoned(lambda found: found["segments"].append([9999999, -1, 5])),
    "a segment twice": _poisoned(lambda found: found["segments"].insert(0, [0, 5, 5])),
    "a text for a timestamp": _poisoned(lambda found: found["segments"][0].__setitem__(1, "5")),
    "a negative end": _poisoned(lambda found: found.update(end=-1)),
    "an end before the active segment": _poisoned(lambda found: found.update(end=1)),
    "other tags": _poisoned(
        lambda found: [
            (row.__setitem__(3, row[3] ^ 1), seg.__setitem__(1, 7))
            for row, seg in zip(found["objects"], found["segments"] * 20, strict=False)
        ]
    ),
    "other times of upload": _poisoned(
        lambda found: [
            (row.__setitem__(4, row[4] - 1), row.__setitem__(2, 7)) for row in found["objects"]
        ]
    ),
    "other sizes": _poisoned(
        lambda found: [row.__setitem__(1, row[1] + 1) for row in found["objects"]]
    ),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged_file_is_ignored_and_written_again(directory: Directory, damage: str) -> None:
    path = directory.kept / "listing.json"
    whole = path.read_bytes()
    path.write_bytes(DAMAGED[damage](whole))
    directory.check()
    assert path.read_bytes() == whole


def test_only_private_files_are_read(directory: Directory, tmp_path: Path) -> None:
    path = directory.kept / "listing.json"
    assert directory.kept.stat().st_mode & 0o077 == path.stat().st_mode & 0o077 == 0
    poisoned = _poisoned(lambda found: [one.__setitem__(1, 7) for one in found["segments"]])
    other = tmp_path / "other"
    other.write_bytes(poisoned(path.read_bytes()))
    path.unlink()
    path.symlink_to(other)
    directory.check()
    assert not path.is_symlink()
    path.write_bytes(other.read_bytes())
    directory.kept.chmod(0o755)
    directory.check()


def test_file_that_can_not_be_written_changes_nothing(directory: Directory) -> None:
    path = directory.kept / "listing.json"
    path.unlink()
    path.mkdir()
    directory.check()


@pytest.mark.spark
def test_cleaning_with_earlier_listings_equals_one_that_reads_everything(
    s3: str, spark: SparkSession, tmp_path: Path
) -> None:
    """Between the nights somebody replaces objects by others of the same size."""
    source = copy_log_dir("clean", tmp_path / "source", only=SOME)
    found = []
    for number, kept in enumerate((tmp_path / "ledger" / "key-summaries", None)):
        url = f"{s3}/{tmp_path.name}/{number}"
        upload(source, url)
        results = [_night(spark, url, kept) for _ in range(2)]
        _expire(url, "d-time-0")
        results += [_night(spark, url, kept) for _ in range(2)]
        tree = download(url, tmp_path / str(number))
        files = [name for name in files_of(tree) if (tree / name).is_file()]
        found.append((results, {name: (tree / name).read_bytes() for name in files}))
    assert found[0] == found[1]
    assert found[0][0][1] != found[0][0][2], "the replaced objects count"
    assert [*(tmp_path / "ledger").rglob("listing.json")]
    assert not [*(tmp_path / "ledger").rglob("segments.json")], "tags are no proof of known keys"


SOME = ("c-tomb-0", "d-time-0", "t-closed-0")


def _night(spark: SparkSession, url: str, kept: Path | None) -> list[tuple[str, object, object]]:
    _remote.cache_clear()
    result = clean(
        spark,
        [url],
        settings=settings("d-time:retention.ms=1000000000000"),
        now=NOW,
        key_summaries=None if kept is None else str(kept),
        least_summed_up=1,
    )
    assert all(one.error is None for one in result.partitions)
    return [(one.topic, one.actions, one.bytes_after) for one in result.partitions]


def _expire(url: str, partition: str) -> None:
    """Make the oldest segment so old that it is deleted."""
    bucket, prefix = S3Bucket(bucket_and_key(url)[0]), bucket_and_key(url)[1]
    objects = bucket.list_top(f"{prefix}/{partition}")[0]
    key = min(one.key for one in objects if one.key.endswith(".timeindex") and one.size)
    data = bucket.get(key)[0]
    entries = [struct.unpack_from(">qi", data, at) for at in range(0, len(data), 12)]
    bucket.delete([key])
    bucket.create(
        key, b"".join(struct.pack(">qi", number, entry[1]) for number, entry in enumerate(entries))
    )
