"""Whole inputs checked at the gate: every shell's input passes here before a transaction begins."""

from __future__ import annotations

from dataclasses import replace

from interlock.core import names
from interlock.core.errors import InvalidInput, TooLarge
from interlock.core.model import NewItem


def checked(new: NewItem) -> NewItem:
    """The arrival with its names in normal form, or a clear refusal."""
    names.check_title(new.title)
    names.check_name("project", new.project)
    names.check_name("type", new.type)
    names.check_number("priority", new.priority, names.PRIORITY_MIN, names.PRIORITY_MAX)
    names.check_number("number of attempts", new.max_attempts, 1, names.ATTEMPTS_MAX)
    if new.position is not None:
        names.check_number("position", new.position, 0, names.POSITION_MAX)
    if new.lease_s is not None:
        names.check_number("lease", new.lease_s, names.LEASE_MIN_S, names.LEASE_MAX_S)
    if new.timeout_s is not None:
        names.check_number("timeout", new.timeout_s, names.LEASE_MIN_S, names.TIMEOUT_MAX_S)
    if new.claim_within_s is not None:
        names.check_number("time to claim", new.claim_within_s, names.LEASE_MIN_S, names.TIMEOUT_MAX_S)
    if new.run_at_us is not None and not 0 <= new.run_at_us <= names.RUN_AT_MAX_US:
        raise InvalidInput("The time to run at is not between 1970 and 9999.", "Use a time that can come.")
    if new.run_after_s is not None:
        names.check_number("delay", new.run_after_s, 0, names.RUN_AFTER_MAX_S)
        if new.run_at_us is not None:
            raise InvalidInput("A time to run at and a delay were given at once.", "Use one or the other.")
    if new.message is not None:
        names.check_text("message", new.message)
    if new.dedupe_key is not None:
        names.check_name("dedupe key", new.dedupe_key)
    names.check_text("author", new.author, names.NAME_MAX_CHARS)
    for label in new.labels:
        names.check_name("label", label)
    return replace(new, agent=names.agent_key(new.agent), lane=_lane(new))


def _lane(new: NewItem) -> str | None:
    payload = names.check_payload(new.payload) if new.payload is not None else {}
    if new.no_lane:
        if new.lane is not None:
            raise InvalidInput("A lane was given and refused at once.", "Use either --lane or --no-lane.")
        return None
    if new.lane is not None:
        return names.lane_key(new.lane)
    return names.lane_of_payload(payload)


def check_batch(what: str, count: int) -> None:
    """Raise unless a batch is within its limit."""
    if count > names.BATCH_MAX:
        raise TooLarge(f"A batch of {count:,} {what} is too large.", f"At most {names.BATCH_MAX:,} at once.")
