"""Items in a real browser: live, by keyboard, several at once, two people at once, and in every theme."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect

from interlock.service.local import LocalService
from interlock.store.sqlite.store import SqliteStore
from tests.browser.chromium import PHONE, Browsing, serious
from tests.clock import Clock
from tests.dashboard.client import Site
from tests.dashboard.item_scenes import CODER, REVIEWER, Day, add, start

THEMES: list[dict[str, Any]] = [
    {"color_scheme": "light"},
    {"color_scheme": "dark"},
    {"color_scheme": "light", "viewport": PHONE},
]


def test_a_list_is_live_and_keeps_what_is_chosen(browser: Browsing) -> None:
    service: Any = browser.site.server.service
    service.set_agent(CODER)
    one, two = add(service, "First"), add(service, "Second")
    page = browser.signed_in(path="/items")
    expect(page.locator("#live")).to_have_text("Live")
    page.get_by_label(f"Choose item {one}").check()
    expect(page.locator(".bulk")).to_be_visible()
    start(service, two)
    third = add(service, "Third")
    browser.site.server.signals.signal()
    expect(page.get_by_role("link", name="Third")).to_be_visible()
    expect(page.locator(f'tr[data-key="{two}"]')).to_contain_text("in progress")
    expect(page.get_by_label(f"Choose item {one}")).to_be_checked()
    page.get_by_label("Choose all").check()
    expect(page.get_by_label(f"Choose item {third}")).to_be_checked()


@pytest.mark.parametrize("script", [True, False], ids=["script", "no-script"])
def test_several_items_are_cancelled_by_keyboard(browse: Callable[..., Browsing], script: bool) -> None:
    browser = browse(java_script_enabled=script)
    service: Any = browser.site.server.service
    made = [add(service, f"Item {n}") for n in range(3)]
    page = browser.signed_in(path="/items")
    for item in made[:2]:
        page.get_by_label(f"Choose item {item}").focus()
        page.keyboard.press("Space")
    page.locator(".bulk summary", has_text="Cancel").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("Not needed")
    page.keyboard.press("Enter")
    expect(page.locator(".bulk")).to_be_visible()
    assert service.show(made[0]).item.status == "pending", "Enter in a field does nothing"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(
        page.get_by_role("status").filter(has_text="Cancelled or asked to stop: 2 of 2 items.")
    ).to_be_visible()
    assert [service.show(item).item.status for item in made] == ["cancelled", "cancelled", "pending"]


def test_search_finds_by_number_and_the_address_can_be_shared(
    browser: Browsing, browse: Callable[..., Browsing]
) -> None:
    service: Any = browser.site.server.service
    add(service, "On the issue", lane="issue:acme/app#42")
    page = browser.signed_in(path="/items")
    page.get_by_label("Search, or a number such as #42").fill("#42")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="On the issue")).to_be_visible()
    other = browse().signed_in(path=page.url)
    expect(other.get_by_role("link", name="On the issue")).to_be_visible()
    other.get_by_text("More filters").click()
    other.get_by_label("Type").fill("docs")
    other.get_by_role("button", name="Filter", exact=True).click()
    expect(other.get_by_text("No item matches.")).to_be_visible()
    assert "type=docs" in other.url


def test_an_item_is_watched_without_a_reload(browser: Browsing) -> None:
    """It starts, is written to, is taken over after a crash, and ends; what is typed meanwhile stays."""
    service: Any = browser.site.server.service
    service.set_agent(CODER)
    stir = browser.site.server.signals.signal
    one = add(service, "Watched", agent=CODER, message="Begin here")
    page = browser.signed_in(path=f"/items/{one}")
    expect(page.locator("#live")).to_have_text("Live")
    page.evaluate("window.same = true")
    page.get_by_label("Message to the next run").fill("half a sent")
    lease = start(service, one)
    stir()
    expect(page.locator(".live-run")).to_contain_text(f"Run {lease.fence}")
    expect(page.locator("#messages .mark")).to_have_text(f"given to run {lease.fence}, not confirmed")
    expect(page.locator("#reply-text, textarea").first).to_have_value("half a sent")
    service.inbox(lease.run, seen=1)
    stir()
    expect(page.locator("#messages .mark")).to_have_text(f"read by run {lease.fence}")
    service.take_back(one, why="Its machine is gone")
    again = start(service, one)
    stir()
    expect(page.locator(".live-run")).to_contain_text(f"Run {again.fence}")
    expect(page.locator("#runs li")).to_have_count(2)
    assert page.evaluate("window.same"), "the page was not loaded again"


def test_escape_closes_the_form_of_an_action(browser: Browsing) -> None:
    service: Any = browser.site.server.service
    one = add(service, "One")
    page = browser.signed_in(path=f"/items/{one}")
    page.locator("summary", has_text="Cancel").click()
    page.get_by_label("Why, for the history").fill("Not")
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Confirm: cancel")).to_be_hidden()
    expect(page.locator("summary", has_text="Cancel")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Why, for the history")).to_have_value("Not")


def test_a_question_is_answered(browser: Browsing) -> None:
    service: Any = browser.site.server.service
    service.set_agent(CODER)
    one = add(service, "Unify the login pages", agent=CODER)
    service.ask(start(service, one).run, "Which one stays?")
    page = browser.signed_in(path="/items?status=asking")
    expect(page.get_by_text("Which one stays?")).to_be_visible()
    page.get_by_role("link", name="Unify the login pages").click()
    page.get_by_label("Your answer").fill("The newer one.")
    page.get_by_role("button", name="Answer").click()
    expect(page.locator("#messages")).to_contain_text("The newer one.")
    expect(page.locator(".question")).to_have_count(0)
    assert not service.show(one).item.asking


def test_two_people_act_on_one_item(browser: Browsing, browse: Callable[..., Browsing]) -> None:
    """Ben sees Anna's change while he types. His form keeps the version that he read, and is refused."""
    service: Any = browser.site.server.service
    one = add(service, "Contested")
    anna, other = browser.signed_in(path=f"/items/{one}"), browse()
    ben = other.signed_in(path=f"/items/{one}")
    expect(ben.locator("#live")).to_have_text("Live")
    for page, priority in ((anna, "5"), (ben, "9")):
        page.locator("summary", has_text="Change").click()
        page.get_by_label("Priority").fill(priority)
    anna.get_by_role("button", name="Save").click()
    expect(anna.get_by_role("status").filter(has_text="Saved.")).to_be_visible()
    expect(ben.locator("#facts dl")).to_contain_text("5")
    other.expected.append("412")
    ben.get_by_role("button", name="Save").click()
    refusal = ben.get_by_role("alert")
    expect(refusal).to_contain_text(f"Item {one} has changed since you read it.")
    assert service.show(one).item.priority == 5
    refusal.get_by_role("link", name="Show it as it is now").click()
    ben.locator("summary", has_text="Change").click()
    expect(ben.get_by_label("Priority")).to_have_value("5")


