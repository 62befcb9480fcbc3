"""Differences between the verdict and real brokers that are known, each with its reason."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.kafka.starts.table import State


@dataclass(frozen=True, slots=True)
class Known:
    """`state`, `difference`: regular expressions on the name of a state, and on what differs."""

    state: str
    difference: str
    reason: str

    def explains(self, state: State, difference: str) -> bool:
        return bool(
            re.search(self.state, f"{state.version} {state.name}")
            and re.search(self.difference, difference)
        )


KNOWN: tuple[Known, ...] = (
    Known(
        r"link \S+ (away|nowhere)",
        r": unknown ",
        "Behind a link Winnow foretells nothing: it does not follow links. The broker does.",
    ),
    Known(
        r"copy \S+\.log ./c-0",
        r"unknown",
        "Offsets out of reach of their segment: Winnow says that it can't foretell what follows. "
        "The broker ends.",
    ),
    Known(
        r"remove \S+\.index",
        r"recovers \d+ bytes",
        "A segment above the recovery point without an index is read twice, and counts twice. The "
        "broker logs the second time only.",
    ),
    Known(
        r"meta\.properties directory\.id",
        r": (loads|recovers), no leader$",
        "A log directory with another directory.id than the controller knows: its partitions may "
        "have no leader until the broker starts a second time (4.3.1), although it reports the new "
        "id. Winnow does not say so: it may not have been given all directories of the broker.",
    ),
    Known(
        r"move a/__cluster_metadata-0 b/",
        r"\(no server\.properties\)",
        "Only a server.properties says which log directory is that of the metadata log. Without it "
        "Winnow takes the one that has it.",
    ),
    Known(
        r"^(3\.9|4\.4).*move \S+\.checkpoint ",
        r"^broker: unknown, stops",
        "The newest snapshot has another name than Kafka writes: 4.3.1 misses it and reads the log "
        "from its start, 3.9.2 ends. Winnow says that it is not known.",
    ),
    Known(
        r"^3\.9\.2 killed: .*leader-epoch-checkpoint\.tmp",
        r"^broker: does-not-start, starts",
        "After an unclean shutdown, 3.9 ignores that leader-epoch-checkpoint.tmp can't be written, "
        "as for a partition that is being deleted. Winnow predicts an offline log directory.",
    ),
    Known(
        r"^3\.9\.2 killed: .*(write b/\.lock|b/[a-z-]*-offset-checkpoint|line b/meta\.properties)",
        r": (loads|recovers), no leader$",
        "If a log directory is offline after an unclean shutdown, 3.9 may elect no leader for "
        "partitions in the other log directory. Winnow predicts only the offline directory.",
    ),
    Known(
        r"^2\.8",
        r"^broker: offline, stops",
        "2.8 ends where later versions take the log directory offline: when it can't read or write "
        "a leader-epoch-checkpoint.",
    ),
    Known(
        r"^2\.8.*named \S+ \S+\.snapshot",
        r"^broker: does-not-start, starts",
        "2.8 does not see a producer snapshot whose name is no UTF-8. Later versions end at it.",
    ),
    Known(
        r"^2\.8.*\d\.log hello",
        r": unknown .*does not begin with an offset",
        "2.8 takes a file name of fewer digits for an offset. Winnow does not foretell the rest.",
    ),
    Known(
        r"^2\.8.*\.swap",
        r": unknown .*an interrupted swap, which releases before 3\.0 finish in another way",
        "2.8 recovers the .swap log before it completes an interrupted swap, unlike later "
        "versions. Winnow does not predict the outcome, and reports it as not safe.",
    ),
    Known(
        r"^2\.8.*a/meta\.properties",
        r"^broker: refused",
        "2.8 writes a meta.properties that is missing anew. Winnow takes the directory for none of "
        "Kafka's.",
    ),
    Known(
        r"^2\.8",
        r"^harm: safe, made anew",
        "Which partitions a broker with ZooKeeper has, only ZooKeeper knows: Winnow misses no "
        "directory there.",
    ),
)


def unexplained(state: State, differences: list[str]) -> list[str]:
    return [one for one in differences if reason_of(state, one) is None]


def reason_of(state: State, difference: str) -> Known | None:
    return next((one for one in KNOWN if one.explains(state, difference)), None)
