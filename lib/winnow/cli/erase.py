"""The verb `erase`: read the keys, and show what was erased and the proof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from winnow.cli.call import Call
from winnow.cli.inputs import check_log_dirs, ledger_of, parse_settings, stop_of
from winnow.cli.line.units import parse_bytes
from winnow.cli.options import KEY, OTHER, PATTERN, SAFETY, CommandLine
from winnow.cli.out import complain, fields_of, picked, tell_notes, version_keys
from winnow.errors import CorruptLogError, UsageError, WinnowError
from winnow.logdir.topic_globs import is_wanted
from winnow.start.words import starts_to_json
from winnow.words import counted, size

if TYPE_CHECKING:
    from winnow.verbs.erase.values import EraseResult


NONE_FOUND = (
    "no record has any of the keys: nothing had to be erased. Is the quoting right? A key that "
    "is a JSON string has its quotes in it, a blank at its end counts, and a number may be binary: "
    "`inspect --records` shows keys as they are"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseOptions:
    key: Sequence[str] = OTHER.several(
        "A key as UTF-8 text, hex:6B6579 or base64:a2V5; text: before a key that begins like that. "
        "Repeatable. The shell's history and `ps` show it; --keys does not.",
        KEY,
    )
    keys: str | None = OTHER.option("The keys: one per line, as UTF-8 text.", "FILE")
    keys_hex: str | None = OTHER.option("The same, each in hexadecimal.", "FILE")
    keys_delta: str | None = OTHER.option("A Delta table with the keys in its column `key`.", "URL")
    search_values: Sequence[str] = OTHER.several(
        "Also count the records with other keys that have this text, or hex:6B6579 or base64:a2V5, "
        "in their key, value or headers; __consumer_offsets is searched, too. Nothing more is "
        "erased. Repeatable. The shell's history and `ps` show it.",
        PATTERN,
    )
    certificate: str | None = OTHER.option(
        "Write a certificate there that others can check: HTML, JSON and its hash key.",
        "DIRECTORY",
    )
    dry_run: bool = SAFETY.switch(
        "Only count, and show the replicas on all brokers in the order of work; change nothing."
    )


def run_erase(call: Call, own: EraseOptions) -> int:
    request, certificate = call.request, own.certificate
    stop = stop_of(request)
    settings = parse_settings(request, stop)
    check_log_dirs(request.log_dirs)
    from winnow.cli.line.keys import given_keys  # noqa: PLC0415 - it loads Arrow

    keys = given_keys(own)
    patterns = _patterns(own.search_values)
    if certificate is not None and own.dry_run:
        raise UsageError(
            "--certificate and --dry-run together",
            expected="one of them: a dry run erases nothing",
        )
    if certificate is not None:
        from winnow.report.certificate import check_place  # noqa: PLC0415 - it loads Jinja

        check_place(certificate, request.log_dirs)
    ledger = ledger_of(request)
    with call.spark(sql=True) as spark, call.signals.ask(stop):
        from winnow import api  # noqa: PLC0415 - it loads numba
        from winnow.cli.text.erase import page  # noqa: PLC0415 - likewise
        from winnow.cli.text.replicas import replicas_section  # noqa: PLC0415 - likewise

        if patterns:
            _tell_cost(request)
        with call.progress() as progress:
            result = api.erase(
                spark,
                list(request.log_dirs),
                keys=keys(spark),
                settings=settings,
                topics=tuple(request.topics),
                search_values=patterns,
                dry_run=own.dry_run,
                ledger=ledger,
                certificate=certificate,
                progress=progress,
                stop=stop,
            )
        tell_notes(result.notes)
        if result.exit_code == UsageError.exit_code:
            complain(NONE_FOUND)
        call.answer(
            lambda: to_json(result, request), page(result, replicas_section(result, request))
        )
    if certificate is not None and result.exit_code in (0, CorruptLogError.exit_code):
        written = result.certificate
        if written is None or Path(written).parent != Path(certificate).resolve():
            return call.signals.exit_code(WinnowError.exit_code)
    return call.signals.exit_code(result.exit_code)


def _patterns(texts: Sequence[str]) -> Sequence[bytes]:
    if not texts:
        return ()
    from winnow.verbs.erase.patterns import different_patterns  # noqa: PLC0415 - it loads numba

    return different_patterns([parse_bytes(text, option="--search-values") for text in texts])


def _tell_cost(request: CommandLine) -> None:
    """Say what a search for patterns costs, before it begins."""
    from winnow.storage.places import Places  # noqa: PLC0415 - it loads http
    from winnow.verbs.erase.patterns import bytes_to_search  # noqa: PLC0415 - it loads numba

    wants = partial(is_wanted, globs=request.topics)
    partitions, stored = bytes_to_search(Places(), request.log_dirs, wants)
    complain(
        f"note: --search-values reads and decompresses all of {counted(partitions, 'partition')}, "
        f"{size(stored)} as stored"
    )


def to_json(result: EraseResult, request: CommandLine) -> dict[str, Any]:
    from winnow.cli.text import replicas  # noqa: PLC0415 - it loads Jinja

    search = result.patterns
    return {
        **picked(result, "run_id", "status", "dry_run", "proven", "why_not_proven"),
        **picked(result, "keys", "keys_found"),
        "partitions": [
            picked(partition, "searched") | fields_of(partition, "error_code")
            for partition in result.partitions
        ],
        **picked(result, "not_searched", "notes", "ledger"),
        **picked(result, "certificate", "certificate_sha256", "hash_key"),
        **version_keys(result.kafka),
        "starts": starts_to_json(result.starts),
        "replicas": replicas.to_json(result, request),
        "patterns": None if search is None else fields_of(search) | fields_of(search.total),
    }
