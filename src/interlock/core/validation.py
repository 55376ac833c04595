"""Checks of whole inputs: every shell's input passes here before a transaction begins."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from interlock.core import jsontext, names
from interlock.core.claims import Claim
from interlock.core.commands import Edit, EndExternal, Outcome, QuotaLimit, TakeBack
from interlock.core.continuity import RUN_MAX
from interlock.core.errors import InvalidInput, TooLarge
from interlock.core.model import (
    A_PERSON,
    UNPOSITIONED,
    CheckedItem,
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
from interlock.core.record import as_dict
from interlock.core.timing import FAULT_PAUSE_MAX_S

REASON_MAX_BYTES = 1_000
#: The most types that a gate lets through.
EXEMPT_MAX = 100


def checked_arrivals(items: Sequence[NewItem]) -> list[CheckedItem]:
    """The arrivals of a batch in normal form, or a clear refusal. What was checked is not checked again."""
    check_batch("items", items, NewItem)
    return [new if isinstance(new, CheckedItem) else checked(new) for new in items]


def checked(new: NewItem) -> CheckedItem:
    """The arrival with its names in normal form, or a clear refusal."""
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
            raise InvalidInput(
                "`run_at` and `run_after` cannot be combined.",
                "Pass one of them.",
                fields=("run_at", "run_after"),
            )
    if new.message is not None:
        names.check_message(new.message)
    names.check_cause(new.reason, new.url)
    if new.said != "":
        names.check_text("said", new.said, names.NAME_MAX_CHARS)
    if new.message is None and (new.reason or new.url):
        raise InvalidInput(
            "A reason and a URL describe a message, but there is no message.", "Pass a message too."
        )
    if new.dedupe_key is not None:
        names.check_name("dedupe key", new.dedupe_key)
    names.check_text("author", new.author, names.NAME_MAX_CHARS)
    names.check_flag("no_lane", new.no_lane)
    names.check_flag("policy_open", new.policy_open)
    normal = {
        "agent": names.agent_key(new.agent),
        "lane": _lane(new),
        "policy": names.one_of("policy", new.policy, Policy),
        "retry_lane": names.one_of("retry lane", new.retry_lane, RetryLane),
        "labels": names.check_names("label", new.labels),
        "sender": checked_sender(new.sender),
    }
    return CheckedItem(**{**as_dict(new), **normal})


def checked_sender(sender: object) -> Sender:
    """The sender of a message in normal form. A sender of kind agent has a name, others have none."""
    if not isinstance(sender, Sender):
        raise InvalidInput(f"{reprlib.repr(sender)} is not a sender.", "Pass a Sender.")
    kind = names.one_of("kind of sender", sender.kind, SenderKind)
    agent = names.needed_agent(sender.agent) if sender.agent else ""
    if (kind is SenderKind.AGENT) != bool(agent):
        raise InvalidInput(
            "A sender of kind agent needs a name; other kinds have none.", "Pass the name of an agent only."
        )
    return sender._replace(kind=kind, agent=agent)


def checked_edit(
    item: ItemId,
    changes: Mapping[str, object],
    by: str = "",
    sender: Sender = A_PERSON,
    expected: str | None = None,
) -> Edit:
    """An edit with its values in normal form, or a clear refusal.

    An empty agent means any agent; without a position the order of arrival counts. `run_at_us` or
    `run_after_s` says when the item is due.
    """
    if not isinstance(changes, Mapping):
        raise InvalidInput(f"{reprlib.repr(changes)} is not a mapping of changes.", 'Use {"priority": 3}.')
    if not changes:
        raise InvalidInput(
            "The edit changes nothing.",
            "Pass at least one field, such as `title` or `priority`.",
            fields=("title", "priority"),
        )
    if "run_at_us" in changes and "run_after_s" in changes:
        raise InvalidInput(
            "`run_at` and `run_after` cannot be combined.",
            "Pass one of them.",
            fields=("run_at", "run_after"),
        )
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
        raise InvalidInput(f"The type {EDIT_TYPE} is reserved for plans.", "Use another type.")
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
    if not 0 <= names.whole("run_at", at_us) <= names.RUN_AT_MAX_US:
        raise InvalidInput("`run_at` is not between 1970 and 9999.", "Use a time in that range.")
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
            raise InvalidInput(
                "`lane` and `no_lane` cannot be combined.", "Pass one of them.", fields=("lane", "no_lane")
            )
        return None
    if new.lane is not None:
        lane = names.lane_key(new.lane)
        if lane.startswith(PLAN_LANES):
            raise InvalidInput(
                f"Lanes that begin with {PLAN_LANES} are reserved for plans.", "Use another lane."
            )
        return lane
    return names.lane_of_payload(payload)


def checked_claim(
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
        raise InvalidInput(
            "An external run has no lease and no worker.",
            "Omit `lease` and `worker`.",
            fields=("lease", "worker"),
        )
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
    """The observed end of an external run, or a clear refusal."""
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


def checked_take_back(item: ItemId, why: str, by: str, run: int | None) -> TakeBack:
    """An operator's release, or a clear refusal."""
    if run is not None:
        names.check_whole("run", run, 1, RUN_MAX)
    from_run = None if run is None else RunId(run)
    return TakeBack(item=item, why=given_reason(why), by=signed(by), run=from_run)


