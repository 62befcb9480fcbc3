"""Which dynamic settings of brokers count, and what is said where nobody knows them."""

from __future__ import annotations

from winnow.policy.describe import parse_topic_configs
from winnow.policy.server_properties import parse_server_properties
from winnow.policy.sources import Settings


def test_unknown_dynamic_settings_of_brokers_are_noted() -> None:
    """Those of ZooKeeper are in no file of the log directory."""
    server = parse_server_properties("log.retention.ms=1")
    entry = "retention.ms=1 sensitive=false synonyms={STATIC_BROKER_CONFIG:log.retention.ms=1}"
    for text, noted in (
        ("t cleanup.policy=delete", True),
        ("Dynamic configs for topic t are:", True),
        ("Default configs for brokers in the cluster are:", False),
        ("Configs for default brokers are ", False),
        ("Configs for brokers '1' are log.retention.ms=2", False),
        (f"All configs for topic t are:\n  {entry}", False),
    ):
        configs = parse_topic_configs(text)
        settings = Settings(server_properties=server, topic_configs=configs)
        assert any("dynamic settings of brokers" in note for note in settings.notes()) == noted
        assert Settings(topic_configs=configs).notes() == ()
