"""Gates of lanes: work on an issue of a series starts only while the series allows it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import apsw
import psycopg
import pytest

from interlock.core.commands import QuotaLimit
from interlock.core.errors import InvalidInput
from interlock.service.contract import GateView, ItemFilter, LeaseView
from interlock.service.local import LocalService
from tests.conformance.planner import graph
from tests.conformance.scene import FIRST_BACK_OFF_S, GRACE_S, LANE, Scene

SERIES = "series:acme/app/RFC-093"
TRIAGE = "issue_triage"
OTHER = "issue:acme/app#43"
DAY_S = 24 * 3600.0


def shut(scene: Scene, lane: str = LANE, **fields: Any) -> GateView:
    usual = {"series": SERIES, "open": False, "exempt": [TRIAGE], "why": "#41 is active", "by": "ann"}
    return scene.service.set_gate(lane, **{**usual, **fields})


def reopen(scene: Scene, lane: str = LANE) -> GateView:
    return shut(scene, lane, open=True, why="#42 is active")


def healthy(scene: Scene) -> bool:
    return all(check.ok for check in scene.service.doctor() if check.name == "gates_are_obeyed")


def test_nothing_on_a_shut_lane_is_started_until_it_opens(scene: Scene) -> None:
    """Taken out: the flag in the views `offered` and `ungated`."""
    first = scene.put(lane=LANE)
    elsewhere = scene.put(lane=OTHER)
    shut(scene)
    second = scene.put(lane=LANE, agent="coder", priority=9)
    running = scene.claim()
    assert running.item.id == elsewhere
    assert scene.idle()
    assert scene.idle("other")
    assert scene.idle(item=first)
    scene.done(running)
    scene.pass_s(DAY_S)
    assert scene.idle()
    assert scene.statuses(first, second) == ["pending", "deferred"]
    reopen(scene)
    lease = scene.claim("other")
    assert lease.item.id == first
    assert scene.idle()
    scene.done(lease)
    assert scene.claim().item.id == second


def test_the_history_tells_who_shut_a_lane_and_why(scene: Scene) -> None:
    shut(scene)
    reopen(scene)
    assert scene.service.remove_gate(LANE, why="closed", by="bob")
    closed, opened, removed = (scene.last(f"gate.{how}") for how in ("closed", "opened", "removed"))
    assert (closed.lane, closed.reason) == (LANE, "#41 is active")
    assert closed.data == {"series": SERIES, "exempt": [TRIAGE], "by": "ann"}
    assert (opened.reason, removed.reason, removed.data["by"]) == ("#42 is active", "closed", "bob")


def test_the_same_gate_again_writes_nothing(scene: Scene) -> None:
    made = shut(scene)
    scene.clock.advance(5)
    assert shut(scene) == made
    assert len(scene.events("gate.closed")) == 1
    assert not scene.service.remove_gate(OTHER, why="none is there")
    assert not scene.events("gate.removed")


def test_a_gate_tells_what_it_is(scene: Scene) -> None:
    since = scene.clock.now
    made = shut(scene, exempt=[TRIAGE, "chore", TRIAGE])
    assert made == GateView(lane=LANE, series=SERIES, open=False, exempt=("chore", TRIAGE), since=since)
    scene.clock.advance(5)
    assert shut(scene, exempt=["chore"]).since == since, "it is shut as before"
    other = shut(scene, OTHER, series="series:acme/app/RFC-094")
    assert [g.lane for g in scene.service.gates()] == [LANE, OTHER]
    assert scene.service.gates(series="series:acme/app/RFC-094") == [other]
    assert [g.lane for g in scene.service.gates(limit=1)] == [LANE]
    assert scene.service.gates(series="series:none") == []
    scene.service.remove_gate(LANE, why="left the series")
    assert scene.service.gates() == [other]


def test_a_gate_moves_to_another_series(scene: Scene) -> None:
    shut(scene)
    scene.clock.advance(5)
    moved = shut(scene, series="series:acme/app/RFC-094")
    assert (moved.series, moved.since) == ("series:acme/app/RFC-094", scene.clock.now)
    assert scene.service.gates(series=SERIES) == []
    assert scene.last("gate.closed").data["series"] == "series:acme/app/RFC-094"


def test_an_arrival_on_a_shut_lane_says_what_it_waits_for(scene: Scene) -> None:
    shut(scene)
    first = scene.add(lane=LANE)
    assert (first.decision, first.reason, first.holder) == ("queued", "series_queued", None)
    assert first.item is not None
    assert first.item.status == "pending"
    second = scene.add(lane=LANE)
    assert (second.decision, second.reason, second.position) == ("queued", "series_queued", 1)
    newer = scene.add(lane=OTHER, policy="supersede")
    assert newer.decision == "admitted", "no gate is on that lane"
    shut(scene, OTHER)
    newest = scene.add(lane=OTHER, policy="supersede")
    assert (newest.decision, newest.reason) == ("superseding", "series_queued")
    alone = scene.add(lane="issue:acme/app#44", type=TRIAGE)
    assert (alone.decision, alone.reason) == ("admitted", "lane_free")


def test_a_policy_does_on_a_shut_lane_what_it_always_does(scene: Scene) -> None:
    shut(scene)
    item = scene.put(lane=LANE, policy="coalesce", agent="coder", message="one")
    assert scene.add(lane=LANE, policy="coalesce", agent="coder", message="two").decision == "coalesced"
    assert scene.add(lane=LANE, policy="reject").decision == "rejected", "the lane has an owner"
    reopen(scene)
    lease = scene.claim()
    assert lease.item.id == item
    assert [m.text for m in lease.messages] == ["one", "two"]


# -- every way in which an item becomes pending ----------------------------------------------------


def _release(scene: Scene, lease: LeaseView) -> None:
    scene.release(lease)


def _lose(scene: Scene, lease: LeaseView) -> None:
    scene.lose(lease)


def _keep_back_off(scene: Scene, lease: LeaseView) -> None:
    scene.fail(lease)
    scene.pass_s(FIRST_BACK_OFF_S)


def _wall(scene: Scene, lease: LeaseView) -> None:
    scene.release(lease, wall=QuotaLimit(for_s=60.0))
    scene.pass_s(61.0)


def _fault(scene: Scene, lease: LeaseView) -> None:
    scene.release(lease, fault_s=30.0, error="no disk")
    scene.pass_s(31.0)


def _question(scene: Scene, lease: LeaseView) -> None:
    scene.service.ask(lease.run, "Which one?")
    scene.service.msg(lease.item.id, "That one.")


def _take_back(scene: Scene, lease: LeaseView) -> None:
    scene.service.take_back(lease.item.id, why="it hangs")


def _grace(scene: Scene, lease: LeaseView) -> None:
    scene.pass_s(GRACE_S)


WAYS = {
    "release": _release,
    "loss": _lose,
    "back-off": _keep_back_off,
    "wall": _wall,
    "fault": _fault,
    "question": _question,
    "take back": _take_back,
    "grace": _grace,
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_run_that_a_shut_gate_stops_gives_its_item_back(
    scene: Scene, way: Callable[[Scene, LeaseView], None]
) -> None:
    """Taken out: `Ledger.gated` where an item is put."""
    lease = scene.put_running(lane=LANE, retry_lane="keep", max_attempts=2)
    made = shut(scene)
    assert made.run == lease.fence
    kept = scene.renew(lease)
    assert kept.cancel_requested
    assert scene.last("cancel.requested").reason == "series_queued"
    way(scene, lease)
    item = scene.item(lease.item.id)
    assert (item.status, item.attempt) == ("pending", 0), "no attempt is lost"
    assert scene.idle()
    assert healthy(scene)
    assert scene.service.gates()[0].run is None
    reopen(scene)
    again = scene.claim()
    assert (again.item.id, again.item.attempt) == (lease.item.id, 1)
    assert not scene.renew(again).cancel_requested
    assert healthy(scene)


@pytest.mark.parametrize("way", ["done", "fail for good", "cancel", "force", "newer", "outside"])
def test_a_run_that_a_shut_gate_stops_may_end_otherwise(scene: Scene, way: str) -> None:
    external = way == "outside"
    item = scene.put(lane=LANE, policy="supersede", agent="coder")
    lease = scene.claim(external=external)
    shut(scene)
    match way:
        case "done":
            scene.done(lease)
        case "fail for good":
            scene.fail(lease, retry=False)
        case "cancel":
            scene.service.cancel(item, why="no longer wanted")
            scene.release(lease)
        case "force":
            scene.service.cancel(item, why="no longer wanted", force=True)
        case "newer":
            scene.put(lane=LANE, policy="supersede", agent="coder")
            scene.release(lease)
        case _:
            scene.service.end_external(item, lease.fence, "cancel", why="closed")
    ends = {"done": "completed", "fail for good": "failed", "newer": "superseded"}
    assert scene.status(item) == ends.get(way, "cancelled")
    assert scene.idle()
    assert healthy(scene)


def test_a_second_shutting_asks_no_second_time_and_a_cancelled_run_stays_cancelled(scene: Scene) -> None:
    lease = scene.put_running(lane=LANE)
    scene.service.cancel(lease.item.id, why="no longer wanted")
    shut(scene)
    shut(scene, exempt=[])
    assert len(scene.events("cancel.requested")) == 1
    scene.release(lease)
    assert scene.status(lease.item.id) == "cancelled"


def test_what_a_hold_left_is_not_offered_again(scene: Scene) -> None:
    item = scene.put("hold: make", type="hold", labels=("hold",), lane=LANE)
    lease = scene.claim(types=["hold"], labels=["hold"])
    shut(scene)
    scene.release(lease)
    assert scene.status(item) == "cancelled"


def test_a_promoted_item_is_gated_like_the_first(scene: Scene) -> None:
    lease = scene.put_running(lane=LANE)
    second, third = scene.put(lane=LANE), scene.put(lane=LANE)
    shut(scene)
    assert scene.done(lease).promoted == (second,)
    assert scene.idle()
    scene.service.cancel(second, why="not wanted")
    assert scene.status(third) == "pending"
    assert scene.idle()
    reopen(scene)
    assert scene.claim().item.id == third


def test_an_item_that_comes_back_finds_the_lane_shut(scene: Scene) -> None:
    failed = scene.put_running(lane=LANE, max_attempts=1)
    scene.fail(failed)
    later = scene.put("later", lane=OTHER, in_s=60)
    shut(scene)
    shut(scene, OTHER)
    scene.service.retry(failed.item.id)
    assert scene.statuses(failed.item.id, later) == ["pending", "waiting"]
    scene.pass_s(60)
    assert scene.status(later) == "pending"
    assert scene.idle()
    assert healthy(scene)
    reopen(scene)
    assert scene.claim().item.id == failed.item.id
    assert scene.idle()
    assert scene.service.remove_gate(OTHER, why="left")
    assert scene.claim().item.id == later


def test_a_follow_up_of_unread_messages_waits_for_the_gate(scene: Scene) -> None:
    lease = scene.put_running(lane=LANE)
    scene.service.msg(lease.item.id, "Also this.")
    shut(scene)
    follow_up = scene.done(lease).follow_up
    assert follow_up is not None
    assert scene.status(follow_up) == "pending"
    assert scene.idle()
    reopen(scene)
    assert scene.claim().item.id == follow_up


def test_an_edit_of_its_type_takes_an_item_through_the_gate_and_back(scene: Scene) -> None:
    item = scene.put(lane=LANE)
    shut(scene)
    assert scene.idle()
    scene.service.edit(item, {"type": TRIAGE})
    assert healthy(scene)
    scene.service.edit(item, {"type": "fix"})
    assert scene.idle()
    assert healthy(scene)
    scene.service.edit(item, {"type": TRIAGE})
    assert scene.claim().item.id == item


def test_a_task_of_a_plan_waits_for_the_gate_of_its_lane(scene: Scene) -> None:
    shut(scene)
    scene.service.create_plan("work", graph("A>B", B={"lane": LANE}))
    scene.done(scene.claim())
    assert scene.idle()
    assert healthy(scene)
    reopen(scene)
    assert scene.claim().item.lane == LANE


# -- one lane of a series at a time ----------------------------------------------------------------


def test_a_gate_opens_only_while_every_other_lane_of_its_series_is_shut(scene: Scene) -> None:
    """Taken out: `busy_gate` in `_obstacle`."""
    reopen(scene)
    refused = reopen(scene, OTHER)
    assert (refused.open, refused.waits_for) == (False, LANE)
    item = scene.put(lane=OTHER)
    assert scene.idle()
    assert reopen(scene).open, "one that is open stays so"
    shut(scene)
    made = reopen(scene, OTHER)
    assert (made.open, made.waits_for) == (True, None)
    assert scene.claim().item.id == item
    another = shut(scene, "issue:acme/app#9", series="series:acme/app/RFC-094", open=True)
    assert another.open, "another series goes its own way"


def test_a_gate_opens_only_when_the_runs_of_the_other_lanes_have_ended(scene: Scene) -> None:
    reopen(scene)
    lease = scene.put_running(lane=LANE)
    look = "look"
    shut(scene, exempt=[look])
    assert reopen(scene, OTHER).waits_for == LANE
    scene.release(lease)
    scene.put(lane=LANE, type=look)
    exempt = scene.claim()
    assert exempt.item.type == look
    assert reopen(scene, OTHER).open, "an exempt run does not count"
    assert reopen(scene).waits_for == OTHER


def test_a_lane_that_left_its_series_keeps_no_other_shut(scene: Scene) -> None:
    reopen(scene)
    scene.put_running(lane=LANE)
    assert not reopen(scene, OTHER).open
    scene.service.remove_gate(LANE, why="retitled")
    assert reopen(scene, OTHER).open


def test_a_gate_opens_only_for_the_run_that_the_series_has(scene: Scene) -> None:
    """Whoever is late and wants the last lane opens nothing. Taken out: `run` in `_obstacle`."""
    shut(scene)
    shut(scene, OTHER)
    first, second = assign(scene, 42, micro=1), assign(scene, 43, micro=2)
    late = shut(scene, open=True, run=7)
    assert (late.open, late.waits_for) == (False, SERIES), "nothing is active yet"
    run = scene.claim(item=first, external=True).fence
    assert shut(scene, open=True, run=run).open
    shut(scene)
    assert scene.service.end_external(first, run, "done", why="merged").promoted
    late = shut(scene, open=True, run=run)
    assert (late.open, late.waits_for) == (False, SERIES)
    next_run = scene.claim(item=second, external=True).fence
    assert not shut(scene, open=True, run=run).open
    assert shut(scene, OTHER, open=True, run=next_run).open


# -- exempt types ----------------------------------------------------------------------------------


def test_an_exempt_item_starts_on_a_shut_lane(scene: Scene) -> None:
    shut(scene)
    look = scene.put(lane=LANE, type=TRIAGE)
    lease = scene.claim()
    assert lease.item.id == look
    made = shut(scene, why="again")
    assert made.run is None, "an exempt run is not counted"
    assert scene.service.gates()[0].run is None
    assert not scene.renew(lease).cancel_requested
    shut(scene, exempt=[])
    assert scene.renew(lease).cancel_requested, "it is exempt no more"


def test_an_exempt_item_overtakes_an_owner_that_the_gate_keeps_waiting(scene: Scene) -> None:
    """Taken out: the exempt types in `overtakable` and `candidates`, and `Ledger.is_shut` in `overtake`."""
    owner = scene.put(lane=LANE)
    between = scene.put(lane=LANE)
    look = scene.put(lane=LANE, type=TRIAGE)
    shut(scene)
    lease = scene.claim()
    assert lease.item.id == look
    assert scene.last("lane.overtaken").item == owner
    assert scene.idle()
    assert scene.statuses(owner, between) == ["deferred", "deferred"]
    scene.done(lease)
    assert scene.statuses(owner, between) == ["pending", "deferred"], "it kept its place"
    assert scene.idle()
    reopen(scene)
    assert scene.claim().item.id == owner


def test_an_item_of_another_agent_does_not_overtake_on_a_shut_lane(scene: Scene) -> None:
    owner = scene.put(lane=LANE, agent="coder")
    scene.put(lane=LANE, agent="other")
    shut(scene)
    assert scene.idle("other")
    assert scene.idle("coder")
    assert scene.status(owner) == "pending"
    assert not scene.events("lane.overtaken")


# -- what keeps gates right ------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["a gated item on an open lane", "an ungated one on a shut lane", "a run"])
def test_a_sweep_puts_right_what_contradicts_its_gate(
    scene: Scene, query: Callable[[str], list[tuple[Any, ...]]], wrong: str
) -> None:
    """Nothing makes such a row but a hand in the database. Taken out: `obey_gate` in `repair`."""
    item = scene.put(lane=LANE)
    if wrong == "a run":
        scene.claim()
    if wrong != "a gated item on an open lane":
        shut(scene)
    values = {
        "a gated item on an open lane": "gated = (1 = 1)",
        "an ungated one on a shut lane": "gated = (1 = 0)",
        "a run": "cancel_into = NULL, cancel_why = NULL, revoke_us = NULL",
    }
    query(f"UPDATE items SET {values[wrong]} WHERE id = {item}")
    assert not healthy(scene)
    scene.service.sweep()
    assert healthy(scene)
    if wrong == "a run":
        assert scene.item(item).cancel_requested
    else:
        assert scene.idle() is (wrong == "an ungated one on a shut lane")


def test_the_schema_lets_no_gated_item_start(
    scene: Scene, query: Callable[[str], list[tuple[Any, ...]]]
) -> None:
    item = scene.put(lane=LANE)
    shut(scene)
    started = "status = 'in_progress', run = 1, run_bits = 1, run_agent = 'a', due_us = 1, lease_until_us = 1"
    with pytest.raises((apsw.ConstraintError, psycopg.errors.CheckViolation)):
        query(f"UPDATE items SET {started} WHERE id = {item}")
    assert scene.status(item) == "pending"


def test_a_gate_outlives_what_was_on_its_lane(scene: Scene) -> None:
    reopen(scene)
    scene.done(scene.put_running(lane=LANE))
    shut(scene)
    scene.clock.advance(DAY_S)
    assert isinstance(scene.service, LocalService)
    assert scene.service.store.prune_items(scene.clock.now_us, 0, 100, really=True).items == 1
    assert [gate.lane for gate in scene.service.gates()] == [LANE]
    scene.put(lane=LANE)
    assert scene.idle()


# -- what people see -------------------------------------------------------------------------------


def test_lanes_and_items_show_the_gate(scene: Scene) -> None:
    item, behind = scene.put(lane=LANE), scene.put(lane=LANE)
    look = scene.put(lane=LANE, type=TRIAGE)
    free = scene.put(lane=OTHER)
    made = shut(scene)
    (lane,) = scene.service.lanes(prefix=LANE)
    assert lane.gate == made
    assert scene.service.lanes(prefix=OTHER)[0].gate is None
    listed = {i.id: i.gated_by for i in scene.service.items(ItemFilter())}
    assert listed == {item: SERIES, behind: SERIES, look: None, free: None}
    assert scene.item(item).gated_by == SERIES
    reopen(scene)
    assert scene.item(item).gated_by is None


def assign(scene: Scene, number: int | None, micro: int) -> int:
    payload = None if number is None else json.dumps({"issue_number": number, "series": "RFC-093"})
    fields = {"type": "series.assignment", "lane": SERIES, "position": micro, "payload": payload}
    return scene.put(f"#{number}", retry_lane="keep", **fields)


def test_why_names_the_active_issue_and_the_place_in_line(scene: Scene) -> None:
    item, behind = scene.put(lane=LANE), scene.put(lane=LANE)
    shut(scene)

    def told() -> tuple[str, str]:
        made = scene.service.why(item)
        assert made.hindered
        assert scene.service.show(item).why == made.why
        return made.state, made.next

    none = "waits: issue #42 is not the active one of series RFC-093 (none is; #42 is not in its line)"
    assert told() == (none, "the next reconcile chooses one")
    active = assign(scene, 41, micro=1)
    assert told() == (
        "waits: issue #42 is not the active one of series RFC-093 (#41 is; #42 is not in its line)",
        "it can start when #42 has joined the line and is next",
    )
    mine = assign(scene, 42, micro=3)
    waits = "issue #42 is not the active one of series RFC-093 (#41 is; #42 has place 1 in its line)"
    assert told() == (f"waits: {waits}", "it can start when #41 has left the series")
    nameless = assign(scene, None, micro=2)
    lease = scene.claim(types=["series.assignment"], item=active, external=True)
    assert told() == (
        "waits: issue #42 is not the active one of series RFC-093 (#41 is; #42 has place 2 in its line)",
        "it can start when #41 and the one between them have left the series",
    )
    assert f"behind item {item}, which cannot start, as issue #42" in scene.service.why(behind).state
    assert scene.service.end_external(active, lease.fence, "done", why="merged").promoted == (nameless,)
    assert told()[0].endswith(f"(item {nameless} is; #42 has place 1 in its line)")
    scene.service.cancel(nameless, why="left")
    assert scene.status(mine) == "pending"
    come = "waits: issue #42 is the active issue of series RFC-093, but its lane is not open yet"
    assert told() == (come, "the next reconcile opens it")
    reopen(scene)
    assert not scene.service.why(item).hindered


def test_why_of_a_run_that_a_shut_gate_stops(scene: Scene) -> None:
    lease = scene.put_running(lane=LANE)
    shut(scene)
    made = scene.service.why(lease.item.id)
    assert "was asked to stop (series_queued)" in made.state
    assert "it is retried (attempt 1 of 3) and keeps its lane" in made.next


@pytest.mark.parametrize(
    "wrong",
    [
        {"series": ""},
        {"series": "a\nb"},
        {"open": "no"},
        {"exempt": "issue_triage"},
        {"exempt": ["a b"]},
        {"exempt": [f"t{n}" for n in range(101)]},
        {"why": " "},
        {"series": LANE},
        {"run": 0},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_wrong_gate_is_refused_and_changes_nothing(scene: Scene, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        shut(scene, **wrong)
    assert scene.service.gates() == []


def test_the_lanes_of_plans_have_no_gates(scene: Scene) -> None:
    with pytest.raises(InvalidInput, match="reserved"):
        shut(scene, "plan:1")
    with pytest.raises(InvalidInput):
        scene.service.remove_gate("plan:1", why="none")
    with pytest.raises(InvalidInput):
        scene.service.gates(limit=0)
