"""Events carry what the reference says, tried with a history that has every kind of event."""

import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from docs.generation.codes import event_data
from interlock.core.commands import QuotaLimit
from interlock.core.errors import EditRefused
from interlock.core.model import ANOTHER_SYSTEM, OUR_BOT, EventKind, NewItem, Policy
from interlock.core.notices import WAITS_S
from interlock.core.plans.model import (
    AddTask,
    EdgeSpec,
    EditOperation,
    Graph,
    RemoveTask,
    TaskSpec,
    UpdateTask,
)
from interlock.core.timing import WAKES_MAX
from interlock.service.contract import ItemFilter, LeaseView, Report
from interlock.service.local import LocalService
from interlock.store.sqlite.store import SqliteStore


class Story:
    """A service whose time the test moves."""

    def __init__(self, path: Path) -> None:
        self.now_us = 4_000_000_000_000_000  # far ahead of the clock of any machine
        self._path = path / "story.db"
        self.service = LocalService(SqliteStore(self._path, now=lambda: self.now_us))

    def copy(self) -> None:
        """Go on in a copy of the store, by the clock of this machine."""
        self.service.close()
        self.service = LocalService(SqliteStore(shutil.copy(self._path, self._path.with_name("copy.db"))))

    def add(self, lane: str | None, agent: str = "", policy: Policy = Policy.QUEUE, **more: object) -> None:
        self.service.add([NewItem(title="Fix", lane=lane, agent=agent, policy=policy, **more)])  # type: ignore[arg-type]

    def next(self, agent: str) -> LeaseView:
        return self.service.next(agent)[0]

    def later(self, seconds: float) -> None:
        self.now_us += round(seconds * 1_000_000)
        self.service.sweep()


def tell(story: Story) -> None:
    """Do everything that leaves an event."""
    service = story.service
    tell_of_own_messages(story)
    tell_of_work_outside(story)
    service.block(
        lane="lane:blocked", blocker="acme/app#3", why="blocked by", url="https://example.com/3", by="ann"
    )
    service.unblock(lane="lane:blocked", by="ann")
    for is_open in (False, True):
        service.set_gate(
            "lane:gated", series="series:a/RFC-1", open=is_open, exempt=["look"], why="its turn", by="ann"
        )
    service.remove_gate("lane:gated", why="it left", by="ann")
    story.add("lane:1", "ada", Policy.COALESCE, dedupe_key="k", message="first")
    story.add("lane:1", "ada", Policy.COALESCE, dedupe_key="k")
    story.add("lane:1", "ada", Policy.COALESCE)
    story.add("lane:1", "bert", Policy.REJECT)
    story.add("lane:1", "bert")
    run = story.next("ada")
    service.msg(run.item.id, "noted", sender=OUR_BOT)
    service.msg(run.item.id, "read me", author="sam")
    service.done([Report(run=run.run)])  # unread: a follow-up; bert is promoted
    for _ in range(2):
        story.later(1)
        service.fail([Report(run=lease.run) for lease in service.next("bert") + service.next("ada")])
        story.later(100)
    story.add("lane:2", "cleo", Policy.SUPERSEDE)
    story.add("lane:2", "cleo", Policy.SUPERSEDE)
    story.next("cleo")
    story.add("lane:2", "cleo", Policy.SUPERSEDE)  # asks to stop
    story.later(100)  # revoked
    lost = story.next("cleo")
    story.later(100)  # lost
    service.done([Report(run=lost.run)])  # refused
    service.renew([Report(run=lost.run)])  # refused
    run = story.next("cleo")
    service.release([Report(run=run.run)])
    service.cancel(run.item.id, why="not needed", by="sam")
    service.retry(run.item.id, why="needed", by="sam")
    run = story.next("cleo")
    service.take_back(run.item.id, why="gone", by="sam")
    run = story.next("cleo")
    service.cancel(run.item.id, why="stop", by="sam")
    service.cancel(run.item.id, why="now", force=True, by="sam")
    story.add(None, "dora", timeout_s=5.0)
    story.next("dora")
    story.later(30)  # timed out
    service.next_notice("on_dead_letter")
    story.add(None, "cleo", max_attempts=1)
    service.fail([Report(run=story.next("cleo").run)])
    for _ in range(len(WAITS_S) + 1):
        notice = service.next_notice("on_dead_letter")
        assert notice is not None
        service.end_notice(notice, error="no mail server")
        story.later(300)
    service.set_pool("gpu", max_concurrency=2, by="sam")
    service.set_agent("emil", pool="gpu", max_concurrency=1, types=["task"], labels=["gpu"], by="sam")
    service.set_pool("spare", max_concurrency=1, by="sam")
    service.set_budget("pool", "gpu", usd=1_000, by="sam")
    service.remove_budget("pool", "gpu", by="sam")
    service.set_reserve("task", usd=1, by="sam")
    service.set_time_zone("Europe/Berlin", by="sam")
    service.remove_pool("spare", by="sam")
    service.set_agent("spare", by="sam")
    service.remove_agent("spare", by="sam")
    service.pause_agent("emil", paused=True, why="holiday", by="sam")
    story.add("lane:3", "emil")
    story.add("lane:3", "fred")
    story.next("fred")  # overtakes
    service.pause_agent("emil", paused=False, why="", by="sam")
    service.pause_project("default", paused=True, why="freeze", by="sam")
    service.pause_project("default", paused=False, why="", by="sam")
    service.set_mode(scope="lane", value="lane:4", mode="observe", by="sam")
    story.add("lane:4")
    story.next("fred")
    story.add("lane:4")
    tell_of_questions(story)
    story.add(None, "ivan")
    service.edit(service.items(ItemFilter(agent="ivan"))[0].id, {"priority": 3}, by="sam")
    wall = QuotaLimit(for_s=60.0, why="quota", whole_agent=True)
    service.release([Report(run=story.next("ivan").run, wall=wall)])
    tell_of_a_plan(story)
    story.add("lane:5", "jane")
    lease = story.next("jane")
    assert service.pass_fence(lease.run, fence=lease.fence + 10**9, armed_us=story.now_us)
    story.copy()
    story.add(None)


