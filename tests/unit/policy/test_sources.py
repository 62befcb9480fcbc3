"""Which source of a setting applies, and when a topic's policy counts as known."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from winnow.errors import UsageError
from winnow.policy.config import TopicConfig
from winnow.policy.describe import parse_topic_configs
from winnow.policy.server_properties import parse_server_properties
from winnow.policy.sources import Settings, Unknown, parse_set, parse_topic_set
from winnow.policy.versions import PRODUCER_ID, TRANSACTIONAL_ID, asked_version

COMPACTING = parse_server_properties("log.cleanup.policy=compact")
ALL = (
    "All configs for topic t are:\n"
    "  cleanup.policy=delete sensitive=false synonyms={DEFAULT_CONFIG:log.cleanup.policy=delete}\n"
    "  retention.ms=604800000 sensitive=false synonyms={}\n"
)
ALL_LINE = "  {} sensitive=false synonyms={{STATIC_BROKER_CONFIG:log.{}}}\n"


def known(settings: Settings, topic: str = "t", *, node_id: int | None = None) -> TopicConfig:
    config = settings.resolve(topic, node_id=node_id)
    assert isinstance(config, TopicConfig)
    return config


def test_sources_override_each_other_in_kafkas_order() -> None:
    text = "t\n"
    steps: list[tuple[Settings, int, str]] = []
    steps.append(
        (
            Settings(
                topic_configs=parse_topic_configs(text),
                server_properties=parse_server_properties(""),
            ),
            604_800_000,
            "Kafka's default",
        )
    )
    server = parse_server_properties("# mine\nlog.retention.ms=1\n", file="server.properties")
    steps.append(
        (
            Settings(topic_configs=parse_topic_configs(text), server_properties=server),
            1,
            "log.retention.ms, server.properties line 2",
        )
    )
    for number, (more, source) in enumerate(
        [
            (
                "Default configs for brokers in the cluster are:\n  log.retention.ms=2\n",
                "log.retention.ms, --topic-configs line 3",
            ),
            (
                "Dynamic configs for broker 7 are:\n  log.retention.ms=3\n",
                "log.retention.ms, --topic-configs line 5",
            ),
            (
                "All configs for topic t are:\n"
                + ALL_LINE.format("retention.ms=4", "retention.ms=4"),
                "--topic-configs line 7, STATIC_BROKER_CONFIG",
            ),
        ],
        start=2,
    ):
        text += more
        settings = Settings(topic_configs=parse_topic_configs(text), server_properties=server)
        steps.append((settings, number, source))
    described = parse_topic_configs(text)
    sets = [parse_set("log.retention.ms=5")]
    steps.append(
        (
            Settings(topic_configs=described, server_properties=server, sets=sets),
            5,
            "--set log.retention.ms=5",
        ),
    )
    described = parse_topic_configs(text + "t retention.ms=6\n")
    steps.append(
        (
            Settings(topic_configs=described, server_properties=server, sets=sets),
            6,
            "--topic-configs line 8",
        )
    )
    topic_sets = [parse_topic_set("*:retention.ms=7")]
    steps.append(
        (
            Settings(
                topic_configs=described, server_properties=server, sets=sets, topic_sets=topic_sets
            ),
            7,
            "--topic-set *:retention.ms=7",
        )
    )
    for settings, value, source in steps:
        config = known(settings, node_id=7)
        assert (config.retention_ms, config.sources["retention.ms"]) == (value, source)


def test_last_matching_topic_set_applies() -> None:
    sets = [
        parse_topic_set(text)
        for text in (
            "t*:cleanup.policy=compact",
            "t*:segment.bytes=2000000",
            "*x:segment.bytes=3000000",
        )
    ]
    settings = Settings(topic_sets=sets)
    assert known(settings, "t1").segment_bytes == 2_000_000
    assert known(settings, "tx").segment_bytes == 3_000_000
    assert (
        known(settings, "tx").sources["cleanup.policy"] == "--topic-set t*:cleanup.policy=compact"
    )
    assert isinstance(settings.resolve("x"), Unknown)


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ("log.retention.hours=1\nlog.retention.minutes=2\nlog.retention.ms=3", 3),
        ("log.retention.hours=1\nlog.retention.minutes=2", 120_000),
        ("log.retention.hours=1", 3_600_000),
        ("log.retention.hours=-1", -1),
        ("log.retention.ms = 5\nlog.retention.ms : 6", 6),
        ("log.retention.\\\n   ms=8", 8),
    ],
)
def test_synonyms_apply_in_kafkas_order(properties: str, expected: int) -> None:
    settings = Settings(
        topic_configs=parse_topic_configs("t"),
        server_properties=parse_server_properties(properties),
    )
    assert known(settings).retention_ms == expected


def test_stronger_source_applies_for_any_synonym() -> None:
    settings = Settings(
        topic_configs=parse_topic_configs("t"),
        server_properties=parse_server_properties("log.retention.ms=1"),
        sets=[parse_set("log.retention.hours=1")],
    )
    assert known(settings).retention_ms == 3_600_000


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(server_properties=parse_server_properties("log.cleanup.policy=compact")),
        Settings(topic_configs=parse_topic_configs("other cleanup.policy=compact")),
        Settings(topic_sets=[parse_topic_set("t:segment.bytes=1048576")]),
        Settings(topic_sets=[parse_topic_set("u*:cleanup.policy=delete")]),
        Settings(sets=[parse_set("log.retention.ms=1")]),
        Settings(topic_configs=parse_topic_configs("Default configs for brokers in the cluster are:\n  log.cleanup.policy=compact")),  # noqa: E501
    ],
)  # fmt: skip
@pytest.mark.parametrize("topic", ["t", "__consumer_offsets"])
def test_policy_without_any_source_is_unknown(settings: Settings, topic: str) -> None:
    found = settings.resolve(topic)
    assert isinstance(found, Unknown)
    assert f"--topic-set '{topic}:cleanup.policy=" in found.reason


@pytest.mark.parametrize(
    ("settings", "policy"),
    [
        (
            Settings(
                topic_configs=parse_topic_configs("t"),
                server_properties=parse_server_properties(""),
            ),
            "delete",
        ),
        (Settings(topic_configs=parse_topic_configs("t"), server_properties=COMPACTING), "compact"),
        (Settings(topic_configs=parse_topic_configs(ALL)), "delete"),
        (
            Settings(
                topic_configs=parse_topic_configs("t"),
                sets=[parse_set("log.cleanup.policy=compact")],
            ),
            "compact",
        ),
        (Settings(sets=[parse_set("log.cleanup.policy=compact")]), "compact"),
        (Settings(sets=[parse_set("log.cleanup.policy=")]), ""),
        (Settings(topic_sets=[parse_topic_set("t:cleanup.policy=compact")]), "compact"),
        (
            Settings(
                topic_sets=[
                    parse_topic_set(f"t:{s}")
                    for s in ("cleanup.policy=compact,delete", "retention.ms=1")
                ]
            ),
            "compact,delete",
        ),
    ],
)
def test_policy_from_any_source_is_known(settings: Settings, policy: str) -> None:
    assert known(settings).cleanup_policy == policy


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        (Settings(topic_configs=parse_topic_configs("t")), "cleanup.policy"),
        (
            Settings(topic_configs=parse_topic_configs("Dynamic configs for topic t are:\n")),
            "cleanup.policy",
        ),
        (
            Settings(topic_configs=parse_topic_configs("Configs for topic 't' are ")),
            "cleanup.policy",
        ),
        (Settings(topic_configs=parse_topic_configs("t retention.ms=1")), "cleanup.policy"),
        (Settings(topic_configs=parse_topic_configs("t cleanup.policy=delete")), "retention.ms"),
        (Settings(sets=[parse_set("log.cleanup.policy=compact,delete")]), "retention.ms"),
        (Settings(topic_sets=[parse_topic_set("t:cleanup.policy=delete")]), "retention.ms"),
        (
            Settings(topic_configs=parse_topic_configs(ALL.partition("  retention.ms")[0])),
            "retention.ms",
        ),
    ],
)
def test_default_that_deletes_is_never_assumed(settings: Settings, key: str) -> None:
    found = settings.resolve("t")
    assert isinstance(found, Unknown)
    assert found.reason.startswith(f"topic t has no {key} of its own")
    assert "Pass --server-properties FILE" in found.reason


def test_section_of_the_owning_broker_applies() -> None:
    text = "t\n" + "".join(
        f"Dynamic configs for broker {n} are:\n  log.retention.ms={n}\n" for n in (1, 2)
    )
    settings = Settings(
        topic_configs=parse_topic_configs(text), server_properties=parse_server_properties("")
    )
    assert known(settings, node_id=2).retention_ms == 2
    assert known(settings, node_id=3).retention_ms == 604_800_000
    with pytest.raises(UsageError, match="brokers 1, 2"):
        settings.resolve("t")


@pytest.mark.parametrize(
    "text", ["retention.ms", "=1", "log.cleaner.treads=1", "frobnicate=1", "segment.bytes=1"]
)
def test_malformed_set_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--set"):
        parse_set(text)


@pytest.mark.parametrize("text", ["retention.ms=1000", "cleanup.policy=delete", "flush.ms=1"])
def test_topic_level_name_is_refused_with_both_ways_to_set_it(text: str) -> None:
    with pytest.raises(UsageError, match="setting of topics") as caught:
        parse_set(text)
    assert f"--topic-set '*:{text}'" in str(caught.value)
    key = text.partition("=")[0]
    assert key == "flush.ms" or f"--set log.{text}" in str(caught.value)


@pytest.mark.parametrize(
    "text", ["retention.ms=1", "t:retention.ms", ":retention.ms=1", "t:log.retention.ms=1", "t:x=1"]
)
def test_malformed_topic_set_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--topic-set"):
        parse_topic_set(text)


def test_ignored_settings_are_noted_once() -> None:
    settings = Settings(
        sets=[
            parse_set("num.io.threads=3"),
            parse_set("log.cleaner.threads=3"),
            parse_set("compression.type=lz4"),
        ],
        topic_sets=[parse_topic_set("t:segment.ms=3")],
        server_properties=parse_server_properties(
            "num.network.threads=3\nlog.cleaner.threads=2\ncleanup.policy=compact\nlog.retention.hour=1\nx.y=z"
        ),
    )
    notes = settings.notes()
    assert len(notes) == 7
    assert notes[:3] == (
        "--set num.io.threads=3: does not affect files at rest; ignored",
        "--set compression.type=lz4: does not affect files at rest; ignored",
        "--topic-set t:segment.ms=3: does not affect files at rest; ignored",
    )
    assert notes[3].startswith("log.cleaner.threads: ignored")
    assert "line 3: cleanup.policy is a topic config" in notes[4]
    assert "log.retention.hours" in notes[5]


def test_io_rate_comes_from_the_brokers_cleaner_settings() -> None:
    properties = parse_server_properties("log.cleaner.io.max.bytes.per.second=5e6")
    assert Settings().io_rate(node_id=1) is None
    assert Settings(server_properties=properties).io_rate(node_id=1) == 5_000_000
    stronger = parse_set("log.cleaner.io.max.bytes.per.second=1000")
    assert Settings(sets=[stronger], server_properties=properties).io_rate(node_id=None) == 1000
    for text in ("0", "-1", "nan", "fast"):
        with pytest.raises(UsageError, match="io.max.bytes.per.second".replace(".", r"\.")):
            parse_set(f"log.cleaner.io.max.bytes.per.second={text}")


@pytest.mark.parametrize("text", ["a=b\nlog.retention.ms=x", "a=b\nlog.segment.bytes=5"])
def test_malformed_server_property_affects_the_topics_for_which_it_counts(text: str) -> None:
    described = parse_topic_configs(
        "t cleanup.policy=compact,delete\n"
        "u cleanup.policy=compact,delete\nu retention.ms=9\nu segment.bytes=2000000"
    )
    settings = Settings(topic_configs=described, server_properties=parse_server_properties(text))
    config = settings.resolve("t")
    assert isinstance(config, Unknown)
    assert "--server-properties line 2" in config.reason
    assert isinstance(settings.resolve("u"), TopicConfig)


@pytest.mark.parametrize(
    ("providers", "words"),
    [
        ("file, env", "log.retention.ms comes from a config provider, which Winnow does not ask"),
        ("file", "log.retention.ms has a wrong value"),
    ],
)
def test_value_from_a_config_provider_is_unknown(providers: str, words: str) -> None:
    text = f"log.retention.ms=${{env:MS}}\nconfig.providers={providers}\nnode.id=${{env:ID}}"
    server = parse_server_properties(text)
    described = parse_topic_configs(
        "t cleanup.policy=delete\nu cleanup.policy=delete\nu retention.ms=9"
    )
    settings = Settings(topic_configs=described, server_properties=server)
    config = settings.resolve("t")
    assert isinstance(config, Unknown)
    assert words in config.reason
    assert "--server-properties line 1" in config.reason
    assert isinstance(settings.resolve("u"), TopicConfig)
    given = replace(settings, sets=[parse_set("log.retention.ms=9")])
    assert isinstance(given.resolve("t"), TopicConfig)
    assert server.node_id is None


@pytest.mark.parametrize(
    ("version", "segment_bytes", "accepted"),
    [("3.9", "14", True), ("3.9", "13", False), ("4.0", "14", True), ("4.1", "1048575", False)],
)
def test_range_of_a_topics_setting_is_that_of_the_version(
    version: str, segment_bytes: str, *, accepted: bool
) -> None:
    text = f"t cleanup.policy=compact\nt segment.bytes={segment_bytes}\nu cleanup.policy=compact"
    settings = Settings(topic_configs=parse_topic_configs(text), kafka=asked_version(version))
    assert isinstance(settings.resolve("t"), TopicConfig) is accepted
    assert isinstance(settings.resolve("u"), TopicConfig)


@pytest.mark.parametrize(("version", "accepted"), [("3.9", True), ("4.0", False)])
def test_range_of_a_brokers_setting_is_that_of_the_version(version: str, *, accepted: bool) -> None:
    properties = parse_server_properties("log.segment.bytes=1000\nlog.cleanup.policy=compact")
    settings = Settings(
        topic_configs=parse_topic_configs("t\nu segment.bytes=2000000"),
        server_properties=properties,
        kafka=asked_version(version),
    )
    assert isinstance(settings.resolve("t"), TopicConfig) is accepted
    assert isinstance(settings.resolve("u"), TopicConfig)


def test_setting_that_the_version_does_not_know_affects_only_its_topic() -> None:
    text = "t cleanup.policy=compact\nt remote.storage.enable=true\nu cleanup.policy=compact"
    settings = Settings(topic_configs=parse_topic_configs(text), kafka=asked_version("2.8"))
    config = settings.resolve("t")
    assert isinstance(config, Unknown)
    assert "remote.storage.enable is no setting of Kafka 2.8" in config.reason
    assert isinstance(settings.resolve("u"), TopicConfig)


@pytest.mark.parametrize(
    ("version", "expected"), [("3.3", 5), ("3.4", 7), (None, 7), ("2.8", 5), ("4.4", 7)]
)
def test_setting_that_ends_a_producer_is_that_of_the_version(
    version: str | None, expected: int
) -> None:
    sets = [parse_set(f"{PRODUCER_ID}=7"), parse_set(f"{TRANSACTIONAL_ID}=5")]
    described = parse_topic_configs("t cleanup.policy=compact")
    kafka = asked_version(version)
    config = Settings(topic_configs=described, sets=sets, kafka=kafka).resolve("t")
    assert isinstance(config, TopicConfig)
    assert config.producer_id_expiration_ms == expected
    by_default = Settings(topic_configs=described, kafka=kafka).resolve("t")
    assert isinstance(by_default, TopicConfig)
    days = 7 if version in {"2.8", "3.3"} else 1
    assert by_default.producer_id_expiration_ms == days * 86_400_000


def test_set_of_a_setting_that_the_version_does_not_know_is_noted_and_ignored() -> None:
    settings = Settings(sets=[parse_set(f"{PRODUCER_ID}=7")], kafka=asked_version("3.3"))
    assert settings.notes() == (f"--set {PRODUCER_ID}=7: Kafka 3.3 has no such setting; ignored",)


def test_malformed_escape_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="properties file"):
        parse_server_properties("a=\\uXYZW")


def test_settings_can_be_pickled() -> None:
    settings = Settings(
        topic_configs=parse_topic_configs("t cleanup.policy=compact"),
        server_properties=parse_server_properties("log.retention.ms=1"),
        sets=[parse_set("log.retention.bytes=1")],
        topic_sets=[parse_topic_set("t:segment.index.bytes=96")],
    )
    assert pickle.loads(pickle.dumps(settings)).resolve("t") == settings.resolve("t")  # noqa: S301
