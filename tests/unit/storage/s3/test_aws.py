"""Credentials and endpoints are read from where AWS's own tools look."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.metrics.listener import listening
from winnow.errors import UsageError
from winnow.storage.s3.client import S3RequestError, aws_settings, connect, errors


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/config").write_text(
        "[default]\nregion = eu-north-1\n[profile other]\nendpoint_url = "
        "http://127.0.0.1:9\nsso_session = x\n"
    )
    (tmp_path / ".aws/credentials").write_text(
        "[default]\naws_access_key_id = A\naws_secret_access_key = S%\n"
        "[other]\naws_access_key_id = B\naws_secret_access_key = T\naws_session_token = U\n"
    )
    return tmp_path


def test_default_profile_is_read(home: Path) -> None:
    found = aws_settings({"HOME": str(home)})
    assert found == {"region": "eu-north-1", "access_key_id": "A", "secret_access_key": "S%"}


def test_profile_of_the_environment_is_read(home: Path) -> None:
    found = aws_settings({"HOME": str(home), "AWS_PROFILE": "other"})
    assert found == {
        "region": "us-east-1",
        "endpoint": "http://127.0.0.1:9",
        "access_key_id": "B",
        "secret_access_key": "T",
        "token": "U",
    }


def test_environment_overrides_the_profile(home: Path) -> None:
    environment = {
        "HOME": str(home),
        "AWS_ACCESS_KEY_ID": "C",
        "AWS_REGION": "r",
        "AWS_ENDPOINT_URL": "http://e",
    }
    assert aws_settings(environment) == {"region": "r", "endpoint": "http://e"}


def test_missing_files_give_the_default_region(tmp_path: Path) -> None:
    assert aws_settings({"HOME": str(tmp_path)}) == {"region": "us-east-1"}


def test_missing_profile_is_refused(home: Path) -> None:
    with pytest.raises(UsageError, match="no such profile"):
        aws_settings({"HOME": str(home), "AWS_PROFILE": "third"})


def test_malformed_file_is_refused_without_quoting_it(home: Path) -> None:
    (home / ".aws/credentials").write_text("secret without a section\n")
    with pytest.raises(UsageError, match="can't be parsed") as caught:
        aws_settings({"HOME": str(home)})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("status", [301, 307])
def test_neither_signature_nor_data_goes_to_another_origin(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library follows redirects of reads, and can't be asked not to."""
    obstore = pytest.importorskip("obstore", reason="the extra `s3` is not installed")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "A")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "S")
    with (
        listening() as stranger,
        listening(status, location=lambda path: f"{stranger.url}{path}") as asked,
    ):
        monkeypatch.setenv("AWS_ENDPOINT_URL", asked.url)
        bucket = connect("bucket", retry={"max_retries": 0})
        with pytest.raises(S3RequestError, match=f"status code: {status}"), errors("s3://bucket/k"):
            obstore.put(bucket, "k", b"data")
        assert stranger.requests == []
        obstore.get(bucket, "k")
    assert all((given or "").startswith("AWS4") for given in asked.authorized)
    assert [method for method, _, _ in stranger.requests] == ["GET"]
    assert stranger.authorized == [None]
