"""Notices: which events start a user's command or are sent to receivers, and how often a command is tried."""

from __future__ import annotations

from collections.abc import Collection

from interlock.core.model import Event, EventKind
from interlock.core.record import Record
from interlock.core.states import ItemStatus

#: How long a command may take.
TIMEOUT_S = 30.0
#: How long its lease lasts: longer than the command may take.
LEASE_S = 2 * TIMEOUT_S
#: The back-off after each failed attempt. After the last attempt the notice is given up.
WAITS_S = (10.0, 30.0, 90.0, 270.0)

_ENDS = frozenset({EventKind.RUN_FAILED, EventKind.RUN_TIMED_OUT, EventKind.RUN_LOST})


class NoticeMark(Record):
    """The progress of the notices of one name in a store."""

    name: str
    #: The last handled event.
    seq: int
    #: Until when no other process may start the command, which runs or backs off after a failure.
    until_us: int = 0
    #: Attempts of the command for the next event.
    tries: int = 0


def is_dead_letter(event: Event) -> bool:
    """Whether an item failed for good with this event."""
    return event.kind in _ENDS and event.data.get("item_status") == ItemStatus.FAILED


def is_question(event: Event) -> bool:
    """Whether this event is a run's question to a person."""
    return event.kind == "question.asked"


def is_quota_limit(event: Event) -> bool:
    """Whether an agent starts nothing until a provider's limit ends."""
    return event.kind == EventKind.AGENT_WALLED


#: The events of each notice, by the setting that has its command.
NOTICES = {"on_dead_letter": is_dead_letter, "on_question": is_question}
#: The events that receivers can get, by the word of the setting `notify_events`.
SUBJECTS = {"dead_letter": is_dead_letter, "question": is_question, "quota_limit": is_quota_limit}


def subject_of(event: Event, wanted: Collection[str]) -> str | None:
    """Which of the wanted subjects an event is."""
    return next((name for name, fits in SUBJECTS.items() if name in wanted and fits(event)), None)


def wait_s(tries: int) -> float | None:
    """The back-off after this number of failed attempts; None if the notice is given up."""
    return WAITS_S[tries - 1] if tries <= len(WAITS_S) else None
