import pickle
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from winnow.runtime.meter import StageCounts, metered, metering
from winnow.runtime.profile import _Sums
from winnow.runtime.throttle import in_task
from winnow.storage.io_counters import MOVED
from winnow.storage.local import LocalStorage
from winnow.storage.segment_io import SegmentWriter, map_range


class Heard:
    def add(self, term: StageCounts) -> None:
        raise AssertionError(term)  # no stage without Spark


def doubled(items: Iterable[int]) -> Iterator[int]:
    return (2 * item for item in items)


def test_without_a_meter_functions_are_unchanged() -> None:
    assert metered(doubled) is doubled
    plain = pickle.dumps(in_task(doubled))
    with metering(Heard()):
        assert len(pickle.dumps(in_task(doubled))) > len(plain)
        assert metered(doubled) is not doubled
    assert metered(doubled) is doubled
    assert pickle.dumps(in_task(doubled)) == plain


def test_metered_function_gives_the_same_results() -> None:
    with metering(Heard()):
        assert list(metered(doubled)([1, 2])) == [2, 4]
        assert list(in_task(partial(map, abs))([-1])) == [1]


def test_counts_are_added_per_stage() -> None:
    added = _Sums().addInPlace
    one = {1: Counter(read=1, files=2), 2: Counter(read=10, written=20)}
    assert added(one, {2: Counter(read=1, written=1), 3: Counter(read=7)}) == {
        1: Counter(read=1, files=2),
        2: Counter(read=11, written=21),
        3: Counter(read=7),
    }
    assert added({}, one) == added(one, {}) == one


def test_bytes_read_mapped_and_written_are_counted(tmp_path: Path) -> None:
    read, written = MOVED["read"], MOVED["written"]
    path = str(tmp_path / "a")
    with SegmentWriter(path) as writer:
        writer.write(np.zeros(5000, np.uint8))
        writer.write(b"abc")
    assert (MOVED["read"] - read, MOVED["written"] - written) == (0, 5003)
    with map_range(path, 100, 5003) as data:
        del data
    assert LocalStorage().read_range(path, 5000, 100) == b"abc"
    assert len(LocalStorage().read_bytes(path)) == 5003
    LocalStorage().create(f"{path}.index", b"1234")
    assert (MOVED["read"] - read, MOVED["written"] - written) == (4903 + 3 + 5003, 5003 + 4)
