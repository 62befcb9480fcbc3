"""The contract of `winnow.storage.contract.Storage` in S3, inside `changing`: all of a change or
nothing. `test_s3_files.py` has what holds for each file.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from tests.storage.requests import Counting, Died
from winnow.errors import CorruptLogError, UsageError
from winnow.storage.contract import COMMIT_RECORD
from winnow.storage.places import open_tree
from winnow.storage.s3.bucket import S3Bucket
from winnow.storage.s3.change import Change
from winnow.storage.s3.client import bucket_and_key
from winnow.storage.s3.record import ChangeRecord, Content, Copied, decode, encode
from winnow.storage.s3.storage import S3Storage
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
    late = Change(bucket, key, times_of=lambda _: {})
    late.put(f"{key}/b", None)
    late.put(f"{key}/c", None)
    prepared = ChangeRecord("", "late", "prepared", {}, {}, ("b", "c"))
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
        encode(ChangeRecord("", "x", "decided", {}, {}, ("../a",))),
        encode(ChangeRecord("", "x", "decided", {}, {"a": Content(b"", 0)}, ("a",))),
        encode(ChangeRecord("", "x", "decided", {"a": Copied("/etc", 1, "t", 0)}, {}, ())),
        encode(ChangeRecord("", "x", "decided", {"a": Copied("b", -1, "t", 0)}, {}, ())),
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


def test_change_record_round_trips() -> None:
    record = ChangeRecord(
        "",
        "x",
        "decided",
        {"a": Copied("b/c", 5, '"t"', 7)},
        {"d": Content(b"\0\xff", 9)},
        ("b/c",),
    )
    assert decode(encode(record), "", "here") == record


def test_copies_are_ordered_before_their_source_is_overwritten() -> None:
    def record(**sources: str) -> ChangeRecord:
        copies = {name: Copied(source, 0, "", 0) for name, source in sources.items()}
        return ChangeRecord("", "x", "decided", copies, {}, ())

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
