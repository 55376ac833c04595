"""Reads small files that another process may have written or damaged: as a whole, and without trusting them.

Only plain files are opened. A FIFO would block us, and a device may do anything. A link would be followed
with our permissions to a file that its creator may not read. A file that is over its limit or has unexpected
contents raises `ValueError`.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from interlock.core import jsontext

#: Between `lstat` and `open` the file may be replaced: do not wait for a writer, do not take a terminal.
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
}

_T = TypeVar("_T")


def read_bytes(path: Path, max_bytes: int) -> bytes:
    """The contents of a plain file. Raises `ValueError` if it is no plain file or too large, `OSError` if it
    is unreadable."""
    check_plain(path.lstat())
    with open(os.open(path, _FLAGS), "rb") as file:  # noqa: PTH123  (a descriptor)
        check_plain(os.fstat(file.fileno()))
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise ValueError(f"it has more than {max_bytes:,} bytes")
    return data


def read_json(path: Path, max_bytes: int) -> dict[str, Any]:
    """The JSON object in a plain file; raises the errors of `read_bytes`."""
    return an_object(read_bytes(path, max_bytes))


def an_object(text: str | bytes) -> dict[str, Any]:
    """Parse a JSON object; raises `ValueError` for any other text."""
    value = jsontext.parse(text)
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    return value


def record(kind: type[_T], values: dict[str, Any]) -> _T:
    """Build a dataclass from plain values; raises `ValueError` if one is missing or has another type."""
    from dataclasses import fields, is_dataclass  # noqa: PLC0415  (the hook only reads JSON)

    assert is_dataclass(kind)
    kinds = get_type_hints(kind)
    for field in fields(kind):
        value = values.get(field.name)
        if field.name not in values or not isinstance(value, kinds[field.name]) or isinstance(value, bool):
            raise ValueError(f"{field.name} is not what it should be")
    return kind(**{field.name: values[field.name] for field in fields(kind)})


def check_plain(found: os.stat_result) -> None:
    """Raise `ValueError` unless it is a plain file."""
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"it is {_KINDS.get(stat.S_IFMT(found.st_mode), 'a device')}, not a plain file")
