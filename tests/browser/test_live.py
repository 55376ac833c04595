"""Live pages in a real browser: updates, cuts, the pause, and all without scripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from interlock.core.model import NewItem
from tests.browser.chromium import PHONE, Browsing, serious

THEMES: list[dict[str, Any]] = [
    {"color_scheme": "light"},
    {"color_scheme": "dark"},
    {"color_scheme": "light", "viewport": PHONE},
]


def add(browser: Browsing, title: str) -> None:
    service: Any = browser.site.server.service
    service.add([NewItem(title=title)])
    browser.site.server.signals.signal()


def test_what_happens_is_seen_without_a_reload(browser: Browsing) -> None:
    page = browser.signed_in()
    expect(page.locator("#live")).to_have_text("Live")
    add(browser, "Appears by itself")
    expect(page.get_by_role("link", name="Appears by itself")).to_be_visible()


def test_a_cut_connection_is_said_and_resumed(browser: Browsing) -> None:
    page = browser.signed_in()
    expect(page.locator("#live")).to_have_text("Live")
    browser.expected.append("ERR_|Failed to load")
    page.route("**/v1/events/stream*", lambda route: route.abort())
    browser.site.server.streams.end([*browser.site.server.streams.tokens])
    expect(page.locator("#live")).to_have_text("Not live")
    add(browser, "While it was cut")
    browser.site.server.streams.end([])
    page.unroute("**/v1/events/stream*")
    expect(page.locator("#live")).to_have_text("Live")
    expect(page.get_by_role("link", name="While it was cut")).to_be_visible()


def test_a_pause_freezes_the_view_and_counts(browser: Browsing) -> None:
    page = browser.signed_in()
    expect(page.locator("#live")).to_have_text("Live")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#live")).to_have_text("Paused")
    add(browser, "Behind the pause")
    button = page.get_by_role("button", name="Resume · 1 new events")
    expect(button).to_be_visible()
    expect(page.get_by_role("link", name="Behind the pause")).to_have_count(0)
    button.click()
    expect(page.get_by_role("link", name="Behind the pause")).to_be_visible()


def test_everything_but_liveness_works_without_scripts(browse: Callable[..., Browsing]) -> None:
    browser = browse(java_script_enabled=False)
    add(browser, "Plainly")
    page = browser.signed_in()
    expect(page.get_by_role("link", name="Plainly")).to_be_visible()
    expect(page.get_by_role("button", name="Pause")).to_have_count(0)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Or paste a token")).to_be_visible()


def test_the_keyboard_reaches_everything(browser: Browsing) -> None:
    add(browser, "By keyboard")
    page = browser.signed_in()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        focused = page.locator(":focus")
        if focused.count():
            reached.add(focused.inner_text().strip())
    assert {"Overview", "Pause", "Sign out"} <= reached
    assert any("By keyboard" in each for each in reached)


@pytest.mark.parametrize("theme", THEMES, ids=["light", "dark", "phone"])
@pytest.mark.parametrize("path", ["/", "/sign-in"])
def test_accessible(browse: Callable[..., Browsing], theme: dict[str, Any], path: str) -> None:
    browser = browse(bypass_csp=True, **theme)  # axe is a text that the test evaluates
    add(browser, "A long name " * 15)
    page = browser.signed_in(path=path)
    page.wait_for_load_state()
    assert serious(Axe().run(page).response["violations"]) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it is wider than the screen"
