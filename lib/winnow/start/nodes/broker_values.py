"""Values of a server.properties that a broker refuses: the types and ranges of Kafka's own
`KafkaConfig`, and the settings that have to fit each other.

A broker reads each setting that its version knows, also those that it does not use, and does not
start with a wrong value. What is not here: the names and protocols of listeners, security, classes
of plug-ins, and settings that are missing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from winnow.errors import UsageError
from winnow.policy.config import ConfigType
from winnow.policy.keys import parse_value
from winnow.policy.versions import KafkaVersion, KnownVersion, Range, asked_version

_TABLE = """
BOOLEAN .. 2.8-3.9: broker.id.generation.enable log.message.downconversion.enable zookeeper.set.acl
  zookeeper.ssl.client.enable zookeeper.ssl.crl.enable zookeeper.ssl.ocsp.enable
BOOLEAN .. 2.8-4.4: auto.create.topics.enable auto.leader.rebalance.enable
  controlled.shutdown.enable delete.topic.enable log.preallocate unclean.leader.election.enable
BOOLEAN .. 3.4-3.9: auto.include.jmx.reporter zookeeper.metadata.migration.enable
BOOLEAN .. 3.6-4.0: group.coordinator.new.enable
BOOLEAN .. 3.6-4.4: transaction.partition.verification.enable unstable.api.versions.enable
BOOLEAN .. 3.7-3.7: unstable.metadata.versions.enable
BOOLEAN .. 3.7-3.9: eligible.leader.replicas.enable
BOOLEAN .. 3.7-4.4: ssl.allow.dn.changes ssl.allow.san.changes
BOOLEAN .. 3.8-4.4: unstable.feature.versions.enable
BOOLEAN .. 3.9-3.9: alter.config.policy.kraft.compatibility.enable
BOOLEAN .. 3.9-4.2: group.share.enable
BOOLEAN .. 4.1-4.4: sasl.oauthbearer.assertion.claim.jti.include
  transaction.two.phase.commit.enable
BOOLEAN .. 4.2-4.4: controller.quorum.auto.join.enable
BOOLEAN .. 4.3-4.4: follower.fetch.last.tiered.offset.enable
BOOLEAN .. 4.4-4.4: errors.deadletterqueue.auto.create.topics.enable
  group.consumer.assignor.offload.enable group.share.assignor.offload.enable
  group.streams.assignor.offload.enable sasl.oauthbearer.allow.unverified.audience
  sasl.oauthbearer.allow.unverified.issuer
INT -1.. 3.8-4.4: group.coordinator.append.linger.ms
INT -1.. 4.0-4.4: share.coordinator.append.linger.ms
INT -131072..22 3.8-4.4: compression.zstd.level
INT -32768..32767 2.8-3.9: offsets.commit.required.acks
INT -32768..32767 2.8-4.4: sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
INT .. 2.8-2.8: advertised.port port
INT .. 2.8-3.0: zookeeper.sync.time.ms
INT .. 2.8-3.9: controlled.shutdown.max.retries leader.imbalance.per.broker.percentage
  zookeeper.connection.timeout.ms zookeeper.session.timeout.ms
INT .. 2.8-4.4: broker.heartbeat.interval.ms broker.id broker.session.timeout.ms
  controller.quorum.append.linger.ms controller.quorum.election.backoff.max.ms
  controller.quorum.election.timeout.ms controller.quorum.fetch.timeout.ms
  controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms
  controller.socket.timeout.ms default.replication.factor
  delete.records.purgatory.purge.interval.requests fetch.purgatory.purge.interval.requests
  group.initial.rebalance.delay.ms group.max.session.timeout.ms group.min.session.timeout.ms
  initial.broker.registration.timeout.ms node.id num.replica.alter.log.dirs.threads
  num.replica.fetchers offset.metadata.max.bytes producer.purgatory.purge.interval.requests
  replica.fetch.min.bytes replica.fetch.wait.max.ms replica.socket.receive.buffer.bytes
  replica.socket.timeout.ms request.timeout.ms sasl.server.max.receive.size
  socket.receive.buffer.bytes socket.send.buffer.bytes
INT .. 3.4-4.4: sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
  sasl.oauthbearer.clock.skew.seconds
