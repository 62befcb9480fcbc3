"""The verb `erase`: read the keys, and show what was erased and the proof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from winnow.cli.call import Call
from winnow.cli.inputs import check_log_dirs, ledger_of, parse_settings, stop_of
from winnow.cli.options import KEY, OTHER, SAFETY
from winnow.cli.out import complain, fields_of, picked, tell_notes, version_keys
from winnow.errors import CorruptLogError, UsageError, WinnowError
from winnow.start.words import starts_to_json

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
    certificate: str | None = OTHER.option(
        "Write a certificate there that others can check: HTML, JSON and its hash key.",
        "DIRECTORY",
    )
    dry_run: bool = SAFETY.switch("Only count; change nothing.")


def run_erase(call: Call, own: EraseOptions) -> int:
    request, certificate = call.request, own.certificate
    stop = stop_of(request)
    settings = parse_settings(request, stop)
    check_log_dirs(request.log_dirs)
    from winnow.cli.line.keys import given_keys  # noqa: PLC0415 - it loads Arrow

    keys = given_keys(own)
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

        with call.progress() as progress:
            result = api.erase(
                spark,
                list(request.log_dirs),
                keys=keys(spark),
                settings=settings,
                topics=tuple(request.topics),
                dry_run=own.dry_run,
                ledger=ledger,
                certificate=certificate,
                progress=progress,
                stop=stop,
            )
        tell_notes(result.notes)
        if result.exit_code == UsageError.exit_code:
            complain(NONE_FOUND)
        call.answer(lambda: to_json(result), page(result))
    if certificate is not None and result.exit_code in (0, CorruptLogError.exit_code):
        written = result.certificate
        if written is None or Path(written).parent != Path(certificate).resolve():
            return call.signals.exit_code(WinnowError.exit_code)
    return call.signals.exit_code(result.exit_code)


def to_json(result: EraseResult) -> dict[str, Any]:
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
    }
