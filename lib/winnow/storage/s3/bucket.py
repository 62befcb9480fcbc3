"""The requests to one bucket. A log directory in S3 is read and changed only through these."""

from __future__ import annotations

import errno
import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from typing import IO, Any

import obstore
from obstore.exceptions import NotFoundError

from winnow.storage.contract import NewFile
from winnow.storage.file_tree import PIECE_BYTES
from winnow.storage.io_counters import count_io
from winnow.storage.s3 import answers
from winnow.storage.s3.client import (
    ObjectChangedError,
    S3RequestError,
    connect,
    errors,
    modified_ns,
    mtime_of,
    with_mtime,
)
from winnow.storage.s3.memory import Stored

_IN_PARTS_FROM = 2 * PIECE_BYTES
_DELETED_AT_ONCE = 1000
_TAG = re.compile(r"[ -~]{0,1000}")
AT_ONCE = 16
"""Concurrent requests of this process to a bucket. A request in several parts counts once."""
_LEASED: Any = {
    # S3 answers a copy when it is complete: perhaps after half a minute for a segment of 2 GiB.
    "timeout": timedelta(minutes=2),
    # Not the usual three minutes: a retried change must not outlast its lease.
    "retry": {"max_retries": 8, "retry_timeout": timedelta(seconds=10)},
}


