"""A small metadata log can't fill the memory: what is decompressed and what is kept have limits."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.twins.encoding import encode_batch
from tests.unit.logdir.metadata_logs import (
    COMPACT,
    FOOTER,
    HEADER,
    LEADER_CHANGE,
    batch,
    control,
    log,
    overrides,
    read,
    segment,
    snapshot,
)
from tests.unit.wire.metadata_values import begin, config, framed, partition, replicas_of, topic
from winnow.errors import CorruptLogError
from winnow.logdir import metadata_image, metadata_log
from winnow.logdir.metadata import read_cluster_metadata
from winnow.policy.sources import Settings
from winnow.start.metadata_log import own_metadata_log
from winnow.start.nodes.quorum import Quorum
from winnow.start.values import Fate
from winnow.storage.local import LocalStorage
from winnow.wire.batch import Codec
from winnow.wire.plain import Record

MIB = 2**20
PRODUCER_IDS = 15
LARGE = framed(PRODUCER_IDS, bytes(15 * MIB))
"""A record of a kind that says nothing about topics or settings."""

OWN_PATHS = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
PEAK = """
import resource, sys
from pathlib import Path
from tests.unit.logdir.metadata_logs import of_log, read
from tests.unit.wire.metadata_values import topic
from winnow.errors import CorruptLogError
from winnow.wire.batch import Codec
import winnow.wire.inflate
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
before = peak()
try:
    read(Path(sys.argv[1]))
except CorruptLogError as error:
    print(peak() - before, error)
"""


def repeated(batch_at_1: bytes, count: int) -> list[bytes]:
    """Return copies of a batch with one record at the offsets from 1 on. No CRC covers them."""
    return [struct.pack(">q", 1 + number) + batch_at_1[8:] for number in range(count)]


def test_115_kb_of_compressed_batches_take_little_memory(tmp_path: Path) -> None:
    """200 batches of 15 MiB: with all of their values in a list, that was 3 GiB."""
    one = batch(1, LARGE, codec=Codec.ZSTD)
    assert len(one) < 600
    log_file = segment(tmp_path, 0, control(0, LEADER_CHANGE), *repeated(one, 200))
    assert log_file.stat().st_size < 115_000
    command = [sys.executable, "-c", PEAK, str(tmp_path)]
    grown, message = subprocess.check_output(command, env=OWN_PATHS, text=True).split(maxsplit=1)
    assert int(grown) < 160
    assert "the compressed batches of a metadata log are too large" in message
    assert "at most 67108864 decompressed bytes in all" in message
    assert "--topic-configs FILE" in message


def test_start_of_a_broker_on_such_a_log_is_not_predicted(tmp_path: Path) -> None:
    """A broker has no such limits."""
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    large = batch(1, LARGE, codec=Codec.ZSTD)
    segment(directory, 0, control(0, LEADER_CHANGE), *repeated(large, 5))
    found = own_metadata_log(
        LocalStorage(), str(tmp_path), Quorum(1, frozenset({1})), kafka=Settings().kafka, now=0
    )
    assert found.fate is Fate.UNKNOWN
    assert "compressed batches of a metadata log are too large" in found.reason


def test_large_records_of_other_kinds_are_not_kept(tmp_path: Path) -> None:
    log(tmp_path, topic("t"), LARGE, LARGE, COMPACT, codec=Codec.ZSTD)
    assert overrides(read(tmp_path)) == {"t": {"cleanup.policy": "compact"}}


def test_snapshots_and_the_log_share_one_limit(tmp_path: Path) -> None:
    large = batch(2, LARGE, codec=Codec.ZSTD)
    # No record has headers, so the next older one is read.
    wrong = encode_batch([Record(3, 0, None, COMPACT, ((b"h", None),))], leader_epoch=1)
    for offset in range(2, 7):
        batches = [control(0, HEADER, 5), large, wrong, control(4, FOOTER)]
        snapshot(tmp_path, offset, batches=batches)
    log(tmp_path, *[LARGE] * 3, codec=Codec.ZSTD)
    with pytest.raises(CorruptLogError, match="compressed batches of a metadata log"):
        read(tmp_path)


def test_batch_larger_than_a_controller_writes_is_refused(tmp_path: Path) -> None:
    log(tmp_path, topic("t"), framed(PRODUCER_IDS, bytes(17 * MIB)))
    with pytest.raises(CorruptLogError, match=r"too large: expected at most 16777216 bytes"):
        read(tmp_path)


def test_record_with_headers_is_refused_as_kafka_does(tmp_path: Path) -> None:

    record = Record(1, 0, None, topic("t"), headers=((b"a", None),))
    segment(tmp_path, 0, control(0, LEADER_CHANGE), encode_batch([record], leader_epoch=1))
    with pytest.raises(CorruptLogError, match=r"expected no headers, found 1 .*\.log at byte \d+"):
        read(tmp_path)


def test_large_topic_record_is_refused(tmp_path: Path) -> None:
    log(tmp_path, topic("t"), replicas_of(0, *range(300_000)))
    with pytest.raises(CorruptLogError, match=r"too large: expected at most 1048576 bytes"):
        read(tmp_path)


@pytest.mark.parametrize(
    "values",
    [
        [topic(f"t{n}", struct.pack(">QQ", 1, n)) for n in range(30)],
        [topic("t"), *(partition(n) for n in range(60))],
        [topic("t"), *(replicas_of(n, n, n + 1, n + 2) for n in range(30))],
        [topic("t"), *(config("t", f"s{n}", "x") for n in range(60))],
        [topic("t"), begin(), *(partition(n) for n in range(60))],
    ],
    ids=["topics", "partitions", "replicas", "settings", "a transaction"],
)
def test_what_is_kept_has_a_limit(
    tmp_path: Path, values: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    log(tmp_path, *values)
    assert read(tmp_path).topics
    monkeypatch.setattr(metadata_image, "_MAX_STATE_BYTES", 20_000)
    with pytest.raises(CorruptLogError, match="at most 20000 bytes of memory in all") as raised:
        read(tmp_path)
    assert re.search(r"\(.*\.log at byte \d+\)", str(raised.value))


def test_changing_a_setting_again_and_again_takes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = [config("t", "retention.ms", str(n) if n % 3 else None) for n in range(100)]
    log(tmp_path, topic("t"), partition(0), *[replicas_of(0, 1, 2)] * 100, *changes)
    monkeypatch.setattr(metadata_image, "_MAX_STATE_BYTES", 20_000)
    assert read(tmp_path).topics["t"].replicas == {0: {1, 2}}


def test_small_records_of_compressed_batches_are_limited_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million of them fit into 2 MB of file, and take half a minute."""
    monkeypatch.setattr(metadata_log, "_MAX_DECOMPRESSED_BYTES", 100_000)
    small = batch(1, topic("t"), *[framed(PRODUCER_IDS, b"")] * 999, codec=Codec.ZSTD)
    segment(tmp_path, 0, control(0, LEADER_CHANGE), small)
    assert set(read(tmp_path).topics) == {"t"}
    segment(tmp_path, 0, control(0, LEADER_CHANGE), small, struct.pack(">q", 1001) + small[8:])
    with pytest.raises(CorruptLogError, match="compressed batches of a metadata log"):
        read(tmp_path)


