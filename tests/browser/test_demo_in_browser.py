"""The demo fleet in a real browser: started, watched while it asks, and removed, without a reload."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from interlock.demo import fleet
from tests.browser.chromium import Browsing
from tests.dashboard.client import Site
from tests.dashboard.test_demo import opened


@pytest.fixture
def browse_demo(one_site: Site, chromium: Browser, tmp_path: Path) -> Iterator[Callable[[], Browsing]]:
    """Opens a browser on a server that can run a fleet."""
    browsers: list[Browsing] = []
    with closing(opened(f"sqlite:///{tmp_path}/interlock.db", tmp_path)) as service:
        one_site.serve(service)

        def browse() -> Browsing:
            browsers.append(Browsing(chromium, one_site))
            return browsers[-1]

        yield browse
        for each in browsers:
            each.close()
        one_site.leave()
        service.demo_operations.leave_demo()


def test_a_demo_is_started_watched_and_removed(
    browse_demo: Callable[[], Browsing], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "ASK_AFTER_S", 0.0)
    browser, other = browse_demo(), browse_demo()
    page, watching = browser.signed_in(), other.signed_in()
    expect(watching.locator("#live")).to_have_text("Live")
    page.get_by_role("button", name="Start the demo fleet").click()
    for tab in (page, watching):
        expect(tab.locator("#demo")).to_contain_text("These items, plans and agents are made up.")
        expect(tab.locator("#running")).to_contain_text("demo-")
    expect(watching.locator("#needs")).to_contain_text("Two clients still call it.")
    page.get_by_role("button", name="Stop the demo and delete all of it").click()
    for tab in (page, watching):
        expect(tab.get_by_text("This store is empty")).to_be_visible()
        expect(tab.locator("#demo")).to_be_hidden()
