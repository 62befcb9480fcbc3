"""What an erasure found and did, as values. The Python API returns them, the command line prints
them.

They contain no key and no hash of a key.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, field

from winnow.errors import CorruptLogError, NoSpaceError, UsageError, VerificationError
from winnow.policy.versions import ANY_VERSION, KnownVersion
from winnow.start.values import BrokerStart
from winnow.verbs.erase.replicas import Replicas


@dataclass(frozen=True, slots=True)
class Amount:
    """So many records. `bytes` is their size, decompressed."""

    records: int = 0
    bytes: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.records + other.records, self.bytes + other.bytes)


@dataclass(frozen=True, slots=True)
class Proof:
    """What a second reading found after the erasure, with another reader and a join."""

    reached: int
    """Records with one of the keys in segments that an erasure reaches. More than 0 is a
    failure."""
    unreached: int
    """Records in the other segments: those that reach the high watermark, and the active one."""
    problems: int
    """Places that could not be read. More than 0 is a failure."""
    records: int = 0
    """All records that were read, with one of the keys or not."""

    @property
    def holds(self) -> bool:
        return self.reached == 0 and self.problems == 0


@dataclass(frozen=True, slots=True)
class SegmentCheck:
    """What a reading of all records found in one segment."""

    topic: str
    partition: int
    segment: str
    """Name of the file; empty for a partition that can't be read at all."""
    records: int
    found: int
    """Records with one of the keys."""
    problems: int
    """Places that can't be read."""


@dataclass(frozen=True, slots=True)
class RewrittenFile:
    """A log that the erasure wrote, as it is on the disk."""

    file: str
    """Relative to the log directory."""
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionErasure:
    """Result for one partition. Fields that were not examined are None."""

    topic: str
    partition: int
    log_dir: str
    closed: Amount | None = None
    """Amount before the erasure in what it reaches: closed segments below the high watermark."""
    above_high_watermark: Amount | None = None
    """Amount in other segments that are not active."""
    active: Amount | None = None
    erased: Amount | None = None
    """None in a dry run."""
    segments: int | None = None
    segments_with_matches: int | None = None
    """Number of reached segments with matches. These are rewritten; the others are not touched."""
    segments_rewritten: int | None = None
    """None in a dry run."""
    rewritten: tuple[RewrittenFile, ...] = ()
    """Their files as the proof has read them."""
    bytes_before: int | None = None
    bytes_after: int | None = None
    proof: Proof | None = None
    copies: tuple[str, ...] = ()
    """Directories inside the partition's directory with older copies of records, which are not
    searched: what runs with --keep-replaced kept, and what was quarantined.
    """
    closed_undos: tuple[str, ...] = ()
    """Runs of clean --keep-replaced whose undo is closed: what they kept may have these keys."""
    remote: bool = False
    """True if the topic has remote storage, which is neither searched nor rewritten."""
    why_left_alone: str | None = None
    error: str | None = None
    error_code: int = CorruptLogError.exit_code

    @property
    def left(self) -> Amount:
        """Return the records with one of the keys that are kept because no erasure reaches them."""
        return (self.above_high_watermark or Amount()) + (self.active or Amount())

    @property
    def searched(self) -> bool:
        """Return whether every record of the partition's log was read, and compared with the
        keys.
        """
        return self.closed is not None

    @property
    def disproven(self) -> bool:
        """Return whether the second reading found one of the keys, or could not read something,
        although all segments were rewritten.
        """
        return self.error is None and self.proof is not None and not self.proof.holds

    @property
    def troubled(self) -> bool:
        return self.error is not None or self.why_left_alone is not None


@dataclass(frozen=True, slots=True)
class PatternMatches:
    """Records that hold a pattern and have none of the keys: all, and those that hold a pattern in
    this part.
    """

    records: int = 0
    in_keys: int = 0
    in_values: int = 0
    in_headers: int = 0
    searched_records: int = 0
    searched_bytes: int = 0
    """Size of the records that were searched, decompressed."""

    def __add__(self, other: PatternMatches) -> PatternMatches:
        pairs = zip(astuple(self), astuple(other), strict=True)
        return PatternMatches(*(one + another for one, another in pairs))


