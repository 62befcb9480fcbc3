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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from sys import getsizeof, intern

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
from winnow.policy.versions import ANY, KnownVersion
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
"""Lines with a setting or a topic."""
_MOST_BYTES = 256 << 20
"""What is kept of them, in memory: more than 350,000 topics with a setting each."""
_SECTION_BYTES, _ENTRY_BYTES = 256, 240
"""What a section and a setting take in memory beside their texts."""
MOST_NOTES = 20
"""Notes of a kind about one file; further ones are counted."""
_LONGEST_KEY = 200
"""Characters of a key that a note shows."""
Check = Callable[[], object]
"""Is called for each setting, and may raise, as when a run is to stop."""
UNCHECKED: Check = bool


@dataclass(frozen=True, slots=True)
class SettingEntry:
    """One setting from some source: Kafka's key, its checked value, and its place, for people."""

    key: str
    value: Value | Ignored | Wrong
    where: str


def out_of_range(entry: SettingEntry, kafka: KnownVersion) -> str | None:
    """Return why the broker's version would not accept this value, or None."""
    allowed = kafka.rules.settings.get(entry.key, ANY)
    if allowed is None:
        problem = f"{entry.key} is no setting of Kafka {kafka.versions}"
        return str(UsageError(problem, where=entry.where, hint="Is --kafka-version right?"))
    value = entry.value
    if isinstance(value, bool) or not isinstance(value, int | float) or allowed.has(value):
        return None
    problem = f"{entry.key} is out of range for Kafka {kafka.versions}"
    return str(UsageError(problem, expected=str(allowed), found=str(value), where=entry.where))


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


def parse_topic_configs(text: str, *, check: Check = UNCHECKED) -> DescribedConfigs:
    """Parse both forms, which may be mixed.

    Raises UsageError, naming the line, for anything else. A key that a broker printed and Winnow
    does not know is noted, not refused: the broker knew it. An unusable value, two different values
    of one key, and an unknown key in a line `TOPIC KEY=VALUE` become `Wrong`: they affect the
    topics for which they count, not the run.
    """
    reader = _Reader(check)
    for number, line in enumerate(_lines(text.removeprefix("\ufeff")), start=1):
        if line.strip() and not line.lstrip().startswith(("#", *_WARNINGS)):
            reader.read(line, f"{_OPTION} line {number}")
    return DescribedConfigs(
        entries=reader.entries, described=frozenset(reader.described), notes=reader.notes.all()
    )


def _lines(text: str) -> Iterator[str]:
    """Yield the lines of a text, without a list of all of them."""
    begin = 0
    while begin < len(text):
        end = text.find("\n", begin)
        end = len(text) if end < 0 else end
        yield text[begin:end]
        begin = end + 1


