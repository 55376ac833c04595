"""What holds on every page: it answers, it is small, a reader sees no action, and it needs no other host."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing

import pytest

from interlock.core.model import NewItem
from interlock.dashboard.pages import ROUTES
from interlock.service.contract import Report
from tests.dashboard.client import Site, Visitor
from tests.dashboard.effect_scenes import add_failed, effect
from tests.dashboard.whole_scene import WholeScene, whole_site
from tests.http.serving import local_service

#: Forms that every visitor may send: they change nothing in the store but the visitor's own session.
HARMLESS = {"/sign-out", "/settings/try"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, WholeScene]]:
    """No test here changes it."""
    with whole_site(tmp_path_factory.mktemp("whole") / "interlock.db") as made:
        yield made


@pytest.fixture(scope="module")
def visitors(whole: tuple[Site, WholeScene]) -> dict[str, Visitor]:
    site, _ = whole
    return {scope: site.visitor(scope) for scope in ("admin", "read", "agent:coder")}


@pytest.fixture(params=ROUTES)
def address(request: pytest.FixtureRequest, whole: tuple[Site, WholeScene]) -> str:
    """The address of each page, with content."""
    return whole[1].address(request.param)


@pytest.mark.parametrize("scope", ["admin", "read", "agent:coder"])
def test_it_answers_with_headers_that_let_nothing_else_in(
    visitors: dict[str, Visitor], address: str, scope: str
) -> None:
    seen = visitors[scope].get(address)
    assert seen.status == 200, seen.words
    policy = seen.headers["content-security-policy"]
    for part in ("default-src 'none'", "script-src 'self'", "form-action 'self'", "frame-ancestors 'none'"):
        assert part in policy
    assert "unsafe" not in policy
    assert seen.headers["cache-control"] == "no-store"
    assert "style=" not in seen.text
    assert re.findall(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"(?!/)[^\"]*\"", seen.text) == []
    assert re.findall(r"\son\w+=", seen.text) == [], "no inline script"
    assert len(seen.text.encode()) < 60_000


@pytest.mark.parametrize("scope", ["read", "agent:coder"])
def test_who_may_not_act_sees_no_action(visitors: dict[str, Visitor], address: str, scope: str) -> None:
    seen = visitors[scope].get(address)
    operations = set(re.findall(r'name="operation" value="(\w+)', seen.text))
    may = set() if scope == "read" else {"add", "msg", "cancel", "create_plan", "sweep"}
    assert operations <= may, "an agent may do what its scope covers"
    posts = set(re.findall(r'<form[^>]*method="post"[^>]*action="([^"]+)"', seen.text)) - {"/do"}
    assert posts <= HARMLESS
    if scope == "read":
        assert "Confirm:" not in seen.words


def test_an_administrator_sees_actions_on_the_pages_that_have_some(
    whole: tuple[Site, WholeScene], visitors: dict[str, Visitor]
) -> None:
    """Otherwise the test above could not fail."""
    for route in ("/items/{item}", "/plans/{plan}", "/effects", "/settings", "/series"):
        assert 'name="operation" value=' in visitors["admin"].get(whole[1].address(route)).text, route


def test_its_words_are_the_same_for_everyone_who_may_read(visitors: dict[str, Visitor], address: str) -> None:
    """A page names itself, and the entry of the navigation that leads to it."""
    seen = visitors["read"].get(address)
    assert len(re.findall(r"<h1[ >]", seen.text)) == 1
    assert seen.text.count('aria-current="page"') == 1
    assert re.search(r"<title>\S.* · Interlock</title>", seen.text)


def test_it_is_unchanged_while_nothing_happens(visitors: dict[str, Visitor], address: str) -> None:
    """The script asks every ten seconds; times alone are no change."""
    seen = visitors["admin"].get(address)
    again = visitors["admin"].get(address, {"X-Fragments": "1", "If-None-Match": seen.headers["etag"]})
    assert again.status == 304


@pytest.mark.parametrize("query", ["?before=1&after=x&status=%00", "?item=%F0%9F%98%80", "?x=" + "a" * 3_000])
def test_odd_queries_are_answered(visitors: dict[str, Visitor], address: str, query: str) -> None:
    seen = visitors["read"].get(address.partition("?")[0] + query)
    assert seen.status in (200, 404, 414, 422), seen.words


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    """A visitor of a store with thousands of everything, by names of usual length."""
    with closing(local_service(tmp_path_factory.mktemp("large") / "interlock.db")) as service:
        title = "Checkout drops discount codes when the cart of a signed-in customer is restored"
        for start in range(0, 4_000, 1_000):
            service.add(
                [
                    NewItem(
                        title=f"{title}, {n}",
                        lane=f"issue:acme/application#{n % 1_000}",
                        agent=f"agent-{n % 100}",
                        type="issue_work",
                        project=f"acme/application-{n % 50}",
                    )
                    for n in range(start, start + 1_000)
                ]
            )
        for n in range(100):
            service.set_agent(f"agent-{n}", max_concurrency=3)
            (lease,) = service.next(f"agent-{n}")
            if n % 3 == 0:
                service.fail([Report(run=lease.run, error="The tests fail.", retry=False)])
            service.set_mode(scope="lane", value=f"issue:acme/application-{n}#", mode="observe")
            service.pause_project(f"acme/{n}", paused=True, why="A release is under way.", create=True)
            add_failed(service, effect(f"e{n}", n + 1, text=title), "GitHub refused: Not Found (404).")
        site = Site(service)
        yield site.visitor()
        site.stop()


@pytest.mark.parametrize(
    "path", [*(each for each in ROUTES if "{" not in each and each != "/series"), "/items/500"]
)
def test_thousands_of_rows_are_a_small_page(large: Visitor, path: str) -> None:
    path = "/lane?name=issue:acme/application%2312" if path == "/lane" else path
    seen = large.get(path)
    assert seen.status == 200
    assert len(seen.text.encode()) < 60_000