INT .. 3.8-4.4: compression.gzip.level remote.log.manager.copier.thread.pool.size
  remote.log.manager.expiration.thread.pool.size
INT .. 4.0-4.0: share.fetch.max.fetch.records
INT .. 4.0-4.4: share.fetch.purgatory.purge.interval.requests
INT .. 4.1-4.2: internal.metadata.max.fetch.size.in.bytes
INT .. 4.1-4.4: internal.metadata.log.segment.bytes internal.metadata.max.batch.size.in.bytes
INT 0.. 2.8-3.9: reserved.broker.max.id
INT 0.. 2.8-4.4: connection.failed.authentication.delay.ms log.cleaner.io.buffer.size
  log.flush.offset.checkpoint.interval.ms log.flush.start.offset.checkpoint.interval.ms
  log.roll.jitter.hours max.connection.creation.rate max.connections max.connections.per.ip
  max.incremental.fetch.session.cache.slots message.max.bytes replica.fetch.backoff.ms
  replica.fetch.max.bytes replica.fetch.response.max.bytes
INT 0.. 3.4-4.4: metadata.max.idle.interval.ms
INT 0.. 3.6-4.4: remote.log.metadata.custom.metadata.max.bytes
INT 0.. 4.0-4.4: add.partitions.to.txn.retry.backoff.max.ms
  share.coordinator.snapshot.update.records.per.snapshot
INT 0.. 4.1-4.4: group.streams.max.standby.replicas group.streams.num.standby.replicas
INT 0.. 4.2-4.4: group.streams.initial.rebalance.delay.ms
INT 0.. 4.3-4.4: group.consumer.assignment.interval.ms group.consumer.max.assignment.interval.ms
  group.consumer.min.assignment.interval.ms group.share.assignment.interval.ms
  group.share.max.assignment.interval.ms group.share.min.assignment.interval.ms
  group.streams.assignment.interval.ms group.streams.max.assignment.interval.ms
  group.streams.min.assignment.interval.ms
INT 0.. 4.4-4.4: group.streams.max.warmup.replicas group.streams.num.warmup.replicas
INT 0..3600 4.1-4.4: sasl.oauthbearer.assertion.claim.nbf.seconds
INT 0..4 2.8-4.4: offsets.topic.compression.codec
INT 0..4 4.0-4.4: share.coordinator.state.topic.compression.codec
INT 0..86400 4.1-4.4: sasl.oauthbearer.assertion.claim.exp.seconds
INT 1.. 2.8-3.9: zookeeper.max.in.flight.requests
INT 1.. 2.8-4.4: alter.log.dirs.replication.quota.window.num
  alter.log.dirs.replication.quota.window.size.seconds background.threads
  controller.quota.window.num controller.quota.window.size.seconds group.max.size
  kafka.metrics.polling.interval.secs log.cleaner.threads log.roll.hours metrics.num.samples
  min.insync.replicas num.io.threads num.network.threads num.partitions
  num.recovery.threads.per.data.dir offsets.commit.timeout.ms offsets.load.buffer.size
  offsets.retention.minutes offsets.topic.num.partitions offsets.topic.replication.factor
  offsets.topic.segment.bytes queued.max.requests quota.window.num quota.window.size.seconds
  replication.quota.window.num replication.quota.window.size.seconds socket.request.max.bytes
  transaction.abort.timed.out.transaction.cleanup.interval.ms transaction.max.timeout.ms
  transaction.remove.expired.transaction.cleanup.interval.ms transaction.state.log.load.buffer.size
  transaction.state.log.min.isr transaction.state.log.num.partitions
  transaction.state.log.replication.factor transaction.state.log.segment.bytes
INT 1.. 3.0-4.4: remote.log.manager.thread.pool.size remote.log.reader.max.pending.tasks
  remote.log.reader.threads
INT 1.. 3.4-4.4: producer.id.expiration.check.interval.ms socket.listen.backlog.size
INT 1.. 3.6-3.9: zookeeper.metadata.migration.min.batch.size
INT 1.. 3.6-4.4: group.consumer.heartbeat.interval.ms group.consumer.max.heartbeat.interval.ms
  group.consumer.max.session.timeout.ms group.consumer.max.size
  group.consumer.min.heartbeat.interval.ms group.consumer.min.session.timeout.ms
  group.consumer.session.timeout.ms group.coordinator.threads