class S3Bucket:
    """Requests to one bucket. Keys have no `/` at either end. Errors are OSErrors that name the
    object but no secret.

    `leased`: requests are made under a lease and not retried for longer than it allows.
    """

    def __init__(self, name: str, *, leased: bool = True) -> None:
        self.name = name
        self._store = connect(name, **(_LEASED if leased else {}))
        self._free = threading.BoundedSemaphore(AT_ONCE)

    @contextmanager
    def _request(self, key: str) -> Iterator[None]:
        """Make a request when fewer than `AT_ONCE` are under way. Raises OSErrors."""
        with self._free, errors(self.url(key)):
            yield

    def list_top(self, prefix: str) -> tuple[list[Stored], list[str]]:
        """Return the objects directly below a prefix, and the names of the prefixes there."""
        with self._request(prefix):
            found = answers.listed(
                lambda: obstore.list_with_delimiter_async(self._store, prefix or None),
                self.url(prefix),
            )
        objects = [self._stored(meta) for meta in found["objects"] if meta["path"] != prefix]
        return objects, [str(path).rpartition("/")[2] for path in found["common_prefixes"]]

    def below(self, prefix: str) -> Iterator[Stored]:
        """Yield all objects below a prefix, asking for a thousand at a time."""
        where, objects, key_bytes = self.url(prefix), 0, 0
        with self._request(prefix):
            pages = obstore.list(self._store, prefix or None, chunk_size=1000)
            while found := answers.listed(partial(_next, pages), where):
                objects += len(found)
                key_bytes += sum(len(meta["path"]) for meta in found)
                if objects > answers.MOST_LISTED or key_bytes > answers.MOST_KEY_BYTES:
                    what = (
                        f"a listing of more than {answers.MOST_LISTED:,} objects, or of keys with "
                        f"more than {answers.MOST_KEY_BYTES:,} characters in all"
                    )
                    raise answers.too_much(what, where)
                yield from (self._stored(meta) for meta in found if meta["path"] != prefix)

    def list_right_in(self, prefixes: Iterable[str]) -> dict[str, Stored]:
        """Return the objects directly below each of the prefixes, by key."""
        listed = self.each(self.list_top, sorted(set(prefixes)))
        return {stored.key: stored for objects, _ in listed for stored in objects}

    def look(self, key: str) -> tuple[Stored, int]:
        """Return an object, and the time in its metadata or else of its upload."""
        with self._request(key):
            answer = obstore.get(self._store, key, options={"head": True})
        stored = self._stored(answer.meta)
        return stored, mtime_of(answer.attributes, stored.modified_ns)

    def get(self, key: str, *, most: int = answers.MOST_WHOLE) -> tuple[bytes, Stored]:
        """Return a whole object. TooLongError if it has more than `most` bytes."""
        data, answer = self._get(key, {}, most)
        return data, self._stored(answer.meta)

    def _get(self, key: str, options: Any, most: int) -> tuple[bytes, Any]:  # noqa: ANN401 - obstore's own types
        with self._request(key):
            answer = obstore.get(self._store, key, options=options)
            data = b"".join(answers.pieces(answer, most, self.url(key), size=PIECE_BYTES))
        count_io(read=len(data), files=1)
        return data, answer

    def get_range(self, key: str, start: int, length: int, *, etag: str | None = None) -> bytes:
        """Return up to `length` bytes from `start`. ObjectChangedError for another tag."""
        if length <= 0:
            return b""
        same = {} if etag is None else {"if_match": etag}
        try:
            return self._get(key, {"range": (start, start + length), **same}, length)[0]
        except (FileNotFoundError, ObjectChangedError, answers.TooLongError):
            raise
        except OSError:
            # Implementations answer a range beyond the end with different errors.
            if self.look(key)[0].size > start:
                raise
            return b""

    def get_beginning(self, stored: Stored, length: int) -> tuple[bytes, int]:
        """Return the first bytes of this very object, or all of them, and the time in its metadata
        or of its upload. ObjectChangedError if it has been replaced, FileNotFoundError if removed.
        """
        some = {"range": (0, length)} if length < stored.size else {}
        wanted = min(length, stored.size)
        data, answer = self._get(stored.key, {"if_match": stored.etag, **some}, wanted)
        if len(data) != wanted:
            raise ObjectChangedError(f"{self.url(stored.key)}: it has another size than listed")
        return data, mtime_of(answer.attributes, stored.modified_ns)

    def create(self, key: str, data: bytes, *, mtime_ns: int | None = None) -> str:
        """Create an object and return its tag. FileExistsError if somebody was faster."""
        return self._put(key, data, mtime_ns, mode="create")

    def replace(self, key: str, data: bytes, *, etag: str, mtime_ns: int | None = None) -> str:
        """Overwrite the object with this tag, and return the new one; else ObjectChangedError."""
        try:
            return self._put(key, data, mtime_ns, mode={"e_tag": etag})
        except FileNotFoundError:
            raise ObjectChangedError(f"{self.url(key)}: it was removed since it was read") from None

    def write(self, key: str, data: bytes, *, over: str | None, mtime_ns: int | None = None) -> str:
        """Create an object, or overwrite the one with the tag `over`, and return its tag.
        ObjectChangedError if there is another one.

        The client repeats a request whose answer is late. S3 refuses the repeat, because the object
        has these bytes already.
        """
        try:
            if over is None:
                return self.create(key, data, mtime_ns=mtime_ns)
            return self.replace(key, data, etag=over, mtime_ns=mtime_ns)
        except (FileExistsError, ObjectChangedError):
            with suppress(FileNotFoundError, answers.TooLongError):
                found, stored = self.get(key, most=len(data))
                if found == data:
                    return stored.etag
            raise ObjectChangedError(f"{self.url(key)}: somebody else has written it") from None

    def download(
        self, key: str, into: IO[bytes], *, size: int, etag: str = ""
    ) -> Mapping[Any, str]:
        """Write an object to a file and return its metadata. ObjectChangedError for another tag,
        TooLongError for more bytes than `size`.
        """
        with self._request(key):
            answer = obstore.get(self._store, key, options={"if_match": etag} if etag else {})
            into.writelines(answers.pieces(answer, size, self.url(key), size=PIECE_BYTES))
        return answer.attributes

    def upload(
        self, key: str, file: IO[bytes], *, mtime_ns: int | None, replace: bool = False
    ) -> str:
        """Write all of a file, of any size, as an object, whole or not at all. Return its tag.

        Without `replace`, FileExistsError if there is one. An object of 16 MiB or more is uploaded
        in parts, so this checks only beforehand.
        """
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        if size < _IN_PARTS_FROM:
            return self._put(key, file.read(), mtime_ns, mode="overwrite" if replace else "create")
        if not replace:
            with suppress(FileNotFoundError):
                self.look(key)
                raise FileExistsError(self.url(key))
        parts = {"use_multipart": True, "chunk_size": PIECE_BYTES, "max_concurrency": 2}
        return self._put(key, file, mtime_ns, **parts)

    def rewrite(self, key: str, mtime_ns: int, *, size: int) -> str:
        """Write the same bytes again with this time, and return the tag. For an object of this size
        that nobody else writes.
        """
        with tempfile.TemporaryFile(prefix="winnow-") as spooled:
            self.download(key, spooled, size=size)
            return self.upload(key, spooled, mtime_ns=mtime_ns, replace=True)

    def copy(self, source: str, target: str) -> None:
        """Copy on the server, with the metadata. Overwrites an object at `target`."""
        with self._request(source):
            obstore.copy(self._store, source, target)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects. Ignores those that are gone."""
        names = list(keys)
        for at in range(0, len(names), _DELETED_AT_ONCE):
            self._delete(names[at : at + _DELETED_AT_ONCE])

    def _delete(self, names: list[str]) -> None:
        with self._request(names[0]), suppress(NotFoundError):
            obstore.delete(self._store, names if len(names) > 1 else names[0])

    def _put(
        self,
        key: str,
        content: bytes | IO[bytes],
        mtime_ns: int | None,
        **how: Any,  # noqa: ANN401 - obstore's own types
    ) -> str:
        how = {"use_multipart": False, "attributes": with_mtime(mtime_ns), **how}
        with self._request(key):
            answer = obstore.put(self._store, key, content, **how)
        if isinstance(content, bytes):
            count_io(written=len(content), files=1)
        return _tag(answer, self.url(key))

    def _stored(self, meta: Any) -> Stored:  # noqa: ANN401 - obstore's ObjectMeta is a mapping
        key = meta["path"]
        return Stored(key, meta["size"], _tag(meta, self.url(key)), modified_ns(meta))

    def each(self, request: Any, items: list[Any]) -> list[Any]:  # noqa: ANN401 - any request
        """Return the answers for all items, in their order, from several threads."""
        if len(items) <= 1:
            return [request(item) for item in items]
        with ThreadPoolExecutor(min(AT_ONCE, len(items))) as pool:
            return list(pool.map(request, items))

    def url(self, key: str) -> str:
        return f"s3://{self.name}/{key}".rstrip("/")


class S3NewFile(NewFile):
    """An unnamed local file until it is complete. Then `upload` makes an object of it."""

    def __init__(self, upload: Callable[[IO[bytes]], None]) -> None:
        self._upload = upload
        self._file = tempfile.TemporaryFile(prefix="winnow-")  # noqa: SIM115 - closed by close()

    def write(self, data: memoryview) -> int:
        return self._file.write(data)

    def finish(self) -> None:
        self._upload(self._file)

    def close(self) -> None:
        self._file.close()


async def _next(pages: Any) -> Any:  # noqa: ANN401 - obstore's own types
    """Return the next objects of a listing, none at its end."""
    try:
        return await pages.__anext__()
    except StopAsyncIteration:  # `anext` with a default value fails on obstore's
        return ()


def _tag(meta: Any, where: str) -> str:  # noqa: ANN401
    """Return the tag. It is sent back in a header, where a line break would end the process."""
    tag = str(meta["e_tag"] or "")
    if not _TAG.fullmatch(tag):
        raise S3RequestError(
            errno.EREMOTEIO, "S3 answers an ETag that is not 1,000 visible characters", where
        )
    return tag
