"""Parses and evaluates GitHub's expressions: the parts of the language that keys and conditions need.

A value that is not in the file (a variable of the repository, the output of a job) is `Opaque`: only its name
is known. It may be part of a text. If a decision depends on it, evaluation raises `Undecided`, and the caller
reports nothing instead of a false finding.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

#: Deeper than any real expression. It prevents a hostile file from exhausting the stack.
_DEPTH_MAX = 50


class MalformedExpression(ValueError):
    """The text is not an expression of GitHub's language."""


class Undecided(Exception):
    """The result depends on a value that only a real run knows."""


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value that only a run knows, represented by a name. Equal names mean equal values, unless it
    varies."""

    name: str
    #: Another run may have another value: a text that contains it is unknown.
    varies: bool = False
    #: Whether it counts as true, if that is known although the value is not.
    is_true: bool | None = None

    def __getitem__(self, key: str) -> Opaque:
        return Opaque(f"{self.name}.{key}", self.varies)


@dataclass(frozen=True, slots=True)
class KnownObject:
    """An object with some known fields; every other field exists and has an unknown value."""

    name: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, key: str) -> Any:
        return self.fields[key] if key in self.fields else Opaque(f"{self.name}.{key}")


@dataclass(frozen=True, slots=True)
class InputValues:
    """The inputs of a called workflow. The value of an omitted input is unknown."""

    values: Mapping[str, Any]

    @property
    def name(self) -> str:
        return "inputs"

    def __getitem__(self, key: str) -> Any:
        return self.values[key] if key in self.values else Opaque(f"inputs.{key}", varies=True)


Value = Any  # None, bool, float, str, list, Mapping, Record or Opaque
Node = Callable[[Mapping[str, Value]], Value]

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>[-+]?(?:0x[0-9a-f]+|0o[0-7]+|(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?))(?![\w.])
      | (?P<string>'(?:[^']|'')*')
      | (?P<name>[a-z_][a-z0-9_-]*)
      | (?P<mark>&&|\|\||==|!=|<=|>=|[<>!()\[\].,*])
    )""",
    re.VERBOSE | re.IGNORECASE,
)
PIECE = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Template:
    """A text with `${{ … }}` in it, parsed and ready to fill in."""

    pieces: tuple[str | Node, ...]

    def fill(self, contexts: Mapping[str, Value]) -> str:
        """The text for given contexts. Opaque values appear by their names."""
        return "".join(p if isinstance(p, str) else text_of(p(contexts)) for p in self.pieces)


def parse_template(text: str) -> Template:
    """Split a text into literal and computed pieces."""
    pieces: list[str | Node] = []
    end = 0
    for match in PIECE.finditer(text):
        pieces += [text[end : match.start()], parse(match[1])]
        end = match.end()
    if "${{" in text[end:]:
        raise MalformedExpression("${{ is not closed")
    return Template((*pieces, text[end:]))


def parse_condition(text: str) -> Node:
    """Parse the condition of `if:`: one expression, with or without `${{ }}`, or a text with such pieces."""
    stripped = text.strip()
    whole = PIECE.fullmatch(stripped)
    if whole and "${{" not in whole[1]:
        return parse(whole[1])
    if "${{" not in stripped:
        return parse(stripped)
    return parse_template(stripped).fill


def parse(text: str) -> Node:
    """Parse one expression into a function of its contexts."""
    return _Parser(text).whole()


def truth(value: Value) -> bool:
    """Whether GitHub treats a value as true; raises `Undecided` if unknown."""
    if isinstance(value, Opaque):
        if value.is_true is None:
            raise Undecided(value.name)
        return value.is_true
    if isinstance(value, float):
        return value != 0 and not math.isnan(value)
    return value is True or (value not in (None, False, ""))


