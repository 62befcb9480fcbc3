"""An endpoint that answers whatever it likes ends a request with an error, in bounded time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from winnow.storage.s3 import bucket as limits
from winnow.storage.s3.bucket import S3Bucket
from winnow.storage.s3.client import S3RequestError, errors
from winnow.storage.s3.memory import Stored

DATE = "Mon, 01 Jan 2024 00:00:00 GMT"


@dataclass
class Endpoint:
    """Answers each listing with the same objects, and the other requests with one object."""

    etag: str = "&quot;abc&quot;"
    objects: int = 1
    ends: bool = True
    listings: int = 0

    def listing(self) -> str:
        self.listings += 1
        more = (
            "" if self.ends else f"<NextContinuationToken>t{self.listings}</NextContinuationToken>"
        )
        objects = (
            f"<Contents><Key>p/k{self.listings}-{number}</Key><Size>3</Size>"
            f"<LastModified>2024-01-01T00:00:00.000Z</LastModified><ETag>{self.etag}</ETag></Contents>"
            for number in range(self.objects)
        )
        truncated = str(not self.ends).lower()
        return (
            f"<?xml version='1.0'?><ListBucketResult><IsTruncated>{truncated}</IsTruncated>{more}"
            f"{''.join(objects)}</ListBucketResult>"
        )


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    answers = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = (answers.listing() if "list-type" in self.path else "xyz").encode()
            self.send_response(200)
            for name, value in (("Last-Modified", DATE), ("ETag", '"abc"')):
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield answers
        server.shutdown()
        thread.join()


def test_listing_without_end_ends_with_an_error(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_LISTING_SECONDS", 0.5)
    endpoint.ends = False
    with pytest.raises(S3RequestError, match=r"s3://b/p: S3 does not answer in time"):
        S3Bucket("b").list_top("p")
    asked = endpoint.listings
    assert asked > 1
    time.sleep(0.3)
    assert endpoint.listings <= asked + 2, "no request goes on in the background"


def test_tree_without_end_ends_with_an_error(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_MOST_LISTED", 5_000)
    endpoint.ends, endpoint.objects = False, 500
    with pytest.raises(S3RequestError, match=r"s3://b/p: S3 lists more than 5,000 objects"):
        list(S3Bucket("b").below("p"))


@pytest.mark.parametrize(
    "etag", ["&quot;a&#10;b&quot;", "&#13;&#10;x: y", "a\tb", "\u00e9", "x" * 1_001]
)
def test_tag_that_is_no_header_is_an_error(endpoint: Endpoint, etag: str) -> None:
    """The client ended with a `PanicException`, which is no Exception, when it sent such a tag."""
    endpoint.etag = etag
    for ask in (S3Bucket("b").list_top, lambda prefix: list(S3Bucket("b").below(prefix))):
        with pytest.raises(S3RequestError, match=r"s3://b/p/k\d-0: S3 answers an ETag that is not"):
            ask("p")


def test_tag_as_s3_has_it_is_taken(endpoint: Endpoint) -> None:
    bucket = S3Bucket("b")
    ((found,), _) = bucket.list_top("p")
    assert (found.etag, found.size) == ('"abc"', 3)
    assert endpoint.listings == 1
    assert bucket.get_beginning(found, 3)[0] == b"xyz"


def test_panic_of_the_client_is_an_error_of_the_request(endpoint: Endpoint) -> None:
    """An answer that Winnow does not foresee: here a tag is sent that came from elsewhere."""
    assert endpoint.ends
    with pytest.raises(S3RequestError, match=r"s3://b/k: the client failed on what S3 answered"):
        S3Bucket("b").get_beginning(Stored("k", 3, '"a\nb"', 0), 3)


def test_other_ends_of_a_process_go_on() -> None:
    with pytest.raises(KeyboardInterrupt), errors("s3://b"):
        raise KeyboardInterrupt
