"""A node that is only a controller starts on a directory on which a broker would not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafka.judge.broker import Broker
from winnow.logdir.survey import survey_log_dirs
from winnow.policy.sources import Settings
from winnow.start.broker import expected_starts
from winnow.start.values import Fate
from winnow.storage.places import Places


class _Controller(Broker):
    def _identity(self) -> dict[str, str]:
        own = f"127.0.0.1:{self._controller_port}"
        return super()._identity() | {
            "process.roles": "controller",
            "listeners": f"CONTROLLER://{own}",
            "advertised.listeners": f"CONTROLLER://{own}",
        }


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.9.2", "4.3.1", "4.4.0"])
def test_controller_starts_beside_entries_that_it_does_not_look_at(
    tmp_path: Path, version: str
) -> None:
    log_dir = tmp_path / "controller"
    controller = _Controller(log_dir, home=tmp_path / "home", version=version)
    with controller:
        pass
    assert not (log_dir / ".kafka_cleanshutdown").exists()
    (log_dir / "lost+found").mkdir()
    (log_dir / "notes").touch()
    log_dirs = survey_log_dirs(Places(), [str(log_dir)])
    [start] = expected_starts(None, log_dirs, Settings(), now=1_800_000_000_000)
    assert (start.is_controller, start.fate) == (True, Fate.LOADS)
    with controller:
        assert controller.started