INT 1.. 3.7-4.4: telemetry.max.bytes
INT 1.. 3.8-4.4: max.request.partition.size.limit remote.fetch.max.wait.ms
  remote.log.manager.copy.quota.window.num remote.log.manager.copy.quota.window.size.seconds
  remote.log.manager.fetch.quota.window.num remote.log.manager.fetch.quota.window.size.seconds
INT 1.. 3.9-4.4: group.share.heartbeat.interval.ms group.share.max.heartbeat.interval.ms
  group.share.max.session.timeout.ms group.share.min.heartbeat.interval.ms
  group.share.min.session.timeout.ms group.share.session.timeout.ms
INT 1.. 4.0-4.4: add.partitions.to.txn.retry.backoff.ms share.coordinator.load.buffer.size
  share.coordinator.state.topic.min.isr share.coordinator.state.topic.num.partitions
  share.coordinator.state.topic.prune.interval.ms share.coordinator.state.topic.replication.factor
  share.coordinator.state.topic.segment.bytes share.coordinator.threads
  share.coordinator.write.timeout.ms
INT 1.. 4.1-4.4: group.share.max.share.sessions group.streams.heartbeat.interval.ms
  group.streams.max.heartbeat.interval.ms group.streams.max.session.timeout.ms
  group.streams.max.size group.streams.min.heartbeat.interval.ms
  group.streams.min.session.timeout.ms group.streams.session.timeout.ms
  share.coordinator.cold.partition.snapshot.interval.ms
INT 1.. 4.2-4.4: group.share.initialize.retry.interval.ms
  remote.log.manager.follower.thread.pool.size
INT 1.. 4.3-4.4: controller.quorum.fetch.max.bytes controller.quorum.fetch.snapshot.max.bytes
  group.coordinator.background.threads
INT 1.. 4.4-4.4: group.streams.min.task.offset.interval.ms group.streams.task.offset.interval.ms
INT 1..100 3.9-4.0: group.share.max.groups
INT 1..1000 3.9-4.4: group.share.max.size
INT 1..17 3.8-4.4: compression.lz4.level
INT 100..10000 3.9-4.4: group.share.partition.max.record.locks
INT 100..2000 4.3-4.4: group.share.min.partition.max.record.locks
INT 1000..30000 3.9-4.4: group.share.min.record.lock.duration.ms
INT 1000..3600000 3.9-4.4: group.share.record.lock.duration.ms
INT 10000.. 4.1-4.4: group.consumer.regex.refresh.interval.ms
INT 1024.. 2.8-3.9: password.encoder.iterations
INT 1024.. 2.8-4.4: fetch.max.bytes
INT 12.. 3.0-4.0: metadata.log.segment.min.bytes
INT 12.. 3.0-4.4: metadata.log.segment.bytes
INT 2..10 3.9-4.4: group.share.delivery.count.limit
INT 2..5 4.3-4.4: group.share.min.delivery.count.limit
INT 2000..10000 4.3-4.4: group.share.max.partition.max.record.locks
INT 30000..3600000 3.9-4.4: group.share.max.record.lock.duration.ms
INT 5..25 4.3-4.4: group.share.max.delivery.count.limit
INT 524288.. 4.3-4.4: group.coordinator.cached.buffer.max.bytes
  share.coordinator.cached.buffer.max.bytes
INT 8.. 2.8-3.9: password.encoder.key.length
LONG -1.. 4.3-4.4: remote.log.index.file.cache.ttl.ms
LONG -1.. 4.4-4.4: log.remote.copy.lag.bytes log.remote.copy.lag.ms
LONG .. 2.8-3.9: controlled.shutdown.retry.backoff.ms log.message.timestamp.difference.max.ms
LONG .. 2.8-4.4: connections.max.idle.ms connections.max.reauth.ms
  leader.imbalance.check.interval.seconds log.cleaner.dedupe.buffer.size log.flush.interval.ms
  log.flush.scheduler.interval.ms log.roll.jitter.ms queued.max.request.bytes
  replica.high.watermark.checkpoint.interval.ms replica.lag.time.max.ms
  sasl.kerberos.min.time.before.relogin socket.connection.setup.timeout.max.ms
  socket.connection.setup.timeout.ms
