"""The result or the error of Python code, as text that every store can keep.

Both may be of any type, and reading them may run their own code.
"""

from __future__ import annotations

import json
from typing import Any

from interlock.core.errors import InvalidInput
from interlock.core.validation import check_report

_ERROR_MAX_CHARS = 16_000


def result_text(value: Any) -> str | None:
    """A result as JSON text; None for None. Raises `InvalidInput` if it cannot be stored."""
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
    """An error as text for the report of a run."""
    return cut(described(error))


def described(error: BaseException) -> str:
    """An error in one line, even if its `str` raises."""
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException as another:
        return f"{type(error).__name__}, whose text cannot be read: {type(another).__name__}"


def cut(text: str) -> str:
    """The text in a form that every store can keep."""
    return (
        text.encode(errors="replace").decode().replace("\x00", "\N{REPLACEMENT CHARACTER}")[:_ERROR_MAX_CHARS]
    )
