"""Pools: a capacity that several agents share holds as an agent's own does."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.core.claims import Agent
from interlock.core.cures import cure
from interlock.core.errors import InvalidInput, NotFound
from interlock.core.model import Event, EventKind
from interlock.core.plans.model import Graph, TaskSpec
from interlock.service.contract import LeaseView
from interlock.service.local import LocalService
from tests.conformance.scene import LANE, Scene


@pytest.fixture
def scene(scene: Scene) -> Scene:
    """A pool for two runs, which the agents ann and ben share."""
    scene.service.set_pool("GPU", max_concurrency=2)
    for agent in ("ann", "ben"):
        scene.service.set_agent(agent, pool="gpu ")
    return scene


def take(scene: Scene, agent: str, limit: int = 10) -> list[LeaseView]:
    return scene.service.next(agent, limit=limit)


def test_agents_of_a_pool_have_no_more_runs_together_than_it_allows(scene: Scene) -> None:
    for _ in range(5):
        scene.put()
    (first,) = take(scene, "ann", limit=1)
    (second,) = take(scene, "ben")
    assert scene.idle("ann")
    assert scene.idle("ben")
    assert len(take(scene, "cleo", limit=1)) == 1, "an agent outside the pool is not held back"
    scene.done(first)
    (third,) = take(scene, "ben")
    scene.done(second)
    scene.done(third)
    assert len(take(scene, "ann")) == 1, "that was the last item"


def test_the_lesser_of_an_agents_limit_and_its_pools_counts(scene: Scene) -> None:
    scene.service.set_agent("ann", max_concurrency=1)
    for _ in range(5):
        scene.put()
    assert len(take(scene, "ann")) == 1
    assert len(take(scene, "ben")) == 1
    assert scene.idle("ben")


def test_an_agent_leaves_its_pool_and_joins_another(scene: Scene) -> None:
    for _ in range(6):
        scene.put()
    assert len(take(scene, "ann")) == 2
    scene.service.set_agent("ben", pool="")
    assert len(take(scene, "ben", limit=1)) == 1
    scene.service.set_pool("cpu", max_concurrency=2)
    scene.service.set_agent("ben", pool="cpu")
    assert len(take(scene, "ben")) == 1
    scene.service.set_pool("cpu", max_concurrency=3)
    assert len(take(scene, "ben")) == 1


def test_an_owner_whose_pool_is_full_is_overtaken(scene: Scene) -> None:
    for _ in range(2):
        scene.put(agent="ann")
    running = take(scene, "ann")
    owner, rival = scene.put(agent="ben", lane=LANE), scene.put(agent="cleo", lane=LANE)
    assert "has 2 of 2 runs" in scene.service.why(owner).why
    assert scene.claim("cleo").item.id == rival
    assert scene.status(owner) == "deferred"
    scene.done(running[0])
    assert scene.last("lane.overtaken").item == owner


def test_a_full_pool_overtakes_nobody(scene: Scene) -> None:
    for _ in range(2):
        scene.put(agent="ann")
    take(scene, "ann")
    owner = scene.put(agent="nobody", lane=LANE)
    scene.put(agent="ben", lane=LANE)
    assert scene.idle("ben")
    assert scene.status(owner) == "pending"


def test_one_edit_of_a_plan_stays_outside_the_pool(scene: Scene) -> None:
    graph = Graph(tasks=(TaskSpec(key="A", agent="cleo"), TaskSpec(key="B", agent="cleo")))
    scene.service.set_agent("cleo")
    scene.service.create_plan("work", graph, editor="ben")
    for _ in range(2):
        scene.put(agent="ann")
    assert len(take(scene, "ann")) == 2
    scene.done(scene.claim("cleo"))
    assert scene.claim("ben").item.type == "plan.edit"
    assert scene.service.pools()[0].running == 2


def test_pools_and_agents_show_each_other(scene: Scene) -> None:
    scene.put()
    take(scene, "ben")
    (pool,) = scene.service.pools()
    assert (pool.name, pool.max, pool.running, pool.agents) == ("gpu", 2, 1, ("ann", "ben"))
    assert {a.key: a.pool for a in scene.service.agents()} == {"ann": "gpu", "ben": "gpu"}
    event = scene.last("pool.set")
    assert event.data == {"pool": "gpu", "max": 2}
    assert scene.last("agent.set").data["pool"] == "gpu"
    scene.service.pause_agent("ann", paused=True, why="holiday")
    scene.service.set_agent("ann", labels=["x"])
    assert scene.service.agents()[0].pool == "gpu", "other changes leave an agent in its pool"


def test_a_pool_whose_limit_was_lowered_is_named_by_the_doctor(scene: Scene) -> None:
    for _ in range(2):
        scene.put()
    leases = take(scene, "ann")
    scene.service.set_pool("gpu", max_concurrency=1)
    check = next(c for c in scene.service.doctor() if c.name == "pools_within_limit")
    assert (check.ok, check.detail) == (False, "pool gpu has 2 runs of 1")
    scene.done(leases[0])


@pytest.mark.parametrize("most", [0, 10_001, 1.5, True])
def test_a_bad_limit_is_refused(scene: Scene, most: Any) -> None:
    with pytest.raises(InvalidInput):
        scene.service.set_pool("gpu", max_concurrency=most)
    assert scene.service.pools()[0].max == 2


def test_a_pool_that_nobody_made_is_refused(scene: Scene) -> None:
    with pytest.raises(NotFound, match="no pool tpu") as refused:
        scene.service.set_agent("ann", pool="tpu")
    assert refused.value.cures == (cure("set_pool", "creates it", name="tpu", max_concurrency=None),)
    assert scene.service.agents()[0].pool == "gpu"


def test_an_agent_cannot_join_a_pool_that_was_removed_meanwhile(scene: Scene) -> None:
    """The service has looked before; the pool may go until the store writes."""
    assert isinstance(scene.service, LocalService)
    store = scene.service.store
    agent = Agent(key="ann", name="ann", pool="gone")
    event = Event(store.now_us(), EventKind.AGENT_SET, "")
    with pytest.raises(NotFound, match="There is no pool gone"):
        store.set_agent(agent, ("pool",), lambda _: event)
    assert scene.service.agents()[0].pool == "gpu"
