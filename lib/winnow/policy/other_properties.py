"""Tell a broker's `server.properties` from other properties files (docs/reference/sources.md).

Most settings' names belong to several programs. A file without a broker's settings would confirm
Kafka's defaults, which delete. So a file counts only if it says which broker it configures or where
its logs lie, and if it is not the file of another program. One such setting beside others that are
none of a broker's shows too little: other programs have a `log.dir` or a `node.id`, too. Values
that come from a config provider (KIP-297, `ConfigTransformer`) are unknown: only the broker can ask
it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from winnow.errors import UsageError
from winnow.policy.config import BY_BROKER_NAME

OF_A_BROKER = ("node.id", "broker.id", "process.roles", "zookeeper.connect", "log.dir", "log.dirs")
"""A broker's file has at least one of these."""
_PROVIDERS = "config.providers"
_ALSO_OF_OTHERS = "zookeeper.connect"
"""Also in files of old clients and of programs beside a broker. So it needs one of _SETTINGS."""
_SETTINGS = (
    *("log.", "num.", "offsets.", "broker.", "inter.broker.", "transaction.state."),
    *("zookeeper.metadata.", "zookeeper.set.acl"),
)
"""Beginnings of settings that other programs do not have."""
_CLIENTS = "bootstrap.servers"

_OTHER_FILES: Mapping[str, tuple[str, ...]] = {
    "a connector's configuration": ("connector.class", "tasks.max"),
    "a Connect worker's configuration": (
        *("key.converter", "value.converter", "offset.storage.file.filename"),
        *("offset.storage.topic", "config.storage.topic", "status.storage.topic"),
    ),
    "a configuration of MirrorMaker": ("clusters", "source.cluster.alias"),
    "a configuration of Kafka Streams": ("application.id",),
    "a producer's configuration": (
        *("key.serializer", "value.serializer", "acks", "linger.ms", "enable.idempotence"),
        *("max.in.flight.requests.per.connection", "transactional.id", "buffer.memory"),
    ),
    "a consumer's configuration": (
        *("group.id", "key.deserializer", "value.deserializer", "auto.offset.reset"),
        *("enable.auto.commit", "isolation.level", "max.poll.records"),
    ),
    "a configuration of ZooKeeper": ("dataDir", "clientPort", "tickTime"),
    "the configuration of a schema registry or a REST proxy": (
        *("schema.registry.url", "kafkastore.connection.url", "kafkastore.bootstrap.servers"),
        *("kafkastore.topic", "schema.registry.host.name"),
    ),
}
"""What a file is, and settings that only such a file has; tried in this order."""
_OF_CLIENTS = {"a producer's configuration", "a consumer's configuration"}
_LOGGING = ("log4j.", "appender.", "logger.", "rootLogger")
_SECURITY = ("ssl.", "sasl.", "security.")
_META_PROPERTIES = ("version", "cluster.id")
_MOST_KEYS = 3
_CLIENTS_OF_ITS_OWN = re.compile(r"[^.]+\.bootstrap\.servers")
"""As MirrorMaker has: an alias, and where that cluster is."""
_ONLY_OF_BROKERS = (
    *("listeners", "listener.", "advertised.", "inter.broker.", "controller.", "num."),
    *("offsets.", "broker.", "transaction.state."),
)
"""Beginnings of settings of brokers that clients do not have."""
_LEAST_NAMED = 2
"""How many settings must be a broker's in a file that has others, too: a broker ignores those, as
of its plug-ins.
"""


