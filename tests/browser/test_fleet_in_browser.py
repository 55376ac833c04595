"""Lanes, runs and agents in a real browser: live, by keyboard and pointer, without scripts, in each theme."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from interlock.core.model import NewItem
from interlock.service.contract import Report
from tests.browser.chromium import PHONE, Browsing, serious
from tests.clock import Clock
from tests.dashboard.fleet_scenes import LOGIN, Fleet, fleet, many_lanes

THEMES: list[dict[str, Any]] = [
    {"color_scheme": "light"},
    {"color_scheme": "dark"},
    {"color_scheme": "light", "viewport": PHONE},
]
LANE = f"/lane?name={LOGIN.replace('#', '%23')}"
pytestmark = pytest.mark.usefixtures("clocked")


@pytest.fixture
def busy(browser: Browsing, clock: Clock) -> Fleet:
    return fleet(browser.site.server.service, clock)


def stir(browser: Browsing) -> Any:
    """Tell pages that something has happened; gives the service."""
    browser.site.server.signals.signal()
    return browser.site.server.service


def live(browser: Browsing, path: str) -> Page:
    page = browser.signed_in(path=path)
    expect(page.locator("#live")).to_have_text("Live")
    page.evaluate("window.same = true")
    return page


def test_a_lane_passes_on_without_a_reload(browser: Browsing, busy: Fleet) -> None:
    page = live(browser, LANE)
    holder, line = page.locator("#holder"), page.locator("#line")
    expect(holder).to_contain_text(f"run\u00a0{busy.holder.fence}")
    expect(line).to_contain_text(f"held by run {busy.holder.fence} of coder")
    service = stir(browser)
    service.done([Report(run=busy.holder.run)])
    stir(browser)
    expect(holder).to_contain_text("none until it starts")
    service.add([NewItem(title="One more for the line", lane=LOGIN, agent="writer")])
    stir(browser)
    expect(line).to_contain_text("One more for the line")
    assert page.evaluate("window.same"), "the page was not loaded again"


def test_lanes_come_and_go_without_a_reload(browser: Browsing, busy: Fleet) -> None:
    assert busy
    page = live(browser, "/lanes")
    row = page.locator("tr", has_text="issue:acme/new#1")
    expect(row).to_have_count(0)
    service = stir(browser)
    (added,) = service.add([NewItem(title="Newly here", lane="issue:acme/new#1", agent="writer")])
    stir(browser)
    expect(row).to_contain_text("not started")
    (lease,) = service.next("writer", item=added.item.id)
    stir(browser)
    expect(row).to_contain_text("running")
    service.done([Report(run=lease.run)])
    stir(browser)
    expect(row).to_have_count(0)
    assert page.evaluate("window.same"), "the page was not loaded again"


def shown(bar: Locator) -> bool:
    """Whether the details of a bar can be seen."""
    return bool(bar.locator("text").evaluate("node => getComputedStyle(node).opacity") == "1")


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_hover_and_focus_show_the_details_of_a_run(
    browse: Callable[..., Browsing], clock: Clock, scripts: bool
) -> None:
    browser = browse(java_script_enabled=scripts)
    fleet(browser.site.server.service, clock)
    page = browser.signed_in(path="/runs")
    bars, hint = page.locator(".timeline a"), page.locator(".hint-line")
    expect(bars).to_have_count(13)
    first, lost = bars.nth(1), page.locator(".timeline a.lost")
    expect(hint).to_be_visible()
    assert not shown(lost)
    lost.locator("rect").hover()
    assert shown(lost)
    expect(lost).to_contain_text("11:00:00 to 11:11:00, 11 min · item 1 · its lease expired")
    expect(hint).to_be_hidden()
    page.mouse.move(0, 0)
    assert not shown(lost)
    page.get_by_role("button", name="Show").focus()
    for _ in range(60):
        page.keyboard.press("Tab")
        if first.evaluate("node => node === document.activeElement"):
            break
    assert shown(first)
    assert not shown(lost)
    box, above = first.locator("text").bounding_box(), page.locator(".timeline .tick").first.bounding_box()
    assert box is not None
    assert above is not None
    assert box["y"] + box["height"] <= above["y"] + 2, "the details cover no bar and no time"
    page.keyboard.press("Enter")
    page.wait_for_url("**/items/*")


def test_a_run_appears_on_the_chart_without_a_reload(browser: Browsing, busy: Fleet) -> None:
    assert busy
    page = live(browser, "/runs?rows=agents")
    running = page.locator(".timeline a.running")
    expect(running).to_have_count(1)
    service = stir(browser)
    service.add([NewItem(title="x", agent="writer")])
    (lease,) = service.next("writer")
    stir(browser)
    expect(running).to_have_count(2)
    service.done([Report(run=lease.run)])
    stir(browser)
    expect(running).to_have_count(1)
    assert page.evaluate("window.same"), "the page was not loaded again"


def test_an_agent_is_drained_and_resumed_by_keyboard(browser: Browsing, busy: Fleet) -> None:
    assert busy
    page = live(browser, "/agents?agent=coder")
    page.locator("summary", has_text="Pause").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("Deployment")
    page.keyboard.press("Enter")
    expect(page.locator("#agent")).to_contain_text("Paused: Deployment. 1 run continues")
    page.get_by_role("button", name="Resume").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#agent")).to_contain_text("working")
    expect(page.get_by_role("status").filter(has_text="Agent resumed.")).to_be_visible()


def test_lanes_are_found_without_scripts(browse: Callable[..., Browsing], clock: Clock) -> None:
    browser = browse(java_script_enabled=False)
    service: Any = browser.site.server.service
    many_lanes(service, 120)
    clock.advance(1)
    page = browser.signed_in(path="/lanes")
    page.get_by_role("link", name="More lanes").click()
    expect(page.locator("tbody tr")).to_have_count(50)
    page.get_by_label("Lane, or number of an issue").fill("#42")
    page.keyboard.press("Enter")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("link", name="issue:acme/a#42").click()
    expect(page.get_by_role("heading", name="issue:acme/a#42")).to_be_visible()


@pytest.mark.parametrize("theme", THEMES, ids=["light", "dark", "phone"])
def test_accessible(browse: Callable[..., Browsing], clock: Clock, theme: dict[str, Any]) -> None:
    browser = browse(bypass_csp=True, **theme)  # axe is a text that the test evaluates
    service: Any = browser.site.server.service
    fleet(service, clock)
    long = f"issue:acme/{'a-long-name-' * 14}#7"
    service.add([NewItem(title="A long title " * 15, lane=long, agent="coder") for _ in range(2)])
    service.next("coder")
    service.block(lane=long, blocker="b" * 200, why="w" * 300, url=f"https://example.org/{'u' * 300}")
    page = browser.signed_in()
    found: list[str] = []
    paths = ("/lanes", LANE, f"/lane?name={long.replace('#', '%23')}", "/runs", "/runs?rows=agents")
    for path in (*paths, "/agents", "/agents?agent=coder", "/agents?agent=codr", "/agents?agent=reviewer"):
        page.goto(path)
        page.wait_for_load_state()
        found += [f"{path}: {each}" for each in serious(Axe().run(page).response["violations"])]
        if not page.evaluate("document.documentElement.scrollWidth <= innerWidth"):
            found.append(f"{path}: it is wider than the screen")
    assert found == []
