"""`done` with `next`: runs end and their agent claims, in one transaction."""

from __future__ import annotations

import pytest

from interlock.core.errors import InvalidInput
from interlock.core.plans.model import EdgeSpec, Graph, TaskSpec
from interlock.service import claims
from interlock.service.contract import DoneView, LeaseView, NextWish, Report
from tests.conformance.scene import LANE, Scene


def done_and_next(scene: Scene, *leases: LeaseView, **wish: object) -> DoneView:
    reports = [Report(run=lease.run, result='"ok"') for lease in leases]
    return scene.service.done(reports, next=NextWish(**wish))  # type: ignore[arg-type]


def items(done: DoneView) -> list[int]:
    return [lease.item.id for lease in done.leases]


def test_a_run_ends_and_its_agent_has_the_next_item(scene: Scene) -> None:
    first, second = scene.put("first"), scene.put("second", message="Mind the gap.", payload='{"n": 2}')
    lease = scene.claim()
    done = done_and_next(scene, lease, worker="host-1", lease_s=120.0)
    assert [(run.status, run.item and run.item.id) for run in done.runs] == [("succeeded", first)]
    (got,) = done.leases
    assert (got.item.id, got.item.status, got.item.run_agent) == (second, "in_progress", "coder")
    assert (got.lease_s, got.item.payload, [m.text for m in got.messages]) == (
        120.0,
        {"n": 2},
        ["Mind the gap."],
    )
    assert got.fence > lease.fence
    assert scene.service.renew([Report(run=got.run)])[0].refusal is None
    assert scene.service.done([Report(run=got.run)])[0].status == "succeeded"


def test_the_end_stands_if_there_is_no_work(scene: Scene) -> None:
    scene.put()
    done = done_and_next(scene, scene.claim())
    assert [run.status for run in done.runs] == ["succeeded"]
    assert done.leases == []


@pytest.mark.parametrize("known", [True, False], ids=["known before", "changed meanwhile"])
@pytest.mark.parametrize("hindrance", ["paused", "other types", "at its limit"])
def test_the_end_stands_if_the_agent_may_claim_nothing(scene: Scene, hindrance: str, known: bool) -> None:
    leases = [scene.put_running() for _ in range(2)]
    scene.put()
    match hindrance:
        case "paused":
            scene.service.pause_agent("coder", paused=True, why="It is late.")
        case "other types":
            scene.service.set_agent("coder", types=["review"])
        case _:
            scene.service.set_agent("coder", max_concurrency=1)
    if known:
        assert scene.idle()
    done = done_and_next(scene, leases[0])
    assert [run.status for run in done.runs] == ["succeeded"]
    assert done.leases == []


def test_the_successor_on_the_lane_is_claimed_with_a_greater_number(scene: Scene) -> None:
    """It is promoted and claimed in the same transaction; numbers of a lane grow all the same."""
    ids = [scene.put(lane=LANE) for _ in range(4)]
    lease, fences = scene.claim(), []
    for expected in ids[1:]:
        done = done_and_next(scene, lease)
        assert done.runs[0].promoted == (expected,)
        (lease,) = done.leases
        fences.append(lease.fence)
        assert lease.item.id == expected
    assert fences == sorted(set(fences))
    order = scene.kinds(ids[1])
    assert order.index("lane.promoted") < order.index("run.started"), "in the order in which it happened"


def test_the_room_that_the_ended_run_leaves_counts(scene: Scene) -> None:
    scene.service.set_agent("coder", max_concurrency=1)
    first, second, third = (scene.put() for _ in range(3))
    lease = scene.claim()
    assert lease.item.id == first
    done = done_and_next(scene, lease, limit=2)
    assert items(done) == [second], "one run at once, however many are asked for"
    done = done_and_next(scene, *done.leases)
    assert items(done) == [third]
    assert items(done_and_next(scene, *done.leases)) == []


def test_the_limit_of_a_pool_holds(scene: Scene) -> None:
    scene.service.set_pool("gpu", max_concurrency=2)
    for agent in ("coder", "painter"):
        scene.service.set_agent(agent, pool="gpu")
    for _ in range(5):
        scene.put()
    mine, theirs = scene.claim("coder"), scene.claim("painter")
    done = done_and_next(scene, mine, limit=3)
    assert len(done.leases) == 1
    assert scene.idle("painter")
    assert len(done_and_next(scene, theirs, limit=3, agent="painter").leases) == 1


