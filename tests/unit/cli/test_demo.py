import tempfile
from pathlib import Path

import pytest

from winnow.cli import demo
from winnow.policy.config import TopicConfig
from winnow.policy.describe import parse_topic_configs
from winnow.policy.sources import Settings


@pytest.fixture(autouse=True)
def _unpacked_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_bundled_directory_unpacks_into_a_new_directory() -> None:
    first, second = demo.unpack(), demo.unpack()
    assert first != second
    assert (first / "meta.properties").is_file()
    assert (first / ".kafka_cleanshutdown").is_file()
    assert demo.bytes_on_disk(first) == demo.bytes_on_disk(second) > 0


def test_policy_of_every_bundled_topic_is_known() -> None:
    text = (demo.DATA / "topic-configs.txt").read_text(encoding="utf-8")
    settings = Settings(topic_configs=parse_topic_configs(text))
    topics = {path.name.rpartition("-")[0] for path in demo.unpack().iterdir() if path.is_dir()}
    unknown = [
        topic for topic in sorted(topics) if not isinstance(settings.resolve(topic), TopicConfig)
    ]
    assert topics
    assert unknown == []
