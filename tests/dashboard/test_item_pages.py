"""The items and one item: what their pages show, what one does there, and how much they read."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from interlock.core.model import EventKind, NewItem, Policy, Reason, RetryLane
from interlock.dashboard.reasons import WORDS
from interlock.dashboard.rendering import web_address
from interlock.http.execution import OperationRunner
from interlock.service.contract import ItemFilter, Report
from interlock.service.local import LocalService
from interlock.store.sqlite.database import SqliteDatabase
from interlock.store.sqlite.store import SqliteStore
from tests.clock import Clock
from tests.dashboard.client import Seen, Site, Visitor
from tests.dashboard.item_scenes import CODER, LANE, REVIEWER, Day, add, start


def service_of(site: Site) -> Any:
    return site.server.service


@pytest.fixture
def day(one_site: Site, tmp_path: Path) -> Iterator[Day]:
    """A day of a small fleet, on a clock that stands still after it."""
    clock = Clock()
    with closing(LocalService(SqliteStore(tmp_path / "day.db", now=clock), poll_s=0.05)) as service:
        made = Day(service, clock)
        one_site.serve(service)
        yield made
        one_site.leave()


@pytest.fixture
def visitor(day: Day, one_site: Site) -> Visitor:
    """A visitor with all rights, after the day."""
    assert one_site.server.service is day.service
    return one_site.visitor()


#: Numbers of events that no store of a test reaches.
_later = count(10**9)


def newest(visitor: Visitor, path: str) -> Seen:
    """A page that was drawn after the call, as of a browser that has heard of an event."""
    return visitor.get(path, {"X-Newest": str(next(_later))})


def listed(seen: Seen) -> list[int]:
    """The items of the rows, in order."""
    return [int(part.partition('"')[0]) for part in seen.text.split('<tr data-key="')[1:]]


class TestItems:
    def test_an_empty_store_names_the_command(self, admin: Visitor) -> None:
        seen = admin.get("/items")
        assert seen.status == 200
        assert "Nothing is waiting or running." in seen.words
        assert "interlock add" in seen.words
        assert "No item matches." in admin.get("/items?agent=nobody").words

    def test_tabs_filter_by_status_and_count(self, day: Day, visitor: Visitor) -> None:
        seen = visitor.get("/items")
        assert day.done not in listed(seen)
        assert listed(seen) == sorted(listed(seen), reverse=True), "the newest first"
        for said in ("Unfinished 15", "Asking 1", "Failed 1", "Absorbed 7", "All 25"):
            assert said in seen.words, said
        assert listed(visitor.get("/items?status=failed")) == [day.dead]
        assert listed(visitor.get("/items?status=asking")) == [day.asking]
        assert day.asking not in listed(visitor.get("/items?status=pending")), "what asks is not ready"
        absorbed = listed(visitor.get("/items?status=superseded&status=coalesced"))
        assert set(absorbed) == {*day.superseded, *day.absorbed}
        assert len(listed(visitor.get("/items?status=all"))) == 25

    def test_the_rows_say_why(self, day: Day, visitor: Visitor) -> None:
        words = visitor.get("/items?status=all").words
        for said in (
            "blocked by acme/api#7",
            "after 2 attempts: no attempts left",
            "Decided against it in the meeting",
            f"replaced by item {day.newest}",
            f"became a message of item {day.crashed}",
            "scheduled for later, due in 1 h 59 min",
        ):
            assert said in words, said
        assert "There are two login pages" in visitor.get("/items?status=asking").words

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ("agent=reviewer", lambda day: {day.waiting_behind, day.newest}),
            (f"lane={LANE.replace('#', '%23')}&agent=reviewer", lambda day: {day.waiting_behind}),
            ("type=docs", lambda day: {day.waiting_behind + 1}),
            ("project=default", lambda day: {day.rest[4]}),
            ("ci=failure", lambda day: {day.done}),
            ("text=INVOICES", lambda day: {day.rest[6]}),
            (
                "text=acme%2Fapp%2342&status=deferred",
                lambda day: {day.waiting_behind, day.waiting_behind + 1},
            ),
            ("text=https://github.com/acme/app/issues/31", lambda day: {day.done}),
        ],
    )
    def test_filters(self, day: Day, visitor: Visitor, query: str, found: Callable[[Day], set[int]]) -> None:
        assert set(listed(visitor.get(f"/items?{query}"))) == found(day)

    def test_a_number_leads_to_its_item_and_to_its_lane(self, day: Day, visitor: Visitor) -> None:
        service_of_day = day.service
        for n in range(17):
            add(service_of_day, f"More {n}")
        long = add(service_of_day, "Another number", lane="issue:acme/app#4242")
        for typed in ("42", "%2342"):
            seen = visitor.get(f"/items?text={typed}")
            assert '<p class="exact"><a class="item name" href="/items/42"' in seen.text
            assert {day.crashed, day.waiting_behind, *day.absorbed} <= {*listed(seen)}
            assert long not in listed(seen), "the digits are a part of a longer number"
        assert "exact" not in visitor.get("/items?text=99").text

    def test_a_dedupe_key_is_found(self, site: Site, admin: Visitor) -> None:
        one = add(service_of(site), "One", dedupe_key="delivery-7f3a")
        add(service_of(site), "Two", dedupe_key="delivery-9999")
        assert listed(admin.get("/items?text=7F3A")) == [one]

    def test_what_covers_only_the_newest_says_so(self, visitor: Visitor) -> None:
        assert (
            "The search covers the newest 10,000 items of each status." in visitor.get("/items?text=x").words
        )
        both = visitor.get("/items?text=x&label=gpu").words
        assert "The search and the filter by label cover the newest 10,000 items of each status." in both
        assert "newest 10,000 links to pull requests" in visitor.get("/items?ci=failure").words
        assert "10,000" not in visitor.get("/items?agent=coder&type=task").words

    def test_filters_stay_in_the_address_and_pages_follow(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        made = [add(service, f"Item {n}", agent=CODER, labels=("gpu",)) for n in range(70)]
        add(service, "Of another", agent=REVIEWER)
        first = admin.get("/items?agent=coder&label=gpu")
        assert listed(first) == made[:19:-1]
        address = f"/items?agent=coder&amp;label=gpu&amp;before={made[20]}"
        assert address in first.text
        second = admin.get(address.replace("&amp;", "&"))
        assert listed(second) == made[19::-1]
        assert 'rel="next"' not in second.text
        assert "/items?status=failed&amp;agent=coder&amp;label=gpu" in first.text, "a tab keeps the filters"
        assert 'href="/items?agent=coder"' in first.text, "the label's filter can be removed"
        assert 'name="label" value="gpu"' in first.text

    @pytest.mark.parametrize(
        "query",
        [
            "status=gone",
            "before=x",
            "agent=%00",
            "ci=maybe",
            "status=asking&ci=none",
            "status=asking&status=failed",
        ],
    )
    def test_a_wrong_parameter_is_a_sentence(self, admin: Visitor, query: str) -> None:
        seen = admin.get(f"/items?{query}")
        assert seen.status == 422
        assert "Traceback" not in seen.text

    def test_an_item_is_added(self, site: Site, admin: Visitor) -> None:
        form = admin.get("/items").form("add")
        answer = admin.do(
            form, title="Fix it", lane="issue:acme/app#1", agent="coder", priority="7", policy=""
        )
        assert answer.status == 303
        assert "Added item 1: admitted." in admin.get("/items").words
        (item,) = service_of(site).items(ItemFilter())
        assert (item.title, item.lane, item.priority) == ("Fix it", "issue:acme/app#1", 7)
        again = admin.get("/items").form("add")
        admin.do(again, title="Fix it too", lane="issue:acme/app#1", policy="reject")
        assert "Rejected: its lane is held by item 1." in admin.get("/items").words
        admin.do(
            admin.get("/items").form("add"),
            title="And",
            lane="issue:acme/app#1",
            agent="coder",
            policy="coalesce",
        )
        assert "Added item 3, which became a message of item 1." in admin.get("/items").words

    def test_readers_see_no_action(self, day: Day, one_site: Site) -> None:
        seen = one_site.visitor("read").get("/items")
        assert day.crashed in listed(seen)
        assert seen.forms() == []
        assert "checkbox" not in seen.text
        assert "Add an item" not in seen.words


class TestTogether:
    """Several items are changed by one form."""

    def send(self, visitor: Visitor, items: list[int], operation: str, **typed: str) -> Seen:
        form = next(form for form in visitor.get("/items?status=all").forms() if "operation" not in form)
        fields = {
            **form,
            "operation": operation,
            "item": items,
            **{f"a.{name}": text for name, text in typed.items()},
        }
        return visitor.post("/do", fields)

    def test_the_form_is_on_the_page(self, site: Site, admin: Visitor) -> None:
        one = add(service_of(site), "One")
        seen = admin.get("/items")
        assert f'name="item" value="{one}" form="bulk"' in seen.text
        for operation in ("edit", "retry", "msg", "cancel"):
            assert f'name="operation" value="{operation}"' in seen.text
        confirm = seen.text.partition('data-key="bulk-cancel"')[2].partition("</details>")[0]
        assert 'value="cancel"' in confirm, "a cancel is confirmed"

    def test_priorities_are_set_and_other_fields_left(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        made = [add(service, f"Item {n}") for n in range(3)]
        typed = {"edit.priority": "7", "msg.text": "ignored", "cancel.why": ""}
        assert self.send(admin, made[:2], "edit", **typed).status == 303
        assert [service.show(item).item.priority for item in made] == [7, 7, 0]
        assert [service.show(item).messages for item in made] == [(), (), ()]
        assert "Saved: 2 of 2 items." in admin.get("/items").words

    def test_what_one_refuses_does_not_stop_the_others(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        made = [add(service, f"Item {n}") for n in range(3)]
        service.cancel(made[1], why="gone")
        self.send(admin, made, "cancel", **{"cancel.why": "Not needed"})
        assert {service.show(item).item.status for item in made} == {"cancelled"}
        notice = admin.get("/items").words
        assert (
            "Cancelled or asked to stop: 2 of 3 items. 1 refused: Item 2 has already ended as cancelled."
            in notice
        )
        assert self.send(admin, made, "retry").status == 303
        assert {service.show(item).item.status for item in made} == {"pending"}
        assert self.send(admin, made, "msg", **{"msg.text": "Use the new API."}).status == 303
        assert [service.show(item).messages[0].text for item in made] == ["Use the new API."] * 3

    def test_at_most_200(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        (one,) = [add(service, "One")]
        refused = self.send(admin, list(range(one, one + 201)), "cancel", **{"cancel.why": "x"})
        assert refused.status == 422
        assert "Choose at most 200." in refused.words
        assert service.show(one).item.status == "pending"

    def test_a_reader_cannot_send_it(self, site: Site, admin: Visitor, reader: Visitor) -> None:
        one = add(service_of(site), "One")
        form = next(form for form in admin.get("/items").forms() if "operation" not in form)
        refused = reader.post("/do", {**form, "operation": "cancel", "item": [one], "a.cancel.why": "x"})
        assert refused.status == 403
        assert service_of(site).show(one).item.status == "pending"


class TestItem:
    def test_a_run_its_lease_its_fence_and_refused_late_writes(self, day: Day, visitor: Visitor) -> None:
        seen = visitor.get(f"/items/{day.crashed}")
        live, lost = (run.run for run in reversed(day.service.show(day.crashed).runs))
        assert f"Run {live} coder on coder@build-2" in seen.words
        assert "data-lease" in seen.text
        assert f"fence {live}" in seen.words
        assert f"Run {lost} lost" in seen.words
        assert "Late write refused: done" in seen.words
        assert f"A late “ done ” of run {lost} on item" in seen.words
        assert 'aria-label="2 runs since its arrival, 1 late write refused"' in seen.text
        assert f"refs/interlock/salvage/{lost}" in seen.words
        assert f"interlock log --follow {live}" in seen.words
        assert 'href="https://github.com/acme/app/issues/42"' in seen.text

    def test_messages_say_which_run_has_read_them(self, day: Day, visitor: Visitor) -> None:
        seen = visitor.get(f"/items/{day.crashed}").text.partition('class="thread"')[2].partition("</ol>")[0]
        rows = [Seen(200, {}, f"<{row}", []).words for row in seen.split("<li")[1:]]
        lost, live = (run.run for run in day.service.show(day.crashed).runs)
        assert "Customers were charged twice, see the log of 09:14." in rows[0]
        assert f"given to run {lost} read by run {live}" in rows[0]
        assert f"given to run {lost}" not in rows[1], "it came while that run worked"
        assert f"read by run {live}" in rows[2]
        assert f"from #{day.absorbed[0]} issue commented source" in rows[2]
        assert f"not read by run {live} yet" in rows[4]
        assert "ci system" in rows[5]
        assert f"given to run {live}, not confirmed" not in " ".join(rows)

    def test_what_a_run_was_given_and_has_not_confirmed(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        one = add(service, "One", message="Read me")
        lease = start(service, one)
        assert f"given to run {lease.fence}, not confirmed" in admin.get(f"/items/{one}").words
        service.renew([Report(run=lease.run, seen=1)])
        assert f"read by run {lease.fence}" in newest(admin, f"/items/{one}").words

    def test_many_inputs_become_one_run(self, day: Day, visitor: Visitor) -> None:
        seen = visitor.get(f"/items/{day.newest}")
        assert "4 items wait for one run" in seen.words
        assert "3 items became one run" in visitor.get(f"/items/{day.crashed}").words
        chain = seen.text.partition('class="chain"')[2].partition("</section>")[0]
        assert [f'href="/items/{each}"' in chain for each in day.superseded] == [True] * 4
        absorbed = visitor.get(f"/items/{day.absorbed[0]}")
        assert f"It became a part of item {day.crashed}" in absorbed.words
        first = (
            visitor.get(f"/items/{day.superseded[0]}")
            .text.partition('class="chain"')[2]
            .partition("</div>")[0]
        )
        assert [f'href="/items/{each}"' in first for each in day.superseded[1:3]] == [True, True]

    def test_the_line_of_its_lane(self, day: Day, visitor: Visitor) -> None:
        seen = visitor.get(f"/items/{day.waiting_behind}")
        line = seen.text.partition('class="lane-line"')[2].partition("</ol>")[0]
        keys = [int(part.partition('"')[0]) for part in line.split('data-key="l-')[1:]]
        assert keys == [day.crashed, day.waiting_behind, day.waiting_behind + 1]
        assert f'data-key="l-{day.waiting_behind}" aria-current="true"' in line

    def test_a_question_is_answered(self, day: Day, visitor: Visitor) -> None:
        seen = visitor.get(f"/items/{day.asking}")
        assert "asks" in seen.words
        assert "There are two login pages, /login and /signin." in seen.words
        assert seen.text.count('name="operation" value="msg"') == 1, "one box for the answer"
        assert "It is retried when a person answers" in seen.words
        assert visitor.do(seen.form("msg"), text="Keep /signin.").status == 303
        shown = day.service.show(day.asking)
        assert (shown.item.asking, shown.item.status) == (False, "pending")
        assert (shown.messages[-1].text, shown.messages[-1].author) == ("Keep /signin.", "test")

    def test_an_agent_writes_under_its_own_name_and_answers_no_question(
        self, day: Day, one_site: Site
    ) -> None:
        coder = one_site.visitor("agent:coder")
        coder.do(coder.get(f"/items/{day.asking}").form("msg"), text="I would keep /login.")
        shown = day.service.show(day.asking)
        assert shown.item.asking, "only a person answers"
        assert (shown.messages[-1].author, shown.messages[-1].sender) == ("coder", "agent")

    def test_a_failure_shows_its_output_and_is_retried(self, day: Day, visitor: Visitor) -> None:
        seen = visitor.get(f"/items/{day.dead}")
        assert "assert 812 < 400" in seen.words
        assert [form["operation"] for form in seen.forms()] == ["retry"], "no second button"
        assert "Give it another attempt" in seen.words
        visitor.do(seen.form("retry"))
        assert day.service.show(day.dead).item.status == "pending"

    def test_a_pull_request_and_its_checks(self, day: Day, visitor: Visitor) -> None:
        seen = visitor.get(f"/items/{day.done}")
        for said in ("acme/app#88 open checks: failure", "build (macos) failed", "opened pull request #88"):
            assert said in seen.words, said
        assert 'href="https://github.com/acme/app/actions/runs/9"' in seen.text

    def test_cancel_take_back_and_reply(self, day: Day, visitor: Visitor) -> None:
        path, service = f"/items/{day.crashed}", day.service
        visitor.do(visitor.get(path).form("msg"), text="How far are you?")
        assert service.show(day.crashed).messages[-1].text == "How far are you?"
        taken = visitor.get(path).form("take_back")
        visitor.do(taken, why="Its machine is gone")
        shown = service.show(day.crashed)
        assert shown.item.status == "pending"
        assert "by test : Its machine is gone" in visitor.get(path).words
        visitor.do(visitor.get(path).form("cancel"), why="Enough")
        assert service.show(day.crashed).item.status == "cancelled"
        assert "was cancelled by test : Enough" in visitor.get(path).words

    def test_an_external_run_is_ended(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        service.set_agent(CODER)
        one = add(service, "Outside", agent=CODER)
        (lease,) = service.next(CODER, item=one, external=True)
        seen = admin.get(f"/items/{one}")
        assert "it has no lease" in seen.words
        form = seen.form("end_external")
        assert json.loads(form["arguments"])["run"] == lease.fence
        admin.do(form, outcome="done", why="Its pull request was merged")
        shown = service.show(one)
        assert shown.item.status == "completed"
        (ended,) = [event for event in shown.events if event.kind == EventKind.RUN_SUCCEEDED]
        assert ended.data["by"] == "test", "the operator's name is in the history"

    def test_block_and_unblock(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        one = add(service, "One")
        path = f"/items/{one}"
        admin.do(
            admin.get(path).form("block"), blocker="acme/api#7", why="Needs it", url="https://example.org/7"
        )
        seen = admin.get(path)
        assert "blocked by acme/api#7 (Needs it" in seen.words
        assert 'href="https://example.org/7"' in seen.text
        assert len([form for form in seen.forms() if form["operation"] == "unblock"]) == 1
        admin.do(seen.form("unblock"))
        assert service.blocks() == []

    def test_two_people_edit_at_once(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        one = add(service, "One")
        path, ben = f"/items/{one}", site.visitor()
        of_anna, of_ben = admin.get(path).form("edit"), ben.get(path).form("edit")
        assert admin.do(of_anna, title="One", priority="5").status == 303
        refused = ben.do(of_ben, title="One", priority="9")
        assert refused.status == 412
        assert "Item 1 has changed since you read it." in refused.words
        assert f'href="{path}"' in refused.text, "what helps leads to the item as it is now"
        assert service.show(one).item.priority == 5
        assert ben.do(ben.get(path).form("edit"), title="One", priority="9").status == 303
        assert service.show(one).item.priority == 9

    def test_two_people_cancel_or_retry_at_once(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        one = add(service, "One")
        path, ben = f"/items/{one}", site.visitor()
        of_anna, of_ben = admin.get(path).form("cancel"), ben.get(path).form("cancel")
        admin.do(of_anna, why="Not needed")
        refused = ben.do(of_ben, why="Not needed")
        assert refused.status == 409
        assert "Item 1 has already ended as cancelled." in refused.words
        of_anna, of_ben = admin.get(path).form("retry"), ben.get(path).form("retry")
        admin.do(of_anna)
        assert "Item 1 is pending and cannot be retried." in ben.do(of_ben).words

    def test_two_people_take_back_at_once(self, site: Site, admin: Visitor) -> None:
        """The second does not take the item from the run that has started meanwhile."""
        service = service_of(site)
        service.set_agent(CODER)
        one = add(service, "One")
        lost = start(service, one)
        path, ben = f"/items/{one}", site.visitor()
        of_anna, of_ben = admin.get(path).form("take_back"), ben.get(path).form("take_back")
        assert admin.do(of_anna, why="Its machine is gone").status == 303
        lease = start(service, one)
        refused = ben.do(of_ben, why="Its machine is gone")
        assert refused.status == 412
        sentence = f"Run {lost.fence} is not the current run of item 1, which has run {lease.fence}."
        assert sentence in refused.words
        assert service.show(one).item.run == lease.fence

    def test_only_what_can_be_changed_has_a_form(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        one = add(service, "One")
        admin.do(
            admin.get(f"/items/{one}").form("edit"), title="Two", agent="coder", priority="3", run_at="+2h"
        )
        shown = service.show(one).item
        assert (shown.title, shown.agent, shown.priority, shown.status) == ("Two", "coder", 3, "waiting")
        assert "was edited by test : title Two" in admin.get(f"/items/{one}").words
        other = add(service, "Other")
        service.set_agent(CODER)
        start(service, other)
        assert "edit" not in [form["operation"] for form in admin.get(f"/items/{other}").forms()]

    def test_a_claim_is_no_button(self, site: Site, admin: Visitor) -> None:
        """A run that a button started would have nobody who works on it."""
        service = service_of(site)
        one = add(service, "One")
        assert [cure.operation for cure in service.show(one).cures] == ["next"]
        assert "next" not in [form["operation"] for form in admin.get(f"/items/{one}").forms()]

    def test_readers_see_no_action_and_agents_only_theirs(self, day: Day, one_site: Site) -> None:
        reader, coder = one_site.visitor("read"), one_site.visitor("agent:coder")
        for item in (day.crashed, day.asking, day.dead, day.rest[2]):
            seen = reader.get(f"/items/{item}")
            assert seen.status == 200
            assert seen.forms() == []
        allowed = {form["operation"] for form in coder.get(f"/items/{day.crashed}").forms()}
        assert allowed == {"msg", "cancel"}

    def test_a_long_message_is_cut_and_shown_in_full(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        one = add(service, "One", message="a long text " * 1_000 + "THE END")
        for n in range(30):
            service.msg(one, f"message number {n}")
        seen = admin.get(f"/items/{one}")
        assert len(seen.text) < 60_000
        assert "message number 29" in seen.words
        assert "Show 11 others" in seen.words
        everything = admin.get(f"/items/{one}?messages=all")
        assert "message number 0" in everything.words
        assert "THE END" not in everything.words
        assert "Show all of it: 10,507 more characters" in everything.words
        assert "THE END" in admin.get(f"/items/{one}?messages=1").words

    @pytest.mark.parametrize("path", ["/items/x", "/items/99999", "/items/0", "/items/%2e%2e"])
    def test_a_wrong_address_is_a_sentence(self, admin: Visitor, path: str) -> None:
        assert admin.get(path).status in (404, 422)

    def test_it_is_unchanged_until_something_happens(self, day: Day, visitor: Visitor) -> None:
        for path in ("/items", f"/items/{day.crashed}", f"/items/{day.asking}"):
            tag = visitor.get(path).headers["etag"]
            asked = {"X-Fragments": "1", "If-None-Match": tag}
            assert visitor.get(path, asked).status == 304
        day.clock.advance(5)  # ages and the rest of a lease tick in the browser
        assert visitor.get("/items", asked).status == 200
        path = f"/items/{day.asking}"
        tag = visitor.get(path).headers["etag"]
        day.service.msg(day.asking, "Wait")
        assert (
            visitor.get(path, {"X-Fragments": "1", "If-None-Match": tag, "X-Newest": "999999"}).status == 200
        )


class TestCosts:
    """How many operations a page performs, whatever the number of items."""

    @pytest.mark.parametrize("items", [1, 300])
    def test_a_page_is_a_bounded_number_of_operations(
        self, site: Site, admin: Visitor, monkeypatch: pytest.MonkeyPatch, items: int
    ) -> None:
        service = service_of(site)
        service.set_agent(CODER)
        for _ in range(items):
            service.add([NewItem(title="One", lane="issue:a/b#1", agent=CODER, policy=Policy.QUEUE)])
        assert self._calls(site, admin, monkeypatch, "/items") == ["items", "stats"]
        assert self._calls(site, admin, monkeypatch, "/items?text=%231") == ["items", "items"]
        assert self._calls(site, admin, monkeypatch, "/items/1") == ["show"]

    def test_a_page_is_a_bounded_number_of_statements(
        self, site: Site, admin: Visitor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        service = service_of(site)
        service.set_agent(CODER)
        one = add(
            service,
            "One",
            agent=CODER,
            lane=LANE,
            message="First",
            max_attempts=50,
            retry_lane=RetryLane.KEEP,
        )
        service.fail([Report(run=start(service, one).run)])
        add(service, "Coalesced", agent=CODER, lane=LANE, policy=Policy.COALESCE, message="Second")
        add(service, "Behind", agent=REVIEWER, lane=LANE)
        paths = ("/items", "/items?agent=coder", "/items?text=42", f"/items/{one}")
        few = [self._statements(admin, monkeypatch, path) for path in paths]
        for n in range(20):
            service.fail([Report(run=start(service, one).run)])
            for _ in range(4):
                add(service, f"More {n}", agent=CODER, lane=LANE, policy=Policy.COALESCE, message="More")
                add(service, f"Behind {n}", agent=REVIEWER, lane=LANE)
        assert few == [self._statements(admin, monkeypatch, path) for path in paths]
        assert 0 < min(map(len, few)) < max(map(len, few)) < 40

    def _statements(self, admin: Visitor, monkeypatch: pytest.MonkeyPatch, path: str) -> list[str]:
        """The statements of the operations of a page; the server also reads for its event streams."""
        named: list[str] = []
        thread = threading.local()
        carry_out, rows = OperationRunner._carry_out, SqliteDatabase.rows

        def noted(runner: OperationRunner, call: Any) -> Any:
            thread.counts = True
            try:
                return carry_out(runner, call)
            finally:
                thread.counts = False

        def counted(database: SqliteDatabase, name: str, /, **params: Any) -> list[Any]:
            if getattr(thread, "counts", False):
                named.append(name)
            return rows(database, name, **params)

        with monkeypatch.context() as patch:
            patch.setattr(OperationRunner, "_carry_out", noted)
            patch.setattr(SqliteDatabase, "rows", counted)
            assert newest(admin, path).status == 200
        return named

    def test_a_page_of_fifty_rows_is_small(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        title, lane = "A title of a usual length for an issue " * 2, "issue:acme/a-usual-repository#1234"
        service.add([NewItem(title=title, lane=lane, agent=CODER, priority=n) for n in range(60)])
        for n in range(60):
            service.msg(1, f"A message {n} " * 10)
        assert len(admin.get("/items").text) < 60_000
        assert len(admin.get("/items/1").text) < 60_000

    def _calls(self, site: Site, admin: Visitor, monkeypatch: pytest.MonkeyPatch, path: str) -> list[str]:
        called: list[str] = []
        call = site.server.call

        async def counted(bearer: Any, name: str, given: dict[str, Any]) -> Any:
            called.append(name)
            return await call(bearer, name, given)

        with monkeypatch.context() as patch:
            patch.setattr(site.server, "call", counted)
            assert admin.get(path).status == 200
        return called


class TestWords:
    def test_every_reason_has_words(self) -> None:
        assert set(WORDS) == {*Reason}

    @pytest.mark.parametrize(
        "text",
        [
            "javascript:alert(1)",
            "JAVASCRIPT:alert(1)",
            " https://x",
            "https:///\\evil",
            "data:text/html,x",
            "//evil",
            "https://a b",
            "",
            "https://",
        ],
    )
    def test_no_other_address_is_a_link(self, text: str) -> None:
        assert not web_address(text)


def test_an_address_without_a_number_is_not_found(admin: Visitor) -> None:
    seen = admin.get("/items/new")
    assert seen.status == 404
    assert "There is no item 'new'." in seen.words
