"""JSON that others wrote, read strictly: what is taken here can be kept, and printed as JSON again.

The library takes more than JSON (`NaN`, `Infinity`), makes an infinity of `1e999`, and ends in a
`RecursionError` on what is nested deeply. A text just within what it can read here is beyond it where the
stack is deeper: whoever claimed an item with such a payload could not say what it had claimed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from typing import Any

DEPTH_MAX = 64


def parse(
    text: str | bytes, *, pairs: Callable[[list[tuple[str, Any]]], dict[str, Any]] | None = None
) -> Any:
    """The value of a JSON text; bytes are UTF-8. Raises `ValueError` for all that is none, and nothing else.

    `pairs` makes the objects, where plain ones will not do.
    """
    if isinstance(text, bytes):
        text = text.decode()
    decoder = _DECODER if pairs is None else _decoder(pairs)
    try:
        value = decoder.decode(text)
    except RecursionError:
        raise _too_deep() from None
    if text.count("[") + text.count("{") > DEPTH_MAX and _deeper(value, DEPTH_MAX):
        raise _too_deep()
    return value


def finite(text: str) -> float:
    """A number, if it is one that can be written as JSON."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a number that can be kept")
    return value


def _deeper(value: Any, depth: int) -> bool:
    """Whether more than so many objects and lists stand in each other. Recursion would have its own limit."""
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


def _decoder(
    pairs: Callable[[list[tuple[str, Any]]], dict[str, Any]] | None = None,
) -> json.JSONDecoder:
    return json.JSONDecoder(object_pairs_hook=pairs, parse_float=finite, parse_constant=finite)


_DECODER = _decoder()
