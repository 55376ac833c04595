"""One lane in git and one in a database, told the same at random: both decide the same and say the same.

`INTERLOCK_GIT_SEEDS=50` tries as many stories; two otherwise, because each is told to real git. They fail
when the git store does not hand messages on (tried in a scratch copy).
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock.core.errors import InterlockError
from interlock.core.model import NewItem, Policy, RetryLane
from interlock.gitlanes.first_seen import FirstSeen
from interlock.service.contract import ItemFilter, Report
from interlock.service.local import LocalService
from interlock.store.sqlite.store import SqliteStore
from tests.clock import Clock
from tests.conformance.git.conftest import GitSubject
from tests.conformance.scene import LANE, said
from tests.git_fixtures import git_identity, make_bare

__all__ = ["git_identity"]

SEEDS = int(os.environ.get("INTERLOCK_GIT_SEEDS", "2"))
STEPS = 25


class Twins:
    """The same lane twice. Items are named by pairs: the number here, the number there."""

    def __init__(self, place: Path, chance: random.Random) -> None:
        self.clock = Clock()
        self.chance = chance
        self.local = LocalService(SqliteStore(place / "interlock.db", now=self.clock))
        bare = make_bare(place / "lanes.git")
        first_seen = FirstSeen(place / "sight", now=self.clock, boot=lambda: "one")
        self.git = GitSubject(
            bare.as_uri(),
            place / "private",
            lease_min_s=1,
            margin_share=0,
            now=self.clock,
            first_seen=first_seen,
        )
        self.pairs: list[tuple[int, int]] = []
        self.leases: list[tuple[str, str]] = []
        self.story: list[str] = []

    def ask(self, question: Callable[[Any, int], Any]) -> tuple[Any, Any]:
        """What both answer, or refuse with."""
        answers = []
        for nth, lanes in enumerate((self.local, self.git)):
            try:
                answers.append(question(lanes, nth))
            except InterlockError as refusal:
                answers.append(refusal)
        here, there = answers
        assert isinstance(here, InterlockError) == isinstance(there, InterlockError), (answers, self.story)
        return here, there

    # -- what can happen ------------------------------------------------------------------------------

    def add(self) -> None:
        pick = self.chance.choice
        new = [
            NewItem(
                title=f"item {len(self.story)}.{n}",
                lane=LANE,
                agent=pick(["coder", "coder", "coder", "cto"]),
                policy=pick([*Policy, Policy.SUPERSEDE, Policy.SUPERSEDE, Policy.LATEST]),
                message=pick([None, f"message {len(self.story)}.{n}"]),
                position=pick([None] * 6 + [1, 2]),
                retry_lane=pick(list(RetryLane)),
                max_attempts=pick([1, 2, 3]),
                claim_within_s=pick([None, None, 30.0]),
                timeout_s=pick([None] * 4 + [45.0]),
                dedupe_key=pick([None] * 6 + ["one"]),
                run_after_s=pick([None] * 6 + [20.0]),
            )
            for n in range(pick([1, 1, 2, 3]))
        ]
        self.clock.advance(0.000001)
        for here, there in zip(*self.ask(lambda lanes, _: lanes.add(new)), strict=True):
            assert (here.decision, here.reason, here.position) == (
                *(there.decision, there.reason, there.position),
            ), self.story
            if here.arrival is not None:
                self.pairs.append((here.arrival, there.arrival))

    def claim(self) -> None:
        ready = [pair for pair in self.pairs if self.local.show(pair[0]).item.status == "pending"]
        if not ready:
            return
        item, agent = self.chance.choice(ready), self.chance.choice(["coder", "cto"])
        here, there = self.ask(lambda lanes, nth: lanes.next(agent, item=item[nth]))
        if isinstance(here, InterlockError):
            return
        assert len(here) == len(there), self.story
        for mine, other in zip(here, there, strict=True):
            assert said(mine.messages) == said(other.messages), self.story
            self.leases.append((mine.run, other.run))

    def report(self) -> None:
        if not self.leases:
            return
        handles = self.chance.choice(self.leases[-3:])
        write, seen = (
            self.chance.choice(["done", "fail", "release", "renew"]),
            self.chance.choice([0, 0, 1, 2]),
        )
        here, there = self.ask(
            lambda lanes, nth: getattr(lanes, write)([Report(run=handles[nth], seen=seen)])
        )
        if isinstance(here, InterlockError):  # a read mark above the last message
            return
        assert (here[0].status, len(here[0].promoted)) == (there[0].status, len(there[0].promoted)), (
            self.story
        )

    def tell(self) -> None:
        if self.pairs:
            item = self.chance.choice(self.pairs)
            self.ask(lambda lanes, nth: lanes.msg(item[nth], f"told {len(self.story)}"))

    def cancel(self) -> None:
        if self.pairs:
            item, force = self.chance.choice(self.pairs), self.chance.random() < 0.4
            self.ask(lambda lanes, nth: lanes.cancel(item[nth], why="not needed", force=force))

    def wait(self) -> None:
        self.clock.advance(self.chance.choice([1, 7, 14, 31, 61]))

    # -- after each of it -----------------------------------------------------------------------------

    def settle(self) -> None:
        """Time does what it must; in git, whoever was asked to stop learns of it and this machine looks."""
        for _ in range(2):
            self.local.sweep()
            self.git.sweep()
        for lane in self.git.lanes():
            if lane.holder is not None and lane.holder.cancel_requested:
                (handles,) = (h for h in self.leases if h[1].startswith(f"{lane.holder.run}."))
                self.local.renew([Report(run=handles[0])])
                self.git.renew([Report(run=handles[1])])
        self.git.lanes()

    def compare(self) -> None:
        here = {i.id: i for i in self.local.items(ItemFilter(all=True, limit=1_000))}
        there = {i.id: i for i in self.git.items(ItemFilter(all=True))}
        known = {number for pair in self.pairs for number in pair}
        # What the rules made themselves, follow-ups, comes in the same order on both sides.
        self.pairs += zip(sorted(here.keys() - known), sorted(there.keys() - known), strict=True)
        number = dict(self.pairs)
        for mine, other in self.pairs:
            one, two = here[mine], there[other]
            assert (one.title, one.status, one.reason, one.attempt, one.messages) == (
                *(two.title, two.status, two.reason, two.attempt, two.messages),
            ), self.story
            assert number.get(one.absorbed_by or 0) == two.absorbed_by, self.story
            if one.status in ("waiting", "deferred", "pending", "in_progress"):
                assert said(self.local.show(mine).messages) == said(self.git.show(other).messages), self.story
        lines = [[(v.holder and v.holder.item, v.line) for v in s.lanes()] for s in (self.local, self.git)]
        translated = [(number.get(owner or 0), tuple(number[i] for i in line)) for owner, line in lines[0]]
        assert translated == lines[1], self.story


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """Back-offs are of equal length on both sides, and all that ended is still there to be compared."""
    monkeypatch.setattr("random.random", lambda: 0.5)
    monkeypatch.setattr("interlock.gitlanes.lane.ENDED_ITEMS_KEPT", 1_000)


@pytest.mark.usefixtures("steady")
@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_a_lane_in_git_and_one_in_a_database_decide_alike(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    twins = Twins(tmp_path, chance)
    happenings = [twins.add] * 9 + [twins.claim] * 3 + [twins.report] * 3 + [twins.tell] * 2
    happenings += [twins.cancel, twins.wait, twins.wait]
    for _ in range(STEPS):
        happens = chance.choice(happenings)
        twins.story.append(happens.__name__)
        happens()
        twins.settle()
        twins.compare()
