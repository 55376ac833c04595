"""The lanes and one lane: what their pages show, how they are searched, and how much they read."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest

from interlock.core.model import NewItem
from tests.clock import Clock
from tests.dashboard.client import Seen, Site, Visitor
from tests.dashboard.fleet_scenes import (
    DOCS,
    HOSTILE,
    LOGIN,
    PULL,
    RIGHT_TO_LEFT,
    Fleet,
    many_lanes,
)
from tests.dashboard.statements import statements_of


def service_of(site: Site) -> Any:
    return site.server.service


def next_of(seen: Seen) -> str:
    """The address behind the link to the next page."""
    found = re.search(r'href="([^"]*)" rel="next"', seen.text)
    return "" if found is None else html.unescape(found[1])


def at(lane: str) -> str:
    return f"/lane?name={lane.replace('#', '%23')}"


pytestmark = pytest.mark.usefixtures("clocked")


class TestLanes:
    def test_without_a_held_lane_the_page_names_the_command(self, admin: Visitor) -> None:
        seen = admin.get("/lanes")
        assert seen.status == 200
        assert "No lane is held." in seen.words
        assert "interlock add" in seen.words

    def test_a_row_has_holder_fence_agent_lease_and_line(self, busy: Fleet, admin: Visitor) -> None:
        words = admin.get("/lanes").words
        run, item = busy.holder.fence, busy.holder.item.id
        assert f"{LOGIN} running #{item} Login fails on Safari" in words
        assert f"run\u00a0{run} coder in 9 min 4 55 min ago" in words
        assert "issue:acme/search#7 asking" in words
        assert f"{PULL} blocked not started" in words

    @pytest.mark.parametrize("number", ["42", "%2342"])
    def test_a_number_finds_the_lanes_of_that_issue(self, site: Site, admin: Visitor, number: str) -> None:
        lanes = ["issue:acme/app#42", "issue:acme/lib#42", "issue:acme/lib#420", "pr:acme/app#42"]
        service_of(site).add([NewItem(title="x", lane=lane) for lane in lanes])
        words = admin.get(f"/lanes?q={number}").words
        assert [lane for lane in lanes if f"{lane} not started" in words] == [lanes[0], lanes[1], lanes[3]]

    @pytest.mark.parametrize(
        "asked",
        [
            "issue:acme/app%234",
            "ACME/app%2342",
            "https://github.com/acme/app/issues/42%23issuecomment-7",
        ],
    )
    def test_a_beginning_or_an_address_finds_a_lane(self, site: Site, admin: Visitor, asked: str) -> None:
        service_of(site).add([NewItem(title="x", lane=lane) for lane in (LOGIN, "issue:acme/app#7", PULL)])
        words = admin.get(f"/lanes?q={asked}").words
        assert LOGIN in words
        assert "issue:acme/app#7" not in words

    def test_filters_by_state_and_agent(self, busy: Fleet, admin: Visitor) -> None:
        assert busy
        for query, found in (
            ("state=running", [LOGIN]),
            ("state=waiting", [LOGIN]),
            ("state=asking", ["issue:acme/search#7"]),
            ("state=silent", []),
            ("agent=REVIEWER", [PULL]),
            ("state=running&agent=writer", []),
        ):
            words = admin.get(f"/lanes?{query}").words
            assert [x for x in (LOGIN, "issue:acme/search#7", PULL) if f"{x} " in words] == found, query

    def test_an_expired_lease_is_no_running_holder(self, busy: Fleet, clock: Clock, admin: Visitor) -> None:
        assert busy
        clock.advance(1_000)
        assert f"{LOGIN} lease expired" in admin.get("/lanes?state=silent").words
        seen = admin.get(at(LOGIN)).words
        assert f"The lease has expired. The next sweep ends run {busy.holder.fence}" in seen

    def test_pages_follow_each_other(self, site: Site, admin: Visitor) -> None:
        many_lanes(service_of(site), 120)
        rows, path = [], "/lanes"
        for _ in range(3):
            seen = admin.get(path)
            rows += re.findall(r'<tr data-key="([^"]*)"', seen.text)
            path = next_of(seen)
        assert path == ""
        assert len(rows) == len(set(rows)) == 120
        assert rows == sorted(rows)

    def test_a_filter_looks_through_a_part_of_the_lanes_and_says_so(self, site: Site, admin: Visitor) -> None:
        many_lanes(service_of(site), 700)
        service_of(site).add([NewItem(title="x", lane="z", agent="zoe")])
        first = admin.get("/lanes?agent=zoe")
        assert "Looked through 500 lanes, up to issue:acme/a#" in first.words.replace("b#", "a#")
        assert "z not started" in admin.get(next_of(first)).words

    def test_texts_are_texts(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        long = "x" * 200
        service.add([NewItem(title=title, lane=long) for title in (HOSTILE, RIGHT_TO_LEFT)])
        service.block(lane=long, blocker=HOSTILE, why=HOSTILE, url="https://x.org/")
        for path in ("/lanes", f"/lane?name={long}"):
            seen = admin.get(path)
            assert seen.status == 200, seen.words
            assert HOSTILE not in seen.text
            assert "style=" not in seen.text

    @pytest.mark.parametrize("path", ["/lanes?state=gone", "/lane", "/lane?name=%00", "/lanes?q=%00"])
    def test_a_wrong_address_is_a_sentence(self, admin: Visitor, path: str) -> None:
        assert admin.get(path).status in (400, 404, 422)


class TestLane:
    def test_it_shows_the_holder_and_who_moves_next(self, busy: Fleet, admin: Visitor) -> None:
        words = admin.get(at(LOGIN)).words
        run, item = busy.holder.fence, busy.holder.item.id
        assert f"Holder #{item} Login fails on Safari" in words
        assert f"Fence run\u00a0{run} Lease left in 9 min" in words
        assert f"is next in line on lane {LOGIN}, held by run {run} of coder" in words
        assert [f"#{item}" in words for item in busy.waiting] == [True] * 3
        assert words.index(f"#{busy.waiting[0]}") < words.index(f"#{busy.waiting[2]}")

    def test_it_shows_transfers_and_a_refused_late_write(self, busy: Fleet, admin: Visitor) -> None:
        words = admin.get(at(LOGIN)).words
        assert "coder #13" in words
        assert "from reviewer , 27 min without a run still holds it running" in words
        assert f"run\u00a0{busy.late.fence} coder #1 55 min ago 11 min lost its lease expired" in words
        assert "of run 1 on item #1 was refused. Why: the run had lost its lease." in words

    def test_it_shows_what_only_observed_runs_did_side_by_side(self, busy: Fleet, admin: Visitor) -> None:
        assert busy
        words = admin.get(at(DOCS)).words
        assert "overlaps run" in words
        assert (
            "which is only observed. Conflict: Enforce mode would have queued it behind the holder." in words
        )
        assert "Nobody holds this lane, and no item waits for it." in words

    def test_it_is_blocked_and_unblocked(self, busy: Fleet, site: Site, admin: Visitor) -> None:
        assert busy
        seen = admin.get(at(PULL))
        assert "by acme/app#57 The export comes first." in seen.words
        assert admin.do(seen.form("unblock")).status == 303
        assert service_of(site).blocks(lane=PULL) == []
        form = admin.get(at(PULL)).form("block")
        assert admin.do(form, blocker="acme/app#9", why="Wait for the design.").status == 303
        (block,) = service_of(site).blocks(lane=PULL)
        assert (block.blocker, block.reason) == ("acme/app#9", "Wait for the design.")
        assert "Wait for the design." in admin.get(at(PULL)).words

    def test_a_holder_is_cancelled(self, busy: Fleet, site: Site, admin: Visitor) -> None:
        seen = admin.get(at(LOGIN))
        assert admin.do(seen.form("cancel"), why="Not needed.").status == 303
        assert service_of(site).show(busy.holder.item.id).item.cancel_requested
        assert f"Run {busy.holder.fence} is asked to stop." in admin.get(at(LOGIN)).words

    def test_a_lane_and_its_series_show_their_gates(self, site: Site, admin: Visitor) -> None:
        service, series = service_of(site), "series:acme/app/RFC-1"
        service.set_gate(LOGIN, series=series, open=False, exempt=["review"], why="It is not its turn.")
        assert "can start" not in admin.get(at(LOGIN)).words
        service.add([NewItem(title="x", lane=LOGIN)])
        words = admin.get(f"{at(LOGIN)}&now=1").words
        assert f"The gate of {series} is shut" in words
        assert "Only items of review start here." in words
        assert f"{LOGIN} shut" in admin.get(f"/lane?name={series}").words

    def test_the_lane_of_a_plan_leads_to_it_and_is_not_blocked(self, admin: Visitor) -> None:
        seen = admin.get("/lane?name=plan:7")
        assert 'href="/plans/7"' in seen.text
        assert seen.forms() == []
        assert admin.get("/lane?name=plan:%C2%B2").status == 422

    def test_a_reader_sees_no_action(self, busy: Fleet, reader: Visitor, coder: Visitor) -> None:
        assert busy
        for visitor in (reader, coder):
            for path in ("/lanes", at(LOGIN), at(PULL)):
                seen = visitor.get(path)
                assert seen.status == 200
                allowed = {"cancel", "msg"} if visitor is coder else set()
                assert {form["operation"] for form in seen.forms()} <= allowed

    def test_it_is_unchanged_until_something_happens(self, busy: Fleet, admin: Visitor, clock: Clock) -> None:
        assert busy
        for path in ("/lanes", at(LOGIN)):
            tag = admin.get(path).headers["etag"]
            clock.advance(1)
            assert admin.get(path, {"X-Fragments": "1", "If-None-Match": tag}).status == 304


class TestCosts:
    @pytest.mark.parametrize("path", ["/lanes", "/lanes?q=42", "/lanes?state=waiting", at("issue:acme/a#42")])
    def test_statements_do_not_grow_with_the_store(self, site: Site, admin: Visitor, path: str) -> None:
        service = service_of(site)
        many_lanes(service, 60)
        few = statements_of(admin, path)
        many_lanes(service, 3_000, first=60)
        assert statements_of(admin, path) == few
        assert 0 < len(few) < 40, few

    def test_a_page_of_long_names_is_small(self, site: Site, admin: Visitor) -> None:
        service = service_of(site)
        service.add([NewItem(title="A title " * 6, lane=f"{'long' * 20}#{n}") for n in range(60)])
        assert len(admin.get("/lanes").text) < 60_000
