"""An orchestrator that dies in the middle of a step: another, given the plan's id, comes to the same end."""

from multiprocessing.connection import Connection
from typing import Any

import pytest

import interlock
from interlock.orchestrator import Orchestrator
from interlock.orchestrator.requests import EditRequest, TaskRun
from tests.faults.processes import Crew, say
from tests.faults.stores import broken

PLAN = {
    "name": "deaths",
    "editor": "planner",
    "tasks": [{"key": "a"}, {"key": "b"}, {"key": "c"}, {"key": "old"}],
    "edges": [{"from": "a", "to": "b"}, {"from": "a", "to": "c"}, {"from": "b", "to": "old"}],
}
#: Where the first orchestrator dies: in a task, in the editor, or after the store took either's answer.
STEPS = ["task a", "edit a", "task b", "edit b", "task new", "edit new", "done a", "edited a", "done new"]


def orchestrate(talk: Connection, url: str, number: int, dies_at: str) -> str:
    """Work on the plan; at one step say so and wait to be killed."""

    def reached(step: str) -> None:
        if step == dies_at:
            say(talk, step)
            talk.recv()

    def work(task: TaskRun) -> str:
        reached(f"task {task.key}")
        return f"{task.key} after {'+'.join(sorted(task.inputs()))}"

    def edit(request: EditRequest) -> Any:
        keys = [one.key for one in request.completions]
        for key in keys:
            reached(f"edit {key}")
        if "b" in keys and all(task.key != "new" for task in request.plan.tasks):
            return [
                {"op": "remove_task", "key": "old"},
                {"op": "add_task", "key": "new"},
                {"op": "add_edge", "from": "b", "to": "new"},
                {"op": "add_edge", "from": "c", "to": "new"},
            ]
        return None

    with interlock.connect(url) as il:
        _tell_after(il.service, reached)
        with Orchestrator(
            number, executors={"coder": work}, editor=edit, interlock=il, lease_s=1.0, max_concurrency=1
        ) as orchestrator:
            return orchestrator.run(timeout_s=60).status


def _tell_after(service: Any, reached: Any) -> None:
    """Steps that end with the store's commit: the answer has not come back yet."""
    done, edit_plan, last = service.done, service.edit_plan, ["?"]

    def done_told(reports: Any) -> Any:
        views = done(reports)
        last[0] = views[0].item.title
        reached(f"done {last[0]}")
        return views

    def edit_told(*args: Any, **kwargs: Any) -> Any:
        view = edit_plan(*args, **kwargs)
        reached(f"edited {last[0]}")
        return view

    service.done, service.edit_plan = done_told, edit_told


@pytest.mark.parametrize("step", STEPS)
def test_an_orchestrator_killed_at_a_step_and_restarted_comes_to_the_same_end(
    crew: Crew, url: str, step: str
) -> None:
    with interlock.connect(url) as il:
        for name in ("coder", "planner"):
            il.service.set_agent(name)
        number = Orchestrator(PLAN, executors={}, interlock=il).plan_id
        first = crew.start(orchestrate, url, number, step)
        assert first.hear() == step
        first.kill()
        assert crew.start(orchestrate, url, number, "never").join() == "completed"
        view = il.service.plan(number)
        assert {task.key: task.status for task in view.tasks} == dict.fromkeys("abc", "completed") | {
            "new": "completed"
        }
        results = {}
        for task in view.tasks:
            ended = [run for run in il.service.show(task.item).runs if run.status == "succeeded"]
            assert len(ended) == 1
            results[task.key] = ended[0].result
        assert results == {"a": "a after ", "b": "b after a", "c": "c after a", "new": "new after b+c"}
        assert view.revision == 2
        assert not broken(il.service.doctor())
