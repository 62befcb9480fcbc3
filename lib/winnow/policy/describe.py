"""Parse topic and broker configs from text: lines of `TOPIC KEY=VALUE`, and everything that
`kafka-configs --describe` prints.

    Dynamic configs for topic orders are:
      cleanup.policy=compact sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact}
    All configs for topic orders are:
      retention.ms=604800000 sensitive=false synonyms={}
    Dynamic configs for broker 1 are:
    Default configs for brokers in the cluster are:
    Configs for topic 'orders' are cleanup.policy=compact,segment.bytes=1048576
    Configs for brokers '1' are log.retention.ms=1
    Configs for default brokers are log.retention.ms=1

`Dynamic` sections list overrides only. `All` sections (`--all`) list effective values, and the
first synonym is in effect. The last forms are those of `--zookeeper`: of topics up to Kafka 2.8, of
brokers that are down up to 3.9. A warning precedes them.
Sections of users, clients, groups and loggers are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from winnow.errors import UsageError
from winnow.policy.keys import (
    NOT_DYNAMIC,
    Ignored,
    Value,
    Wrong,
    broker_value,
    is_dynamic,
    topic_value,
    unknown_topic_key,
)

_ENTITY = r"(?P<entity>\S++(?:\s++\S++)*?)\s++are"  # word by word: takes linear time
_SECTION = re.compile(rf"(?P<which>Dynamic|All|Default)\s+configs\s+for\s+{_ENTITY}:?$")
_ONE_LINE = re.compile(rf"Configs\s+for\s+{_ENTITY}\b:?\s*(?P<pairs>.*)$")
_ENTRY = re.compile(
    r"(?P<key>[^=\s]+)=(?P<value>.*?) sensitive=(?:true|false) synonyms=\{(?P<synonyms>.*)\}\s*$"
)
_BARE = re.compile(r"(?P<key>[^=\s]+)=(?P<value>.*)$")
_SYNONYM_SOURCE = re.compile(r"(?:^|,\s*)([A-Z][A-Z_]+):")
_NEXT_PAIR = re.compile(r",\s*(?=[A-Za-z][\w.]*=)")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}$")
_NODE_ID = re.compile(r"[0-9]{1,10}$")
_WARNINGS = (
    "Warning: --zookeeper is deprecated ",
    "Use --bootstrap-server instead to specify a broker ",
)
_ALL_BROKERS = frozenset({"brokers in the cluster", "default brokers"})
_TOPIC_OVERRIDE = "DYNAMIC_TOPIC_CONFIG"


@dataclass(frozen=True, slots=True)
class Entry:
    """One setting from some source: Kafka's key, its checked value, and its place, for people."""

    key: str
    value: Value | Ignored | Wrong
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConfigs:
    """The contents of a file of configs, where every named topic is a key of `topics`, with or
    without overrides; or the configs in a metadata log.
    """

    topics: Mapping[str, tuple[Entry, ...]] = field(default_factory=dict)
    effective: Mapping[str, tuple[Entry, ...]] = field(default_factory=dict)
    """From `--all`: what a topic gets from its broker. Topic names of keys, but broker level."""
    brokers: Mapping[int, tuple[Entry, ...]] = field(default_factory=dict)
    """Node id -> the configs of that broker alone."""
    all_brokers: tuple[Entry, ...] = ()
    sections: frozenset[tuple[str, str]] = frozenset()
    """The kind and name of each topic or broker that Kafka's tool described: all of its own
    settings are here. The kind of all brokers is `cluster`.
    """
    notes: tuple[str, ...] = ()

    def of_broker(self, node_id: int | None) -> tuple[Entry, ...]:
        return () if node_id is None else self.brokers.get(node_id, ())


