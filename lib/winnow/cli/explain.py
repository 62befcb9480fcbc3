"""The verb `explain`: why a partition is or is not cleaned, and what happens to a record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import MISSING, dataclass
from typing import TYPE_CHECKING, Any

from winnow.cli.call import Call
from winnow.cli.inputs import check_log_dirs, now_of, parse_settings
from winnow.cli.options import HEX, OTHER, dashed, value_of
from winnow.cli.out import (
    Line,
    Paragraph,
    by_the_rules,
    item,
    picked,
    section,
    tell_notes,
    version_keys,
)
from winnow.errors import UsageError
from winnow.words import counted, dated, instant, moment, size

if TYPE_CHECKING:
    from winnow.policy.fate import Fact
    from winnow.verbs.explain.values import Explanation, RecordFate, SegmentDecision


DECIDING = {
    "compact": (
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "max.compaction.lag.ms",
        "delete.retention.ms",
        "log.cleaner.enable",
    ),
    "delete": ("retention.ms", "retention.bytes"),
}
"""By the word in cleanup.policy: settings that are shown even if they are Kafka's defaults."""
_VERDICTS = {
    "stays": "is kept",
    "goes": "is removed",
    "absent": "does not exist",
    "undecided": "is undecided",
}
"""By the verdict of --json, the words of the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainOptions:
    partition: str = OTHER.option(
        "The name of the partition's directory.", "TOPIC-PARTITION", default=MISSING
    )
    offset: int | None = OTHER.option("The record at this offset.", "N", min=0)
    key: str | None = OTHER.option("All records with this key, as UTF-8.", "TEXT")
    key_hex: str | None = OTHER.option("The same, in hexadecimal.", HEX)


def run_explain(call: Call, asked: ExplainOptions) -> int:
    """Return the exit code: 0, or that of the error that prevents an explanation."""
    request = call.request
    call.now = now_of(request)
    settings = parse_settings(request)
    key = key_bytes(asked)
    check_log_dirs(request.log_dirs)
    with call.spark() as spark:
        from winnow import api  # noqa: PLC0415 - it loads numba

        with call.progress() as progress:
            found = api.explain(
                spark,
                list(request.log_dirs),
                partition=asked.partition,
                offset=asked.offset,
                key=key,
                settings=settings,
                now=call.now,
                only=request.only,
                unclean_shutdown=request.unclean_shutdown,
                progress=progress,
            )
        tell_notes(found.notes)
        call.answer(lambda: to_json(found), page(found, asked))
    return found.exit_code


def key_bytes(asked: ExplainOptions) -> bytes | None:
    """Return the key to explain.

    Raises UsageError for more than one question and for a key that is not hexadecimal.
    """
    given = [name for name in ("offset", "key", "key_hex") if getattr(asked, name) is not None]
    if len(given) > 1:
        raise UsageError(
            "more than one question",
            expected="one of --offset, --key and --key-hex",
            found=" and ".join(map(dashed, given)),
        )
    if asked.key is not None:
        return asked.key.encode("utf-8", "surrogateescape")
    found: bytes | None = value_of(asked, "key_hex")
    return found


def to_json(found: Explanation) -> dict[str, Any]:
    """Return one object: the partition, its segments and the records that were asked for."""
    return {
        **picked(found, "topic", "partition", "log_dir", "policy", "now"),
        **version_keys(found.kafka),
        **picked(found, "actions", "rule", "reason", "left_alone", "error"),
        "facts": _facts(found.facts),
        "settings": found.settings,
        "segments": [
            {
                "base_offset": s.base_offset,
                "bytes": s.log_bytes,
                "newest": s.newest,
                "newest_iso": instant(s.newest),
                **picked(s.fate, "verdict", "rule", "words"),
            }
            for s in found.segments
        ],
        "records": [
            {
                **picked(record, "offset", "verdict", "rule", "words", "segment", "position"),
                "key_hex": None if record.key is None else record.key.hex(),
                "facts": _facts(record.facts),
            }
            for record in found.records
        ],
        "older_records": found.older,
    }


def _facts(facts: Iterable[Fact]) -> dict[str, Any]:
    """Return facts for JSON. A time appears twice: in ms, and as text in NAME_iso."""
    values: dict[str, Any] = {}
    for fact in facts:
        values[fact.name] = fact.value
        if fact.time:
            values[f"{fact.name}_iso"] = fact.iso
    return values


def page(found: Explanation, asked: ExplainOptions) -> Iterator[Line]:
    """Yield lines for a person: first the answer, then the facts behind it."""
    wants_records = asked.offset is not None or asked.key is not None or asked.key_hex is not None
    for record in found.records:
        yield from _record_lines(record)
    if found.older:
        yield f"and {counted(found.older, 'older record')} of the key"
    if wants_records and not found.records and not found.left_alone:
        yield "no record in the log has this key"
    if wants_records:
        yield ""
    decide = {
        "cleanup.policy",
        *(key for word in (found.policy or "").split(",") for key in DECIDING.get(word, ())),
    }
    # internal.segment.bytes is shown as segment.bytes
    shown = [
        s
        for s in found.settings
        if (not s.is_default or s.key in decide) and s.key != "internal.segment.bytes"
    ]
    policy = "" if found.policy is not None else ", cleanup.policy is unknown"
    yield f"{found.topic}-{found.partition} in {found.log_dir}{policy}, at {moment(found.now)}"
    yield item(f"{'+'.join(found.actions)} ({found.rule}): {found.reason}")
    if found.error is not None:
        yield item(found.error)
    yield item(by_the_rules(found.kafka))
    told = {s.key for s in shown}
    yield from _table(
        [
            (fact.name, _value(fact))
            for fact in found.facts
            if fact.name.replace("_", ".") not in told and not _is_told(fact, found.reason)
        ]
    )
    if not wants_records:
        yield from section("Segments", map(_segment, found.segments), style="")
    settings = (f"  {s.key}={s.value}  {s.source}" for s in shown)
    yield from section("Deciding settings, and where they come from", settings, style="")


def _segment(s: SegmentDecision) -> Paragraph:
    newest = "no time" if s.newest == -1 else dated(s.newest)
    what = f"{s.base_offset}  {size(s.log_bytes)}, newest {newest}"
    deleted = "deleted: " if s.fate.verdict.value == "goes" else ""
    return item(f"{what}: {deleted}{s.fate.words} ({s.fate.rule})")


def _is_told(fact: Fact, reason: str) -> bool:
    """Return whether the reason has the fact already, as a sentence or with its name."""
    sentence = isinstance(fact.value, str) and " " in fact.value and fact.value in reason
    return sentence or f"{fact.name.replace('_', ' ')} {_value(fact)} " in f"{reason} "


def _record_lines(record: RecordFate) -> Iterator[Line]:
    verdict = f"{_VERDICTS[record.verdict]} ({record.rule})"
    yield Paragraph(f"offset {record.offset} {verdict}: {record.words}", indent=0, hang=2)
    where = [("segment", str(record.segment))] if record.segment is not None else []
    if record.position is not None:
        where.append(("batch_at_byte", str(record.position)))
    yield from _table([*where, *((fact.name, _value(fact)) for fact in record.facts)])


def _table(rows: list[tuple[str, str]]) -> Iterator[str]:
    widest = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        yield f"    {name.replace('_', ' ').ljust(widest)}  {value}"


def _value(fact: Fact) -> str:
    if fact.value is None:
        return "none"
    if fact.time:
        return f"{fact.value} ({instant(int(fact.value))})"
    return f"{fact.value:.4g}" if isinstance(fact.value, float) else str(fact.value)