LONG .. 3.0-4.4: metadata.log.segment.ms metadata.max.retention.bytes metadata.max.retention.ms
LONG .. 3.4-4.4: sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
  sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
  sasl.oauthbearer.jwks.endpoint.retry.backoff.ms
LONG .. 4.1-4.4: internal.metadata.delete.delay.millis
LONG 0.. 2.8-4.4: log.cleaner.backoff.ms
LONG 0.. 3.4-4.4: metadata.log.max.snapshot.interval.ms
LONG 0.. 3.6-4.4: log.message.timestamp.after.max.ms log.message.timestamp.before.max.ms
  server.max.startup.time.ms
LONG 0.. 3.8-4.4: log.initial.task.delay.ms
LONG 0.. 4.0-4.4: controller.performance.always.log.threshold.ms
LONG 0.. 4.4-4.4: group.streams.acceptable.recovery.lag
LONG 1.. 2.8-2.8: quota.consumer.default quota.producer.default
LONG 1.. 2.8-4.4: delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms
  delegation.token.max.lifetime.ms log.flush.interval.messages log.retention.check.interval.ms
  log.roll.ms metrics.sample.window.ms offsets.retention.check.interval.ms
LONG 1.. 3.0-4.4: metadata.log.max.record.bytes.between.snapshots
  remote.log.index.file.cache.total.size.bytes remote.log.manager.task.interval.ms
  remote.log.manager.task.retry.backoff.max.ms remote.log.manager.task.retry.backoff.ms
LONG 1.. 3.8-4.4: log.dir.failure.timeout.ms remote.log.manager.copy.max.bytes.per.second
  remote.log.manager.fetch.max.bytes.per.second
LONG 1.. 3.9-4.4: unclean.leader.election.interval.ms
LONG 1.. 4.0-4.4: remote.list.offsets.request.timeout.ms
LONG 100.. 4.0-4.4: controller.performance.sample.period.ms
DOUBLE .. 2.8-4.4: log.cleaner.io.buffer.load.factor sasl.kerberos.ticket.renew.jitter
  sasl.kerberos.ticket.renew.window.factor sasl.login.refresh.window.factor
  sasl.login.refresh.window.jitter