def tell_of_questions(story: Story) -> None:
    service = story.service

    def ask(seconds: float) -> None:
        (lease,) = service.next("jana", types=["ask"])
        service.ask(lease.run, "Which branch?", timeout_s=seconds)

    story.add("lane:5", "jana", Policy.SUPERSEDE, type="ask")
    ask(10)
    story.later(20)  # timed out
    service.msg(service.items(ItemFilter(asking=True))[0].id, "main")
    ask(1_000)
    story.add("lane:5", "jana", Policy.SUPERSEDE, type="ask")
    story.add(None, "lena")
    waits = story.next("lena")
    service.ask(waits.run, "May I?", keep_lease=True)
    service.close_question(waits.run)
    service.done([Report(run=waits.run)])


def tell_of_work_outside(story: Story) -> None:
    """The ends of external runs are seen."""
    for outcome in ("done", "fail", "release", "cancel", "yield"):
        story.add(f"outside:{outcome}", "copilot")
        (lease,) = story.service.next("copilot", external=True)
        story.service.end_external(lease.item.id, lease.fence, outcome, why="seen", by="github")
        if outcome in ("fail", "release"):
            story.service.cancel(lease.item.id, why="over")


def tell_of_own_messages(story: Story) -> None:
    """Runs end in every way with a message of their own side unread; and a loop is stopped."""
    service = story.service
    for end in ("done", "fail", "cancel", "lose", "take too long"):
        story.add(None, "jana", max_attempts=1, timeout_s=5.0 if end == "take too long" else None)
        run = story.next("jana")
        service.msg(run.item.id, "progress", sender=OUR_BOT)
        if end == "done":
            service.done([Report(run=run.run)])
        elif end == "fail":
            service.fail([Report(run=run.run)])
        elif end == "cancel":
            service.cancel(run.item.id, why="now", force=True)
        else:
            story.later(30 if end == "take too long" else 100)
            service.done([Report(run=run.run)])  # refused
            service.renew([Report(run=run.run)])  # refused
    story.add(None, "jana")
    for _ in range(WAKES_MAX + 1):
        run = story.next("jana")
        service.msg(run.item.id, "CI failed", sender=ANOTHER_SYSTEM)
        service.done([Report(run=run.run)])


def tell_of_a_plan(story: Story) -> None:
    """Edits that are applied and refused, by an operator and by the editor; a task fails and is retried."""
    service = story.service
    for name in ("gina", "hugo"):
        service.set_agent(name)
    tasks = tuple(TaskSpec(key=key, agent="gina", max_attempts=1) for key in ("a", "b", "c"))
    edges = (EdgeSpec(source="a", target="b"),)
    plan = service.create_plan("work", Graph(tasks=tasks, edges=edges), editor="hugo", by="sam").id
    change: list[EditOperation] = [
        AddTask(task=TaskSpec(key="d", agent="gina")),
        RemoveTask(key="c"),
        UpdateTask(key="b", changes={"priority": 2}),
    ]
    service.edit_plan(plan, base=1, operations=change, by="sam", why="better")
    service.pause_plan(plan, why="lunch", by="sam")
    service.resume_plan(plan, why="back", by="sam")
    service.set_edit_deadline(plan, 60.0, by="sam")
    items = {task.key: task.item for task in service.plan(plan).tasks}
    first, second = (service.next("gina", item=items[key])[0] for key in ("a", "d"))
    service.done([Report(run=second.run)])
    edit = service.next("hugo", types=["plan.edit"])[0]
    service.edit_plan(plan, base=2, operations=[UpdateTask(key="b", changes={"priority": 3})], run=edit.run)
    service.fail([Report(run=first.run)])
    edit = service.next("hugo", types=["plan.edit"])[0]
    for operations in ([RemoveTask(key="a")], []):
        with suppress(EditRefused):
            service.edit_plan(plan, base=3, operations=operations, run=edit.run, by="hugo")
    story.later(1)
    service.retry(first.item.id, why="again", by="sam")
    service.cancel_plan(plan, why="enough", by="sam")
    story.later(1)


@pytest.fixture
def story(tmp_path: Path) -> Story:
    made = Story(tmp_path)
    tell(made)
    return made


def test_every_kind_of_event_carries_what_the_reference_says(story: Story):
    told = event_data()
    seen: dict[str, set[str]] = {}
    for event in story.service.events(limit=1_000):
        seen.setdefault(event.kind, set()).update(event.data)
    assert set(seen) == set(EventKind), "the story leaves a kind of event out"
    for kind, keys in seen.items():
        assert keys == set(told[kind]), kind
