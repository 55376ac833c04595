"""The orchestrator: Python callables do a plan's tasks; whatever they do, nothing hangs or is lost."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

import interlock
from interlock.client import Interlock
from interlock.core.commands import Outcome
from interlock.core.errors import EditRefused, InvalidInput, LeaseLost, StoreBusy, UnknownRun
from interlock.core.model import NewItem
from interlock.core.plans.model import AddEdge, AddTask, EdgeSpec, EditOperation, Graph, TaskSpec
from interlock.orchestrator import Orchestrator
from interlock.orchestrator import orchestrator as orchestrator_module
from interlock.orchestrator.events import PlanEvent
from interlock.orchestrator.requests import AsyncEditRequest, AsyncTaskRun, EditRequest, TaskRun
from interlock.process.report_queue import ReportQueue
from interlock.service.contract import Report
from interlock.service.plan_view import PlanView
from tests.patience import PATIENCE_S
from tests.postgres_fixtures import StartPostgres

TASK_KINDS = ("task.started", "task.completed", "task.failed", "plan.modified")


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/plans.db"
    database: str = request.getfixturevalue("pg_database18")
    return database


@pytest.fixture
def il(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Interlock]:
    """A connection to a store where a failed attempt is tried again at once."""
    monkeypatch.setenv("INTERLOCK_BACK_OFF_FIRST_S", "0")
    monkeypatch.setenv("INTERLOCK_BACK_OFF_MAX_S", "0")
    monkeypatch.chdir(tmp_path)
    with interlock.connect(url) as connection:
        yield connection


def plan(spec: str, **more: Any) -> dict[str, Any]:
    """`a>b b>c d`: tasks by their keys, and edges."""
    keys: dict[str, None] = {}
    edges = []
    for part in spec.split():
        ends = part.split(">")
        keys |= dict.fromkeys(ends)
        edges += [{"from": ends[0], "to": ends[1]}] if len(ends) == 2 else []
    tasks = [{"key": key, "agent": "coder", "max_attempts": 1} for key in keys]
    return {"name": "plan", "tasks": tasks, "edges": edges, **more}


def done(task: TaskRun) -> str:
    return task.key


class Speechless(Exception):
    """An error that cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError


class Untold(dict[str, Any]):
    """An object that cannot be read."""

    def items(self) -> Any:
        raise KeyError("z")

    def __iter__(self) -> Any:
        raise LookupError("unread")


#: What a callable may raise. `asyncio` lets two of them out of its loop.
ANYTHING = (ValueError("no\x00pe\ud800"), SystemExit(3), KeyboardInterrupt(), Speechless())


def either(function: Callable[[Any], Any], later: bool) -> Callable[[Any], Any]:
    """The function, or an `async` one that does the same."""

    async def awaited(given: Any) -> Any:
        await asyncio.sleep(0)
        return function(given)

    return awaited if later else function


def run(orchestrator: Orchestrator) -> PlanView:
    """Let it work in a thread of its own: if it hangs, only this test does not get its answer. It must not
    take as long as a lease either, by which whatever is left lying ends too."""
    answers: list[PlanView] = []
    thread = threading.Thread(target=lambda: answers.append(orchestrator.run()), daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert answers, orchestrator.incidents
    return answers[0]


def statuses(orchestrator: Orchestrator) -> dict[str, str]:
    return {task.key: task.status for task in orchestrator.view().tasks}


class Log:
    """What happened, in order, from any thread."""

    def __init__(self) -> None:
        self.lines: list[Any] = []
        self._changed = threading.Condition()

    def add(self, line: Any) -> None:
        with self._changed:
            self.lines.append(line)
            self._changed.notify_all()

    def wait_for(self, line: Any) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: line in self.lines, PATIENCE_S), self.lines


