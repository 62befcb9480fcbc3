"""Where settings come from and which one wins (S9.1).

There are two levels, as in Kafka. A setting of a topic overrides one of its broker.

    topic level    1. --topic-set GLOB:KEY=VALUE, the last one that matches
                   2. --topic-configs FILE, the topic's own overrides
                   3. the log directory's own __cluster_metadata-0, the topic's overrides
    broker level   4. --set KEY=VALUE
                   5. --topic-configs FILE: what `--all` printed of the topic, this broker's
                      section, that of all brokers
                   6. __cluster_metadata-0: this broker's dynamic configs, those of all brokers
                   7. --server-properties FILE
                   8. Kafka's default

A section that `kafka-configs` printed is whole. If 3 or 6 have a setting that it lacks, one of them
is older, and nobody knows which: the topics that would use the setting are left alone. A section
of `--all` has every setting, so 3 and 6 do not count.

`--set` takes a broker's name of a key. It changes topics without an override and never overrides a
topic's own setting. Use `--topic-set` for that. `--replace-cleaner` turns a `log.cleaner.enable`
of false into true, whatever its source. Only server.properties shows
whether a broker uses the default of a key: neither the metadata log nor a topic's overrides do. So
a default that deletes, of `cleanup.policy` and of `retention.ms`, is used only if that file was
given, wherever the topic's other settings come from. `--all` prints a value for each key of a topic
and needs no default. Within one source a broker's synonyms are looked up in Kafka's order:
`log.retention.ms` before `.minutes` before `.hours`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from winnow.errors import UsageError
from winnow.policy.config import (
    ASSUMED,
    BY_BROKER_NAME,
    BY_TOPIC_NAME,
    KAFKA_DEFAULT,
    KEYS,
    UNCONFIRMED_DEFAULT,
    TopicConfig,
    Value,
    topic_config,
)
from winnow.policy.describe import DescribedConfigs, SettingEntry, out_of_range
from winnow.policy.ignored_settings import CLEANER_TUNING, TOPIC_KEYS
from winnow.policy.keys import (
    TOPIC_NAMES,
    Ignored,
    Wrong,
    parse_broker_value,
    parse_topic_value,
    unknown_key,
    unknown_topic_key,
)
from winnow.policy.metadata import MetadataSettings, why_doubtful
from winnow.policy.server_properties import ServerProperties
from winnow.policy.versions import ANY_VERSION, KnownVersion
from winnow.state import ALL_BROKERS

CLEANER_OFF = "S9.1"
"""Rule of a partition that is left because `log.cleaner.enable` is false."""
REPLACE_CLEANER = "--replace-cleaner"
"""The source of a `log.cleaner.enable` that this option has changed."""
_NAMES = tuple(
    (name, key.name)
    for key in KEYS
    for name in reversed((key.name, *(synonym.name for synonym in key.synonyms)))
)
"""Every name of a setting, and the topic's name of it. The last one that is set wins."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A topic of unknown cleanup policy: skipped, never guessed. `reason` says what to pass."""

    reason: str


@dataclass(frozen=True, slots=True)
class TopicSet:
    glob: str
    entry: SettingEntry


def parse_set(text: str, *, option: str = "--set") -> SettingEntry:
    """Parse `KEY=VALUE` of --set: a broker's name of a key. UsageError for any other key, and for a
    topic's name: whoever types one may mean all topics or only their defaults.
    """
    where = f"{option} {text}"
    key, value = _split(text, where)
    parsed = parse_broker_value(key, value, where=where)
    if parsed is not None:
        return SettingEntry(key, parsed, where)
    if key in BY_TOPIC_NAME or key in TOPIC_KEYS:
        synonyms = BY_TOPIC_NAME[key].synonyms if key in BY_TOPIC_NAME else ()
        default = (
            f"--set {synonyms[0].name}={value} sets the broker's default. " if synonyms else ""
        )
        raise UsageError(
            f"{key} is a setting of topics, and --set takes settings of brokers",
            found=text,
            hint=f"{default}--topic-set '*:{text}' sets it for all topics, even those with a value "
            "of their own.",
        )
    if ":" in key:
        raise _unclear(text, where, "KEY=VALUE", "--topic-set takes GLOB:KEY=VALUE.")
    raise unknown_key(key, [*BY_BROKER_NAME, *CLEANER_TUNING], where=where)


