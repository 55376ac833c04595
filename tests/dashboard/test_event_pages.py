"""The events: sentences, filters, pages, and how much they read."""

from __future__ import annotations

import html
import json
import re
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from interlock.core.model import EventKind, NewItem, Policy
from interlock.dashboard import event_sentences
from interlock.dashboard.event_sentences import reason_code, sentence, tone
from interlock.service.contract import Report
from tests.dashboard.client import Seen, Site, Visitor
from tests.dashboard.plan_scenes import HOSTILE, LONG, RIGHT_TO_LEFT, do, release_plan

LANE = "issue:acme/app#42"


def service_of(site: Site) -> Any:
    return site.server.service


def told(event: Mapping[str, Any]) -> str:
    return "".join(part.text for part in sentence(event))


def rows(seen: Seen) -> list[int]:
    """The numbers of the shown events."""
    return [int(number) for number in re.findall(r'data-key="event-(\d+)"', seen.text)]


def event(kind: str, **facts: Any) -> dict[str, Any]:
    fields = ("item", "run", "lane", "agent", "project", "reason")
    found = {name: facts.pop(name, None) for name in fields}
    return {"seq": 1, "at": "2026-11-19T12:00:00Z", "kind": kind, **found, "data": facts}


class TestSentences:
    def test_every_kind_has_a_sentence_and_a_tone(self) -> None:
        for kind in EventKind:
            assert kind in event_sentences._FORMS, kind
            assert tone(kind) in ("good", "busy", "warn", "bad", "quiet")
            assert told(event(kind)).endswith((".", "”"))
        assert tone("someday.new") == "quiet", (
            "a newer version may have written a kind that this one does not know"
        )

    @pytest.mark.parametrize(
        ("facts", "words"),
        [
            (event("item.added", item=3, lane="l"), "Item 3 was added on l."),
            (
                event("item.added", item=3, lane="l", holder_item=2),
                "Item 3 was added on l, behind item 2.",
            ),
            (event("item.cancelled", item=3, why="a duplicate."), "Item 3 was cancelled: a duplicate."),
            (event("run.started", item=3, run=7, agent="coder"), "coder started run 7 of item 3."),
            (
                event("run.lost", item=3, run=7, agent="coder", attempt=1, item_status="waiting"),
                "Run 7 of coder lost its lease on attempt 1. Item 3 is waiting.",
            ),
            (event("run.refused", run=7, wanted="done"), "A late “done” of run 7 was refused."),
            (event("block.set", lane="l", blocker="acme/b#3", reason="API"), "l waits for acme/b#3: API."),
            (
                event("agent.walled", agent="coder", until_us=1_700_000_000_000_000),
                "coder hit a quota limit until 2023-11-14T22:13:20+00:00.",
            ),
            (
                event("question.asked", item=3, agent="coder", question="Which page?"),
                "coder asked about item 3: “Which page?”",
            ),
            (
                event("item.added", item=3, plan=1, lane="plan:1", reason="edit_owed"),
                "Item 3 asks the editor of plan 1 for an edit.",
            ),
            (event("item.edited", item=3, new={"priority": 5}), "Item 3 was edited: priority 5."),
        ],
    )
    def test_sentences_name_what_is_known(self, facts: dict[str, Any], words: str) -> None:
        assert told(facts) == words

    def test_a_reason_that_is_said_is_no_code(self) -> None:
        assert reason_code(event("agent.paused", agent="a", reason="lunch")) == ""
        assert reason_code(event("run.lost", reason="lease_expired")) == "lease_expired"


