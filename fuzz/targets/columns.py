"""Records as columns, as `kafka-log` reads them: kernels and twin see the same."""

from __future__ import annotations

from fuzz.targets.base import require
from tests.twins.records import records_plain
from winnow.wire.buffers import RecordBlocks
from winnow.wire.columns import ByteStrings, gathered, header_places, record_places


def check_columns(blocks: RecordBlocks, *, twins: bool) -> None:
    """Records that can be scanned can be gathered."""
    places = record_places(blocks)
    names, contents = header_places(blocks, places.headers)
    columns = [_strings(blocks, one) for one in (places.key, places.value, names, contents)]
    if not twins:
        return
    records = records_plain(blocks)
    headers = [header for record in records for header in record.headers]
    require(places.offset.tolist() == [record.offset for record in records], "offsets differ")
    require(
        places.timestamp.tolist() == [record.timestamp for record in records], "timestamps differ"
    )
    require(
        places.headers.size.tolist() == [len(record.headers) for record in records],
        "headers are counted differently",
    )
    require(columns[0] == [record.key for record in records], "keys differ")
    require(columns[1] == [record.value for record in records], "values differ")
    require(list(zip(*columns[2:], strict=True)) == headers, "headers differ")


def _strings(blocks: RecordBlocks, places: ByteStrings) -> list[bytes | None]:
    ends, data = gathered(blocks, places)
    at, whole = ends.tolist(), data.tobytes()
    found = zip(at[:-1], at[1:], places.size.tolist(), strict=True)
    return [whole[begin:end] if size >= 0 else None for begin, end, size in found]
