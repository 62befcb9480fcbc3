"""Values of a server.properties that come from a config provider (KIP-297, `ConfigTransformer`).
Only the broker can ask it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from winnow.errors import UsageError

_REFERENCE = re.compile(r"\$\{([^}]*?):(?:[^}]*?:)?[^}]*?\}")
_PROVIDERS = "config.providers"


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
