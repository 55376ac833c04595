"""A real browser on a server of the test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.browser.chromium import EXECUTABLE, Browsing
from tests.dashboard.client import Site
from tests.dashboard.conftest import clock, clocked, one_site, site  # noqa: F401  (fixtures)
from tests.patience import PATIENCE_S


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser for the tests of a file: while it is open, no other test of the process can run a loop."""
    if not Path(EXECUTABLE).exists():
        (pytest.fail if os.environ.get("CI") else pytest.skip)("There is no chromium on this machine.")
    expect.set_options(timeout=PATIENCE_S * 1000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=EXECUTABLE, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def browse(chromium: Browser, site: Site) -> Iterator[Callable[..., Browsing]]:  # noqa: F811
    """Opens a browser on the test's server: `browse(color_scheme="dark", viewport=PHONE)`."""
    opened: list[Browsing] = []

    def browse(**options: Any) -> Browsing:
        opened.append(Browsing(chromium, site, **options))
        return opened[-1]

    yield browse
    for each in opened:
        each.close()


@pytest.fixture
def browser(browse: Callable[..., Browsing]) -> Browsing:
    """A browser on the test's server."""
    return browse()
