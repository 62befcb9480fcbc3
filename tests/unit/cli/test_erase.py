from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.results import in_json
from winnow.cli.erase import to_json
from winnow.cli.line.keys import read_hex_keys, read_keys
from winnow.cli.line.units import parse_bytes
from winnow.cli.main import run
from winnow.cli.options import CommandLine
from winnow.cli.text.erase import page
from winnow.errors import NoSpaceError, UsageError, VerificationError
from winnow.verbs.erase.values import Amount, EraseResult, PartitionErasure, Proof

FINE = PartitionErasure(
    topic="t",
    partition=0,
    log_dir="/kafka",
    closed=Amount(3, 300),
    above_high_watermark=Amount(),
    active=Amount(),
    erased=Amount(3, 300),
    segments=5,
    segments_with_matches=2,
    bytes_before=10_000,
    bytes_after=9_000,
    proof=Proof(0, 0, 0),
)


def changed(**fields: object) -> PartitionErasure:
    told = {name: getattr(FINE, name) for name in FINE.__slots__}
    return PartitionErasure(**(told | fields))


def result(*partitions: PartitionErasure, dry_run: bool = False) -> EraseResult:
    return EraseResult(run_id="r", dry_run=dry_run, keys=2, keys_found=1, partitions=partitions)


@pytest.mark.parametrize(
    ("partition", "status", "code"),
    [
        (FINE, "done", 0),
        (changed(active=Amount(1, 10)), "partial", 3),
        (changed(above_high_watermark=Amount(1, 10)), "partial", 3),
        (changed(copies=("/kafka/t-0/.winnow-kept-r",)), "partial", 3),
        (changed(why_left_alone="tiered"), "partial", 3),
        (changed(remote=True), "partial", 3),
        (changed(error="full", error_code=NoSpaceError.exit_code), "partial", 6),
        (changed(error="bad", error_code=VerificationError.exit_code), "partial", 4),
        (changed(proof=Proof(1, 0, 0)), "failed", 4),
        (changed(proof=Proof(0, 0, 1)), "failed", 4),
    ],
)
def test_status_and_exit_code_depend_on_what_is_left_in_a_partition(
    partition: PartitionErasure, status: str, code: int
) -> None:
    for whole in (result(partition), result(FINE, partition)):
        assert (whole.status, whole.exit_code) == (status, code)


def test_proof_is_limited_to_the_disk_with_remote_storage() -> None:
    text = "\n".join(page(result(FINE, changed(partition=1, remote=True))))
    assert (
        "t-1: remote.storage.enable: remote storage may hold segments too; it was not searched"
        in text
    )
    assert "found none of the keys in rewritable segments on this disk" in text
    assert "on this disk" not in "\n".join(page(result(FINE)))


def test_nothing_is_proven_without_a_second_read() -> None:
    assert result(changed(proof=None)).proven is None
    assert "Proven" not in "\n".join(
        page(result(changed(proof=None, erased=None, bytes_after=None), dry_run=True))
    )


UNSEARCHED = changed(
    topic="u", closed=None, erased=None, active=None, proof=None, error="can't be read"
)


@pytest.mark.parametrize(
    "other",
    [
        UNSEARCHED,
        changed(topic="u", closed=None, proof=None, why_left_alone="remote.storage.enable"),
        changed(topic="u", copies=("/kafka/u-0/.winnow-kept-r",)),
        changed(topic="u", proof=None, error="no space", error_code=NoSpaceError.exit_code),
    ],
)
def test_nothing_is_proven_unless_everything_was_searched_and_erased(
    other: PartitionErasure,
) -> None:
    whole = result(FINE, other)
    assert whole.proven is None
    assert (
        in_json(to_json(whole, CommandLine()))["why_not_proven"] == whole.why_not_proven is not None
    )
    told = [*page(whole)]
    assert f"NOT PROVEN: {whole.why_not_proven}" in told
    assert not any(line.startswith("Proven") for line in told)


def test_directory_that_was_not_searched_proves_nothing() -> None:
    whole = EraseResult(
        run_id="r",
        dry_run=False,
        keys=2,
        keys_found=1,
        partitions=(FINE,),
        not_searched=("/kafka/t-1.0-stray: a replica",),
    )
    assert (whole.proven, whole.exit_code) == (None, 3)
    assert "NOT PROVEN: not everything was searched, and what was not may hold the keys" in [
        *page(whole)
    ]


