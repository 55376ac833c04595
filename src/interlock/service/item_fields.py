"""Turns plain fields into an arrival, with the defaults of its type.

Options, lines of a batch and keyword arguments all come through here, so that a field means the same
everywhere. The core checks names and limits and finds the lane of a payload.
"""

from __future__ import annotations

import json
import math
import re
import reprlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from interlock.core import names
from interlock.core.commands import QuotaLimit
from interlock.core.errors import InvalidInput
from interlock.core.model import (
    A_PERSON,
    AN_OUTSIDER,
    ANOTHER_SYSTEM,
    OUR_BOT,
    US_PER_S,
    NewItem,
    Policy,
    RetryLane,
    Sender,
    SenderKind,
)
from interlock.core.record import as_dict, replace
from interlock.core.timing import QUOTA_LIMIT_MAX_S
from interlock.settings import TypeDefaults

T = TypeVar("T")
_SPAN = re.compile(r"(\d{1,12}(?:\.\d+)?)\s*(ms|s|m|h|d)?", re.ASCII)
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_WHOLE, _DIGITS_MAX = re.compile(r"[+-]?(\d+)", re.ASCII), 18
#: Unix time, as services report the end of a quota limit.
_SINCE_1970 = re.compile(r"(\d{10})(?:\.\d*)?", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def traced(item: NewItem, parent: str | None) -> NewItem:
    """An arrival that continues a trace, if `parent` is a `traceparent` and its payload has none."""
    if not parent:
        return item
    from interlock.core.tracing import with_parent  # noqa: PLC0415  (most callers are not traced)

    try:
        payload = names.check_payload(item.payload) if item.payload is not None else None
    except InvalidInput:
        return item  # which is refused later
    found = with_parent(payload, parent)
    text = json.dumps(found, ensure_ascii=False)
    full = len(text.encode(errors="replace")) > names.PAYLOAD_MAX_BYTES  # work matters more than traces
    return item if full or found is payload else replace(item, payload=text)


def new_item(
    fields: Mapping[str, object],
    *,
    author: str = "",
    sender: Sender = A_PERSON,
    types: Mapping[str, TypeDefaults] | None = None,
    lanes: names.LaneFields = names.USUAL_FIELDS,
) -> NewItem:
    """An arrival from named fields; null means not given.

    Numbers, spans and times may be text. `payload` is JSON text or an object. `run_at` is a time, or a delay
    on the store's clock. `author` and `sender` are those of the caller, where the fields say nothing else.
    `types` are defaults, `lanes` the fields of the payload that give an item without a lane its lane.
    """
    given: dict[str, Any] = {}
    for key, value in fields.items():
        name = field_name(key)
        if value is not None:
            given[name] = field_value(name, value)
    if "title" not in given:
        raise InvalidInput("The item has no title.", "Describe the work in a few words.")
    if "run_at" in given:
        name, value = _schedule("run_at", given.pop("run_at"))
        if name in given:
            raise InvalidInput(
                "`run_at` and `run_after` cannot be combined.",
                "Pass one of them.",
                fields=("run_at", "run_after"),
            )
        given[name] = value
    stated = stated_sender(**{name: given.pop(name, None) for name in _SENDERS})
    given["sender"], signed = signature(stated, given.get("author"), caller=author, sender=sender)
    defaults = type_defaults(types or {}, given.get("type", "task")) | lane_default(lanes, given)
    return NewItem(**{**defaults, **given, "author": signed, "policy_open": "policy" not in given})


def sent_by(new: NewItem, fields: Mapping[str, object], sender: Sender) -> NewItem:
    """An arrival of these fields, from this sender unless they name one."""
    given = {field_name(key): value for key, value in fields.items()}
    if sender == A_PERSON or any(given.get(name) for name in _SENDERS):
        return new
    author = new.author if given.get("author") is not None else sender.agent or new.author
    return replace(new, sender=sender, author=author)


def _listed(fields: Sequence[str]) -> str:
    return ", ".join(f"`{field}`" for field in fields)


_SENDERS = ("from_person", "from_agent", "from_bot", "from_system", "from_outsider")


def stated_sender(
    *,
    from_person: bool | None = None,
    from_agent: str | None = None,
    from_bot: bool | None = None,
    from_system: bool | None = None,
    from_outsider: bool | None = None,
) -> Sender | None:
    """The sender of a message as the caller states it, if at all."""
    stated = [
        *([A_PERSON] if from_person else []),
        *([Sender(SenderKind.AGENT, names.needed_agent(from_agent))] if from_agent is not None else []),
        *([OUR_BOT] if from_bot else []),
        *([ANOTHER_SYSTEM] if from_system else []),
        *([AN_OUTSIDER] if from_outsider else []),
    ]
    if len(stated) > 1:
        raise InvalidInput("A message has one sender.", f"Pass one of {_listed(_SENDERS)}.", fields=_SENDERS)
    return stated[0] if stated else None


def signature(
    stated: Sender | None, author: str | None, *, caller: str, sender: Sender
) -> tuple[Sender, str]:
    """Sender and author of a message: as stated, else those of the caller. An agent signs with its name."""
    who = sender if stated is None else stated
    return who, (who.agent or caller) if author is None else author


def item_changes(fields: Mapping[str, object], *, or_now: str = "") -> dict[str, Any]:
    """What an edit changes, from named fields of an item. None removes a value: of `agent`, `labels` and
    `position`, or of `run_at`, which means now. `or_now` ends the hint for a time."""
    given: dict[str, Any] = {}
    for key, value in fields.items():
        name = field_name(key)
        if value is None and name in _REMOVED:
            changed = _REMOVED[name]
        elif name == "run_at":
            changed = _schedule(name, field_value(name, value), or_now)
        else:
            changed = name, field_value(name, value)
        given[changed[0]] = changed[1]
    return given


def field_name(key: str) -> str:
    """The name of a field in `NewItem`, from an option's name or an alias."""
    name = _ALIASES.get(key.replace("-", "_"), key.replace("-", "_"))
    if name not in _READERS:
        raise InvalidInput(f"Unknown field {key!r}.", f"Use one of {', '.join(_READERS)}.")
    return name


def field_value(name: str, value: object) -> Any:
    """The value of a field in its own type; `InvalidInput` if it cannot be read."""
    short = next((alias for alias, field in _ALIASES.items() if field == name), name)
    return _named(short, _READERS[name], value)


def _named(field: str, reader: Callable[[str, object], T], value: object) -> T:
    """The value of a field by its reader. A mistake names the field, which shells spell."""
    try:
        return reader(f"`{field}`", value)
    except InvalidInput as mistake:
        mistake.fields = (field,)
        raise


def whole(what: str, value: object) -> int:
    """A whole number that fits a database column, given as a number or as text."""
    if isinstance(value, str) and (digits := _WHOLE.fullmatch(value.strip())):
        if len(digits[1]) > _DIGITS_MAX:
            raise InvalidInput(
                f"{names.the(what)} is a number out of range.", f"Use at most {_DIGITS_MAX} digits."
            )
        return int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidInput(
            f"{names.the(what)} {reprlib.repr(value)} is not a whole number.", "Use digits, as in 3."
        )
    if abs(value) >= 10**_DIGITS_MAX:
        raise InvalidInput(f"{names.the(what)} is out of range.", f"Use at most {_DIGITS_MAX} digits.")
    return value


def span_s(what: str, value: object, *, or_else: str = "") -> float:
    """A duration in seconds: 90, `90`, `90s`, `1.5m`, `2h`, `1d`. The hint of a refusal ends with
    `or_else`."""
    if isinstance(value, str) and (match := _SPAN.fullmatch(value.strip())):
        return float(match[1]) * _UNIT_S[match[2] or "s"]
    if isinstance(value, int | float) and not isinstance(value, bool):
        with suppress(OverflowError):
            if math.isfinite(value):
                return float(value)
    shown = reprlib.repr(value)
    raise InvalidInput(
        f"{names.the(what)} {shown} is not a duration.",
        f"Use seconds, or 90s, 5m, 2h, 1d. {or_else}".rstrip(),
    )


def _schedule(field: str, time: str | datetime, or_now: str = "") -> tuple[str, Any]:
    """When to run: `+5m` from now, or a time. A time without an offset is local."""
    try:
        if isinstance(time, str) and time.startswith("+"):
            return "run_after_s", span_s(field, time[1:])
        at = (datetime.fromisoformat(time) if isinstance(time, str) else time).astimezone(UTC)
        return "run_at_us", (at - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError, OSError, InvalidInput):
        raise InvalidInput(
            f"`{field}` {reprlib.repr(str(time))} is not a time.",
            f"Use ISO 8601, such as 2027-01-31T09:00Z, or +30s, +5m, +2h, +1d{or_now}.",
            fields=(field,),
        ) from None


def quota_limit(
    until: str | datetime | None,
    span: object = None,
    *,
    why: str = "",
    whole_agent: bool = False,
    whole_pool: bool = False,
) -> QuotaLimit | None:
    """A quota limit, by its end: a time, Unix time, `+2h`, or a duration. None if neither is given."""
    ends = ("until", "for_s")
    if until is not None and span is not None:
        raise InvalidInput("`until` and `for_s` cannot be combined.", "Pass one of them.", fields=ends)
    if until is not None:
        return _limit_until(until)._replace(why=why, whole_agent=whole_agent, whole_pool=whole_pool)
    if span is not None:
        for_s = _named("for_s", span_s, span)
        return QuotaLimit(for_s=for_s, why=why, whole_agent=whole_agent, whole_pool=whole_pool)
    if whole_agent or whole_pool:
        raise InvalidInput("The quota limit has no end.", "Pass `until` or `for_s`.", fields=ends)
    return None


def is_cut(met: QuotaLimit, now_s: float) -> bool:
    """Whether the store shortens this quota limit, by the caller's clock."""
    return (met.for_s or 0.0 if met.until_us is None else met.until_us / US_PER_S - now_s) > QUOTA_LIMIT_MAX_S


def _limit_until(until: str | datetime) -> QuotaLimit:
    if isinstance(until, str) and (seconds := _SINCE_1970.fullmatch(until.strip())):
        return QuotaLimit(until_us=int(seconds[1]) * 1_000_000)
    name, value = _schedule("until", until.strip() if isinstance(until, str) else until)
    return QuotaLimit(for_s=value) if name == "run_after_s" else QuotaLimit(until_us=value)


def choice(what: str, value: object, lawful: tuple[str, ...]) -> str:
    """One of a few words."""
    word = value.strip().lower() if isinstance(value, str) else ""
    if word not in lawful:
        spelled = what.startswith(("-", "`"))
        shown = reprlib.repr(value)
        raise InvalidInput(
            f"{what} cannot be {shown}." if spelled else f"Unknown {what} {shown}.",
            f"Use {', '.join(lawful[:-1])} or {lawful[-1]}.",
        )
    return word


def _text(what: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"{names.the(what)} {reprlib.repr(value)} is not a string.", "Put it in quotes.")
    return value


def _words(what: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
        raise InvalidInput(
            f"{names.the(what)} {reprlib.repr(value)} is not a list of strings.", 'Use ["one", "two"].'
        )
    return tuple(value)


def _payload(what: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{names.the(what)} is not a JSON object.", 'Wrap the value: {"value": …}.')
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(
            f"{names.the(what)} cannot be serialized as JSON: {error}.", "Use plain values."
        ) from None


def checked_types(types: object) -> Mapping[str, TypeDefaults]:
    """The defaults of items by their type, as the settings have them."""
    if not isinstance(types, Mapping) or not all(isinstance(each, TypeDefaults) for each in types.values()):
        shown = reprlib.repr(types)
        raise InvalidInput(f"{shown} is not a mapping of defaults.", 'Use {"type": TypeDefaults(…)}.')
    return types


def type_defaults(types: Mapping[str, TypeDefaults], name: str) -> dict[str, Any]:
    """The default fields of a type, by the settings. The service chooses the policy."""
    values = as_dict(types[name]) if name in types else {}
    return {key: value for key, value in values.items() if value is not None and key != "policy"}


def lane_default(lanes: names.LaneFields, given: Mapping[str, Any]) -> dict[str, Any]:
    """The lane of a payload by the settings' fields. The core reads the usual fields."""
    chosen = given.get("lane") is not None or given.get("no_lane")
    if chosen or not any(lanes) or given.get("payload") is None:
        return {}
    try:
        payload = names.check_payload(given["payload"])
    except InvalidInput:
        return {}  # the core refuses it with a reason
    lane = names.lane_of_payload(payload, lanes)
    return {} if lane is None else {"lane": lane}


#: Fields that an edit may clear, and their values then.
_REMOVED: dict[str, tuple[str, Any]] = {
    "agent": ("agent", ""),
    "labels": ("labels", ()),
    "position": ("position", None),
    "run_at": ("run_at_us", 0),
}

#: Short names from options.
_ALIASES = {
    "lease": "lease_s",
    "timeout": "timeout_s",
    "claim_within": "claim_within_s",
    "run_after": "run_after_s",
    "label": "labels",
}

_READERS: dict[str, Callable[[str, object], Any]] = {
    "title": _text,
    "project": _text,
    "type": _text,
    "agent": _text,
    "lane": _text,
    "no_lane": names.check_flag,
    "policy": lambda what, value: Policy(choice(what, value, tuple(Policy))),
    "priority": whole,
    "position": whole,
    "payload": _payload,
    "message": _text,
    "reason": _text,
    "url": _text,
    "said": _text,
    "author": _text,
    "dedupe_key": _text,
    "labels": _words,
    "run_at": lambda what, value: value if isinstance(value, datetime) else _text(what, value),
    "run_after_s": span_s,
    "lease_s": span_s,
    "timeout_s": span_s,
    "claim_within_s": span_s,
    "max_attempts": whole,
    "retry_lane": lambda what, value: RetryLane(choice(what, value, tuple(RetryLane))),
    "from_person": names.check_flag,
    "from_agent": _text,
    "from_bot": names.check_flag,
    "from_system": names.check_flag,
    "from_outsider": names.check_flag,
}
