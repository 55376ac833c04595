"""From plain fields to an arrival: the one place where a type's defaults are filled in.

Every shell that lets people name fields (options, lines of a batch, keyword arguments) comes through here,
so that the same words mean the same item everywhere. Names, limits and the lane of a payload are left to
the core.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from interlock.core.errors import InvalidInput
from interlock.core.model import NewItem, Policy, RetryLane
from interlock.settings import TypeDefaults

_SPAN = re.compile(r"(\d{1,12}(?:\.\d+)?)\s*(ms|s|m|h|d)?", re.ASCII)
_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_WHOLE, _DIGITS = re.compile(r"[+-]?\d{1,18}", re.ASCII), re.compile(r"[+-]?\d+", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def new_item(
    fields: Mapping[str, object],
    *,
    author: str = "",
    types: Mapping[str, TypeDefaults] | None = None,
) -> NewItem:
    """An arrival from named fields; one that is null counts as not given.

    Numbers, spans and times may be text. `payload` is JSON text or an object. `run_at` is a time, or a delay
    that the store's clock counts.
    """
    given: dict[str, Any] = {}
    for key, value in fields.items():
        name = field_name(key)
        if value is not None:
            given[name] = field_value(name, value)
    if "title" not in given:
        raise InvalidInput("The item has no title.", "Say in a few words what is to be done.")
    if "run_at" in given:
        name, value = _schedule("run at", given.pop("run_at"))
        if name in given:
            raise InvalidInput("A delay was given twice.", "Use either run_at or run_after_s.")
        given[name] = value
    defaults = type_defaults(types or {}, given.get("type", "task"))
    return NewItem(**{"author": author, **defaults, **given})


def field_name(key: str) -> str:
    """The name of a field as `NewItem` has it, from the name that somebody gave it."""
    name = _ALIASES.get(key.replace("-", "_"), key.replace("-", "_"))
    if name not in _READERS:
        raise InvalidInput(f"The field {key!r} does not exist.", f"Known are {', '.join(_READERS)}.")
    return name


def field_value(name: str, value: object) -> Any:
    """What a field's value means, or a clear refusal."""
    return _READERS[name](name.removesuffix("_s").replace("_", " "), value)


def whole(what: str, value: object) -> int:
    """A whole number that fits a database column, given as such or as text."""
    if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
        return int(value)
    if isinstance(value, str) and _DIGITS.fullmatch(value.strip()):
        raise InvalidInput(f"The {what} is a number that is out of range.", "Use at most 18 digits.")
    if isinstance(value, int) and not isinstance(value, bool):
        if abs(value) < 10**18:
            return value
        raise InvalidInput(f"The {what} is out of range.", "Use at most 18 digits.")
    raise InvalidInput(f"The {what} {value!r} is not a whole number.", "Use digits, as in 3.")


def span_s(what: str, value: object) -> float:
    """A span in seconds: 90, `90`, `90s`, `1.5m`, `2h`, `1d`."""
    if isinstance(value, str) and (match := _SPAN.fullmatch(value.strip())):
        return float(match[1]) * _UNIT_S[match[2] or "s"]
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    raise InvalidInput(f"The {what} {value!r} is not a span of time.", "Use seconds, or 90s, 5m, 2h, 1d.")


def _schedule(what: str, time: str | datetime) -> tuple[str, Any]:
    """When to run: `+5m` from now, or a time. Without an offset it is local time."""
    try:
        if isinstance(time, str) and time.startswith("+"):
            return "run_after_s", span_s(what, time[1:])
        at = (datetime.fromisoformat(time) if isinstance(time, str) else time).astimezone(UTC)
        return "run_at_us", (at - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError, OSError, InvalidInput):
        raise InvalidInput(
            f"The {what} {str(time)!r} is not a time.",
            "Use ISO 8601, as in 2027-01-31T09:00Z, or +30s, +5m, +2h, +1d.",
        ) from None


def choice(what: str, value: object, lawful: tuple[str, ...]) -> str:
    """One of a few words."""
    word = value.strip().lower() if isinstance(value, str) else ""
    if word not in lawful:
        raise InvalidInput(
            f"The {what} {value!r} does not exist.", f"Use {', '.join(lawful[:-1])} or {lawful[-1]}."
        )
    return word


def _time(what: str, value: object) -> str | datetime:
    return value if isinstance(value, datetime) else _text(what, value)


def _text(what: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(f"The {what} {value!r} is not a text.", "Put it in quotes.")
    return value


def _flag(what: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(f"The {what} {value!r} is neither true nor false.", "Use true or false.")
    return value


def _words(what: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
        raise InvalidInput(f"The {what} {value!r} is not a list of texts.", 'Use ["one", "two"].')
    return tuple(value)


def _payload(what: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, Mapping):
        raise InvalidInput(f"The {what} is not a JSON object.", 'Wrap it, as in {"value": …}.')
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"The {what} cannot be written as JSON: {error}.", "Use plain values.") from None


def _policy(what: str, value: object) -> Policy:
    return Policy(choice(what, value, tuple(Policy)))


def _retry_lane(what: str, value: object) -> RetryLane:
    return RetryLane(choice(what, value, tuple(RetryLane)))


def type_defaults(types: Mapping[str, TypeDefaults], name: str) -> dict[str, Any]:
    """What items of a type are where nothing else was said."""
    chosen = types.get(name)
    if chosen is None:
        return {}
    values = {key: getattr(chosen, key) for key in chosen.__slots__}
    if values["policy"] is not None:
        values["policy"] = Policy(values["policy"])
    return {key: value for key, value in values.items() if value is not None}


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
    "no_lane": _flag,
    "policy": _policy,
    "priority": whole,
    "position": whole,
    "payload": _payload,
    "message": _text,
    "author": _text,
    "dedupe_key": _text,
    "labels": _words,
    "run_at": _time,
    "run_after_s": span_s,
    "lease_s": span_s,
    "timeout_s": span_s,
    "claim_within_s": span_s,
    "max_attempts": whole,
    "retry_lane": _retry_lane,
    "from_bot": _flag,
}
