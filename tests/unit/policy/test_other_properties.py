"""A file of another program is not taken for a broker's server.properties: Kafka's defaults, which
it would confirm, delete.
"""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winnow.errors import UsageError
from winnow.policy.other_properties import providers_in
from winnow.policy.server_properties import KRAFT, ZOOKEEPER, parse_server_properties_file

# As in the config folder of Kafka's releases, without comments.
CONSUMER = "bootstrap.servers=localhost:9092\ngroup.id=test-consumer-group\n"
PRODUCER = "bootstrap.servers=localhost:9092\ncompression.type=none\n"
SSL_CLIENT = (
    "security.protocol=SSL\nssl.truststore.location=/t.jks\nssl.truststore.password=hidden\n"
)
WORKER = (
    "bootstrap.servers=localhost:9092\ngroup.id=connect-cluster\n"
    "key.converter=org.apache.kafka.connect.json.JsonConverter\n"
    "offset.storage.topic=connect-offsets\nplugin.path=\n"
)
CONNECTOR = "name=local-file-source\nconnector.class=FileStreamSource\ntasks.max=1\n"
MIRROR_MAKER = "clusters = A, B\nA.bootstrap.servers = a:9092\nA->B.enabled = true\n"
CRUISE_CONTROL = "bootstrap.servers=localhost:9092\nzookeeper.connect=localhost:2181\n"
LOG4J = "log4j.rootLogger=INFO, stdout\nlog4j.appender.stdout=org.apache.log4j.ConsoleAppender\n"
LOG4J2 = "rootLogger.level = info\nappender.console.type = Console\n"
OLD_CONSUMER = "zookeeper.connect=127.0.0.1:2181\ngroup.id=test-consumer-group\n"
ENSEMBLE = "dataDir=/tmp/zookeeper\nclientPort=2181\nmaxClientCnxns=0\n"
REST_PROXY = "id=rest\nzookeeper.connect=z:2181\nschema.registry.url=http://r:8081\n"
META = "version=1\nnode.id=1\ncluster.id=c\ndirectory.id=d\n"
OLD_META = "version=0\nbroker.id=1\ncluster.id=c\n"


@pytest.mark.parametrize(
    ("text", "looks"),
    [
        (CONSUMER, "a consumer's configuration: bootstrap.servers, group.id"),
        (PRODUCER, "a client's configuration: bootstrap.servers"),
        (f"{PRODUCER}acks=all\n", "a producer's configuration: bootstrap.servers, acks"),
        (f"{CONSUMER}node.id=1\nlog.dirs=/d\n", "a consumer's configuration"),
        (SSL_CLIENT, "a client's configuration of security: security.protocol, ssl.truststore"),
        (WORKER, "a Connect worker's configuration: bootstrap.servers, key.converter, offset"),
        (CONNECTOR, "a connector's configuration: connector.class, tasks.max"),
        (MIRROR_MAKER, "a configuration of MirrorMaker: clusters"),
        (f"application.id=a\n{CONSUMER}", "a configuration of Kafka Streams"),
        (CRUISE_CONTROL, "a client's configuration: bootstrap.servers"),
        (LOG4J, "a configuration of logging: log4j.appender.stdout, log4j.rootLogger"),
        (LOG4J2, "a configuration of logging: appender.console.type, rootLogger.level"),
        (OLD_CONSUMER, "a consumer's configuration: group.id"),
        (ENSEMBLE, "a configuration of ZooKeeper: dataDir, clientPort"),
        (META, "the meta.properties of a log directory: version, cluster.id"),
        (OLD_META, "the meta.properties of a log directory: version, cluster.id"),
        (REST_PROXY, "the configuration of a schema registry or a REST proxy: schema.registry.url"),
        (f"{LOG4J}log.dir=/var/log\n", "a configuration of logging: log4j.appender.stdout"),
        (f"{MIRROR_MAKER}node.id=1\n", "a configuration of MirrorMaker: clusters"),
        (f"{ENSEMBLE}node.id=1\n", "a configuration of ZooKeeper: dataDir"),
        (f"{CONNECTOR}node.id=1\n", "a connector's configuration: connector.class"),
        ("log.dir=/d\njobmanager.rpc.address=j\n", "that of another program: jobmanager.rpc"),
        ("node.id=1\nlog.level=INFO\nhttp.port=1\n", "that of another program: http.port"),
        ("log.dir=/d\nauto.offset.reset=earliest\n", "a consumer's configuration: auto.offset"),
        ("node.id=1\nacks=all\n", "a producer's configuration: acks"),
        ("node.id=1\nlog.dirs=/d\nA.bootstrap.servers=a:1\n", "a configuration of MirrorMaker: A."),
    ],
)
def test_file_of_another_program_is_refused_with_what_it_looks_like(text: str, looks: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_server_properties_file(text.encode(), file="some.properties")
    words = str(refused.value)
    assert "this is not the server.properties of a broker" in words
    assert "expected one of node.id, broker.id, process.roles, zookeeper.connect" in words
    assert f"found a file that looks like {looks}" in words
    assert "some.properties" in words
    assert "hidden" not in words


@pytest.mark.parametrize("text", ["", "log.retention.hours=-1\n", "node.id=\nlog.dirs=\n", "a b\n"])
def test_file_that_names_no_broker_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"not the server\.properties of a broker.*found none of"):
        parse_server_properties_file(text.encode(), file="some.properties")


