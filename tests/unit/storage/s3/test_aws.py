"""Credentials and endpoints from where AWS's own tools look."""

from __future__ import annotations

from pathlib import Path

import pytest

from winnow.errors import UsageError
from winnow.storage.s3.aws import aws_settings


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/config").write_text(
        "[default]\nregion = eu-north-1\n[profile other]\nendpoint_url = http://127.0.0.1:9\nsso_session = x\n"
    )
    (tmp_path / ".aws/credentials").write_text(
        "[default]\naws_access_key_id = A\naws_secret_access_key = S%\n"
        "[other]\naws_access_key_id = B\naws_secret_access_key = T\naws_session_token = U\n"
    )
    return tmp_path


def test_the_default_profile(home: Path) -> None:
    found = aws_settings({"HOME": str(home)})
    assert found == {"region": "eu-north-1", "access_key_id": "A", "secret_access_key": "S%"}


def test_another_profile(home: Path) -> None:
    found = aws_settings({"HOME": str(home), "AWS_PROFILE": "other"})
    assert found == {
        "region": "us-east-1",
        "endpoint": "http://127.0.0.1:9",
        "access_key_id": "B",
        "secret_access_key": "T",
        "token": "U",
    }


def test_the_environment_comes_first(home: Path) -> None:
    environment = {
        "HOME": str(home),
        "AWS_ACCESS_KEY_ID": "C",
        "AWS_REGION": "r",
        "AWS_ENDPOINT_URL": "http://e",
    }
    assert aws_settings(environment) == {"region": "r", "endpoint": "http://e"}


def test_no_files_at_all(tmp_path: Path) -> None:
    assert aws_settings({"HOME": str(tmp_path)}) == {"region": "us-east-1"}


def test_a_profile_that_is_not_there(home: Path) -> None:
    with pytest.raises(UsageError, match="no such profile"):
        aws_settings({"HOME": str(home), "AWS_PROFILE": "third"})


def test_a_file_that_makes_no_sense_is_not_quoted(home: Path) -> None:
    (home / ".aws/credentials").write_text("secret without a section\n")
    with pytest.raises(UsageError, match="can't be parsed") as caught:
        aws_settings({"HOME": str(home)})
    assert "secret" not in str(caught.value)
