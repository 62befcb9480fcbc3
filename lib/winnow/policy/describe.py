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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from winnow.budget import Budget
from winnow.errors import UsageError
from winnow.policy.config import Value
from winnow.policy.keys import (
    NOT_DYNAMIC,
    STATIC,
    Ignored,
    Wrong,
    parse_broker_value,
    parse_topic_value,
    unknown_topic_key,
    unless_wrong,
)
from winnow.state import ALL_BROKERS, Section

_ENTITY = r"(?P<entity>\S++(?:\s++\S++)*?)\s++are"  # word by word: takes linear time
_SECTION = re.compile(rf"(?P<which>Dynamic|All|Default)\s+configs\s+for\s+{_ENTITY}:?$")
_ONE_LINE = re.compile(rf"Configs\s+for\s+{_ENTITY}\b:?\s*(?P<pairs>.*)")
_LISTED = re.compile(r" sensitive=(?:true|false) synonyms=\{")
"""Between the value of a setting and its synonyms, in a line that ends with a brace."""
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
_OTHER = ("other", "")
_OPTION = "--topic-configs"
_MOST_LINES = 1_000_000
"""Lines with a setting or a topic. Each takes up to 1 KB of memory."""
MOST_NOTES = 20
"""Notes of a kind about one file; further ones are counted."""


@dataclass(frozen=True, slots=True)
class SettingEntry:
    """One setting from some source: Kafka's key, its checked value, and its place, for people."""

    key: str
    value: Value | Ignored | Wrong
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConfigs:
    """The configs in a file of --topic-configs, or in a metadata log. Every topic that is named has
    a section, even one without overrides.
    """

    entries: Mapping[Section, Mapping[str, SettingEntry]] = field(default_factory=dict)
    """The settings of each section, by key."""
    described: frozenset[Section] = frozenset()
    """The sections that Kafka's tool described: none of their own settings is missing."""
    notes: tuple[str, ...] = ()

    def of(self, kind: str, name: object = "") -> Mapping[str, SettingEntry]:
        return self.entries.get((kind, str(name)), {})


