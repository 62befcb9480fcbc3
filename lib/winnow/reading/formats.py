"""How keys and values are encoded, as the caller says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast, get_args
from urllib.parse import urlsplit

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from winnow.arguments import refused
from winnow.errors import UsageError

Word: TypeAlias = Literal["bytes", "string", "json"]
WORDS = get_args(Word)
_MOST_ID = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Json:
    """How `winnow.read` decodes keys or values: as JSON text in UTF-8.

    Args:
        schema: Spark's type or its DDL: a struct, an array or a map. By default it is inferred from
            all records of the read, which reads them once more.

    Raises:
        UsageError: The schema can't be used.

    Example:
        >>> orders = winnow.read(spark, "/var/lib/kafka", value=winnow.Json("id bigint"))
        >>> orders.schema["value"].dataType.simpleString()
        'struct<id:bigint>'
    """

    schema: str | DataType | None = None

    def __post_init__(self) -> None:
        schema = self.schema
        fits = isinstance(schema, StructType | ArrayType | MapType) or (
            isinstance(schema, str) and schema.strip() != ""
        )
        if schema is not None and (not fits or schema == StructType([])):
            expected = (
                "a struct, an array or a map, as Spark's type or as DDL such as "
                "'id bigint, name string'"
            )
            raise refused("the schema of Json", expected, schema)


@dataclass(frozen=True, slots=True)
class Avro:
    """How `winnow.read` decodes keys or values: as Avro in binary encoding.

    With `schema` alone, each key or value is one datum and nothing else. With `schemas` or
    `registry`, it is framed as Confluent's serializers do it: a zero byte, the id of the writer's
    schema in four bytes, then the datum. Needs the package fastavro.

    Args:
        schema: Avro's JSON, or the path of a file with it. Every datum is resolved to this schema,
            as Avro resolves a reader's schema. By default that of the highest id among the records.
        schemas: The writers' schemas by id, each as JSON or as the path of a file. By default those
            of `registry`.
        registry: URL of a schema registry. A user and a password may be in it. Excludes `schemas`.
            By default none is asked.

    Raises:
        UsageError: There is no schema, or an argument can't be used.

    Example:
        >>> order = '{"type": "record", "name": "O", "fields": [{"name": "id", "type": "long"}]}'
        >>> orders = winnow.read(spark, "/var/lib/kafka", value=winnow.Avro(order))
        >>> orders.schema["value"].dataType.simpleString()
        'struct<id:bigint>'
    """

    schema: str | None = None
    schemas: Mapping[int, str] | None = None
    registry: str | None = None

    def __post_init__(self) -> None:
        if self.schema is None and not self.framed:
            raise UsageError(
                "Avro needs a schema",
                expected="schema=FILE, schemas={ID: FILE} or registry=URL",
                found="none of them",
            )
        if self.schemas is not None and self.registry is not None:
            raise UsageError("schemas and registry", expected="one of them", found="both")
        if self.schema is not None:
            _check_text("schema", self.schema)
        if self.schemas is not None:
            if not isinstance(self.schemas, Mapping) or not self.schemas:
                expected = "a mapping such as {7: 'order.avsc'}"
                raise refused("the schemas of Avro", expected, self.schemas)
            for number, text in self.schemas.items():
                if type(number) is not int or not 0 <= number <= _MOST_ID:
                    raise UsageError(
                        "not the id of a schema", expected="0 or more", found=repr(number)
                    )
                _check_text(f"schema {number}", text)
        if self.registry is not None:
            _check_url(self.registry)

    @property
    def framed(self) -> bool:
        """Whether keys or values begin with the id of a schema."""
        return self.schemas is not None or self.registry is not None


Format: TypeAlias = Word | Json | Avro


def parse_format(found: object, *, option: str) -> Format:
    """Return the format given for `option`, which is `key` or `value`. Raises UsageError."""
    if isinstance(found, Json | Avro):
        return found
    if isinstance(found, str) and found in WORDS:
        return cast("Word", found)
    raise UsageError(
        f"the format of {option} is not known",
        expected=f"{', '.join(map(repr, WORDS))}, winnow.Json(...) or winnow.Avro(...)",
        found=repr(found),
    )


def _check_text(name: str, found: object) -> None:
    if not isinstance(found, str) or not found.strip():
        raise refused(f"{name} of Avro", "Avro's JSON, or the path of a file", found)


def _check_url(found: object) -> None:
    parts = urlsplit(found) if isinstance(found, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(
            "not the URL of a schema registry",
            expected="http://HOST:PORT or https://HOST:PORT",
            found=repr(found),
        )
