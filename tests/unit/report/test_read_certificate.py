"""A certificate may come from anybody: what is not one is refused with a sentence."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from winnow.errors import UsageError
from winnow.report.certificate import FORMAT, canonical, read_certificate

HASH = "00" * 16
GOOD: dict[str, Any] = {
    "format": FORMAT,
    "run_id": "20261124T080324Z-a23fabbf",
    "keys": {"hashes": [HASH], "all": HASH},
    "partitions": [{"topic": "t"}],
}


def signed(**changed: object) -> bytes:
    content = GOOD | changed
    return canonical(content | {"sha256": hashlib.sha256(canonical(content)).hexdigest()})


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    (tmp_path / "c.hash-key").write_text("11" * 32)
    return tmp_path / "c.json"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        signed(format="another"),
        signed(keys=[]),
        signed(keys={"hashes": "00", "all": HASH}),
        signed(keys={"hashes": [7], "all": HASH}),
        signed(keys={"hashes": ["00"], "all": HASH}),
        signed(keys={"hashes": [HASH]}),
        signed(partitions={"topic": "t"}),
        signed(partitions=[{"topic": ["t"]}]),
        signed(run_id=None),
    ],
)
def test_what_is_no_certificate_is_refused(data: bytes, certificate: Path) -> None:
    certificate.write_bytes(data)
    with pytest.raises(UsageError, match="not a certificate"):
        read_certificate(str(certificate), None)


def test_hash_that_is_not_hexadecimal_is_refused(certificate: Path) -> None:
    certificate.write_bytes(signed(keys={"hashes": ["zz" * 16], "all": HASH}))
    with pytest.raises(UsageError, match="hash of a key can't be understood"):
        read_certificate(str(certificate), None)


def test_pipe_does_not_make_a_run_wait(certificate: Path) -> None:
    os.mkfifo(certificate)
    with pytest.raises(UsageError, match="not a certificate"):
        read_certificate(str(certificate), None)
    certificate.unlink()
    certificate.write_bytes(signed())
    pipe = certificate.with_name("pipe")
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="can't read the file with the hash key"):
        read_certificate(str(certificate), str(pipe))


def test_hash_key_of_another_erasure_is_refused(certificate: Path) -> None:
    certificate.write_bytes(signed())
    with pytest.raises(UsageError, match="not the hash key of the erasure"):
        read_certificate(str(certificate), None)


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.replace(b'"t"', b'"u"'),
        lambda data: data.replace(b"a23fabbf", b"a23fabbe"),
        lambda data: data.replace(b'"sha256"', b'"sha256":"00","sha256"'),
        lambda data: data[:-1] + b',"more":1}' if data.endswith(b"}") else data + b"x",
    ],
)
def test_changed_certificate_is_refused(
    change: Callable[[bytes], bytes], certificate: Path
) -> None:
    data = signed().strip()
    assert change(data) != data
    certificate.write_bytes(change(data))
    with pytest.raises(UsageError, match=r"it was changed|not a certificate"):
        read_certificate(str(certificate), None)


def test_certificate_without_end_takes_no_memory(certificate: Path) -> None:
    for file in ("/dev/zero", "/proc/self/mem", str(certificate.parent)):
        with pytest.raises(UsageError, match="not a certificate"):
            read_certificate(file, None)
    certificate.touch()
    os.truncate(certificate, 60 << 30)
    with pytest.raises(UsageError, match="not a certificate"):
        read_certificate(str(certificate), None)


@pytest.mark.parametrize("content", [b"", b"zz" * 32, b"1", b"11" * 65, b"\xff", b"11 " * 100_000])
def test_what_is_no_hash_key_is_refused(content: bytes, certificate: Path) -> None:
    certificate.write_bytes(signed())
    certificate.with_suffix(".hash-key").write_bytes(content)
    with pytest.raises(UsageError, match="no hash key"):
        read_certificate(str(certificate), None)


def test_hash_key_without_end_is_refused(certificate: Path) -> None:
    certificate.write_bytes(signed())
    with pytest.raises(UsageError, match="can't read the file with the hash key"):
        read_certificate(str(certificate), "/dev/zero")
