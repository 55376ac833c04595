"""On PostgreSQL a claim of one item looks at the first item only, where that will do: it then leaves the rows
that a full claim would leave, and otherwise none."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from interlock.core.claims import Agent, Claim, narrowed
from interlock.core.record import replace
from interlock.service.local import LocalService
from interlock.store.postgres.claims import _ClaimCall
from interlock.store.postgres.database import BEGIN, roll_back
from interlock.store.postgres.scan_starts import MISS_S
from interlock.store.postgres.statement import StatementConnection
from interlock.store.postgres.store import PostgresStore
from tests.conformance.scene import LANE, Scene
from tests.conformance.test_claims_agree import AGENTS, CLAIMER, Story, wish

ON_POSTGRES = pytest.mark.parametrize("backend", ["postgres16", "postgres18"], indirect=True)
#: What a number or chance decides.
DRAWN = frozenset({"seq", "run", "run_bits"})
#: What a process may still believe of an agent.
OUTDATED: tuple[dict[str, Any], ...] = (
    {"max_concurrency": 9},
    {"types": ("task", "review")},
    {"labels": ("gpu", "big")},
    {"pool": "former"},
    {"paused_why": None},
    {"wall_us": None, "wall_why": None},
)
#: Everything that a claim could write.
TABLES = ("items", "events", "tally_changes", "runs", "messages", "lanes", "plans", "gates", "agents")


def store_of(scene: Scene) -> PostgresStore:
    assert isinstance(scene.service, LocalService)
    assert isinstance(scene.service.store, PostgresStore)
    return scene.service.store


def written(conn: StatementConnection) -> list[tuple[str, dict[str, Any]]]:
    """The rows that the open transaction has written, but for what was drawn."""
    mine = "xmin = pg_current_xact_id()::xid"
    each = [f"(SELECT '{t}', to_jsonb(r) FROM interlock.{t} r WHERE r.{mine} ORDER BY 2)" for t in TABLES]
    rows = conn.execute(" UNION ALL ".join(each)).fetchall()
    return [(table, {k: v for k, v in row.items() if k not in DRAWN}) for table, row in rows]


def tried(store: PostgresStore, claim: Claim, agent: Agent | None, *, first: bool, due_first: bool) -> Any:
    """What a claim starts and leaves, which is then undone."""
    with store.database.connection() as conn:
        conn.execute(BEGIN)
        try:
            call = _ClaimCall(claim, due_first, note=None, first=first)
            found = store.claims._start(conn, call, narrowed(claim, agent), agent)
            return [(item.id, payload) for item, payload in found.claimed], written(conn)
        finally:
            roll_back(conn)


@ON_POSTGRES
@pytest.mark.parametrize("seed", range(3))
def test_in_random_states_it_leaves_what_a_full_claim_leaves_or_nothing(scene: Scene, seed: int) -> None:
    """Taken out one by one: every condition of `claim_first.sql`. A seed noticed each."""
    story, met = Story(scene, seed), Counter[str]()
    scene.service.set_agent(CLAIMER)
    store = store_of(scene)
    for step in range(100):
        story.go_on()
        agents: dict[str, Agent | None] = {agent.key: agent for agent in store.agents()}
        for _ in range(4):
            pick = story.random.choice
            key = pick(AGENTS[1:])
            agent = agents.get(key)
            if agent is not None and story.random.random() < 0.2:
                agent = replace(agent, **pick(OUTDATED))
            asked = wish(
                key,
                types=pick(((), (), ("task",))),
                labels=pick(((), ("gpu",))),
                edits=pick((True, True, False)),
                external=pick((False, False, True)),
                worker=pick((None, "box.1")),
                lease_s=pick((None, 30.0)),
            )
            due_first = pick((True, False))
            whole = tried(store, asked, agent, first=False, due_first=due_first)
            short = tried(store, asked, agent, first=True, due_first=due_first)
            assert short in (whole, ([], [])), f"step {step}: {asked}"
            if whole[0]:
                met["same" if short[0] else "only the full claim"] += 1
    assert min(met["same"], met["only the full claim"]) > 10, f"it met too little: {met}"


class Looks:
    """Which statements the claims of a store send, and the clock by which it remembers what to look at."""

    def __init__(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        self.scene, self.sent, self.now_s = scene, list[str](), 0.0
        claims = store_of(scene).claims
        claims.scan_starts.slow_us = 10**12
        claims.first_items.clock = lambda: self.now_s
        statement = claims.statement

        def noted(call: _ClaimCall, allowed: Claim | None, *rest: Any) -> Any:
            self.sent.append("first" if call.first and allowed else "full")
            return statement(call, allowed, *rest)

        monkeypatch.setattr(claims, "statement", noted)

    def claimed(self, agent: str = "coder", **wished: Any) -> tuple[list[str], list[str]]:
        """The titles of what a claim started, and the statements that it took."""
        self.sent.clear()
        leases = self.scene.service.next(agent, **wished)
        return [lease.item.title for lease in leases], list(self.sent)


@pytest.fixture
def looks(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Looks:
    return Looks(scene, monkeypatch)


@ON_POSTGRES
def test_after_a_claim_that_found_something_the_next_looks_at_one_item(scene: Scene, looks: Looks) -> None:
    for title in "abc":
        scene.put(title)
    assert looks.claimed() == (["a"], ["full"])
    assert looks.claimed() == (["b"], ["first"])
    assert looks.claimed(types=("task",)) == (["c"], ["full"]), "another kind of claim"
    assert looks.claimed() == ([], ["first", "full"]), "only a full claim says that there is nothing"
    assert looks.claimed() == ([], ["full"])


@ON_POSTGRES
def test_of_its_own_items_and_those_for_anyone_the_better_one_is_first(scene: Scene, looks: Looks) -> None:
    scene.put("warm")
    looks.claimed()
    scene.put("anyone's")
    scene.put("own", agent="coder")
    scene.put("urgent", agent="coder", priority=5)
    scene.put("of another queue", type="review", priority=3)
    found = [looks.claimed() for _ in range(4)]
    assert found == [([title], ["first"]) for title in ("urgent", "of another queue", "anyone's", "own")]


@ON_POSTGRES
def test_a_first_item_that_does_not_do_is_passed_over_for_a_second(scene: Scene, looks: Looks) -> None:
    scene.put("warm")
    looks.claimed()
    scene.put("frozen", project="frozen", priority=9)
    scene.service.pause_project("frozen", paused=True, why="release day", create=True)
    for title in "abcd":
        scene.put(title)
    assert looks.claimed() == (["a"], ["first", "full"])
    assert looks.claimed() == (["b"], ["full"])
    looks.now_s += MISS_S
    assert looks.claimed() == (["c"], ["first", "full"])
    scene.service.pause_project("frozen", paused=False, why="released")
    looks.now_s += MISS_S
    assert looks.claimed() == (["frozen"], ["first"])


@ON_POSTGRES
def test_what_is_blocked_or_behind_a_gate_is_not_the_first(scene: Scene, looks: Looks) -> None:
    scene.put("warm")
    looks.claimed()
    blocked, _ = scene.put("blocked", priority=9), scene.put("behind a gate", priority=8, lane=LANE)
    scene.service.block(item=blocked, blocker="acme/app#3", why="first that")
    scene.service.set_gate(LANE, series="series:acme/app/RFC-093", open=False, why="its turn")
    scene.put("free")
    assert looks.claimed() == (["free"], ["first"])
    scene.service.unblock(item=blocked)
    scene.service.set_gate(LANE, series="series:acme/app/RFC-093", open=True, why="its turn")
    assert [looks.claimed() for _ in range(2)] == [(["blocked"], ["first"]), (["behind a gate"], ["first"])]


@ON_POSTGRES
def test_limits_that_changed_and_deadlines_that_passed_are_noticed(scene: Scene, looks: Looks) -> None:
    for title in "abcdef":
        scene.put(title)
    looks.claimed()
    scene.service.set_agent("coder", max_concurrency=2)
    assert looks.claimed() == (["b"], ["first", "full", "full"]), "within the new limit"
    assert looks.claimed()[0] == [], "which holds"
    scene.service.set_agent("coder", unlimited=True)
    assert looks.claimed()[0] == ["c"]
    looks.now_s += MISS_S
    assert looks.claimed() == (["d"], ["first"])
    scene.clock.advance(61)
    assert looks.claimed()[0] == ["a"], "its lease expired, so that it is first again"


@ON_POSTGRES
def test_an_agent_with_a_limit_gets_the_first_item_within_it(scene: Scene, looks: Looks) -> None:
    scene.service.set_agent("coder", max_concurrency=3)
    for title in "abcd":
        scene.put(title)
    assert looks.claimed()[0] == ["a"]
    assert [looks.claimed() for _ in range(2)] == [(["b"], ["first"]), (["c"], ["first"])]
    assert looks.claimed()[0] == [], "there is no room"