def parse_topic_set(text: str, *, option: str = "--topic-set") -> TopicSet:
    """Parse `GLOB:KEY=VALUE` of --topic-set: a topic's name of a key. UsageError for any other."""
    where = f"{option} {text}"
    glob, colon, pair = text.partition(":")
    if not colon or not glob or "=" in glob:
        raise _unclear(text, where, "GLOB:KEY=VALUE, with a glob on topics")
    key, value = _split(pair, where)
    parsed = parse_topic_value(key, value, where=where)
    if parsed is None:
        raise unknown_topic_key(key, where=where)
    return TopicSet(glob, SettingEntry(key, parsed, where))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All given settings, parsed. `resolve` returns those of one topic."""

    sets: Sequence[SettingEntry] = ()
    topic_sets: Sequence[TopicSet] = ()
    topic_configs: DescribedConfigs | None = None
    server_properties: ServerProperties | Sequence[ServerProperties] | None = None
    """That of the broker; with several brokers, one for each."""
    allow_other_broker: bool = False
    """Use a server.properties although its node.id or log.dirs belong to another broker."""
    compare_log_dirs: bool = True
    """False for private copies, which lie elsewhere."""
    replace_cleaner: bool = False
    """Winnow is the cleaner of these brokers: decide as if `log.cleaner.enable` were true."""
    metadata: MetadataSettings | None = None
    """Settings from the log directory's own metadata log. The operator gave all the others."""
    kafka: KnownVersion = ANY_VERSION
    """The version of Kafka whose rules, ranges and defaults apply."""

    @property
    def servers(self) -> tuple[ServerProperties, ...]:
        found = self.server_properties
        if found is None:
            return ()
        return (found,) if isinstance(found, ServerProperties) else tuple(found)

    def server_of(self, node_id: int | None) -> ServerProperties | None:
        """Return a broker's server.properties. One without a node.id is the only broker's."""
        servers = self.servers
        own = [s for s in servers if s.node_id is not None and s.node_id == node_id]
        if own or len(servers) != 1:
            return next(iter(own), None)
        [only] = servers
        return only if only.node_id is None or node_id is None or self.allow_other_broker else None

    def resolve(self, topic: str, *, node_id: int | None = None) -> TopicConfig | Unknown:
        """Return the settings of `topic` on the broker `node_id` (from meta.properties; it selects
        the broker section).

        A topic is known if the --topic-configs file or the metadata log names it, or if --topic-set
        gives its policy. Without a metadata log --set may give the policy too. Contradicting values
        are a UsageError if options gave all of them. If a file of topic configs or a metadata log
        gave one of them, the topic is skipped.
        """
        printed = self._printed
        topic_levels = list(self._topic_levels(topic))
        named = any((kind, topic) in printed.entries for kind in ("topic", "effective"))
        has_policy = named or any("cleanup.policy" in level for level in topic_levels)
        missing = None if self.metadata is None else self.metadata.why_unknown(topic)
        set_for_all = any(entry.key == "log.cleanup.policy" for entry in self.sets)
        if not has_policy and (missing is not None or (self.metadata is None and not set_for_all)):
            known = "" if missing is None else f" ({missing})"
            return Unknown(
                f"the cleanup.policy of topic {topic} is unknown, and guessing it could destroy "
                f"data{known}: name the topic in --topic-configs FILE (what `kafka-configs "
                f"--entity-type topics --describe` prints), or pass --topic-set "
                f"'{topic}:cleanup.policy=...'"
            )
        found = dict(self._of_broker(topic, node_id))
        for level in reversed(topic_levels):
            found |= level
        entries = {key.name: found[key.name] for key in KEYS if key.name in found}
        # If the name of a topic's setting is no topic config, nobody knows what was meant.
        misnamed = [
            entry
            for level in topic_levels
            for name, entry in level.items()
            if isinstance(entry.value, Wrong) and name not in TOPIC_NAMES
        ]
        for entry in (*misnamed, *entries.values()):
            why = (
                entry.value.why
                if isinstance(entry.value, Wrong)
                else out_of_range(entry, self.kafka)
            )
            if why is not None:
                return Unknown(f"a setting of topic {topic} can't be used: {why}")
        values = {
            name: (entry.value, _source(name, entry))
            for name, entry in entries.items()
            if not isinstance(entry.value, Ignored | Wrong)
        }
        used = [entries[name] for name in values]
        if self.replace_cleaner and values.get("log.cleaner.enable", (True, ""))[0] is False:
            values["log.cleaner.enable"] = (True, REPLACE_CLEANER)
        doubt = why_doubtful(self._own_log, printed, used, topic, node_id)
        if doubt is not None:
            return Unknown(doubt)
        confirmed = self.server_of(node_id) is not None
        guess = None if confirmed else _default_that_deletes(values)
        if guess is not None:
            return Unknown(
                f"topic {topic} has no {guess} of its own, and its broker's server.properties was "
                "not given: Kafka's default would be a guess that could destroy data. Pass "
                f"--server-properties FILE, or --set log.{guess}=..."
            )
        default_source = (
            KAFKA_DEFAULT if confirmed or self.metadata is None else UNCONFIRMED_DEFAULT
        )
        try:
            return topic_config(values, default_source=default_source, kafka=self.kafka)
        except UsageError as error:
            if self.metadata is None and not named:
                raise
            return Unknown(str(error))

    def resolve_for_any_policy(
        self, topic: str, *, node_id: int | None = None
    ) -> TopicConfig | Unknown:
        """As `resolve`, for verbs that apply no policy: they need not know it."""
        found = self.resolve(topic, node_id=node_id)
        assumed = tuple[TopicSet, ...]()
        for setting in ("retention.ms=-1", "cleanup.policy=delete"):
            if isinstance(found, Unknown):
                assumed = (*assumed, parse_topic_set(f"*:{setting}", option=ASSUMED))
                lenient = replace(self, topic_sets=(*assumed, *self.topic_sets))
                found = lenient.resolve(topic, node_id=node_id)
        return found

    def io_rate(self, *, node_id: int | None) -> float | None:
        """Return the broker's `log.cleaner.io.max.bytes.per.second`. None if nobody set it."""
        entry = self._of_broker("", node_id).get("log.cleaner.io.max.bytes.per.second")
        return entry.value if entry is not None and isinstance(entry.value, float) else None

    def notes(self) -> tuple[str, ...]:
        """Return notes to print once per run: settings that are accepted and ignored."""
        notes = [
            f"{entry.where}: does not affect files at rest; ignored"
            for entry in (*self.sets, *(s.entry for s in self.topic_sets))
            if isinstance(entry.value, Ignored) and entry.key not in CLEANER_TUNING
        ]
        notes += [
            f"{entry.where}: Kafka {self.kafka.versions} has no such setting; ignored"
            for entry in self.sets
            if entry.key in self.kafka.rules.unknown_settings
        ]
        printed = self._printed
        given = {entry.key for entry in self.sets}.union(
            *(own for (kind, _), own in printed.entries.items() if kind in {"broker", "cluster"}),
            *(server.entries for server in self.servers),
        )
        tuning = sorted(CLEANER_TUNING & given)
        if tuning:
            notes.append(
                f"{', '.join(tuning)}: ignored, since one partition uses all cores and no buffer "
                "is sized by hand"
            )
        of_servers = (note for server in self.servers for note in server.notes)
        notes += [*printed.notes, *of_servers, *self._own_log.notes]
        if self.servers and not self._tells_dynamic_settings():
            notes.append(
                "the dynamic settings of brokers are unknown; they override server.properties. Add "
                "the output of `kafka-configs --entity-type brokers --describe` to the file of "
                "--topic-configs"
            )
        return tuple(dict.fromkeys(notes))

    @property
    def _printed(self) -> DescribedConfigs:
        """What `kafka-configs` printed: the file of --topic-configs."""
        return self.topic_configs or DescribedConfigs()

    @property
    def _own_log(self) -> DescribedConfigs:
        return DescribedConfigs() if self.metadata is None else self.metadata.configs

    def _tells_dynamic_settings(self) -> bool:
        """Return whether a source has the dynamic settings of brokers, if there are any."""
        if self.metadata is not None and self.metadata.problem is None:
            return True
        kinds = {kind for kind, _ in (*self._printed.described, *self._printed.entries)}
        return not kinds.isdisjoint({"effective", "broker", "cluster"})

    def _topic_levels(self, topic: str) -> Iterator[Mapping[str, SettingEntry]]:
        yield {s.entry.key: s.entry for s in self.topic_sets if fnmatchcase(topic, s.glob)}
        yield self._printed.of("topic", topic)
        if ("effective", topic) not in self._printed.entries:
            yield self._own_log.of("topic", topic)

    def _of_broker(self, topic: str, node_id: int | None) -> Mapping[str, SettingEntry]:
        """Return the settings of broker level, by the topic's name of each key. That name wins
        within a source: only --set and --all have it.
        """
        printed, own, server = self._printed, self._own_log, self.server_of(node_id)
        levels = [
            {entry.key: entry for entry in self.sets},
            printed.of("effective", topic),
            printed.of("broker", self._only_broker() if node_id is None else node_id),
            printed.of(*ALL_BROKERS),
            own.of("broker", node_id),
            own.of(*ALL_BROKERS),
            {} if server is None else server.entries,
        ]
        missing = self.kafka.rules.unknown_settings
        return {
            key: level[name]
            for level in reversed(levels)
            if level
            for name, key in _NAMES
            if name in level and name not in missing
        }

    def _only_broker(self) -> str | None:
        sections = self._printed.entries
        brokers = sorted((name for kind, name in sections if kind == "broker"), key=int)
        if len(brokers) > 1:
            raise UsageError(
                "the configs of several brokers were given, and it is unknown which of them owns "
                "the log directory",
                found=f"brokers {', '.join(brokers)}",
                where="--topic-configs",
                hint="Keep the section of the one whose node.id is in meta.properties.",
            )
        return brokers[0] if brokers else None


def _default_that_deletes(values: Mapping[str, tuple[Value, str]]) -> str | None:
    """Return the key that nobody gave and whose default may delete live data."""
    if "cleanup.policy" not in values:
        return "cleanup.policy"
    policy, _ = values["cleanup.policy"]
    return "retention.ms" if "delete" in str(policy) and "retention.ms" not in values else None


def _source(name: str, entry: SettingEntry) -> str:
    if entry.key == name or entry.where.startswith("--set"):
        return entry.where
    return f"{entry.key}, {entry.where}"


def _split(text: str, where: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise _unclear(text, where, "KEY=VALUE")
    return key.strip(), value


def _unclear(text: str, where: str, expected: str, hint: str | None = None) -> UsageError:
    problem = "a setting that can't be understood"
    return UsageError(problem, expected=expected, found=text, where=where, hint=hint)
