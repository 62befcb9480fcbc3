"""The code's own tables as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pyspark.sql.types import ArrayType, StructField, StructType

from tests.reference.markdown import code, table, wrapped
from winnow.cli.text.lessons import ALL, LESSONS
from winnow.kafka_log.options import OPTIONS
from winnow.kafka_log.schema import SCHEMA
from winnow.ledger.place import ERASURES, TABLE
from winnow.ledger.schema import LEDGER, LEDGER_OF_ERASURES
from winnow.policy.config import INT_MAX, KEYS, LONG_MAX, ConfigKey, Value
from winnow.policy.ignored_settings import CLEANER_TUNING
from winnow.policy.versions import ANY, RULES, Range
from winnow.verbs.verify.kinds import Kind

_UNITS = {1: "", 60_000: " (minutes)", 3_600_000: " (hours)"}


def exit_codes() -> Iterator[str]:
    return table(("code", ""), [(str(number), words) for number, words in ALL.codes.items()])


def exit_codes_of_verbs() -> Iterator[str]:
    for verb, lesson in LESSONS.items():
        yield from (f"### {verb}", "")
        codes = lesson.codes.items()
        yield from table(("code", ""), [(str(number), words) for number, words in codes])
        yield ""


def settings_of_topics() -> Iterator[str]:
    head = ("topic", "broker", "type", "default", "")
    return table(
        head,
        [(code(key.name), _brokers(key), *_setting(key)) for key in KEYS if not key.broker_only],
    )


def settings_of_the_broker() -> Iterator[str]:
    head = ("broker", "type", "default", "")
    return table(head, [(code(key.name), *_setting(key)) for key in KEYS if key.broker_only])


def settings_ignored() -> Iterator[str]:
    return (f"* {code(name)}" for name in sorted(CLEANER_TUNING))


def versions() -> Iterator[str]:
    head = ("rule", "from", "to", "", "source", "test")
    rows = sorted(RULES, key=lambda row: [int(number) for number in row.rule[1:].split(".")])
    return table(
        head,
        [
            (row.rule, row.since, row.until or "", row.says, row.source, code(f"tests/{row.test}"))
            for row in rows
        ],
    )


def _brokers(key: ConfigKey) -> str:
    return ", ".join(code(synonym.name) + _UNITS[synonym.unit] for synonym in key.synonyms)


def _setting(key: ConfigKey) -> tuple[str, str, str]:
    return key.kind.value + _range(key.allowed), _value(key.default), key.doc


def _range(allowed: Range) -> str:
    return "" if allowed == ANY else f", {allowed}"


def _value(value: Value | None) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    names = {INT_MAX: "2³¹ - 1", LONG_MAX: "2⁶³ - 1"}
    return names.get(value, str(value)) if isinstance(value, int) else str(value)


def ledger() -> Iterator[str]:
    for name, schema in ((TABLE, LEDGER), (ERASURES, LEDGER_OF_ERASURES)):
        yield from (f"## {code(name)}", "")
        yield from table(("column", "type", ""), _columns(schema.fields))
        yield ""


def _columns(fields: Iterable[StructField], inside: str = "") -> Iterator[Sequence[str]]:
    """Columns inside of columns with the path to them; those of an array's elements as if it were
    one.
    """
    for field in fields:
        of = field.dataType
        element = of.elementType if isinstance(of, ArrayType) else of
        nested = isinstance(element, StructType)
        word = element.typeName() if nested else of.simpleString()
        shown = f"array of {word}" if nested and isinstance(of, ArrayType) else word
        yield code(inside + field.name), code(shown), field.metadata.get("comment", "")
        if isinstance(element, StructType):
            yield from _columns(element.fields, f"{inside}{field.name}.")


def kafka_log_columns() -> Iterator[str]:
    columns = [
        (code(f.name), code(f.dataType.simpleString()), f.metadata["comment"])
        for f in SCHEMA.fields
    ]
    return table(("Column", "Type", ""), columns)


def kafka_log_options() -> Iterator[str]:
    rows = [
        (code(name), code(option.default) if option.default else "", option.doc)
        for name, option in OPTIONS.items()
    ]
    return table(("Option", "Default", ""), rows)


def findings() -> Iterator[str]:
    rows = [
        (code(kind.value), "yes" if kind.is_damage else "no", kind.found, kind.byte)
        for kind in Kind
    ]
    return table(("kind", "damage", "what was found", "where the byte points"), rows)


def meanings() -> Iterator[str]:
    for kind in Kind:
        yield from wrapped(f"* {code(kind.value)}: {kind.meaning}", hanging="  ")
