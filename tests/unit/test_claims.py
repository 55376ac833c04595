"""Who may start what: a claim within what its agent can do and has room for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.core.claims import Agent, Claim, narrowed, with_room


def agent(**fields: object) -> Agent:
    return Agent(key="coder", name="Coder", **fields)  # type: ignore[arg-type]


WISH = Claim(agent="coder", limit=5)


class TestNarrowed:
    def test_an_agent_that_was_never_set_may_wish_for_anything(self) -> None:
        claim = Claim(agent="coder", types=("review",), labels=("gpu",))
        assert narrowed(claim, None) == claim
        assert narrowed(claim, agent()) == claim

    def test_a_paused_agent_gets_nothing(self) -> None:
        assert narrowed(WISH, agent(paused_why="maintenance")) is None

    @pytest.mark.parametrize(
        ("can", "wishes", "may"),
        [
            ((), (), ()),
            ((), ("review",), ("review",)),
            (("review", "triage"), (), ("review", "triage")),
            (("review", "triage"), ("triage", "build"), ("triage",)),
        ],
    )
    def test_a_wish_narrows_the_types_that_the_agent_can_do(
        self, can: tuple[str, ...], wishes: tuple[str, ...], may: tuple[str, ...]
    ) -> None:
        allowed = narrowed(Claim(agent="coder", types=wishes), agent(types=can))
        assert allowed is not None
        assert allowed.types == may

    def test_a_wish_for_none_of_the_agents_types_gets_nothing(self) -> None:
        assert narrowed(Claim(agent="coder", types=("build",)), agent(types=("review",))) is None

    def test_labels_of_the_wish_stand_in_for_those_of_the_agent(self) -> None:
        held = agent(labels=("linux", "gpu"))
        assert narrowed(WISH, held) == Claim(agent="coder", limit=5, labels=("linux", "gpu"))
        only = narrowed(Claim(agent="coder", labels=("linux",)), held)
        assert only is not None
        assert only.labels == ("linux",)

    def test_the_rest_of_the_wish_stays(self) -> None:
        claim = Claim(agent="coder", limit=3, lease_s=30, worker="w1")
        assert narrowed(claim, agent(types=("a",))) == Claim(
            agent="coder", types=("a",), limit=3, lease_s=30, worker="w1"
        )


class TestRoom:
    @pytest.mark.parametrize(
        ("most", "running", "gets"),
        [(None, 10_000, 5), (10, 0, 5), (10, 5, 5), (10, 7, 3), (10, 9, 1), (1, 0, 1)],
    )
    def test_a_wish_is_cut_to_the_room_there_is(self, most: int | None, running: int, gets: int) -> None:
        allowed = with_room(WISH, agent(max_concurrency=most), running, 0)
        assert allowed is not None
        assert allowed.limit == gets

    @pytest.mark.parametrize("running", [2, 3])
    def test_a_full_agent_gets_nothing_even_if_its_limit_was_lowered_under_it(self, running: int) -> None:
        assert with_room(WISH, agent(max_concurrency=2), running, 1) is None

    def test_a_full_agent_may_still_do_one_edit_of_a_plan_if_it_asks_for_such(self) -> None:
        full = agent(max_concurrency=2)
        allowed = with_room(WISH, full, 2, 0)
        assert allowed == replace(WISH, types=("plan.edit",), limit=1)
        assert with_room(replace(WISH, types=("build",)), full, 2, 0) is None

    def test_an_edit_in_its_own_slot_takes_no_room_and_no_second_one_has_such_a_slot(self) -> None:
        one = agent(max_concurrency=1)
        assert with_room(WISH, one, 0, 1) == replace(WISH, limit=1, edits=False)
        assert with_room(replace(WISH, types=("plan.edit", "build")), one, 0, 1) == replace(
            WISH, types=("build",), limit=1, edits=False
        )
        assert with_room(replace(WISH, types=("plan.edit",)), one, 0, 1) is None
        assert with_room(WISH, one, 1, 1) is None

    @pytest.mark.parametrize("most", range(1, 5))
    def test_whatever_is_claimed_an_agent_has_one_run_more_than_its_limit_at_most_and_that_is_an_edit(
        self, most: int
    ) -> None:
        """Every way in which work and edits can be claimed, for every number asked for at once."""
        capped = agent(max_concurrency=most)
        seen, more = {(0, 0)}, [(0, 0)]
        while more:
            running, editing = more.pop()
            assert running <= most
            assert running + editing <= most + 1
            assert editing <= max(1, most)
            for limit in range(1, most + 3):
                allowed = with_room(replace(WISH, limit=limit), capped, running, editing)
                if allowed is None:
                    continue
                for edits in range(allowed.limit + 1 if allowed.edits else 1):
                    works = 0 if allowed.types else allowed.limit - edits
                    now = (running + works, editing + edits)
                    if now not in seen:
                        seen.add(now)
                        more.append(now)
        assert {(most, 1), (0, most), (most, 0)} <= seen, "and all of that can be had"

    def test_an_unknown_agent_has_no_limit(self) -> None:
        assert with_room(WISH, None, 99, 9) == WISH
