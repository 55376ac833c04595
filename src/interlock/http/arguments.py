"""From a request to the arguments of a use case.

A query's values are texts, a body is JSON. Items, edits and plans are written as people write them, with the
fields of `interlock add` and of plan files; everything else has the parts of its type.
"""

from __future__ import annotations

import json
import types
from collections.abc import Mapping, Sequence
from typing import Any, Union, get_args, get_origin

from interlock.core.checking import check_count
from interlock.core.errors import InvalidInput
from interlock.core.model import NewItem, Sender
from interlock.core.names import LaneFields
from interlock.core.plans.model import Graph
from interlock.core.record import Record, replace
from interlock.plans.planfile import edit_of, plan_of
from interlock.service import wire
from interlock.service.contract import Report
from interlock.service.intake import item_changes, new_item
from interlock.service.usecases import Parameter, UseCase
from interlock.settings import TypeDefaults

#: What a body of these use cases has beside the document itself.
_TYPED = {"typed_graph", "typed_operations"}
_AROUND = {"create_plan": ("by",), "edit_plan": ("base", "run", "through", "by", "why")}


class Reading:
    """Reads requests; `types` and `lanes` are what the server's settings give to items."""

    def __init__(self, types: Mapping[str, TypeDefaults], lanes: LaneFields) -> None:
        self._types, self._lanes = types, lanes

    def arguments(
        self, case: UseCase, path: Mapping[str, str], query: Sequence[tuple[str, str]], body: Any
    ) -> dict[str, Any]:
        """The arguments of a use case, or a clear refusal."""
        by_name = {parameter.name: parameter for parameter in case.parameters}
        given = {name: _number(name, path[name]) for name in case.in_path}
        if not case.writes:
            return given | _from_query(case, query)
        if query:
            raise InvalidInput("This address takes no query.", "Put everything into the body.")
        if not isinstance(body, dict):
            raise InvalidInput("The body is not a JSON object.", 'Send one, as in {"agent": "coder"}.')
        if twice := given.keys() & body.keys():
            raise InvalidInput(f"{min(twice)} is in the path and in the body.", "Leave it out of the body.")
        rest = {name: p for name, p in by_name.items() if name not in given}
        if case.name in _AROUND:
            return given | self._plan(case.name, body, rest)
        if case.name == "edit":
            around = {name: body[name] for name in ("by", "sender", "expected") if name in body}
            fields = {name: value for name, value in body.items() if name not in around}
            del rest["changes"]
            return given | {"changes": item_changes(fields)} | _from_body(rest, around)
        if case.name == "add":
            return {"items": [self._item(each, n) for n, each in enumerate(_list(body, "items"))]}
        if "reports" in rest:
            return {"reports": [_report(each, n) for n, each in enumerate(_list(body, "reports"))]}
        if "result" in body:  # JSON is kept as text
            body = {**body, "result": _text(body["result"])}
        return given | _from_body(rest, body)

    def _item(self, value: Any, n: int) -> NewItem:
        if not isinstance(value, dict):
            raise wire.wrong(f"items[{n}]", value, "an object")
        fields = dict(value)
        sender = fields.pop("sender", None)
        new = new_item(fields, types=self._types, lanes=self._lanes)
        if sender is None:
            return new
        return replace(new, sender=wire.read(Sender, sender, what=f"items[{n}].sender", strict=True))

    def _plan(self, name: str, body: dict[str, Any], rest: dict[str, Parameter]) -> dict[str, Any]:
        if _TYPED & body.keys():
            return _typed_plan(body, rest)
        around = {part: body[part] for part in _AROUND[name] if part in body}
        document = {part: value for part, value in body.items() if part not in around}
        read = _from_body({part: rest[part] for part in _AROUND[name]}, around)
        if name == "create_plan":
            plan = plan_of(document, types=self._types, lanes=self._lanes)
            return read | {part: getattr(plan, part) for part in type(plan).__dataclass_fields__}
        edit = edit_of(document, types=self._types, lanes=self._lanes)
        return read | {"operations": edit.operations, "graph": edit.graph}


def _typed_plan(body: dict[str, Any], rest: dict[str, Parameter]) -> dict[str, Any]:
    """A graph or operations as their types have them, as the Python client sends them."""
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
    check_count(name, value)  # before anything is made or looked up for each
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


def query_fields(case: UseCase) -> dict[str, tuple[Any, bool]]:
    """What a query may have: name, type, and whether it is needed. A record's parts are fields."""
    fields: dict[str, tuple[Any, bool]] = {}
    for parameter in case.parameters:
        if parameter.name in case.in_path:
            continue
        if _is_record(parameter.kind):
            parts = wire.parts_of(parameter.kind)
            fields |= {n: (kind, wire.is_needed(parameter.kind, n)) for n, kind in parts.items()}
        else:
            fields[parameter.name] = (parameter.kind, parameter.needed)
    return fields


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Record)


def _from_query(case: UseCase, query: Sequence[tuple[str, str]]) -> dict[str, Any]:
    known = query_fields(case)
    if query and not known:
        raise InvalidInput("This address takes no query.", "Leave out what follows the question mark.")
    texts: dict[str, list[str]] = {}
    for name, text in query:
        texts.setdefault(name, []).append(text)
    wire.check_fields("The query", texts, known, frozenset())
    given: dict[str, Any] = {}
    for parameter in case.parameters:
        name = parameter.name
        if name in case.in_path:
            continue
        if _is_record(parameter.kind):
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
    try:
        return float(text)
    except ValueError:
        raise wire.wrong(name, text, "a number") from None


def _number(name: str, text: str) -> int:
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 100:
        raise wire.wrong(name, text, "a whole number")
    return int(text)
