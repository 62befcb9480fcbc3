"""Tell a broker's `server.properties` from other properties files (docs/reference/sources.md).

Most settings' names belong to several programs. A file without a broker's settings would confirm
Kafka's defaults, which delete. So a file counts only if it says which broker it configures or where
its logs lie, and if it is not the file of another program. Values that come from a config provider
(KIP-297, `ConfigTransformer`) are unknown: only the broker can ask it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from winnow.errors import UsageError

OF_A_BROKER = ("node.id", "broker.id", "process.roles", "zookeeper.connect", "log.dir", "log.dirs")
"""A broker's file has at least one of these."""
_REFERENCE = re.compile(r"\$\{([^}]*?):(?:[^}]*?:)?[^}]*?\}")
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
_OF_CLIENTS = ("a producer's configuration", "a consumer's configuration")
_LOGGING = ("log4j.", "appender.", "logger.", "rootLogger")
_SECURITY = ("ssl.", "sasl.", "security.")
_META_PROPERTIES = ("version", "cluster.id")
_MOST_KEYS = 3


def check_is_of_a_broker(own: Mapping[str, str], *, file: str) -> None:
    """Raise UsageError unless this is a broker's file. `own`: all its keys and their values."""
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
    looks = _looks_like(keys)
    sure = keys.intersection(OF_A_BROKER) - {_ALSO_OF_OTHERS}
    settings = any(key.startswith(_SETTINGS) for key in keys)
    if keys.issuperset(_META_PROPERTIES):
        looks = _words("the meta.properties of a log directory", _META_PROPERTIES)
    elif looks is None and (sure or (_ALSO_OF_OTHERS in keys and settings)):
        return
    elif sure and _CLIENTS not in keys and _is_of_client(keys):
        return  # a client's setting does nothing there
    alone = _ALSO_OF_OTHERS in keys and not looks
    raise UsageError(
        "this is not the server.properties of a broker",
        expected=f"one of {', '.join(OF_A_BROKER)}, and no {_CLIENTS}"
        if not alone
        else f"beside {_ALSO_OF_OTHERS}, which other programs have too, settings of a broker such "
        "as log.dirs or broker.id",
        found=f"a file that looks like {looks}"
        if looks
        else f"only {_ALSO_OF_OTHERS}"
        if alone
        else "none of them",
        where=file,
        hint="Give the file with which the broker is started.",
    )


def _is_of_client(keys: frozenset[str]) -> bool:
    """Return whether all that other programs have in common with these keys is a client's."""
    others = (settings for what, settings in _OTHER_FILES.items() if what not in _OF_CLIENTS)
    logging = any(key.startswith(_LOGGING) for key in keys)
    return not logging and all(keys.isdisjoint(settings) for settings in others)


def _looks_like(keys: Collection[str]) -> str | None:
    """Return what the file looks like, with the keys that show it. None if nothing shows it."""
    client = (_CLIENTS,) if _CLIENTS in keys else ()
    for what, settings in _OTHER_FILES.items():
        found = [key for key in settings if key in keys]
        if found:
            return _words(what, (*client, *found))
    if client:
        return _words("a client's configuration", client)
    logging = sorted(key for key in keys if key.startswith(_LOGGING))
    if logging:
        return _words("a configuration of logging", logging)
    if keys and all(key.startswith(_SECURITY) for key in keys):
        return _words("a client's configuration of security", sorted(keys))
    return None


def _words(what: str, keys: Iterable[str]) -> str:
    return f"{what}: {', '.join([*keys][:_MOST_KEYS])}"


def from_providers(own: Mapping[str, str]) -> frozenset[str]:
    """Return the keys whose values refer to a provider. Without its name in `config.providers` a
    broker takes the text as it is. `own`: all keys and values of the file.
    """
    names = {name.strip() for name in own.get(_PROVIDERS, "").split(",")} - {""}
    return frozenset(
        key for key, value in own.items() if names.intersection(_REFERENCE.findall(value))
    )


def not_asked(key: str, value: str, *, where: str) -> UsageError:
    """Return why a value is unknown. `value`: the reference, which is no secret."""
    return UsageError(
        f"{key} comes from a config provider, which Winnow does not ask",
        found=value,
        where=where,
        hint="Give a copy of the file with the value in its place, or --set.",
    )
