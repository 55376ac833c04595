"""From plain fields to an arrival, with the defaults of its type.

Options, lines of a batch and keyword arguments all come through here, so that a field means the same
everywhere. The core checks names and limits and finds the lane of a payload.
"""

from __future__ import annotations

import json
import math
import re
import reprlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from interlock.core import names
from interlock.core.checking import checked_sender
from interlock.core.commands import Wall
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
from interlock.core.timing import WALL_MAX_S
from interlock.settings import TypeDefaults

_SPAN = re.compile(r"(\d{1,12}(?:\.\d+)?)\s*(ms|s|m|h|d)?", re.ASCII)
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_WHOLE, _DIGITS_MAX = re.compile(r"[+-]?(\d+)", re.ASCII), 18
#: As services tell when a quota is back, and as `date +%s` prints it.
_SINCE_1970 = re.compile(r"(\d{10})(?:\.\d*)?", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def traced(item: NewItem, parent: str | None) -> NewItem:
    """An arrival that goes on with a trace, if `parent` is a `traceparent` and its payload has none."""
    if not parent:
        return item
    from interlock.core.tracing import with_parent  # noqa: PLC0415  (most callers are not traced)

    try:
        payload = names.check_payload(item.payload) if item.payload is not None else None
    except InvalidInput:
        return item  # which is refused in a moment
    found = with_parent(payload, parent)
    text = json.dumps(found, ensure_ascii=False)
    full = len(text.encode(errors="replace")) > names.PAYLOAD_MAX_BYTES  # work goes before traces
    return item if full or found is payload else replace(item, payload=text)


def new_item(
    fields: Mapping[str, object],
    *,
    author: str = "",
    sender: Sender = A_PERSON,
    types: Mapping[str, TypeDefaults] | None = None,
    lanes: names.LaneFields = names.USUAL_FIELDS,
    options: bool = False,
) -> NewItem:
    """An arrival from named fields; null means not given.

    Numbers, spans and times may be text. `payload` is JSON text or an object. `run_at` is a time, or a delay
    on the store's clock. `author` and `sender` are those of the caller, where the fields say nothing else.
    `types` are defaults, `lanes` the fields of the payload that give an item without a lane its lane.
    With `options` a mistake is named by the option that was typed.
    """
    given: dict[str, Any] = {}
    for key, value in fields.items():
        name = field_name(key)
        if value is not None:
            given[name] = field_value(name, value, option=options)
    if "title" not in given:
        raise InvalidInput("The item has no title.", "Describe the work in a few words.")
    if "run_at" in given:
        name, value = _schedule(_spelled("run_at", option=options), given.pop("run_at"))
        if name in given:
            raise InvalidInput("A delay was given twice.", "Use either run_at or run_after_s.")
        given[name] = value
    stated = stated_sender(**{name: given.pop(name, None) for name in _SENDERS})
    given["sender"], signed = signature(stated, given.get("author"), caller=author, sender=sender)
    defaults = type_defaults(types or {}, given.get("type", "task")) | lane_default(lanes, given)
    return NewItem(**{**defaults, **given, "author": signed, "policy_open": "policy" not in given})


_SENDERS = ("from_person", "from_agent", "from_bot", "from_system", "from_outsider")


def stated_sender(
    *,
    from_person: bool | None = None,
    from_agent: str | None = None,
    from_bot: bool | None = None,
    from_system: bool | None = None,
    from_outsider: bool | None = None,
) -> Sender | None:
    """Who wrote a message, as its caller says; nothing if the caller says nothing."""
    stated = [
        *([A_PERSON] if from_person else []),
        *([Sender(SenderKind.AGENT, names.needed_agent(from_agent))] if from_agent is not None else []),
        *([OUR_BOT] if from_bot else []),
        *([ANOTHER_SYSTEM] if from_system else []),
        *([AN_OUTSIDER] if from_outsider else []),
    ]
    if len(stated) > 1:
        raise InvalidInput("A message has one kind of sender.", "Use one of --from-person, --from-agent, …")
    return checked_sender(stated[0]) if stated else None


def signature(
    stated: Sender | None, author: str | None, *, caller: str, sender: Sender
) -> tuple[Sender, str]:
    """Sender and author of a message: as stated, else those of the caller. An agent signs with its name."""
    who = sender if stated is None else stated
    return who, (who.agent or caller) if author is None else author


def item_changes(fields: Mapping[str, object], *, options: bool = False) -> dict[str, Any]:
    """What an edit changes, from named fields of an item. None takes a value away: of `agent`, `labels` and
    `position`, or of `run_at`, which means now. With `options` a mistake is named by the option."""
    given: dict[str, Any] = {}
    for key, value in fields.items():
        name = field_name(key)
        if value is None and name in _REMOVED:
            changed = _REMOVED[name]
        elif name == "run_at":
            changed = _schedule(_spelled(name, option=options), field_value(name, value), now=options)
        else:
            changed = name, field_value(name, value, option=options)
        given[changed[0]] = changed[1]
    return given


def field_name(key: str) -> str:
    """The name of a field in `NewItem`, from an option's name or an alias."""
    name = _ALIASES.get(key.replace("-", "_"), key.replace("-", "_"))
    if name not in _READERS:
        raise InvalidInput(f"The field {key!r} does not exist.", f"Known are {', '.join(_READERS)}.")
    return name


def field_value(name: str, value: object, *, option: bool = False) -> Any:
    """The value of a field in its own type; `InvalidInput` if it cannot be read."""
    return _READERS[name](_spelled(name, option=option), value)


def _spelled(name: str, *, option: bool) -> str:
    """A field in the sentence about a mistake: as the option that was typed, or by its name."""
    short = next((alias for alias, field in _ALIASES.items() if field == name), name)
    return f"--{short.replace('_', '-')}" if option and name != "title" else short


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
    """A span in seconds: 90, `90`, `90s`, `1.5m`, `2h`, `1d`. A refusal's hint ends with `or_else`."""
    if isinstance(value, str) and (match := _SPAN.fullmatch(value.strip())):
        return float(match[1]) * _UNIT_S[match[2] or "s"]
    if isinstance(value, int | float) and not isinstance(value, bool):
        with suppress(OverflowError):
            if math.isfinite(value):
                return float(value)
    shown = reprlib.repr(value)
    raise InvalidInput(
        f"{names.the(what)} {shown} is not a span of time.",
        f"Use seconds, or 90s, 5m, 2h, 1d. {or_else}".rstrip(),
    )


def _schedule(what: str, time: str | datetime, *, now: bool = False) -> tuple[str, Any]:
    """When to run: `+5m` from now, or a time. A time without an offset is local. With `now` that word will do
    too, which the caller has read."""
    try:
        if isinstance(time, str) and time.startswith("+"):
            return "run_after_s", span_s(what, time[1:])
        at = (datetime.fromisoformat(time) if isinstance(time, str) else time).astimezone(UTC)
        return "run_at_us", (at - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError, OSError, InvalidInput):
        raise InvalidInput(
            f"{names.the(what)} {reprlib.repr(str(time))} is not a time.",
            f"Use ISO 8601, as in 2027-01-31T09:00Z, or +30s, +5m, +2h, +1d{', or now' if now else ''}.",
        ) from None


def wall(
    until: str | datetime | None,
    span: object = None,
    *,
    why: str = "",
    whole_agent: bool = False,
    options: bool = False,
) -> Wall | None:
    """A limit from outside, from when it is over: a time, seconds since 1970, `+2h`, or a span.

    None if neither is given. With `options` a mistake is named by the option that was typed."""
    if until is not None and span is not None:
        raise InvalidInput("A wall is over at a time or after a span.", "Use --until or --for, not both.")
    if until is not None:
        what = "--until" if options else "time to wait until"
        return _wall_until(what, until)._replace(why=why, whole_agent=whole_agent)
    if span is not None:
        return Wall(
            for_s=span_s("--for" if options else "time to wait", span), why=why, whole_agent=whole_agent
        )
    if whole_agent:
        raise InvalidInput("It is not clear until when the agent waits.", "Give --until TIME or --for SPAN.")
    return None


def is_cut(met: Wall, now_s: float) -> bool:
    """Whether the store takes this wall to be over earlier than it was said to be; by the caller's clock."""
    return (met.for_s or 0.0 if met.until_us is None else met.until_us / US_PER_S - now_s) > WALL_MAX_S


def _wall_until(what: str, until: str | datetime) -> Wall:
    if isinstance(until, str) and (seconds := _SINCE_1970.fullmatch(until.strip())):
        return Wall(until_us=int(seconds[1]) * 1_000_000)
    name, value = _schedule(what, until.strip() if isinstance(until, str) else until)
    return Wall(for_s=value) if name == "run_after_s" else Wall(until_us=value)


def choice(what: str, value: object, lawful: tuple[str, ...]) -> str:
    """One of a few words."""
    word = value.strip().lower() if isinstance(value, str) else ""
    if word not in lawful:
        option = what.startswith("-")
        shown = reprlib.repr(value)
        raise InvalidInput(
            f"{what} cannot be {shown}." if option else f"{names.the(what)} {shown} does not exist.",
            f"Use {', '.join(lawful[:-1])} or {lawful[-1]}.",
        )
    return word


def _text(what: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"{names.the(what)} {reprlib.repr(value)} is not a text.", "Put it in quotes.")
    return value


def _words(what: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
        raise InvalidInput(
            f"{names.the(what)} {reprlib.repr(value)} is not a list of texts.", 'Use ["one", "two"].'
        )
    return tuple(value)


def _payload(what: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{names.the(what)} is not a JSON object.", 'Wrap it, as in {"value": …}.')
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(
            f"{names.the(what)} cannot be written as JSON: {error}.", "Use plain values."
        ) from None


def checked_types(types: object) -> Mapping[str, TypeDefaults]:
    """The defaults of items by their type, as the settings have them."""
    if not isinstance(types, Mapping) or not all(isinstance(each, TypeDefaults) for each in types.values()):
        shown = reprlib.repr(types)
        raise InvalidInput(f"{shown} are not defaults by type.", 'Use {"name": TypeDefaults(…)}.')
    return types


def type_defaults(types: Mapping[str, TypeDefaults], name: str) -> dict[str, Any]:
    """The fields that the settings give to items of a type. The service chooses the policy."""
    values = as_dict(types[name]) if name in types else {}
    return {key: value for key, value in values.items() if value is not None and key != "policy"}


def lane_default(lanes: names.LaneFields, given: Mapping[str, Any]) -> dict[str, Any]:
    """The lane that the settings give to an item with such a payload. The core looks at the usual fields."""
    chosen = given.get("lane") is not None or given.get("no_lane")
    if chosen or not any(lanes) or given.get("payload") is None:
        return {}
    try:
        payload = names.check_payload(given["payload"])
    except InvalidInput:
        return {}  # the core says why, and refuses it
    lane = names.lane_of_payload(payload, lanes)
    return {} if lane is None else {"lane": lane}


#: Fields whose value an edit may take away, and what it sets instead.
_REMOVED: dict[str, tuple[str, Any]] = {
    "agent": ("agent", ""),
    "labels": ("labels", ()),
    "position": ("position", None),
    "run_at": ("run_at_us", 0),
}

#: Shorter names that options have.
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
