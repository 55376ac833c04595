"""Every page on a full store in a real browser: in light, in dark, on a phone and by keyboard.

Any message on the console, any violation of the content security policy and any request to another host fails
the test that met it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from interlock.dashboard.pages import ROUTES
from tests.browser.chromium import PHONE, Browsing, serious
from tests.dashboard.client import Site
from tests.dashboard.whole_scene import WholeScene, whole_site

THEMES: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"color_scheme": "light", "viewport": PHONE},
}
#: What can take the focus: links, buttons, fields, and what scrolls.
FOCUSABLE = (
    "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex]:not([tabindex='-1'])"
)
#: Open what can be opened, and remember which of them get the focus.
RECORD = """(selector) => {
  document.querySelectorAll("details").forEach((each) => { each.open = true; });
  const seen = (each) => each.checkVisibility() && !each.disabled;
  window.wanted = [...document.querySelectorAll(selector)].filter(seen);
  window.reached = new Set();
  addEventListener("focusin", (event) => window.reached.add(event.target));
  return window.wanted.length;
}"""
#: A group of radio buttons is one stop.
MISSED = """() => window.wanted
  .filter((each) => !window.reached.has(each) && each.type !== "radio")
  .map((each) => each.outerHTML.slice(0, 160))"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, WholeScene]]:
    """No test here changes it."""
    with whole_site(tmp_path_factory.mktemp("whole") / "interlock.db") as made:
        yield made


@pytest.fixture(scope="module")
def signed_in(chromium: Browser, whole: tuple[Site, WholeScene]) -> Iterator[Callable[..., Browsing]]:
    """A signed-in browser of each theme, kept for all tests."""
    kept: dict[str, Browsing] = {}

    def browsing(theme: str, **options: Any) -> Browsing:
        name = f"{theme} {options}"
        if name not in kept:
            kept[name] = Browsing(chromium, whole[0], **THEMES[theme], **options)
            kept[name].signed_in().close()
        return kept[name]

    yield browsing
    for each in kept.values():
        each.context.close()


@pytest.fixture
def visit(
    signed_in: Callable[..., Browsing], whole: tuple[Site, WholeScene]
) -> Iterator[Callable[..., Page]]:
    """Opens a page in a theme; the test fails on what it must not do."""
    opened: list[tuple[Browsing, Page]] = []

    def visit(route: str, theme: str, **options: Any) -> Page:
        browsing = signed_in(theme, **options)
        browsing.trouble.clear()
        page = browsing.tab()
        opened.append((browsing, page))
        answer = page.goto(whole[1].address(route))
        assert answer is not None
        assert answer.status == 200
        return page

    yield visit
    for browsing, page in opened:
        page.close()
        assert not browsing.trouble


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("route", ROUTES)
def test_it_stays_calm_and_fits_the_screen(visit: Callable[..., Page], route: str, theme: str) -> None:
    page = visit(route, theme)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    if page.locator("[data-live]").count():
        expect(page.locator("#live")).to_have_text("Live")
    wide = page.evaluate("() => [document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1], "it is wider than the screen"
    page.emulate_media(media="print")
    expect(page.get_by_role("heading", level=1)).to_be_visible()


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("route", ROUTES)
def test_it_is_accessible(visit: Callable[..., Page], route: str, theme: str) -> None:
    page = visit(route, theme, bypass_csp=True)  # axe is a text that the test evaluates
    page.locator("details").evaluate_all("(all) => all.forEach((each) => { each.open = true; })")
    assert serious(Axe().run(page).response["violations"]) == []


@pytest.mark.parametrize("route", ROUTES)
def test_the_keyboard_reaches_every_action(visit: Callable[..., Page], route: str) -> None:
    page = visit(route, "light")
    if page.locator("[data-live]").count():
        page.get_by_role("button", name="Pause").click()
        expect(page.locator("#live")).to_have_text("Paused")
    count = page.evaluate(RECORD, FOCUSABLE)
    assert count > 12, "the navigation alone has more"
    for _ in range(3):  # the field of a date has several stops
        for _ in range(count):
            page.keyboard.press("Tab")
        if page.evaluate(MISSED) == []:
            return
    assert page.evaluate(MISSED) == []


@pytest.mark.parametrize("route", [route for route in ROUTES if route != "/settings/try"])
def test_it_is_refetched_without_a_change_of_place(
    visit: Callable[..., Page], whole: tuple[Site, WholeScene], route: str
) -> None:
    """What a visitor has opened and typed stays, whatever comes in."""
    page = visit(route, "light")
    expect(page.locator("#live")).to_have_text("Live")
    page.locator("details").evaluate_all("(all) => all.slice(0, 3).forEach((each) => { each.open = true; })")
    opened = page.locator("details[open]").count()
    field = page.locator("main input:not([type=hidden]):not([type=checkbox]):not([type=range]):visible").first
    typed = field.count() > 0
    if typed:
        field.fill("12")
        field.focus()
    with page.expect_response(lambda answer: "x-fragments" in answer.request.headers):
        page.evaluate("() => dispatchEvent(new Event('online'))")  # it connects anew, and fetches once
    assert page.locator("details[open]").count() == opened
    if typed:
        expect(field).to_have_value("12")
        expect(field).to_be_focused()
