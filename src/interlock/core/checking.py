"""Checks of whole inputs: every shell's input passes here before a transaction begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from interlock.core import jsontext, names
from interlock.core.claiming import Claim
from interlock.core.errors import InvalidInput, TooLarge
from interlock.core.model import NewItem
from interlock.core.plans.model import EDIT_TYPE, PLAN_LANES

REASON_MAX_BYTES = 1_000


def checked(new: NewItem) -> NewItem:
    """The arrival with its names in normal form, or a clear refusal."""
    names.check_title(new.title)
    names.check_name("project", new.project)
    names.check_name("type", new.type)
    if new.type == EDIT_TYPE:
        raise InvalidInput(f"The type {EDIT_TYPE} is reserved for plans alone.", "Use another type.")
    names.check_whole("priority", new.priority, names.PRIORITY_MIN, names.PRIORITY_MAX)
    names.check_whole("number of attempts", new.max_attempts, 1, names.ATTEMPTS_MAX)
    if new.position is not None:
        names.check_number("position", new.position, 0, names.POSITION_MAX)
    if new.lease_s is not None:
        names.check_number("lease", new.lease_s, names.LEASE_MIN_S, names.LEASE_MAX_S)
    if new.timeout_s is not None:
        names.check_number("timeout", new.timeout_s, names.LEASE_MIN_S, names.TIMEOUT_MAX_S)
    if new.claim_within_s is not None:
        names.check_number("time to claim", new.claim_within_s, names.LEASE_MIN_S, names.TIMEOUT_MAX_S)
    if new.run_at_us is not None and not 0 <= new.run_at_us <= names.RUN_AT_MAX_US:
        raise InvalidInput("The time to run at is not between 1970 and 9999.", "Use a time in the future.")
    if new.run_after_s is not None:
        names.check_number("delay", new.run_after_s, 0, names.RUN_AFTER_MAX_S)
        if new.run_at_us is not None:
            raise InvalidInput("A time to run at and a delay exclude each other.", "Use one or the other.")
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
            raise InvalidInput("--lane and --no-lane exclude each other.", "Use one or the other.")
        return None
    if new.lane is not None:
        if new.lane.startswith(PLAN_LANES):
            raise InvalidInput(f"The lanes {PLAN_LANES}… are reserved for plans alone.", "Use another lane.")
        return names.lane_key(new.lane)
    return names.lane_of_payload(payload)


def checked_wish(
    agent: str,
    types: Sequence[str],
    labels: Sequence[str],
    limit: int,
    lease_s: float | None,
    worker: str | None,
) -> Claim:
    """A claim with its names in normal form, or a clear refusal."""
    key = names.agent_key(agent)
    if not key:
        raise InvalidInput("An agent's name is needed to claim work.", "Pass --agent NAME.")
    names.check_number("limit", limit, 1, names.BATCH_MAX)
    if lease_s is not None:
        names.check_number("lease", lease_s, names.LEASE_MIN_S, names.LEASE_MAX_S)
    if worker is not None:
        names.check_name("worker", worker)
    return Claim(
        agent=key,
        types=tuple(names.check_name("type", t) for t in types),
        labels=tuple(names.check_name("label", name) for name in labels),
        limit=limit,
        lease_s=lease_s,
        worker=worker,
    )


def check_report(seen: int, result: str | None, error: str | None) -> None:
    """Raise unless every store can keep what a run reports."""
    if seen:
        names.check_number("read mark", seen, 0, 2**31 - 1)
    if error is not None:
        names.check_text("error", error)
    if result is None:
        return
    names.check_text("result", result)
    try:
        jsontext.parse(result)
    except ValueError as problem:
        raise InvalidInput(f"The result is not valid JSON: {problem}.", "Pass one JSON value.") from None


def check_batch(what: str, count: int) -> None:
    """Raise unless a batch is within its limit."""
    if count > names.BATCH_MAX:
        raise TooLarge(f"A batch of {count:,} {what} is too large.", f"At most {names.BATCH_MAX:,} at once.")


def given_reason(why: str) -> str:
    """An operator's reason, which the history keeps."""
    if not checked_reason(why).strip():
        raise InvalidInput("A reason is needed.", 'Pass --reason "…" for the history.')
    return why


def checked_reason(why: str) -> str:
    """An optional reason."""
    return names.check_text("reason", why, REASON_MAX_BYTES)


def signed(by: str) -> str | None:
    """The name of the operator, if it is given."""
    return names.check_text("name of who does it", by, names.NAME_MAX_CHARS).strip() or None
