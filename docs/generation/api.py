"""The Python interface, read from signatures and docstrings."""

from __future__ import annotations

import inspect
import re
from enum import Enum
from typing import Any

import interlock
from docs.generation.markdown import code, fence, table
from docs.generation.meanings import meanings
from docs.generation.shapes import field_types
from interlock.client import Claimed, Interlock, ItemFields, Lease
from interlock.core.model import NewItem
from interlock.core.plans.model import EdgeSpec, TaskSpec
from interlock.orchestrator import AsyncOrchestrator, Orchestrator
from interlock.orchestrator.events import PlanEvent
from interlock.orchestrator.requests import AsyncEditRequest, AsyncTaskRun, EditRequest, TaskRun
from interlock.service.contract import ItemFilter, LaneService, NextWish, Report, Service
from interlock.service.local import function_of
from interlock.service.plan_view import PlanService
from interlock.service.series import SeriesService
from interlock.session.lock import SessionLock


def connect() -> str:
    return _function("connect", interlock.connect)


def session_lock() -> str:
    return "\n\n".join([_function("session_lock", interlock.session_lock), _class(SessionLock)])


def client() -> str:
    return _class(Interlock)


def claimed() -> str:
    return _class(Claimed)


def lease() -> str:
    return _class(Lease)


def item_fields() -> str:
    types = field_types(ItemFields)
    words = meanings("fields.ItemFields", types)
    return table(("field", "type", "meaning"), ((code(f), code(types[f]), words[f]) for f in types))


def new_item() -> str:
    return _fields("NewItem", NewItem)


def service() -> str:
    names = {**members(LaneService), **members(Service), **members(PlanService), **members(SeriesService)}
    own = {"close": LaneService.close}
    return "\n\n".join(_function(name, own.get(name) or function_of(name)) for name in names)


def orchestrator() -> str:
    return _class(Orchestrator)


def async_orchestrator() -> str:
    return _class(AsyncOrchestrator)


def task_run() -> str:
    return _class(TaskRun)


def async_task_run() -> str:
    return _function("inputs", AsyncTaskRun.inputs)


def edit_request() -> str:
    return _class(EditRequest)


def async_edit_request() -> str:
    return _function("plan", AsyncEditRequest.plan)


def plan_event() -> str:
    types = field_types(PlanEvent)
    words = meanings("fields.PlanEvent", types)
    return table(("field", "type", "meaning"), ((code(f), code(types[f]), words[f]) for f in types))


def task_spec() -> str:
    return _fields("TaskSpec", TaskSpec)


def edge_spec() -> str:
    return _fields("EdgeSpec", EdgeSpec)


def report() -> str:
    return _fields("Report", Report)


def next_wish() -> str:
    return _fields("NextWish", NextWish)


def item_filter() -> str:
    return _fields("ItemFilter", ItemFilter)


def members(kind: type) -> dict[str, Any]:
    """What a class offers: its methods and properties, and those of its private bases."""
    bases = [base for base in kind.__mro__ if base is kind or base.__name__.startswith("_")]
    return {
        name: value
        for base in reversed(bases)
        for name, value in vars(base).items()
        if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, property))
    }


def _class(kind: type) -> str:
    parts = [_sentences(kind)]
    for name, value in members(kind).items():
        if isinstance(value, property):
            parts += [f"**`{name}`** {_sentences(value)}"] if value.__doc__ else []
        else:
            parts.append(_function(name, value))
    return "\n\n".join(parts)


def _function(name: str, function: Any) -> str:
    signature = inspect.signature(function)
    # An operation in steps answers as its steps end.
    returned = re.sub(r"^Steps\[(.*)\]$", r"\1", str(signature.return_annotation))
    given = [p for p in signature.parameters.values() if p.name != "self"]
    words = [_parameter(p) for p in given]
    keywords = [n for n, p in enumerate(given) if p.kind is inspect.Parameter.KEYWORD_ONLY]
    if keywords:
        words.insert(keywords[0], "*")
    name = f"await {name}" if inspect.iscoroutinefunction(function) else name
    text = f"{name}({', '.join(words)}) -> {returned}"
    if len(text) > 100:
        lines = "".join(f"    {word},\n" for word in words)
        text = f"{name}(\n{lines}) -> {returned}"
    return "\n\n".join([fence("python", text), _sentences(function)])


def _parameter(parameter: inspect.Parameter) -> str:
    stars = "**" if parameter.kind is inspect.Parameter.VAR_KEYWORD else ""
    default = parameter.default
    if default is inspect.Parameter.empty:
        return f"{stars}{parameter.name}: {parameter.annotation}"
    return f"{parameter.name}: {parameter.annotation} = {_plain(default)}"


def _sentences(thing: Any) -> str:
    doc = inspect.getdoc(thing)
    assert doc, f"{thing!r} has no docstring"
    return "\n\n".join(" ".join(part.split()) for part in doc.split("\n\n"))


def _fields(name: str, kind: Any) -> str:
    types, defaults = field_types(kind), inspect.signature(kind).parameters
    words = meanings(f"fields.{name}", types)
    rows = ((code(f), code(types[f]), _default(defaults[f].default), words[f]) for f in types)
    return table(("field", "type", "default", "meaning"), rows)


def _default(value: object) -> str:
    return "needed" if value is inspect.Parameter.empty else code(_plain(value))


def _plain(value: object) -> str:
    return repr(value.value if isinstance(value, Enum) else value)
