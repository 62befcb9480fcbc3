"""Settings from the metadata log, combined with those that an operator gives (S9.1-S9.3,
case 98).
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping

import pytest

from winnow.policy.config import TopicConfig
from winnow.policy.describe import parse_topic_configs
from winnow.policy.keys import NOT_DYNAMIC
from winnow.policy.metadata import MetadataSettings, metadata_settings
from winnow.policy.server_properties import parse_server_properties
from winnow.policy.sources import Settings, Unknown, parse_set, parse_topic_set
from winnow.policy.versions import asked_version
from winnow.state import ALL_BROKERS, TopicIdentity

LOG = "__cluster_metadata-0 up to offset 99"
NO_PROPERTIES = parse_server_properties("")
COMPACTING = parse_server_properties("log.cleanup.policy=compact")


def texts(**values: str) -> dict[str, tuple[str, str]]:
    """Return `retention_ms="1"` as the setting retention.ms, at offsets 10, 11, ..."""
    return {
        key.replace("_", "."): (value, f"__cluster_metadata-0 offset {n}")
        for n, (key, value) in enumerate(values.items(), start=10)
    }


def metadata(
    topic: Mapping[str, tuple[str, str]] | None = None,
    *,
    brokers: Mapping[int, Mapping[str, tuple[str, str]]] | None = None,
    all_brokers: Mapping[str, tuple[str, str]] | None = None,
) -> MetadataSettings:
    """Return a log that knows only topic `t`."""
    return metadata_settings(
        log=LOG,
        topics={"t": TopicIdentity("ID", {0: frozenset({1, 2}), 1: frozenset()})},
        sections={
            ("topic", "t"): topic or {},
            **{("broker", str(node)): own for node, own in (brokers or {}).items()},
            ALL_BROKERS: all_brokers or {},
        },
    )


def known(settings: Settings, *, node_id: int | None = 1) -> TopicConfig:
    config = settings.resolve("t", node_id=node_id)
    assert isinstance(config, TopicConfig), config.reason
    return config


def unknown(settings: Settings, topic: str = "t") -> str:
    config = settings.resolve(topic, node_id=1)
    assert isinstance(config, Unknown)
    return config.reason


def test_own_settings_of_a_topic_need_no_properties_file() -> None:
    config = known(
        Settings(metadata=metadata(texts(cleanup_policy="compact", segment_bytes="2000000")))
    )
    assert (config.cleanup_policy, config.segment_bytes) == ("compact", 2_000_000)
    assert config.sources["cleanup.policy"] == "__cluster_metadata-0 offset 10"
    assert config.sources["segment.bytes"] == "__cluster_metadata-0 offset 11"
    assert (
        config.sources["min.cleanable.dirty.ratio"]
        == "Kafka's default, server.properties not given"
    )


def test_kafka_default_applies_if_the_properties_file_is_given() -> None:
    config = known(Settings(metadata=metadata(), server_properties=NO_PROPERTIES))
    assert (config.cleanup_policy, config.sources["cleanup.policy"]) == (
        "delete",
        "Kafka's default",
    )


def test_sources_override_each_other_in_kafkas_order() -> None:
    server = parse_server_properties("log.retention.ms=1", file="server.properties")
    described = "Default configs for brokers in the cluster are:\n  log.retention.ms=4\n"
    own = texts(retention_ms="7")
    all_brokers, brokers = (
        texts(log_retention_ms="2"),
        {1: texts(log_retention_ms="3"), 2: texts(log_retention_ms="9")},
    )
    weak = metadata(all_brokers=all_brokers)
    middle = metadata(all_brokers=all_brokers, brokers=brokers)
    strong = metadata(own, all_brokers=all_brokers, brokers=brokers)
    dump = parse_topic_configs(described)
    sets = [parse_set("log.retention.ms=5")]
    named = parse_topic_configs(described + "t retention.ms=8\n")
    topic_sets = [parse_topic_set("t:retention.ms=10")]
    for settings, value, source in (
        (
            Settings(server_properties=server, metadata=metadata()),
            1,
            "log.retention.ms, server.properties line 1",
        ),
        (
            Settings(server_properties=server, metadata=weak),
            2,
            "log.retention.ms, __cluster_metadata-0 offset 10 (all brokers)",
        ),
        (
            Settings(server_properties=server, metadata=middle),
            3,
            "log.retention.ms, __cluster_metadata-0 offset 10 (broker 1)",
        ),
        (
            Settings(server_properties=server, metadata=middle, topic_configs=dump),
            4,
            "log.retention.ms, --topic-configs line 2",
        ),
        (
            Settings(server_properties=server, metadata=middle, topic_configs=dump, sets=sets),
            5,
            "--set log.retention.ms=5",
        ),
        (
            Settings(server_properties=server, metadata=strong, topic_configs=dump, sets=sets),
            7,
            "__cluster_metadata-0 offset 10",
        ),
        (
            Settings(server_properties=server, metadata=strong, topic_configs=named, sets=sets),
            8,
            "--topic-configs line 3",
        ),
        (
            Settings(
                server_properties=server,
                metadata=strong,
                topic_configs=named,
                topic_sets=topic_sets,
            ),
            10,
            "--topic-set t:retention.ms=10",
        ),
    ):
        config = known(settings)
        assert (config.retention_ms, config.sources["retention.ms"]) == (value, source)


def test_broker_policy_is_unknown_without_its_properties_file() -> None:
    reason = unknown(Settings(metadata=metadata()))
    assert reason.startswith(
        "topic t has no cleanup.policy of its own, and its broker's server.properties was not given"
    )
    assert "Pass --server-properties FILE, or --set log.cleanup.policy=..." in reason


@pytest.mark.parametrize(
    ("settings", "policy"),
    [
        (Settings(metadata=metadata(), server_properties=COMPACTING), "compact"),
        (Settings(metadata=metadata(), sets=[parse_set("log.cleanup.policy=compact")]), "compact"),
        (Settings(metadata=metadata(all_brokers=texts(log_cleanup_policy="compact"))), "compact"),
        (Settings(metadata=metadata(brokers={1: texts(log_cleanup_policy="compact")})), "compact"),
        (
            Settings(metadata=metadata(), topic_sets=[parse_topic_set("t:cleanup.policy=compact")]),
            "compact",
        ),
        (
            Settings(
                metadata=metadata(), topic_configs=parse_topic_configs("t cleanup.policy=delete\nt "
                                                                       "retention.ms=1")
            ),
            "delete",
        ),
    ],
)  # fmt: skip
def test_policy_may_come_from_any_source(settings: Settings, policy: str) -> None:
    assert known(settings).cleanup_policy == policy


def test_policy_of_another_broker_is_ignored() -> None:
    assert "cleanup.policy" in unknown(
        Settings(metadata=metadata(brokers={2: texts(log_cleanup_policy="compact")}))
    )


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_retention_time_is_unknown_without_the_properties_file(policy: str) -> None:
    """Kafka's default of seven days would delete too much if the broker's file says a year."""
    own = texts(cleanup_policy=policy)
    assert unknown(Settings(metadata=metadata(own))).startswith(
        "topic t has no retention.ms of its own"
    )
    assert "retention.ms" in unknown(
        Settings(metadata=metadata(), sets=[parse_set(f"log.cleanup.policy={policy}")])
    )
    assert (
        known(Settings(metadata=metadata(own), server_properties=NO_PROPERTIES)).retention_ms
        == 604_800_000
    )
    assert (
        known(
            Settings(metadata=metadata(own), sets=[parse_set("log.retention.hours=1")])
        ).retention_ms
        == 3_600_000
    )
    assert (
        known(
            Settings(metadata=metadata(own, all_brokers=texts(log_retention_ms="5")))
        ).retention_ms
        == 5
    )
    assert (
        known(
            Settings(metadata=metadata(texts(cleanup_policy=policy, retention_ms="6")))
        ).retention_ms
        == 6
    )


@pytest.mark.parametrize(
    "settings",
    [
        Settings(metadata=metadata()),
        Settings(metadata=metadata(), server_properties=NO_PROPERTIES),
        Settings(metadata=metadata(), sets=[parse_set("log.cleanup.policy=delete")]),
        Settings(metadata=metadata(all_brokers=texts(log_cleanup_policy="delete"))),
    ],
)
def test_topic_missing_from_the_metadata_log_is_unknown(settings: Settings) -> None:
    reason = unknown(settings, "gone")
    assert f"{LOG} knows no topic gone" in reason
    assert "--topic-set 'gone:cleanup.policy=" in reason


def test_operator_may_configure_a_topic_missing_from_the_log() -> None:
    settings = Settings(
        metadata=metadata(), topic_configs=parse_topic_configs("gone cleanup.policy=compact")
    )
    config = settings.resolve("gone", node_id=1)
    assert isinstance(config, TopicConfig)
    assert config.cleanup_policy == "compact"


def test_unreadable_metadata_log_makes_policies_unknown() -> None:
    broken = MetadataSettings(
        log="__cluster_metadata-0",
        problem="__cluster_metadata-0 can't be read: wrong CRC (x at byte 7)",
    )
    settings = Settings(
        metadata=broken,
        server_properties=NO_PROPERTIES,
        sets=[parse_set("log.cleanup.policy=delete")],
    )
    assert "__cluster_metadata-0 can't be read: wrong CRC (x at byte 7)" in unknown(settings)
    assert (
        known(
            Settings(metadata=broken, topic_configs=parse_topic_configs("t cleanup.policy=compact"))
        ).cleanup_policy
        == "compact"
    )


def test_refused_value_affects_only_its_topic() -> None:
    """Kafka before 4.1 accepted segments of less than 1 MiB."""
    own, kafka = texts(cleanup_policy="compact", segment_bytes="1024"), asked_version("4.3")
    reason = unknown(Settings(metadata=metadata(own), kafka=kafka))
    assert "segment.bytes is out of range" in reason
    assert "__cluster_metadata-0 offset 11" in reason
    topic_sets = [parse_topic_set("t:segment.bytes=1048576")]
    overridden = Settings(metadata=metadata(own), topic_sets=topic_sets, kafka=kafka)
    assert known(overridden).segment_bytes == 1_048_576
    brokers = {1: texts(log_segment_bytes="1024")}
    assert "log.segment.bytes" in unknown(
        Settings(metadata=metadata(texts(cleanup_policy="compact"), brokers=brokers), kafka=kafka)
    )


def test_contradicting_values_affect_only_their_topic() -> None:
    own = texts(cleanup_policy="compact", min_compaction_lag_ms="9", max_compaction_lag_ms="8")
    assert "larger than max.compaction.lag.ms" in unknown(Settings(metadata=metadata(own)))


def test_unknown_keys_are_noted_once_and_irrelevant_ones_are_not() -> None:
    settings = Settings(
        metadata=metadata(
            texts(cleanup_policy="compact", segment_ms="1", brand_new="x"),
            all_brokers=texts(
                min_insync_replicas="1", log_cleaner_threads="2", some_plugin="secret"
            ),
        )
    )
    assert settings.notes() == (f"{LOG}: brand.new is unknown to Winnow and ignored",)


def test_directory_of_another_topic_incarnation_is_foreign() -> None:
    log = metadata()
    assert log.why_foreign("t", 0, "ID", node_id=1) is None
    assert log.why_foreign("another", 0, "ID", node_id=1) is None
    for partition, topic_id, words in (
        (0, "OLD", "an earlier topic t: its topic id is OLD, but that of the topic is ID"),
        (0, None, "no partition.metadata"),
        (2, "ID", "topic t has no partition 2"),
    ):
        assert words in (log.why_foreign("t", partition, topic_id, node_id=1) or "")


def test_replica_that_was_moved_to_other_nodes_is_foreign() -> None:
    log = metadata()
    assert log.why_foreign("t", 0, "ID", node_id=3) == (
        f"its replicas are on nodes 1, 2 ({LOG}), and this is node 3, which would set it aside as "
        "a stray"
    )
    assert log.why_foreign("t", 0, "ID", node_id=None) is None
    assert log.why_foreign("t", 1, "ID", node_id=3) is None


def test_metadata_log_dir_is_read_from_server_properties() -> None:
    assert parse_server_properties("metadata.log.dir= /meta ").metadata_log_dir == "/meta"
    assert parse_server_properties("metadata.log.dir=").metadata_log_dir is None
    assert NO_PROPERTIES.metadata_log_dir is None


def test_settings_can_be_pickled() -> None:
    settings = Settings(metadata=metadata(texts(cleanup_policy="compact", segment_bytes="5")))
    assert pickle.loads(pickle.dumps(settings)).resolve("t") == settings.resolve("t")  # noqa: S301


def test_setting_that_is_not_dynamic_counts_only_in_server_properties() -> None:
    """A controller stores it nevertheless, and a broker logs an error and ignores it."""
    server = parse_server_properties("log.retention.hours=1000\nlog.cleaner.enable=true")
    stored = texts(
        log_retention_minutes="1", log_cleaner_enable="false", log_segment_bytes="2000000"
    )
    config = known(Settings(server_properties=server, metadata=metadata(brokers={1: stored})))
    assert (config.retention_ms, config.log_cleaner_enable) == (3_600_000_000, True)
    assert config.segment_bytes == 2_000_000
    assert metadata(all_brokers=stored).configs.notes == (
        f"{LOG}: log.cleaner.enable {NOT_DYNAMIC}",
        f"{LOG}: log.retention.minutes {NOT_DYNAMIC}",
    )


def test_topic_is_unknown_if_printed_section_lacks_a_setting_of_the_metadata_log() -> None:
    """One of them is older. A setting that nobody would use is in no doubt."""
    stored = metadata(
        texts(retention_ms="1"),
        brokers={1: texts(log_retention_bytes="2")},
        all_brokers=texts(log_cleanup_policy="compact"),
    )

    def resolved(text: str) -> TopicConfig | Unknown:
        configs = parse_topic_configs(text)
        given = Settings(server_properties=NO_PROPERTIES, metadata=stored, topic_configs=configs)
        return given.resolve("t", node_id=1)

    for text in (
        "",
        "t segment.ms=5",
        "Dynamic configs for broker 2 are:",
        "Dynamic configs for group g are:",
    ):
        config = resolved(text)
        assert isinstance(config, TopicConfig), config
        found = (config.retention_ms, config.retention_bytes, config.cleanup_policy)
        assert found == (1, 2, "compact"), text
    for text, key in (
        ("Dynamic configs for topic t are:", "retention.ms of topic t"),
        ("Dynamic configs for broker 1 are:", "log.retention.bytes of broker 1"),
        ("Default configs for brokers in the cluster are:", "log.cleanup.policy of all brokers"),
    ):
        doubt = resolved(text)
        assert isinstance(doubt, Unknown), text
        assert doubt.reason.startswith(f"{key} is in the metadata log (")
        assert "One of them is older" in doubt.reason
    for text in (
        "Dynamic configs for topic t are:\n  retention.ms=7 sensitive=false synonyms={}",
        "Dynamic configs for topic t are:\nt retention.ms=7",
    ):
        config = resolved(text)
        assert isinstance(config, TopicConfig), config
        assert config.retention_ms == 7
