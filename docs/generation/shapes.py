"""The shapes of JSON answers, read from the values the service answers with."""

from __future__ import annotations

import inspect
import re

from docs.generation.commands import commands
from docs.generation.markdown import code, link_shapes, table
from docs.generation.meanings import meanings
from interlock.core.cures import Cure
from interlock.plans.diff import Difference
from interlock.service import contract, plan_view
from interlock.service.item_view import ItemView
from interlock.session.lockfile import LockView

_WORDS = {
    "int": "number",
    "float": "number",
    "str": "text",
    "bool": "true or false",
    "datetime": "time",
    "Any": "any JSON",
    "None": "null",
}


def shapes() -> dict[str, dict[str, str]]:
    """Every answer by name, with its fields and their types."""
    found = {
        name: field_types(value)
        for module in (contract, plan_view)
        for name, value in vars(module).items()
        if inspect.isclass(value)
        and name.endswith(("View", "Summary"))
        and value.__module__ == module.__name__
    }
    others = {kind.__name__: field_types(kind) for kind in (Cure, Difference, LockView)}
    return {"ItemView": _item_fields(), **found, **others}


def field_types(kind: type) -> dict[str, str]:
    """The fields of a value and their types, as they are written in the code, and what JSON adds."""
    types = {name: str(getattr(t, "__forward_arg__", t)) for name, t in kind.__annotations__.items()}
    return {"run": types["run"], "handle": "str", **types} if hasattr(kind, "handle") else types


def _item_fields() -> dict[str, str]:
    return {name: str(ItemView.__annotations__[name]) for name in ItemView.FIELDS}


def json_type(annotation: str) -> str:
    """A Python type in the words of JSON."""
    if match := re.fullmatch(r"(?:tuple|list)\[(\w+|Mapping\[.+\])(?:, \.\.\.)?\]", annotation):
        return f"list of {'objects' if match[1].startswith('Mapping[') else _linked(match[1])}"
    if annotation.startswith("Mapping["):
        return "object"
    if annotation.endswith(" | None"):
        inner = annotation.removesuffix(" | None")
        return f"{json_type(inner)} or null"
    return _linked(annotation)


def _linked(word: str) -> str:
    return _WORDS.get(word) or f"[{word}](#{word.lower()})"


def answers() -> str:
    """Which command answers with which shape."""
    words = meanings("answers", dict(commands()))
    rows = ((code(f"interlock {name}"), link_shapes(text[0])) for name, text in words.items())
    return table(("command", "answer"), rows)


def all_shapes() -> str:
    parts = []
    for name, columns in shapes().items():
        words = meanings(f"fields.{name}", columns)
        rows = ((code(field), json_type(kind), words[field]) for field, kind in columns.items())
        parts += [f"### {name}", table(("field", "type", "meaning"), rows)]
    return "\n\n".join(parts)
