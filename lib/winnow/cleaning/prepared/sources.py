"""The settings that a preparation was made with, read again from their sources.

`prepared.json` names files, and the user who can write it is not the user who reads them, perhaps
root. So a named file is read as the user who wrote `prepared.json`, and no error shows what is in
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock

from winnow.cleaning.asked import SettingsAsked
from winnow.cleaning.plan.settings import with_metadata
from winnow.cleaning.prepared.value import settings_in_words
from winnow.errors import FAILS_ONE_PARTITION, StoppedError, UsageError
from winnow.logdir.survey import LogDir
from winnow.policy.config import TopicConfig
from winnow.policy.sources import Settings, Unknown
from winnow.runtime.failure import Failure, failure
from winnow.runtime.stop import Stop
from winnow.storage.live.identity import call_as
from winnow.storage.permissions import user_name
from winnow.storage.places import Places

MOST_SOURCES = 4
"""Different sources of settings that are kept. Each takes as much memory as the largest file."""
_MOST_TOPICS = 64
"""Of which the settings are kept."""
_HINT = "`plan` with the options of `prepare` shows why. Then prepare again."
_WRITER_UNKNOWN = failure(
    UsageError(
        "a preparation names files of settings, and several users may have written it",
        expected="prepared.json and the directories above it of one user, or of root and one user",
        hint="Find out who changed an owner. Then prepare again.",
    )
)
_TOO_MANY = failure(
    UsageError(
        "the preparations were made with too many different settings",
        expected=f"at most {MOST_SOURCES} different sets of options of `prepare`",
        found="more",
        hint="`commit` again for the others, or `prepare` again.",
    )
)


class PreparedSettings:
    """The settings that preparations name, each source read once. Threads may share it."""

    def __init__(self, dirs: Sequence[LogDir], stop: Stop) -> None:
        self._dirs, self._stop = dirs, stop
        self._known: dict[tuple[SettingsAsked, int | None], Settings | Failure] = {}
        self._lock = Lock()

    def of(self, asked: SettingsAsked, writer: int | None) -> Settings | Failure:
        """`writer`: the user who wrote the preparation; None if that is unknown."""
        with self._lock:
            found = self._known.get((asked, writer))
            if found is None:
                if len(self._known) == MOST_SOURCES:
                    return _TOO_MANY
                found = self._known[asked, writer] = self._read(asked, writer)
            return found

    def _read(self, asked: SettingsAsked, writer: int | None) -> Settings | Failure:
        read = partial(self._complete, asked)
        try:
            if not asked.files:
                return read()
            # A server.properties names directories in its turn.
            return _WRITER_UNKNOWN if writer is None else call_as(writer, read)
        except FAILS_ONE_PARTITION as error:
            return failure(_without_content(error, asked) if asked.files else error)

    def _complete(self, asked: SettingsAsked) -> Settings:
        return with_metadata(asked.read(self._stop.check), Places(), self._dirs, self._stop)[0]


def _without_content(error: Exception, asked: SettingsAsked) -> Exception:
    """Return the error without what it found in a file."""
    if isinstance(error, StoppedError | OSError | MemoryError) or isinstance(
        error.__cause__, OSError
    ):
        return error
    told = error if isinstance(error, UsageError) else None
    where = (told and told.where) or ", ".join(asked.files)
    if asked.topic_configs is not None:
        where = where.replace("--topic-configs", asked.topic_configs)
    return UsageError(
        "the settings of a preparation can't be read again",
        expected=(told and told.expected) or "files of settings as they were",
        where=where,
        hint=_HINT,
    )


@dataclass(frozen=True, slots=True)
class Resolved:
    """The settings of a topic as they are now."""

    config: TopicConfig | Unknown
    words: Mapping[str, str]
    """See `settings_in_words`. Empty if the settings are unknown."""


class TopicConfigs:
    """Resolves settings once for the partitions of a topic. Threads may share it."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, SettingsAsked, str, int | None], Resolved] = {}

    def of(
        self, settings: Settings, asked: SettingsAsked, topic: str, *, node_id: int | None
    ) -> Resolved:
        """See `resolve_again`. `settings`: the caller keeps them."""
        key = id(settings), asked, topic, node_id
        found = self._known.get(key)
        if found is None:
            config = resolve_again(settings, asked, topic, node_id=node_id)
            words = {} if isinstance(config, Unknown) else settings_in_words(config)
            if len(self._known) >= _MOST_TOPICS:
                self._known.clear()
            found = self._known[key] = Resolved(config, words)
        return found


def resolve_again(
    settings: Settings, asked: SettingsAsked, topic: str, *, node_id: int | None
) -> TopicConfig | Unknown:
    """Return the settings of a topic as `Settings.resolve` does, but no reason shows what is in a
    file.
    """
    try:
        found = settings.resolve(topic, node_id=node_id)
    except UsageError:
        if not asked.files:
            raise
        found = Unknown("")
    if isinstance(found, Unknown) and asked.files:
        names = " and ".join(asked.files)
        return Unknown(f"settings of topic {topic} that can't be used, in {names}. {_HINT}")
    return found


def check_readable(asked: SettingsAsked, owners: Iterable[int]) -> None:
    """Raise UsageError unless each of these users can read the files of settings: a commit reads
    them as the owner of the partition.
    """
    for owner in owners if asked.files else ():
        try:
            call_as(owner, asked.read)
        except (UsageError, OSError) as error:
            name = user_name(owner)
            raise UsageError(
                "the owner of the partitions can't read the settings",
                expected=f"files that user {name} can read: `commit` reads them again as {name}",
                found=str(error),
                hint=f"Give {name} the permission, also for the directories above them.",
            ) from error
