"""What a valid task, edge and operation is. Every mistake is collected, not only the first.

`typed_graph` and `typed_operations` check types: programs may pass anything, and a wrong type would break the
rules further on. The others check content: names, ranges, known agents. Whether an edit fits the plan it is
for is decided in `edit`.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, TypeVar

from interlock.core import names
from interlock.core.cures import Cure, cure
from interlock.core.errors import InterlockError, InvalidInput, InvalidPlan
from interlock.core.model import NewItem, RetryLane
from interlock.core.plans.model import (
    EDGES_MAX,
    TASKS_MAX,
    UPDATABLE,
    AddEdge,
    AddTask,
    EdgeSpec,
    EditOperation,
    Graph,
    OnCancel,
    RemoveEdge,
    RemoveTask,
    TaskSpec,
    UpdateEdge,
    UpdateTask,
    When,
)
from interlock.core.record import MutableRecord, fresh, replace
from interlock.core.validation import checked

#: The default of a part without one.
MISSING = object()
_T = TypeVar("_T")
_Value = TypeVar("_Value", bound=TaskSpec | EdgeSpec | RemoveTask | RemoveEdge | UpdateEdge)
#: Takes a sentence about a value; the first argument names the field, or is empty.
Complain = Callable[[str, str], None]
#: The known agents, with the labels of each.
Agents = Mapping[str, tuple[str, ...]]


class Mistakes(MutableRecord):
    """Every mistake in a plan or an edit, each with its place and, if the document has lines, its line."""

    found: list[str] = fresh(list)

    def note(self, sentence: str, place: str = "", name: str = "", line: int | None = None) -> None:
        where = ".".join(part for part in (place, name) if part)
        if line is not None:
            where = f"{where} (line {line})" if where else f"line {line}"
        self.found.append(f"{where}: {sentence}" if where else sentence)

    def at(self, place: str) -> Complain:
        return lambda name, sentence: self.note(sentence, place, name)

    def refuse(self, what: str) -> None:
        """Raise if there are any, with all of them."""
        if self.found:
            count = len(self.found)
            raise InvalidPlan(
                f"The {what} has a mistake." if count == 1 else f"The {what} has {count:,} mistakes.",
                "Nothing was changed.",
                reasons=tuple(self.found),
            )


# -- types ----------------------------------------------------------------------------------------


def typed_graph(given: object) -> Graph:
    """The graph with every value of its type, or `InvalidPlan`."""
    mistakes = Mistakes()
    if not isinstance(given, Graph):
        mistakes.note(f"{_shown(given)} is not a Graph.")
        given = Graph(tasks=())
    tasks = _typed_all("tasks", given.tasks, lambda one, complain: typed(one, TaskSpec, complain), mistakes)
    edges = _typed_all("edges", given.edges, lambda one, complain: typed(one, EdgeSpec, complain), mistakes)
    mistakes.refuse("plan")
    return Graph(tasks=tasks, edges=edges)


def typed_operations(given: object) -> tuple[EditOperation, ...]:
    """The operations with every value of its type, or `InvalidPlan`."""
    mistakes = Mistakes()
    operations: tuple[EditOperation, ...] = _typed_all("operations", given, typed_operation, mistakes)
    mistakes.refuse("edit")
    return operations


def _typed_all(
    what: str, values: object, read: Callable[[object, Complain], _T | None], mistakes: Mistakes
) -> tuple[_T, ...]:
    if not isinstance(values, Iterable) or isinstance(values, str | bytes | Mapping):
        mistakes.note(f"The {what} {_shown(values)} are not a list.")
        return ()
    found = [read(one, mistakes.at(f"{what}[{n}]")) for n, one in enumerate(values)]
    return tuple(one for one in found if one is not None)


def typed(given: object, kind: type[_Value], complain: Complain) -> _Value | None:
    """A value of this kind with every field of its type; a field that is not gets its default.

    Gives nothing if a field without a default is wrong. A choice may be given as text, and a tuple as a list.
    """
    if not isinstance(given, kind):
        complain("", f"{_shown(given)} is not a {kind.__name__}.")
        return None
    defaults = _DEFAULTS[kind]
    read = _typed_values({name: getattr(given, name) for name in defaults}, defaults, complain)
    missing = any(value is MISSING and name not in read for name, value in defaults.items())
    return None if missing else kind(**read)


def typed_operation(given: object, complain: Complain) -> EditOperation | None:
    """An operation with every value of its type; nothing where it is not clear what to change."""
    match given:
        case AddTask():
            task = typed(given.task, TaskSpec, complain)
            return AddTask(task=task) if task is not None else None
        case AddEdge():
            edge = typed(given.edge, EdgeSpec, complain)
            return AddEdge(edge=edge) if edge is not None else None
        case UpdateTask():
            named = typed(RemoveTask(key=given.key), RemoveTask, complain)
            changes: object = given.changes
            if not isinstance(changes, Mapping) or not all(isinstance(name, str) for name in changes):
                complain("changes", f"{_shown(changes)} is not a mapping of changes.")
                return None
            read = _typed_values(changes, _DEFAULTS[TaskSpec], complain)
            return UpdateTask(key=named.key, changes=read) if named is not None else None
        case RemoveTask() | RemoveEdge() | UpdateEdge():
            return typed(given, type(given), complain)
        case _:
            complain("", f"{_shown(given)} is not an operation.")
            return None


def _typed_values(
    given: Mapping[str, Any], defaults: Mapping[str, Any], complain: Complain
) -> dict[str, Any]:
    """The values that are of their type. A name that no field has is left to `check_changes`."""
    read = {}
    for name, value in given.items():
        reader = _TYPES.get(name)
        if value is None and defaults.get(name, value) is None:
            reader = None
        try:
            read[name] = value if reader is None else reader(_WORDS[name], value)
        except InvalidInput as error:
            complain(name, str(error))
    return read


def _shown(value: object) -> str:
    return reprlib.repr(value)


def text_of(what: str, value: object) -> str:
    """Text that every store can keep, search for and print in a refusal."""
    if not isinstance(value, str):
        raise InvalidInput(f"The {what} {_shown(value)} is not a string.", "Put it in quotes.")
    return names.check_text(what, value if type(value) is str else str.__str__(value))


def _texts(what: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise InvalidInput(f"The {what} {_shown(value)} are not a list of strings.")
    return tuple(text_of(what, one) for one in value)


def _json(what: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(
            f"The {what} {_shown(value)} is not a JSON string.", "Serialize it with json.dumps."
        )
    return text_of(what, value)


def _flag(what: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(f"The {what} is {_shown(value)}.", "Use true or false.")
    return value


def _number(what: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"The {what} {_shown(value)} is not a number.")
    return value


def _choice(kind: type[StrEnum]) -> Callable[[str, object], StrEnum]:
    def read(what: str, value: object) -> StrEnum:
        if isinstance(value, kind):
            return value
        word = value.strip().lower() if isinstance(value, str) else ""
        if word not in tuple(kind):
            raise InvalidInput(f"Unknown {what} {_shown(value)}.", f"Use {', '.join(kind)}.")
        return kind(word)

    return read


#: How each field of tasks and edges is read; no name means two things.
_TYPES: dict[str, Callable[[str, object], Any]] = {
    "key": text_of,
    "title": text_of,
    "agent": text_of,
    "labels": _texts,
    "type": text_of,
    "priority": names.whole,
    "payload": _json,
    "lane": text_of,
    "no_lane": _flag,
    "lease_s": _number,
    "timeout_s": _number,
    "max_attempts": names.whole,
    "retry_lane": _choice(RetryLane),
    "source": text_of,
    "target": text_of,
    "when": _choice(When),
    "on_cancel": _choice(OnCancel),
}
_DEFAULTS: dict[type, dict[str, Any]] = {
    kind: {name: getattr(kind, name, MISSING) for name in kind.PARTS}
    for kind in (TaskSpec, EdgeSpec, RemoveTask, RemoveEdge, UpdateEdge)
}
_WORDS = {name: name.removesuffix("_s").replace("_", " ") for name in _TYPES}


# -- content --------------------------------------------------------------------------------------


def check_operation(operation: EditOperation, complain: Callable[[str], None]) -> None:
    """Complain of mistakes in an operation that do not depend on the plan."""
    match operation:
        case AddTask():
            checked_task(operation.task, "default", complain)
        case UpdateTask():
            check_changes(operation.key, operation.changes, complain)
        case AddEdge():
            check_edge(operation.edge, complain)
        case RemoveTask() | RemoveEdge() | UpdateEdge():
            pass


def checked_task(task: TaskSpec, project: str, complain: Callable[[str], None]) -> TaskSpec:
    """The task in normal form; complains of names and values that are out of bounds."""
    try:
        names.check_name("task key", task.key)
        new = checked(as_item(task, project))
    except InterlockError as error:
        complain(f"Task {task.key!r}: {error}")
        return task
    return replace(task, title=new.title, agent=new.agent, lane=new.lane)


def lanes_of(tasks: Iterable[TaskSpec]) -> tuple[str, ...]:
    """The lanes that these tasks will wait for, of all whose content is right."""
    found: set[str] = set()
    for task in tasks:
        wrong: list[str] = []
        lane = checked_task(task, "default", wrong.append).lane
        if lane is not None and not wrong:
            found.add(lane)
    return tuple(sorted(found))


def as_item(task: TaskSpec, project: str) -> NewItem:
    """The arrival that a task becomes. It always queues on its lane."""
    values = {name: getattr(task, name) for name in _DEFAULTS[TaskSpec] if name != "key"}
    return NewItem(**{**values, "title": task.title or task.key, "project": project})


def lane_named(payload: str | None) -> str | None:
    """The lane of the issue that a payload's text names, if it names one and the lane is valid."""
    try:
        return names.lane_of_payload(names.check_payload(payload)) if payload is not None else None
    except InterlockError:
        return None


