"""What to run where the settings of topics are unknown, and where such settings may be found."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from winnow.errors import FAILS_ONE_PARTITION
from winnow.storage.contract import Storage
from winnow.verbs.doctor.values import Advice
from winnow.words import counted

_MOST = 8
"""Topics that the command names."""
_IN_ZOOKEEPER = "ZooKeeper (`zookeeper-shell.sh HOST:2181 get /config/topics/TOPIC`)"
_KEEPS_ALL = "cleanup.policy="
"""The empty policy: nothing is compacted, and no limit of retention applies, from any source."""
_USUAL_FILES = (
    "/etc/kafka/server.properties",
    "/etc/kafka/broker.properties",
    "/etc/kafka/kraft/server.properties",
    "/opt/kafka/config/server.properties",
    "/opt/kafka/config/broker.properties",
    "/opt/kafka/config/kraft/server.properties",
    "/opt/bitnami/kafka/config/server.properties",
    "/usr/local/kafka/config/server.properties",
)
"""Where packages and images put the file of a broker."""


def usual_files(storage: Storage) -> tuple[str, ...]:
    """Return the usual properties files of a broker that exist on this machine. Which broker they
    belong to is unknown: they are never read.
    """
    found = []
    for path in _USUAL_FILES:
        with suppress(FAILS_ONE_PARTITION):  # it can't be seen
            if storage.exists(path):
                found.append(path)
    return tuple(found)


def give_settings(
    topics: Sequence[str],
    *,
    have_broker_file: bool,
    zookeeper: bool,
    nearby: Sequence[str],
    started_with: str | None = None,
) -> Advice:
    """Return a `plan` that sets the cleanup policy of these topics to none: it keeps all records,
    whatever the other settings are.

    `topics`: most bytes first. `zookeeper`: the brokers keep their topics there. `nearby`:
    properties files on this machine that may be the broker's. `started_with`: the properties file
    in the command of the running broker.
    """
    named = topics[:_MOST]
    sets = [word for topic in named for word in ("--topic-set", f"{topic}:{_KEEPS_ALL}")]
    rest = len(topics) - len(named)
    also = f", and {counted(rest, 'more topic')}" if rest else ""
    where = [
        "an earlier `kafka-configs --describe` (--topic-configs)",
        "GitOps or Strimzi (KafkaTopic)",
        "the __cluster_metadata-0 of another node of the cluster",
    ]
    if zookeeper:
        where = [_IN_ZOOKEEPER, *where[:2]]
    here = f" On this machine: {', '.join(nearby)}." if nearby else ""
    if started_with is not None:
        here = f" The running broker was started with {started_with}."
    defaults = (
        ""
        if have_broker_file
        else (
            " What topics do not set themselves is in the broker's server.properties "
            f"(--server-properties).{here}"
        )
    )
    return Advice(
        ("plan", *sets),
        f"the settings of {counted(len(topics), 'topic')} are unknown. As printed, this keeps all "
        f"records of {counted(len(named), 'topic')}, which then have no cleanup policy: put the "
        f"topics' own settings in{also}. They "
        f"may be found in {', '.join(where[:-1])}, or {where[-1]}.{defaults}",
    )
