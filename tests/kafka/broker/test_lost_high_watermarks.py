"""What Winnow advises after a loss of the high watermarks: a real broker that leads partitions
alone raises each to the log end when it starts, and writes them when it stops.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.data import copy_log_dir
from tests.kafka.broker.test_kafka_log import AS_IT_IS
from tests.kafka.judge.broker import Broker
from tests.spark.runs import checkpoint
from winnow.logdir.names import HIGH_WATERMARK_CHECKPOINT

NAMES = ["c-tomb-0", "d-time-0", "d-size-0"]


@pytest.mark.parametrize("content", [None, "", "0\n0\n", "0\n1\nd-time 0 0\n"])
def test_broker_that_is_alone_raises_lost_high_watermarks_to_the_log_end(
    tmp_path: Path, content: str | None
) -> None:
    log_dir = copy_log_dir("clean", tmp_path / "log-dir")
    file = log_dir / HIGH_WATERMARK_CHECKPOINT
    before = {name: end for name, end in checkpoint(file).items() if name in NAMES}
    if content is None:
        file.unlink()
    else:
        file.write_text(content)
    with Broker(log_dir, home=tmp_path / "broker", settings=AS_IT_IS) as broker:
        ends = {name: found.end for name, found in broker.consume("read_uncommitted").items()}
    after = checkpoint(file)
    assert {name: after[name] for name in NAMES} == before
    assert {name: ends[name] for name in NAMES} == before
