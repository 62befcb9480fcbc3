"""Read the settings that AWS's own tools use: first the environment, then a profile in ~/.aws."""

from __future__ import annotations

import configparser
from collections.abc import Mapping
from pathlib import Path

from winnow.errors import UsageError

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
