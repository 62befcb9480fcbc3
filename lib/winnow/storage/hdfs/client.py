"""Connect to HDFS: parse its URLs, make a client, and turn refusals of name nodes into OSErrors.

Name nodes and the user are found as Hadoop's own tools find them: HADOOP_CONF_DIR,
HADOOP_USER_NAME, a ticket.
"""

from __future__ import annotations

import errno
import posixpath
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from hdfs_native import Client

from winnow.errors import UsageError
from winnow.storage.contract import os_error

SCHEME = "hdfs"
_PATIENCE = {
    "dfs.client.failover.max.attempts": "6",
    "dfs.client.failover.sleep.max.millis": "2000",
}
"""Ten seconds, not three minutes: a retried change must not outlast its lease."""
_REFUSAL = re.compile(r'RPCError\("(?P<kind>[\w.$]+)", "(?P<why>.*?)(?:\\n|"\))', re.DOTALL)
_LONGEST = 4_000
"""Characters in which the exception and its message are."""
_NUMBERS = {
    "AccessControlException": errno.EACCES,
    "PathIsNotEmptyDirectoryException": errno.ENOTEMPTY,
    "DSQuotaExceededException": errno.EDQUOT,
    "NSQuotaExceededException": errno.EDQUOT,
    "QuotaByStorageTypeExceededException": errno.EDQUOT,
    "SafeModeException": errno.EROFS,
    "InvalidPathException": errno.EINVAL,
}
"""Error numbers by the name of Hadoop's exception. All others are EREMOTEIO: EIO would mean that a
disk of this machine is broken.
"""


@cache
def connect(authority: str) -> Client:
    """Return the client for a name node; each process keeps one.

    `authority`: NAMENODE:PORT or a name service; empty for that of HADOOP_CONF_DIR.
    """
    url = f"{SCHEME}://{authority}"
    with hdfs_errors(url):
        return Client(url if authority else None, _PATIENCE)


def split_url(url: str) -> tuple[str, str]:
    """Return authority and path. UsageError if it is no address of a file; its message does not
    repeat the URL, which may hold a secret.
    """
    authority, slash, path = url.partition("://")[2].partition("/")
    if "@" in authority or not set("?#").isdisjoint(path):
        raise UsageError(
            "an HDFS URL must be a name node and a path", expected=f"{SCHEME}://NAMENODE:PORT/PATH"
        )
    return authority.lower(), posixpath.normpath(f"{slash or '/'}{path}".replace("//", "/"))


def canonical_url(url: str) -> str:
    return f"{SCHEME}://{''.join(split_url(url))}"


def path_of(url: str) -> str:
    """Return the path of a URL. The given directories are canonical already."""
    return "/" + url.partition("://")[2].partition("/")[2]


@contextmanager
def hdfs_errors(where: str) -> Iterator[str]:
    """Yield the path of a URL. Raise every error of hdfs-native as an OSError with the usual number
    and this URL.
    """
    try:
        yield path_of(where)
    except FileNotFoundError:
        raise os_error(errno.ENOENT, where) from None
    except FileExistsError:
        raise os_error(errno.EEXIST, where) from None
    except RuntimeError as error:
        raise refusal(str(error), where) from None
    except OSError as error:
        if error.filename is not None:
            raise
        number = errno.EREMOTEIO if error.errno in {None, errno.EIO} else error.errno
        raise OSError(number, _first_line(error.strerror or str(error)), where) from None


def refusal(text: str, where: str) -> OSError:
    """Return the OSError for a RuntimeError of hdfs-native. Its text holds the name node's
    exception with its whole stack trace.
    """
    found = _REFUSAL.search(text, 0, _LONGEST)
    if found is None:
        return OSError(errno.EREMOTEIO, f"HDFS answers {_first_line(text)}", where)
    kind = found["kind"].rpartition(".")[2]
    return OSError(
        _NUMBERS.get(kind, errno.EREMOTEIO),
        f"HDFS answers {kind}: {_first_line(found['why'])}",
        where,
    )


def _first_line(text: str) -> str:
    return text.partition("\n")[0][:300]
