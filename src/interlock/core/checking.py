"""Checks of whole inputs: every shell's input passes here before a transaction begins."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from interlock.core import jsontext, names
from interlock.core.claiming import Claim
from interlock.core.commands import Edit, EndExternal, Outcome, Wall
from interlock.core.continuity import RUN_MAX
from interlock.core.errors import InvalidInput, TooLarge
from interlock.core.model import (
    A_PERSON,
    UNPOSITIONED,
    Gate,
    ItemId,
    Mode,
    ModeRule,
    NewItem,
    Policy,
    RetryLane,
    RunId,
    Sender,
    SenderKind,
)
from interlock.core.plans.model import EDIT_TYPE, PLAN_LANES
from interlock.core.record import replace
from interlock.core.timing import FAULT_PAUSE_MAX_S

REASON_MAX_BYTES = 1_000
#: The most types that a gate lets through.
EXEMPT_MAX = 100


def checked(new: NewItem) -> NewItem:
    """The arrival with its names in normal form, or a clear refusal."""
    if not isinstance(new, NewItem):
        raise InvalidInput(f"{reprlib.repr(new)} is not an item.", "Make one with NewItem(title=…).")
    names.check_title(new.title)
    names.check_name("project", new.project)
    _type(new.type)
    _priority(new.priority)
    names.check_whole("number of attempts", new.max_attempts, 1, names.ATTEMPTS_MAX)
    _position(new.position)
    if new.lease_s is not None:
        names.check_number("lease", new.lease_s, names.LEASE_MIN_S, names.LEASE_MAX_S)
    if new.timeout_s is not None:
        names.check_number("timeout", new.timeout_s, names.LEASE_MIN_S, names.TIMEOUT_MAX_S)
    if new.claim_within_s is not None:
        names.check_number("time to claim", new.claim_within_s, names.LEASE_MIN_S, names.TIMEOUT_MAX_S)
    if new.run_at_us is not None:
        _run_at(new.run_at_us)
    if new.run_after_s is not None:
        _delay(new.run_after_s)
        if new.run_at_us is not None:
            raise InvalidInput("A time to run at and a delay exclude each other.", "Use one or the other.")
    if new.message is not None:
        names.check_message(new.message)
    names.check_cause(new.reason, new.url)
    if new.said != "":
        names.check_text("said", new.said, names.NAME_MAX_CHARS)
    if new.message is None and (new.reason or new.url):
        raise InvalidInput(
            "A reason and a url belong to a message, and no message was given.", "Give a message too."
        )
    if new.dedupe_key is not None:
        names.check_name("dedupe key", new.dedupe_key)
    names.check_text("author", new.author, names.NAME_MAX_CHARS)
    names.check_flag("no_lane", new.no_lane)
    names.check_flag("policy_open", new.policy_open)
    return replace(
        new,
        agent=names.agent_key(new.agent),
        lane=_lane(new),
        policy=names.one_of("policy", new.policy, Policy),
        retry_lane=names.one_of("retry lane", new.retry_lane, RetryLane),
        labels=names.check_names("label", new.labels),
        sender=checked_sender(new.sender),
    )


def checked_sender(sender: object) -> Sender:
    """Who wrote a message, in normal form; an agent has a name, and nobody else has."""
    if not isinstance(sender, Sender):
        raise InvalidInput(f"{reprlib.repr(sender)} is not a sender.", "Pass a Sender.")
    kind = names.one_of("kind of sender", sender.kind, SenderKind)
    agent = names.needed_agent(sender.agent) if sender.agent else ""
    if (kind is SenderKind.AGENT) != bool(agent):
        raise InvalidInput("An agent that writes has a name, and only an agent.", "Pass its name.")
    return sender._replace(kind=kind, agent=agent)


def checked_edit(
    item: ItemId,
    changes: Mapping[str, object],
    by: str = "",
    sender: Sender = A_PERSON,
    expected: str | None = None,
) -> Edit:
    """An edit with its values in normal form, or a clear refusal.

    An empty agent means any, no position one that only arrival orders. `run_at_us` and `run_after_s` say when
    it is due.
    """
    if not isinstance(changes, Mapping):
        raise InvalidInput(f"{reprlib.repr(changes)} are no changes.", 'Use {"priority": 3}.')
    if not changes:
        raise InvalidInput("There is nothing to change.", "Give at least one of --title, --priority, …")
    if "run_at_us" in changes and "run_after_s" in changes:
        raise InvalidInput("A time to run at and a delay exclude each other.", "Use one or the other.")
    if unknown := ", ".join(str(name) for name in changes if name not in _CHANGES):
        raise InvalidInput(f"An edit cannot change {unknown}.", f"It can change {', '.join(_CHANGES)}.")
    given: dict[str, Any] = {name: _CHANGES[name](value) for name, value in changes.items()}
    run_at_us, run_after_s = given.pop("run_at_us", None), given.pop("run_after_s", None)
    if "agent" in given:
        given["agent_key"] = given.pop("agent")
    if expected is not None:
        names.check_text("version", expected, names.NAME_MAX_CHARS)
    return Edit(
        item=item,
        expected=expected,
        spec=given,
        run_at_us=run_at_us,
        run_after_s=run_after_s,
        by=signed(by),
        sender=checked_sender(sender),
    )


def _type(name: str) -> str:
    if names.check_name("type", name) == EDIT_TYPE:
        raise InvalidInput(f"The type {EDIT_TYPE} is reserved for plans alone.", "Use another type.")
    return name


def _priority(value: int) -> int:
    names.check_whole("priority", value, names.PRIORITY_MIN, names.PRIORITY_MAX)
    return value


def _position(value: int | None) -> int:
    if value is None:
        return UNPOSITIONED
    names.check_whole("position", value, 0, names.POSITION_MAX)
    return value


def _run_at(at_us: int) -> int:
    if not 0 <= names.whole("time to run at", at_us) <= names.RUN_AT_MAX_US:
        raise InvalidInput("The time to run at is not between 1970 and 9999.", "Use a later time.")
    return at_us


def _delay(span_s: float) -> float:
    names.check_number("delay", span_s, 0, names.RUN_AFTER_MAX_S)
    return span_s


#: What an edit may change, and how its values are checked.
_CHANGES: dict[str, Callable[[Any], Any]] = {
    "title": names.check_title,
    "type": _type,
    "agent": names.agent_key,
    "labels": lambda value: names.check_names("label", value),
    "priority": _priority,
    "position": _position,
    "run_at_us": _run_at,
    "run_after_s": _delay,
}


def _lane(new: NewItem) -> str | None:
    payload = names.check_payload(new.payload) if new.payload is not None else {}
    if new.no_lane:
        if new.lane is not None:
            raise InvalidInput("--lane and --no-lane exclude each other.", "Use one or the other.")
        return None
    if new.lane is not None:
        lane = names.lane_key(new.lane)
        if lane.startswith(PLAN_LANES):
            raise InvalidInput(f"The lanes {PLAN_LANES}… are reserved for plans alone.", "Use another lane.")
        return lane
    return names.lane_of_payload(payload)


def checked_wish(
    agent: str,
    types: Sequence[str],
    labels: Sequence[str],
    limit: int,
    lease_s: float | None,
    worker: str | None,
    *,
    external: bool = False,
) -> Claim:
    """A claim with its names in normal form, or a clear refusal."""
    key = names.needed_agent(agent)
    names.check_whole("limit", limit, 1, names.BATCH_MAX)
    if lease_s is not None:
        names.check_number("lease", lease_s, names.LEASE_MIN_S, names.LEASE_MAX_S)
    if worker is not None:
        names.check_name("worker", worker)
    if names.check_flag("external", external) and not (lease_s is None and worker is None):
        raise InvalidInput("An external run has neither a lease nor a worker.", "Use one or the other.")
    return Claim(
        agent=key,
        types=names.check_names("type", types),
        labels=names.check_names("label", labels),
        limit=limit,
        lease_s=lease_s,
        worker=worker,
        external=external,
    )


def checked_end(item: int, run: int, outcome: str, *, why: str, by: str, result: str | None) -> EndExternal:
    """What was seen of an external run, or a clear refusal."""
    names.check_whole("run", run, 1, RUN_MAX)
    how = names.one_of("outcome", outcome, Outcome)
    check_report(0, result, None, True)
    return EndExternal(
        item=ItemId(item),
        run=RunId(run),
        outcome=how,
        why=given_reason(why),
        by=signed(by),
        result=result,
    )


def checked_mode(scope: str, value: str, mode: str) -> ModeRule:
    """A mode for a project or a lane prefix, or a clear refusal."""
    if scope not in ("project", "lane"):
        shown = reprlib.repr(scope)
        raise InvalidInput(f"A mode is set for a project or a lane prefix, not {shown}.", "")
    value = _lane_prefix(value) if scope == "lane" else names.check_name("project", value)
    return ModeRule(scope=scope, value=value, mode=names.one_of("mode", mode, Mode))


def _lane_prefix(prefix: str) -> str:
    """A lane prefix in normal form; unlike a whole name it may end in / or a dot."""
    whole = names.check_text("lane prefix", prefix, names.NAME_MAX_CHARS).rstrip("/.")
    if not whole:
        raise InvalidInput("The lane prefix is empty.", "Pass how the lanes' names begin: issue:acme/.")
    return names.lane_key(whole) + prefix[len(whole) :]


def checked_gate(lane: str, series: str, open_: bool, exempt: Sequence[str], run: int | None) -> Gate:
    """The gate of a lane with its names in normal form, or a clear refusal."""
    if names.lane_key(series) == gated_lane(lane):
        raise InvalidInput("A lane cannot be gated by itself.", "Name the lane of the series.")
    if run is not None:
        names.check_whole("run", run, 1, RUN_MAX)
    names.check_flag("open", open_)
    types = names.check_list("exempt types", exempt)
    if len(types) > EXEMPT_MAX:
        raise InvalidInput(f"A gate exempts {EXEMPT_MAX} types at most.", "Name fewer.")
    kinds = {names.check_name("type", type_) for type_ in types}
    return Gate(series=names.lane_key(series), open=open_, exempt=tuple(sorted(kinds)))


def gated_lane(name: str) -> str:
    """The key of a lane that may have a gate."""
    key = names.lane_key(name)
    if key.startswith(PLAN_LANES):
        raise InvalidInput(f"The lanes {PLAN_LANES}… are reserved for plans alone.", "Pause the plan.")
    return key


def check_report(
    seen: int, result: str | None, error: str | None, retry: bool, fault_s: float | None = None
) -> None:
    """Raise unless every store can keep what a run reports."""
    names.check_whole("read mark", seen, 0, 2**31 - 1)
    names.check_flag("retry", retry)
    if fault_s is not None:
        names.check_number("pause after a fault", fault_s, 0, FAULT_PAUSE_MAX_S)
    if error is not None:
        names.check_text("error", error)
    if result is None:
        return
    names.check_text("result", result)
    try:
        jsontext.parse(result)
    except ValueError as problem:
        raise InvalidInput(f"The result is not valid JSON: {problem}.", "Pass one JSON value.") from None


def check_wall(wall: Wall | None) -> None:
    """Raise unless a wall, if there is one, says until when."""
    if wall is None:
        return
    if not isinstance(wall, Wall):
        raise InvalidInput(f"{reprlib.repr(wall)} is not a wall.", "Make one with Wall(until_us=…).")
    if (wall.until_us is None) == (wall.for_s is None):
        raise InvalidInput("A wall is over at a time or after a span.", "Use --until or --for, not both.")
    if wall.until_us is not None:
        names.check_whole("time to wait until", wall.until_us, 0, names.RUN_AT_MAX_US)
    if wall.for_s is not None:
        names.check_number("time to wait", wall.for_s, 0, names.RUN_AFTER_MAX_S)
    checked_reason(wall.why)
    names.check_flag("whole_agent", wall.whole_agent)


def check_batch(what: str, batch: Sequence[object], kind: type) -> None:
    """Raise unless a batch is a list of one kind and within its limit."""
    if not isinstance(batch, list | tuple) or not all(isinstance(each, kind) for each in batch):
        raise InvalidInput(f"{reprlib.repr(batch)} is not a list of {what}.", f"Each is a {kind.__name__}.")
    check_count(what, batch)


def check_count(what: str, batch: Sequence[object]) -> None:
    """Raise if a batch is too large."""
    if len(batch) > names.BATCH_MAX:
        count = f"{len(batch):,} {what}"
        raise TooLarge(f"A batch of {count} is too large.", f"At most {names.BATCH_MAX:,} at once.")


#: The refusal of a missing reason, also on the command line, which misses the option before we do.
NO_REASON = ("--reason is missing.", 'Pass --reason "…" for the history.')


def given_reason(why: str) -> str:
    """An operator's reason, which the history keeps."""
    if not checked_reason(why).strip():
        raise InvalidInput(*NO_REASON)
    return why


def checked_reason(why: str) -> str:
    """An optional reason."""
    return names.check_text("reason", why, REASON_MAX_BYTES)


def signed(by: str) -> str | None:
    """The name of the operator, if it is given."""
    return names.check_text("name of who does it", by, names.NAME_MAX_CHARS).strip() or None
