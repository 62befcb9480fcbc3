"""The fate of a broker that was started: from what it logged, and from the files that it left."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

LIVE = re.compile(
    r"(^|/)(__cluster_metadata-0/|\.lock$|quorum-state|zookeeper/|[a-z-]*-checkpoint$|"
    r"\.kafka_cleanshutdown$)"
)
"""Files that any start changes."""
COMPLETED = re.compile(
    r"Completed load of Log\(dir=(?P<dir>[^,]+), .*?logStartOffset=(?P<start>-?\d+), "
    r"logEndOffset=(?P<end>-?\d+)\)"
)
CREATED = re.compile(r"Created log for partition \S+ in (?P<dir>\S+)")
RECOVERING = re.compile(
    r"\[(?:LogLoader|Log) partition=(?P<partition>\S+), dir=(?P<dir>\S+?)\] "
    r"Recovering unflushed segment (?P<base>\d+)"
)
REBUILDING = re.compile(
    r"\[(?:LogLoader|Log) partition=(?P<partition>\S+), dir=(?P<dir>\S+?)\] "
    r"(?:Could not find offset|Found a corrupted) index file corresponding to log file "
    r"\S*?(?P<base>\d{20})\.log.*recovering segment"
)
STRAY = re.compile(r"Log in (.+) marked stray and renamed to (.+)")
WATERMARK = re.compile(r"Log loaded for partition (\S+) with initial high watermark (-?\d+)")
LEADS = re.compile(r"Leader (\S+) (?:with topic id \S+ )?starts at ")
OFFLINE = re.compile(
    r"(?:Stopping serving (?:logs|replicas) in dir|Failed to create or validate data directory) "
    r"([^\s:]+)"
)
DISTURBANCES = (
    "Address already in use",
    "node already exists and owner",
    "Unable to reconnect to ZooKeeper service",
)
HEAD = re.compile(r"^\S+ (?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL) \S+ - ", re.MULTILINE)
COMPLAINT = re.compile(r"^\S+ (WARN|ERROR|FATAL) (\S+) - (.*)$")
DECISIVE = re.compile(
    r"[Ss]tray|Deleting|Truncat|truncat|Rebuilding|rebuilding index|[Dd]iscarding|resetting|"
    r"offline|[Uu]nclean shutdown|Removing |removing segment|Failed|failed|Could not|"
    r"Skipping recovery|no clean shutdown|Found (?!registration)"
)
NOISE = re.compile(
    r"AppInfo|ConnectionQuotas|NetworkClient|BrokerToController|NodeToController|StaleBroker|"
    r"STALE_BROKER|slow controller event|ExpirationReaper|PartitionChangeBuilder|"
    r"UNCLEAN partition|lastKnownElr"
)
MOST_LINES, MOST_CHARACTERS = 8, 320


@dataclass(frozen=True, slots=True)
class Loaded:
    """A log that the broker has loaded."""

    start: int
    end: int
    recovered: tuple[int, ...] = ()
    """Base offsets of the segments that it recovered: twice for one without a sound index that was
    to be recovered anyway.
    """
    watermark: int | None = None
    leads: bool = False

    def words(self) -> str:
        recovered = f" recovered {','.join(map(str, self.recovered))}" if self.recovered else ""
        watermark = "" if self.watermark is None else f" hw {self.watermark}"
        return f"{self.start}..{self.end}{recovered}{watermark}{'' if self.leads else ' no leader'}"


@dataclass(frozen=True, slots=True)
class Fate:
    started: bool
    code: int | None
    """The exit code; None: it was alive."""
    loaded: Mapping[str, Loaded] = field(default_factory=dict)
    """By the path of the directory, as in `a/d-0`."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    created: tuple[str, ...] = ()
    """Logs without a record that the broker has made."""
    offline: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    made: tuple[str, ...] = ()
    resized: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    why: tuple[str, ...] = ()

    @property
    def stops(self) -> bool:
        return self.code is not None or not self.started

    @property
    def words(self) -> str:
        if self.code is not None:
            return f"{'started, then ' if self.started else ''}exit {self.code}"
        return "started" if self.started else "hangs"


Files = Mapping[str, int]


def listing(root: Path) -> Files:
    """The size of each file, -1 for a directory."""
    return {
        str(path.relative_to(root)): -1 if path.is_dir() else path.lstat().st_size
        for path in sorted(root.rglob("*"))
    }


def settled(log: str) -> bool:
    """Whether each log that was loaded has its leader, so far as the log of the broker tells."""
    loaded = {Path(found["dir"]).name for found in COMPLETED.finditer(log)}
    stray = {name for name in loaded if name.endswith(("-stray", "-delete", "-future"))}
    return loaded - stray <= set(LEADS.findall(log))


