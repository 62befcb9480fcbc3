import pytest

from winnow.errors import CorruptLogError
from winnow.logdir.indexes.txnindex import (
    ENTRY,
    AbortedTransaction,
    decode_txn_index,
    encode_txn_index,
)

ENTRIES = (
    AbortedTransaction(producer_id=7, first_offset=100, last_offset=110, last_stable_offset=105),
    AbortedTransaction(producer_id=8, first_offset=105, last_offset=120, last_stable_offset=121),
)


def test_index_reads_back_as_written() -> None:
    data = encode_txn_index(ENTRIES)
    assert len(data) == 68
    assert decode_txn_index(data, "f", base_offset=100, end_offset=121) == ENTRIES


def test_layout_is_kafkas() -> None:
    assert encode_txn_index(ENTRIES[:1]).hex() == "0000" + "".join(
        f"{value:016x}" for value in (7, 100, 110, 105)
    )


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (encode_txn_index(ENTRIES)[:-1], "a multiple of 34 bytes"),
        (encode_txn_index(ENTRIES[::-1]), "a marker at offset 121 or above"),
        (encode_txn_index([ENTRIES[0], ENTRIES[0]]), "a marker at offset 111 or above"),
        (ENTRY.pack(1, 7, 100, 110, 105), "version 0"),
        (ENTRY.pack(0, -1, 100, 110, 105), "of at least 0"),
        (ENTRY.pack(0, 7, -1, 110, 105), "of at least 0"),
        (ENTRY.pack(0, 7, 111, 110, 105), "ends after it begins"),
        (ENTRY.pack(0, 7, 90, 99, 100), "a marker at offset 100 or above"),
        (ENTRY.pack(0, 7, 100, 130, 131), "a marker below offset 130"),
    ],
)
def test_malformed_index_is_refused(data: bytes, told: str) -> None:
    with pytest.raises(CorruptLogError, match=told):
        decode_txn_index(data, "t.txnindex", base_offset=100, end_offset=130)


def test_transaction_may_begin_in_an_earlier_segment() -> None:
    early = (AbortedTransaction(7, 3, 110, 111),)
    assert decode_txn_index(encode_txn_index(early), "t.txnindex", base_offset=100) == early
