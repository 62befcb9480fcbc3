"""Credentials and endpoints are read from where AWS's own tools look."""

from __future__ import annotations

from pathlib import Path

import pytest

from winnow.errors import UsageError
from winnow.storage.s3.client import aws_settings


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