def text_of(value: Value) -> str:
    """A value as part of a text."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return str(int(value)) if value.is_integer() else repr(value)
        case Opaque(varies=True):
            raise Undecided(value.name)
        case Opaque() | KnownObject() | InputValues():
            return f"<{value.name}>"
        case Mapping():
            return "Object"
        case list():
            return "Array"
        case _:
            return str(value)


def _label(value: Value) -> str:
    """A value as part of a name."""
    return f"<{value.name}>" if isinstance(value, Opaque) else text_of(value)


def _varies(*values: Value) -> bool:
    return any(isinstance(value, Opaque) and value.varies for value in values)


class _Parser:
    """A recursive-descent parser, from the lowest operator precedence."""

    def __init__(self, text: str) -> None:
        self._tokens = tokens(text)
        self._at = 0
        self._depth = 0

    def whole(self) -> Node:
        node = self._disjunction()
        if self._peek()[0] != "end":
            raise MalformedExpression(f"{self._peek()[1]!r} is not expected")
        return node

    def _disjunction(self) -> Node:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise MalformedExpression("it is nested too deeply")
        node = self._conjunction()
        while self._take("||"):
            node = _junction(node, self._conjunction(), ends=True)
        self._depth -= 1
        return node

    def _conjunction(self) -> Node:
        node = self._comparison()
        while self._take("&&"):
            node = _junction(node, self._comparison(), ends=False)
        return node

    def _comparison(self) -> Node:
        node = self._negation()
        while self._peek()[1] in _COMPARISONS and self._peek()[0] == "mark":
            node = _compare(self._next()[1], node, self._negation())
        return node

    def _negation(self) -> Node:
        negations = 0
        while self._take("!"):
            negations += 1
        node = self._property_path()
        if not negations:
            return node
        return _negate(node, odd=negations % 2 == 1)

    def _property_path(self) -> Node:
        node = self._atom()
        while True:
            if self._take("."):
                kind, text = self._next()
                if kind != "name" and text != "*":
                    raise MalformedExpression(f"{text!r} is not a property")
                node = _property(node, _constant(text.lower()))
            elif self._take("["):
                key = _constant("*") if self._take("*") else self._disjunction()
                self._want("]")
                node = _property(node, key)
            else:
                return node

    def _atom(self) -> Node:
        kind, text = self._next()
        if kind == "number":
            return _constant(float(int(text, 0)) if text.lower()[:2] in ("0x", "0o") else float(text))
        if kind == "string":
            return _constant(text[1:-1].replace("''", "'"))
        if text == "(":
            node = self._disjunction()
            self._want(")")
            return node
        if kind != "name":
            raise MalformedExpression(f"{text!r} is not expected" if text else "it ends too early")
        name = text.lower()
        if self._take("("):
            return _call(name, self._arguments())
        if name in _WORDS:
            return _constant(_WORDS[name])
        return lambda contexts: contexts[name] if name in contexts else Opaque(name)

    def _arguments(self) -> list[Node]:
        arguments: list[Node] = []
        while not self._take(")"):
            if arguments:
                self._want(",")
            arguments.append(self._disjunction())
        return arguments

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._at]

    def _next(self) -> tuple[str, str]:
        token = self._tokens[self._at]
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def _take(self, mark: str) -> bool:
        if self._peek() != ("mark", mark):
            return False
        self._at += 1
        return True

    def _want(self, mark: str) -> None:
        if not self._take(mark):
            raise MalformedExpression(f"{mark!r} is missing")


def tokens(text: str) -> list[tuple[str, str]]:
    """The tokens of an expression as (kind, text); the last one is its end."""
    found: list[tuple[str, str]] = []
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise MalformedExpression(f"{text[at:].strip()[:20]!r} is not understood")
        assert match.lastgroup is not None
        found.append((match.lastgroup, match[match.lastgroup]))
        at = match.end()
    return [*found, ("end", "")]


def _constant(value: Value) -> Node:
    return lambda _: value


def _junction(left: Node, right: Node, *, ends: bool) -> Node:
    """Evaluate `||`, which stops at a true left side, or `&&`, which stops at a false one.

    If the left side is unknown, the right side may still decide whether the result is true.
    """

    def node(contexts: Mapping[str, Value]) -> Value:
        value = left(contexts)
        try:
            return value if truth(value) is ends else right(contexts)
        except Undecided:
            if not isinstance(value, Opaque) or value.is_true is not None:
                raise
        other = right(contexts)
        decided = not (isinstance(other, Opaque) and other.is_true is None) and truth(other) is ends
        return Opaque("a choice", varies=True, is_true=ends if decided else None)

    return node


def _negate(node: Node, *, odd: bool) -> Node:
    def negated(contexts: Mapping[str, Value]) -> Value:
        value = node(contexts)
        if isinstance(value, Opaque) and value.is_true is None:
            return Opaque("a negation", varies=True)
        return truth(value) is not odd

    return negated


def _compare(mark: str, left: Node, right: Node) -> Node:
    def node(contexts: Mapping[str, Value]) -> Value:
        a, b = left(contexts), right(contexts)
        if isinstance(a, Opaque) or isinstance(b, Opaque):
            return Opaque(f"{_label(a)} {mark} {_label(b)}", varies=_varies(a, b))
        return _COMPARISONS[mark](*_comparable(a, b))

    return node


def _comparable(a: Value, b: Value) -> tuple[Value, Value]:
    """Two values in comparable form: texts without case, values of different kinds as numbers."""
    if isinstance(a, str) and isinstance(b, str):
        return a.lower(), b.lower()
    if type(a) is type(b):
        return (0.0, 0.0) if a is None else (a, b)
    return _number(a), _number(b)


def _number(value: Value) -> float:
    match value:
        case None:
            return 0.0
        case bool() | float():
            return float(value)
        case str():
            text = value.strip()
            return float(text) if _NUMBER.fullmatch(text) else 0.0 if not text else math.nan
        case _:
            return math.nan


def _ordered(decide: Callable[[Value, Value], bool]) -> Callable[[Value, Value], bool]:
    return lambda a, b: isinstance(a, str | float) and decide(a, b)


_COMPARISONS: dict[str, Callable[[Value, Value], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": _ordered(lambda a, b: a < b),
    "<=": _ordered(lambda a, b: a <= b),
    ">": _ordered(lambda a, b: a > b),
    ">=": _ordered(lambda a, b: a >= b),
}
_WORDS = {"true": True, "false": False, "null": None, "nan": math.nan, "infinity": math.inf}


def _property(node: Node, key: Node) -> Node:
    """A property. A missing property is null, and so is a property of null."""

    def reached(contexts: Mapping[str, Value]) -> Value:
        value, name = node(contexts), key(contexts)
        if isinstance(value, Opaque | KnownObject | InputValues):
            return value[text_of(name).lower()] if name != "*" else Opaque(f"{value.name}.*", varies=True)
        if name == "*" or isinstance(name, Opaque):
            return Opaque(f"{text_of(value)}.{text_of(name)}")
        if isinstance(value, Mapping):
            return value.get(text_of(name).lower())
        if isinstance(value, list) and isinstance(name, float) and 0 <= name < len(value):
            return value[int(name)]
        return None

    return reached


def _call(name: str, arguments: list[Node]) -> Node:
    def call(contexts: Mapping[str, Value]) -> Value:
        values = [argument(contexts) for argument in arguments]
        function = _FUNCTIONS.get(name)
        if function is None or (
            name != "format" and any(isinstance(v, Opaque | KnownObject) for v in values)
        ):
            return Opaque(f"{name}({', '.join(map(_label, values))})", varies=_varies(*values))
        try:
            return function(*values)
        except (TypeError, ValueError, IndexError):
            raise MalformedExpression(f"{name}() cannot take these arguments") from None

    return call


def _format(pattern: Value, *values: Value) -> str:
    def fill(match: re.Match[str]) -> str:
        return match[0][0] if match[1] is None else text_of(values[int(match[1])])

    return re.sub(r"\{\{|\}\}|\{(\d+)\}", fill, text_of(pattern))


def _contains(where: Value, what: Value) -> bool:
    if isinstance(where, list):
        return any(_COMPARISONS["=="](*_comparable(each, what)) for each in where)
    return text_of(what).lower() in text_of(where).lower()


def _from_json(text: Value) -> Value:
    # GitHub's language has one kind of number, and case-insensitive names.
    return json.loads(text_of(text), parse_int=float, object_pairs_hook=_folded)


def _folded(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    return {key.lower(): value for key, value in pairs}


#: The functions whose results depend only on their arguments. Every other call is opaque.
_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "format": _format,
    "contains": _contains,
    "startswith": lambda text, start: text_of(text).lower().startswith(text_of(start).lower()),
    "endswith": lambda text, end: text_of(text).lower().endswith(text_of(end).lower()),
    "join": lambda values, mark=",": text_of(mark).join(map(text_of, values)),
    "fromjson": _from_json,
    "always": lambda: True,
    "success": lambda: True,
    "failure": lambda: False,
    "cancelled": lambda: False,
}
