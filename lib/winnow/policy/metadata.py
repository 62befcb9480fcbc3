"""Topics and settings from the cluster's metadata log, as parsed values (S9.3)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from winnow.policy.describe import DescribedConfigs, SettingEntry, reported_entry
from winnow.state import ALL_BROKERS, Section, Texts, TopicIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataSettings:
    """Everything from the metadata log that the brokers use. `problem`: why it gives nothing; the
    rest is then empty.
    """

    log: str
    """Its name and the offset it ends at, for people."""
    topics: Mapping[str, TopicIdentity] = field(default_factory=dict)
    configs: DescribedConfigs = field(default_factory=DescribedConfigs)
    written_at: int = -1
    """Time of its last record, in ms; -1 if unknown."""
    problem: str | None = None

    def why_unknown(self, topic: str) -> str | None:
        """Return why the log has no settings of `topic`. None if it knows the topic."""
        if self.problem is not None:
            return self.problem
        if topic in self.topics:
            return None
        return (
            f"{self.log} knows no topic {topic}: a broker would set its partitions aside as strays"
        )

    def directory_of(self, topic: str, partition: int, node_id: int | None) -> str | None:
        """Return the `directory.id` of the log directory in which the controller knows the replica
        of node `node_id`. None if that is unknown.
        """
        known = self.topics.get(topic)
        if known is None or node_id is None:
            return None
        return known.directories.get(partition, {}).get(node_id)

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
                f"a stray. If its records are those of the topic, the file has the lines "
                f"`version: 0` and `topic_id: {known.topic_id}`"
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
            nodes = "node" if len(replicas) == 1 else "nodes"
            return (
                f"its replicas are on {nodes} {', '.join(map(str, sorted(replicas)))} "
                f"({self.log}), and this is node {node_id}, which would set it aside as a stray"
            )
        return None


def metadata_settings(
    *,
    log: str,
    topics: Mapping[str, TopicIdentity],
    sections: Mapping[Section, Texts],
    notes: tuple[str, ...] = (),
    written_at: int = -1,
) -> MetadataSettings:
    """Parse the values. One that Winnow would refuse affects the topics for which it counts, not
    the run. An unknown topic key is noted: the controller that wrote it knew it.
    """
    entries: dict[Section, dict[str, SettingEntry]] = {section: {} for section in sections}
    ignored: dict[bool, set[str]] = {True: set(), False: set()}
    for section, texts in sections.items():
        of_topic = section[0] == "topic"
        for key, (text, where) in texts.items():
            read = reported_entry(section, key, text, where=where)
            if isinstance(read, str):
                ignored[of_topic].add(f"{log}: {read}")
            elif read is not None:
                place = where if of_topic else f"{where} ({_words(section)})"
                entries[section][key] = replace(read, where=place)
    found = (*notes, *sorted(ignored[True]), *sorted(ignored[False]))
    configs = DescribedConfigs(entries=entries, notes=found)
    return MetadataSettings(log=log, topics=topics, configs=configs, written_at=written_at)


def _words(section: Section) -> str:
    return "all brokers" if section == ALL_BROKERS else " ".join(section)


def why_doubtful(
    own: DescribedConfigs,
    described: DescribedConfigs,
    used: Collection[SettingEntry],
    topic: str,
    node_id: int | None,
) -> str | None:
    """Return why the settings of a topic are unknown: the metadata log (`own`) has one that the
    section which Kafka's tool printed (`described`) lacks. None if there is no such setting.

    The log ends where the broker stopped, so the setting may have been removed since. Or it was
    added after the section was printed. `used`: the settings that the topic would use.
    """
    for section in (("topic", topic), ("broker", str(node_id)), ALL_BROKERS):
        lacking = next((entry for entry in own.of(*section).values() if entry in used), None)
        if section in described.described and lacking is not None:
            option = f"--topic-set '{topic}:" if section[0] == "topic" else "--set '"
            return (
                f"{lacking.key} of {_words(section)} is in the metadata log ({lacking.where}), and "
                "the section in --topic-configs lacks it. One of them is older, and guessing which "
                f"could destroy data: pass {option}{lacking.key}=...', or print the section anew, "
                "or leave --topic-configs out"
            )
    return None
