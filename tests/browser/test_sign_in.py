"""Sign-in in a real browser: links, tokens, scopes and ends of sessions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from playwright.sync_api import expect

from interlock.core.model import NewItem
from tests.browser.chromium import Browsing


def test_a_link_signs_in_once(browser: Browsing, browse: Callable[..., Browsing]) -> None:
    link = browser.link()
    page = browser.tab()
    page.goto(link)
    page.reload()  # as often as one looks: only the form uses it up
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()

    other = browse()
    other.expected.append("401")
    late = other.tab()
    late.goto(link)
    late.get_by_role("button", name="Sign in").click()
    expect(late.get_by_role("alert")).to_contain_text("This link was used or has expired.")


def test_a_token_signs_in_and_signs_out(browser: Browsing) -> None:
    page = browser.tab()
    page.goto("/")
    page.get_by_label("Or paste a token").fill(browser.site.token())
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Or paste a token")).to_be_visible()
    page.goto("/")
    expect(page.get_by_label("Or paste a token")).to_be_visible()


def test_a_link_leads_to_the_page_it_names(browser: Browsing) -> None:
    page = browser.tab()
    page.goto(f"{browser.link()}&next=/%3Fx%3D1")
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/?x=1")


def test_a_page_on_another_port_cannot_press_a_button(browser: Browsing) -> None:
    """`Lax` cookies go with forms of other ports of this host; the origin gives them away."""
    service: Any = browser.site.server.service
    item = service.add([NewItem(title="keep me")])[0].item.id
    page = browser.signed_in()
    other = browser.site.url.replace("127.0.0.1", "localhost")
    foreign = f"{other}/foreign"
    form = (
        f'<form method="post" action="{browser.site.url}/do"><input name="operation" value="cancel">'
        f'<input name="arguments" value=\'{{"item": {item}, "why": "x"}}\'><input name="key" value="k">'
        "<button>Win</button></form>"
    )
    page.route(foreign, lambda route: route.fulfill(content_type="text/html", body=form))
    browser.expected += [f"request: {other}", "403"]
    page.goto(foreign)
    page.get_by_role("button", name="Win").click()
    expect(page.locator("body")).to_contain_text("another host")
    assert service.show(item).item.status == "pending"


def test_the_end_of_a_token_ends_its_page(browser: Browsing) -> None:
    service: Any = browser.site.server.service
    page = browser.signed_in()
    expect(page.locator("#live")).to_have_text("Live")
    browser.expected.append("401")
    for token in service.tokens():
        service.revoke_token(token.id)
    expect(page.locator("#live")).to_have_attribute("data-state", "cut")
    page.goto("/")
    expect(page.get_by_label("Or paste a token")).to_be_visible()