def check_is_of_a_broker(own: Mapping[str, str], *, known: Collection[str], file: str) -> None:
    """Raise UsageError unless this is a broker's file. `own`: all its keys and their values.
    `known`: those keys of it that are a broker's settings.
    """
    known = {*known, *OF_A_BROKER}
    keys = frozenset(key for key, value in own.items() if value)
    roles = {role.strip() for role in own.get("process.roles", "").split(",")} - {""}
    if roles and "broker" not in roles and "process.roles" not in from_providers(own):
        raise UsageError(
            "the server.properties of a controller",
            expected="that of a broker, with broker in process.roles",
            found=f"process.roles={own['process.roles']}",
            where=file,
            hint="A controller has no topics, and its settings are not those of the brokers. Give "
            "the file of the broker whose log directories these are.",
        )
    programs = _programs(keys)
    # A broker ignores a client's settings, but for those that name other brokers.
    named = keys.intersection(OF_A_BROKER) - {_ALSO_OF_OTHERS} and _CLIENTS not in keys
    unknown = sorted(key for key in keys - known if not key.startswith(_SECURITY))
    of_brokers = [
        key
        for key in keys & known
        if key in OF_A_BROKER or key in BY_BROKER_NAME or key.startswith(_ONLY_OF_BROKERS)
    ]
    if named and (unknown or programs) and len(of_brokers) < _LEAST_NAMED:
        named = False
        programs = programs or {"that of another program": unknown}
    with_zookeeper = _ALSO_OF_OTHERS in keys and any(key.startswith(_SETTINGS) for key in keys)
    if keys.issuperset(_META_PROPERTIES):
        programs = {"the meta.properties of a log directory": _META_PROPERTIES}
    elif (named and programs.keys() <= _OF_CLIENTS) or (with_zookeeper and not programs):
        return
    expected, found = f"one of {', '.join(OF_A_BROKER)}, and no {_CLIENTS}", "none of them"
    if programs:
        what, settings = next(iter(programs.items()))
        found = f"a file that looks like {what}: {', '.join([*settings][:_MOST_KEYS])}"
    elif _ALSO_OF_OTHERS in keys:
        expected = (
            f"beside {_ALSO_OF_OTHERS}, which other programs have too, settings of a broker such "
            "as log.dirs or broker.id"
        )
        found = f"only {_ALSO_OF_OTHERS}"
    raise UsageError(
        "this is not the server.properties of a broker",
        expected=expected,
        found=found,
        where=file,
        hint="Give the file with which the broker is started.",
    )


def _programs(keys: Collection[str]) -> dict[str, Sequence[str]]:
    """Return what the file could be, each with the keys that show it, the likeliest first. Empty if
    no key shows anything.
    """
    client = (_CLIENTS,) if _CLIENTS in keys else ()
    programs: dict[str, Sequence[str]] = {}
    for what, settings in _OTHER_FILES.items():
        if found := [key for key in settings if key in keys]:
            programs[what] = (*client, *found)
    if own := sorted(key for key in keys if _CLIENTS_OF_ITS_OWN.fullmatch(key)):
        programs.setdefault("a configuration of MirrorMaker", own)
    if client and not programs:
        programs["a client's configuration"] = client
    if logging := sorted(key for key in keys if key.startswith(_LOGGING)):
        programs["a configuration of logging"] = logging
    if not programs and keys and all(key.startswith(_SECURITY) for key in keys):
        programs["a client's configuration of security"] = sorted(keys)
    return programs


def from_providers(own: Mapping[str, str]) -> frozenset[str]:
    """Return the keys whose values refer to a provider. Without its name in `config.providers` a
    broker takes the text as it is. `own`: all keys and values of the file.
    """
    names = {name.strip() for name in own.get(_PROVIDERS, "").split(",")} - {""}
    return frozenset(key for key, value in own.items() if names.intersection(providers_in(value)))


def providers_in(value: str) -> Iterator[str]:
    """Yield the provider of each reference `${PROVIDER:PATH:KEY}` or `${PROVIDER:KEY}`, as Kafka's
    `ConfigTransformer` finds them, whose pattern takes no linear time.
    """
    at = value.find("${")
    while at >= 0 and (end := value.find("}", at)) >= 0:
        colon = value.find(":", at, end)
        if colon >= 0:
            yield value[at + 2 : colon]
        at = value.find("${", end)


def not_asked(key: str, value: str, *, where: str) -> UsageError:
    """Return why a value is unknown. `value`: the reference, which is no secret."""
    return UsageError(
        f"{key} comes from a config provider, which Winnow does not ask",
        found=value,
        where=where,
        hint="Give a copy of the file with the value in its place, or --set.",
    )
