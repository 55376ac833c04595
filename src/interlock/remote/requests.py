"""Turns the arguments of an operation into a request: its path, its query and its body.

A server parses them with `interlock.http.arguments`. Items, edits and plans have the form that people write.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any
from urllib.parse import urlencode

from interlock.core.errors import InvalidInput
from interlock.core.model import A_PERSON, ItemId, NewItem
from interlock.core.record import Record, as_dict
from interlock.core.row import NamedTuple
from interlock.core.validation import check_batch, check_quota_limit, check_report, checked_edit
from interlock.service.contract import Report, to_json
from interlock.service.operations import Operation
from interlock.service.wire import is_record, operation_name, wrong

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ServerRequest(NamedTuple):
    """A request to a server."""

    method: str
    target: str
    #: JSON; None without a body.
    body: bytes | None


def request(operation: Operation, arguments: Mapping[str, Any]) -> ServerRequest:
    """The request for an operation with these arguments."""
    for name in operation.in_path:
        if type(arguments[name]) is not int:
            raise wrong(f"The {name}", arguments[name], "a whole number")
    address = operation.address(arguments)
    rest = {name: value for name, value in arguments.items() if name not in operation.in_path}
    if operation.writes:
        return ServerRequest(operation.method, address, _bytes(_body(operation, rest)))
    for parameter in operation.parameters:
        if is_record(parameter.kind) and parameter.name in rest:
            rest |= _parts(parameter.kind, rest.pop(parameter.name))
    query = _query([pair for name, value in rest.items() for pair in _pairs(name, value)])
    return ServerRequest(operation.method, f"{address}{'?' if query else ''}{query}", None)


def _body(operation: Operation, rest: dict[str, Any]) -> Any:
    match operation.body:
        case "items":
            check_batch("items", rest["items"], NewItem)
            return {"items": [item_document(item) for item in rest["items"]]}
        case "changes":
            return {**_changes(rest.pop("changes")), **rest}
        case "plan" | "edit":
            return _plan(operation, rest)
        case "reports":
            check_batch("reports", rest["reports"], Report)
            return {**rest, "reports": [report_document(report) for report in rest["reports"]]}
        case "parameters":
            return _with_result(rest)


def _with_result(rest: dict[str, Any]) -> dict[str, Any]:
    """The arguments with the result as a JSON value."""
    if rest.get("result") is not None:
        check_report(0, rest["result"], None, True)
        rest["result"] = json.loads(rest["result"])
    return rest


def item_document(item: NewItem) -> dict[str, Any]:
    """An arrival, with the fields of `interlock add`."""
    parts = {name: value for name, value in as_dict(item).items() if value is not None}
    if parts.pop("policy_open"):
        del parts["policy"]  # the server's settings decide
    if not item.said:
        del parts["said"]  # a server of an older version does not know it
    return _timed(parts)


def report_document(report: Report) -> dict[str, Any]:
    """A report, with its result as a JSON value."""
    check_report(report.seen, report.result, report.error, report.retry, report.fault_s)
    check_quota_limit(report.wall)
    parts = report._asdict()
    if report.wall is not None and not report.wall.whole_pool:
        parts["wall"] = report.wall._asdict()
        del parts["wall"]["whole_pool"]  # a server of an older version does not know it
    if report.result is not None:
        parts["result"] = json.loads(report.result)
    return {name: value for name, value in parts.items() if value is not None}


def _changes(changes: Any) -> dict[str, Any]:
    if not isinstance(changes, Mapping):
        raise InvalidInput(f"{reprlib.repr(changes)} are not changes.", "Pass values by the names of fields.")
    checked_edit(ItemId(1), changes, "", A_PERSON)  # only people may write a label as a text
    return _timed(dict(changes))


def _timed(parts: dict[str, Any]) -> dict[str, Any]:
    """The arguments with times in the form that people write; 0 means now."""
    if "run_at_us" in parts:
        at_us = parts.pop("run_at_us")
        try:
            parts["run_at"] = (_EPOCH + timedelta(microseconds=at_us)).isoformat() if at_us else None
        except (TypeError, OverflowError):
            parts["run_at"] = str(at_us)
    return parts


def _plan(operation: Operation, rest: dict[str, Any]) -> dict[str, Any]:
    """The arguments with graphs and operations in the form of their types, not of a plan file. The server's
    service validates them, as on a database."""
    from interlock.core.plans.validation import typed_graph, typed_operations  # noqa: PLC0415  (for plans alone)

    graph, operations = rest.pop("graph", None), rest.pop("operations", None)
    if graph is not None or operation.body == "plan":
        rest["typed_graph"] = typed_graph(graph)
    if operations is not None:
        rest["typed_operations"] = [
            {"op": operation_name(type(change)), **as_dict(change)} for change in typed_operations(operations)
        ]
    return rest


def _parts(kind: type[Record], value: Any) -> dict[str, Any]:
    if not isinstance(value, kind):
        raise InvalidInput(f"{reprlib.repr(value)} is no {kind.__name__}.", f"Pass an {kind.__name__}.")
    return as_dict(value)


def _pairs(name: str, value: Any) -> list[tuple[str, str]]:
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
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value.value) if isinstance(value, Enum) else str(value)


def _bytes(body: Any) -> bytes:
    try:
        return json.dumps(to_json(body), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"This cannot be sent as JSON: {error}.", "Use plain values.") from None


def arguments(operation: Operation, given: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by name, as Python would bind them. Arguments with their default values are omitted."""
    parameters = operation.parameters
    if len(given) > len(parameters):
        raise TypeError(f"{operation.name}() takes {len(parameters)} arguments, not {len(given)}")
    bound = {p.name: value for p, value in zip(parameters, given, strict=False)} | dict(named)
    by_name = {p.name: p for p in parameters}
    for name in bound.keys() - by_name.keys():
        raise TypeError(f"{operation.name}() takes no argument {name!r}")
    for parameter in parameters:
        if parameter.needed and parameter.name not in bound:
            raise TypeError(f"{operation.name}() misses {parameter.name!r}")
    return {
        name: value
        for name, value in bound.items()
        if by_name[name].needed or isinstance(value, Record) or not _same(value, by_name[name].default)
    }


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(value == default)
