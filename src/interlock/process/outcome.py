"""What Python code leaves of its work, as texts that every store can keep: its result, or its error.

Both may be of any type, with code of its own that runs when it is read.
"""

from __future__ import annotations

import json
from typing import Any

from interlock.core.checking import check_report
from interlock.core.errors import InvalidInput

_ERROR_MAX_CHARS = 16_000


def result_text(value: Any) -> str | None:
    """A result as JSON text, None as none; `InvalidInput` if it cannot be kept."""
    if value is None:
        return None
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(
            f"The result cannot be written as JSON: {described(error)}.", "Use plain values."
        ) from None
    check_report(0, text, None, True)
    return text


def error_text(error: BaseException) -> str:
    """An error as a run reports it."""
    return cut(described(error))


def described(error: BaseException) -> str:
    """An error in one line, even if its own `str` raises."""
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException as another:
        return f"{type(error).__name__}, whose text cannot be read: {type(another).__name__}"


def cut(text: str) -> str:
    """The text as every store can keep it."""
    return (
        text.encode(errors="replace").decode().replace("\x00", "\N{REPLACEMENT CHARACTER}")[:_ERROR_MAX_CHARS]
    )
