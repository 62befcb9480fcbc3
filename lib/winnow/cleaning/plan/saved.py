"""A plan in a file: what was asked, what it was made from, and what was decided.

Whoever carries it out decides again, with the same words, clock and files, and compares: nothing in
the file is done because the file says so. So a file that anybody wrote can at most ask for what its
words would ask for on the command line. A plan in memory is compared in the same way.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from operator import attrgetter
from typing import Any

from winnow.cleaning.plan.partitions import Planned, SkippedPartition
from winnow.cleaning.request import Request
from winnow.clock import LATEST_MS
from winnow.errors import CorruptLogError, UsageError, WinnowError
from winnow.logdir.meta import read_meta
from winnow.logdir.names import LOG, META_PROPERTIES, segment_file
from winnow.policy.config import TopicConfig
from winnow.state import Segment
from winnow.storage.contract import Storage
from winnow.storage.own_json import JsonValue, parse_json
from winnow.storage.places import Places
from winnow.version import VERSION
from winnow.words import one_line

FORMAT = 1
MOST_BYTES, MOST_VALUES = 1 << 28, 1 << 24
"""Maximum size of the file. A segment takes about 100 bytes and 15 values."""
_HINT = "Make a new plan with `plan --out FILE`."
_DIGEST = 64
Plain = dict[str, Any]
"""An object of JSON."""
_SEGMENT = attrgetter(*(one.name for one in fields(Segment) if one.compare))
_OF_STATE = (
    "log_start_offset",
    "log_end_offset",
    "high_watermark",
    "cleaner_checkpoint",
    "log_start_checkpoint",
    "trusted_end",
    "lost_bytes",
)
_SETTINGS = tuple(one.name for one in fields(TopicConfig) if one.name not in {"sources", "rules"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirOf:
    """A log directory of a plan: its real path, and whose it is by `meta.properties`, if that can
    be read.
    """

    path: str
    node_id: int | None
    cluster_id: str | None

    @classmethod
    def read(cls, storage: Storage, path: str) -> LogDirOf:
        try:
            meta = read_meta(storage, path)
        except (UsageError, OSError):  # a directory in doubt, which the plan leaves alone
            return cls(path=path, node_id=None, cluster_id=None)
        return cls(path=path, node_id=meta.node_id, cluster_id=meta.cluster_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedPlan:
    now: int
    """The clock of every decision, ms since the epoch."""
    log_dirs: Sequence[LogDirOf]
    asked: Mapping[str, JsonValue]
    """The options that decide, by name, as they were typed. Not checked yet."""
    files: Mapping[str, str]
    """Files of settings: real path -> SHA-256 of the content."""
    kafka_version: str
    """The versions whose rules were used."""
    kafka_version_source: str
    partitions: Mapping[str, Mapping[str, Any]]
    """By directory: what was found (`facts_of`) and decided (`decision_of`). Only compared."""

    def check_files(self, planned: Sequence[Planned], request: Request) -> None:
        """Raise WinnowError unless these are the log directories of the plan, and unchanged."""
        for one in self.log_dirs:
            if LogDirOf.read(request.storage, one.path) != one:
                raise WinnowError(
                    "the log directory is another one than that of the plan",
                    expected=f"node.id {one.node_id} and cluster.id {one.cluster_id}",
                    found="others",
                    where=f"{one.path}/{META_PROPERTIES}",
                    hint=_HINT,
                )
        check_facts({path: one["found"] for path, one in self.partitions.items()}, planned)

    def check(self, planned: Sequence[Planned], request: Request) -> None:
        """The same, and raise WinnowError unless every decision is that of the plan."""
        self.check_files(planned, request)
        version = request.settings.kafka.versions
        if version != self.kafka_version:
            raise WinnowError(
                "the log directory is of another version of Kafka than when the plan was made",
                expected=self.kafka_version,
                found=version,
                hint=_HINT,
            )
        for item in planned:
            before = self.partitions[item.place.directory]["decided"]
            now = decision_of(item)
            if before != now:
                raise changed(item.place.directory, _other_decision(before, now))


def _other_decision(before: object, now: Plain) -> str:
    """Name the first setting that differs, otherwise what is decided now."""
    settings = before.get("settings") if isinstance(before, dict) else None
    if isinstance(settings, dict):
        for name, value in now.get("settings", {}).items():
            if name not in settings or settings[name] != value:
                return f"{name.replace('_', '.')}={value}, another value than in the plan"
    return f"another decision than in the plan: {now['reason']} ({now['rule']})"


def found_and_decided(planned: Iterable[Planned]) -> dict[str, Plain]:
    return {
        item.place.directory: {"found": facts_of(item), "decided": decision_of(item)}
        for item in planned
    }


def as_json(plan: SavedPlan) -> bytes:
    """Return the content of the file. Lines for people: one for each partition."""
    head = {
        "format": FORMAT,
        "winnow_version": VERSION,
        "now": plan.now,
        "kafka_version": plan.kafka_version,
        "kafka_version_source": plan.kafka_version_source,
        "log_dirs": [asdict(one) for one in plan.log_dirs],
        "asked": {name: value.raw for name, value in plan.asked.items()},
        "files": dict(plan.files),
    }
    partitions = f'"partitions": {{\n{_members(plan.partitions)}\n}}'
    return f"{{\n{_members(head)},\n{partitions}\n}}\n".encode()


def _members(fields: Mapping[str, object]) -> str:
    return ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in fields.items())


def parse_plan(data: bytes, path: str) -> SavedPlan:
    """Parse the content of a file. Raises UsageError for anything that `as_json` does not write,
    and for the plan of another version of Winnow.
    """
    try:
        return _parse(
            parse_json(data, path, hint=_HINT, most_bytes=MOST_BYTES, most_values=MOST_VALUES)
        )
    except CorruptLogError as error:
        raise error.like(UsageError) from None


def _parse(whole: JsonValue) -> SavedPlan:
    whole.fields(("format",), None)["format"].version(FORMAT)
    given = whole.fields(("format", "winnow_version", *SavedPlan.__annotations__))
    version = given["winnow_version"]
    if version.text() != VERSION:
        raise version.refused(f"a plan of Winnow {VERSION}")
    dirs = given["log_dirs"].items()
    if not dirs:
        raise given["log_dirs"].refused("at least one log directory")
    files = given["files"].fields((), None)
    partitions = given["partitions"].fields((), None)
    return SavedPlan(
        now=given["now"].integer(most=LATEST_MS),
        log_dirs=tuple(_log_dir(one) for one in dirs),
        asked=given["asked"].fields((), None),
        files={
            path: value.text(shortest=_DIGEST, longest=_DIGEST) for path, value in files.items()
        },
        kafka_version=given["kafka_version"].text(),
        kafka_version_source=given["kafka_version_source"].text(),
        partitions={
            _directory(path, one): {
                name: part.raw for name, part in one.fields(("found", "decided")).items()
            }
            for path, one in partitions.items()
        },
    )


def _directory(path: str, of: JsonValue) -> str:
    return JsonValue(path, of.path, "partitions", _HINT).file_path()


def _log_dir(value: JsonValue) -> LogDirOf:
    """Only a directory with its real path: one that is a link now may lead anywhere."""
    given = value.fields(("path", "node_id", "cluster_id"))
    path = given["path"].file_path()
    if not path.startswith("/") or Places().canonical(path) != path:
        raise given["path"].refused(
            "the real path of a directory", f"{one_line(path)}, a link or no absolute path"
        )
    cluster = given["cluster_id"]
    return LogDirOf(
        path=path,
        node_id=given["node_id"].integer_or_none(least=-(2**31), most=2**31 - 1),
        cluster_id=None if cluster.raw is None else cluster.text(shortest=0),
    )


def facts_of(item: Planned) -> Plain | None:
    """Return all that decides about a partition, besides the settings, the clock and the bytes of
    its segments. Those are the same if the inode, the mtime and the ctime of the `.log` are. None:
    nothing is known of it.
    """
    state = item.state
    if state is None:
        return None
    facts: Plain = {name: getattr(state, name) for name in _OF_STATE}
    if state.trusted_end is not None:
        # was lowered to the last stable offset, if that was read
        del facts["high_watermark"]
    recovered = state.recovered
    return facts | {
        "snapshot_offsets": list(state.snapshot_offsets),
        "leader_epochs": [list(one) for one in state.leader_epochs],
        "recovered": None
        if recovered is None
        else asdict(recovered) | {"removed": list(recovered.removed)},
        # the number of the device may change when the machine starts
        "segments": [[*_SEGMENT(one), *one.log_stamp[1:]] for one in state.segments],
    }


def decision_of(item: Planned) -> Plain:
    """Return what was decided about a partition, and the settings that led to it."""
    if isinstance(item, SkippedPartition):
        return {"rule": item.reason.rule, "reason": item.reason.words, "error": item.error}
    plan, compaction, retention = item.plan, item.plan.compaction, item.plan.retention
    return {
        "rule": plan.rule,
        "reason": plan.reason,
        "compaction": compaction
        and {
            "first_dirty_offset": compaction.first_dirty_offset,
            "end_offset": compaction.end_offset,
            "groups": [[segment.base_offset for segment in group] for group in compaction.groups],
        },
        "retention": retention
        and {
            "deleted": [segment.base_offset for segment in retention.deleted],
            "roll": retention.roll,
            "log_start_offset": retention.log_start_offset,
        },
        "checkpoint_reset": plan.checkpoint_reset,
        "split": list(item.overflowed),
        "settings": {name: getattr(item.config, name) for name in _SETTINGS},
    }


def check_same(before: Sequence[Planned], now: Sequence[Planned]) -> None:
    """Raise WinnowError unless every partition is unchanged. Data that was not read before may
    differ.
    """
    check_facts({item.place.directory: facts_of(item) for item in before}, now)


def check_facts(before: Mapping[str, Any], now: Sequence[Planned]) -> None:
    """The same for `facts_of` by the partition's directory; None: unknown. Each of these may come
    from a file that anybody wrote: it is only compared.
    """
    found = {item.place.directory: facts_of(item) for item in now}
    unread = {item.place.directory: item for item in now if isinstance(item, SkippedPartition)}
    for directory, facts in before.items():
        if directory not in found:
            raise changed(directory, "it is not there any more")
        other = found[directory]
        if facts is None or facts == other:
            continue
        if other is None:
            item = unread[directory]
            raise changed(directory, item.error or item.reason.words)
        raise changed(directory, _difference(facts, other))
    for directory in found:
        if directory not in before:
            raise changed(directory, "it is new")


def changed(where: str, what: str) -> WinnowError:
    return WinnowError(
        "a partition has changed since the plan was made",
        found=what,
        where=where,
        hint="Nothing was cleaned. Make a new plan.",
    )


def _difference(before: object, now: Plain) -> str:
    if not isinstance(before, dict):
        return "it is not what the plan says"
    segments = before.get("segments")
    if isinstance(segments, list) and segments != now["segments"]:
        return next(_segments(segments, now["segments"]))
    name = next(name for name in (*now, *before) if before.get(name) != now.get(name))
    return f"another {str(name).replace('_', ' ')}"


def _segments(before: Sequence[object], now: Sequence[Sequence[int]]) -> Iterator[str]:
    old = {one[0]: one for one in before if isinstance(one, list) and one and _is_int(one[0])}
    new = {one[0]: one for one in now}
    for base in sorted({*old, *new}):
        name = segment_file(base, LOG)
        if base not in new:
            yield f"no {name} any more"
        elif base not in old:
            yield f"{name}, which is new"
        elif old[base][1:2] != new[base][1:2]:
            yield f"{name} with {new[base][1]} bytes, another size than before"
        elif old[base] != new[base]:
            yield f"{name}, which was written to or replaced, or whose index was"
    yield "other segments"


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
