"""When the agent of an owner counts as gone, and that this is judged again under the lock."""

from __future__ import annotations

import pytest

from interlock.core.commands import Overtake
from interlock.core.model import US_PER_S
from interlock.core.overtaking import AgentPresence, gone_us
from tests.unit.world import START_US, World


def at(seconds: float) -> int:
    return START_US + round(seconds * US_PER_S)


@pytest.mark.parametrize(
    ("agent", "gone_s"),
    [
        (AgentPresence(), 60),
        (AgentPresence(seen_us=at(-30)), 30),
        (AgentPresence(seen_us=at(-1_000)), -940),
        (AgentPresence(seen_us=at(-1_000), worker_us=at(-20)), 10),
        (AgentPresence(seen_us=at(0), worker_us=at(-20)), 60),
        (AgentPresence(seen_us=at(0), overtake_after_s=5.0), 5),
        (AgentPresence(seen_us=at(-1_000), overtake_after_s=0.0), None),
        (AgentPresence(seen_us=at(-1_000), running=True), None),
    ],
)
def test_the_signs_of_life_of_an_agent(agent: AgentPresence, gone_s: float | None) -> None:
    world = World()
    owner = world.items[world.put("owner", agent="coder")]
    assert gone_us(owner, agent) == (None if gone_s is None else at(gone_s))


@pytest.mark.parametrize(
    ("agent", "changed"),
    [(AgentPresence(seen_us=at(-60)), True), (AgentPresence(seen_us=at(-59)), False), (None, False)],
    ids=["gone", "back in time", "removed"],
)
def test_an_agent_that_is_back_keeps_its_lane(agent: AgentPresence | None, changed: bool) -> None:
    world = World()
    owner, item = world.put("owner", agent="coder"), world.put("behind", agent="cto")
    if agent is not None:
        world.presence["coder"] = agent
    (moved,) = world.decide(Overtake(item=item, owner=owner, gone=True))
    assert moved.changed is changed
    assert [world.status(i) for i in (owner, item)] == (
        ["deferred", "pending"] if changed else ["pending", "deferred"]
    )


def test_an_owner_that_has_started_meanwhile_keeps_its_lane() -> None:
    world = World()
    owner, item = world.put("owner", agent="coder"), world.put("behind", agent="cto")
    world.presence["coder"] = AgentPresence(seen_us=at(-60))
    world.start(owner)
    (moved,) = world.decide(Overtake(item=item, owner=owner, gone=True))
    assert not moved.changed
    assert world.status(owner) == "in_progress"
