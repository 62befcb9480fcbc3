"""Topics and settings that the cluster's metadata log tells, as policy wants them: parsed values
only (S9.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from winnow.policy.describe import Entry
from winnow.policy.keys import broker_value, topic_value

Texts = Mapping[str, tuple[str, str]]
"""Kafka's key -> (the value's text, where it stands)."""


@dataclass(frozen=True, slots=True)
class TopicIdentity:
    """What makes a partition directory one of this topic and not of an earlier one of the same
    name.
    """

    topic_id: str
    partitions: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataSettings:
    """All that a metadata log says. `problem`: why nothing could be learned from it; the rest is
    empty then.
    """

    log: str
    """Its name and how far it reaches, in words."""
    topics: Mapping[str, TopicIdentity] = field(default_factory=dict)
    overrides: Mapping[str, tuple[Entry, ...]] = field(default_factory=dict)
    brokers: Mapping[int, tuple[Entry, ...]] = field(default_factory=dict)
    """Node id -> the dynamic configs of that broker alone."""
    all_brokers: tuple[Entry, ...] = ()
    notes: tuple[str, ...] = ()
    problem: str | None = None

    def why_unknown(self, topic: str) -> str | None:
        """Why the log gives no setting of `topic`; None if it knows the topic."""
        if self.problem is not None:
            return f"{self.log} can't be read: {self.problem}"
        if topic in self.topics:
            return None
        return (
            f"{self.log} knows no topic {topic}: a broker would set its partitions aside as strays"
        )

    def why_foreign(self, topic: str, partition: int, topic_id: str | None) -> str | None:
        """Why a partition directory is not that of the topic as the log knows it; None if it is, or
        nobody can tell.

        `topic_id`: what the directory's `partition.metadata` says, None if there is none.
        """
        known = self.topics.get(topic)
        if known is None:
            return None
        if topic_id is None:
            return "it has no partition.metadata, and without a topic id a broker would set it aside as a stray"
        if topic_id != known.topic_id:
            return (
                f"an old incarnation of topic {topic}: its topic id is {topic_id}, that of the topic {known.topic_id} "
                f"({self.log}); a broker would set it aside as a stray"
            )
        if partition not in known.partitions:
            return f"topic {topic} has no partition {partition} ({self.log}); a broker would set it aside as a stray"
        return None


def metadata_settings(
    *,
    log: str,
    topics: Mapping[str, TopicIdentity],
    topic_configs: Mapping[str, Texts],
    broker_configs: Mapping[int, Texts],
    all_brokers: Texts,
    notes: tuple[str, ...] = (),
) -> MetadataSettings:
    """Parses the values. One that Winnow would refuse spoils the topics for which it counts, not
    the run; a topic's key that is not known is noted: the controller that wrote it had to know it.
    """
    unknown: set[str] = set()
    overrides = {topic: _topic_entries(texts, unknown) for topic, texts in topic_configs.items()}
    return MetadataSettings(
        log=log,
        topics=topics,
        overrides=overrides,
        brokers={
            node: _broker_entries(texts, f"broker {node}") for node, texts in broker_configs.items()
        },
        all_brokers=_broker_entries(all_brokers, "all brokers"),
        notes=(
            *notes,
            *(f"{log}: {key} is not known to Winnow; ignored" for key in sorted(unknown)),
        ),
    )


def _topic_entries(texts: Texts, unknown: set[str]) -> tuple[Entry, ...]:
    entries = []
    for key, (text, where) in texts.items():
        value = topic_value(key, text, where=where)
        if value is None:
            unknown.add(key)
        else:
            entries.append(Entry(key, value, where))
    return tuple(entries)


def _broker_entries(texts: Texts, of_whom: str) -> tuple[Entry, ...]:
    read = (
        (key, broker_value(key, text, where=where), where) for key, (text, where) in texts.items()
    )
    # Of the rest many are plug-ins' own.
    return tuple(
        Entry(key, value, f"{where} ({of_whom})") for key, value, where in read if value is not None
    )
