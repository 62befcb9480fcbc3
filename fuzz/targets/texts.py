"""What people and tools write: server.properties, the output of kafka-configs, settings, names of
files.
"""

from __future__ import annotations

from collections.abc import Callable

from fuzz.scratch import log_dir, storage
from fuzz.targets.base import Target, require
from tests.fixtures.data import TOPIC_CONFIGS
from winnow.cleaning.plan.settings import with_metadata
from winnow.errors import CorruptLogError, UsageError
from winnow.logdir.names import DirectoryKind, base_offset_of, parse_partition_dir, segment_file
from winnow.policy.describe import parse_topic_configs
from winnow.policy.server_properties import parse_server_properties
from winnow.policy.sources import Settings, parse_set, parse_topic_set

_PROPERTIES = b"""# a broker
node.id=1
log.retention.hours = 168
log.retention.ms:604800000
log.cleanup.policy compact,delete
log.cleaner.min.cleanable.ratio=0.5
log.dirs=/a,\\
  /b
log.message.format.version=\\u0033.0
metadata.log.dir=/m
"""
_DESCRIBED = b"""Dynamic configs for topic orders are:
  cleanup.policy=compact sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact}
All configs for broker 1 are:
  log.retention.ms=1 sensitive=false synonyms={STATIC_BROKER_CONFIG:a=1, DEFAULT_CONFIG:x=y}
Default configs for brokers in the cluster are:
  log.segment.bytes=1048576
Configs for topic 'a' are cleanup.policy=compact,segment.bytes=1048576
b cleanup.policy=delete
"""


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape") if data[:1] < b"\x80" else data.decode("latin-1")


def _server_properties(data: bytes) -> None:
    found = parse_server_properties(_text(data))
    settings = Settings(
        server_properties=found, topic_sets=[parse_topic_set("*:cleanup.policy=compact")]
    )
    settings.resolve("t", node_id=1)
    settings.notes()
    with_metadata(settings, storage, [log_dir()])


def _topic_configs(data: bytes) -> None:
    found = parse_topic_configs(_text(data))
    settings = Settings(topic_configs=found)
    for _, topic in [*found.entries, ("topic", "t")][:5]:
        settings.resolve(topic, node_id=1)
    settings.notes()


def _sets(data: bytes) -> None:
    text = _text(data[1:])
    if data[:1] >= b"\x40":
        settings = Settings(
            topic_sets=[parse_topic_set(text)], sets=[parse_set("log.cleanup.policy=compact")]
        )
    else:
        settings = Settings(sets=[parse_set(text), parse_set("log.cleanup.policy=compact")])
    settings.resolve("t", node_id=None)


def _directory_name(data: bytes) -> None:
    """Any name that a directory entry can have."""
    name = data.replace(b"/", b"").replace(b"\0", b"")[:255].decode("utf-8", "surrogateescape")
    found = parse_partition_dir(name)
    partition = found.topic_partition
    require(
        "/" not in name
        and (partition is None) == (found.kind in {DirectoryKind.DELETE, DirectoryKind.STRAY}),
        name,
    )
    require(partition is None or (partition.partition >= 0 and bool(partition.topic)), name)
    if partition is not None and found.kind is DirectoryKind.CURRENT and found.is_canonical:
        require(str(partition) == name, "a directory would be looked for under another name")


def _file_name(data: bytes) -> None:
    name = data.replace(b"/", b"").replace(b"\0", b"")[:255].decode("utf-8", "surrogateescape")
    base = base_offset_of(name)
    require(
        0 <= base < 2**63 and name.startswith(segment_file(base, "")),
        "a file would be looked for elsewhere",
    )


def _lines(text: bytes) -> Callable[[], list[bytes]]:
    return lambda: [text, *(line + b"\n" for line in text.splitlines())]


TARGETS = {
    "server-properties": Target(
        check=_server_properties, seeds=_lines(_PROPERTIES), refusals=(UsageError,)
    ),
    "topic-configs": Target(
        check=_topic_configs,
        seeds=lambda: [*_lines(_DESCRIBED)(), *_lines(TOPIC_CONFIGS.read_bytes()[:2000])()],
        refusals=(UsageError,),
    ),
    "settings": Target(
        check=_sets,
        seeds=lambda: [
            flag + text
            for text in (
                b"cleanup.policy=compact",
                b"*:retention.ms=-1",
                b"log.retention.hours=1",
                b"t:min.x=0.5",
            )
            for flag in (b"\x00", b"\x40")
        ],
        refusals=(UsageError,),
    ),
    "directory-name": Target(
        check=_directory_name,
        seeds=lambda: [
            *(b"orders-0", b"a-b.c-3", b"x-delete-0", b"..-0", b"t--1", b"t-+7", b"t-007"),
            *(b"t-0." + b"f" * 32 + suffix for suffix in (b"-delete", b"-stray", b"-future")),
        ],
        refusals=(UsageError,),
    ),
    "file-name": Target(
        check=_file_name,
        seeds=lambda: [
            b"%020d" % n + s
            for n in (0, 5, 2**63 - 1, 10**19)
            for s in (b".log", b".index.swap", b"")
        ],
        refusals=(CorruptLogError,),
    ),
}
