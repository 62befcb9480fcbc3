"""How S3 is reached, and what it answers: credentials, errors, and the time of a file as metadata
of its object.

Credentials and the endpoint come from where AWS's own tools look: the environment, a profile
(`winnow.storage.s3.aws`), the machine's or container's role. They are never part of a URL or of a
message.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError, PreconditionError
from obstore.store import S3Store as Bucket

from winnow.errors import UsageError
from winnow.storage.s3.aws import aws_settings

MTIME = "mtime"
"""Metadata of an object: seconds since the epoch with nine decimals, as rclone has it."""
_CODE = re.compile(r"<Code>([A-Za-z0-9.]{1,80})</Code>")
_NO_BUCKET = "NoSuchBucket"
_STATUS = re.compile(
    r"status [1-5][0-9]{2}[A-Za-z ]{0,40}|[Cc]onnection refused|dns error|timed out"
)


class ObjectChangedError(OSError):
    """An object is not the one that was meant: it was replaced or removed since."""


def bucket_and_key(url: str) -> tuple[str, str]:
    """Raises UsageError for a URL with credentials, a query or no bucket, without repeating the
    first two.
    """
    parts = urlsplit(url)
    # A secret may have a slash: then what comes before it is taken for the bucket, whose name never
    # has a colon.
    if "@" in parts.netloc or ":" in parts.netloc or parts.query or parts.fragment:
        raise UsageError(
            "a URL of S3 is a bucket and a prefix",
            expected="s3://BUCKET/PREFIX",
            hint="Credentials belong into the environment or a profile, as for AWS's own tools.",
        )
    if not parts.netloc:
        raise UsageError("a URL without a bucket", expected="s3://BUCKET/PREFIX", found=url)
    return parts.netloc, "/".join(filter(None, parts.path.split("/")))


def connect(
    bucket: str,
    environment: Mapping[str, str],
    *,
    prefix: str = "",
    client_options: Any = None,  # noqa: ANN401 - obstore's own types, as what it returns
    retry_config: Any = None,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """A client for the objects below a prefix."""
    settings: Any = aws_settings(environment)
    options: Any = {"allow_http": str(settings.get("endpoint", "")).startswith("http://")} | (
        client_options or {}
    )
    with errors(f"s3://{bucket}"):
        return Bucket(
            bucket,
            prefix=prefix or None,
            config=settings,
            client_options=options,
            retry_config=retry_config,
        )


@contextmanager
def errors(where: str) -> Iterator[None]:
    """As OSErrors. Of an answer only its code is told: the rest may hold the id of a key, or a
    signature.
    """
    try:
        yield
    except AlreadyExistsError:
        raise FileExistsError(where) from None
    except NotFoundError as error:
        if _NO_BUCKET in str(error):  # that says nothing of what is in it
            raise OSError(errno.ENODEV, f"S3 answers {_NO_BUCKET}", where) from None
        raise FileNotFoundError(where) from None
    except PreconditionError:
        raise ObjectChangedError(f"{where}: it was replaced since it was looked at") from None
    except (BaseError, OSError) as error:
        if getattr(error, "errno", None) is not None or isinstance(error, ObjectChangedError):
            raise  # of the local file
        text = str(error)
        found = _CODE.search(text) or _STATUS.search(text)
        what = type(error).__name__ if found is None else found[found.re.groups]
        kind = next(
            (one for one in (FileExistsError, FileNotFoundError) if isinstance(error, one)), OSError
        )
        raise kind(f"{where}: S3 answers {what}") from None


def modified_ns(meta: Any) -> int:  # noqa: ANN401 - obstore's ObjectMeta is a mapping
    """When an object was written."""
    modified: datetime = meta["last_modified"]
    since = modified - datetime(1970, 1, 1, tzinfo=modified.tzinfo)
    return since // timedelta(microseconds=1) * 1000


def with_mtime(mtime_ns: int | None) -> Any:  # noqa: ANN401 - obstore's Attributes
    """The metadata that says so; None for none."""
    if mtime_ns is None:
        return None
    seconds, ns = divmod(mtime_ns, 10**9)
    return {MTIME: f"{seconds}.{ns:09d}"}


def mtime_of(attributes: Mapping[Any, str], otherwise: int) -> int:
    """In ns since the epoch; `otherwise` where the object has none."""
    found = re.fullmatch(r"([0-9]{1,11})(?:\.([0-9]{1,9}))?", attributes.get(MTIME) or "")
    return (
        otherwise if found is None else int(found[1]) * 10**9 + int((found[2] or "").ljust(9, "0"))
    )
