"""How every verb says which version's rules it used."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from winnow.policy.versions import KnownVersion


def by_the_rules(kafka: KnownVersion) -> str:
    return f"By the {kafka}."


def version_keys(kafka: KnownVersion) -> dict[str, str]:
    """Return the keys of JSON objects: the versions, as `4.3` or `2.8 to 3.9`, and how that is
    known.
    """
    return {"kafka_version": kafka.versions, "kafka_version_source": kafka.how}
