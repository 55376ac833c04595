"""The agents, their pools and workers: who can start something, and what stops and resumes them."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.core.model import NewItem
from tests.clock import Clock
from tests.dashboard.client import Site, Visitor
from tests.dashboard.fleet_scenes import HOSTILE, RIGHT_TO_LEFT, Fleet
from tests.dashboard.statements import statements_of

pytestmark = pytest.mark.usefixtures("clocked")


def service_of(site: Site) -> Any:
    return site.server.service


class TestAgents:
    def test_without_an_agent_the_page_names_the_command(self, admin: Visitor) -> None:
        words = admin.get("/agents").words
        assert "There are no agents." in words
        assert "interlock work --agent coder" in words
        assert "No worker has sent a heartbeat within the last hour." in words

    def test_a_row_has_state_slots_workers_and_pool(self, busy: Fleet, admin: Visitor) -> None:
        assert busy
        words = admin.get("/agents").words
        assert "coder working 1 of 2 2 2 alive models" in words
        assert "reviewer paused Its reviews repeat themselves 0 of 1" in words
        assert "triager at a quota limit ends in 22 min" in words
        assert "writer idle 0 no limit 1 1 alive" in words
        assert "Pool Slots used Used today Agents models 1 of 4 coder , reviewer , triager" in words

    def test_trouble_comes_first(self, busy: Fleet, admin: Visitor) -> None:
        assert busy
        words = admin.get("/agents").words
        assert words.index("triager at") < words.index("coder working") < words.index("writer idle")

    def test_a_worker_is_alive_only_while_it_is_heard_from(
        self, busy: Fleet, clock: Clock, admin: Visitor
    ) -> None:
        assert busy
        assert (
            "coder-linux-2 alive just now coder 1 of 2 mac-studio process 4711" in admin.get("/agents").words
        )
        clock.advance(20)
        words = admin.get("/agents?fresh=1").words
        assert "coder-mac-1 silent" in words
        assert "1 alive, 1 silent" in words
        clock.advance(100)
        words = admin.get("/agents?fresh=2").words
        assert "coder-linux-2 silent" in words
        assert "writer no live worker" in words

    def test_an_agent_that_has_work_and_no_live_worker_is_trouble(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        service.set_agent("ghost")
        service.set_agent("busy")
        service.add([NewItem(title="x", agent="ghost") for _ in range(3)])
        words = admin.get("/agents").words
        assert "ghost no live worker 0 no limit 3" in words
        assert words.index("ghost") < words.index("busy no live worker")

    def test_items_behind_others_of_their_lanes_are_counted(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        service.set_agent("ghost")
        service.add([NewItem(title="x", agent="ghost", lane="l:1") for _ in range(3)])
        service.add([NewItem(title="x", agent="coder", lane="l:2")])
        service.next("coder")
        service.add([NewItem(title="x", agent="spirit", lane="l:2")])
        service.set_agent("spirit")
        assert "ghost no live worker 0 no limit 1 2" in admin.get("/agents").words
        assert "spirit no live worker 0 no limit 1" in admin.get("/agents").words
        assert "Behind others of their lanes 2 items" in admin.get("/agents?agent=ghost").words

    def test_an_agent_whose_run_is_external_is_no_trouble(
        self, site: Site, clock: Clock, admin: Visitor
    ) -> None:
        """Items wait behind it, and it needs no worker."""
        service = service_of(site)
        service.add([NewItem(title="x", agent="mover", lane="l:1") for _ in range(2)])
        service.next("mover", external=True)
        clock.advance(600)
        assert "mover working 1 no limit 1" in admin.get("/agents").words

    def test_a_name_that_only_items_give_is_told_with_the_one_it_means(
        self, busy: Fleet, admin: Visitor
    ) -> None:
        assert busy
        words = admin.get("/agents").words
        assert (
            "No agent codr has claimed anything yet, and 1 item names it . Is it a typing error for coder ?"
            in words
        )
        seen = admin.get("/agents?agent=codr")
        assert (
            "No agent of this name has claimed anything yet. Is it a typing error for coder ?" in seen.words
        )
        assert "Export: add a progress bar" in seen.words
        assert seen.forms() == []

    def test_texts_are_texts(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        for name in ("short", "a" * 200):
            service.set_agent(name, labels=["x" * 200], pool=None)
            service.pause_agent(name, paused=True, why=HOSTILE + RIGHT_TO_LEFT)
            folder = f"/{HOSTILE}/{'f' * 300}"
            service.see_worker(
                f"w-{name}"[:190], host=HOSTILE, pid=1, folder=folder, agent=name, slots=1, runs=0
            )
            for path in ("/agents", f"/agents?agent={'a' * 200}"):
                seen = admin.get(path)
                assert seen.status == 200
                assert HOSTILE not in seen.text
                assert "style=" not in seen.text

    def test_statements_do_not_grow_and_the_page_is_small(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)

        def grow(first: int, count: int) -> None:
            for n in range(first, count):
                service.set_agent(f"agent-with-a-long-name-{n:04}", max_concurrency=3)
                worker = {"host": "mac-studio", "pid": n, "folder": f"/home/anna/{n}", "slots": 3, "runs": 1}
                service.see_worker(f"worker-{n:04}", agent=f"agent-with-a-long-name-{n:04}", **worker)
            service.add([NewItem(title="x", agent=f"unknown{n % 7}") for n in range(first, count)])

        grow(0, 20)
        few = (
            statements_of(admin, "/agents"),
            statements_of(admin, "/agents?agent=agent-with-a-long-name-0003"),
        )
        grow(20, 300)
        many = (
            statements_of(admin, "/agents"),
            statements_of(admin, "/agents?agent=agent-with-a-long-name-0003"),
        )
        assert [len(each) for each in many] == [len(each) for each in few]
        seen = admin.get("/agents")
        assert len(seen.text) < 60_000
        assert "and 260 more agents" in seen.words
        assert "and 275 more workers" in seen.words


class TestAgent:
    def test_it_is_drained_and_resumed(self, busy: Fleet, site: Site, admin: Visitor) -> None:
        assert busy
        seen = admin.get("/agents?agent=CODER")
        assert "coder working" in seen.words
        form = next(form for form in seen.forms() if form["operation"] == "pause_agent")
        assert form["said"] == "Pause"
        assert admin.do(form, why="Deployment").status == 303
        words = admin.get("/agents?agent=coder").words
        assert "coder draining" in words
        assert "Paused: Deployment. 1 run continues and will end by itself; nothing new starts." in words
        assert admin.do(admin.get("/agents?agent=coder").form("pause_agent")).status == 303
        assert not any(agent.paused for agent in service_of(site).agents() if agent.key == "coder")

    def test_a_quota_limit_is_told_and_lifted(self, busy: Fleet, site: Site, admin: Visitor) -> None:
        assert busy
        seen = admin.get("/agents?agent=triager")
        assert "A run hit a quota limit: 429 from the model's provider: 5 h limit reached." in seen.words
        form = next(form for form in seen.forms() if form["said"] == "Lift the quota limit")
        assert admin.do(form).status == 303
        assert [agent.walled_until for agent in service_of(site).agents() if agent.key == "triager"] == [None]

    def test_its_limit_is_changed_and_removed(self, busy: Fleet, site: Site, admin: Visitor) -> None:
        assert busy
        forms = {form["said"]: form for form in admin.get("/agents?agent=coder").forms()}
        assert admin.do(forms["Change the limit"], max_concurrency="5").status == 303
        assert "1 of 5" in admin.get("/agents?agent=coder").words
        assert admin.do(forms["Remove the limit"]).status == 303
        (agent,) = (each for each in service_of(site).agents() if each.key == "coder")
        assert (agent.max, agent.labels) == (None, ("python", "gpu"))

    def test_it_shows_its_workers_and_runs(self, busy: Fleet, admin: Visitor) -> None:
        words = admin.get("/agents?agent=coder").words
        assert "coder-linux-2 alive" in words
        assert "writer-mac-1" not in words
        assert f"run\u00a0{busy.holder.fence} running" in words
        assert f"run\u00a0{busy.late.fence} lost" in words
        assert "python, gpu" in words

    def test_a_reader_sees_no_action(self, busy: Fleet, reader: Visitor, coder: Visitor) -> None:
        assert busy
        for visitor in (reader, coder):
            for path in ("/agents", "/agents?agent=coder", "/agents?agent=triager"):
                seen = visitor.get(path)
                assert seen.status == 200
                assert seen.forms() == []
                assert "Resume" not in seen.words

    def test_it_is_unchanged_until_something_happens(self, busy: Fleet, admin: Visitor, clock: Clock) -> None:
        assert busy
        for path in ("/agents", "/agents?agent=coder"):
            tag = admin.get(path).headers["etag"]
            clock.advance(1)
            assert admin.get(path, {"X-Fragments": "1", "If-None-Match": tag}).status == 304
