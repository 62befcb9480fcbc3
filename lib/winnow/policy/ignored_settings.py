"""Config keys that Kafka knows and that do not affect files at rest. They are accepted wherever
Kafka accepts them.

Topic keys and `log.*` keys are listed one by one, so that a typo in a key that matters is never
taken for one that does not. For the rest a prefix is enough.
"""

# ruff: noqa: SIM905 - tables are easier to read without quotes
from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from winnow.policy.config import ConfigType
from winnow.policy.versions import ANY, Range

_AT_LEAST_0, _AT_LEAST_1 = Range(0), Range(1)
_REPLICAS = re.compile(r"\*|([0-9]+:[0-9]+)?(,([0-9]+:[0-9]+)?)*")
_GZIP_LEVEL = re.compile(r"-0*1|\+?0*[1-9]")
_COMPRESSION = re.compile(r"uncompressed|zstd|lz4|snappy|gzip|producer")
_FORMAT_VERSION = re.compile(r"(0\.[89]|0\.1[01]|[123]\.[0-9])([.-].*)?")
_TIMESTAMP = re.compile(r"CreateTime|LogAppendTime")

TOPIC_KEYS: Mapping[str, tuple[ConfigType, Range] | Callable[[str], object]] = {
    "compression.gzip.level": _GZIP_LEVEL.fullmatch,
    "compression.lz4.level": (ConfigType.INT, Range(1, 17)),
    "compression.type": _COMPRESSION.fullmatch,
    "compression.zstd.level": (ConfigType.INT, Range(-131072, 22)),
    "errors.deadletterqueue.group.enable": (ConfigType.BOOLEAN, ANY),
    "flush.messages": (ConfigType.LONG, _AT_LEAST_0),  # since 3.4 at least 1
    "flush.ms": (ConfigType.LONG, _AT_LEAST_0),
    "follower.replication.throttled.replicas": _REPLICAS.fullmatch,
    "leader.replication.throttled.replicas": _REPLICAS.fullmatch,
    "max.message.bytes": (ConfigType.INT, _AT_LEAST_0),
    "message.downconversion.enable": (ConfigType.BOOLEAN, ANY),
    "message.format.version": _FORMAT_VERSION.fullmatch,
    "message.timestamp.after.max.ms": (ConfigType.LONG, _AT_LEAST_0),
    "message.timestamp.before.max.ms": (ConfigType.LONG, _AT_LEAST_0),
    "message.timestamp.difference.max.ms": (ConfigType.LONG, _AT_LEAST_0),
    "message.timestamp.type": _TIMESTAMP.fullmatch,
    "min.insync.replicas": (ConfigType.INT, _AT_LEAST_1),
    "preallocate": (ConfigType.BOOLEAN, ANY),
    "remote.copy.lag.bytes": (ConfigType.LONG, Range(-1)),
    "remote.copy.lag.ms": (ConfigType.LONG, Range(-1)),
    "remote.log.delete.on.disable": (ConfigType.BOOLEAN, ANY),
    "segment.jitter.ms": (ConfigType.LONG, _AT_LEAST_0),
    "segment.ms": (ConfigType.LONG, _AT_LEAST_1),
    "unclean.leader.election.enable": (ConfigType.BOOLEAN, ANY),
}
"""What a broker accepts for each: a type and a range, or a text for which
the function returns something. With any other value it does not
start.
"""

CLEANER_TUNING = frozenset(
    """
    log.cleaner.backoff.ms log.cleaner.dedupe.buffer.size log.cleaner.io.buffer.load.factor
    log.cleaner.io.buffer.size log.cleaner.threads
    """.split()
)
"""How fast a broker cleans, not what. People set them on purpose, so Winnow reports that it ignores
them.
"""

_LOG_KEYS = frozenset(
    """
    log.dir log.dir.failure.timeout.ms log.dirs log.flush.interval.messages
    log.flush.interval.ms log.flush.offset.checkpoint.interval.ms
    log.flush.scheduler.interval.ms log.flush.start.offset.checkpoint.interval.ms
    log.initial.task.delay.ms log.message.downconversion.enable log.message.format.version
    log.message.timestamp.after.max.ms log.message.timestamp.before.max.ms
    log.message.timestamp.difference.max.ms log.message.timestamp.type log.preallocate
    log.remote.copy.lag.bytes log.remote.copy.lag.ms log.retention.check.interval.ms
    log.roll.hours log.roll.jitter.hours log.roll.jitter.ms log.roll.ms
    """.split()
)

_BROKER_KEYS = frozenset(
    """
    allow.everyone.if.no.acl.found auto.create.topics.enable auto.include.jmx.reporter
    auto.leader.rebalance.enable background.threads client.quota.callback.class cluster.id
    compression.gzip.level compression.lz4.level compression.type compression.zstd.level
    config.providers default.replication.factor delete.topic.enable early.start.listeners
    fetch.max.bytes fetch.purgatory.purge.interval.requests host.name
    initial.broker.registration.timeout.ms kafka.csv.metrics.reporter.enabled listeners
    message.max.bytes min.insync.replicas node.id port process.roles
    producer.id.expiration.check.interval.ms producer.purgatory.purge.interval.requests
    queued.max.requests queued.max.request.bytes request.timeout.ms reserved.broker.max.id
    security.inter.broker.protocol security.providers server.max.startup.time.ms super.users
    telemetry.max.bytes unclean.leader.election.enable unclean.leader.election.interval.ms
    unstable.api.versions.enable unstable.feature.versions.enable
    unstable.metadata.versions.enable
    """.split()
)

_BROKER_PREFIXES = tuple(
    """
    add.partitions.to.txn. advertised. alter.config.policy. alter.log.dirs. authorizer. broker.
    config.providers. connection. connections. control.plane. controlled.shutdown. controller.
    cordoned.log. create.topic.policy. delegation.token. delete.records.purgatory.
    eligible.leader.replicas. errors.deadletterqueue. follower.fetch.
    follower.replication.throttled. group. inter.broker. internal.metadata. kafka.metrics.
    leader.imbalance. leader.replication.throttled. listener.name. listener.security.
    max.connection max.incremental.fetch. max.request.partition. metadata. metric. metrics. num.
    offset.metadata. offsets. password.encoder. principal.builder. quota. quorum. quotas.
    remote.fetch. remote.list. remote.log. replica. replication.quota. sasl. share.coordinator.
    share.fetch. socket. ssl. telemetry. transaction. transactional.id. zookeeper.
    """.split()
)


def is_meaningless_broker_key(name: str) -> bool:
    if name.startswith("log."):
        return name in _LOG_KEYS or name in CLEANER_TUNING
    # `remote.*` concerns the upload of segments, which never happens offline. This is a topic's.
    if name == "remote.log.copy.disable":
        return False
    return name in _BROKER_KEYS or name.startswith(_BROKER_PREFIXES)
