"""Conversion between values and JSON, by type, for servers and clients.

`to_json` of the contract writes; this module reads. A reader is made from a type's annotations at first use.
A server may know more fields than its client: unknown fields of an answer are ignored, and missing ones get
their defaults. In a request an unknown field is a mistake.
"""

from __future__ import annotations

import reprlib
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from interlock.core.errors import InvalidInput
from interlock.core.record import Record
from interlock.service.item_view import ItemView

Reader = Callable[[Any, str], Any]

_PLAIN = {str: "a string", int: "a whole number", float: "a number", bool: "true or false"}


class SentItem(ItemView):
    """An item from a server. Its fields are read from the JSON on access."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SentItem):
            return NotImplemented
        return self._values == other._values

    def __hash__(self) -> int:
        return hash(self.id)


def _sent(name: str) -> property:
    def read(item: SentItem) -> Any:
        return _item_fields()[name](item._values.get(name), name)

    return property(read)


for _name in ItemView.FIELDS:
    setattr(SentItem, _name, _sent(_name))


@cache
def _item_fields() -> dict[str, Reader]:
    hints = get_type_hints(ItemView)
    return {name: reader(hints[name]) for name in ItemView.FIELDS}


def read(kind: Any, value: Any, *, what: str = "", strict: bool = False) -> Any:
    """The value of a type from its JSON; `InvalidInput` if it does not fit."""
    return reader(kind, strict=strict)(value, what)


@cache
def reader(kind: Any, *, strict: bool = False) -> Reader:
    """The reader of a type. `what` names the place in a mistake."""
    origin, args = get_origin(kind), get_args(kind)
    if kind is Any or kind is object:
        return lambda value, _: value
    if kind in _PLAIN:
        return _storable(kind) if strict and kind in (int, str) else _plain(kind)
    if kind is type(None):
        return _null
    if origin in (Union, types.UnionType):
        return _union(args, strict=strict)
    if origin in (tuple, list, Sequence, typing.Sequence):
        return _list(args[0], tuple if origin is tuple else list, strict=strict)
    if origin in (dict, Mapping):
        return _mapping(args, strict=strict)
    if hasattr(kind, "__supertype__"):
        return reader(kind.__supertype__, strict=strict)
    if kind is datetime:
        return _moment
    if issubclass(kind, Enum):
        return _enum(kind)
    if issubclass(kind, ItemView):
        return lambda value, what: SentItem(_object(value, what))
    return _parts(kind, strict=strict)


def is_record(kind: Any) -> bool:
    """Whether it is a type with named parts."""
    return isinstance(kind, type) and issubclass(kind, Record)


@cache
def parts_of(kind: Any) -> Mapping[str, Any]:
    """The parts of a record or named tuple by name, with their types."""
    names = kind.PARTS if issubclass(kind, Record) else kind._fields
    hints = get_type_hints(kind)
    return {name: hints[name] for name in names}


def is_needed(kind: Any, name: str) -> bool:
    """Whether a part has no default."""
    if issubclass(kind, Record):
        return not hasattr(kind, name)
    return name not in kind._field_defaults


def wrong(what: str, value: Any, should: str) -> InvalidInput:
    return InvalidInput(f"{what or 'The body'} is {reprlib.repr(value)}.", f"It must be {should}.")


def _plain(kind: type) -> Reader:
    def read_plain(value: Any, what: str) -> Any:
        if kind is float and type(value) is int:
            return float(value) if abs(value) < 1 << 53 else value
        if type(value) is not kind:
            raise wrong(what, value, _PLAIN[kind])
        return value

    return read_plain


def _storable(kind: type) -> Reader:
    """A reader of a number or a string that every store can keep."""
    plain = _plain(kind)

    def read_number(value: Any, what: str) -> Any:
        if not -(1 << 63) <= plain(value, what) < 1 << 63:
            raise wrong(what, value, "a whole number of 64 bits")
        return value

    def read_text(value: Any, what: str) -> Any:
        if "\x00" in plain(value, what) or not (value.isascii() or _is_unicode(value)):
            raise wrong(what, value, "valid Unicode, without NUL")
        return value

    return read_number if kind is int else read_text


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


def _null(value: Any, what: str) -> None:
    if value is not None:
        raise wrong(what, value, "null")


def _union(kinds: tuple[Any, ...], *, strict: bool) -> Reader:
    readers = [reader(kind, strict=strict) for kind in kinds if kind is not type(None)]
    nullable = type(None) in kinds

    def read_one(value: Any, what: str) -> Any:
        if value is None and nullable:
            return None
        for number, each in enumerate(readers, 1):
            try:
                return each(value, what)
            except InvalidInput:
                if number == len(readers):
                    raise
        raise AssertionError("the last reader answers or raises")

    return read_one


def _list(kind: Any, make: type, *, strict: bool) -> Reader:
    each = reader(kind, strict=strict)

    def read_list(value: Any, what: str) -> Any:
        if not isinstance(value, list):
            raise wrong(what, value, "a list")
        return make([each(part, f"{what}[{n}]") for n, part in enumerate(value)])

    return read_list


def _mapping(kinds: tuple[Any, ...], *, strict: bool) -> Reader:
    key, each = kinds[0], reader(kinds[1], strict=strict)

    def read_mapping(value: Any, what: str) -> Any:
        return {int(k) if key is int else k: each(v, f"{what}.{k}") for k, v in _object(value, what).items()}

    return read_mapping


def _object(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise wrong(what, value, "an object")
    return value


def _moment(value: Any, what: str) -> datetime:
    try:
        at = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        at = None
    if at is None or at.tzinfo is None:
        raise wrong(what, value, "a time such as 2027-01-31T09:00:00Z")
    return at


def _enum(kind: type[Enum]) -> Reader:
    def read_enum(value: Any, what: str) -> Any:
        try:
            return kind(value)
        except ValueError:
            raise wrong(what, value, f"one of {', '.join(str(each.value) for each in kind)}") from None

    return read_enum


def _parts(kind: Any, *, strict: bool) -> Reader:
    readers = {name: reader(part, strict=strict) for name, part in parts_of(kind).items()}
    needed = {name for name in readers if is_needed(kind, name)}
    # A server renders the cures into the hint, and also sends the advice alone.
    hint = ("mend" if "mend" in readers else "hint") if "cures" in readers else None

    def read_parts(value: Any, what: str) -> Any:
        given = _object(value, what)
        if hint is not None and "advice" in given:
            given = {**given, hint: given["advice"]}
        known = {name: each(given[name], f"{what}.{name}") for name, each in readers.items() if name in given}
        if strict:
            check_fields(what, given, readers, needed)
        elif missing := needed - known.keys():
            raise wrong(what, value, f"an answer of a server that knows {', '.join(sorted(missing))}")
        return kind(**known)

    return read_parts


def check_fields(
    what: str, given: Mapping[str, Any], known: Mapping[str, Any], needed: set[str] | frozenset[str]
) -> None:
    """Raise if a field is missing or unknown."""
    place = f"{what} " if what else ""
    for name in given:
        if name not in known:
            raise InvalidInput(
                f"{place}has an unknown field {name[:80]!r}.".strip(), f"Use {', '.join(known)}."
            )
    for name in sorted(needed - given.keys()):
        raise InvalidInput(f"{place}lacks the field {name}.", "Pass every field without a default.")


def operation_name(kind: type) -> str:
    """The name of an operation in a plan file: `add_task` for `AddTask`."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in kind.__name__).lstrip("_")


def read_operation(value: Any, what: str) -> Any:
    """An operation on a plan, named by `op`, with the fields of its type."""
    from interlock.core.plans.model import EditOperation  # noqa: PLC0415  (for plans alone)

    given = dict(_object(value, what))
    kinds = {operation_name(kind): kind for kind in get_args(EditOperation)}
    name = given.pop("op", None)
    if name not in kinds:
        raise wrong(f"{what}.op", name, f"one of {', '.join(kinds)}")
    return read(kinds[name], given, what=what, strict=True)