def checked_mode(scope: str, value: str, mode: str) -> ModeRule:
    """A mode for a project or a lane prefix, or a clear refusal."""
    if scope not in ("project", "lane"):
        raise InvalidInput(f"Unknown mode scope {reprlib.repr(scope)}.", "Use project or lane.")
    value = _lane_prefix(value) if scope == "lane" else names.check_name("project", value)
    return ModeRule(scope=scope, value=value, mode=names.one_of("mode", mode, Mode))


def _lane_prefix(prefix: str) -> str:
    """A lane prefix in normal form; unlike a whole name it may end in / or a dot."""
    whole = names.check_text("lane prefix", prefix, names.NAME_MAX_CHARS).rstrip("/.")
    if not whole:
        raise InvalidInput(
            "The lane prefix is empty.", "Pass the beginning of a lane name, such as issue:acme/."
        )
    return names.lane_key(whole) + prefix[len(whole) :]


def checked_gate(lane: str, series: str, open_: bool, exempt: Sequence[str], run: int | None) -> Gate:
    """The gate of a lane with its names in normal form, or a clear refusal."""
    if names.lane_key(series) == gated_lane(lane):
        raise InvalidInput("A lane cannot gate itself.", "Pass the lane of the series.")
    if run is not None:
        names.check_whole("run", run, 1, RUN_MAX)
    names.check_flag("open", open_)
    types = names.check_list("exempt types", exempt)
    if len(types) > EXEMPT_MAX:
        raise InvalidInput(f"The gate exempts {len(types)} types.", f"Use at most {EXEMPT_MAX}.")
    kinds = {names.check_name("type", type_) for type_ in types}
    return Gate(series=names.lane_key(series), open=open_, exempt=tuple(sorted(kinds)))


def gated_lane(name: str) -> str:
    """The key of a lane that may have a gate."""
    key = names.lane_key(name)
    if key.startswith(PLAN_LANES):
        raise InvalidInput(f"Lanes that begin with {PLAN_LANES} are reserved for plans.", "Pause the plan.")
    return key


def check_report(
    seen: int, result: str | None, error: str | None, retry: bool, fault_s: float | None = None
) -> None:
    """Raise unless every store can keep a run's report."""
    names.check_whole("read mark", seen, 0, 2**31 - 1)
    names.check_flag("retry", retry)
    if fault_s is not None:
        names.check_number("pause after a set-up fault", fault_s, 0, FAULT_PAUSE_MAX_S)
    if error is not None:
        names.check_text("error", error)
    if result is None:
        return
    names.check_text("result", result)
    try:
        jsontext.parse(result)
    except ValueError as problem:
        raise InvalidInput(f"The result is not valid JSON: {problem}.", "Pass one JSON value.") from None


def check_quota_limit(limit: QuotaLimit | None) -> None:
    """Raise unless a quota limit, if there is one, has a valid end."""
    if limit is None:
        return
    if not isinstance(limit, QuotaLimit):
        raise InvalidInput(
            f"{reprlib.repr(limit)} is not a QuotaLimit.", "Pass one, such as QuotaLimit(for_s=3600)."
        )
    if (limit.until_us is None) == (limit.for_s is None):
        raise InvalidInput("A quota limit ends at a time or after a duration.", "Pass one of the two.")
    if limit.until_us is not None:
        names.check_whole("end of the quota limit", limit.until_us, 0, names.RUN_AT_MAX_US)
    if limit.for_s is not None:
        names.check_number("duration of the quota limit", limit.for_s, 0, names.RUN_AFTER_MAX_S)
    checked_reason(limit.why)
    names.check_flag("whole_agent", limit.whole_agent)
    names.check_flag("whole_pool", limit.whole_pool)


def check_batch(what: str, batch: Sequence[object], kind: type) -> None:
    """Raise unless a batch is a list of one kind and within its limit."""
    if not isinstance(batch, list | tuple) or not all(
        issubclass(each, kind) for each in set(map(type, batch))
    ):
        raise InvalidInput(
            f"{reprlib.repr(batch)} is not a list of {what}.", f"Pass a list of {kind.__name__}."
        )
    check_count(what, batch)


def check_count(what: str, batch: Sequence[object]) -> None:
    """Raise if a batch is too large."""
    if len(batch) > names.BATCH_MAX:
        count = f"{len(batch):,} {what}"
        raise TooLarge(f"A batch of {count} is too large.", f"Use at most {names.BATCH_MAX:,}.")


#: The refusal of a missing reason, also for the command line, which checks its options first.
NO_REASON = ("`why` is missing.", "Pass `why` for the history.")


def given_reason(why: str) -> str:
    """An operator's reason, which the history keeps."""
    if not checked_reason(why).strip():
        raise InvalidInput(*NO_REASON, fields=("why",))
    return why


def checked_reason(why: str) -> str:
    """An optional reason."""
    return names.check_text("reason", why, REASON_MAX_BYTES)


def signed(by: str) -> str | None:
    """The name of the operator, if it is given."""
    return names.check_text("operator's name", by, names.NAME_MAX_CHARS).strip() or None