def parse_topic_configs(text: str, *, file: str = "--topic-configs") -> DescribedConfigs:
    """Parse both forms, which may be mixed.

    Raises UsageError, naming the line, for anything else. A key that a broker printed and Winnow
    does not know is noted, not refused: the broker knew it. An unusable value, two different values
    of one key, and an unknown key in a line `TOPIC KEY=VALUE` become `Wrong`: they affect the
    topics for which they count, not the run.
    """
    reader = _Reader(file)
    for number, line in enumerate(text.lstrip("\ufeff").splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith(("#", *_WARNINGS)):
            reader.read(line, f"{file} line {number}")
    return reader.result()


def parse_topic_configs_file(text: str, *, file: str) -> DescribedConfigs:
    """Like `parse_topic_configs`. UsageError also for a file that names neither a topic nor a
    broker: the command that was to write it has failed.
    """
    found = parse_topic_configs(text)
    if not (found.topics or found.effective or found.brokers or found.all_brokers):
        raise UsageError(
            "the file of topic configs names no topic",
            expected="lines TOPIC KEY=VALUE, or what kafka-configs --describe prints",
            found="nothing of the kind",
            where=file,
            hint="Did the command fail that writes it?",
        )
    return found


class _Reader:
    def __init__(self, file: str) -> None:
        self._file = file
        self._entity: tuple[str, str] | None = None
        self._overrides_only = True
        self._entries: dict[tuple[str, str], dict[str, Entry]] = {}
        self._sections: set[tuple[str, str]] = set()
        self._notes: list[str] = []

    def read(self, line: str, where: str) -> None:
        if section := _SECTION.match(line.strip()):
            self._open(section["entity"], overrides_only=section["which"] != "All")
        elif one_line := _ONE_LINE.match(line.strip()):
            self._open(one_line["entity"], overrides_only=True)
            for pair in _NEXT_PAIR.split(one_line["pairs"].strip()):
                if pair:
                    key, _, value = pair.partition("=")
                    self._printed(key, value, where)
        elif entry := _ENTRY.match(line.strip()):
            if self._entity is None:
                raise UsageError(
                    "a config without a heading that names its topic or broker",
                    expected="`Dynamic configs for topic T are:`, as kafka-configs.sh prints it, "
                    "or `T key=value`",
                    found=line.strip(),
                    where=where,
                )
            self._printed(entry["key"], entry["value"], where, synonyms=entry["synonyms"])
        elif self._entity is not None and line[0].isspace() and (pair := _BARE.match(line.strip())):
            self._printed(pair["key"], pair["value"], where)
        else:
            self._plain(line.strip(), where)

    def result(self) -> DescribedConfigs:
        def of(kind: str) -> dict[str, tuple[Entry, ...]]:
            return {name: tuple(e.values()) for (k, name), e in self._entries.items() if k == kind}

        return DescribedConfigs(
            topics=of("topic"),
            effective=of("effective"),
            brokers={int(name): entries for name, entries in of("broker").items()},
            all_brokers=of("cluster").get("", ()),
            sections=frozenset(self._sections),
            notes=tuple(dict.fromkeys(self._notes)),
        )

    def _open(self, entity: str, *, overrides_only: bool) -> None:
        self._overrides_only = overrides_only
        if entity in _ALL_BROKERS:
            self._entity = ("cluster", "")
        else:
            kind, _, name = entity.partition(" ")
            name = name.strip("'\"")
            if kind == "topic":
                self._entity = ("topic", name)
            elif kind in {"broker", "brokers"} and _NODE_ID.match(name):
                self._entity = ("broker", name)
            else:
                self._entity = ("other", entity)
        self._entries.setdefault(self._entity, {})
        self._sections.add(self._entity)

    def _printed(self, key: str, value: str, where: str, *, synonyms: str = "") -> None:
        """Add an entry as a broker prints it. The broker prints `null` for "not set"."""
        kind, name = self._entity or ("other", "")
        if kind == "other" or value == "null":
            return
        if kind == "topic":
            sources = _SYNONYM_SOURCE.findall(synonyms)
            overridden = _TOPIC_OVERRIDE in sources or (not sources and self._overrides_only)
            source = (
                where if overridden else f"{where}, {sources[0] if sources else 'unknown source'}"
            )
            read = topic_value(key, value, where=where)
            if read is None:
                self._notes.append(f"{self._file}: {key} is unknown to Winnow and ignored")
                return
            self._add(Entry(key, read, source), ("topic" if overridden else "effective", name))
        elif self._overrides_only and not is_dynamic(key):
            self._notes.append(f"{self._file}: {key} {NOT_DYNAMIC}")
        else:
            of_broker = broker_value(key, value, where=where)
            # A broker also prints unknown keys: plug-ins add their own.
            if of_broker is not None:
                self._add(Entry(key, of_broker, where), (kind, name))

    def _plain(self, line: str, where: str) -> None:
        topic, _, pair = line.partition(" ")
        key, equals, value = pair.strip().partition("=")
        if not _TOPIC.match(topic) or (pair.strip() and not equals):
            raise UsageError(
                "a line that can't be understood",
                expected="TOPIC KEY=VALUE, or what kafka-configs --describe prints",
                found=repr(line),
                where=where,
            )
        self._entries.setdefault(("topic", topic), {})
        if equals:
            key = key.strip()
            read = topic_value(key, value, where=where)
            if read is None:  # typed wrongly, perhaps: what was meant is unknown
                read = Wrong(str(unknown_topic_key(key, where=where)))
            self._add(Entry(key, read, where), ("topic", topic))

    def _add(self, entry: Entry, entity: tuple[str, str]) -> None:
        known = self._entries.setdefault(entity, {})
        before = known.get(entry.key)
        if before is None or isinstance(entry.value, Wrong):
            known[entry.key] = entry
        elif not isinstance(before.value, Wrong) and before.value != entry.value:
            error = UsageError(
                f"{' '.join(entity).strip()} has two values for {entry.key}",
                expected=f"{before.value} as in {before.where}",
                found=str(entry.value),
                where=entry.where,
            )
            known[entry.key] = replace(entry, value=Wrong(str(error)))
