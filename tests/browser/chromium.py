"""Browsers of tests: real tabs, in which any message, violation or request to another host is a failure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request

from tests.dashboard.client import Site
from tests.patience import PATIENCE_S

EXECUTABLE = "/usr/bin/chromium"
PHONE = {"width": 390, "height": 844}


class Browsing:
    """One browser with its cookies. `trouble` has what a page must not do."""

    def __init__(self, browser: Browser, site: Site, **options: Any) -> None:
        self.site = site
        self.context: BrowserContext = browser.new_context(base_url=site.url, **options)
        self.context.set_default_timeout(PATIENCE_S * 1000)
        self.trouble: list[str] = []
        #: Messages that a test expects, as expressions.
        self.expected: list[str] = []
        self.context.on("console", self._heard)
        self.context.on("weberror", lambda error: self.trouble.append(f"error: {error.error}"))
        self.context.on("request", self._asked)

    def tab(self) -> Page:
        """A new tab."""
        return self.context.new_page()

    def signed_in(self, scope: str = "admin", path: str = "/") -> Page:
        """A tab that shows a page, signed in by a one-time link."""
        page = self.tab()
        page.goto(self.link(scope))
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url("**/")
        if path != "/":
            page.goto(path)
        return page

    def link(self, scope: str = "admin") -> str:
        """A one-time link, for a token of this scope."""
        service: Any = self.site.server.service
        token = service.create_token("test", scope=scope).id
        path: str = service.sign_in_link(caller=token).path
        return path

    def close(self) -> None:
        """Close all tabs, and fail on what they must not have done."""
        self.context.close()
        found = [each for each in self.trouble if not any(re.search(known, each) for known in self.expected)]
        assert not found, found

    def _heard(self, message: ConsoleMessage) -> None:
        self.trouble.append(f"{message.type}: {message.text}")

    def _asked(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme not in ("data", "blob") and address.netloc != urlsplit(self.site.url).netloc:
            self.trouble.append(f"request: {request.url}")


def serious(violations: Sequence[dict[str, Any]]) -> list[str]:
    """The serious ones of axe's findings."""
    return [
        f"{each['id']}: {node['target']} {node['html'][:120]}"
        for each in violations
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]
