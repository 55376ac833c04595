"""The overview: what needs a person, what is stuck, what runs, and what is next."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest

from interlock.core.errors import StoreUnavailable
from interlock.core.model import NewItem
from interlock.dashboard.pages.overview import _more
from interlock.http.doctor_rounds import DoctorReport, DoctorRounds
from interlock.service.contract import CheckView, Report
from tests.dashboard import overview_scenes as scenes
from tests.dashboard.client import Seen, Site, Visitor

HOSTILE = "</p><script>alert(1)</script>"
SECTIONS = ("Needs you", "Stuck", "Running", "Next")


def service_of(site: Site) -> Any:
    return site.server.service


_looks = count(1)


def look(visitor: Visitor) -> Seen:
    """The page as it is now, not as viewers shared it a moment ago."""
    seen = visitor.get("/", {"X-Newest": str(10**6 + next(_looks))})
    assert seen.status == 200, seen.words
    return seen


def section(seen: Seen, name: str) -> Seen:
    """One section of the page."""
    found = re.search(rf'<section id="{name}">.*?</section>', seen.text, re.DOTALL)
    assert found, f"no section {name}"
    return seen._replace(text=found[0])


def verdict(seen: Seen) -> str:
    found = re.search(r'<span class="fresh"[^>]*>([^<]*)</span>', seen.text)
    assert found
    return found[1]


class TestVerdict:
    def test_an_empty_store_shows_three_commands(self, admin: Visitor) -> None:
        seen = look(admin)
        assert seen.status == 200
        assert verdict(seen) == "All calm."
        assert seen.text.count("<code>interlock ") == 3
        assert "Needs you" not in seen.words

    def test_it_counts_what_needs_you_and_what_is_stuck(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        scenes.running(service, "Fix the login", "issue:acme/app#7", "coder")
        assert verdict(look(admin)) == "All calm, 1 running."
        scenes.dead_letter(service)
        assert verdict(look(admin)) == "1 thing needs you."
        service.pause_project("acme", paused=True, why="release", create=True)
        scenes.asks(service)
        seen = look(admin)
        assert verdict(seen) == "2 things need you, 1 is stuck."
        assert "<title>(2) Overview · Interlock</title>" in seen.text

    def test_it_is_unknown_while_the_server_is_not_ready(
        self, site: Site, admin: Visitor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        scenes.dead_letter(service_of(site))

        async def unready() -> dict[str, Any]:
            return {"checks": {"sweeper": {"ok": False, "detail": "The sweeper has not completed a sweep."}}}

        monkeypatch.setattr(site.server, "_checked_ready", unready)
        assert verdict(look(admin)) == "Unknown: The sweeper has not completed a sweep."

    def test_it_is_unknown_while_the_store_is_away(
        self, site: Site, admin: Visitor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def away() -> None:
            raise StoreUnavailable("Cannot reach the store.")

        monkeypatch.setattr(service_of(site), "attention", away)
        seen = look(admin)
        assert (seen.status, verdict(seen)) == (200, "Unknown: Cannot reach the store.")
        assert "All calm" not in seen.words

    def test_findings_of_the_doctor_need_you(
        self, site: Site, admin: Visitor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        scenes.running(service_of(site), "Fix the login", "issue:acme/app#7", "coder")
        broken = CheckView(name="one_owner_a_lane", ok=False, detail="item 3 and item 4", mend="Cancel one.")
        told = CheckView(name="nothing_waits_for_a_person", ok=False, detail="item 5")
        report = DoctorReport([broken, told], datetime(2026, 11, 19, tzinfo=UTC))
        monkeypatch.setattr(site.server, "_findings", lambda: report)
        seen = look(admin)
        assert verdict(seen) == "1 thing needs you."
        assert "One owner a lane: item 3 and item 4 Cancel one." in seen.words
        assert "The doctor checked the store" in seen.words


def test_the_doctor_rests_and_tells_what_it_found_twice() -> None:
    """Taken out: the rest after a long check, or the second look."""
    clock, broken, took_s = [0.0], [True], 3.0
    checks: list[float] = []

    def check() -> list[CheckView]:
        checks.append(clock[0])
        clock[0] += took_s
        return [CheckView(name="no_overdue_lease", ok=not broken[0], detail="item 1")]

    rounds = DoctorRounds(check, lambda: datetime.now(UTC), lambda: clock[0])
    for _ in range(400):
        rounds.look()
        clock[0] += 1.0
        if clock[0] < 150:
            assert not rounds.report.findings
    assert checks == [20.0, 173.0], "it rests for 50 times as long as a check took"
    assert [each.name for each in rounds.report.findings] == ["no_overdue_lease"]
    broken[0] = False
    clock[0] += 900.0
    rounds.look()
    assert not rounds.report.findings


class TestSections:
    def test_they_come_in_the_order_of_urgency(self, site: Site, admin: Visitor) -> None:
        scenes.busy_day(service_of(site))
        words = look(admin).words
        places = [words.index(f" {name} ") for name in SECTIONS]
        assert places == sorted(places)

    def test_a_question_is_answered_where_it_stands(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        item = scenes.asks(service)
        needs = section(look(admin), "needs")
        assert scenes.QUESTION in needs.words
        assert "Your answer" in needs.words
        assert admin.do(needs.form("msg"), text="Remove it.").status == 303
        assert service.show(item).messages[-1].text == "Remove it."
        assert scenes.QUESTION not in look(admin).words

    def test_a_dead_letter_is_retried(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        item = scenes.dead_letter(service)
        needs = section(look(admin), "needs")
        assert "expected 3 rows, got 2" in needs.words
        assert admin.do(needs.form("retry")).status == 303
        assert service.show(item).item.status == "pending"

    def test_what_is_stuck_has_its_cure(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        scenes.busy_day(service)
        stuck = section(look(admin), "stuck")
        for told in (
            "painter is paused (on holiday); 1 item waits for it.",
            "translator is at a quota limit",
            "databse-admin, which has never asked for work",
            "issue #12 is not the active one of series RFC-093",
            "Lane issue:acme/app#97 is blocked by acme/app#96",
        ):
            assert told in stuck.words, told
        assert admin.do(stuck.form("pause_agent")).status == 303
        assert admin.do(stuck.form("unblock")).status == 303
        stuck = section(look(admin), "stuck")
        assert "painter is paused" not in stuck.words
        assert "issue:acme/app#97" not in stuck.words

    def test_an_agent_without_a_worker_comes_with_the_command_that_starts_one(
        self, site: Site, admin: Visitor
    ) -> None:
        service = service_of(site)
        scenes.running(service, "Fix the login", "issue:acme/app#7", "coder")
        service.add([NewItem(title="Review it", lane="issue:acme/app#7", agent="reviewer#2")])
        stuck = section(look(admin), "stuck")
        assert "reviewer#2 has never asked for work; 1 item waits for it." in stuck.words
        assert "interlock work --agent &#39;reviewer#2&#39; -- COMMAND" in stuck.text

    def test_items_behind_others_of_their_lanes_are_next(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        scenes.running(service, "Fix the login", "issue:acme/app#7", "coder")
        assert "of their lanes" not in section(look(admin), "next").words
        for n in range(2):
            service.add([NewItem(title=f"Review {n}", lane="issue:acme/app#7", agent="coder")])
        service.add([NewItem(title="Later", agent="coder", run_after_s=3600.0)])
        found = section(look(admin), "next")
        assert "2 items wait behind others of their lanes. Show all" in found.words
        assert "1 item waits for its time or for a task before it. Show it" in found.words
        assert 'href="/items?status=deferred"' in found.text

    def test_a_silent_run_tells_its_end_once(
        self, site: Site, admin: Visitor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        service = service_of(site)
        (added,) = service.add([NewItem(title="Fix the login", agent="coder")])
        (lease,) = service.next("coder", item=added.arrival, lease_s=600.0, worker="coder@forge")
        monkeypatch.setattr("interlock.service.attention.is_silent", lambda *_: True)
        stuck = section(look(admin), "stuck")
        assert f"Worker coder@forge has not renewed the lease of run {lease.fence} since " in stuck.words
        assert stuck.text.count("<time") == 1
        assert "lease ends in " in stuck.words

    def test_a_claim_is_no_button(self, site: Site, admin: Visitor) -> None:
        """Nobody would work with the handle."""
        service_of(site).add([NewItem(title="For a name with a slip", agent="codr")])
        assert all(form["operation"] != "next" for form in look(admin).forms())

    def test_runs_show_their_lease(self, site: Site, admin: Visitor) -> None:
        lease = scenes.running(service_of(site), "Fix it", "issue:acme/app#7", "coder", lease_s=600.0)
        running = section(look(admin), "running")
        assert f'href="/items/{lease.item.id}"' in running.text
        assert "data-lease" in running.text
        assert f"run&nbsp;{lease.fence}" in running.text

    def test_the_last_line_of_its_output_is_shown_as_text(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        lease = scenes.running(service, "Fix it", "issue:acme/app#7", "coder")
        assert "last-line" not in look(admin).text
        service.append_log(lease.run, start=0, text=f"building\n\x1b[31m{HOSTILE}\x1b[0m\n")
        running = section(look(admin), "running")
        assert "&lt;/p&gt;&lt;script&gt;alert(1)&lt;/script&gt;</code>" in running.text
        assert "building" not in running.text

    def test_an_item_s_page_shows_the_end_of_its_log(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        item = service.add([NewItem(title="long", agent="coder")])[0].arrival
        (lease,) = service.next("coder", item=item, worker="host-7-abc")
        service.append_log(
            lease.run, start=0, text="".join(f"step {n}\n" for n in range(50)) + HOSTILE + "\n"
        )
        page = admin.get(f"/items/{item}").text
        assert "step 49\n&lt;/p&gt;&lt;script&gt;" in page
        assert HOSTILE not in page
        assert "step 3\n" not in page
        assert f"interlock log --follow {lease.fence}" in page

    def test_the_next_claims_are_in_order(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        for n in range(20):
            service.add([NewItem(title=f"Work {n:02}", agent="coder", priority=n)])
        found = section(look(admin), "next")
        assert re.findall(r"Work \d\d(?=</span>)", found.text) == [f"Work {n}" for n in range(19, 11, -1)]
        assert "is ready for coder and first in the queue" in found.words or "has never asked" in found.words
        assert "The next 8 of 20 ready items." in found.words

    def test_the_last_hour_is_drawn_with_gaps(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        service.add([NewItem(title="work")])
        seen = look(admin)
        assert "Its course appears after a minute." in seen.words
        assert "1 item to be claimed" in seen.words
        service.next("coder")
        assert "no ready items" in section(look(admin), "tiles").words
        service.add([NewItem(title="more work")])
        scenes.last_hour(service)
        tiles = section(look(admin), "tiles")
        assert tiles.text.count('class="spark') == 4
        assert tiles.text.count("<polyline") >= 6, "the server was down for some minutes"
        assert re.search(r"\d failed or lost in the hour", tiles.words)


class TestVisitors:
    def test_a_reader_sees_no_action(self, site: Site, reader: Visitor) -> None:
        scenes.busy_day(service_of(site))
        seen = look(reader)
        assert seen.status == 200
        assert seen.forms() == []
        assert scenes.QUESTION in seen.words

    def test_texts_are_texts(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        scenes.asks(service, HOSTILE, HOSTILE)
        scenes.dead_letter(service, HOSTILE, HOSTILE)
        service.pause_project("a", paused=True, why=HOSTILE, create=True)
        service.add([NewItem(title=f"{HOSTILE} {n}", lane=f"issue:a/b#{n}") for n in range(30)])
        seen = look(admin)
        assert seen.status == 200
        assert "<script>alert" not in seen.text
        assert seen.text.count("&lt;script&gt;alert(1)&lt;/script&gt;") > 10
        assert "style=" not in seen.text

    def test_it_is_unchanged_until_something_happens(self, site: Site, admin: Visitor) -> None:
        """Times tick in the browser, so a page of running work is not sent again."""
        scenes.busy_day(service_of(site))
        tag = look(admin).headers["etag"]
        assert admin.get("/", {"X-Fragments": "1", "If-None-Match": tag}).status == 304


class TestCosts:
    """What the page reads, on a store that is small and on one that is larger."""

    def test_a_fixed_number_of_operations_and_statements(
        self, site: Site, admin: Visitor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        service = service_of(site)
        fill(service, 60)
        few = self._statements(site, admin, monkeypatch)
        fill(service, 300)
        many = self._statements(site, admin, monkeypatch)
        assert len(many) < len(few) + 20, "it grows with the store"
        assert len(many) < 400

    def test_it_is_light(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        fill(service, 150)
        scenes.busy_day(service)
        assert len(look(admin).text.encode()) < 60_000

    def _statements(self, site: Site, admin: Visitor, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        called: list[str] = []
        reads = service_of(site).store
        read = reads._read

        def counted(name: str, /, **params: Any) -> Any:
            called.append(name)
            return read(name, **params)

        with monkeypatch.context() as patched:
            patched.setattr(reads, "_read", counted)
            look(admin)
        return called


def fill(service: Any, n: int) -> None:
    """Much of everything that the overview lists."""
    service.add([NewItem(title=f"ready {i}", agent=f"agent-{i % 40}", priority=i % 5) for i in range(n)])
    for i in range(n):
        lane = f"issue:acme/app#{service.store.now_us()}{i}"
        (added,) = service.add([NewItem(title=f"item {i}", lane=lane, agent="worker")])
        (lease,) = service.next("worker", item=added.arrival, lease_s=3_600.0)
        if i % 3 == 0:
            service.fail([Report(run=lease.run, error="no", retry=False)])
        elif i % 3 == 1:
            service.ask(lease.run, "Which?")


def test_one_note_tells_of_all_effects_that_failed() -> None:
    """Taken out: the exception for effects. Below "2 changes have failed" stood "and 1 more: GitHub"."""
    assert _more({"effects": 2}, [{"kind": "effects"}]) == []
    (rest,) = _more({"dead_letter": 7}, 5 * [{"kind": "dead_letter"}])
    assert (rest["n"], rest["url"]) == (2, "/items?status=failed")
