"""The page "While you were away"."""

from __future__ import annotations

import re

from interlock.core.model import NewItem
from interlock.service.contract import Report
from interlock.store.links import Head, Link
from tests.dashboard import overview_scenes as scenes
from tests.dashboard.client import Site, Visitor

CHECKS = "https://github.com/acme/app/pull/43/checks"


def test_it_has_outcomes_with_links(site: Site, admin: Visitor) -> None:
    service = site.server.service
    scenes.dead_letter(service)
    scenes.asks(service)
    lease = scenes.running(service, "Fix the login", "issue:acme/app#7", "coder")
    service.store.github.repository(1, "acme/app")
    page = CHECKS.removesuffix("/checks")
    head = Head(1, 43, "", 1, "a" * 40, "fix", page, "merged", "success", "2 passed", followed=True)
    service.store.github.links.advance(head, [Link(lease.fence, lease.item.id, 1, 43, "", "trailer")], [])
    service.done([Report(run=lease.run)])
    seen = admin.get("/recap")
    assert seen.status == 200
    assert f'href="{CHECKS}"' in seen.text
    assert "acme/app#43" in seen.words
    assert scenes.QUESTION in seen.words
    assert "expected 3 rows, got 2" in seen.words
    numbers = re.findall(r'<dt>([^<]+)</dt><dd><a class="value[^>]*>([^<]+)<', seen.text)
    assert numbers == [
        ("Finished", "1"),
        ("Failed", "1"),
        ("Waiting for you", "2"),
        ("Superseded", "0"),
        ("Runs", "3"),
    ]
    assert 'href="/recap"' in admin.get("/").text, "the overview leads to it"


def test_a_long_night_is_a_short_page(site: Site, admin: Visitor) -> None:
    service = site.server.service
    service.add([NewItem(title=f"work {n}", agent="coder") for n in range(25)])
    for _ in range(25):
        (lease,) = service.next("coder")
        service.done([Report(run=lease.run)])
    seen = admin.get("/recap?since=1h")
    assert "and 5 more" in seen.words
    assert seen.text.count('data-key="finished-') == 20
    assert admin.get("/recap?since=soon").status == 422
