"""Topics and settings from the cluster's metadata log, as parsed values (S9.3)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from winnow.policy.describe import DescribedConfigs, Entry
from winnow.policy.keys import NOT_DYNAMIC, broker_value, is_dynamic, topic_value
from winnow.state import TopicIdentity

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


def why_doubtful(
    own: DescribedConfigs,
    described: DescribedConfigs,
    used: Collection[Entry],
    topic: str,
    node_id: int | None,
) -> str | None:
    """Return why the settings of a topic are unknown: the metadata log (`own`) has one that the
    section which Kafka's tool printed (`described`) lacks. None if there is no such setting.

    The log ends where the broker stopped, so the setting may have been removed since. Or it was
    added after the section was printed. `used`: the settings that the topic would use.
    """
    for section, whom, entries, option in (
        (("topic", topic), f"topic {topic}", own.topics.get(topic, ()), f"--topic-set '{topic}:"),
        (("broker", str(node_id)), f"broker {node_id}", own.of_broker(node_id), "--set '"),
        (("cluster", ""), "all brokers", own.all_brokers, "--set '"),
    ):
        lacking = next((entry for entry in entries if entry in used), None)
        if section in described.sections and lacking is not None:
            return (
                f"{lacking.key} of {whom} is in the metadata log ({lacking.where}), and the "
                "section in --topic-configs lacks it. One of them is older, and guessing which "
                f"could destroy data: pass {option}{lacking.key}=...', or print the section anew, "
                "or leave --topic-configs out"
            )
    return None
