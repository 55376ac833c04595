"""Events, effects and settings in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from interlock.core.model import NewItem
from tests.browser.chromium import Browsing
from tests.dashboard.effect_scenes import add_failed, effect, usual_effects


def add(browser: Browsing, title: str, **fields: Any) -> int:
    service: Any = browser.site.server.service
    item: int = service.add([NewItem(title=title, **fields)])[0].item.id
    browser.site.server.signals.signal()
    return item


def test_events_come_in_while_one_reads_and_the_pause_holds_them_back(browser: Browsing) -> None:
    page = browser.signed_in(path="/events")
    expect(page.locator("#live")).to_have_text("Live")
    page.evaluate("window.same = true")
    first = add(browser, "first", lane="issue:acme/app#1")
    expect(page.locator("#events")).to_contain_text(f"Item #{first} was added on issue:acme/app#1")
    page.get_by_role("button", name="Pause").click()
    second = add(browser, "second")
    expect(page.get_by_role("button", name="Resume · 1 new")).to_be_visible()
    expect(page.locator("#events")).not_to_contain_text(f"Item #{second}")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#events tbody tr").first).to_contain_text(f"Item #{second} was added")
    assert page.evaluate("window.same"), "the page was not loaded again"


@pytest.mark.parametrize("script", [True, False], ids=["script", "no-script"])
def test_events_are_filtered_by_keyboard_and_the_address_is_shared(
    browse: Callable[..., Browsing], script: bool
) -> None:
    browser = browse(java_script_enabled=script)
    one, two = add(browser, "one", lane="l:1"), add(browser, "two", lane="l:2")
    page = browser.signed_in(path="/events")
    page.get_by_role("textbox", name="Lane").focus()
    page.keyboard.type("l:2")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("lane=l%3A2"))
    expect(page.locator("#events")).to_contain_text(f"#{two}")
    expect(page.locator("#events")).not_to_contain_text(f"#{one} ")
    other = browse(java_script_enabled=script).signed_in(path=page.url)
    expect(other.get_by_role("textbox", name="Lane")).to_have_value("l:2")
    other.get_by_role("link", name="Trouble").click()
    expect(other.locator("#events")).to_contain_text("No event matches.")


@pytest.mark.parametrize("script", [True, False], ids=["script", "no-script"])
def test_a_failed_effect_is_retried_and_another_dropped(
    browse: Callable[..., Browsing], script: bool
) -> None:
    browser = browse(java_script_enabled=script)
    service: Any = browser.site.server.service
    usual_effects(service)
    page = browser.signed_in(path="/effects")
    row = page.locator("#failed li", has_text="renovate-bot")
    row.get_by_role("button", name="Retry").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="Retried.")).to_be_visible()
    expect(page.locator("#waiting")).to_contain_text("Assign renovate-bot")
    row = page.locator("#failed li", has_text="agent.yml")
    row.locator("summary", has_text="Drop").focus()
    page.keyboard.press("Enter")
    row.get_by_label("Why it is not needed").fill("Started by hand.")
    page.keyboard.press("Enter")
    expect(page.locator("#failed")).to_contain_text("No effect has failed.")
    expect(page.locator("#sent")).to_contain_text("Started by hand.")


def test_a_new_token_is_copied_and_used_on_another_machine(
    browser: Browsing, browse: Callable[..., Browsing]
) -> None:
    page = browser.signed_in(path="/settings")
    page.get_by_label("Name, such as a machine").fill("build-2")
    page.get_by_role("combobox", name="Scope").select_option("read")
    page.get_by_role("button", name="Create token").click()
    expect(page.get_by_text("Copy it now")).to_be_visible()
    line = page.get_by_label("Line for a shell").inner_text()
    found = re.fullmatch(r"export INTERLOCK_URL=(\S+) INTERLOCK_TOKEN=(\S+)", line.strip())
    assert found
    assert found[1] == browser.site.url
    other = browse().tab()
    other.goto("/")
    other.get_by_label("Or paste a token").fill(found[2])
    other.get_by_role("button", name="Sign in").click()
    expect(other.get_by_text("build-2 · read")).to_be_visible()
    page.get_by_role("link", name="Done").click()
    row = page.locator("#tokens tr", has_text="build-2")
    row.locator("summary", has_text="Revoke").click()
    row.get_by_role("button", name="Confirm: revoke").click()
    expect(page.locator("#tokens")).to_contain_text("1 revoked or expired")
    assert found[2] not in page.content()


def test_a_payload_is_tried(browser: Browsing) -> None:
    page = browser.signed_in("read", path="/settings")
    page.get_by_role("link", name="Try a payload").click()
    page.get_by_role("link", name="Fill in an example").click()
    page.get_by_role("button", name="Try").click()
    expect(page.get_by_label("Result")).to_contain_text("issue_work for coder, priority 8")
    page.get_by_role("textbox", name="Payload").fill("{")
    page.get_by_role("button", name="Try").click()
    browser.expected.append("422")
    expect(page.get_by_role("alert")).to_contain_text("The payload is not valid JSON.")


def test_two_people_decide_on_one_effect_at_once(browser: Browsing, browse: Callable[..., Browsing]) -> None:
    """The second press finds nothing to do, and changes nothing."""
    service: Any = browser.site.server.service
    add_failed(service, effect("x", 4, text="Done."), "Not found.")
    pages = [browser.signed_in(path="/effects"), browse().signed_in(path="/effects")]
    buttons = [page.get_by_role("button", name="Retry") for page in pages]
    for page in pages:
        page.get_by_role("button", name="Pause").click()
    for button in buttons:
        button.click()
    for page in pages:
        expect(page.locator("#failed")).to_contain_text("No effect has failed.")
        expect(page.locator("#waiting")).to_contain_text("Comment Done.")
    assert len(service.effects()) == 1