def check_edge(edge: EdgeSpec, complain: Callable[[str], None]) -> bool:
    """Whether an edge leads from one task to another; complains if not."""
    if edge.source == edge.target:
        complain(f"Task {edge.source} cannot depend on itself.")
    return edge.source != edge.target


def check_changes(key: str, changes: Mapping[str, Any], complain: Callable[[str], None]) -> bool:
    """Whether an edit may change these fields of a task; complains of each that it may not."""
    fixed = sorted(set(changes) - UPDATABLE)
    for name in fixed:
        if name in TaskSpec.PARTS:
            complain(f"The {name} of task {key} cannot change: remove the task and add another.")
        else:
            complain(f"Unknown field {name!r} in the update of task {key}.")
    return not fixed


def check_known(task: TaskSpec, agents: Agents, complain: Callable[[str], None]) -> None:
    """Complain of an agent that the store does not know, and of labels that no agent has."""
    if task.agent and task.agent not in agents:
        complain(f"Task {task.key} names agent {task.agent}, which this store does not know.")
    if not task.labels:
        return
    held = {label for labels in agents.values() for label in labels}
    unknown = [label for label in task.labels if label not in held]
    if unknown:
        labels = f"label{'' if len(unknown) == 1 else 's'} {', '.join(unknown)}"
        complain(f"Task {task.key} needs {labels}, which no agent has.")


def check_editor(editor: str, agents: Agents, complain: Callable[[str], None]) -> None:
    """Complain of an editor that the store does not know: every end of a task would stop the plan."""
    if editor and editor not in agents:
        complain(f"The plan names editor {editor}, which this store does not know.")


def check_size(tasks: int, edges: int, complain: Callable[[str], None]) -> None:
    """Complain of more tasks or edges than a plan may have."""
    for what, count, most in (("tasks", tasks, TASKS_MAX), ("edges", edges, EDGES_MAX)):
        if count > most:
            complain(f"The plan would have {count:,} {what}. Use at most {most:,}.")


def unknown_agents(named: Iterable[str], agents: Agents) -> tuple[Cure, ...]:
    """The cures for names of agents that the store does not know."""
    unknown = dict.fromkeys(name for name in named if name and name not in agents)
    return tuple(cure("set_agent", "makes that agent known", name=name) for name in unknown)
