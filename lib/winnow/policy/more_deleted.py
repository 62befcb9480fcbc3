"""Which settings of the command line let more be deleted than the topic's own (decision 47)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from winnow.policy.config import BY_TOPIC_NAME, TopicConfig
from winnow.policy.retention import is_tiered
from winnow.policy.sources import Settings, Unknown


def deletes_more(
    settings: Settings, topic: str, config: TopicConfig, *, node_id: int | None
) -> tuple[str, ...]:
    """Return the settings of `--set` and `--topic-set` that may destroy records which the topic's
    own settings keep, each as `KEY=VALUE instead of VALUE`. `config`: with these options.

    Empty if the topic's policy is unknown without these options: then there is nothing to compare
    with.
    """
    own = replace(settings, sets=(), topic_sets=()).resolve(topic, node_id=node_id)
    return () if isinstance(own, Unknown) else tuple(_stronger(topic, config, own))


def _stronger(topic: str, config: TopicConfig, own: TopicConfig) -> Iterator[str]:
    compacts, deletes = config.cleanup_compact, config.cleanup_delete
    gained = (compacts and not own.cleanup_compact) or (deletes and not own.cleanup_delete)
    if gained:
        yield _words(
            "cleanup.policy", config.cleanup_policy or "none", own.cleanup_policy or "none"
        )
    if compacts and config.log_cleaner_enable and not own.log_cleaner_enable:
        yield _words("log.cleaner.enable", "true", "false")
    if is_tiered(topic, own) and not is_tiered(topic, config) and not gained:
        yield "the topic has no remote storage instead of remote storage"
    for applies, key, kept in (
        (deletes, "retention.ms", _limit),
        (deletes, "retention.bytes", _limit),
        (compacts, "delete.retention.ms", int),
        (compacts, "min.compaction.lag.ms", int),
    ):
        value, before = (getattr(one, BY_TOPIC_NAME[key].attribute) for one in (config, own))
        if applies and kept(value) < kept(before):
            yield _words(key, value, before)


def _limit(value: int) -> float:
    """A negative limit of retention is none."""
    return math.inf if value < 0 else value


def _words(key: str, value: object, before: object) -> str:
    return f"{key}={value} instead of {before}"
