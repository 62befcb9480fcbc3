"""What an erasure found and did, as values: the Python API returns them, the command line prints
them.

No key is in any of them, and no hash of one.
"""

from __future__ import annotations

from dataclasses import dataclass

from winnow.errors import CorruptLogError, NoSpaceError, VerificationError


@dataclass(frozen=True, slots=True)
class Matches:
    """Records with one of the keys. `bytes`: their own, decompressed."""

    records: int = 0
    bytes: int = 0

    def __add__(self, other: Matches) -> Matches:
        return Matches(self.records + other.records, self.bytes + other.bytes)


@dataclass(frozen=True, slots=True)
class Proof:
    """What a second reading found after the erasure: another reader of the files, and a join with
    the keys.
    """

    reached: int
    """Records with one of the keys in segments that an erasure reaches. More than 0 is a failure.
    """
    unreached: int
    """In the others: those at or above the high watermark, and the active one."""
    problems: int
    """Places that could not be read: more than 0 is a failure."""

    @property
    def holds(self) -> bool:
        return self.reached == 0 and self.problems == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionErasure:
    """Of one partition. What was not looked at is None."""

    topic: str
    partition: int
    log_dir: str
    closed: Matches | None = None
    """In segments that an erasure reaches: not the active one, and entirely below the high
    watermark. As they were.
    """
    above_high_watermark: Matches | None = None
    """In other segments that are not active."""
    active: Matches | None = None
    erased: Matches | None = None
    """None in a dry run."""
    segments: int | None = None
    segments_with_matches: int | None = None
    """Of those that an erasure reaches: they are rewritten, the others not touched."""
    bytes_before: int | None = None
    """Of the logs of all segments."""
    bytes_after: int | None = None
    proof: Proof | None = None
    copies: tuple[str, ...] = ()
    """Directories inside the partition's with older copies of records, which are not looked into: what runs with
    --keep-replaced kept, and what was quarantined.
    """
    closed_undos: tuple[str, ...] = ()
    """Runs of clean --keep-replaced that can't be undone any more: what they kept may hold records
    with these keys.
    """
    remote: bool = False
    """The topic has remote storage, where earlier segments may lie: they are neither erased from
    nor looked into.
    """
    why_left_alone: str | None = None
    error: str | None = None
    error_code: int = CorruptLogError.exit_code

    @property
    def left(self) -> Matches:
        """Records with one of the keys that stay because no erasure reaches them."""
        return (self.above_high_watermark or Matches()) + (self.active or Matches())

    @property
    def troubled(self) -> bool:
        return self.error is not None or self.why_left_alone is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseResult:
    """One erasure, or a dry run of one, over one or more log directories."""

    run_id: str
    dry_run: bool
    keys: int
    """Different ones that were given."""
    keys_found: int
    """Of them: those that some record had, wherever it lay."""
    partitions: tuple[PartitionErasure, ...]
    notes: tuple[str, ...] = ()
    ledger: str | None = None
    """Where the erasure was recorded."""
    hash_key: str | None = None
    """In hexadecimal: under which the ledger has the keys' hashes. It is nowhere else."""

    @property
    def proven(self) -> bool | None:
        """Whether the second reading found nothing where an erasure reaches; None if there was
        none.
        """
        proofs = [partition.proof for partition in self.partitions if partition.proof is not None]
        return all(proof.holds for proof in proofs) if proofs else None

    @property
    def complete(self) -> bool:
        """Nothing was left alone, and no record with one of the keys, nor an older copy of records,
        is left. Of what remote storage has nothing is known.
        """
        return not any(
            p.troubled or p.left.records or p.copies or p.remote for p in self.partitions
        )

    @property
    def status(self) -> str:
        if self.proven is False:
            return "failed"
        return "done" if self.complete else "partial"

    @property
    def exit_code(self) -> int:
        """0 or 3; 4 if the proof failed, 6 if want of space is all that went wrong."""
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
        return 0 if self.complete else CorruptLogError.exit_code
