"""What Winnow says of a state, in the words of the comparison: the only place that asks."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.kafka.starts.bases import LOG_DIRS
from tests.kafka.starts.rights import without_rights
from winnow.cleaning.plan.settings import with_metadata
from winnow.errors import WinnowError
from winnow.logdir.survey import survey_log_dirs
from winnow.policy.server_properties import parse_server_properties
from winnow.policy.sources import Settings
from winnow.policy.versions import asked_version
from winnow.start.broker import expected_starts
from winnow.start.values import BrokerStart, Fate, LogStart
from winnow.storage.places import Places


@dataclass(frozen=True, slots=True)
class Verdict:
    """`refused`: Winnow says nothing of the start, but why it does not work there at all."""

    fate: Fate
    is_safe: bool = False
    reasons: tuple[str, ...] = ()
    offline: frozenset[str] = frozenset()
    logs: Mapping[str, LogStart] = field(default_factory=dict)
    """By the path of the directory, as in `a/d-0`."""
    refused: bool = False


def verdict(version: str, root: Path, properties: Mapping[str, str] | None) -> Verdict:
    """`properties`: the broker's own file. None: neither the file nor the version is given."""
    storage = Places()
    paths = [str(root / name) for name in LOG_DIRS if (root / name).exists()]
    settings = Settings()
    if properties is not None:
        text = "".join(f"{key}={value}\n" for key, value in properties.items())
        settings = Settings(
            kafka=asked_version(version), server_properties=parse_server_properties(text)
        )
    with without_rights():
        try:
            log_dirs = survey_log_dirs(storage, paths)
            settings, _ = with_metadata(settings, storage, log_dirs)
            now = time.time_ns() // 10**6
            starts = expected_starts(None, log_dirs, settings, now=now)
        except (WinnowError, OSError) as error:
            said = str(error).replace(f"{root}/", "")
            return Verdict(Fate.STOPS, reasons=(said,), refused=True)
    if len(starts) != 1:
        return Verdict(Fate.STOPS, reasons=(f"{len(starts)} brokers",), refused=True)
    return _told(starts[0], root)


def _told(start: BrokerStart, root: Path) -> Verdict:
    reasons = [*start.reasons, *(r for one in start.log_dirs for r in one.reasons)]
    logs = {
        f"{Path(log.log_dir).name}/{log.name}": log for one in start.log_dirs for log in one.logs
    }
    reasons += [f"{path}: {log.reason}" for path, log in logs.items() if log.reason]
    return Verdict(
        fate=start.fate,
        is_safe=start.is_safe,
        reasons=tuple(reason.replace(f"{root}/", "") for reason in reasons),
        offline=frozenset(Path(one.path).name for one in start.log_dirs if one.is_offline),
        logs=logs,
    )