def test_hostile_texts_run_nothing(browser: Browsing) -> None:
    service: Any = browser.site.server.service
    service.set_agent(CODER)
    text = "</title></textarea><img src=x onerror=alert(1)><script>alert(1)</script>"
    one = add(service, text, agent=CODER, message=text, payload='{"a": "</pre><script>alert(1)</script>"}')
    service.ask(start(service, one).run, text)
    page = browser.signed_in(path=f"/items/{one}")
    page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    expect(page.get_by_role("heading", level=1)).to_contain_text(text)
    service.msg(one, text, author=text[:60])
    browser.site.server.signals.signal()
    expect(page.locator("#messages li")).to_have_count(3)
    page.goto("/items?text=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
    expect(page.get_by_role("link", name="alert(1)").first).to_be_visible()
    expect(page.locator("main img, main script")).to_have_count(0)


@pytest.fixture
def day(site: Site, tmp_path: Path) -> Iterator[Day]:
    clock = Clock()
    with closing(LocalService(SqliteStore(tmp_path / "day.db", now=clock), poll_s=0.05)) as service:
        made = Day(service, clock)
        site.serve(service)
        yield made


@pytest.mark.parametrize("theme", THEMES, ids=["light", "dark", "phone"])
def test_accessible(chromium: Browser, day: Day, site: Site, theme: dict[str, Any]) -> None:
    browser = Browsing(chromium, site, bypass_csp=True, **theme)  # axe is a text that the test evaluates
    paths = [
        f"/items/{item}" for item in (day.crashed, day.asking, day.dead, day.newest, day.done, *day.rest[2:5])
    ]
    page = browser.signed_in()
    for path in [
        "/items",
        "/items?text=42&type=task",
        "/items?status=all",
        f"/items?agent={REVIEWER}",
        *paths,
    ]:
        page.goto(path)
        page.wait_for_load_state()
        if path == "/items":
            page.get_by_text("Add an item").click()
            page.locator(".item-list td input").first.check()
        for summary in page.locator("main details:not([open]) > summary").all():
            if summary.is_visible():
                summary.click()
        assert serious(Axe().run(page).response["violations"]) == [], path
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (
            f"{path} is wider than the screen"
        )
    browser.close()