def test_an_agent_that_was_put_into_a_pool_meanwhile_keeps_its_limit(scene: Scene) -> None:
    for _ in range(3):
        scene.put()
    mine, theirs = scene.claim("coder"), scene.claim("painter")
    scene.service.set_pool("gpu", max_concurrency=1)
    for agent in ("coder", "painter"):
        scene.service.set_agent(agent, pool="gpu")
    assert items(done_and_next(scene, mine)) == []
    assert scene.idle("coder")
    done = done_and_next(scene, theirs)
    assert len([*done.leases, *scene.service.next("painter")]) == 1
    assert scene.idle("coder")


def test_several_runs_end_and_several_items_start(scene: Scene) -> None:
    for n in range(7):
        scene.put(priority=n)
    leases = scene.service.next("coder", limit=3)
    done = done_and_next(scene, *leases, limit=3)
    assert [run.status for run in done.runs] == ["succeeded"] * 3
    assert [lease.item.priority for lease in done.leases] == [3, 2, 1]


def test_a_wish_may_name_another_agent_types_and_labels(scene: Scene) -> None:
    scene.put()
    lease = scene.claim("coder")
    review = scene.put(type="review", labels=("gpu",))
    assert items(done_and_next(scene, lease, agent="Painter", types=["review"])) == []
    lease = scene.put_running(by="coder", agent="coder")
    done = done_and_next(scene, lease, agent="Painter", types=["review"], labels=["gpu"])
    assert items(done) == [review]
    assert done.leases[0].item.run_agent == "painter"


def test_nothing_is_claimed_by_a_report_that_is_refused(scene: Scene) -> None:
    """Not even when it is sent again: its first answer may have been lost."""
    for _ in range(3):
        scene.put()
    lease = scene.claim()
    assert len(done_and_next(scene, lease).leases) == 1
    again = done_and_next(scene, lease)
    assert again.runs[0].refusal is not None
    assert again.leases == []
    unknown = done_and_next(scene, lease._replace(run="99.99.0123456789abcdef"))
    assert unknown.runs[0].refusal is not None
    assert unknown.leases == []
    assert len(scene.service.next("coder", limit=5)) == 1


def test_the_agent_is_that_of_the_first_run_there_is(scene: Scene) -> None:
    lease = scene.put_running(by="Painter")
    scene.put()
    done = done_and_next(scene, lease._replace(run="99.99.0123456789abcdef"), lease)
    assert [run.refusal is None for run in done.runs] == [False, True]
    assert [got.item.run_agent for got in done.leases] == ["painter"]


def test_one_accepted_report_of_several_is_enough(scene: Scene) -> None:
    for _ in range(4):
        scene.put()
    one, other = scene.service.next("coder", limit=2)
    scene.done(one)
    done = done_and_next(scene, one, other)
    assert [run.refusal is None for run in done.runs] == [False, True]
    assert len(done.leases) == 1


@pytest.mark.parametrize(
    "wish",
    [{"limit": 0}, {"limit": 1001}, {"lease_s": 0.001}, {"types": "task"}, {"labels": [7]}, {"agent": ""}],
)
def test_a_wish_that_is_wrong_changes_nothing(scene: Scene, wish: dict[str, object]) -> None:
    lease = scene.put_running()
    with pytest.raises(InvalidInput):
        done_and_next(scene, lease, **wish)
    assert scene.service.done([Report(run=lease.run)])[0].status == "succeeded"


def test_no_task_starts_once_the_end_has_opened_an_edit_cycle(scene: Scene) -> None:
    scene.service.set_agent("editor", types=["plan.edit"])
    graph = Graph(tasks=(TaskSpec(key="a", title="a"), TaskSpec(key="b", title="b")))
    scene.service.create_plan("plan", graph, editor="editor")
    lease = scene.claim("coder")
    done = done_and_next(scene, lease)
    assert done.runs[0].status == "succeeded"
    assert done.leases == [], "the plan's editor has to answer first"


def test_a_task_behind_the_one_that_ended_starts_with_the_next_claim(scene: Scene) -> None:
    """It enters the queue in a transaction of its own, after the end."""
    graph = Graph(
        tasks=(TaskSpec(key="a", title="a"), TaskSpec(key="b", title="b")),
        edges=(EdgeSpec(source="a", target="b"),),
    )
    scene.service.create_plan("plan", graph)
    done = done_and_next(scene, scene.claim("coder"))
    found = [*done.leases, *scene.service.next("coder")]
    assert [lease.item.title for lease in found] == ["b"]


def test_what_is_due_is_moved_now_and_then(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that claims in this way alone still brings back what others have lost."""
    monkeypatch.setattr(claims, "SEEN_EVERY_S", 0.0)
    lost = scene.put_running("lost", by="painter")
    lease = scene.put_running(lease_s=600)
    scene.clock.advance(61)
    assert items(done_and_next(scene, lease)) == [lost.item.id]
