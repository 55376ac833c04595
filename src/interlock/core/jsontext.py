"""A strict JSON reader: what it accepts can be stored, and printed as JSON again.

Python's reader accepts more than JSON (`NaN`, `Infinity`), reads `1e999` as infinity, and raises
`RecursionError` on deep nesting. How deep depends on the stack at that moment: a payload could be accepted
here and not be printable where it is claimed. So the depth is limited. Of duplicate keys it keeps the last
value, other readers the first, so two readers could disagree about a payload. It makes sixty bytes of memory
from a two-byte empty list, so callers who read untrusted input bound the number of values.
"""

from __future__ import annotations

import json
import math
import re
import reprlib
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

DEPTH_MAX = 64
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)


def parse(
    text: str | bytes,
    *,
    pairs: Callable[[list[tuple[str, Any]]], dict[str, Any]] | None = None,
    values_max: int | None = None,
) -> Any:
    """The value of a JSON text; bytes are UTF-8. Raises `ValueError`, and nothing else, if it is not valid.

    `pairs` makes the objects, if they are not to be plain dicts, and looks for duplicate keys.
    `values_max` bounds how many values the text may have, counted before any is made.
    """
    if isinstance(text, bytes):
        text = text.decode()
    if values_max is not None and _separators(text) >= values_max and _has_more_values(text, values_max):
        raise ValueError(f"it has more than {values_max:,} values")
    decoder = _DECODER if pairs is None else _decoder(pairs)
    try:
        value = decoder.decode(text)
    except RecursionError:
        raise _too_deep() from None
    if text.count("[") + text.count("{") > DEPTH_MAX and _deeper(value, DEPTH_MAX):
        raise _too_deep()
    return value


def _separators(text: str) -> int:
    """At least the number of values in a text without strings, less one."""
    return text.count(",") + text.count("[") + text.count("{")


def _has_more_values(text: str, most: int) -> bool:
    """The same for any text: separators inside strings do not count."""
    count, at = 1, 0
    while (quote := text.find('"', at)) >= 0:
        count += _separators(text[at:quote])
        string = _STRING.match(text, quote)
        if count > most or string is None:  # the decoder refuses an unterminated string
            break
        at = string.end()
    else:
        count += _separators(text[at:])
    return count > most


def finite(text: str) -> float:
    """A number that JSON can represent."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a finite number")
    return value


def _deeper(value: Any, depth: int) -> bool:
    """Whether objects and lists are nested deeper than `depth`, found without recursion."""
    level = _containers([value])
    for _ in range(depth):
        level = _containers(
            inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer)
        )
    return bool(level)


def _containers(values: Iterable[Any]) -> list[dict[str, Any] | list[Any]]:
    return [value for value in values if isinstance(value, dict | list)]


def _too_deep() -> ValueError:
    return ValueError(f"it is nested more than {DEPTH_MAX} deep")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = next(key for key, n in Counter(key for key, _ in pairs).items() if n > 1)
        raise ValueError(f"the key {reprlib.repr(twice)} is duplicated")
    return made


def _decoder(pairs: Callable[[list[tuple[str, Any]]], dict[str, Any]] = _object) -> json.JSONDecoder:
    return json.JSONDecoder(object_pairs_hook=pairs, parse_float=finite, parse_constant=finite)


_DECODER = _decoder()
