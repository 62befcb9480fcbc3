"""Recovery after a crash says which version's rules it used, on the screen and in JSON."""

from __future__ import annotations

from winnow.cli.recover import cut_lines, cuts_to_json
from winnow.policy.versions import ANY_VERSION
from winnow.recovery.logs.values import RecoveredDir, TruncateResult

RESULT = TruncateResult(
    run_id="r",
    truncated=True,
    log_dirs=(RecoveredDir(path="/kafka", logs=(), marked=True),),
    clean=(),
    kafka=ANY_VERSION,
)


def test_last_line_names_the_version() -> None:
    assert list(cut_lines(RESULT, "recover", changed_before=False))[-1] == f"By the {ANY_VERSION}."


def test_json_has_the_version_and_how_it_is_known() -> None:
    (value,) = cuts_to_json(RESULT)
    assert value["kafka_version"] == ANY_VERSION.versions
    assert value["kafka_version_source"] == ANY_VERSION.how
