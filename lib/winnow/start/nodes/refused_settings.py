"""Settings that a broker refuses: it does not start with them."""

from __future__ import annotations

from collections.abc import Mapping

from winnow.policy.describe import DescribedConfigs, SettingEntry, out_of_range
from winnow.policy.keys import TOPIC_NAMES, Wrong
from winnow.policy.other_properties import from_providers
from winnow.policy.server_properties import ServerProperties
from winnow.policy.versions import KnownVersion
from winnow.start.nodes.broker_values import why_value_refused

_BEFORE_4 = frozenset(
    (
        "message.downconversion.enable",
        "message.format.version",
        "message.timestamp.difference.max.ms",
    )
)
"""Topic configs that later brokers do not know."""


def why_refused(
    server: ServerProperties | None, own: DescribedConfigs, kafka: KnownVersion
) -> str | None:
    """Return which setting keeps a broker from starting: a value that it refuses in its
    server.properties, or in the metadata log for any topic. None: Winnow knows none.

    A broker parses the settings of all topics before it loads a log (`LogManager`), and ignores
    unknown keys.

    Args:
        server: Its server.properties. None: not given.
        own: The settings in its metadata log.
        kafka: The versions that it may be of.
    """
    names = TOPIC_NAMES - (_BEFORE_4 if kafka.newest.major >= 4 else frozenset())
    if server is not None:
        unknown = from_providers(server.own)
        wrong = (
            server.refused
            or _first_out_of_range(server.entries, kafka)
            or why_value_refused(server.own, kafka, file=server.file, unknown=unknown)
        )
        if wrong is not None:
            return f"the broker refuses a setting: {wrong}"
    for (kind, topic), entries in own.entries.items():
        if kind != "topic":
            continue
        known = {name: entry for name, entry in entries.items() if name in names}
        values = (entry.value for entry in known.values())
        wrong = next((value.why for value in values if isinstance(value, Wrong)), None)
        wrong = wrong or _first_out_of_range(known, kafka)
        if wrong is not None:
            return f"the broker refuses a setting of topic {topic}: {wrong}"
    return None


def _first_out_of_range(entries: Mapping[str, SettingEntry], kafka: KnownVersion) -> str | None:
    """Return None if there is none, or if the version is unknown."""
    if not kafka.source:
        return None
    missing = kafka.rules.unknown_settings
    known = (entry for name, entry in entries.items() if name not in missing)
    found = (out_of_range(entry, kafka) for entry in known)
    return next(filter(None, found), None)
