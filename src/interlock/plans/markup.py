"""Documents in YAML, JSON or TOML as plain values, with line numbers and duplicate keys.

Size, depth and the number of values are limited while reading. Otherwise a few bytes of YAML could expand to
gigabytes, or to a nesting that crashes the process.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from typing import Any

import yaml

from interlock.core import jsontext
from interlock.core.errors import InvalidInput, TooLarge

DOCUMENT_MAX_BYTES = 16 << 20
DEPTH_MAX = jsontext.DEPTH_MAX
VALUES_MAX = 2_000_000

_SUFFIXES = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".toml": "toml"}
_TOML_START = re.compile(r"""\[\[?\s*["'\w.-]+\s*\]|["'\w.-]+\s*=""", re.ASCII)
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9_]*)", re.ASCII)


class Object(dict[str, Any]):
    """A mapping with its line, the lines of its keys, and its duplicate keys."""

    __slots__ = ("duplicates", "line", "lines")

    def __init__(self, line: int | None = None) -> None:
        super().__init__()
        self.line = line
        #: The line of each key, if the parser gives it.
        self.lines: dict[str, int] = {}
        self.duplicates: list[tuple[str, int | None]] = []

    def put(self, key: str, value: Any, line: int | None = None) -> None:
        if key in self:
            self.duplicates.append((key, line))
            return
        self[key] = value
        if line is not None:
            self.lines[key] = line


def duplicates(value: Object) -> Iterator[tuple[str, int | None]]:
    """The duplicate keys in an object of a document and below it, with their lines."""
    inner: list[Any] = [value]
    while inner:
        part = inner.pop()
        if isinstance(part, Object):
            yield from part.duplicates
            inner += part.values()
        elif isinstance(part, list):
            inner += part


def read(what: str, text: str, *, name: str = "-") -> Any:
    """The value of a document. The suffix of its file's `name` decides the format, or else its first line."""
    size = len(text.encode("utf-8", errors="surrogatepass"))
    if size > DOCUMENT_MAX_BYTES:
        raise TooLarge(f"The {what} has {size:,} bytes.", f"At most {DOCUMENT_MAX_BYTES:,} are allowed.")
    if not text.strip():
        raise InvalidInput(f"The {what} is empty.", "Write it in YAML, JSON or TOML.")
    chosen = next((_SUFFIXES[s] for s in _SUFFIXES if name.lower().endswith(s)), None) or _sniffed(text)
    try:
        return _READERS[chosen](text)
    except RecursionError:
        problem = "it is nested too deeply"
    except (ValueError, yaml.YAMLError) as error:
        problem = " ".join(str(error).replace('in "<unicode string>", ', "at ").split()).removesuffix(".")
    raise InvalidInput(f"The {what} is not valid {chosen.upper()}: {problem}.", "Nothing was changed.")


def _sniffed(text: str) -> str:
    """The format, from the start of the text."""
    start = next((line for line in map(str.strip, text.splitlines()) if line and line[0] != "#"), "")
    if start.startswith("{"):
        try:
            json.loads(text)
        except RecursionError:
            return "json"
        except ValueError:
            # YAML has braces too, but needs no quotes in them.
            return "json" if re.match(r'\{\s*("|\}|$)', start) else "yaml"
        return "json"
    return "toml" if _TOML_START.match(start) else "yaml"


def _json(text: str) -> Any:
    return jsontext.parse(text, pairs=_object)


def _object(pairs: list[tuple[str, Any]]) -> Object:
    made = Object()
    for key, value in pairs:
        made.put(key, value)
    return made


def _toml(text: str) -> Any:
    return tomllib.loads(text, parse_float=jsontext.finite)


class _Yaml:
    """Builds values from the events of a YAML parser, whose own loaders recurse in C without a limit."""

    def __init__(self, text: str) -> None:
        self._loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
        self._known: dict[str, tuple[Any, int]] = {}
        self._count = 0

    def value(self) -> Any:
        events = self._events()
        made: Any = None
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                if made is not None:
                    raise ValueError(f"line {_line(event)}: there is a second document")
                made = [self._value(next(events), events, 0)]
        return made[0] if made else None

    def _events(self) -> Iterator[yaml.Event]:
        try:
            while self._loader.check_event():
                yield self._loader.get_event()
        finally:
            self._loader.dispose()

    def _value(self, event: yaml.Event, events: Iterator[yaml.Event], depth: int) -> Any:
        before = self._count
        self._counted(1, event)
        if depth > DEPTH_MAX:
            raise ValueError(f"line {_line(event)}: it is nested more than {DEPTH_MAX} deep")
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._known:
                raise ValueError(f"line {_line(event)}: there is no anchor {event.anchor!r} before it")
            made, weight = self._known[event.anchor]
            self._counted(weight, event)
            return made
        if isinstance(event, yaml.ScalarEvent):
            made = self._scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            made = self._sequence(events, depth)
        else:
            made = self._mapping(event, events, depth)
        if event.anchor is not None:
            self._known[event.anchor] = made, self._count - before
        return made

    def _sequence(self, events: Iterator[yaml.Event], depth: int) -> list[Any]:
        made = []
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            made.append(self._value(event, events, depth + 1))
        return made

    def _mapping(self, start: yaml.Event, events: Iterator[yaml.Event], depth: int) -> Object:
        made = Object(_line(start))
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise ValueError(f"line {_line(event)}: a key is not a string")
            made.put(event.value, self._value(next(events), events, depth + 1), _line(event))
        return made

    def _scalar(self, event: yaml.ScalarEvent) -> Any:
        """A text, number, boolean or null. YAML 1.1's times, octal numbers and base-60 numbers (`12:30`) stay
        texts: their authors do not mean numbers."""
        tag = event.tag or self._loader.resolve(yaml.ScalarNode, event.value, event.implicit)
        kind = tag.removeprefix("tag:yaml.org,2002:")
        if kind == "null":
            return None
        if kind == "bool":
            return event.value.lower() in ("true", "yes", "on")
        if kind == "int" and _INTEGER.fullmatch(event.value) and len(event.value) < 1_000:
            return int(event.value)
        if kind == "float" and ":" not in event.value and not event.value.endswith(("inf", "nan")):
            return jsontext.finite(event.value.replace("_", ""))
        if kind in ("str", "int", "float", "timestamp", "merge", "value"):
            return event.value
        raise ValueError(f"line {_line(event)}: the tag {tag!r} has no meaning here")

    def _counted(self, more: int, event: yaml.Event) -> None:
        self._count += more
        if self._count > VALUES_MAX:
            raise ValueError(f"line {_line(event)}: it has more than {VALUES_MAX:,} values")


def _line(event: yaml.Event) -> int:
    return int(event.start_mark.line) + 1


_READERS: dict[str, Callable[[str], Any]] = {
    "yaml": lambda text: _Yaml(text).value(),
    "json": _json,
    "toml": _toml,
}
