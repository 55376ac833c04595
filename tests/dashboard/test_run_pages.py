"""The runs: their chart and their table, the ranges, and how much the page reads."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from xml.etree import ElementTree

import pytest

from interlock.core.model import NewItem
from interlock.dashboard.charts.timeline import RunBar, TimeWindow, WaitSpan, timeline, timeline_row
from interlock.service.contract import Report
from tests.clock import Clock
from tests.dashboard.client import Seen, Site, Visitor
from tests.dashboard.fleet_scenes import BILLING, DAY, DOCS, EXPORT, HOSTILE, LOGIN, RIGHT_TO_LEFT, Fleet
from tests.dashboard.statements import statements_of

pytestmark = pytest.mark.usefixtures("clocked")
HOUR = TimeWindow(DAY, DAY + timedelta(hours=1), DAY + timedelta(hours=1))


def service_of(site: Site) -> Any:
    return site.server.service


def svg_of(seen: Seen) -> ElementTree.Element:
    found = re.search(r'<svg class="timeline".*?</svg>', seen.text, re.DOTALL)
    assert found, seen.words
    return ElementTree.fromstring(found[0])


def bars_of(seen: Seen) -> dict[int, ElementTree.Element]:
    """The bars of the chart by the number of their run."""
    bars = {}
    for link in svg_of(seen).iter("a"):
        (number,) = re.findall(r"run (\d+) ·", "".join(link.itertext()))
        bars[int(number)] = link
    return bars


def ran(service: Any, clock: Clock, count: int, *, agent: str = "coder", lane: str = "lane:") -> None:
    """As many runs, ten seconds each."""
    for n in range(count):
        service.add([NewItem(title="x", agent=agent, lane=f"{lane}{n % 50}")])
        (lease,) = service.next(agent)
        clock.advance(10)
        service.done([Report(run=lease.run)])


class TestChart:
    def at(self, minutes: float) -> Any:
        return DAY + timedelta(minutes=minutes)

    def bar(self, begin: float, end: float | None, outcome: str = "succeeded") -> RunBar:
        finish = None if end is None else self.at(end)
        return RunBar(self.at(begin), finish, outcome, "/items/1", ("run 1 · x", "y"))

    def test_overlapping_runs_stand_side_by_side(self) -> None:
        row = timeline_row([self.bar(0, 10), self.bar(5, 20), self.bar(10, 15), self.bar(12, None)], [], HOUR)
        assert [len(track) for track in row.tracks] == [2, 1, 1]

    def test_no_more_than_six_tracks_are_drawn(self) -> None:
        row = timeline_row([self.bar(n, None) for n in range(20)], [], HOUR)
        assert [len(track) for track in row.tracks] == [1, 1, 1, 1, 1, 15]

    def test_waits_that_touch_are_one(self) -> None:
        spans = [(30, 40), (0, 10), (5, 20)]
        row = timeline_row([], [WaitSpan(self.at(a), self.at(b)) for a, b in spans], HOUR)
        assert [(w.begin, w.end) for w in row.waits] == [
            (self.at(0), self.at(20)),
            (self.at(30), self.at(40)),
        ]

    def test_bars_are_cut_at_the_window_and_a_current_one_ends_now(self) -> None:
        window = HOUR._replace(now=self.at(30))
        bars = [self.bar(-10, 6), self.bar(15, None, "running"), self.bar(54, 90)]
        chart = ElementTree.fromstring(timeline([timeline_row(bars, [], window)], window, "x"))
        rects = [link.find("rect") for link in chart.iter("a")]
        assert [(r.get("x"), r.get("width")) for r in rects if r is not None] == [
            ("0.0%", "10.0%"),
            ("25.0%", "25.0%"),
            ("90.0%", "10.0%"),
        ]
        (now,) = [line for line in chart.iter("line") if line.get("class") == "now"]
        assert now.get("x1") == "50.0%"

    @pytest.mark.parametrize("minutes", [5, 15, 60, 360, 1_440, 100_000])
    def test_there_are_a_few_lines_of_time(self, minutes: int) -> None:
        window = TimeWindow(DAY, DAY + timedelta(minutes=minutes), DAY)
        chart = ElementTree.fromstring(timeline([timeline_row([], [], window)], window, "x"))
        lines = [line for line in chart.iter("line") if line.get("class") == "grid"]
        assert 2 <= len(lines) <= 8
        ticks = [text.text for text in chart.iter("text")]
        assert len(set(ticks)) == len(ticks)


class TestRuns:
    def test_without_a_run_the_page_says_so(self, admin: Visitor) -> None:
        assert "No run in this range." in admin.get("/runs").words
        assert "No run matches." in admin.get("/runs?agent=nobody").words

    def test_the_chart_shows_every_run_with_its_outcome_and_details(
        self, busy: Fleet, admin: Visitor
    ) -> None:
        seen = admin.get("/runs")
        bars = bars_of(seen)
        assert len(bars) == 13
        assert bars[busy.late.fence].get("class") == "lost"
        crashed = bars[busy.late.fence].find("rect")
        assert crashed is not None
        (mark,) = svg_of(seen).iter("use")
        end = float(crashed.get("x", "")[:-1]) + float(crashed.get("width", "")[:-1])
        assert float(mark.get("x", "")[:-1]) == pytest.approx(end, abs=0.02), "a mark where a run crashed"
        assert bars[busy.holder.fence].get("class") == "running"
        assert bars[busy.holder.fence].get("href") == f"/items/{busy.holder.item.id}"
        told = "".join(bars[busy.late.fence].itertext())
        assert "run 1 · lost · \u2068coder\u2069" in told
        assert "11:00:00 to 11:11:00, 11 min · item 1 · its lease expired" in told
        for outcome in ("7 succeeded", "1 failed", "1 lost", "1 cancelled", "2 released", "1 running"):
            assert outcome in seen.words

    def test_rows_are_lanes_or_agents(self, busy: Fleet, admin: Visitor) -> None:
        assert busy
        names = r'<li class="t(\d)"><a class="(?:lane|agent) name" dir="auto" href="[^"]*" title="([^"]*)"'
        lanes = {name: n for n, name in re.findall(names, admin.get("/runs").text)}
        assert list(lanes) == sorted(lanes)
        assert (lanes[LOGIN], lanes[DOCS]) == ("1", "2"), "runs of an observed lane overlap"
        agents = {name: n for n, name in re.findall(names, admin.get("/runs?rows=agents").text)}
        assert agents == {"coder": "2", "reviewer": "1", "triager": "1", "writer": "1"}

    def test_a_wait_is_drawn_before_its_run(self, busy: Fleet, admin: Visitor) -> None:
        assert busy
        seen = admin.get(f"/runs?lane={EXPORT.replace('#', '%23')}")
        assert "an item waits" in seen.words
        waits = [rect for rect in svg_of(seen).iter("rect") if rect.get("class") == "wait"]
        assert len(waits) == 1
        bar = bars_of(seen)[7].find("rect")
        assert bar is not None
        assert float(waits[0].get("x", "")[:-1]) + float(waits[0].get("width", "")[:-1]) == pytest.approx(
            float(bar.get("x", "")[:-1]), abs=0.02
        )

    def test_ranges_and_filters(self, busy: Fleet, admin: Visitor) -> None:
        assert busy
        for query, runs in (
            ("range=15m", [13, 12, 11, 10, 8]),
            ("range=24h&agent=reviewer", [10, 9, 5]),
            ("from=2027-03-01T11:12&to=2027-03-01T11:14", [4]),
            ("from=2027-03-01T11:12&to=2027-03-01T11:14:00%2B01:00", None),
            ("to=2027-03-01T11:05", [3, 2, 1]),
            (f"lane={BILLING.replace('#', '%23')}", [11, 6]),
        ):
            seen = admin.get(f"/runs?{query}")
            if runs is None:
                assert seen.status == 422
                continue
            assert sorted(bars_of(seen), reverse=True) == runs, query
            assert [int(n) for n in re.findall(r'<tr data-key="(\d+)"', seen.text)] == runs, query

    def test_more_runs_than_are_drawn_are_cut_and_the_page_says_so(
        self, site: Site, clock: Clock, admin: Visitor
    ) -> None:
        service = service_of(site)
        service.set_agent("coder")
        ran(service, clock, 170)
        seen = admin.get("/runs")
        assert sorted(bars_of(seen)) == [n for n in bars_of(seen) if n > 20] or len(bars_of(seen)) <= 150
        assert (
            "More than 150 runs: only those that started since 2027-03-01 11:03:20 UTC are shown."
            in seen.words
        )
        assert "20 more lanes had runs" in seen.words
        assert seen.text.count('<tr data-key="') == 25
        assert len(seen.text) < 60_000
        second = admin.get("/runs?page=2").text
        assert re.findall(r'<tr data-key="(\d+)"', second)[0] == "145"
        assert "page=7" not in admin.get("/runs?page=6").text

    def test_texts_are_texts(self, site: Site, clock: Clock, admin: Visitor) -> None:
        service = service_of(site)
        for agent in ("short", "a" * 200):
            service.set_agent(agent)
            service.add([NewItem(title=HOSTILE + RIGHT_TO_LEFT, agent=agent, lane="x" * 200)])
            (lease,) = service.next(agent)
            clock.advance(5)
            service.done([Report(run=lease.run)])
        for path in ("/runs", "/runs?rows=agents", f"/runs?agent={'a' * 200}"):
            seen = admin.get(path)
            assert seen.status == 200, seen.words
            assert HOSTILE not in seen.text
            assert "style=" not in seen.text
            assert svg_of(seen) is not None

    @pytest.mark.parametrize(
        "query",
        [
            "rows=x",
            "range=1y",
            "from=x",
            "page=x",
            "from=2027-01-02T00:00&to=2027-01-01T00:00",
            "to=0001-01-01T00:00",
            "from=9999-12-31T23:59%2B00:00",
            "from=2000-01-01T00:00&to=9999-01-01T00:00",
        ],
    )
    def test_a_wrong_parameter_is_a_sentence(self, admin: Visitor, query: str) -> None:
        assert admin.get(f"/runs?{query}").status in (400, 422)

    def test_a_window_of_two_hundred_years_is_shown(self, busy: Fleet, admin: Visitor) -> None:
        assert busy
        assert len(bars_of(admin.get("/runs?from=2000-01-01T00:00&to=2200-12-31T23:59"))) == 13

    def test_a_reader_sees_it_and_no_action(self, busy: Fleet, reader: Visitor) -> None:
        assert busy
        seen = reader.get("/runs")
        assert len(bars_of(seen)) == 13
        assert seen.forms() == []

    def test_it_is_unchanged_for_a_part_of_its_range(self, busy: Fleet, admin: Visitor, clock: Clock) -> None:
        assert busy
        clock.advance(20 - clock.now_us / 1e6 % 20)
        tag = admin.get("/runs").headers["etag"]
        clock.advance(10)
        assert admin.get("/runs", {"X-Fragments": "1", "If-None-Match": tag}).status == 304

    def test_statements_do_not_grow(self, site: Site, clock: Clock, admin: Visitor) -> None:
        service = service_of(site)
        service.set_agent("coder")
        ran(service, clock, 20)
        paths = ("/runs", "/runs?rows=agents&range=24h", "/runs?agent=coder", "/runs?to=2027-03-01T11:02")
        few = [statements_of(admin, path) for path in paths]
        ran(service, clock, 300)
        many = [statements_of(admin, path) for path in paths]
        assert many[:3] == few[:3]
        assert max(len(names) for names in many[:3]) <= 3
        assert len(many[3]) <= 22, "a window in the past is found by bisection"
