"""The lease on a log directory in S3: an object, written only on a condition."""

from __future__ import annotations

import errno
from collections.abc import Callable

from winnow.storage.contract import os_error
from winnow.storage.lease_file import LEASE, LeaseFile, Seen
from winnow.storage.s3.bucket import S3Bucket
from winnow.storage.s3.client import ObjectChangedError, bucket_and_key
from winnow.storage.s3.memory import key_of


class S3LeaseFile:
    """Implements `LeaseFile`. A version is a tag, so it differs if the content does."""

    def __init__(self, log_dir: str) -> None:
        name, directory = bucket_and_key(log_dir)
        self._bucket = S3Bucket(name)
        self._key = key_of(directory, LEASE)

    def look(self) -> Seen | None:
        try:
            data, stored = self._bucket.get(self._key)
        except FileNotFoundError:
            return None
        return Seen(data, stored.etag)

    def create(self, data: bytes) -> Seen:
        try:
            return Seen(data, self._bucket.create(self._key, data))
        except FileExistsError:
            return self._if_written(data)

    def renew(self, mine: Seen, data: bytes) -> Seen:
        if data == mine.data:
            data += b"\n"
        try:
            return Seen(data, self._bucket.replace(self._key, data, etag=mine.version))
        except ObjectChangedError:
            try:
                return self._if_written(data)
            except FileExistsError:
                raise FileNotFoundError(
                    errno.ENOENT, "somebody else holds the lease", self._key
                ) from None

    def take_over(self, expired: Seen, data: bytes) -> Seen:
        try:
            return Seen(data, self._bucket.replace(self._key, data, etag=expired.version))
        except ObjectChangedError:
            return self._if_written(data)

    def remove(self, mine: Seen) -> None:
        seen = self.look()
        if seen is not None and seen.version == mine.version:
            self._bucket.delete([self._key])

    def _if_written(self, data: bytes) -> Seen:
        """Return the lease if it has this content. The client repeats a request whose answer is
        late; S3 then refuses the repeat.

        `data` has the token of its holder. FileExistsError if the lease has other content.
        """
        seen = self.look()
        if seen is None or seen.data != data:
            raise os_error(errno.EEXIST, self._key)
        return seen


open_lease: Callable[[str], LeaseFile] = S3LeaseFile
"""For `winnow.storage.places`."""
