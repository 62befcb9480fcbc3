"""A node whose metadata log has the voters of its quorum (KIP-853): a voter is a node together with
the `directory.id` of its metadata log.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fixtures.data import copy_tree
from tests.kafka.judge.broker import CLUSTER_ID, Broker
from winnow.cleaning.plan.settings import with_metadata
from winnow.logdir.survey import survey_log_dirs
from winnow.policy.server_properties import parse_server_properties
from winnow.policy.sources import Settings
from winnow.start.broker import expected_starts
from winnow.start.values import BrokerStart, Fate
from winnow.storage.places import Places

pytestmark = pytest.mark.slow

GIVES_UP_SECONDS = 60
SETTINGS = {"initial.broker.registration.timeout.ms": "15000"}


class Standalone(Broker):
    """The only voter of its quorum, as `kafka-storage format --standalone` makes it."""

    def _format(self, properties: Path) -> None:
        self._tool(
            "kafka.tools.StorageTool",
            *("format", "-t", CLUSTER_ID, "-c", str(properties), "--standalone"),
            version=self._version,
        )

    def _identity(self) -> dict[str, str]:
        named = super()._identity()
        _, _, controller = named.pop("controller.quorum.voters").partition("@")
        return named | {"controller.quorum.bootstrap.servers": controller}


def other_id(text: str) -> str:
    return re.sub(r"directory\.id=.*", "directory.id=Zm9vYmFyYmF6cXV4MTIzNA", text)


def without_id(text: str) -> str:
    return re.sub(r"directory\.id=.*\n?", "", text)


def start_of(broker: Broker, *, with_properties: bool) -> BrokerStart:
    text = "".join(f"{key}={value}\n" for key, value in broker.properties.items())
    settings = Settings(server_properties=parse_server_properties(text) if with_properties else ())
    log_dirs = survey_log_dirs(Places(), [str(broker.log_dir)])
    settings, _ = with_metadata(settings, Places(), log_dirs)
    [start] = expected_starts(None, log_dirs, settings, now=0)
    return start


@pytest.mark.parametrize("change", [other_id, without_id])
def test_sole_voter_with_another_directory_id_never_starts(
    change: Callable[[str], str], tmp_path: Path
) -> None:
    with Standalone(tmp_path / "sound", home=tmp_path / "home", settings=SETTINGS) as broker:
        broker.create_topic("t")
    assert start_of(broker, with_properties=True).fate is Fate.LOADS
    copy_tree(broker.log_dir, tmp_path / "changed")
    changed = Standalone(tmp_path / "changed", home=tmp_path / "second", settings=SETTINGS)
    meta = changed.log_dir / "meta.properties"
    meta.write_text(change(meta.read_text()))
    for with_properties in (True, False):
        start = start_of(changed, with_properties=with_properties)
        assert start.fate is Fate.STOPS
        assert "is the only voter, so no leader is ever elected" in " ".join(start.reasons)
    changed.launch()
    try:
        assert changed.wait_until_dead(timeout_seconds=GIVES_UP_SECONDS) != 0
    finally:
        changed.kill()
    assert not changed.started
