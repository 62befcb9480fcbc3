"""The contract of `winnow.storage.contract.Storage` in S3: file by file, and atomically inside
`changing`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from tests.storage.requests import Counting, Died
from winnow.cleaning.in_place import check_in_place
from winnow.errors import CorruptLogError, UsageError
from winnow.storage.contract import COMMIT_RECORD
from winnow.storage.places import open_tree, storage_of
from winnow.storage.s3.bucket import S3Bucket
from winnow.storage.s3.change import Change
from winnow.storage.s3.client import bucket_and_key
from winnow.storage.s3.record import Content, Copied, Record, decode, encode
from winnow.storage.s3.storage import S3Storage
from winnow.storage.segment_io import SegmentWriter, map_range
from winnow.verbs.output.source import look_at

MTIME_NS = 1_700_000_000_123_000_000


def contents(storage: S3Storage, path: str) -> dict[str, bytes]:
    """All files below, read one by one."""
    found = {}
    for entry in storage.list_dir(path):
        below = f"{path}/{entry.name}"
        inner = contents(storage, below) if entry.is_dir else {"": storage.read_bytes(below)}
        found |= {f"{entry.name}/{name}".rstrip("/"): data for name, data in inner.items()}
    return found


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


def start(storage: S3Storage, directory: str) -> None:
    for name in ("a", "b", "c", ".winnow-run/a", ".winnow-run/d"):
        storage.create(f"{directory}/{name}", name.encode())


def swap(storage: S3Storage, directory: str) -> None:
    """As segments are swapped."""
    for name in ("a", "d"):
        storage.rename(f"{directory}/.winnow-run/{name}", f"{directory}/{name}.cleaned")
        storage.rename(f"{directory}/{name}.cleaned", f"{directory}/{name}.swap")
    for name in ("a", "b"):
        storage.rename(f"{directory}/{name}", f"{directory}/{name}.deleted")
    for name in ("a", "d"):
        storage.rename(f"{directory}/{name}.swap", f"{directory}/{name}")
    for name in ("a", "b"):
        storage.unlink(f"{directory}/{name}.deleted")
    storage.create(f"{directory}/e.tmp", b"new")
    storage.rename(f"{directory}/e.tmp", f"{directory}/e")
    storage.link(f"{directory}/c", f"{directory}/.kept/1/c")


BEFORE = {name: name.encode() for name in ("a", "b", "c", ".winnow-run/a", ".winnow-run/d")}
AFTER = {"a": b".winnow-run/a", "c": b"c", "d": b".winnow-run/d", "e": b"new", ".kept/1/c": b"c"}


def test_change_is_visible_to_others_only_at_its_end(
    storage: S3Storage, reader: S3Storage, root: str
) -> None:
    start(storage, root)
    with storage.changing(root):
        swap(storage, root)
        assert contents(storage, root) == AFTER
        assert contents(reader, root) == BEFORE
        with pytest.raises(FileNotFoundError):
            storage.read_bytes(f"{root}/b")
        with pytest.raises(FileExistsError):
            storage.create(f"{root}/e", b"")
    assert contents(storage, root) == contents(reader, root) == AFTER


def test_exception_leaves_everything_unchanged(storage: S3Storage, root: str) -> None:
    start(storage, root)

    def fails() -> None:
        with storage.changing(root):
            swap(storage, root)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fails()
    assert contents(storage, root) == BEFORE


def test_kill_at_any_request_leaves_old_or_new_state(
    storage: S3Storage, reader: S3Storage, root: str
) -> None:
    seen = []
    for requests in range(100):
        directory = f"{root}/{requests}"
        start(storage, directory)
        dying = Counting(bucket_and_key(root)[0], left=requests)
        ended = True
        try:
            one = S3Storage(dying)
            with one.changing(directory):
                swap(one, directory)
        except Died:
            ended = False
        found = contents(reader, directory)
        is_left = found.pop(COMMIT_RECORD, None) is not None
        assert {name: data for name, data in found.items() if "/" not in name} in [
            {name: data for name, data in whole.items() if "/" not in name}
            for whole in (BEFORE, AFTER)
        ]
        new = "b" not in found
        seen.append((new, is_left))
        storage.settle(directory)
        assert contents(reader, directory) == (AFTER if new else BEFORE)
        if ended:
            break
    else:
        raise AssertionError("it never ended")
    assert seen[:2] == [(False, False), (False, True)]
    assert all(new and is_left for new, is_left in seen[2:-1])
    assert seen[-1] == (True, False)
    assert len(seen) == 9, "prepared, decided, three copies, one content, names deleted, the record"


def test_pending_change_is_taken_over_until_decided(
    storage: S3Storage, bucket: S3Bucket, root: str
) -> None:
    start(storage, root)
    key = bucket_and_key(root)[1]
    late = Change(bucket, key)
    late.put(f"{key}/b", None)
    late.put(f"{key}/c", None)
    prepared = Record(id="late", state="prepared", puts={}, deletes=("b", "c"))
    etag = bucket.create(f"{key}/{COMMIT_RECORD}", encode(prepared))
    with storage.changing(root):
        storage.unlink(f"{root}/a")
        storage.unlink(f"{root}/b")
    assert contents(storage, root).keys() == {"c", ".winnow-run/a", ".winnow-run/d"}
    with pytest.raises(OSError, match="replaced since"):
        bucket.replace(f"{key}/{COMMIT_RECORD}", encode(prepared), etag=etag)
    with pytest.raises(CorruptLogError, match="has changed since it was read"):
        late.commit()
    storage.settle(root)
    assert contents(storage, root).keys() == {"c", ".winnow-run/a", ".winnow-run/d"}


@pytest.mark.parametrize(
    "interference",
    [
        lambda storage, root: storage.unlink(f"{root}/.winnow-run/a"),
        lambda storage, root: (
            storage.set_mtime_ns(f"{root}/d", MTIME_NS) or storage.create(f"{root}/e", b"")
        ),
        lambda storage, root: storage.unlink(f"{root}/b"),
    ],
    ids=["a source", "a new name", "a name that goes"],
)
def test_concurrent_change_by_another_writer_stops_the_change(
    storage: S3Storage,
    reader: S3Storage,
    root: str,
    interference: Callable[[S3Storage, str], object],
) -> None:
    start(storage, root)
    storage.create(f"{root}/d", b"")
    reader.create(f"{root}/x", b"")
    told: dict[str, bytes] = {}

    def fails() -> None:
        with storage.changing(root):
            swap(storage, root)
            interference(reader, root)
            told.update(contents(reader, root))

    with pytest.raises(CorruptLogError, match="has changed since it was read"):
        fails()
    storage.settle(root)
    assert contents(reader, root) == told


def test_checkpoint_is_replaced_only_if_unchanged_since_read(
    storage: S3Storage, reader: S3Storage, root: str
) -> None:
    def write(one: S3Storage, data: bytes) -> None:
        if one.exists(f"{root}/checkpoint.tmp"):
            one.unlink(f"{root}/checkpoint.tmp")
        one.create(f"{root}/checkpoint.tmp", data)
        one.rename(f"{root}/checkpoint.tmp", f"{root}/checkpoint")

    for data in (b"1", b"2"):
        with storage.changing(root):
            write(storage, data)
        assert contents(reader, root) == {"checkpoint": data}

    def late() -> None:
        with storage.changing(root):
            write(storage, b"3")
            with reader.changing(root):
                write(reader, b"4")

    with pytest.raises(CorruptLogError, match="has changed since it was read"):
        late()
    assert contents(reader, root) == {"checkpoint": b"4"}


def test_nested_directory_is_part_of_the_change(
    storage: S3Storage, reader: S3Storage, root: str
) -> None:
    start(storage, f"{root}/t-0")
    with storage.changing(f"{root}/t-0"):
        with storage.changing(f"{root}/t-0/.winnow-run"):
            storage.unlink(f"{root}/t-0/.winnow-run/a")
        storage.rename(f"{root}/t-0/.winnow-run", f"{root}/t-0/.moved")
        assert contents(reader, f"{root}/t-0") == BEFORE
        with storage.changing(root):
            storage.create(f"{root}/checkpoint", b"")
        assert contents(reader, root).keys() == {f"t-0/{name}" for name in BEFORE} | {"checkpoint"}
    assert contents(reader, f"{root}/t-0").keys() == {"a", "b", "c", ".moved/d"}


def test_unsupported_operations_are_refused(storage: S3Storage, root: str) -> None:
    start(storage, root)
    with pytest.raises(OSError, match="renaming a directory"):
        storage.rename(f"{root}/.winnow-run", f"{root}/.gone")
    with pytest.raises(OSError, match="does not support links"):
        storage.link(f"{root}/a", f"{root}/z")
    with pytest.raises(OSError, match="inside a change"), storage.changing(root):
        storage.new_file(f"{root}/z")
    with pytest.raises(FileNotFoundError):
        storage.rename(f"{root}/nothing", f"{root}/z")
    assert contents(storage, root) == BEFORE


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"version": 2}',
        encode(Record(id="x", state="decided", puts={}, deletes=("../a",))),
        encode(Record(id="x", state="decided", puts={"a": Content(b"", 0)}, deletes=("a",))),
        encode(Record(id="x", state="decided", puts={"a": Copied("/etc", 1, "t", 0)}, deletes=())),
        encode(Record(id="x", state="decided", puts={"a": Copied("b", -1, "t", 0)}, deletes=())),
        (
            b'{"version": 1, "id": "x", "state": "decided", "copies": [["a"]], "contents": [], '
            b'"deletes": []}'
        ),
        (
            b'{"version": 1, "id": "x", "state": "decided", "copies": [], "contents": [["a", "%", '
            b"1]], "
            b'"deletes": []}'
        ),
    ],
)
def test_malformed_record_is_refused(
    storage: S3Storage, bucket: S3Bucket, root: str, data: bytes
) -> None:
    storage.create(f"{root}/a", b"")
    bucket.create(f"{bucket_and_key(root)[1]}/{COMMIT_RECORD}", data)
    for look in (storage.list_dir, storage.settle):
        with pytest.raises(CorruptLogError, match=r"can.t be understood.*winnow-commit"):
            look(root)
    with pytest.raises(CorruptLogError, match=r"can.t be understood.*winnow-commit"):
        storage.read_bytes(f"{root}/a")


def test_record_reads_back_as_written() -> None:
    record = Record(
        id="x",
        state="decided",
        puts={"a": Copied("b/c", 5, '"t"', 7), "d": Content(b"\0\xff", 9)},
        deletes=("b/c",),
    )
    assert decode(encode(record), "here") == record


def test_copies_are_ordered_before_their_source_is_overwritten() -> None:
    def record(**sources: str) -> Record:
        puts = {name: Copied(source, 0, "", 0) for name, source in sources.items()}
        return Record(id="x", state="decided", puts=puts, deletes=())

    assert record(a="b", b="c", c="d").in_order() == [["a"], ["b"], ["c"]]
    assert record(a="x", b="x").in_order() == [["a", "b"]]
    with pytest.raises(CorruptLogError, match="cycle"):
        record(a="b", b="a").in_order()


def test_directory_with_pending_changes_is_not_copied(root: str, bucket: S3Bucket) -> None:
    key = bucket_and_key(root)[1]
    bucket.create(f"{key}/meta.properties", b"version=1\n")
    bucket.create(f"{key}/t-0/{COMMIT_RECORD}", b"")
    with pytest.raises(UsageError, match=r"not finished.*recover"):
        look_at(open_tree(root))


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


def test_two_threads_may_change_files_of_one_directory(storage: S3Storage, root: str) -> None:
    """Each takes a commit record, because a temporary file was left."""

    def write(name: str, number: int) -> None:
        with storage.changing(root):
            if storage.exists(f"{root}/{name}.tmp"):
                storage.unlink(f"{root}/{name}.tmp")
            storage.create(f"{root}/{name}.other", b"%d" % number)
            storage.rename(f"{root}/{name}.other", f"{root}/{name}")

    with ThreadPoolExecutor(2) as pool:
        for number in range(10):
            for name in ("a", "b"):
                storage.create(f"{root}/{name}.tmp", b"")
            list(pool.map(write, ("a", "b"), (number, number)))
    assert contents(storage, root) == {"a": b"9", "b": b"9"}


def test_reader_that_listed_before_a_killed_change_reads_old_or_new_files(
    storage: S3Storage, root: str
) -> None:
    """Whatever it has listed, each file has the bytes of the old directory or of the new one."""
    new = 0
    for requests in range(100):
        directory = f"{root}/{requests}"
        start(storage, directory)
        reader = S3Storage(S3Bucket(bucket_and_key(root)[0]))
        reader.list_dir(directory)
        dying = S3Storage(Counting(bucket_and_key(root)[0], left=requests))
        ended = False
        with suppress(Died):
            with dying.changing(directory):
                swap(dying, directory)
            ended = True
        for name in ("a", "b", "c", "d", "e"):
            try:
                data = reader.read_bytes(f"{directory}/{name}")
            except FileNotFoundError:
                assert name not in BEFORE or name not in AFTER
            else:
                assert data in (BEFORE.get(name), AFTER.get(name))
                new += data == AFTER.get(name) != BEFORE.get(name)
        if ended:
            break
    assert ended
    assert new > 3
