"""Read schemas from a schema registry by Confluent's REST API. Nothing is ever written there."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from winnow.basic_auth import split_off
from winnow.errors import UsageError, WinnowError
from winnow.http_client import fetch
from winnow.reading.avro_types import Schema, plain

SECONDS = 30
_MOST_BYTES = 16 << 20


def fetch_schema(url: str, number: int) -> list[Schema]:
    """Return the schema with this id, after those that it refers to.

    Raises WinnowError if the registry does not answer, does not know it, or if it is not Avro.
    """
    return _whole(url, _get(url, f"schemas/ids/{number}"), f"schema {number}", ())


def _whole(url: str, answer: Mapping[str, Any], what: str, within: tuple[str, ...]) -> list[Schema]:
    kind = answer.get("schemaType", "AVRO")
    if kind != "AVRO":
        raise UsageError(
            f"{what} is not an Avro schema",
            expected="AVRO",
            found=str(kind),
            where=url,
            hint="Read the column as 'bytes' or 'string'.",
        )
    schemas = []
    for reference in answer.get("references") or ():
        subject, version = reference["subject"], reference["version"]
        name = f"{subject} version {version}"
        if name in within:
            raise WinnowError(
                "schemas refer to each other",
                expected="references without a circle",
                found=name,
                where=url,
            )
        path = f"subjects/{quote(subject, safe='')}/versions/{int(version)}"
        for schema in _whole(url, _get(url, path), name, (*within, name)):
            if schema not in schemas:
                schemas.append(schema)
    try:
        return [*schemas, plain(json.loads(answer["schema"]))]
    except (KeyError, TypeError, ValueError) as error:
        raise _bad_answer(url, what, repr(error)) from error


def _get(url: str, path: str) -> Mapping[str, Any]:
    bare, headers = split_off(url)
    parts = urlsplit(bare)
    target = urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{path}", fragment=""))
    headers["Accept"] = "application/vnd.schemaregistry.v1+json, application/json"
    request = urllib.request.Request(target, headers=headers)  # noqa: S310 - the scheme has been checked
    try:
        text = fetch(request, timeout=SECONDS, most=_MOST_BYTES + 1)
    except urllib.error.HTTPError as error:
        raise WinnowError(
            f"the schema registry has no {path}"
            if error.code == 404
            else "the schema registry refused",
            found=f"{error.code} {error.reason}",
            where=target,
            hint="A user and a password may be in the URL, before the host."
            if error.code in (401, 403)
            else "Is it the registry of the cluster that wrote these records?",
        ) from error
    except OSError as error:
        raise WinnowError(
            "the schema registry does not answer",
            found=str(getattr(error, "reason", error)),
            where=target,
            hint="winnow.Avro(schemas={ID: FILE}) needs no registry.",
        ) from error
    try:
        answer = json.loads(text) if len(text) <= _MOST_BYTES else None
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise _bad_answer(target, path, f"{len(text)} bytes that are no JSON object")
    return answer


def _bad_answer(url: str, what: str, found: str) -> WinnowError:
    return WinnowError(
        f"the schema registry's answer for {what} can't be understood",
        expected='a JSON object with "schema"',
        found=found,
        where=url,
    )