class Notes:
    """The first notes of a kind about one file, and the number of further ones."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._first: dict[str, None] = {}
        self._more = 0

    @property
    def are_enough(self) -> bool:
        """Return whether further notes are only counted, whatever they say."""
        return len(self._first) == MOST_NOTES

    def add(self, note: str) -> None:
        if not self.are_enough:
            self._first[note] = None
        elif note not in self._first:
            self._more += 1

    def all(self) -> tuple[str, ...]:
        more = f"{self._what}: {self._more:,} more settings are ignored"
        return (*self._first, *([more] if self._more else []))


def parse_topic_configs_file(text: str, *, file: str, check: Check = UNCHECKED) -> DescribedConfigs:
    """Like `parse_topic_configs`. UsageError also for a file that names neither a topic nor a
    broker: the command that was to write it has failed.
    """
    found = parse_topic_configs(text, check=check)
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
        return f"{key[:_LONGEST_KEY]} is unknown to Winnow and ignored" if of_topic else None
    return SettingEntry(key, value, where)


def _budget(most: int, unit: str) -> Budget:
    return Budget(
        most,
        unit,
        "the file of topic configs is too large",
        hint="Print the configs of fewer topics at a time, or without --all.",
        error=UsageError,
    )


class _Reader:
    def __init__(self, check: Check) -> None:
        self._check = check
        self._section: Section | None = None
        self._overrides_only = True
        self.entries: dict[Section, dict[str, SettingEntry]] = {}
        self.described: set[Section] = set()
        self.notes = Notes(_OPTION)
        self._lines = _budget(_MOST_LINES, "lines and settings")
        self._memory = _budget(_MOST_BYTES, "bytes of memory")

    def read(self, line: str, where: str) -> None:
        self._count(where)
        text = line.strip()
        if section := _SECTION.match(text):
            self._open(section["entity"], where, overrides_only=section["which"] != "All")
        elif one_line := _ONE_LINE.match(text):
            self._open(one_line["entity"], where, overrides_only=True)
            pairs = _NEXT_PAIR.split(one_line["pairs"].strip(), self._lines.left + 1)
            for pair in filter(None, pairs):
                self._count(where)
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

    def _open(self, entity: str, where: str, *, overrides_only: bool) -> None:
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
            self._of(self._section, where)
        self.described.add(self._section)

    def _printed(self, key: str, value: str, where: str, *, synonyms: str = "") -> None:
        """Add an entry as a broker prints it. The broker prints `null` for "not set"."""
        section = self._section or _OTHER
        if section == _OTHER or value == "null":
            return
        dynamic = self._overrides_only
        read = reported_entry(section, intern(key), value, where=where, dynamic=dynamic)
        if isinstance(read, str):
            self.notes.add(f"{_OPTION}: {read}")
        elif read is not None:
            sources = (found[1] for found in _SYNONYM_SOURCE.finditer(synonyms))
            source = next(sources, None)
            overridden = (
                self._overrides_only
                if source is None
                else source == _TOPIC_OVERRIDE or _TOPIC_OVERRIDE in sources
            )
            if section[0] == "topic" and not overridden:
                section = ("effective", section[1])
                read = replace(read, where=f"{where}, {source or 'unknown source'}")
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
        section = ("topic", topic)
        self._of(section, where)
        if equals:
            key = intern(key.strip())
            read = unless_wrong(parse_topic_value, key, value, where=where)
            if read is None:  # typed wrongly, perhaps: what was meant is unknown
                read = Wrong(str(unknown_topic_key(key, where=where)))
            self._add(SettingEntry(key, read, where), section)

    def _add(self, entry: SettingEntry, section: Section) -> None:
        known = self._of(section, entry.where)
        before = known.get(entry.key)
        if before is None or isinstance(entry.value, Wrong):
            self._keep(entry, known)
        elif not isinstance(before.value, Wrong) and before.value != entry.value:
            error = UsageError(
                f"{' '.join(section).strip()} has two values for {entry.key}",
                expected=f"{before.value} as in {before.where}",
                found=str(entry.value),
                where=entry.where,
            )
            self._keep(replace(entry, value=Wrong(str(error))), known)

    def _of(self, section: Section, where: str) -> dict[str, SettingEntry]:
        known = self.entries.get(section)
        if known is None:
            self._memory.take(_SECTION_BYTES + getsizeof(section[1]), where)
            known = self.entries[section] = {}
        return known

    def _keep(self, entry: SettingEntry, known: dict[str, SettingEntry]) -> None:
        before = known.get(entry.key)
        if before is not None:
            self._memory.give_back(_bytes_of(before))
        self._memory.take(_bytes_of(entry), entry.where)
        known[entry.key] = entry

    def _count(self, where: str) -> None:
        """Count a line or a setting."""
        self._check()
        self._lines.take(1, where)


def _bytes_of(entry: SettingEntry) -> int:
    value = entry.value
    text = value.why if isinstance(value, Wrong) else value
    return _ENTRY_BYTES + sum(map(getsizeof, (entry.key, entry.where, text)))
