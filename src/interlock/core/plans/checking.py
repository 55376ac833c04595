"""Tasks and edges as callers write them, in normal form, with every reason why they cannot be taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from interlock.core.checking import checked
from interlock.core.errors import InterlockError
from interlock.core.model import NewItem
from interlock.core.names import check_name, check_payload, lane_of_payload
from interlock.core.plans.model import UPDATABLE, TaskSpec

#: Which agents there are, with the labels of each.
Agents = Mapping[str, tuple[str, ...]]


def checked_task(task: TaskSpec, project: str, complain: Callable[[str], None]) -> TaskSpec:
    """The task in normal form; what is wrong with it is complained of."""
    try:
        check_name("task key", task.key)
        new = checked(as_item(task, project))
    except InterlockError as error:
        complain(f"Task {task.key!r}: {error}")
        return task
    return replace(task, title=new.title, agent=new.agent, lane=new.lane)


def as_item(task: TaskSpec, project: str) -> NewItem:
    """The arrival that a task becomes. It always queues on its lane."""
    return NewItem(
        title=task.title or task.key,
        project=project,
        type=task.type,
        agent=task.agent,
        lane=task.lane,
        no_lane=task.no_lane,
        priority=task.priority,
        payload=task.payload,
        labels=task.labels,
        lease_s=task.lease_s,
        timeout_s=task.timeout_s,
        max_attempts=task.max_attempts,
        retry_lane=task.retry_lane,
    )


def lane_named(payload: str | None) -> str | None:
    """The lane of the issue that a payload's text names; nothing where it names none that is lawful."""
    try:
        return lane_of_payload(check_payload(payload)) if payload is not None else None
    except InterlockError:
        return None


def check_known(task: TaskSpec, agents: Agents, complain: Callable[[str], None]) -> None:
    """Complain of an agent that nobody knows, and of labels that no agent has."""
    if task.agent and task.agent not in agents:
        complain(f"Task {task.key} names the agent {task.agent}, {_unknown(task.agent)}")
    if not task.labels:
        return
    held = {label for labels in agents.values() for label in labels}
    unknown = [label for label in task.labels if label not in held]
    if unknown:
        complain(f"Task {task.key} needs {_names('label', unknown)}, which no agent has.")


def check_changes(key: str, changes: Mapping[str, Any], complain: Callable[[str], None]) -> bool:
    """Whether these fields of a task may be changed at all; complains of each that may not."""
    fixed = sorted(set(changes) - UPDATABLE)
    for name in fixed:
        if name in TaskSpec.__dataclass_fields__:
            complain(f"The {name} of task {key} cannot change; remove the task and add another.")
        else:
            complain(f"A task has no {name!r}; the update of {key} names it.")
    return not fixed


def check_editor(editor: str, agents: Agents, complain: Callable[[str], None]) -> None:
    """Complain of an editor that nobody knows: each end of a task would stop the plan for long."""
    if editor and editor not in agents:
        complain(f"The plan names the editor {editor}, {_unknown(editor)}")


def _unknown(agent: str) -> str:
    return f"which this store does not know; `interlock agents set {agent}` makes it known."


def _names(what: str, names: list[str]) -> str:
    return f"{what}{'' if len(names) == 1 else 's'} {', '.join(names)}"
