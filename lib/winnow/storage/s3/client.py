"""Connect to S3 and translate its answers: credentials, errors, and file times as object metadata.

Credentials and the endpoint come from where AWS's own tools look: the environment, a profile in
~/.aws, the role of the machine or container. They are never part of a URL or of a message.
"""

from __future__ import annotations

import configparser
import errno
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError, PreconditionError
from obstore.store import S3Store as Bucket

from winnow.errors import UsageError

MTIME = "mtime"
"""Metadata of an object: seconds since the epoch with nine decimals, in rclone's format."""
_CODE = re.compile(r"<Code>([A-Za-z0-9.]{1,80})</Code>")
_SHOWN = 200
_NO_BUCKET = "NoSuchBucket"
_STATUS = re.compile(
    r"status (?:code: )?[1-5][0-9]{2}[A-Za-z ]{0,40}|[Cc]onnection refused|dns error|timed out"
)
_ROLE_SERVERS = ("169.254.169.254", "169.254.170.2", "169.254.170.23")
"""Where a machine or a container on AWS gets the credentials of its role."""


class S3RequestError(OSError):
    """S3 refused a request, or could not be reached. `filename` is the URL."""

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


class ObjectChangedError(OSError):
    """The object is not the expected one: it was replaced or removed since."""


def bucket_and_key(url: str) -> tuple[str, str]:
    """Split a URL. Raises UsageError for a URL with credentials, a query or no bucket. The message
    repeats neither credentials nor query.
    """
    parts = urlsplit(url)
    # A secret may contain a slash. Then the part before it looks like the bucket, whose name never
    # has a colon.
    if "@" in parts.netloc or ":" in parts.netloc or parts.query or parts.fragment:
        raise UsageError(
            "an S3 URL must be a bucket and a prefix",
            expected="s3://BUCKET/PREFIX",
            hint="Put credentials into the environment or a profile, as for AWS's own tools.",
        )
    if not parts.netloc:
        raise UsageError("a URL without a bucket", expected="s3://BUCKET/PREFIX", found=url)
    return parts.netloc, "/".join(filter(None, parts.path.split("/")))


def connect(bucket: str, *, retry: Any = None, **http: Any) -> Any:  # noqa: ANN401 - obstore's own types
    """Return a client with these options for retries and for HTTP."""
    settings: Any = aws_settings(os.environ)
    options: Any = {"allow_http": settings.get("endpoint", "").startswith("http://"), **http}
    with errors(f"s3://{bucket}"):
        return Bucket(bucket, config=settings, client_options=options, retry_config=retry)


@contextmanager
def errors(where: str) -> Iterator[None]:
    """Raise OSErrors. Report only an answer's code: the rest may hold a key's id or a signature."""
    try:
        yield
    except AlreadyExistsError:
        raise FileExistsError(where) from None
    except NotFoundError as error:
        if _NO_BUCKET in str(error):  # says nothing about the object
            raise S3RequestError(errno.ENODEV, f"S3 answers {_NO_BUCKET}", where) from None
        raise FileNotFoundError(where) from None
    except PreconditionError:
        raise ObjectChangedError(f"{where}: it was replaced since it was read") from None
    except (BaseError, OSError) as error:
        if getattr(error, "errno", None) is not None or isinstance(error, ObjectChangedError):
            raise  # an error of the local file
        if isinstance(error, FileExistsError | FileNotFoundError):
            raise type(error)(where) from None
        raise S3RequestError(errno.EREMOTEIO, _what_failed(error), where) from None
    except BaseException as error:
        if not _is_panic(error):
            raise
        raise S3RequestError(
            errno.EREMOTEIO, f"the client failed on what S3 answered: {str(error)[:_SHOWN]}", where
        ) from None


def _is_panic(error: BaseException) -> bool:
    """Return whether the client's code in Rust has given up. That is no Exception, and its class
    has no module to import it from.
    """
    return type(error).__name__ == "PanicException"


def _what_failed(error: Exception) -> str:
    text = str(error)
    if any(server in text for server in _ROLE_SERVERS):
        return "there are no credentials for S3, neither in the environment nor by a role"
    found = _CODE.search(text) or _STATUS.search(text)
    if found is None and ("TimedOut" in text or isinstance(error, TimeoutError)):
        return "S3 does not answer in time"
    return f"S3 answers {type(error).__name__ if found is None else found[found.re.groups]}"


def modified_ns(meta: Any) -> int:  # noqa: ANN401 - obstore's ObjectMeta is a mapping
    """Return when an object was written."""
    written: datetime = meta["last_modified"]
    return round(written.timestamp() * 10**6) * 1000


def with_mtime(mtime_ns: int | None) -> Any:  # noqa: ANN401 - obstore's Attributes
    """Return the metadata for a time; None for no time."""
    if mtime_ns is None:
        return None
    seconds, ns = divmod(mtime_ns, 10**9)
    return {MTIME: f"{seconds}.{ns:09d}"}


def mtime_of(attributes: Mapping[Any, str], otherwise: int) -> int:
    """Return the time in the metadata, in ns since the epoch, else `otherwise`."""
    found = re.fullmatch(r"([0-9]{1,11})(?:\.([0-9]{1,9}))?", attributes.get(MTIME) or "")
    return (
        otherwise if found is None else int(found[1]) * 10**9 + int((found[2] or "").ljust(9, "0"))
    )


_OF_PROFILE = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "token",
    "region": "region",
    "endpoint_url": "endpoint",
}
"""Name in the files -> name in the client."""
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")


def aws_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return settings for obstore, which reads the rest of the environment itself. The role of a
    machine or container needs none.

    Raises UsageError if AWS_PROFILE names no profile.
    """
    settings = {} if "AWS_ACCESS_KEY_ID" in environment else _profile(environment)
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    if region:
        settings["region"] = region
    endpoint = next((environment[name] for name in _ENDPOINTS if environment.get(name)), None)
    if endpoint:
        settings["endpoint"] = endpoint
    settings.setdefault("region", "us-east-1")
    return settings


def _profile(environment: Mapping[str, str]) -> dict[str, str]:
    home = Path(environment.get("HOME") or "~").expanduser()
    name = environment.get("AWS_PROFILE") or "default"
    files = (
        (
            environment.get("AWS_CONFIG_FILE") or str(home / ".aws/config"),
            name if name == "default" else f"profile {name}",
        ),
        (environment.get("AWS_SHARED_CREDENTIALS_FILE") or str(home / ".aws/credentials"), name),
    )
    settings: dict[str, str] = {}
    found = False
    for file, section in files:
        parser = configparser.ConfigParser(interpolation=None)
        try:
            parser.read(file, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError):
            # The parser's own message would quote the line.
            raise UsageError(
                "an AWS settings file can't be parsed",
                expected="[sections] of lines name = value",
                where=file,
            ) from None
        if parser.has_section(section):
            found = True
            settings |= {
                _OF_PROFILE[key]: value
                for key, value in parser.items(section)
                if key in _OF_PROFILE
            }
    if not found and environment.get("AWS_PROFILE"):
        raise UsageError("no such profile", expected="the one that AWS_PROFILE names", found=name)
    return settings
