"""Ask before options or a clock delete more than the topics' own settings (decision 47)."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from winnow.cli.out import questions_are_seen, tell_errors
from winnow.errors import UsageError
from winnow.words import duration, instant, one_line

if TYPE_CHECKING:
    from winnow.cleaning.request import Request

MOST_NAMES = 3
"""Topics whose names are typed. More need --yes."""
_EVERY_S = 0.2
_SKEW_MS = 60_000
"""By which the clocks of two machines may differ."""


def confirm(
    prepared: Sequence[Any],
    request: Request,
    *,
    pause: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> None:
    """Return if the run may delete more than the topics' own settings do. Raises UsageError
    otherwise, before anything is changed, and StoppedError if the run is stopped meanwhile.

    `pause`: keeps progress from coming between the question and its answer.
    """
    from winnow.cleaning.plan.decide_listed import overridden  # noqa: PLC0415 - it loads numba

    found = overridden(prepared, request.settings)
    topics = {topic: settings for (_, topic), settings in found.items()}
    if not topics:
        return
    terminal = _terminal() if len(topics) <= MOST_NAMES else None
    if terminal is None:
        raise _refused("needs --yes", topics)
    try:
        with pause():
            _ask(terminal, topics, request)
    finally:
        os.close(terminal)


def confirm_time(now: int, clock: int) -> None:
    """Raise UsageError for a time in the future: records would be deleted before their time is up.
    `clock`: what this machine's clock says, in ms.
    """
    if ahead := ahead_of(now, clock):
        raise UsageError(
            "--now is in the future, which deletes more than is due",
            expected=f"at most {instant(clock)}",
            found=f"{instant(now)}, {ahead}",
            hint="A time without a zone is UTC. If the time is right, add --yes.",
        )


def ahead_of(now: int, clock: int) -> str | None:
    """Return how far `now` is in the future, in words. None if it is not, give or take a minute."""
    ahead = now - clock
    return f"{duration(ahead)} ahead of this machine's clock" if ahead > _SKEW_MS else None


def _ask(terminal: int, topics: Mapping[str, Sequence[str]], request: Request) -> None:
    for topic, settings in topics.items():
        tell_errors(
            [
                "",
                f"These options delete more than the own settings of topic {topic}:",
                *(f"  {one}" for one in settings),
                "Type the name of the topic to go on:",
            ]
        )
        # A signal that asks the run to stop ends the wait.
        while not select.select([terminal], [], [], _EVERY_S)[0]:
            request.stop.check()
        if os.read(terminal, 4096).decode(errors="replace").strip() != topic:
            raise _refused("was not confirmed", topics)


def _terminal() -> int | None:
    """Open the terminal of this process. spark-submit gives its job no other stdin. None if there
    is none, or if nobody would see the question.
    """
    if not questions_are_seen():
        return None
    with suppress(OSError):
        return os.open("/dev/tty", os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
    return None


def _refused(what: str, topics: Mapping[str, Sequence[str]]) -> UsageError:
    named = [f"{one_line(topic)}: {', '.join(settings)}" for topic, settings in topics.items()]
    few, more = named[:MOST_NAMES], len(named) - MOST_NAMES
    return UsageError(
        f"deleting more than the topics' own settings {what}",
        found="; ".join(few) + (f"; and {more} more topics" if more > 0 else ""),
        hint="Look at `plan` with the same options. If it is right, add --yes.",
    )
