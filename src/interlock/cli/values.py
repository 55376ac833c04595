"""Parses typed values: files, JSON, numbers, spans and names."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interlock.core import jsontext
from interlock.core.errors import InvalidInput, TooLarge
from interlock.core.names import PAYLOAD_MAX_BYTES, check_repository, check_text, the

if TYPE_CHECKING:
    from interlock.service.contract import Service

#: A batch has at most 1,000 lines, and no line is larger than a payload and a message together.
_INPUT_MAX_BYTES = 64 << 20


def whole_or_none(what: str, text: str | None) -> int | None:
    """A whole number, or None without the option."""
    from interlock.service.item_fields import whole

    return None if text is None else whole(what, text)


def item_number(service: Service, text: str | None) -> int:
    """An item's number, from a number or a run's handle."""
    from interlock.service.item_fields import whole

    text = text or os.environ.get("INTERLOCK_RUN", "")
    if not text:
        raise InvalidInput(
            "ITEM is missing.", "Give its number, as `interlock ls` shows it, or a run's handle."
        )
    if "." in text:
        return service.item_of(text)
    if not text.removeprefix("-").isdecimal():
        raise InvalidInput(
            f"{text[:80]!r} is neither the number of an item nor the handle of a run.",
            "Give the number that `interlock ls` shows, or the handle that `interlock next` printed.",
        )
    return whole("item", text)


def span_or_none(what: str, text: str | None) -> float | None:
    """A span in seconds, or None without the option."""
    from interlock.service.item_fields import span_s

    return None if text is None else span_s(what, text)


def name_or_none(what: str, text: str | None) -> str | None:
    """A name, or None if the option was left out. An empty name is refused: probably an unset variable."""
    if text is not None and not text.strip():
        raise InvalidInput(f"{the(what)} is empty.", "Give it a name, or omit the option.")
    return text


def repository(option: str | None) -> str:
    """The command's GitHub repository: that of the option, else of the job."""
    name = option or os.environ.get("GITHUB_REPOSITORY", "")
    if not name:
        raise InvalidInput("No repository was given.", "Name it with --repo OWNER/NAME.")
    return check_repository(name)


def text_of(what: str, text: str, max_bytes: int = PAYLOAD_MAX_BYTES) -> str:
    """The text itself, the text of a file (`@file`), or standard input (`-`)."""
    if text == "-":
        return _decode(what, sys.stdin.buffer.read(max_bytes + 1), max_bytes)
    return file_text(what, text[1:], max_bytes) if text.startswith("@") else text


def file_text(what: str, name: str, max_bytes: int = _INPUT_MAX_BYTES) -> str:
    """The text of a file, or of standard input for `-`."""
    if name == "-":
        return text_of(what, name, max_bytes)
    try:
        with Path(name).open("rb") as file:
            data = file.read(max_bytes + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InvalidInput(
            f"The {what} cannot be read from {name!r}: {why}.", "Name a file, or - for standard input."
        ) from None
    return _decode(what, data, max_bytes)


def json_text(what: str, text: str) -> str:
    """JSON given as text, `@file` or `-`, checked and within the limit."""
    text = check_text(what, text_of(what, text), PAYLOAD_MAX_BYTES)
    parse_json(what, text)
    return text


def parse_json(what: str, text: str) -> Any:
    """The value of a JSON text."""
    try:
        return jsontext.parse(text)
    except ValueError as error:
        raise InvalidInput(
            f"The {what} is not valid JSON: {error}.", "Quote it for your shell, or give @FILE."
        ) from None


def _decode(what: str, data: bytes, max_bytes: int) -> str:
    if len(data) > max_bytes:  # the rest was not read
        raise TooLarge(f"The {what} has more than {max_bytes:,} bytes.", "Store a link to it instead.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidInput(f"The {what} is not UTF-8 text.", "Convert it to UTF-8.") from None