def test_partition_that_was_not_searched_is_not_counted_as_searched() -> None:
    for dry_run in (False, True):
        told = [*page(result(FINE, UNSEARCHED, dry_run=dry_run))]
        assert "2 keys, 1 of them found" in told
        assert (
            "searched 1 of 2 partitions; u-0 (9.8 KiB) was NOT searched and may hold the keys"
            in told
        )


def test_text_lists_partitions_active_segments_and_failed_proofs() -> None:
    told = [
        *page(
            result(
                FINE,
                changed(topic="u", active=Amount(4, 40)),
                changed(topic="v", proof=Proof(7, 0, 2)),
            )
        )
    ]
    assert told[1].split() == ["t-0", "3", "2", "of", "5", "9.8", "KiB", "8.8", "KiB", "0"]
    assert any(line.startswith("u-0: 4 records in the active segment") for line in told)
    assert (
        "v-0: NOT PROVEN: the second reading found 7 records and 2 places that can't be read"
        in told
    )
    assert not any(line.startswith("Proven") for line in told)
    assert any(line.startswith("Proven") for line in page(result(FINE)))


def test_json_lists_erased_records_without_error_code() -> None:
    (partition,) = in_json(to_json(result(FINE), CommandLine()))["partitions"]
    assert partition["erased"]["records"]
    assert "error_code" not in partition


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_keys_file_has_one_key_per_line(end: bytes, tmp_path: Path) -> None:
    (tmp_path / "keys").write_bytes(b"a\r\nb c \n\xc3\xa4" + end)
    assert read_keys(str(tmp_path / "keys")).to_pylist() == [
        b"a",
        b"b c ",
        b"\xc3\xa4",
    ]
    (tmp_path / "keys").write_bytes(b"00fF\n61" + end)
    assert read_hex_keys(str(tmp_path / "keys")).to_pylist() == [
        b"\0\xff",
        b"a",
    ]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"a\n\nb\n", "line 2"),
        (b"\r\n", "line 1"),
        (b"a\xff\n", "not UTF-8"),
        (b"\xef\xbb\xbfa\n", "byte order mark"),
    ],
)
def test_malformed_keys_file_is_refused(data: bytes, problem: str, tmp_path: Path) -> None:
    (tmp_path / "keys").write_bytes(data)
    with pytest.raises(UsageError, match=problem):
        read_keys(str(tmp_path / "keys"))
    with pytest.raises(UsageError):
        read_hex_keys(str(tmp_path / "keys"))


def test_missing_keys_file_and_empty_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can't read the file of --keys"):
        read_keys(str(tmp_path / "none"))
    (tmp_path / "empty").touch()
    with pytest.raises(UsageError, match="the file of --keys is empty"):
        read_keys(str(tmp_path / "empty"))


def test_typed_keys_are_text_unless_a_prefix_says_otherwise() -> None:
    typed = ["k17", "hex:6B31", "base64:azE=", "text:hex:6B31", "user:17", "K\u00f6ln"]
    assert [parse_bytes(text, option="--key") for text in typed] == [
        b"k17",
        b"k1",
        b"k1",
        b"hex:6B31",
        b"user:17",
        "K\u00f6ln".encode(),
    ]


@pytest.mark.parametrize(
    "typed", ["", "text:", "hex:", "hex:6", "hex:k1", "base64:k", "base64:az E=", "a\udcff"]
)
def test_typed_key_that_cant_be_read_is_refused_without_showing_it(typed: str) -> None:
    with pytest.raises(UsageError) as told:
        parse_bytes(typed, option="--key")
    rest = typed.partition(":")[2]
    assert "--key" in str(told.value)
    assert len(rest) < 4 or rest not in str(told.value)


def test_patterns_that_are_too_long_are_refused_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    given = ["erase", str(tmp_path), "--key", "k", "--dry-run", "--search-values", "x" * 5000]
    assert run(given) == UsageError.exit_code
    told = capsys.readouterr().err
    assert "expected at most 4096 bytes together, found 5000 bytes" in told
    assert "Spark" not in told
    assert "note:" not in told
