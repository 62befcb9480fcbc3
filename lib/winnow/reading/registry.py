"""Read schemas from a schema registry by Confluent's REST API. Nothing is ever written there."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from winnow.basic_auth import split_off
from winnow.budget import Budget
from winnow.errors import UsageError, WinnowError
from winnow.http_client import fetch
from winnow.reading.avro_bounds import MOST_DEPTH, Schema, parse_schema_text
from winnow.reading.avro_types import plain

SECONDS = 30
"""Of one request."""
_MOST_ANSWER_BYTES = 4 << 20
_MOST_BYTES, _MOST_REQUESTS, _MOST_MS = 64 << 20, 20_000, 1_800_000
"""Of all answers to one reader."""
_MOST_REFERENCES = 1_000
"""Of one schema, with those of its references."""
_SHOWN = 200
_TOO_MANY = "the schema registry has too many schemas for this read"


@dataclass(frozen=True, slots=True)
class _Answer:
    schema: Schema
    references: tuple[tuple[str, str], ...]
    """Name and path of each."""


class Registry:
    """Reads schemas, each subject and version once."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._answers: dict[str, _Answer] = {}
        """By path."""
        self._requests = self._budget(_MOST_REQUESTS, "requests")
        self._bytes = self._budget(_MOST_BYTES, "bytes")
        self._ms = self._budget(_MOST_MS, "ms", "the schema registry answers too slowly")

    def _budget(self, most: int, unit: str, problem: str = _TOO_MANY) -> Budget:
        return Budget(
            most,
            unit,
            problem,
            hint="Read fewer records at once, with start and end.",
            error=WinnowError,
        )

    def schema(self, number: int) -> list[Schema]:
        """Return the schema with this id, after those that it refers to.

        Raises WinnowError if the registry does not answer, does not know it, or if it is not Avro.
        """
        found: dict[str, Schema] = {}
        answer = self._answer(f"schemas/ids/{number}", f"schema {number}")
        self._add(answer.references, found, ())
        # The same schema may be registered as two subjects.
        return [*{json.dumps(one): one for one in found.values()}.values(), answer.schema]

    def _add(
        self,
        references: Iterable[tuple[str, str]],
        found: dict[str, Schema],
        within: tuple[str, ...],
    ) -> None:
        """Add schemas to `found`, by name, each after those that it refers to. `within`: the names
        of those that lead to it.
        """
        for name, path in references:
            if name in within:
                raise WinnowError(
                    "schemas refer to each other",
                    expected="references without a circle",
                    found=name,
                    where=self._url,
                )
            if name in found:
                continue
            if len(within) >= MOST_DEPTH or len(found) >= _MOST_REFERENCES:
                raise WinnowError(
                    "a schema refers to too many others",
                    expected=f"at most {_MOST_REFERENCES}, and {MOST_DEPTH} in a row",
                    found="more",
                    where=self._url,
                )
            answer = self._answer(path, name)
            self._add(answer.references, found, (*within, name))
            found[name] = answer.schema

    def _answer(self, path: str, what: str) -> _Answer:
        if path not in self._answers:
            self._answers[path] = self._understood(self._get(path), what)
        return self._answers[path]

    def _understood(self, answer: Mapping[str, Any], what: str) -> _Answer:
        kind = answer.get("schemaType", "AVRO")
        if kind != "AVRO":
            raise UsageError(
                f"{what} is not an Avro schema",
                expected="AVRO",
                found=str(kind)[:_SHOWN],
                where=self._url,
                hint="Read the column as 'bytes' or 'string'.",
            )
        listed, text = answer.get("references") or [], answer.get("schema")
        if not isinstance(text, str):
            raise self._bad_answer(what, "no text of a schema")
        if not isinstance(listed, list) or len(listed) > _MOST_REFERENCES:
            found = f"references that are no list of at most {_MOST_REFERENCES}"
            raise self._bad_answer(what, found)
        try:
            schema = plain(parse_schema_text(text, where=what))
            return _Answer(schema, tuple(map(_reference, listed)))
        except ValueError as error:
            raise self._bad_answer(what, str(error)) from error
        except UsageError as error:
            raise self._bad_answer(what, error.what) from error

    def _get(self, path: str) -> Mapping[str, Any]:
        self._requests.take(1, self._url)
        began = time.monotonic()
        text = self._fetch(path)
        self._ms.take(1 + int(1000 * (time.monotonic() - began)), self._url)
        self._bytes.take(len(text), self._url)
        try:
            answer = json.loads(text) if len(text) <= _MOST_ANSWER_BYTES else None
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise self._bad_answer(path, f"{len(text)} bytes that are no JSON object")
        return answer

    def _fetch(self, path: str) -> bytes:
        """Return an answer, or the beginning of one that is too long."""
        bare, headers = split_off(self._url)
        parts = urlsplit(bare)
        target = urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{path}", fragment=""))
        headers["Accept"] = "application/vnd.schemaregistry.v1+json, application/json"
        request = urllib.request.Request(target, headers=headers)  # noqa: S310 - the scheme has been checked
        try:
            return fetch(request, seconds=SECONDS, most=_MOST_ANSWER_BYTES + 1)
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

    def _bad_answer(self, what: str, found: str) -> WinnowError:
        return WinnowError(
            f"the schema registry's answer for {what} can't be understood",
            expected='a JSON object with "schema"',
            found=found,
            where=self._url,
        )


def _reference(found: object) -> tuple[str, str]:
    """Return the name of a subject and version that a schema refers to, and its path. Raises
    ValueError.
    """
    fields = found if isinstance(found, Mapping) else {}
    subject, version = fields.get("subject"), fields.get("version")
    if not isinstance(subject, str) or type(version) is not int:
        raise ValueError("a reference without a subject and a version")
    return f"{subject} version {version}", f"subjects/{quote(subject, safe='')}/versions/{version}"
