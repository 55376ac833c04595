"""Parses a request into the arguments of an operation.

A query's values are texts, a body is JSON. Items, edits and plans have the format for people, with the fields
of `interlock add` and of plan files. Everything else has the fields of its type.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Union, get_args, get_origin

from interlock.core.errors import InvalidInput
from interlock.core.model import NewItem, Sender
from interlock.core.names import LaneFields
from interlock.core.plans.model import Graph
from interlock.core.record import replace
from interlock.core.validation import check_count
from interlock.plans.planfile import EditFile, NewPlan, edit_of, plan_of
from interlock.service import wire
from interlock.service.contract import Report
from interlock.service.item_fields import item_changes, new_item, traced
from interlock.service.operations import Operation, Parameter
from interlock.settings import TypeDefaults

#: The Python client's form of plans: graphs and operations with the fields of their types.
_TYPED = {"typed_graph", "typed_operations"}
#: The type that a plan file or an edit file becomes, and its parser.
_FILES: Mapping[str, tuple[Any, Callable[..., Any]]] = {
    "plan": (NewPlan, plan_of),
    "edit": (EditFile, edit_of),
}


class RequestReader:
    """Reads requests. `types` and `lanes` are the defaults of items in the server's settings."""

    def __init__(self, types: Mapping[str, TypeDefaults], lanes: LaneFields) -> None:
        self._types, self._lanes = types, lanes

    def arguments(
        self,
        operation: Operation,
        path: Mapping[str, str],
        query: Sequence[tuple[str, str]],
        body: Any,
        traceparent: str | None = None,
    ) -> dict[str, Any]:
        """The arguments of an operation. Raises a clear refusal. New items become part of the trace."""
        by_name = operation.by_name
        given = {name: _number(name, path[name]) for name in operation.in_path}
        if not operation.writes:
            return given | _from_query(operation, query)
        if query:
            raise InvalidInput("This endpoint takes no query.", "Put everything into the body.")
        if not isinstance(body, dict):
            raise InvalidInput("The body is not a JSON object.", 'Send one, as in {"agent": "coder"}.')
        if twice := given.keys() & body.keys():
            raise InvalidInput(f"{min(twice)} is in the path and in the body.", "Leave it out of the body.")
        rest = {name: p for name, p in by_name.items() if name not in given}
        match operation.body:
            case "items":
                new = [self._item(each, n) for n, each in enumerate(_list(body, "items"))]
                return {"items": [traced(item, traceparent) for item in new]}
            case "changes":
                del rest["changes"]
                around, fields = _split(body, rest)
                return given | {"changes": item_changes(fields)} | _from_body(rest, around)
            case "plan" | "edit":
                typed = _TYPED & body.keys()
                return given | (_typed_plan(body, rest) if typed else self._file(operation, body, rest))
            case "reports":
                del rest["reports"]
                around, listed = _split(body, rest)
                reports = [_report(each, n) for n, each in enumerate(_list(listed, "reports"))]
                return {"reports": reports, **_from_body(rest, around)}
            case "parameters":
                if "result" in body:  # JSON is kept as text
                    body = {**body, "result": _text(body["result"])}
                return given | _from_body(rest, body)

    def of_form(
        self, operation: Operation, values: Mapping[str, Any], texts: Mapping[str, str]
    ) -> dict[str, Any]:
        """The arguments of an operation from a form: values as in a body, and texts as people type them. An
        empty text is left out."""
        kinds = {parameter.name: parameter.kind for parameter in operation.parameters}
        typed = {
            name: _of_texts(name, kinds[name], [text]) if name in kinds else text
            for name, text in texts.items()
            if text.strip()
        }
        given = {**values, **typed}
        path = {name: str(given.pop(name)) for name in operation.in_path if name in given}
        if missing := [name for name in operation.in_path if name not in path]:
            raise InvalidInput(f"The form misses {missing[0]}.", "Fill it in.")
        if operation.body in ("items", "reports") and operation.body not in given:
            around = {name: given.pop(name) for name in kinds if name in given}
            given = {operation.body: [given], **around}
        return self.arguments(operation, path, (), given)

    def _item(self, value: Any, n: int) -> NewItem:
        if not isinstance(value, dict):
            raise wire.wrong(f"items[{n}]", value, "an object")
        fields = dict(value)
        sender = fields.pop("sender", None)
        new = new_item(fields, types=self._types, lanes=self._lanes)
        if sender is None:
            return new
        return replace(new, sender=wire.read(Sender, sender, what=f"items[{n}].sender", strict=True))

    def _file(self, operation: Operation, body: dict[str, Any], rest: dict[str, Parameter]) -> dict[str, Any]:
        """A plan file or an edit file, and the parameters outside of it."""
        kind, read = _FILES[operation.body]
        beside = {name: p for name, p in rest.items() if name not in kind.__dataclass_fields__}
        around, document = _split(body, beside)
        given = _from_body(beside, around)
        found = read(document, types=self._types, lanes=self._lanes)
        return given | {name: getattr(found, name) for name in kind.__dataclass_fields__}


