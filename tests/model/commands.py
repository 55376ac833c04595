"""What can be said to the reference and the stores, and how often each is said.

A command is drawn as a whole, by its weight, rather than as one rule each: Hypothesis leaves out a random
half of a machine's rules in each example, and an example without arrivals, or without claims, shows little.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hypothesis import strategies as st

from interlock.core.model import (
    A_PERSON,
    AN_OUTSIDER,
    ANOTHER_SYSTEM,
    OUR_BOT,
    Mode,
    Policy,
    RetryLane,
    Sender,
    SenderKind,
)

#: Who else than a person writes.
SENDERS = (
    OUR_BOT,
    ANOTHER_SYSTEM,
    AN_OUTSIDER,
    Sender(SenderKind.AGENT, "coder"),
    Sender(SenderKind.AGENT, "reviewer"),
)
DAY_S = 24 * 3600

LANES = ("lane:a", "lane:b", "issue:acme/app#1", "Issue:Acme/App#1")
AGENTS = ("coder", "reviewer", " Coder ", "REVIEWER", "tester")
PROJECTS = ("default", "other")
LABELS: tuple[tuple[str, ...], ...] = (("gpu", "mac"), ("gpu",), ())
ISSUE = json.dumps({"repository": "Acme/App", "number": 1})

Fields = dict[str, Any]


class Command:
    """A method of the machine and what it is called with."""

    def __init__(self, name: str, told: Mapping[str, Any]) -> None:
        self.name = name
        self.told = told

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{k}={v!r}' for k, v in self.told.items())})"


class Place(NamedTuple):
    """A place in the list of all items, or of the unfinished ones, counted from the newest."""

    n: int
    live: bool = True


# -- arrivals -------------------------------------------------------------------------------------

#: What can be told of an item beside policy, agent and lane. A field that is left out has its default.
EXTRAS: dict[str, tuple[Any, ...]] = {
    "message": ("said",),
    "author": ("ann",),
    "project": ("other",),
    "type": ("review",),
    "priority": (5, -1),
    "position": (1, 2),
    "payload": (ISSUE, '{"k":1}'),
    "dedupe_key": ("k1", "k2"),
    "labels": (("gpu",), ("gpu", "mac")),
    "run_in_s": (0, -1, 5, 100),
    "lease_s": (10.0, 2.3),
    "timeout_s": (90.0, 5.0, 1.001),
    "claim_within_s": (30.0, 2.3),
    "max_attempts": (1, 2),
    "sender": SENDERS,
}


def _plain_arrivals() -> list[Fields]:
    """Arrivals that meet each other: one lane, few agents."""
    told: list[Fields] = [
        {"policy": policy, "agent": agent, "lane": "lane:a"}
        for agent in ("coder", "reviewer", "")
        for policy in Policy
    ]
    told += [{**fields, "message": "said"} for fields in told]
    told += [{**fields, "max_attempts": 1} for fields in told]
    return told + [{**fields, "retry_lane": RetryLane.KEEP} for fields in told]


def _odd_arrivals(count: int) -> list[Fields]:
    """Plain ones with something special to them: first one thing each, then several at once."""
    dice = random.Random(1)
    plain = _plain_arrivals()
    odd = [{**dice.choice(plain), name: value} for name, values in EXTRAS.items() for value in values]
    while len(odd) < count:
        names = dice.sample(list(EXTRAS), dice.randint(2, 5))
        fields = {**dice.choice(plain), **{name: dice.choice(EXTRAS[name]) for name in names}}
        fields["agent"] = dice.choice((*AGENTS, ""))
        fields["lane"] = dice.choice(("lane:a", "lane:a", *LANES, None))
        odd.append(fields)
    return odd


PLAIN_ARRIVALS = _plain_arrivals()
ODD_ARRIVALS = _odd_arrivals(400)


@st.composite
def arrivals(draw: st.DrawFn) -> Fields:
    """Plain as often as odd. Few numbers are drawn, so that many steps fit into what Hypothesis draws."""
    told = PLAIN_ARRIVALS if draw(st.booleans()) else ODD_ARRIVALS
    return told[draw(st.integers(0, len(told) - 1))]


# -- all commands ---------------------------------------------------------------------------------

#: A place is taken modulo the length of its list, so that it always fits and shrinks well.
places = st.integers(0, 20)
item_places = st.builds(Place, places, st.sampled_from((True, True, True, False)))
#: The agent of an item that is ready, or that waits in line, instead of one by name.
READY, IN_LINE = "*ready", "*in line"
claimers = st.sampled_from((READY, READY, READY, IN_LINE, IN_LINE, *AGENTS))
marks = st.sampled_from((0, 0, 1, 2, 9))


@st.composite
def _named(draw: st.DrawFn, name: str, told: st.SearchStrategy[dict[str, Any]]) -> Command:
    return Command(name, draw(told))


def _command(name: str, **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Command]:
    return _named(name, st.fixed_dictionaries(arguments))


def _setting(what: str, *choices: Sequence[Any]) -> st.SearchStrategy[Command]:
    return _command(f"set_{what}", to=st.tuples(*map(st.sampled_from, choices)))


WEIGHTED: tuple[tuple[int, st.SearchStrategy[Command]], ...] = (
    (8, _command("add", batch=st.lists(arrivals(), min_size=1, max_size=1))),
    (3, _command("add", batch=st.lists(arrivals(), min_size=2, max_size=5))),
    (
        6,
        _command(
            "add_kin",
            which=item_places,
            message=st.booleans(),
            position=st.sampled_from((None, None, None, 1, 2)),
            sender=st.sampled_from((A_PERSON, A_PERSON, *SENDERS)),
        ),
    ),
    (4, _command("next", agent=claimers, limit=st.sampled_from((1, 1, 2, 5)))),
    (
        2,
        _command(
            "next",
            agent=claimers,
            limit=st.integers(1, 3),
            types=st.sampled_from(((), ("task",), ("review", "task"))),
            labels=st.sampled_from(LABELS),
            lease_s=st.sampled_from((None, 20.0, 1.001)),
            worker=st.sampled_from((None, "host-1")),
        ),
    ),
    (2, _command("next", agent=claimers, limit=st.integers(1, 2), external=st.just(True))),
    (2, _command("next_item", which=item_places, agent=claimers)),
    (
        6,
        _command(
            "work",
            agent=claimers,
            times=st.sampled_from((1, 1, 1, 3)),
            told=st.booleans(),
            kin=st.sampled_from((0, 0, 0, 1, 2)),
            outcome=st.sampled_from(("done", "fail", "release", "vanish", "stay")),
            seen=marks,
            wait=st.sampled_from((False, False, True)),
        ),
    ),
    (
        6,
        _command(
            "finish",
            outcome=st.sampled_from(("done", "fail", "fail", "release")),
            which=st.lists(places, min_size=1, max_size=1),
            seen=marks,
            live=st.just(True),
            retry=st.sampled_from((True, True, True, False)),
            jitter=st.sampled_from((0.5, 0.0, 0.999)),
        ),
    ),
    (
        2,
        _command(
            "finish",
            outcome=st.sampled_from(("done", "fail", "release")),
            which=st.lists(places, min_size=1, max_size=3),
            seen=marks,
            live=st.booleans(),
        ),
    ),
    (
        2,
        _command(
            "renew",
            which=st.lists(st.tuples(places, st.integers(0, 3)), min_size=1, max_size=3),
            live=st.sampled_from((True, True, False)),
        ),
    ),
    (1, _command("inbox", which=places, seen=marks, live=st.sampled_from((True, True, False)))),
    (1, _command("crash", which=places)),
    (
        3,
        _command("time_passes", seconds=st.sampled_from((1, 4, 9, 11, 16, 31, 61, 130, -3, -70, 30 * DAY_S))),
    ),
    (3, _command("a_deadline_comes", which=places, off_us=st.sampled_from((0, 1, -1)))),
    (2, _command("sweep")),
    (3, _command("cancel", which=item_places, force=st.booleans())),
    (1, _command("take_back", which=item_places)),
    (3, _command("retry", which=st.builds(Place, places, st.booleans()))),
    (
        4,
        _command(
            "msg",
            which=item_places,
            author=st.sampled_from(("", "ann")),
            sender=st.sampled_from((A_PERSON, A_PERSON, *SENDERS)),
        ),
    ),
    (3, _setting("agent_paused", (READY, READY, READY, *AGENTS), (True, False))),
    (1, _setting("project_paused", PROJECTS, (True, False, False))),
    (1, _setting("max", (READY, *AGENTS), (1, 2, None))),
    (1, _setting("skills", AGENTS, ((), ("task",), ("review",)), LABELS)),
    (1, _setting("mode", ("lane",), ("lane:", "lane:a", "issue:"), tuple(Mode))),
    (1, _setting("mode", ("project",), PROJECTS, tuple(Mode))),
    (2, _setting("gate", ("lane:a", "lane:a", *LANES), ((), ("review",), None, None))),
    (1, _command("remove_gate", lane=st.sampled_from(LANES))),
    (1, _command("look")),
)
LOTS = [strategy for weight, strategy in WEIGHTED for _ in range(weight)]


@st.composite
def commands(draw: st.DrawFn) -> Command:
    """Any command, by its weight. (`one_of` would not count a strategy twice.)"""
    return draw(LOTS[draw(st.integers(0, len(LOTS) - 1))])
