"""What to do about damaged files. It depends on who else has the records, and on what the file is:
a copy is deleted only where another one is known to exist, and the metadata log never.
"""

from __future__ import annotations

from enum import StrEnum

REBUILT = (
    "a broker that starts rebuilds all indexes of the segment. It cuts the log at the first "
    "damaged batch: run `verify` first."
)
"""What follows where a segment has no `.index`. A missing `.txnindex` alone is not rebuilt."""
REBUILD = f"Delete the .index of the segment: {REBUILT}"
KEEP_INDEX = (
    "The log has lost its end, or the index belongs to another log. Keep the index: it shows the "
    "loss, and a broker that rebuilds it removes that. First compare the partition with another "
    "replica, or with a backup."
)
"""What to do about an index that points beyond the end of its log."""
COPY = "If another replica has it, copy the partition from there."
"""Where nothing is known of the partition's replicas."""
_KEEP = "keep its directory"
_BACKUP = "restore the partition from a backup, or clean it with --on-corrupt=quarantine"
ANY_PARTITION = (
    f"{COPY} Only if the metadata log names other replicas, and one that is in sync leads, the "
    "directory may be deleted while this broker is stopped: the broker fetches it again. If no "
    f"other replica has it, {_KEEP}: {_BACKUP}."
)
ANY_METADATA_LOG = (
    "Never delete __cluster_metadata-0: it has all topics, their ids and their settings. Copy it "
    "elsewhere before a broker starts. Restore it from a backup, or, if the quorum has other "
    "voters, start this node only while a majority of the voters runs with its metadata log: it "
    "fetches what it lacks."
)
ONLY_WHILE = "only while a majority of the controllers runs with its metadata log"
"""When a broker may be started that has lost its metadata log."""


class Copies(StrEnum):
    """Who else has the records of a partition, or of the metadata log."""

    UNKNOWN = "unknown"
    NONE = "none"
    """It has one replica; the quorum has one voter."""
    BEHIND = "behind"
    """There are other replicas, but none is in sync."""
    DAMAGED = "damaged"
    """Other replicas were in sync, but all of these nodes were given in this run, and none has a
    sound one.
    """
    OTHERS = "others"
    """Other replicas are in sync; the quorum has other voters."""


def while_another_leads() -> str:
    """Return how a broker is started that may lead, and has lost records that others have."""
    return (
        "Start this broker only while another member of the ISR leads: keep this broker stopped, "
        "start the others, and wait until `kafka-topics.sh --describe` shows that leader. If none "
        "comes up, or they can't run without this node, as without their only controller, first "
        "copy the directory of the partition from one of them while both are stopped"
    )


def for_partition(copies: Copies) -> str:
    """Return how the records of a damaged partition come back."""
    match copies:
        case Copies.OTHERS:
            return (
                "Other nodes have replicas that were in sync. Copy the partition from one of them, "
                "or, while one of them leads, stop this broker and delete the directory of the "
                "partition: the broker then fetches it again."
            )
        case Copies.BEHIND:
            return (
                "Other nodes have replicas, but none was in sync: this one has records that they "
                f"lack. So {_KEEP}. Copy from another replica what it has, or {_BACKUP}."
            )
        case Copies.DAMAGED:
            return (
                "Other nodes had replicas in sync, but those that were given are lost or damaged, "
                f"too: this one may be the best. So {_KEEP}. Copy from another replica what it "
                f"has, or {_BACKUP}."
            )
        case Copies.NONE:
            return f"No other node has a replica: {_KEEP}. You can {_BACKUP}."
    return f"{COPY} If none has it, {_KEEP}: {_BACKUP}."


def for_gone(copies: Copies) -> str:
    """Return how a partition comes back whose directory is gone."""
    back = "put the directory back from where it is, or from a backup"
    match copies:
        case Copies.OTHERS:
            return (
                "Other nodes have replicas that were in sync. While one of them leads, start this "
                f"broker: it fetches the partition again. If none of them has it, {back} first."
            )
        case Copies.BEHIND:
            return (
                "Other nodes have replicas, but none was in sync. Do not start this broker: "
                f"{back} first."
            )
        case Copies.DAMAGED:
            return (
                "Other nodes had replicas in sync, but those that were given are lost or damaged, "
                f"too. Do not start this broker: {back} first."
            )
        case Copies.NONE:
            return f"No other node has a replica. Do not start this broker: {back} first."
    return f"Unless another replica that is in sync leads, do not start this broker: {back} first."


def after_a_lost_end(copies: Copies) -> str:
    """Return what to do before a start with a log that has lost records for good."""
    cut = "followers of such a leader cut their logs, too"
    give_up = "restore the partition from a backup, or give these records up and start the broker"
    match copies:
        case Copies.OTHERS:
            return (
                f"Other nodes have replicas that were in sync, but {cut}. {while_another_leads()}"
            )
        case Copies.BEHIND:
            return (
                f"Other nodes have replicas, but none was in sync, and {cut}. First compare with "
                f"these replicas, then {give_up}"
            )
        case Copies.DAMAGED:
            return (
                "Other nodes had replicas in sync, but those that were given are lost or damaged, "
                f"too, and {cut}. First compare with these replicas, then {give_up}"
            )
        case Copies.NONE:
            return f"No other node has a replica: {give_up}"
    return (
        f"{cut.capitalize()}. If another node has a replica in sync: {while_another_leads()}. "
        f"Otherwise {give_up}"
    )


def before_a_loss(copies: Copies) -> str:
    """Return what comes before a recovery that deletes records which are still on the disk."""
    copy = "first copy the directory of the partition elsewhere"
    match copies:
        case Copies.OTHERS:
            who = (
                "Other nodes have replicas that were in sync. While one of them leads, this broker "
                "fetches the records from it. Otherwise "
            )
        case Copies.BEHIND:
            who = (
                "Other nodes have replicas, but none was in sync: they may lack these records. So "
            )
        case Copies.DAMAGED:
            who = "Other nodes had replicas in sync, but those that were given are lost, too. So "
        case Copies.NONE:
            who = "No other node has a replica: "
        case Copies.UNKNOWN:
            who = "Unless another replica that is in sync has these records, "
    return f"{who}{copy}. `clean --on-corrupt=quarantine` does not reach them"


def for_metadata_log(copies: Copies) -> str:
    """Return how the records of a damaged metadata log come back."""
    never = "Never delete __cluster_metadata-0: it has all topics, their ids and their settings."
    match copies:
        case Copies.OTHERS:
            return (
                f"{never} Copy it elsewhere. Other nodes vote in its quorum: start this node only "
                "while a majority of the voters runs with its metadata log, and it fetches what it "
                "lacks."
            )
        case Copies.NONE:
            return (
                f"{never} This node is the only voter of its quorum, so no other node has it. Copy "
                "it elsewhere before a broker starts, and restore it from a backup."
            )
    return ANY_METADATA_LOG
