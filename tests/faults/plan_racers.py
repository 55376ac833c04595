"""What processes do to plans at once. A module without pytest: every process imports it."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import Any

from interlock.core.errors import EditRefused, InterlockError
from interlock.core.plans.model import AddEdge, AddTask, EdgeSpec, EditOperation, RemoveTask, TaskSpec
from interlock.service.contract import Report
from interlock.service.local import LocalService
from tests.faults.processes import say
from tests.faults.stores import open_service, open_store


def replacing(old: str, new: str, after: str) -> list[EditOperation]:
    """One task in place of another."""
    return [
        RemoveTask(key=old),
        AddTask(task=TaskSpec(key=new)),
        AddEdge(edge=EdgeSpec(source=after, target=new)),
    ]


def work_until_told(talk: Connection, url: str, agent: str) -> int:
    """Claim one by one and do each at once, until the test says a word; how many there were.

    What becomes ready wakes it. It looks of its own accord now and then only: 16 of these on two cores would
    otherwise do nothing else.
    """
    service = LocalService(open_store(url), poll_s=1.0)
    service.agents()
    say(talk, "there")
    worked = 0
    while not talk.poll():
        for lease in service.next(agent, lease_s=60, wait_s=1.0):
            service.done([Report(run=lease.run, result=json.dumps(lease.item.title))])
            worked += 1
    service.close()
    return worked


def replace_or_add(edit: Callable[..., Any]) -> str:
    """Put B2 in the place of B, or beside it if B cannot be removed any more; which."""
    wish = replacing("B", "B2", "A")
    try:
        edit(operations=wish)
    except EditRefused as refused:
        edit(operations=wish[1:])
        named = [reason.startswith("Task B ") for reason in refused.reasons]
        return "refused" if named == [True] else refused.sentence
    return "removed"


def replace_until_told(talk: Connection, url: str, agent: str) -> int:
    """Answer every edit that is asked for: when A has ended, with B2 for B, telling what came of it. How many
    answers there were."""
    service = open_service(url)
    service.agents()
    say(talk, "there")
    answers = 0
    while not talk.poll():
        for lease in service.next(agent, types=["plan.edit"], lease_s=60, wait_s=0.05):
            batch = service.plan_batch(lease.run)
            answer = partial(
                service.edit_plan, batch.plan, base=batch.revision, run=lease.run, through=batch.through
            )
            if any(c.key == "A" for c in batch.completions):
                say(talk, (batch.plan, replace_or_add(answer)))
            else:
                answer(operations=[])
            answers += 1
    service.close()
    return answers


def finish(talk: Connection, barrier: Barrier, handle: str, url: str) -> str:
    """End a run, at the same moment as everybody else."""
    service = open_service(url)
    service.agents()
    barrier.wait()
    status = service.done([Report(run=handle, result=json.dumps("kept"))])[0].status
    service.close()
    return status


def finish_or_edit(talk: Connection, barrier: Barrier, role: tuple[str, str, int], url: str) -> Any:
    """One process ends a task while the other answers the batch it was given before."""
    word, handle, plan = role
    service = open_service(url)
    service.agents()
    through = service.plan_batch(handle).through if word == "edit" else 0
    barrier.wait()
    try:
        if word == "finish":
            return service.done([Report(run=handle, result=json.dumps("kept"))])[0].status
        edited = service.edit_plan(
            plan, base=1, operations=replacing("B", "B2", "A"), run=handle, through=through
        )
        return edited.revision
    finally:
        service.close()


def edit_when_told(talk: Connection, url: str, agent: str, plan: int, lease_s: float) -> str:
    """Take the edit that is asked for, wait for a word, then replace B; what came of it."""
    service = open_service(url)
    lease = service.next(agent, types=["plan.edit"], wait_s=10, lease_s=lease_s)[0]
    say(talk, lease.run)
    talk.recv()
    try:
        service.edit_plan(plan, base=1, operations=replacing("B", "B2", "A"), run=lease.run)
    except InterlockError as error:
        return error.code
    finally:
        service.close()
    return "edited"
