"""What an agent tells its own lane starts nothing: who is asked for x who runs the lane, or ran it last.

The agent bob writes an arrival. `message` means that the owner of the lane gets it as a message, `kept` that
it ends as it is, cancelled, and `work` that it is treated as anybody else's. Each row is tried with every
policy under which an arrival is an event, on lanes whose items name their agent and on lanes whose items do
not; under `queue` and `reject` every row is work. Under `coalesce` an unfinished item of the name that is
asked for gets the message in any case.
"""

from __future__ import annotations

import pytest

from interlock.core.commands import Arrival
from interlock.core.model import ABSORBING, ArrivalDecision, ItemId, Policy, RunId, Sender, SenderKind
from tests.unit.world import LANE, World

TABLE = """
the lane is         for nobody  for bob  for carol
run by bob          message     message  work
run by carol        work        kept     work
last run by bob     kept        kept     work
last run by carol   work        kept     work
in bob's back-off   kept        kept     work
never run           work        kept     work
"""
HEAD, *ROWS = [line.split("  ") for line in TABLE.strip().splitlines()]
CELLS = [
    (cells[0].strip(), who.strip().removeprefix("for "), what.strip())
    for cells in ([c for c in row if c.strip()] for row in ROWS)
    for who, what in zip([c for c in HEAD if c.strip()][1:], cells[1:], strict=True)
]


def lane_that_is(how: str, *, named: bool, policy: Policy) -> tuple[World, ItemId | None, RunId | None]:
    """A lane with a past; its item, and the number of a run of bob's on it."""
    world = World()
    if how == "never run":
        return world, None, None
    agent = "carol" if "carol" in how else "bob"
    item = world.put("first", agent=agent if named else "", policy=policy)
    run = world.start(item, agent)
    if how.startswith("last"):
        world.done(item)
    elif "back-off" in how:
        world.fail(item)
    return world, item, run if agent == "bob" else None


def outcome(world: World, arrival: Arrival, owner: ItemId | None) -> str:
    if arrival.verdict is ArrivalDecision.COALESCED and owner is not None and arrival.item == owner:
        assert world.texts(owner) == ["said"]
        return "message"
    if (arrival.verdict, arrival.reason) == (ArrivalDecision.REJECTED, "own_message"):
        assert arrival.item is not None
        assert (world.status(arrival.item), world.texts(arrival.item)) == ("cancelled", ["said"])
        return "kept"
    return "work"


@pytest.mark.parametrize("inside", [True, False], ids=["inside of its run", "from outside"])
@pytest.mark.parametrize("named", [True, False], ids=["agent named", "no agent"])
@pytest.mark.parametrize("policy", sorted(ABSORBING))
@pytest.mark.parametrize(("how", "who", "what"), CELLS, ids=[f"{h}, for {w}" for h, w, _ in CELLS])
def test_the_table(how: str, who: str, what: str, policy: Policy, named: bool, inside: bool) -> None:
    world, item, run = lane_that_is(how, named=named, policy=Policy.QUEUE)
    before = dict(world.items)
    bob = Sender(SenderKind.AGENT, "bob", run if inside else None, LANE)
    agent = "" if who == "nobody" else who
    there = item is not None and how[:4] != "last" and before[item].answers_to(agent)
    if policy is Policy.COALESCE and there:
        what = "message"
    arrival = world.add("said", agent=agent, policy=policy, message="said", sender=bob)
    assert outcome(world, arrival, item) == what
    if what != "work" and item is not None:
        state = world.items[item].state
        assert (state.status, state.cancel_into) == (before[item].status, None)


@pytest.mark.parametrize("policy", [Policy.QUEUE, Policy.REJECT])
@pytest.mark.parametrize(("how", "who", "what"), CELLS)
def test_what_is_queued_or_refused_is_work(how: str, who: str, what: str, policy: Policy) -> None:
    world, item, run = lane_that_is(how, named=True, policy=policy)
    bob = Sender(SenderKind.AGENT, "bob", run, LANE)
    arrival = world.add("said", agent="" if who == "nobody" else who, policy=policy, sender=bob)
    assert outcome(world, arrival, item) == "work"
    taken = how.startswith("run by")
    expected = {Policy.QUEUE: ArrivalDecision.QUEUED, Policy.REJECT: ArrivalDecision.REJECTED}[policy]
    assert arrival.verdict is (expected if taken else ArrivalDecision.ADMITTED)


@pytest.mark.parametrize("policy", sorted(ABSORBING))
@pytest.mark.parametrize("named", [True, False])
def test_its_own_run_is_not_stopped_by_an_item_of_the_same_policy(policy: Policy, named: bool) -> None:
    world, item, run = lane_that_is("run by bob", named=named, policy=policy)
    assert item is not None
    arrival = world.add(
        "said", policy=policy, message="said", sender=Sender(SenderKind.AGENT, "bob", run, LANE)
    )
    assert outcome(world, arrival, item) == "message"
    assert world.items[item].state.cancel_into is None
    assert world.done(item).follow_up is None


@pytest.mark.parametrize("policy", sorted(ABSORBING))
def test_what_waits_is_told_and_not_replaced(policy: Policy) -> None:
    world, _, _ = lane_that_is("last run by bob", named=False, policy=policy)
    waiting = world.put("by a person", policy=policy)
    arrival = world.add("said", policy=policy, message="said", sender=Sender(SenderKind.AGENT, "bob"))
    assert (arrival.verdict, arrival.item) == (ArrivalDecision.COALESCED, waiting)
    assert (world.status(waiting), world.texts(waiting)) == ("pending", ["said"])


@pytest.mark.parametrize("policy", sorted(ABSORBING))
def test_whoever_ran_the_lane_before_the_last_one_is_somebody_else(policy: Policy) -> None:
    world, _, run = lane_that_is("last run by bob", named=False, policy=policy)
    later = world.put("later", policy=policy)
    world.start(later, "carol")
    world.done(later)
    bob = Sender(SenderKind.AGENT, "bob", run, LANE)
    assert world.add("said", policy=policy, sender=bob).verdict is ArrivalDecision.ADMITTED


@pytest.mark.parametrize("policy", sorted(ABSORBING))
def test_what_a_run_adds_to_another_lane_is_work_whoever_ran_that(policy: Policy) -> None:
    world, _, _ = lane_that_is("last run by bob", named=False, policy=policy)
    elsewhere = Sender(SenderKind.AGENT, "bob", RunId(99), "issue:acme/app#43")
    assert world.add("split off", policy=policy, sender=elsewhere).verdict is ArrivalDecision.ADMITTED