def disturbed(log: str) -> bool:
    """Whether somebody else took its port, or ZooKeeper has not yet given up the broker that was
    killed, or has given up this one: a machine under load.
    """
    return any(words in log for words in DISTURBANCES)


def fate_of(before: Files, after: Files, log: str, code: int | None) -> Fate:
    renamed = _renamed(before, after, log)
    gone, made, resized = _changed(before, _under_old_names(after, renamed))
    return Fate(
        started=bool(re.search(r"Kafka Server started|KafkaServer id=1\] started", log)),
        code=code,
        loaded=_loaded(log, renamed),
        renamed={
            old: re.sub(r"\.[0-9a-f]{32}-(?!.*\.)", ".*-", new) for old, new in renamed.items()
        },
        created=tuple(sorted({found["dir"] for found in CREATED.finditer(log)})),
        offline=tuple(sorted(set(OFFLINE.findall(log)))),
        gone=gone,
        made=made,
        resized=resized,
        why=_why(log),
    )


def _loaded(log: str, renamed: Mapping[str, str]) -> dict[str, Loaded]:
    recovered: dict[str, list[int]] = {}
    for found in (*RECOVERING.finditer(log), *REBUILDING.finditer(log)):
        recovered.setdefault(f"{found['dir']}/{found['partition']}", []).append(int(found["base"]))
    watermarks = {name: int(offset) for name, offset in WATERMARK.findall(log)}
    leading = set(LEADS.findall(log))
    old_names = {new: old for old, new in renamed.items()}
    whole = {found["dir"] for found in COMPLETED.finditer(log)}
    logs = {}
    for found in COMPLETED.finditer(log):
        directory = old_names.get(found["dir"], found["dir"])
        aside = directory in renamed
        # A broker names a replica that is being moved like the current one.
        plain = re.sub(r"\.[^.]+-future$", "", directory)
        logged = directory if plain in whole else plain
        name = Path(directory).name
        logs[directory] = Loaded(
            start=int(found["start"]),
            end=int(found["end"]),
            recovered=tuple(sorted(recovered.get(logged, ()))),
            watermark=None if aside else watermarks.get(name),
            leads=not aside and name in leading,
        )
    return dict(sorted(logs.items()))


def _under_old_names(after: Files, renamed: Mapping[str, str]) -> Files:
    """The files without those of an empty directory that was made in the place of another."""
    found = {
        path: size
        for path, size in after.items()
        if not path.startswith(tuple(f"{name}/" for name in (*renamed, *renamed.values())))
        and path not in renamed.values()
    }
    for old, new in renamed.items():
        inside = {path: size for path, size in after.items() if path.startswith(f"{new}/")}
        found |= {old: -1, **{f"{old}{path[len(new) :]}": size for path, size in inside.items()}}
    return found


def _renamed(before: Files, after: Files, log: str) -> dict[str, str]:
    """Directories that have another name: `-stray`, `-delete`. A broker may have made an empty one
    in their place.
    """
    found = {old: new for old, new in STRAY.findall(log) if new in after}
    for path, size in after.items():
        old = path.rpartition(".")[0]
        if size == -1 and path not in before and path.endswith("-delete") and old in before:
            found[old] = path
    return found


def _changed(
    before: Files, after: Files
) -> tuple[tuple[str, ...], tuple[str, ...], dict[str, tuple[int, int]]]:
    def counts(path: str) -> bool:
        return not LIVE.search(path)

    gone = [path for path in before if path not in after and counts(path)]
    made = [path for path in after if path not in before and counts(path)]
    resized = {
        path: (size, after[path])
        for path, size in before.items()
        if after.get(path, size) != size and path.endswith(".log") and counts(path)
    }
    return tuple(gone), tuple(made), resized


def _why(log: str) -> tuple[str, ...]:
    """The lines that tell why, with the first exception of each."""
    lines = log.splitlines()
    found: dict[str, None] = {}
    for number, line in enumerate(lines):
        head = HEAD.match(line)
        if head is None or NOISE.search(line):
            continue
        complaint = COMPLAINT.match(line)
        text = line[head.end() :]
        if complaint is None and not DECISIVE.search(text):
            continue
        words = f"{complaint[1]} {text}" if complaint else text
        caused = _exceptions(lines, number)
        found.setdefault(f"{words[:MOST_CHARACTERS]}{caused}")
    return tuple(found)


def _exceptions(lines: list[str], number: int) -> str:
    """Of a stack trace below a line: the exception, where it was thrown, and what caused it."""
    said = []
    for at in range(number + 1, len(lines)):
        line = lines[at]
        if HEAD.match(line):
            break
        if re.match(r"(Caused by: )?[\w.$]+(Exception|Error)\b", line):
            where = lines[at + 1].strip() if at + 1 < len(lines) else ""
            said.append(f" <- {line[:MOST_CHARACTERS]} {where[:90]}")
    return "".join(said[:1] + said[-1:] if len(said) > 1 else said)