class TestExecutors:
    def test_tasks_run_in_the_order_of_their_edges_and_get_earlier_results(self, il: Interlock):
        given: dict[str, Any] = {}

        def work(task: TaskRun) -> dict[str, str]:
            given[task.key] = task.inputs()
            return {"by": task.key}

        with Orchestrator(plan("a>c b>c c>d"), executors={"coder": work}, interlock=il) as orchestrator:
            assert orchestrator.run(timeout_s=PATIENCE_S).status == "completed"
        assert given == {
            "a": {},
            "b": {},
            "c": {"a": {"by": "a"}, "b": {"by": "b"}},
            "d": {"c": {"by": "c"}},
        }
        assert not orchestrator.incidents

    def test_plain_and_async_executors_work_side_by_side_each_for_its_agent(self, il: Interlock):
        async def later(task: AsyncTaskRun) -> str:
            await asyncio.sleep(0)
            return f"{task.key} {threading.current_thread().name}"

        spec = {
            "name": "both",
            "tasks": [
                {"key": "a", "agent": "Plain"},
                {"key": "b", "agent": "later", "payload": {"n": 1}},
                {"key": "anyone"},
            ],
            "edges": [{"from": "a", "to": "b"}],
        }
        executors = {"plain": lambda task: task.attempt, "later": later}
        with Orchestrator(spec, executors=executors, interlock=il) as orchestrator:
            view = orchestrator.run(timeout_s=PATIENCE_S)
        assert view.status == "completed"
        items = {task.key: task.item for task in view.tasks}
        assert il.service.show(items["a"]).runs[0].result == 1
        assert il.service.show(items["b"]).runs[0].result == "b interlock-awaiting"

    def test_tasks_for_other_agents_do_not_block_own_tasks(self, il: Interlock):
        il.service.set_agent("artist", labels=["gpu"])

        def work(task: TaskRun) -> None:
            if task.key == "last":
                orchestrator.stop()

        foreign = [{"key": f"g{n}", "labels": ["gpu"], "priority": 5} for n in range(20)]
        tasks = [*foreign, {"key": "first"}, {"key": "last"}]
        spec = {"name": "mixed", "tasks": tasks, "edges": [{"from": "first", "to": "last"}]}
        with Orchestrator(spec, executors={"coder": work}, interlock=il) as orchestrator:
            run(orchestrator)
            found = statuses(orchestrator)
        assert {key for key, status in found.items() if status == "completed"} == {"first", "last"}

    def test_an_agent_at_its_limit_blocks_no_other_and_keeps_the_order_of_its_tasks(self, il: Interlock):
        il.service.set_agent("coder", max_concurrency=1)
        reviewed, did = threading.Event(), list[str]()

        def work(task: TaskRun) -> None:
            did.append(task.key)
            assert reviewed.wait(PATIENCE_S)

        keys = [f"c{n}" for n in range(12)]
        tasks = [{"key": key, "agent": "coder", "max_attempts": 1} for key in keys]
        spec = {"name": "full", "tasks": [*tasks, {"key": "r", "agent": "reviewer"}]}
        executors = {"coder": work, "reviewer": lambda _: reviewed.set()}
        with Orchestrator(spec, executors=executors, interlock=il) as orchestrator:
            assert run(orchestrator).status == "completed"
        assert did == keys

    def test_a_dependency_added_since_the_last_look_is_among_the_inputs_of_a_task(
        self, il: Interlock, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr("interlock.orchestrator.orchestrator.POLL_S", 5.0)
        given: dict[str, Any] = {}

        def work(task: TaskRun) -> None:
            if task.key == "z":
                given.update(task.inputs())
                return
            put_before: list[EditOperation] = [
                AddTask(task=TaskSpec(key="new")),
                AddEdge(edge=EdgeSpec(source="new", target="z")),
            ]
            il.service.edit_plan(task.plan, base=1, operations=put_before)
            lease = il.service.next("other")[0]
            il.service.done([Report(lease.run, result='"of another"')])

        with Orchestrator(plan("a>z"), executors={"coder": work}, interlock=il) as orchestrator:
            assert run(orchestrator).status == "completed"
        assert given == {"a": None, "new": "of another"}

    def test_no_more_tasks_run_at_once_than_max_concurrency(self, il: Interlock):
        full, count, most = threading.Barrier(3), Counter(), 3

        def work(task: TaskRun) -> None:
            with count:
                full.wait(PATIENCE_S)  # breaks unless three are here at once

        spec = plan(" ".join(f"t{n}" for n in range(9)))
        with Orchestrator(
            spec, executors={"coder": work}, interlock=il, max_concurrency=most
        ) as orchestrator:
            assert orchestrator.run(timeout_s=PATIENCE_S).status == "completed"
        assert count.most == most

    @pytest.mark.parametrize("later", [False, True], ids=["plain", "async"])
    @pytest.mark.parametrize("error", ANYTHING, ids=lambda error: type(error).__name__)
    def test_whatever_an_executor_raises_fails_its_task_and_is_kept(
        self, il: Interlock, error: BaseException, later: bool
    ):
        def work(task: TaskRun) -> str:
            if task.key == "a":
                raise error
            return "fine"

        with Orchestrator(
            plan("a>b c"), executors={"coder": either(work, later)}, interlock=il
        ) as orchestrator:
            view = run(orchestrator)
        assert (view.status, statuses(orchestrator)) == (
            "partially_failed",
            {"a": "failed", "b": "cancelled", "c": "completed"},
        )
        assert [(i.where, i.about, i.error) for i in orchestrator.incidents] == [("executor", "a", error)]
        failed = next(task for task in view.tasks if task.key == "a")
        said = il.service.show(failed.item).runs[0].error or ""
        assert said.startswith(type(error).__name__)

    def test_a_task_that_fails_is_tried_again_while_it_has_attempts(self, il: Interlock):
        def work(task: TaskRun) -> int:
            if task.attempt < 3:
                raise RuntimeError("not yet")
            return task.attempt

        spec = {"name": "again", "tasks": [{"key": "a", "max_attempts": 3}]}
        with Orchestrator(spec, executors={"coder": work}, interlock=il) as orchestrator:
            assert orchestrator.run(timeout_s=PATIENCE_S).status == "completed"
        assert len(orchestrator.incidents) == 2

    def test_a_background_task_of_an_async_executor_cannot_stop_the_others(self, il: Interlock):
        """An event loop stops where one of its tasks raises this, and with it all that awaits there."""

        async def stop() -> None:
            raise SystemExit(3)

        async def work(task: AsyncTaskRun) -> str:
            if task.key == "a":
                begun = asyncio.create_task(stop())
                await asyncio.wait([begun])
                assert isinstance(begun.exception(), SystemExit)
            await asyncio.sleep(0.05)
            return task.key

        with Orchestrator(plan("a>c b"), executors={"coder": work}, interlock=il) as orchestrator:
            assert run(orchestrator).status == "completed"
        assert not orchestrator.incidents

    @pytest.mark.parametrize("value", [object(), float("nan"), {1, 2}, "x" * (2 << 20), Untold(a=1)])
    def test_a_result_that_cannot_be_kept_fails_the_task_for_good(self, il: Interlock, value: Any):
        spec = {"name": "odd", "tasks": [{"key": "a", "max_attempts": 3}]}
        with Orchestrator(spec, executors={"coder": lambda _: value}, interlock=il) as orchestrator:
            view = run(orchestrator)
        assert view.status == "failed"
        runs = il.service.show(view.tasks[0].item).runs
        assert len(runs) == 1
        assert (runs[0].error or "").startswith("The result cannot be kept: ")

    def test_an_executor_that_lost_its_run_is_refused_and_blocks_nothing(self, il: Interlock):
        stuck, go_on = threading.Event(), threading.Event()

        def work(task: TaskRun) -> str:
            if stuck.is_set():
                return "second"
            stuck.set()
            il.service.take_back(task.item, why="a test")
            go_on.wait(PATIENCE_S)
            return "first"

        spec = {"name": "zombie", "tasks": [{"key": "a"}]}
        with Orchestrator(
            spec, executors={"coder": work}, interlock=il, max_concurrency=1, lease_s=1.0
        ) as orchestrator:
            view = orchestrator.run(timeout_s=PATIENCE_S)
            assert view.status == "completed"
            go_on.set()
            eventually(lambda: any(isinstance(i.error, LeaseLost) for i in orchestrator.incidents))
        assert [run.result for run in il.service.show(view.tasks[0].item).runs] == [None, "second"]

    def test_an_end_waits_for_the_renewal_that_is_under_way(
        self, il: Interlock, monkeypatch: pytest.MonkeyPatch
    ):
        """Without the lock around both, the renewal arrives after the end and counts as a refused write."""
        renewing, ended = threading.Event(), threading.Event()
        renew, done_ = il.service.renew, il.service.done

        def slow_renew(reports: Any) -> Any:
            renewing.set()
            ended.wait(0.5)
            return renew(reports)

        def done_told(reports: Any) -> Any:
            views = done_(reports)
            ended.set()
            return views

        monkeypatch.setattr(il.service, "renew", slow_renew)
        monkeypatch.setattr(il.service, "done", done_told)
        with Orchestrator(
            plan("a"), executors={"coder": lambda _: renewing.wait(PATIENCE_S)}, interlock=il, lease_s=1.0
        ) as orchestrator:
            assert orchestrator.run(timeout_s=PATIENCE_S).status == "completed"
        assert il.service.stats().refused_writes == 0

    @pytest.mark.parametrize("spoiled", [False, True], ids=["all good", "one of them no run"])
    def test_ends_that_come_during_a_report_go_in_one_batch_and_none_spoils_another(
        self, il: Interlock, monkeypatch: pytest.MonkeyPatch, spoiled: bool
    ):
        il.service.add([NewItem(title=f"item {n}") for n in range(5)])
        first, *others = [lease.run for lease in il.service.next("coder", limit=5)]
        if spoiled:
            others[1] = "nonsense"
        ends, calls, done_ = ReportQueue(il.service), list[int](), il.service.done
        under_way, all_owed = threading.Event(), threading.Event()

        def slow_done(reports: Any) -> Any:
            calls.append(len(reports))
            under_way.set()
            assert all_owed.wait(PATIENCE_S)
            return done_(reports)

        monkeypatch.setattr(il.service, "done", slow_done)
        with ThreadPoolExecutor(5) as threads:
            answers = [threads.submit(ends.send, Outcome.DONE, Report(first))]
            assert under_way.wait(PATIENCE_S)
            answers += [threads.submit(ends.send, Outcome.DONE, Report(run)) for run in others]
            eventually(lambda: len(ends.owed) == 4)
            all_owed.set()
        assert calls == [1, 4, *([1] * 4 if spoiled else [])]
        raised = [answer.exception() for answer in answers]
        assert [type(error) for error in raised if error] == ([UnknownRun] if spoiled else [])
        assert all(a.result().status == "succeeded" for a in answers if not a.exception())

    def test_a_cancelled_plan_cancels_async_executors(self, il: Interlock):
        log = Log()

        async def work(task: AsyncTaskRun) -> None:
            log.add("began")
            try:
                await asyncio.sleep(PATIENCE_S)
            except asyncio.CancelledError:
                log.add("cancelled")
                raise

        with Orchestrator(plan("a"), executors={"coder": work}, interlock=il) as orchestrator:
            running = threading.Thread(target=orchestrator.run, kwargs={"timeout_s": PATIENCE_S})
            running.start()
            log.wait_for("began")
            il.service.cancel_plan(orchestrator.plan_id, why="a test")
            running.join(PATIENCE_S)
            assert not running.is_alive()
            assert orchestrator.view().status == "cancelled"
        assert log.lines == ["began", "cancelled"]

    def test_a_cancelled_executor_keeps_its_task_until_it_has_cleaned_up(self, il: Interlock):
        log = Log()
        clean = threading.Event()

        async def work(task: AsyncTaskRun) -> None:
            log.add("began")
            try:
                await asyncio.sleep(PATIENCE_S)
            finally:
                log.add("cleaning up")
                await asyncio.to_thread(clean.wait, PATIENCE_S)
                log.add("clean")

        with Orchestrator(plan("a"), executors={"coder": work}, interlock=il) as orchestrator:
            running = threading.Thread(target=orchestrator.run, kwargs={"timeout_s": PATIENCE_S})
            running.start()
            log.wait_for("began")
            il.service.cancel_plan(orchestrator.plan_id, why="a test")
            log.wait_for("cleaning up")
            running.join(0.5)
            went_on = running.is_alive(), orchestrator.view().tasks[0].status
            clean.set()
            running.join(PATIENCE_S)
            assert not running.is_alive()
        assert went_on == (True, "in_progress")
        assert log.lines == ["began", "cleaning up", "clean"]


class TestEditors:
    def test_an_editor_answers_every_end_and_what_it_adds_runs(self, il: Interlock):
        batches: list[list[str]] = []

        def edit(request: EditRequest) -> Any:
            batches.append([one.key for one in request.completions])
            if batches[-1] == ["a"]:
                assert request.completions[0].result == "a"
                assert [task.key for task in request.plan.tasks] == ["a", "b"]
                return [AddTask(task=TaskSpec(key="c")), AddEdge(edge=EdgeSpec(source="b", target="c"))]
            return None

        with Orchestrator(plan("a>b"), executors={"coder": done}, editor=edit, interlock=il) as orchestrator:
            view = orchestrator.run(timeout_s=PATIENCE_S)
        assert (view.status, view.revision, view.editor) == ("completed", 2, "editor")
        assert batches == [["a"], ["b"], ["c"]]
        stats = orchestrator.statistics()
        assert (stats.total, stats.completed, stats.timed_out) == (3, 3, 0)
        assert (stats.registered, stats.answered) == (3, 3)
        assert 0 < stats.lock_s < PATIENCE_S

    @pytest.mark.parametrize(
        "answer",
        [
            {"operations": [{"op": "add_task", "key": "z"}]},
            [{"op": "add_task", "key": "z"}],
            {"graph": {"tasks": [{"key": "a", "agent": "coder", "max_attempts": 1}, {"key": "z"}]}},
            Graph(tasks=(TaskSpec(key="a", agent="coder", max_attempts=1), TaskSpec(key="z"))),
        ],
    )
    def test_an_editor_may_answer_in_several_forms(self, il: Interlock, answer: Any):
        async def edit(request: EditRequest) -> Any:
            return answer if request.revision == 1 else None

        with Orchestrator(plan("a"), executors={"coder": done}, editor=edit, interlock=il) as orchestrator:
            assert orchestrator.run(timeout_s=PATIENCE_S).status == "completed"
        assert statuses(orchestrator) == {"a": "completed", "z": "completed"}

    def test_an_editor_whose_answer_is_refused_is_called_again_with_the_reasons(self, il: Interlock):
        heard: list[tuple[str, ...]] = []

        def edit(request: EditRequest) -> Any:
            heard.append(request.refused)
            if len(heard) == 1:
                return [{"op": "remove_task", "key": "a"}, {"op": "add_edge", "from": "b", "to": "b"}]
            if len(heard) == 2:
                return [{"op": "remove_task", "key": "a"}]
            return None

        with Orchestrator(plan("a>b"), executors={"coder": done}, editor=edit, interlock=il) as orchestrator:
            assert orchestrator.run(timeout_s=PATIENCE_S).status == "completed"
        assert heard[0] == ()
        assert heard[1] == ("operations[1]: Task b cannot depend on itself.",)
        assert "Task a has ended as completed and cannot be removed." in heard[2]
        assert isinstance(orchestrator.incidents[1].error, EditRefused)
        assert orchestrator.view().revision == 1

    @pytest.mark.parametrize("later", [False, True], ids=["plain", "async"])
    @pytest.mark.parametrize("error", ANYTHING, ids=lambda error: type(error).__name__)
    def test_an_editor_that_always_fails_does_not_block_the_plan(
        self, il: Interlock, error: BaseException, later: bool
    ):
        def edit(request: EditRequest) -> Any:
            raise error

        with Orchestrator(
            plan("a>b"), executors={"coder": done}, editor=either(edit, later), interlock=il
        ) as orchestrator:
            assert run(orchestrator).status == "completed"
        assert {(i.where, i.error) for i in orchestrator.incidents} == {("editor", error)}

    def test_an_editor_that_answers_with_wrong_types_is_called_again_with_the_reasons(self, il: Interlock):
        wrong: Any = {"a": 1}
        heard: list[tuple[str, ...]] = []

        def edit(request: EditRequest) -> Any:
            heard.append(request.refused)
            return [AddTask(task=TaskSpec(key="new", payload=wrong))] if len(heard) == 1 else None

        with Orchestrator(plan("a>b"), executors={"coder": done}, editor=edit, interlock=il) as orchestrator:
            assert run(orchestrator).status == "completed"
        said = (
            "operations[0].payload: The payload {'a': 1} is not a JSON string. Serialize it with json.dumps."
        )
        assert heard == [(), (said,), ()]

    def test_an_answer_that_cannot_be_read_is_a_failure_of_the_editor(self, il: Interlock):
        answers: list[Any] = [Untold(operations=[])]

        def edit(request: EditRequest) -> Any:
            return answers.pop() if answers else None

        with Orchestrator(plan("a>b"), executors={"coder": done}, editor=edit, interlock=il) as orchestrator:
            assert run(orchestrator).status == "completed"
        assert [(i.where, str(i.error)) for i in orchestrator.incidents] == [("editor", "unread")]

    def test_the_edit_of_an_editor_that_is_too_slow_is_refused_and_the_plan_goes_on(self, il: Interlock):
        log, late = Log(), threading.Event()

        def edit(request: EditRequest) -> Any:
            if [one.key for one in request.completions] == ["a"]:
                log.add("editing")
                late.wait(PATIENCE_S)
                return [{"op": "remove_task", "key": "b"}]
            return None

        def work(task: TaskRun) -> None:
            if task.key == "b":
                late.set()

        with Orchestrator(
            plan("a>b", edit_deadline_s=1), executors={"coder": work}, editor=edit, interlock=il
        ) as orchestrator:
            view = orchestrator.run(timeout_s=PATIENCE_S)
        assert (view.status, statuses(orchestrator)) == ("completed", {"a": "completed", "b": "completed"})
        assert orchestrator.statistics().timed_out == 1

    def test_somebody_else_may_be_the_editor(self, il: Interlock):
        il.service.set_agent("planner")
        spec = plan("a>b", editor="planner")
        with Orchestrator(spec, executors={"coder": done}, interlock=il) as orchestrator:
            running = threading.Thread(target=orchestrator.run, kwargs={"timeout_s": PATIENCE_S})
            running.start()
            for _ in range(2):
                lease = il.service.next("planner", wait_s=60)[0]
                il.service.done([Report(run=lease.run)])
            running.join(PATIENCE_S)
            assert orchestrator.view().status == "completed"


class TestListeners:
    def test_listeners_get_each_start_end_and_change_once_and_in_order(self, il: Interlock):
        log = Log()

        def work(task: TaskRun) -> None:
            if task.key == "b":
                raise ValueError

        def edit(request: EditRequest) -> Any:
            return [{"op": "add_task", "key": "c"}] if request.completions[0].key == "b" else None

        with Orchestrator(plan("a>b"), executors={"coder": work}, editor=edit, interlock=il) as orchestrator:
            orchestrator.listen(lambda event: log.add((event.kind, event.key)), *TASK_KINDS)
            orchestrator.run(timeout_s=PATIENCE_S)
        assert log.lines == [
            ("task.started", "a"),
            ("task.completed", "a"),
            ("task.started", "b"),
            ("task.failed", "b"),
            ("plan.modified", None),
            ("task.started", "c"),
            ("task.completed", "c"),
        ]

    @pytest.mark.parametrize("later", [False, True], ids=["plain", "async"])
    @pytest.mark.parametrize(
        "error", [*ANYTHING, asyncio.CancelledError()], ids=lambda error: type(error).__name__
    )
    def test_a_listener_that_raises_is_noted_and_the_others_are_called(
        self, il: Interlock, error: BaseException, later: bool, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(orchestrator_module, "LISTENERS_WAIT_S", PATIENCE_S)
        log = Log()

        def broken(event: PlanEvent) -> None:
            raise error

        with Orchestrator(plan("a"), executors={"coder": done}, interlock=il) as orchestrator:
            orchestrator.listen(either(broken, later))
            orchestrator.listen(lambda event: log.add(event.data["attempt"]), "task.completed")
            assert run(orchestrator).status == "completed"
        assert log.lines == [1]
        assert {(i.where, i.about) for i in orchestrator.incidents} == {
            ("listener", "task.started"),
            ("listener", "task.completed"),
        }

    def test_an_async_listener_is_awaited_on_the_callers_loop_if_there_is_one(self, il: Interlock):
        heard: list[tuple[str, asyncio.AbstractEventLoop]] = []

        async def listener(event: PlanEvent) -> None:
            await asyncio.sleep(0)
            heard.append((event.kind, asyncio.get_running_loop()))

        async def program() -> None:
            with Orchestrator(plan("a"), executors={"coder": done}, interlock=il) as orchestrator:
                orchestrator.listen(listener)
                await orchestrator.run_async(timeout_s=PATIENCE_S)
            loop = asyncio.get_running_loop()
            assert heard == [("task.started", loop), ("task.completed", loop)]
            assert not orchestrator.incidents

        asyncio.run(program())

    def test_a_listener_that_never_returns_does_not_block_the_orchestrator(
        self, il: Interlock, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(orchestrator_module, "LISTENERS_WAIT_S", 0.1)
        with Orchestrator(plan("a>b"), executors={"coder": done}, interlock=il) as orchestrator:
            orchestrator.listen(lambda _: threading.Event().wait())
            assert orchestrator.run(timeout_s=PATIENCE_S).status == "completed"

    def test_listeners_get_events_of_other_workers_too(self, il: Interlock):
        log = Log()
        spec = {"name": "shared", "tasks": [{"key": "a", "agent": "tester"}]}
        il.service.set_agent("tester")
        with Orchestrator(spec, executors={"coder": done}, interlock=il) as orchestrator:
            orchestrator.listen(lambda event: log.add((event.kind, event.data["agent"])))
            running = threading.Thread(target=orchestrator.run, kwargs={"timeout_s": PATIENCE_S})
            running.start()
            lease = il.service.next("tester")[0]
            il.service.done([Report(run=lease.run)])
            running.join(PATIENCE_S)
        assert log.lines == [("task.started", "tester"), ("task.completed", "tester")]

    def test_listeners_get_what_becomes_of_every_edit_cycle(self, il: Interlock):
        """Three tasks end: a changes the plan, b nothing, and for c the editor takes too long."""
        log, over = Log(), threading.Event()

        def edit(request: EditRequest) -> Any:
            keys = [end.key for end in request.completions]
            if keys == ["c"]:
                il.service.set_edit_deadline(request.plan.id, 1)
                over.wait(PATIENCE_S)
            return [{"op": "update_task", "key": "c", "title": "C"}] if keys == ["a"] else None

        def heard(event: PlanEvent) -> None:
            data = {name: value for name, value in event.data.items() if name in ("task", "tasks", "reason")}
            log.add((event.kind, *data.values()))
            if event.kind == "cycle.expired":
                over.set()

        spec = plan("a>b b>c")
        with Orchestrator(spec, executors={"coder": done}, editor=edit, interlock=il) as orchestrator:
            orchestrator.listen(heard, "cycle.opened", "cycle.batch", "cycle.closed")
            orchestrator.listen(heard, "cycle.unchanged", "cycle.expired")
            orchestrator.run(timeout_s=PATIENCE_S)
            stats = orchestrator.statistics()
        assert log.lines == [
            ("cycle.opened", "a"),
            ("cycle.batch", ("a",)),
            ("cycle.closed", "edit_answered"),
            ("cycle.opened", "b"),
            ("cycle.batch", ("b",)),
            ("cycle.unchanged",),
            ("cycle.closed", "edit_answered"),
            ("cycle.opened", "c"),
            ("cycle.batch", ("c",)),
            ("cycle.expired",),
            ("cycle.closed", "edit_cycle_expired"),
        ]
        assert (stats.registered, stats.answered, stats.timed_out) == (3, 2, 1)

    def test_listeners_have_a_batch_before_the_editor_is_called(self, il: Interlock):
        log = Log()

        def edit(request: EditRequest) -> None:
            log.add(("edit", tuple(end.key for end in request.completions)))

        with Orchestrator(plan("a>b"), executors={"coder": done}, editor=edit, interlock=il) as orchestrator:
            orchestrator.listen(lambda event: log.add((event.kind, event.data["tasks"])), "cycle.batch")
            assert run(orchestrator).status == "completed"
        assert log.lines == [
            ("cycle.batch", ("a",)),
            ("edit", ("a",)),
            ("cycle.batch", ("b",)),
            ("edit", ("b",)),
        ]

    def test_a_listener_that_waits_for_the_editor_delays_it_for_a_bounded_time(self, il: Interlock):
        waited: list[bool] = []

        with Orchestrator(
            plan("a"), executors={"coder": done}, editor=lambda _: None, interlock=il
        ) as orchestrator:
            orchestrator.listen(
                lambda _: waited.append(orchestrator.wait_for_pending(PATIENCE_S)), "cycle.opened"
            )
            assert run(orchestrator).status == "completed"
        assert waited == [True]

    def test_listeners_get_the_cycles_of_other_editors_too(self, il: Interlock):
        log = Log()
        il.service.set_agent("planner")
        spec = plan("a", editor="planner")
        with Orchestrator(spec, executors={"coder": done}, interlock=il) as orchestrator:
            orchestrator.listen(lambda event: log.add((event.kind, event.data.get("agent"))), "cycle.batch")
            orchestrator.listen(lambda event: log.add((event.kind, None)), "cycle.unchanged", "cycle.closed")
            running = threading.Thread(target=orchestrator.run, kwargs={"timeout_s": PATIENCE_S})
            running.start()
            lease = il.service.next("planner", wait_s=30)[0]
            il.service.done([Report(run=lease.run)])
            running.join(PATIENCE_S)
        assert log.lines == [("cycle.batch", "planner"), ("cycle.unchanged", None), ("cycle.closed", None)]

    def test_an_event_that_does_not_exist_is_refused(self, il: Interlock):
        orchestrator = Orchestrator(plan("a"), executors={"coder": done}, interlock=il)
        with pytest.raises(InvalidInput, match=r"no event 'task\.done'"):
            orchestrator.listen(print, "task.done")


class TestMonitoring:
    def test_ends_wait_for_the_editor_and_a_program_can_wait_for_the_edit(self, il: Interlock):
        log, go_on = Log(), threading.Event()

        def edit(request: EditRequest) -> None:
            log.add("editing")
            assert go_on.wait(PATIENCE_S)

        with Orchestrator(plan("a"), executors={"coder": done}, editor=edit, interlock=il) as orchestrator:
            assert not orchestrator.has_pending()
            assert orchestrator.wait_for_pending(0)
            running = threading.Thread(target=orchestrator.run, kwargs={"timeout_s": PATIENCE_S})
            running.start()
            log.wait_for("editing")
            assert orchestrator.has_pending()
            assert orchestrator.pending_task_ids() == ("a",)
            assert not orchestrator.wait_for_pending(0.05)
            orchestrator.set_timeout(1_200.0)
            assert orchestrator.view().edit_deadline_s == 1_200.0
            go_on.set()
            assert orchestrator.wait_for_pending(PATIENCE_S)
            running.join(PATIENCE_S)
            assert orchestrator.pending_task_ids() == ()

    def test_waiting_for_an_edit_ends_with_its_deadline(self, il: Interlock):
        """Nobody works on the plan here, so nobody else sees that the time is up."""
        il.service.set_agent("planner")
        spec = plan("a b", editor="planner", edit_deadline_s=1)
        orchestrator = Orchestrator(spec, executors={"coder": done}, interlock=il)
        il.service.done([Report(run=il.service.next("coder")[0].run)])
        assert orchestrator.has_pending()
        assert orchestrator.wait_for_pending(PATIENCE_S)
        assert orchestrator.statistics().timed_out == 1


class TestSeveral:
    def test_orchestrators_with_the_same_agents_do_only_their_own_tasks(self, il: Interlock):
        did: dict[str, list[str]] = {name: [] for name in ("one", "two", "three")}

        def worker(name: str) -> Callable[[TaskRun], None]:
            return lambda task: did[name].append(task.title)  # its item's own, which is the key

        made = [
            Orchestrator(
                plan(" ".join(f"{name}-{n}" for n in range(5)), name=name),
                executors={"coder": worker(name)},
                interlock=il,
            )
            for name in did
        ]
        threads = [threading.Thread(target=one.run, kwargs={"timeout_s": PATIENCE_S}) for one in made]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert {one.view().status for one in made} == {"completed"}
        assert {name: sorted(keys) for name, keys in did.items()} == {
            name: [f"{name}-{n}" for n in range(5)] for name in did
        }

    def test_two_orchestrators_of_one_plan_share_its_tasks_and_none_is_done_twice(self, il: Interlock):
        did: list[str] = []
        spec = plan(" ".join(f"a>t{n} t{n}>z" for n in range(6)))
        first = Orchestrator(spec, executors={"coder": lambda t: did.append(t.key)}, interlock=il)
        second = Orchestrator(first.plan_id, executors={"coder": lambda t: did.append(t.key)}, interlock=il)
        threads = [threading.Thread(target=o.run, kwargs={"timeout_s": PATIENCE_S}) for o in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert first.view().status == "completed"
        assert sorted(did) == sorted(["a", "z", *(f"t{n}" for n in range(6))])

    def test_an_orchestrator_that_was_stopped_leaves_the_rest_to_the_next(self, il: Interlock):
        def once(task: TaskRun) -> str:
            first.stop()
            return "first"

        first = Orchestrator(plan("a>b"), executors={"coder": once}, interlock=il)
        assert first.run(timeout_s=PATIENCE_S).status == "running"
        assert statuses(first) == {"a": "completed", "b": "pending"}
        second = Orchestrator(first.plan_id, executors={"coder": done}, interlock=il)
        assert second.run(timeout_s=PATIENCE_S).status == "completed"

    def test_a_stop_before_the_start_stops_the_next_run(self, il: Interlock):
        orchestrator = Orchestrator(plan("a"), executors={"coder": done}, interlock=il)
        orchestrator.stop()
        assert orchestrator.run(timeout_s=PATIENCE_S).tasks[0].status == "pending"
        assert orchestrator.run(timeout_s=PATIENCE_S).status == "completed"

    def test_an_orchestrator_cannot_run_twice_at_once(self, il: Interlock):
        refused: list[str] = []

        def work(task: TaskRun) -> None:
            with pytest.raises(InvalidInput) as caught:
                orchestrator.run()
            refused.append(caught.value.sentence)

        with Orchestrator(plan("a"), executors={"coder": work}, interlock=il) as orchestrator:
            assert orchestrator.run(timeout_s=PATIENCE_S).status == "completed"
        assert refused == ["This orchestrator is already running."]


class TestAsync:
    def test_async_callables_run_on_the_callers_loop(self, il: Interlock):
        loops: list[asyncio.AbstractEventLoop] = []

        async def work(task: AsyncTaskRun) -> None:
            loops.append(asyncio.get_running_loop())

        async def program() -> str:
            with Orchestrator(plan("a b"), executors={"coder": work}, interlock=il) as orchestrator:
                view = await orchestrator.run_async(timeout_s=PATIENCE_S)
            assert set(loops) == {asyncio.get_running_loop()}
            return view.status

        assert asyncio.run(program()) == "completed"

    def test_a_cancelled_run_releases_its_tasks(self, il: Interlock):
        async def program() -> int:
            began = asyncio.Event()

            async def work(task: AsyncTaskRun) -> None:
                began.set()
                await asyncio.sleep(PATIENCE_S)

            with Orchestrator(plan("a"), executors={"coder": work}, interlock=il) as orchestrator:
                running = asyncio.create_task(orchestrator.run_async())
                await began.wait()
                running.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await running
                return orchestrator.plan_id

        number = asyncio.run(program())
        with Orchestrator(number, executors={"coder": done}, interlock=il) as orchestrator:
            assert statuses(orchestrator) == {"a": "pending"}
            assert orchestrator.run(timeout_s=PATIENCE_S).status == "completed"

    def test_a_program_on_the_loop_of_its_callables_awaits_the_edit_and_what_the_plan_says(
        self, il: Interlock
    ):
        async def work(task: AsyncTaskRun) -> dict[str, Any]:
            return await task.inputs()

        async def program() -> None:
            editing, go_on = asyncio.Event(), asyncio.Event()

            async def edit(request: AsyncEditRequest) -> None:
                assert {task.key for task in (await request.plan()).tasks} == {"a", "b"}
                editing.set()
                await go_on.wait()

            spec = plan("a>b")
            async with Orchestrator(
                spec, executors={"coder": work}, editor=edit, interlock=il
            ) as orchestrator:
                running = asyncio.create_task(orchestrator.run(timeout_s=PATIENCE_S))
                await asyncio.wait_for(editing.wait(), PATIENCE_S)
                assert await orchestrator.has_pending()
                assert await orchestrator.pending_task_ids() == ("a",)
                assert not await orchestrator.wait_for_pending(0)
                go_on.set()
                assert await orchestrator.wait_for_pending(PATIENCE_S)
                view = await running
                assert (view.status, (await orchestrator.statistics()).answered) == ("completed", 2)
                assert not orchestrator.incidents
            items = {task.key: task.item for task in view.tasks}
            assert il.service.show(items["b"]).runs[0].result == {"a": {}}

        asyncio.run(program())

    def test_many_that_await_the_edit_leave_room_for_the_editor(self, il: Interlock):
        """The pool of `asyncio.to_thread` has a few threads more than the machine has processors."""

        async def program() -> None:
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
            waiting: list[asyncio.Task[bool]] = []

            async def edit(request: AsyncEditRequest) -> None:
                waiting.extend(
                    asyncio.create_task(orchestrator.wait_for_pending(PATIENCE_S)) for _ in range(3)
                )
                await asyncio.sleep(0)
                await request.plan()

            async with Orchestrator(
                plan("a"), executors={"coder": done}, editor=edit, interlock=il
            ) as orchestrator:
                assert (await orchestrator.run(timeout_s=PATIENCE_S)).status == "completed"
                assert await asyncio.gather(*waiting) == [True] * 3

        asyncio.run(program())

    def test_a_call_that_would_block_the_loop_of_the_callables_raises_and_the_editor_is_not_starved(
        self, il: Interlock
    ):
        refused: list[str] = []

        def blocking(task: TaskRun) -> Any:
            async def later() -> dict[str, Any]:
                return task.inputs()

            return later()

        async def program() -> None:
            editing = asyncio.Event()

            async def edit(_: AsyncEditRequest) -> None:
                editing.set()
                await asyncio.sleep(0.05)

            tasks = [{"key": "a"}, {"key": "b", "agent": "other", "max_attempts": 1}]
            spec = {"name": "blocked", "tasks": tasks, "edges": [{"from": "a", "to": "b"}]}
            executors = {"coder": done, "other": blocking}
            with Orchestrator(spec, executors=executors, editor=edit, interlock=il) as orchestrator:
                running = asyncio.create_task(orchestrator.run_async(timeout_s=PATIENCE_S))
                await asyncio.wait_for(editing.wait(), PATIENCE_S)
                for call in (
                    partial(orchestrator.wait_for_pending, 3),
                    orchestrator.has_pending,
                    orchestrator.pending_task_ids,
                    orchestrator.statistics,
                    orchestrator.view,
                    partial(orchestrator.set_timeout, 60.0),
                    partial(orchestrator.listen, print),
                ):
                    with pytest.raises(InvalidInput) as caught:
                        call()
                    refused.append(caught.value.hint)
                assert (await running).status == "partially_failed"
                assert orchestrator.statistics().timed_out == 0
            (incident,) = orchestrator.incidents
            assert "`async def`" in str(incident.error)

        asyncio.run(program())
        assert refused[0] == (
            "Use `async with Orchestrator(…) as orchestrator` and await `orchestrator.wait_for_pending()`."
        )


def test_without_a_connection_the_store_of_the_environment_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("INTERLOCK_URL", f"sqlite:///{tmp_path}/own.db")
    with Orchestrator(plan("a"), executors={"coder": done}) as orchestrator:
        assert orchestrator.run(timeout_s=PATIENCE_S).status == "completed"


def test_an_editor_for_a_plan_without_one_is_refused(il: Interlock):
    number = Orchestrator(plan("a"), executors={"coder": done}, interlock=il).plan_id
    with pytest.raises(InvalidInput, match="has no editor"):
        Orchestrator(number, executors={"coder": done}, editor=lambda _: None, interlock=il)


class Counter:
    """Counts who is inside, and the most there ever were."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.now -= 1


def eventually(true: Callable[[], bool]) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < until_s
        time.sleep(0.01)


def test_a_database_that_is_busy_for_long_costs_no_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Without patience in `RunCalls` the end of the task is not reported, and it is done twice."""
    monkeypatch.setenv("INTERLOCK_BUSY_TIMEOUT_S", "0.1")
    other, did = apsw.Connection(str(tmp_path / "busy.db")), []

    def give_back() -> None:
        other.execute("ROLLBACK")

    def work(task: TaskRun) -> None:
        did.append(task.key)
        if task.key == "a":
            other.execute("BEGIN IMMEDIATE")
            threading.Timer(1.0, give_back).start()

    with (
        interlock.connect(f"sqlite:///{tmp_path}/busy.db") as il,
        Orchestrator(plan("a>b"), executors={"coder": work}, interlock=il, lease_s=3.0) as orchestrator,
    ):
        assert orchestrator.run(timeout_s=PATIENCE_S).status == "completed"
    assert did == ["a", "b"]
    assert {(i.where, type(i.error)) for i in orchestrator.incidents} == {("store", StoreBusy)}


def test_a_server_that_restarts_in_the_middle_costs_no_task(start_postgres: StartPostgres):
    server = start_postgres(18, fsync=True)

    def work(task: TaskRun) -> str:
        if task.key == "a" and server.running:
            server.stop("immediate")
            threading.Timer(0.3, server.start).start()
        return task.key

    with interlock.connect(server.url()) as il:
        with Orchestrator(plan("a>b"), executors={"coder": work}, interlock=il) as orchestrator:
            assert orchestrator.run(timeout_s=PATIENCE_S).status == "completed"
        assert il.service.stats().completions == 2
