"""The overview in a real browser: what happens is seen, a question is answered, and a cut is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from interlock.core.model import NewItem
from tests.browser.chromium import PHONE, Browsing, serious
from tests.dashboard import overview_scenes as scenes
from tests.dashboard.plan_scenes import RIGHT_TO_LEFT

THEMES: list[dict[str, Any]] = [
    {"color_scheme": "light"},
    {"color_scheme": "dark"},
    {"color_scheme": "light", "viewport": PHONE},
]


def test_a_question_appears_and_is_answered_without_a_reload(browser: Browsing) -> None:
    service: Any = browser.site.server.service
    stir = browser.site.server.signals.signal
    page = browser.signed_in()
    expect(page.locator("#live")).to_have_text("Live")
    expect(page.get_by_text("This store is empty")).to_be_visible()
    item = scenes.asks(service)
    stir()
    expect(page.locator(".verdict")).to_contain_text("1 thing needs you.")
    expect(page).to_have_title("(1) Overview · Interlock")
    expect(page.locator("#needs")).to_contain_text(scenes.QUESTION)
    answer = page.get_by_label("Your answer")
    answer.fill("Remove it")
    scenes.dead_letter(service)
    stir()
    expect(page.locator("#needs")).to_contain_text("Import the 2019 invoices")
    expect(answer).to_have_value("Remove it")
    answer.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Answered.")).to_be_visible()
    expect(page.locator("#needs")).not_to_contain_text(scenes.QUESTION)
    assert service.show(item).messages[-1].text == "Remove it"


def test_a_cut_makes_the_verdict_unknown(browser: Browsing) -> None:
    browser.site.server.service.add([NewItem(title="work")])
    page = browser.signed_in()
    expect(page.locator("#live")).to_have_text("Live")
    expect(page.locator(".verdict .fresh")).to_be_visible()
    browser.expected.append("ERR_|Failed to load")
    page.route("**/v1/events/stream*", lambda route: route.abort())
    browser.site.server.streams.end([*browser.site.server.streams.tokens])
    expect(page.get_by_text("Unknown: this page is not connected to the server.")).to_be_visible()
    expect(page.locator(".verdict .fresh")).to_be_hidden()
    browser.site.server.streams.end([])
    page.unroute("**/v1/events/stream*")
    expect(page.locator(".verdict .fresh")).to_be_visible()


@pytest.mark.parametrize("theme", THEMES, ids=["light", "dark", "phone"])
def test_accessible(browse: Callable[..., Browsing], theme: dict[str, Any]) -> None:
    browser = browse(bypass_csp=True, **theme)  # axe is a text that the test evaluates
    service: Any = browser.site.server.service
    scenes.busy_day(service)
    scenes.dead_letter(service, "x" * 600, "A long name " * 15)
    scenes.asks(service, "a_question_without_a_space" * 20, RIGHT_TO_LEFT)
    page = browser.signed_in()
    page.wait_for_load_state()
    assert serious(Axe().run(page).response["violations"]) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it is wider than the screen"
