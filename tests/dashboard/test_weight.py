"""What a page and its assets weigh on the way to a browser."""

from __future__ import annotations

from interlock.core.model import NewItem
from tests.dashboard.client import Site, Visitor

ASSETS = ("dashboard.css", "dashboard.js", "icon.svg")


def test_a_full_page_with_its_assets_is_sent_in_less_than_60_kb(site: Site, admin: Visitor) -> None:
    site.server.service.add([NewItem(title=f"Fix the login {n}", lane=f"issue:a/b#{n}") for n in range(60)])
    assets = [admin.get(f"/assets/{name}") for name in ASSETS]
    assert all(asset.status == 200 for asset in assets)
    for path in ("/", "/items", "/lanes", "/events"):
        page = admin.get(path)
        assert page.headers["content-encoding"] == "gzip"
        assert page.headers["vary"] == "Cookie, Accept-Encoding"
        assert page.sent_bytes + sum(asset.sent_bytes for asset in assets) < 60_000


def test_the_script_is_smaller_than_12_kb(admin: Visitor) -> None:
    assert len(admin.get("/assets/dashboard.js").text.encode()) < 12_000


def test_a_browser_that_takes_no_compressed_answer_gets_a_plain_one(admin: Visitor) -> None:
    page = admin.get("/", {"Accept-Encoding": "identity"})
    assert "content-encoding" not in page.headers
    assert page.sent_bytes == len(page.text.encode())
