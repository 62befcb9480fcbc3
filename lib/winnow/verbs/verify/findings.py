"""What a sweep finds, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

from winnow.advice import Copies
from winnow.errors import WinnowError, failure_of
from winnow.logdir.names import LOG_START_CHECKPOINT, METADATA_TOPIC
from winnow.verbs.verify.kinds import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong. Without `topic` and `partition`: in the log directory itself."""

    log_dir: str
    topic: str | None
    partition: int | None
    file: str
    """Path of the file or directory, relative to `log_dir`."""
    position: int | None
    """Byte of the file at which it begins; None if it concerns the whole file."""
    first_offset: int | None
    last_offset: int | None
    """Last of the affected offsets, as far as they are known."""
    kind: Kind
    message: str
    """What was expected and what was found."""
    copies: Copies = Copies.UNKNOWN
    """Who else has the records."""

    @property
    def meaning(self) -> str:
        in_metadata_log = self.topic == METADATA_TOPIC or self.kind is Kind.METADATA
        return self.kind.meaning_at(self.copies, in_metadata_log=in_metadata_log)

    @property
    def is_damage(self) -> bool:
        return self.kind.is_damage


def seen_twice(first: Sequence[Finding], second: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings of the first sweep that the second sweep also has."""
    again = {(finding.log_dir, finding.file, finding.kind) for finding in second}
    return tuple(f for f in first if (f.log_dir, f.file, f.kind) in again)


@dataclass(frozen=True, slots=True)
class Scope:
    """The place of findings: a log directory, or the directory of one of its partitions."""

    log_dir: str
    name: str | None = None
    topic: str | None = None
    partition: int | None = None
    checkpoints: Mapping[str, int] = field(default_factory=dict)
    """The offsets of the partition, by name of the checkpoint."""
    recovered: bool = False
    """A starting broker checks the log from its recovery point on: the shutdown was unclean (S8.2).
    The metadata log is always checked.
    """
    beside: int = 0
    """Partitions in the log directory of a metadata log."""

    @property
    def directory(self) -> str:
        return self.log_dir if self.name is None else f"{self.log_dir}/{self.name}"

    @property
    def log_start_offset(self) -> int:
        """From the checkpoint; 0 if it has none."""
        return max(0, self.checkpoints.get(LOG_START_CHECKPOINT, 0))

    def finding(
        self,
        kind: Kind,
        file: str,
        what: str | Exception,
        *,
        position: int | None = None,
        offsets: tuple[int | None, int | None] = (None, None),
    ) -> Finding:
        """Make a finding. `file` is its name in the directory; empty for the directory itself. An
        exception that is not a WinnowError is always of kind UNREADABLE.
        """
        if isinstance(what, WinnowError):
            position = what.position if position is None else position
            what = what.what
        elif isinstance(what, OSError):
            kind, what = Kind.UNREADABLE, f"can't be read: {what.strerror or what}"
        elif isinstance(what, Exception):
            kind, what = Kind.UNREADABLE, failure_of(what)
        return Finding(
            log_dir=self.log_dir,
            topic=self.topic,
            partition=self.partition,
            file="/".join(filter(None, (self.name, file))),
            position=position,
            first_offset=offsets[0],
            last_offset=offsets[1],
            kind=kind,
            message=what,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """How much was read. `bytes` counts logs. `records` counts those that could be read."""

    partitions: int = 0
    segments: int = 0
    bytes: int = 0
    batches: int = 0
    records: int = 0

    def __add__(self, other: Checked) -> Checked:
        return Checked(
            **{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(Checked)}
        )