class TestEvents:
    def test_an_empty_store_says_so(self, admin: Visitor) -> None:
        assert "Nothing has happened yet." in admin.get("/events").words

    def test_what_happened_is_told_newest_first_with_links(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        first, second = service.add([NewItem(title="a", lane=LANE), NewItem(title="b", lane=LANE, agent="x")])
        (lease,) = service.next("coder")
        service.done([Report(run=lease.run)])
        seen = admin.get("/events")
        assert rows(seen) == sorted(rows(seen), reverse=True)
        words = seen.words
        one, two, run = first.item.id, second.item.id, lease.fence
        assert f"Item #{one} was added on {LANE} ." in words
        assert f"Item #{two} was added on {LANE} , behind item #{one} ." in words
        assert f"coder started run {run} of item #{one} on {LANE} ." in words
        assert f"Run {run} of coder completed item #{one} ." in words
        assert f"Item #{two} is next on {LANE}" in words
        assert f'href="/items/{one}"' in seen.text
        assert f'href="/events?run={run}"' in seen.text
        assert 'href="/lane?name=issue%3Aacme%2Fapp%2342"' in seen.text
        assert "lane_queued" in words

    def test_filters_are_in_the_address(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        mine, other = (
            service.add([NewItem(title=t, lane=f"l:{t}", agent=t)])[0].item.id for t in ("ada", "bob")
        )
        (lease,) = service.next("ada")
        service.fail([Report(run=lease.run, error="broken")])
        service.next("bob")

        def items(query: str) -> set[str]:
            return set(re.findall(r'href="/items/(\d+)"', admin.get(f"/events?{query}").text))

        assert items(f"item={mine}") == {str(mine)}
        assert items("lane=l:bob") == {str(other)}
        assert items("agent=ADA") == {str(mine)}
        assert items(f"run={lease.fence}") == {str(mine)}
        assert items("kind=run.failed") == {str(mine)}
        assert items("kind=run") == {str(mine), str(other)}
        assert items("kind=trouble") == {str(mine)}
        assert "No event matches." in admin.get("/events?agent=eve").words
        seen = admin.get(f"/events?kind=run&agent=ada&item={mine}").text
        assert '<option value="run" selected>' in seen
        assert 'name="agent" value="ada"' in seen
        assert f"/events?item={mine}&amp;agent=ada&amp;kind=trouble" in seen

    def test_pages_go_backwards_and_have_each_event_once(self, site: Site, admin: Visitor) -> None:
        service_of(site).add(
            [NewItem(title=str(n), lane=f"l:{n % 2}", policy=Policy.QUEUE) for n in range(120)]
        )
        found: list[int] = []
        path: str | None = "/events"
        while path:
            seen = admin.get(path)
            found += rows(seen)
            following = re.search(r'href="([^"]+)" rel="next">Older', seen.text)
            path = html.unescape(following[1]) if following else None
        assert found == [e.seq for e in reversed(service_of(site).events())]
        assert "Back to the newest" in admin.get("/events?before=50").words

    def test_a_filter_searches_a_part_of_the_history_at_a_time(
        self, site: Site, admin: Visitor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys.modules["interlock.dashboard.pages.events"], "SEARCHED", 10)
        service = service_of(site)
        service.set_agent("early")
        service.add([NewItem(title=str(n)) for n in range(25)])
        seen = admin.get("/events?agent=early")
        assert rows(seen) == []
        assert "None of the searched events matches." in seen.words
        while not rows(seen):
            following = re.search(r'href="([^"]+)" rel="next">Search earlier events', seen.text)
            assert following, seen.words
            seen = admin.get(html.unescape(following[1]))
        assert len(rows(seen)) == 1

    def test_texts_are_texts(self, site: Site, admin: Visitor, reader: Visitor) -> None:
        service = service_of(site)
        for text in (HOSTILE, RIGHT_TO_LEFT, LONG):
            service.add([NewItem(title=text, lane="l"), NewItem(title=text, lane="l", policy=Policy.REJECT)])
            service.pause_project("p", paused=True, why=text, create=True)
        for visitor in (admin, reader):
            seen = visitor.get("/events")
            assert HOSTILE not in seen.text
            assert html.escape(HOSTILE) in seen.text
            assert "style=" not in seen.text
            assert seen.forms() == []

    @pytest.mark.parametrize(
        "query", ["kind=run.began", "item=x", "run=-1", "before=1x", "agent=none", "lane=%00"]
    )
    def test_a_wrong_filter_is_a_sentence(self, admin: Visitor, query: str) -> None:
        assert admin.get(f"/events?{query}").status in (400, 422)

    def test_events_of_a_plan_lead_to_it(self, site: Site, admin: Visitor) -> None:
        plan = release_plan(service_of(site)).id
        do(service_of(site), plan, "design")
        seen = admin.get("/events?kind=plan")
        assert f'Task <b class="value" dir="auto">design</b> of plan <a href="/plans/{plan}">' in seen.text


class TestCosts:
    @pytest.mark.parametrize("size", [3, 3_000])
    def test_a_page_is_two_operations_and_small(
        self, site: Site, admin: Visitor, monkeypatch: pytest.MonkeyPatch, size: int
    ) -> None:
        items = [NewItem(title="work", lane=f"issue:acme/application#{n}") for n in range(size)]
        for start in range(0, size, 1_000):
            service_of(site).add(items[start : start + 1_000])
        called: list[str] = []
        call = site.server.call

        async def counted(bearer: Any, name: str, given: dict[str, Any]) -> Any:
            called.append(json.dumps([name, given.get("limit")]))
            return await call(bearer, name, given)

        monkeypatch.setattr(site.server, "call", counted)
        seen = admin.get("/events?kind=item")
        assert called == ['["events", 1]', '["events", 51]']
        assert len(seen.text) < 60_000