@dataclass(frozen=True, slots=True)
class PartitionMatches:
    topic: str
    partition: int
    log_dir: str
    matches: PatternMatches | None
    """None: it was not searched, or not completely."""
    error: str | None = None
    """Why it was not searched."""

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class PatternSearch:
    patterns: int
    """Number of different patterns."""
    partitions: tuple[PartitionMatches, ...]

    @property
    def total(self) -> PatternMatches:
        return sum((p.matches for p in self.partitions if p.matches), PatternMatches())

    @property
    def unsearched(self) -> tuple[PartitionMatches, ...]:
        return tuple(one for one in self.partitions if one.matches is None)


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseResult:
    run_id: str
    dry_run: bool
    keys: int
    """Number of different keys given."""
    keys_found: int
    """Number of these keys that some record has, in any segment."""
    partitions: tuple[PartitionErasure, ...]
    not_searched: tuple[str, ...] = ()
    """Directories of replicas that a broker is about to move or to delete, and entries that are no
    partitions, each with the reason. They may have records with these keys.
    """
    notes: tuple[str, ...] = ()
    ledger: str | None = None
    """Where the erasure was recorded."""
    certificate: str | None = None
    """Path of the certificate, and its SHA-256, if one was asked for and written."""
    certificate_sha256: str | None = None
    hash_key: str | None = None
    """In hexadecimal: the key of the keys' hashes in the ledger and the certificate. It is stored
    nowhere else, but in a file beside the certificate.
    """
    kafka: KnownVersion = ANY_VERSION
    """The version of Kafka whose rules were used."""
    starts: tuple[BrokerStart, ...] = ()
    """What happens if the broker starts after the erasure."""
    replicas: Replicas = field(default_factory=Replicas)
    """All replicas of these topics, on all brokers."""
    patterns: PatternSearch | None = None
    """What the search for patterns found, if one was requested."""

    @property
    def unsearched(self) -> tuple[PartitionErasure, ...]:
        """The partitions that were not searched. They may have records with these keys."""
        return tuple(p for p in self.partitions if not p.searched)

    @property
    def all_searched(self) -> bool:
        """Return whether everything in these log directories that may have the keys was searched:
        all partitions, without older copies of records, and without other replicas.
        """
        copies = any(p.copies for p in self.partitions)
        return not (self.unsearched or self.not_searched or copies)

    @property
    def proven(self) -> bool | None:
        """Whether a second reading found nothing in all that an erasure reaches. None: there was
        none, or something was not searched or not erased completely.
        """
        if any(p.disproven for p in self.partitions):
            return False
        held = all(p.proof is not None and p.error is None for p in self.partitions)
        return True if self.partitions and held and self.all_searched else None

    @property
    def why_not_proven(self) -> str | None:
        """Return why `proven` is not True, for people. None for a dry run, and if it is True."""
        if self.proven or self.dry_run:
            return None
        if self.proven is False:
            return (
                "the second reading found records with one of the keys, or could not read "
                "everything"
            )
        if not self.all_searched:
            keys = "the key" if self.keys == 1 else "the keys"
            return f"not everything was searched, and what was not may hold {keys}"
        if any(p.proof is not None for p in self.partitions):
            return "not everything could be erased"
        return "there was no second reading"

    @property
    def complete(self) -> bool:
        """Return whether every partition was erased and no record with one of the keys, nor an
        older copy of records, is left. Remote storage is not checked. A dry run is not complete
        while a partition is reassigned: no erasure should begin then.
        """
        if (self.dry_run and self.replicas.reassigned) or (
            self.patterns is not None and self.patterns.unsearched
        ):
            return False
        return not self.not_searched and not any(
            p.troubled or p.left.records or p.copies or p.remote for p in self.partitions
        )

    @property
    def status(self) -> str:
        if self.proven is False:
            return "failed"
        return "done" if self.complete else "partial"

    @property
    def exit_code(self) -> int:
        """Return 0 or 3; 4 if the proof failed; 6 if lack of space is the only problem; 2 if all
        was searched and none of the keys is there: they may be mistyped.
        """
        if self.proven is False:
            return VerificationError.exit_code
        codes = {
            partition.error_code for partition in self.partitions if partition.error is not None
        }
        if VerificationError.exit_code in codes:
            return VerificationError.exit_code
        left_alone = any(partition.why_left_alone is not None for partition in self.partitions)
        if codes == {NoSpaceError.exit_code} and not left_alone:
            return NoSpaceError.exit_code
        if not self.complete:
            return CorruptLogError.exit_code
        return 0 if self.keys_found else UsageError.exit_code