def test_many_unknown_kinds_make_one_note(tmp_path: Path) -> None:
    unknown = [framed(1000 + n, b"") for n in range(500)]
    segment(tmp_path, 0, control(0, LEADER_CHANGE), batch(1, topic("t"), *unknown))
    notes = read(tmp_path).notes
    assert list(notes) == [
        (
            "__cluster_metadata-0 has at least 100 kinds of records that are newer than this "
            "Winnow, such as a record of kind 1000: they are read as far as they are known"
        )
    ]


def test_many_unusable_snapshots_make_one_note(tmp_path: Path) -> None:
    log(tmp_path, topic("t"), COMPACT)
    for end in range(100, 300):
        (tmp_path / f"{end:020d}-0000000001.checkpoint").write_bytes(b"x")
    found = read(tmp_path)
    assert overrides(found) == {"t": {"cleanup.policy": "compact"}}
    [note] = found.notes
    assert f"{299:020d}-0000000001.checkpoint" in note
    assert ", and so are 9 older ones; an older snapshot or the log is read instead" in note


def test_no_record_of_a_snapshot_without_a_footer_is_read(
    tmp_path: Path,
) -> None:
    """Not even of many: hard links make a file of many records appear as many snapshots."""
    log(tmp_path, topic("t"))
    cut = snapshot(tmp_path, 50, batches=[control(0, HEADER), batch(1, topic("t"), COMPACT)])
    for end in range(51, 55):
        os.link(cut, tmp_path / f"{end:020d}-0000000001.checkpoint")
    seen: list[int] = []
    read_cluster_metadata(
        LocalStorage(), str(tmp_path), see=lambda value: seen.append(value.offset)
    )
    assert seen == [0, 1]
