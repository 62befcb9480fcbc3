"""The verb `verify`: a sweep, a comparison of replicas (`--compare`), or a search for erased keys
(`--key-hash`). Shows findings as a table or as one JSON object.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from winnow.cli.call import Call
from winnow.cli.inputs import check_log_dirs, key_summaries_of, ledger_of
from winnow.cli.options import OTHER, CommandLine
from winnow.cli.out import page_width, tell_notes
from winnow.cli.text import compare as text_of_compare
from winnow.cli.text import key_hashes as text_of_hashes
from winnow.cli.text import verify as text_of_sweep
from winnow.errors import UsageError, WinnowError

if TYPE_CHECKING:
    from winnow.runtime.progress import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    """The options that only `verify` has. By default everything is read."""

    compare: bool = OTHER.switch(
        "Compare the replicas in directories of several brokers with each other."
    )
    key_hash: str | None = OTHER.option(
        "Only look for erased keys, by their hashes: the certificate of an erasure, or its run in "
        "the ledger.",
        "FILE|RUN_ID",
    )
    hash_key: str | None = OTHER.option(
        "The hash key of that erasure. Default: the file beside the certificate.", "FILE"
    )


def run_verify(call: Call, check: VerifyOptions) -> int:
    check_log_dirs(call.request.log_dirs)
    if check.compare and check.key_hash is not None:
        raise UsageError("--compare and --key-hash together", expected="one of them, or neither")
    if check.hash_key is not None and check.key_hash is None:
        raise UsageError("--hash-key alone", expected="--key-hash FILE|RUN_ID with it")
    with call.spark(sql=check.key_hash is not None) as spark:
        with call.progress() as progress:
            text, result = _read(spark, call.request, check, progress)
        tell_notes(result.notes)
        call.answer(lambda: text.to_json(result), text.page(result, page_width()))
    return int(result.exit_code)


def _read(
    spark: Any,  # noqa: ANN401
    request: CommandLine,
    check: VerifyOptions,
    progress: Progress,
) -> tuple[Any, Any]:
    """Return the module that shows the result, and the result."""
    from winnow import api  # noqa: PLC0415 - it loads numba

    shared: Any = {"topics": request.topics, "progress": progress}
    if check.key_hash is not None:
        return text_of_hashes, api.verify_key_hashes(
            spark,
            request.log_dirs,
            key_hash=check.key_hash,
            hash_key=check.hash_key,
            ledger=ledger_of(request),
            **shared,
        )
    if check.compare:
        return text_of_compare, api.compare_replicas(spark, request.log_dirs, **shared)
    swept = api.verify(spark, request.log_dirs, **shared)
    if not swept.findings:
        _learn(spark, request, progress)
    return text_of_sweep, swept


def _learn(spark: Any, request: CommandLine, progress: Progress) -> None:  # noqa: ANN401
    """Sum up what is sound, for later cleanings."""
    from winnow.cleaning.learn import learn_segments  # noqa: PLC0415 - it loads numba
    from winnow.storage.places import Places  # noqa: PLC0415
    from winnow.verbs.verify.directories import find_log_dirs  # noqa: PLC0415

    summaries = key_summaries_of(request, ledger_of(request))
    if summaries is None:
        return
    with suppress(WinnowError):  # a directory that can only be verified
        learn_segments(
            spark.sparkContext,
            find_log_dirs(Places(), request.log_dirs)[0],
            topics=request.topics,
            key_summaries=summaries,
            progress=progress,
        )
