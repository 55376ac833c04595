"""A plan in a real browser: watched through an edit, and read by keyboard and in every theme."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser.chromium import PHONE, Browsing, serious
from tests.dashboard.plan_scenes import answer, asked, do, layered_plan, release_plan, usual_edit

THEMES: list[dict[str, Any]] = [
    {"color_scheme": "light"},
    {"color_scheme": "dark"},
    {"color_scheme": "light", "viewport": PHONE},
]


def test_a_plan_is_watched_through_an_edit(browser: Browsing) -> None:
    """What happens is seen without a reload: the cycle opens, tasks are held back, the revision appears."""
    service: Any = browser.site.server.service
    stir = browser.site.server.signals.signal
    plan = release_plan(service).id
    page = browser.signed_in(path=f"/plans/{plan}")
    expect(page.locator("#live")).to_have_text("Live")
    page.evaluate("window.same = true")
    expect(page.get_by_text("revision 1 of 1")).to_be_visible()
    do(service, plan, "design")
    stir()
    cycle = page.locator("#cycle")
    expect(cycle).to_contain_text("Waits for an edit by planner")
    expect(cycle).to_contain_text("Held back: server, client, docs")
    expect(page.locator(".legend")).to_contain_text("3 held back")
    lease = asked(service)
    stir()
    expect(cycle).to_contain_text(f"run\u00a0{lease.fence}")
    answer(service, plan, lease, *usual_edit())
    stir()
    expect(page.get_by_text("revision 2 of 2")).to_be_visible()
    expect(cycle).not_to_contain_text("Waits for an edit")
    expect(page.locator("#revisions")).to_contain_text("added task audit")
    expect(page.locator("a.il-task", has_text="audit")).to_be_visible()
    assert page.evaluate("window.same"), "the page was not loaded again"


def test_tasks_are_reached_by_keyboard_and_revisions_without_scripts(browse: Callable[..., Browsing]) -> None:
    browser = browse(java_script_enabled=False)
    service: Any = browser.site.server.service
    plan = release_plan(service).id
    do(service, plan, "design")
    answer(service, plan, asked(service), *usual_edit())
    page = browser.signed_in(path=f"/plans/{plan}")
    task = page.locator("a.il-task").first
    task.focus()
    expect(task).to_be_focused()
    page.get_by_role("link", name="Older").click()
    expect(page.get_by_text("revision 1 of 2")).to_be_visible()
    page.get_by_label("Revision", exact=True).fill("2")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_text("revision 2 of 2")).to_be_visible()


@pytest.mark.parametrize("theme", THEMES, ids=["light", "dark", "phone"])
@pytest.mark.parametrize("path", ["/plans", "/plans/{small}", "/plans/{large}"])
def test_accessible(browse: Callable[..., Browsing], theme: dict[str, Any], path: str) -> None:
    browser = browse(bypass_csp=True, **theme)  # axe is a text that the test evaluates
    service: Any = browser.site.server.service
    small, large = release_plan(service).id, layered_plan(service, 60, width=6).id
    do(service, small, "design")
    page = browser.signed_in(path=path.format(small=small, large=large))
    page.wait_for_load_state()
    assert serious(Axe().run(page).response["violations"]) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it is wider than the screen"