def _split(
    body: Mapping[str, Any], parameters: Mapping[str, Parameter]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split a body into parameters and the document."""
    around = {name: value for name, value in body.items() if name in parameters}
    return around, {name: value for name, value in body.items() if name not in around}


def _typed_plan(body: dict[str, Any], rest: dict[str, Parameter]) -> dict[str, Any]:
    """A graph or operations with the fields of their types, as the Python client sends them."""
    around = {part: value for part, value in body.items() if part not in _TYPED}
    given = _from_body({n: p for n, p in rest.items() if n not in ("graph", "operations")}, around)
    if "typed_graph" in body:
        given["graph"] = wire.read(Graph, body["typed_graph"], what="typed_graph", strict=True)
    if "typed_operations" in body:
        listed = wire.read(list[Any], body["typed_operations"], what="typed_operations")
        given["operations"] = [
            wire.read_operation(each, f"typed_operations[{n}]") for n, each in enumerate(listed)
        ]
    return given


def _list(body: Mapping[str, Any], name: str) -> list[Any]:
    wire.check_fields("The body", body, {name: None}, {name})
    value = body[name]
    if not isinstance(value, list):
        raise wire.wrong(name, value, "a list")
    check_count(name, value)  # before any work for each entry
    return value


def _report(value: Any, n: int) -> Report:
    given = dict(value) if isinstance(value, dict) else value
    if isinstance(given, dict) and "result" in given:
        given["result"] = _text(given["result"])
    report: Report = wire.read(Report, given, what=f"reports[{n}]", strict=True)
    return report


def _text(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)


def _from_body(known: Mapping[str, Parameter], body: Mapping[str, Any]) -> dict[str, Any]:
    wire.check_fields("The body", body, known, {name for name, p in known.items() if p.needed})
    return {name: wire.read(known[name].kind, value, what=name, strict=True) for name, value in body.items()}


# -- queries ------------------------------------------------------------------------------------------


def query_fields(operation: Operation) -> dict[str, tuple[Any, bool]]:
    """The fields of a query: name, type, and whether it is required. A record's parts are fields."""
    fields: dict[str, tuple[Any, bool]] = {}
    for parameter in operation.parameters:
        if parameter.name in operation.in_path:
            continue
        if wire.is_record(parameter.kind):
            parts = wire.parts_of(parameter.kind)
            fields |= {n: (kind, wire.is_needed(parameter.kind, n)) for n, kind in parts.items()}
        else:
            fields[parameter.name] = (parameter.kind, parameter.needed)
    return fields


def _from_query(operation: Operation, query: Sequence[tuple[str, str]]) -> dict[str, Any]:
    known = query_fields(operation)
    if query and not known:
        raise InvalidInput("This endpoint takes no query.", "Leave out what follows the question mark.")
    texts: dict[str, list[str]] = {}
    for name, text in query:
        texts.setdefault(name, []).append(text)
    wire.check_fields("The query", texts, known, frozenset())
    given: dict[str, Any] = {}
    for parameter in operation.parameters:
        name = parameter.name
        if name in operation.in_path:
            continue
        if wire.is_record(parameter.kind):
            parts = wire.parts_of(parameter.kind)
            found = {n: _of_texts(n, k, texts.pop(n)) for n, k in parts.items() if n in texts}
            given[name] = parameter.kind(**found)
        elif name in texts:
            given[name] = _of_texts(name, parameter.kind, texts.pop(name))
        elif parameter.needed:
            raise InvalidInput(f"The query misses {name}.", f"Add {name}=… to it.")
    return given


def _of_texts(name: str, kind: Any, texts: list[str]) -> Any:
    if get_origin(kind) in (Union, types.UnionType):
        kind = next(each for each in get_args(kind) if each is not type(None))
    if get_origin(kind) is not None:
        return tuple(_of_text(name, get_args(kind)[0], text) for text in texts)
    if len(texts) > 1:
        raise InvalidInput(f"{name} is in the query more than once.", "Say it once.")
    return _of_text(name, kind, texts[0])


def _of_text(name: str, kind: Any, text: str) -> Any:
    if kind is str:
        return text
    if kind is bool:
        word = {"true": True, "1": True, "false": False, "0": False}.get(text.lower())
        if word is None:
            raise wire.wrong(name, text, "true or false")
        return word
    if kind is int:
        return _number(name, text)
    if kind is datetime:
        return wire.read(datetime, text, what=name)
    try:
        return float(text)
    except ValueError:
        raise wire.wrong(name, text, "a number") from None


def _number(name: str, text: str) -> int:
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 100:
        raise wire.wrong(name, text, "a whole number")
    return int(text)
