"""A batch means the same as its commands in sequence, whatever they are."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.core.commands import Cancel, Command, Expire, Finish, Outcome, Retry, TakeBack
from interlock.core.model import A_PERSON, OUR_BOT, ItemId, Mode, Policy, RetryLane, RunId
from interlock.core.states import ItemStatus
from tests.unit.world import LANE, World

OTHER_LANE = "issue:acme/app#43"

ARRIVALS = st.fixed_dictionaries(
    {
        "lane": st.sampled_from([LANE, LANE, OTHER_LANE, None]),
        "agent": st.sampled_from(["coder", "planner", ""]),
        "policy": st.sampled_from(list(Policy)),
        "retry_lane": st.sampled_from(list(RetryLane)),
        "max_attempts": st.sampled_from([1, 3]),
        "position": st.sampled_from([None, None, None, 1, 2]),
        "message": st.sampled_from([None, "hello"]),
        "sender": st.sampled_from([A_PERSON, OUR_BOT]),
        "delay_s": st.sampled_from([None, None, None, 5]),
        "dedupe_key": st.sampled_from([None, None, "one", "two"]),
    }
)
#: Kind of command, and which of the items it is about.
ABOUT = st.tuples(
    st.sampled_from(["done", "fail", "release", "cancel", "force", "take back", "retry", "tell", "expire"]),
    st.integers(0, 30),
)
STEPS = st.lists(st.one_of(ARRIVALS, ABOUT), min_size=1, max_size=8)
#: What happened before the batch: arrivals, claims, ends, time.
PAST = st.lists(
    st.one_of(ARRIVALS, ABOUT, st.tuples(st.sampled_from(["start", "pass"]), st.integers(0, 30))), max_size=16
)


def command(world: World, step: Any) -> Command | None:
    """The command that a drawn step stands for, in the world as it is; none if there is no item yet."""
    if isinstance(step, dict):
        fields = dict(step)
        delay_s = fields.pop("delay_s")
        at_us = None if delay_s is None else world.now_us + delay_s * 1_000_000
        return world.arrival(run_at_us=at_us, **fields)
    kind, pick = step
    if not world.items:
        return None
    item = sorted(world.items)[pick % len(world.items)]
    run = world.items[item].state.run or RunId(1)
    match kind:
        case "done" | "fail" | "release":
            seen = min(pick % 3, world.items[item].state.message_count)  # more is refused as bad input
            return Finish(run=run, item=item, outcome=Outcome(kind), seen=seen, retry=pick % 4 > 0)
        case "cancel" | "force":
            return Cancel(item=item, why="why", force=kind == "force")
        case "take back":
            return TakeBack(item=item, why="why")
        case "retry":
            return Retry(item=item)
        case "tell":
            return world.telling(item, "hello", sender=OUR_BOT if pick % 2 == 0 else A_PERSON)
        case "expire":
            return Expire(item=item)
        case _:
            raise AssertionError(kind)


def live_through(world: World, past: list[Any]) -> None:
    for step in past:
        match step:
            case ("start", pick):
                ready = [
                    i.id
                    for i in world.items.values()
                    if i.status is ItemStatus.PENDING and i.state.due_us is None
                ]
                if ready:
                    world.start(ready[pick % len(ready)])
            case ("pass", pick):
                world.pass_s(pick)
            case _:
                if (one := command(world, step)) is not None:
                    world.decide(one)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(past=PAST, steps=STEPS, mode=st.sampled_from([Mode.ENFORCE, Mode.ENFORCE, Mode.OBSERVE]))
def test_deciding_a_batch_is_deciding_its_commands_one_by_one(
    past: list[Any], steps: list[Any], mode: Mode
) -> None:
    world = World()
    world.set_mode(mode)
    live_through(world, past)
    world.set_mode(Mode.ENFORCE)
    world.events.clear()
    commands = [c for c in (command(world, step) for step in steps) if c is not None]
    batch, sequence = copy.deepcopy(world), copy.deepcopy(world)

    at_once = batch.decide(*commands)
    one_by_one = [sequence.decide(c)[0] for c in commands]

    assert batch.items == sequence.items
    assert batch.messages == sequence.messages
    assert batch.runs == sequence.runs
    assert batch.events == sequence.events
    assert batch.payloads == sequence.payloads
    assert batch.keys == sequence.keys
    for one, other in zip(at_once, one_by_one, strict=True):
        # Only the sentence of a refusal may differ: within a batch the end of a run is not recorded yet.
        assert getattr(one, "refusal", None) is None or one.refusal == "" or getattr(other, "refusal", None)
        if not getattr(one, "refusal", None):
            assert one == other


def test_an_item_that_a_batch_has_never_loaded_is_a_mistake_and_not_a_guess() -> None:
    """A store loads what its commands name; a rule that met a stranger would decide on nothing."""
    with pytest.raises(KeyError):
        World().cancel(ItemId(404))
