"""From the arguments of a use case to a request: its path, its query and its body.

A server reads them with `interlock.http.arguments`. Items, edits and plans are written as people write them.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any
from urllib.parse import urlencode

from interlock.core.checking import check_batch, check_report, check_wall, checked_edit
from interlock.core.errors import InvalidInput
from interlock.core.model import A_PERSON, ItemId, NewItem
from interlock.core.record import Record, as_dict
from interlock.core.row import NamedTuple
from interlock.service.contract import ItemFilter, Report, to_json
from interlock.service.usecases import ROOT, UseCase
from interlock.service.wire import operation_name, wrong

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Request(NamedTuple):
    """What is sent."""

    method: str
    target: str
    #: JSON; None where there is no body.
    body: bytes | None


def request(case: UseCase, arguments: Mapping[str, Any]) -> Request:
    """The request for a use case with these arguments."""
    rest = dict(arguments)
    path = case.path
    for name in case.in_path:
        number = rest.pop(name)
        if type(number) is not int:
            raise wrong(f"The {name}", number, "a whole number")
        path = path.replace(f"{{{name}}}", str(number))
    if not case.writes:
        query = _query([pair for name, value in rest.items() for pair in _pairs(case, name, value)])
        return Request(case.method, f"{ROOT}{path}{'?' if query else ''}{query}", None)
    return Request(case.method, ROOT + path, _bytes(_body(case, rest)))


def _body(case: UseCase, rest: dict[str, Any]) -> Any:
    if case.name == "add":
        check_batch("items", rest["items"], NewItem)
        return {"items": [item_document(item) for item in rest["items"]]}
    if "reports" in rest:
        check_batch("reports", rest["reports"], Report)
        return {"reports": [report_document(report) for report in rest["reports"]]}
    if case.name == "edit":
        return {**_changes(rest.pop("changes")), **rest}
    if case.name in ("create_plan", "edit_plan"):
        return _plan(case, rest)
    if rest.get("result") is not None:
        check_report(0, rest["result"], None, True)
        rest["result"] = json.loads(rest["result"])
    return rest


def item_document(item: NewItem) -> dict[str, Any]:
    """An arrival in the fields of `interlock add`."""
    parts = {name: value for name, value in as_dict(item).items() if value is not None}
    if parts.pop("policy_open"):
        del parts["policy"]  # the server's settings choose
    if not item.said:
        del parts["said"]  # a server of an older version does not know it
    return _timed(parts)


def report_document(report: Report) -> dict[str, Any]:
    """A report, its result as a JSON value."""
    check_report(report.seen, report.result, report.error, report.retry, report.fault_s)
    check_wall(report.wall)
    parts = report._asdict()
    if report.result is not None:
        parts["result"] = json.loads(report.result)
    return {name: value for name, value in parts.items() if value is not None}


def _changes(changes: Any) -> dict[str, Any]:
    if not isinstance(changes, Mapping):
        raise InvalidInput(f"{reprlib.repr(changes)} are no changes.", "Pass values by the names of fields.")
    checked_edit(ItemId(1), changes, "", A_PERSON)  # people may write a label as a text, programs may not
    return _timed(dict(changes))


def _timed(parts: dict[str, Any]) -> dict[str, Any]:
    """With a time as people write it; 0 is at once."""
    if "run_at_us" in parts:
        at_us = parts.pop("run_at_us")
        try:
            parts["run_at"] = (_EPOCH + timedelta(microseconds=at_us)).isoformat() if at_us else None
        except (TypeError, OverflowError):
            parts["run_at"] = str(at_us)
    return parts


def _plan(case: UseCase, rest: dict[str, Any]) -> dict[str, Any]:
    """With graphs and operations as their types have them, not as in a plan file: the server's service says
    what is wrong with them, as on a database."""
    from interlock.core.plans.checking import typed_graph, typed_operations  # noqa: PLC0415  (for plans alone)

    graph, operations = rest.pop("graph", None), rest.pop("operations", None)
    if graph is not None or case.name == "create_plan":
        rest["typed_graph"] = typed_graph(graph)
    if operations is not None:
        rest["typed_operations"] = [
            {"op": operation_name(type(operation)), **as_dict(operation)}
            for operation in typed_operations(operations)
        ]
    return rest


def _pairs(case: UseCase, name: str, value: Any) -> list[tuple[str, str]]:
    if case.name == "items" and name == "wanted":
        if not isinstance(value, ItemFilter):
            raise InvalidInput(f"{reprlib.repr(value)} is not a filter of items.", "Pass an ItemFilter.")
        return [pair for part, each in as_dict(value).items() for pair in _pairs(case, part, each)]
    if value is None:
        return []
    if isinstance(value, bool):
        return [(name, "true" if value else "false")]
    if isinstance(value, list | tuple):
        return [(name, _text(each)) for each in value]
    return [(name, _text(value))]


def _query(pairs: list[tuple[str, str]]) -> str:
    try:
        return urlencode(pairs)
    except UnicodeEncodeError:
        raise InvalidInput("This text cannot be sent: it is not valid Unicode.", "Use plain text.") from None


def _text(value: Any) -> str:
    return str(value.value) if isinstance(value, Enum) else str(value)


def _bytes(body: Any) -> bytes:
    try:
        return json.dumps(to_json(body), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"This cannot be sent as JSON: {error}.", "Use plain values.") from None


def arguments(case: UseCase, given: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by name, as Python would bind them; those that equal their defaults are left out."""
    parameters = case.parameters
    if len(given) > len(parameters):
        raise TypeError(f"{case.name}() takes {len(parameters)} arguments, not {len(given)}")
    bound = {p.name: value for p, value in zip(parameters, given, strict=False)} | dict(named)
    by_name = {p.name: p for p in parameters}
    for name in bound.keys() - by_name.keys():
        raise TypeError(f"{case.name}() takes no argument {name!r}")
    for parameter in parameters:
        if parameter.needed and parameter.name not in bound:
            raise TypeError(f"{case.name}() misses {parameter.name!r}")
    return {
        name: value
        for name, value in bound.items()
        if by_name[name].needed or isinstance(value, Record) or not _same(value, by_name[name].default)
    }


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)