def parse_topic_configs(text: str) -> DescribedConfigs:
    """Parse both forms, which may be mixed.

    Raises UsageError, naming the line, for anything else. A key that a broker printed and Winnow
    does not know is noted, not refused: the broker knew it. An unusable value, two different values
    of one key, and an unknown key in a line `TOPIC KEY=VALUE` become `Wrong`: they affect the
    topics for which they count, not the run.
    """
    reader = _Reader()
    for number, line in enumerate(text.lstrip("\ufeff").splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith(("#", *_WARNINGS)):
            reader.read(line, f"{_OPTION} line {number}")
    return DescribedConfigs(
        entries=reader.entries,
        described=frozenset(reader.described),
        notes=counted_notes(list(dict.fromkeys(reader.notes)), what=_OPTION),
    )


def counted_notes(notes: Sequence[str], *, what: str) -> tuple[str, ...]:
    """Return the first notes about `what`, and a note with the number of all others."""
    more = len(notes) - MOST_NOTES
    return (
        tuple(notes)
        if more <= 1
        else (*notes[:MOST_NOTES], f"{what}: {more:,} more settings are ignored")
    )


def parse_topic_configs_file(text: str, *, file: str) -> DescribedConfigs:
    """Like `parse_topic_configs`. UsageError also for a file that names neither a topic nor a
    broker: the command that was to write it has failed.
    """
    found = parse_topic_configs(text)
    if not found.entries:
        raise UsageError(
            "the file of topic configs names no topic",
            expected="lines TOPIC KEY=VALUE, or what kafka-configs --describe prints",
            found="nothing of the kind",
            where=file,
            hint="Did the command fail that writes it?",
        )
    return found


def reported_entry(
    section: Section, key: str, text: str, *, where: str, dynamic: bool = True
) -> SettingEntry | str | None:
    """Return a setting that a broker or a controller reports, or why it is ignored. None for an
    unknown key of a broker: plug-ins have their own. `dynamic`: it may not be from the broker's
    server.properties.
    """
    of_topic = section[0] == "topic"
    if dynamic and not of_topic and key in STATIC:
        return f"{key} {NOT_DYNAMIC}"
    parse = parse_topic_value if of_topic else parse_broker_value
    value = unless_wrong(parse, key, text, where=where)
    if value is None:
        return f"{key} is unknown to Winnow and ignored" if of_topic else None
    return SettingEntry(key, value, where)


class _Reader:
    def __init__(self) -> None:
        self._section: Section | None = None
        self._overrides_only = True
        self.entries: dict[Section, dict[str, SettingEntry]] = {}
        self.described: set[Section] = set()
        self.notes: list[str] = []
        self._lines = Budget(
            _MOST_LINES, "lines and settings", "the file of topic configs is too large",
            hint="Print the configs of fewer topics at a time, or without --all.", error=UsageError,
        )  # fmt: skip

    def read(self, line: str, where: str) -> None:
        self._lines.take(1, where)
        text = line.strip()
        if section := _SECTION.match(text):
            self._open(section["entity"], overrides_only=section["which"] != "All")
        elif one_line := _ONE_LINE.match(text):
            self._open(one_line["entity"], overrides_only=True)
            for pair in filter(None, _NEXT_PAIR.split(one_line["pairs"].strip())):
                self._lines.take(1, where)
                key, _, value = pair.partition("=")
                self._printed(key, value, where)
        elif (
            text.endswith("}")
            and (entry := _BARE.match(text))
            and (listed := _LISTED.search(entry["value"]))
        ):
            if self._section is None:
                raise UsageError(
                    "a config without a heading that names its topic or broker",
                    expected="`Dynamic configs for topic T are:`, as kafka-configs.sh prints it, "
                    "or `T key=value`",
                    found=text,
                    where=where,
                )
            value, synonyms = entry["value"][: listed.start()], entry["value"][listed.end() : -1]
            self._printed(entry["key"], value, where, synonyms=synonyms)
        elif self._section and line[0].isspace() and (bare := _BARE.match(text)):
            self._printed(bare["key"], bare["value"], where)
        else:
            self._plain(text, where)

    def _open(self, entity: str, *, overrides_only: bool) -> None:
        self._overrides_only = overrides_only
        kind, _, name = entity.partition(" ")
        name = name.strip("'\"")
        if entity in _ALL_BROKERS:
            self._section = ALL_BROKERS
        elif kind == "topic":
            self._section = ("topic", name)
        elif kind in {"broker", "brokers"} and _NODE_ID.match(name):
            self._section = ("broker", str(int(name)))
        else:
            self._section = _OTHER
        if self._section not in {ALL_BROKERS, _OTHER}:
            self.entries.setdefault(self._section, {})
        self.described.add(self._section)

    def _printed(self, key: str, value: str, where: str, *, synonyms: str = "") -> None:
        """Add an entry as a broker prints it. The broker prints `null` for "not set"."""
        section = self._section or _OTHER
        if section == _OTHER or value == "null":
            return
        read = reported_entry(section, key, value, where=where, dynamic=self._overrides_only)
        if isinstance(read, str):
            self.notes.append(f"{_OPTION}: {read}")
        elif read is not None:
            sources = _SYNONYM_SOURCE.findall(synonyms)
            overridden = _TOPIC_OVERRIDE in sources or (not sources and self._overrides_only)
            if section[0] == "topic" and not overridden:
                section = ("effective", section[1])
                source = sources[0] if sources else "unknown source"
                read = replace(read, where=f"{where}, {source}")
            self._add(read, section)

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
        self.entries.setdefault(("topic", topic), {})
        if equals:
            key = key.strip()
            read = unless_wrong(parse_topic_value, key, value, where=where)
            if read is None:  # typed wrongly, perhaps: what was meant is unknown
                read = Wrong(str(unknown_topic_key(key, where=where)))
            self._add(SettingEntry(key, read, where), ("topic", topic))

    def _add(self, entry: SettingEntry, section: Section) -> None:
        known = self.entries.setdefault(section, {})
        before = known.get(entry.key)
        if before is None or isinstance(entry.value, Wrong):
            known[entry.key] = entry
        elif not isinstance(before.value, Wrong) and before.value != entry.value:
            error = UsageError(
                f"{' '.join(section).strip()} has two values for {entry.key}",
                expected=f"{before.value} as in {before.where}",
                found=str(entry.value),
                where=entry.where,
            )
            known[entry.key] = replace(entry, value=Wrong(str(error)))