def test_settings_of_a_controller_are_not_those_of_a_broker() -> None:
    text = b"process.roles=controller\nnode.id=3000\nlog.dirs=/c\n"
    with pytest.raises(UsageError, match=r"of a controller.*found process\.roles=controller"):
        parse_server_properties_file(text, file="controller.properties")


@pytest.mark.parametrize(
    ("text", "keeps_topics_in"),
    [
        ("process.roles=${env:ROLES}\nnode.id=1\nconfig.providers=env\n", KRAFT),
        ("process.roles=broker\nnode.id=1\ncontroller.quorum.bootstrap.servers=c:1\n", KRAFT),
        ("process.roles= controller , broker\n", KRAFT),
        ("process.roles=broker\nzookeeper.connect=z:1\n", KRAFT),
        ("zookeeper.connect=z:1\nzookeeper.metadata.migration.enable=true\n", ZOOKEEPER),
        ("broker.id=0\nzookeeper.connect=z:1\nacks=all\n", ZOOKEEPER),
        (f"{SSL_CLIENT}broker.id=0\n", None),
        ("log.dir=/d\nnode.id=1\ncruise.control.metrics.reporter.bootstrap.servers=b:1\n", None),
        ("log.dir=/d\nlog.retention.hours=1\nmy.plugin.address=b:1\n", None),
    ],
)
def test_brokers_file_is_accepted_and_shows_where_its_topics_are(
    text: str, keeps_topics_in: str | None
) -> None:
    server = parse_server_properties_file(text.encode(), file="server.properties")
    assert server.keeps_topics_in == keeps_topics_in


@pytest.mark.parametrize("more", ["", "id=rest\n", "listeners=http://0.0.0.0:8082\n"])
def test_zookeeper_alone_makes_no_broker(more: str) -> None:
    with pytest.raises(UsageError, match="found only zookeeper"):
        parse_server_properties_file(f"zookeeper.connect=z:1\n{more}".encode(), file="f")


KAFKAS = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
"""ConfigTransformer.DEFAULT_PATTERN."""


@given(st.text(alphabet="${}:a\n", max_size=30))
def test_providers_of_a_value_are_those_of_kafkas_pattern(value: str) -> None:
    assert list(providers_in(value)) == [found[1] for found in KAFKAS.finditer(value)]


@pytest.mark.parametrize("piece", ["${a:", "${", "${a:}", "${a:b:c", ":${:"])
def test_a_long_value_takes_linear_time(piece: str) -> None:
    """500 pieces took Kafka's pattern more than 40 s."""
    for end in ("", "}"):
        begun = time.process_time()
        assert len(list(providers_in(piece * 100_000 + end))) <= 100_000
        assert time.process_time() - begun < 1
