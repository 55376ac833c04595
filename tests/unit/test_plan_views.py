"""What shells make of looks at a plan: what may be claimed next, what happened in between, what differs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from interlock.core.plans.model import EdgeSpec, Graph, TaskSpec, When
from interlock.orchestrator.events import PlanEvent, Watch
from interlock.orchestrator.frontier import Frontier
from interlock.plans.diff import differences
from interlock.plans.render import bare_picture, picture
from interlock.service.plan_view import EdgeView, PlanView, RevisionView, TaskView

START = datetime(2027, 1, 31, 9, tzinfo=UTC)


def task(key: str, status: str = "waiting", **more: object) -> TaskView:
    made = TaskView(
        key=key,
        item=ord(key),
        title=key,
        type="task",
        priority=0,
        agent=None,
        labels=(),
        lane=None,
        status=status,
        reason="",
        unmet=0,
        broken=0,
        attempt=0,
        run=None,
        run_agent=None,
        run_at=None,
        created_at=START,
        first_claimed_at=None,
        started_at=None,
        ended_at=None,
    )
    return replace(made, **more)  # type: ignore[arg-type]


def plan(*tasks: TaskView, edges: str = "", **more: object) -> PlanView:
    made = PlanView(
        id=1,
        name="plan",
        project="default",
        status="running",
        revision=1,
        editor=None,
        edit_deadline_s=600.0,
        paused=False,
        paused_reason=None,
        task_count=len(tasks),
        edge_count=len(edges.split()),
        open_tasks=len(tasks),
        completed=0,
        failed=0,
        tasks=tasks,
        edges=tuple(
            EdgeView(source=pair[0], target=pair[1], when="success", on_cancel="block", state="open")
            for pair in edges.split()
        ),
        cycle=None,
        created_at=START,
        ended_at=None,
    )
    return replace(made, **more)  # type: ignore[arg-type]


class TestFrontier:
    def ready(self, frontier: Frontier) -> list[str]:
        return [one.key for one in frontier.ready()]

    def test_pending_tasks_are_ready_the_most_urgent_first_and_each_once(self) -> None:
        frontier = Frontier.of(plan(task("a", "pending"), task("b"), task("c", "pending", priority=5)))
        assert self.ready(frontier) == ["c", "a"]
        assert frontier.empty
        assert self.ready(frontier) == []

    def test_the_last_end_that_a_task_waits_for_makes_it_ready(self) -> None:
        frontier = Frontier.of(plan(task("a"), task("b"), task("c"), task("d"), edges="ac bc cd"))
        frontier.ended("a")
        assert frontier.empty
        frontier.ended("b")
        assert self.ready(frontier) == ["c"]
        a, b, *_ = frontier.view.tasks
        assert (frontier.items_before("c"), frontier.items_before("a")) == ({"a": a.item, "b": b.item}, {})
        frontier.ended("b")  # told twice, as after a look that came in between
        assert frontier.empty

    def test_with_an_editor_an_end_stops_the_claims(self) -> None:
        frontier = Frontier.of(plan(task("a"), task("b"), edges="ab", editor="planner"))
        frontier.ended("a")
        assert frontier.editing
        assert self.ready(frontier) == []
        frontier.editing = False
        assert self.ready(frontier) == ["b"]

    def test_a_task_that_waits_for_its_time_is_not_ready(self) -> None:
        assert Frontier.of(plan(task("a", "pending", run_at=START))).empty

    def test_claims_that_return_nothing_shut_their_kind_and_no_other_until_the_next_look(self) -> None:
        frontier = Frontier.of(self.two_kinds())
        tried = []
        for one in frontier.ready():
            tried.append(one.key)
            if one.labels:
                frontier.missed(one)
        assert tried == [*"abcdefgh", "k", "l"]
        frontier.run_ended()
        assert self.ready(frontier) == []
        assert len(self.ready(Frontier.of(self.two_kinds(), frontier.known))) == 12

    def test_a_successful_claim_keeps_its_kind_open(self) -> None:
        frontier = Frontier.of(self.two_kinds())
        tried = []
        for one in frontier.ready():
            tried.append(one.key)
            if one.key == "g":
                frontier.claimed(one)
            elif one.labels:
                frontier.missed(one)
        assert tried == [*"abcdefghij", "k", "l"]
        again = Frontier.of(self.two_kinds(), frontier.known)
        for one in again.ready():
            again.missed(one)
        again.run_ended()  # others were faster, maybe
        assert self.ready(again) == ["i", "j"]

    def test_a_task_without_room_is_offered_again_in_order_when_a_run_has_ended(self) -> None:
        frontier = Frontier.of(self.two_kinds())
        tried = []
        for one in frontier.ready():
            tried.append(one.key)
            if one.labels:
                frontier.agents_full(one)
        assert tried == ["a", "k", "l"]
        frontier.run_ended()
        assert self.ready(frontier) == [*"abcdefghij"]

    def two_kinds(self) -> PlanView:
        gpu = [task(key, "pending", labels=("gpu",)) for key in "abcdefghij"]
        return plan(*gpu, task("k", "pending"), task("l", "pending"))

    def test_a_paused_plan_has_no_ready_tasks_and_unknown_keys_are_skipped(self) -> None:
        assert self.ready(Frontier.of(plan(task("a", "pending"), paused=True))) == []
        frontier = Frontier.of(plan(task("a")))
        frontier.offer(["new"])
        assert frontier.empty


class TestWatch:
    def told(self, *views: PlanView) -> list[tuple[str, str | None]]:
        watch = Watch(1)
        events: list[PlanEvent] = []
        for view in views:
            events += watch.looked(view, lambda after: self.revisions(after, views[-1].revision))
        return [(event.kind, event.key) for event in events]

    def revisions(self, after: int, last: int) -> list[RevisionView]:
        return [
            RevisionView(revision=n, base=n - 1, at=START, by="sam", run=None, why="", operations=())
            for n in range(after + 1, last + 1)
        ]

    def test_the_first_look_makes_no_events(self) -> None:
        assert self.told(plan(task("a", "completed", attempt=1), revision=5)) == []

    def test_a_task_that_started_and_ended_between_two_looks_makes_two_events(self) -> None:
        before, after = plan(task("a", "pending")), plan(task("a", "completed", attempt=1))
        assert self.told(before, after, after) == [("task.started", "a"), ("task.completed", "a")]

    def test_a_run_that_was_given_back_starts_again_with_the_same_attempt(self) -> None:
        views = [
            plan(task("a", "pending")),
            plan(task("a", "in_progress", attempt=1, run=7)),
            plan(task("a", "pending")),
            plan(task("a", "in_progress", attempt=1, run=9)),
            plan(task("a", "failed", attempt=1)),
        ]
        assert self.told(*views) == [("task.started", "a"), ("task.started", "a"), ("task.failed", "a")]

    def test_a_task_that_is_retried_after_its_end_ends_again(self) -> None:
        views = [
            plan(task("a", "failed", attempt=1)),
            plan(task("a", "failed", attempt=2)),
        ]
        assert self.told(*views) == [("task.started", "a"), ("task.failed", "a")]

    def test_the_event_of_a_revision_comes_before_those_of_its_tasks(self) -> None:
        views = [plan(task("a", "pending")), plan(task("b", "completed", attempt=1), revision=3)]
        assert self.told(*views) == [
            ("plan.modified", None),
            ("plan.modified", None),
            ("task.started", "b"),
            ("task.completed", "b"),
        ]


class TestDifferences:
    def test_tasks_and_edges_added_removed_and_changed(self) -> None:
        before = Graph(
            tasks=(TaskSpec(key="a"), TaskSpec(key="b", title="B"), TaskSpec(key="c")),
            edges=(EdgeSpec(source="a", target="b"), EdgeSpec(source="a", target="c")),
        )
        after = Graph(
            tasks=(TaskSpec(key="a", priority=3), TaskSpec(key="d", agent="ada"), TaskSpec(key="c")),
            edges=(EdgeSpec(source="a", target="c", when=When.FAILURE),),
        )
        found = [
            (d.what, d.name, d.change, dict(d.before), dict(d.after)) for d in differences(before, after)
        ]
        assert found == [
            ("task", "a", "changed", {"priority": 0}, {"priority": 3}),
            ("task", "d", "added", {}, {"agent": "ada"}),
            ("task", "b", "removed", {"title": "B"}, {}),
            ("edge", ("a", "c"), "changed", {"when": "success"}, {"when": "failure"}),
            ("edge", ("a", "b"), "removed", {}, {}),
        ]
        assert list(differences(after, after)) == []


class TestPictures:
    def test_a_plan_is_drawn_with_its_statuses_and_an_earlier_revision_without(self) -> None:
        view = plan(task("a", "completed"), task("b"), edges="ab")
        assert [node.status for node in picture(view).nodes] == ["completed", "waiting"]
        graph = Graph(tasks=(TaskSpec(key="a"),))
        assert [(node.key, node.title, node.status) for node in bare_picture("x", graph).nodes] == [
            ("a", "a", "")
        ]
