"""Budgets: what is spent and reserved keeps claims within them, exactly, until the next day or month."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from interlock.core.errors import InvalidInput, NotFound
from interlock.service.contract import BudgetView, LeaseView, NextWish, Report
from tests.conformance.scene import LANE, Scene

HOUR_S = 3600.0


def budget(scene: Scene, usd: float, whose: str = "agent", name: str = "coder", **more: str) -> None:
    scene.service.set_budget(whose, name, usd=usd, **more)


def state(scene: Scene, n: int = 0) -> BudgetView:
    return scene.service.budgets().budgets[n]


def put_many(scene: Scene, n: int, **fields: Any) -> None:
    for _ in range(n):
        scene.put(**fields)


def claims(scene: Scene, agent: str = "coder", limit: int = 100) -> list[LeaseView]:
    return scene.service.next(agent, limit=limit)


def tomorrow(scene: Scene, zone: str = "UTC") -> datetime:
    now = scene.clock.now.astimezone(ZoneInfo(zone))
    return now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)


def pass_until(scene: Scene, moment: datetime) -> None:
    scene.pass_s((moment - scene.clock.now).total_seconds())


def test_a_spent_budget_stops_claims_until_the_next_day(scene: Scene) -> None:
    put_many(scene, 1, agent="coder")
    waits = scene.put(agent="coder")
    first = scene.claim()
    budget(scene, 0.5)
    scene.service.cost(first.run, usd=0.5)
    scene.done(first)
    assert scene.idle()
    why = scene.service.why(waits)
    assert "the budget of agent coder is used up ($0.50 of $0.50 per day)" in why.why
    assert "the next day begins" in why.next
    (raises,) = [cure for cure in why.cures if cure.operation == "set_budget"]
    assert raises.arguments["name"] == "coder"
    assert raises.arguments["usd"] is None
    assert (state(scene).spent_usd, state(scene).left_usd) == (0.5, 0)
    assert state(scene).until == tomorrow(scene)
    pass_until(scene, tomorrow(scene) - timedelta(seconds=1))
    assert scene.idle()
    scene.pass_s(1)
    assert scene.claim().item.id == waits


def test_a_raised_or_removed_budget_lets_claims_go_on(scene: Scene) -> None:
    put_many(scene, 3)
    budget(scene, 0)
    assert scene.idle()
    budget(scene, 1)
    first = scene.claim()
    scene.service.cost(first.run, usd=1)
    assert scene.idle()
    scene.service.remove_budget("agent", "coder")
    scene.claim()
    assert scene.service.budgets().budgets == ()
    with pytest.raises(NotFound):
        scene.service.remove_budget("agent", "coder")


def test_reserves_are_held_back_exactly(scene: Scene) -> None:
    scene.service.set_reserve("task", usd=0.3)
    budget(scene, 1)
    put_many(scene, 6)
    first, second, third = claims(scene)
    assert scene.idle()
    assert state(scene).reserved_usd == pytest.approx(0.9)
    scene.service.cost(first.run, usd=0.1)  # of its reserve
    assert state(scene).reserved_usd == pytest.approx(0.8)
    assert scene.idle()
    scene.done(first)  # 0.1 is spent, 0.6 reserved
    fourth = scene.claim()
    assert scene.idle()
    scene.service.cost(second.run, usd=0.5)  # more than its reserve: nothing stops it
    scene.done(second)
    assert state(scene).left_usd == 0
    scene.done(third)
    scene.done(fourth)
    assert state(scene).left_usd == pytest.approx(0.4)
    scene.claim()
    assert scene.idle()


def test_a_dear_type_is_passed_over_and_a_cheap_one_starts(scene: Scene) -> None:
    scene.service.set_reserve("big", usd=5)
    scene.service.set_reserve("small", usd=0.25)
    budget(scene, 1)
    big = scene.put(type="big", priority=5)
    put_many(scene, 5, type="small")
    scene.put(type="free")
    found = claims(scene)
    assert [lease.item.type for lease in found] == ["small"] * 4
    assert scene.status(big) == "pending"
    scene.done(found[0])
    assert "small" in [lease.item.type for lease in claims(scene)]


def test_an_item_by_its_number_is_kept_within_a_budget_too(scene: Scene) -> None:
    scene.service.set_reserve("big", usd=5)
    dear, cheap = scene.put(type="big"), scene.put()
    budget(scene, 1)
    assert scene.idle(item=dear)
    assert scene.claim(item=cheap).item.id == cheap


def test_a_spent_project_leaves_the_others_alone(scene: Scene) -> None:
    waits = scene.put(project="site", priority=5)
    scene.put(project="app")
    budget(scene, 0, "project", "site")
    assert scene.claim().item.project == "app"
    assert scene.idle()
    why = scene.service.why(waits)
    assert "the budget of project site is used up" in why.why


def test_agents_of_a_pool_share_its_budget(scene: Scene) -> None:
    scene.service.set_pool("account", max_concurrency=10)
    for agent in ("coder", "tester"):
        scene.service.set_agent(agent, pool="account")
    budget(scene, 1, "pool", "account")
    put_many(scene, 3)
    first = scene.claim("tester")
    scene.service.cost(first.run, usd=1)
    assert scene.idle("coder")
    assert scene.idle("tester")
    scene.claim("other")


def test_a_month_and_a_day_are_kept_together(scene: Scene) -> None:
    put_many(scene, 5)
    budget(scene, 1)
    budget(scene, 1.5, per="month")
    first = scene.claim()
    scene.service.cost(first.run, usd=1)
    assert scene.idle()
    pass_until(scene, tomorrow(scene))
    second = scene.claim()
    scene.service.cost(second.run, usd=0.5)
    assert scene.idle(), "the month is used up"
    until = state(scene, 1).until
    assert (until.day, until.hour) == (1, 0)
    pass_until(scene, until)
    scene.claim()


def test_a_day_begins_in_the_time_zone_of_the_store(scene: Scene) -> None:
    scene.service.set_time_zone("Asia/Kathmandu")
    put_many(scene, 2)
    first = scene.claim()
    scene.service.cost(first.run, usd=1)
    budget(scene, 1)
    begins = tomorrow(scene, "Asia/Kathmandu")
    assert state(scene).until == begins
    pass_until(scene, begins - timedelta(seconds=1))
    assert scene.idle()
    scene.pass_s(1)
    scene.claim()
    with pytest.raises(InvalidInput):
        scene.service.set_time_zone("Mars/Olympus")


def test_a_late_report_counts_and_stops_claims(scene: Scene) -> None:
    budget(scene, 1)
    put_many(scene, 2)
    first = scene.claim()
    scene.done(first)
    scene.service.cost(first.run, usd=2)
    assert scene.idle()
    assert state(scene).spent_usd == 2


def test_running_work_finishes_or_is_cancelled(scene: Scene) -> None:
    put_many(scene, 4)
    first, second = scene.claim(), scene.claim()
    budget(scene, 1)
    scene.service.cost(first.run, usd=1)
    assert not scene.renew(second).cancel_requested
    budget(scene, 1, when_spent="cancel")
    assert not scene.renew(second).cancel_requested
    scene.service.cost(first.run, usd=1.25)
    for lease in (first, second):
        assert scene.renew(lease).cancel_requested
        assert "the budget of agent coder is used up" in (scene.item(lease.item.id).cancel_reason or "")
    scene.service.cost(first.run, usd=1.5)  # once is enough
    other = scene.claim("tester")
    assert not scene.renew(other).cancel_requested


def test_done_and_next_keeps_the_budget(scene: Scene) -> None:
    scene.service.set_reserve("task", usd=1)
    budget(scene, 1)
    put_many(scene, 3)
    first = scene.claim()
    answer = scene.service.done([Report(run=first.run)], next=NextWish())
    (second,) = answer.leases
    scene.service.cost(second.run, usd=1)
    answer = scene.service.done([Report(run=second.run)], next=NextWish())
    assert answer.runs[0].refusal is None
    assert list(answer.leases) == []


def test_an_owner_is_not_overtaken_by_what_no_budget_pays_for(scene: Scene) -> None:
    scene.put(lane=LANE, agent="coder")
    scene.put(lane=LANE, agent="tester")
    scene.service.pause_agent("coder", paused=True, why="rest", create=True)
    budget(scene, 0, name="tester")
    assert scene.idle("tester")
    budget(scene, 1, name="tester")
    scene.claim("tester")


def test_a_budget_is_checked(scene: Scene) -> None:
    for wrong in (
        {"scope": "team", "name": "x", "usd": 1},
        {"scope": "agent", "name": "", "usd": 1},
        {"scope": "agent", "name": "x", "usd": -1},
        {"scope": "agent", "name": "x", "usd": 1, "per": "week"},
        {"scope": "agent", "name": "x", "usd": 1, "when_spent": "panic"},
    ):
        with pytest.raises(InvalidInput):
            scene.service.set_budget(**wrong)  # type: ignore[arg-type]
    budget(scene, 1, name=" Coder ")
    assert state(scene).name == "coder"
    assert scene.last("budget.set").agent == "coder"