DOUBLE 0..0.5 3.0-4.4: remote.log.manager.task.retry.jitter
WORD CreateTime|LogAppendTime 2.8-4.4: log.message.timestamp.type
WORD PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL 3.4-4.4: security.inter.broker.protocol
WORD required|requested|none 2.8-4.4: ssl.client.auth
WORD uncompressed|zstd|lz4|snappy|gzip|producer 3.4-4.4: compression.type
LIST broker|controller 2.8-4.4: process.roles
LIST classic|consumer|share|streams|unknown 3.7-4.4: group.coordinator.rebalance.protocols
"""
"""Kind of value, range or words, and the versions that know the settings which follow. Where the
versions differ, it is the widest range. Settings that `winnow.policy.config` has are left out.
"""
_VOTER = re.compile(r"\s*([+-]?)0*([0-9]{1,10})@.*:[0-9]+\s*")
_LISTENER = re.compile(r".*://\[?[0-9A-Za-z\-%._:]*\]?:[0-9]+\s*")
_CHECKS_TOGETHER = (3, 4, 0)
"""Earlier versions accept some settings that do not fit each other."""
_MEBIBYTE = 1 << 20
_AT_MOST = (
    ("replica.fetch.wait.max.ms", 500, "replica.socket.timeout.ms", 30_000),
    ("replica.fetch.wait.max.ms", 500, "replica.lag.time.max.ms", 30_000),
)
"""Two settings with their defaults: the first is at most the second."""


@dataclass(frozen=True, slots=True)
class _Row:
    kind: str
    allowed: str
    since: tuple[int, int, int]
    until: tuple[int, int, int]

    def known_to(self, kafka: KnownVersion) -> bool:
        """Whether all versions that the broker may be of know the setting."""
        return self.since <= kafka.oldest.first and kafka.newest.last <= self.until

    def why_not(self, name: str, text: str, where: str) -> str | None:
        """Return why a broker refuses the value, or None."""
        if self.kind in {"WORD", "LIST"}:
            words = text.split(",") if self.kind == "LIST" else [text]
            known = self.allowed.split("|")
            if not text or all(word.strip() in known for word in words):
                return None
            return _wrong(name, text, ", ".join(known), where)
        low, _, high = self.allowed.partition("..")
        allowed = Range(_end(low, Range().low), _end(high, Range().high))
        try:
            parse_value(name, text, ConfigType[self.kind], allowed, where=where)
        except UsageError as error:
            return str(error)
        return None


def _end(text: str, unlimited: float) -> float:
    return unlimited if not text else float(text) if "." in text else int(text)


def _rows() -> Iterator[tuple[str, _Row]]:
    for line in _TABLE.strip().replace("\n  ", " ").splitlines():
        head, _, names = line.partition(": ")
        kind, allowed, versions = head.split()
        since, until = (KafkaVersion.parse(text) for text in versions.split("-"))
        row = _Row(kind, allowed, since.first, until.last)
        yield from ((name, row) for name in names.split())


def settings_of(version: str) -> list[str]:
    """Return the names of the settings in the table that a version of Kafka supports."""
    kafka = asked_version(version)
    return [name for name, row in _rows() if row.known_to(kafka)]


def why_value_refused(
    own: Mapping[str, str], kafka: KnownVersion, *, file: str, unknown: Collection[str]
) -> str | None:
    """Return which value of a server.properties a broker refuses, or None if there is none here, or
    if the version of the broker is not known.

    Args:
        own: All keys and values of the file.
        kafka: The versions that the broker may be of.
        file: Name of the file.
        unknown: Keys whose values only a config provider knows.
    """
    if not kafka.source:
        return None
    rows = dict(_rows())
    values = {name: text for name, text in own.items() if name not in unknown}
    for name, text in values.items():
        row = rows.get(name)
        if row is not None and row.known_to(kafka) and (why := row.why_not(name, text, file)):
            return why
    if kafka.oldest.first < _CHECKS_TOGETHER:
        return None
    return next(_that_do_not_fit(values, file), None)


def _that_do_not_fit(values: Mapping[str, str], file: str) -> Iterator[str]:
    """All numbers have been parsed."""
    node, broker = values.get("node.id"), values.get("broker.id")
    if node is not None and broker is not None and int(node) != int(broker):
        yield _wrong("node.id", node, f"the value of broker.id, {broker}", file)
    roles = {role.strip() for role in values.get("process.roles", "").split(",") if role.strip()}
    node = node or broker
    if roles and node is not None and int(node) < 0:
        yield _wrong("node.id", node, "at least 0", file)
    voters = values.get("controller.quorum.voters", "")
    found = [_VOTER.fullmatch(voter) for voter in voters.split(",")] if voters else []
    ids = {int(voter[1] + voter[2]) for voter in found if voter is not None}
    if None in found:
        yield _wrong("controller.quorum.voters", voters, "a list of ID@HOST:PORT", file)
    elif roles and ids and node is not None and (int(node) in ids) != ("controller" in roles):
        word = "with" if "controller" in roles else "without"
        yield _wrong("controller.quorum.voters", voters, f"voters {word} this node {node}", file)
    listeners = values.get("listeners", "")
    if listeners and not all(map(_LISTENER.fullmatch, listeners.split(","))):
        yield _wrong("listeners", listeners, "a list of NAME://HOST:PORT", file)
    for first, default, second, limit in _AT_MOST:
        low, high = int(values.get(first, default)), int(values.get(second, limit))
        if low > high:
            yield _wrong(first, str(low), f"at most {second}, {high}", file)
    queued = int(values.get("queued.max.request.bytes", -1))
    request = int(values.get("socket.request.max.bytes", 100 * _MEBIBYTE))
    if 0 < queued < request:
        yield _wrong("queued.max.request.bytes", str(queued), f"at least {request}", file)
    buffer = int(values.get("log.cleaner.dedupe.buffer.size", 128 * _MEBIBYTE))
    if buffer // int(values.get("log.cleaner.threads", 1)) <= _MEBIBYTE:
        expected = "more than 1 MiB for each of log.cleaner.threads"
        yield _wrong("log.cleaner.dedupe.buffer.size", str(buffer), expected, file)


def _wrong(name: str, found: str, expected: str, where: str) -> str:
    error = UsageError(f"{name} has a wrong value", expected=expected, found=found, where=where)
    return str(error)
