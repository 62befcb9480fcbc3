"""The lease on a log directory in S3: an object, written only on a condition."""

from __future__ import annotations

import errno

from winnow.storage.contract import os_error
from winnow.storage.lease_file import LEASE, LeaseFile, Seen
from winnow.storage.s3.bucket import S3Bucket
from winnow.storage.s3.client import ObjectChangedError, bucket_and_key
from winnow.storage.s3.memory import key_of


class S3LeaseFile(LeaseFile):
    """A version is a tag, so it differs if the content does."""

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

    def take(self, data: bytes, expired: Seen | None) -> Seen:
        """`data` has the token of its holder, so nobody else writes the same."""
        over = None if expired is None else expired.version
        try:
            return Seen(data, self._bucket.write(self._key, data, over=over))
        except ObjectChangedError:
            raise os_error(errno.EEXIST, self._key) from None

    def renew(self, mine: Seen, data: bytes) -> Seen:
        try:
            return self.take(data + b"\n" if data == mine.data else data, mine)
        except FileExistsError:
            raise FileNotFoundError(
                errno.ENOENT, "somebody else holds the lease", self._key
            ) from None

    def remove(self, mine: Seen) -> None:
        seen = self.look()
        if seen is not None and seen.version == mine.version:
            self._bucket.delete([self._key])
