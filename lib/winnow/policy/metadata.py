"""Topics and settings from the cluster's metadata log, as parsed values (S9.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from winnow.policy.describe import DescribedConfigs, Entry
from winnow.policy.keys import NOT_DYNAMIC, Ignored, broker_value, is_dynamic, topic_value
from winnow.state import TopicIdentity

_SHOWN = 5
"""Settings that one note names."""
Texts = Mapping[str, tuple[str, str]]
"""Kafka's key -> (the value's text, its place)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataSettings:
    """Everything from a metadata log. `problem`: why it can't be read; the rest is then empty."""

    log: str
    """Its name and the offset it ends at, for people."""
    topics: Mapping[str, TopicIdentity] = field(default_factory=dict)
    configs: DescribedConfigs = field(default_factory=DescribedConfigs)
    problem: str | None = None

    def why_unknown(self, topic: str) -> str | None:
        """Return why the log has no settings of `topic`. None if it knows the topic."""
        if self.problem is not None:
            return f"{self.log} can't be read: {self.problem}"
        if topic in self.topics:
            return None
        return (
            f"{self.log} knows no topic {topic}: a broker would set its partitions aside as strays"
        )

    def why_foreign(
        self, topic: str, partition: int, topic_id: str | None, *, node_id: int | None
    ) -> str | None:
        """Return why a partition directory does not belong to the topic that the log knows, or not
        to the broker `node_id`.

        None if it does, or if that is unknown.

        `topic_id`: from the directory's `partition.metadata`, None if there is none.
        """
        known = self.topics.get(topic)
        if known is None:
            return None
        if topic_id is None:
            return (
                "it has no partition.metadata. Without a topic id a broker would set it aside as "
                "a stray"
            )
        if topic_id != known.topic_id:
            return (
                f"it belongs to an earlier topic {topic}: its topic id is {topic_id}, but that of "
                f"the topic is {known.topic_id} ({self.log}). A broker would set it aside as a "
                "stray"
            )
        replicas = known.replicas.get(partition)
        if replicas is None:
            return (
                f"topic {topic} has no partition {partition} ({self.log}); a broker would set "
                "it aside as a stray"
            )
        if node_id is not None and replicas and node_id not in replicas:
            return (
                f"its replicas are on {_nodes(replicas)} ({self.log}), and this is node {node_id}, "
                "which would set it aside as a stray"
            )
        return None


def _nodes(replicas: frozenset[int]) -> str:
    words = "node" if len(replicas) == 1 else "nodes"
    return f"{words} {', '.join(map(str, sorted(replicas)))}"


def metadata_settings(
    *,
    log: str,
    topics: Mapping[str, TopicIdentity],
    topic_configs: Mapping[str, Texts],
    broker_configs: Mapping[int, Texts],
    all_brokers: Texts,
    notes: tuple[str, ...] = (),
) -> MetadataSettings:
    """Parse the values. One that Winnow would refuse affects the topics for which it counts, not
    the run. An unknown topic key is noted: the controller that wrote it knew it.
    """
    unknown: set[str] = set()
    overrides = {topic: _topic_entries(texts, unknown) for topic, texts in topic_configs.items()}
    ignored = [f"{log}: {key} is unknown to Winnow and ignored" for key in sorted(unknown)]
    named = {key for texts in (all_brokers, *broker_configs.values()) for key in texts}
    ignored += [f"{log}: {key} {NOT_DYNAMIC}" for key in sorted(named) if not is_dynamic(key)]
    configs = DescribedConfigs(
        topics=overrides,
        brokers={
            node: _broker_entries(texts, f"broker {node}") for node, texts in broker_configs.items()
        },
        all_brokers=_broker_entries(all_brokers, "all brokers"),
        notes=(*notes, *ignored),
    )
    return MetadataSettings(log=log, topics=topics, configs=configs)


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
        (key, broker_value(key, text, where=where), where)
        for key, (text, where) in texts.items()
        if is_dynamic(key)
    )
    # Many of the rest are plug-ins' own keys.
    return tuple(
        Entry(key, value, f"{where} ({of_whom})") for key, value, where in read if value is not None
    )


def hidden_settings(own: DescribedConfigs, described: DescribedConfigs) -> str | None:
    """Return a note about the settings of the metadata log, `own`, that do not count because a
    section that Kafka's tool printed lacks them. None: all count.
    """
    hidden = [
        f"{key} of {kind} {name}" if name else f"{key} of all brokers"
        for kind, name in sorted(described.sections)
        for key in sorted(_keys(own, kind, name) - _keys(described, kind, name))
    ]
    if not hidden:
        return None
    more = f" and {len(hidden) - _SHOWN} more" if len(hidden) > _SHOWN else ""
    return (
        f"{', '.join(hidden[:_SHOWN])}{more}: in the metadata log, but not in the section of "
        "--topic-configs, which counts. Is that file older?"
    )


def _keys(configs: DescribedConfigs, kind: str, name: str) -> set[str]:
    """Return which settings that matter to files at rest a topic, a broker, or all brokers have."""
    entries: tuple[Entry, ...] = ()
    if kind == "topic":
        entries = configs.topics.get(name, ())
    elif kind == "broker":
        entries = configs.brokers.get(int(name), ())
    elif kind == "cluster":
        entries = configs.all_brokers
    return {entry.key for entry in entries if not isinstance(entry.value, Ignored)}
