"""Whatever people, agents and GitHub write is text on the pages of items: no element, attribute or link."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator
from contextlib import closing
from html.parser import HTMLParser
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from interlock.core.model import NewItem, Policy, RetryLane
from interlock.dashboard.rendering import web_address
from interlock.service.contract import Report
from interlock.service.local import LocalService
from interlock.store.links import Head, Link, StoredWorkflowRun
from tests.dashboard.client import Site, Visitor
from tests.dashboard.item_scenes import CODER, start
from tests.http.serving import local_service

PIECES = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)//",
    "data:text/html,<script>alert(1)</script>",
    "//evil.example/",
    "</title></textarea></pre></svg>",
    "<!--",
    "-->",
    "]]>",
    "{{ 7 * 7 }}",
    "{% include 'base.html' %}",
    "&lt;b&gt;",
    "\x01key\x02",
    "\x02",
    "\u202e",
    "\u2028",
    "`${1}`",
    "\\",
)
#: One line, shorter than any place where a text is cut.
texts = st.lists(
    st.one_of(
        st.sampled_from(PIECES),
        st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), max_size=6),
    ),
    max_size=4,
).map(lambda parts: f"x{''.join(parts)}x"[:120])


class Structure(HTMLParser):
    """The elements of a page with the names of their attributes, and all addresses."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, ...]] = []
        self.addresses: list[str] = []
        self.comments = 0
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, *(name for name, _ in attributes)))
        self.addresses += [value or "" for name, value in attributes if name in ("href", "src", "action")]

    def handle_comment(self, data: str) -> None:
        assert data is not None
        self.comments += 1


@pytest.fixture(scope="module")
def service(one_site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalService]:
    with closing(local_service(tmp_path_factory.mktemp("hostile") / "interlock.db")) as made:
        made.set_agent(CODER)
        made.store.github.repository(1, "acme/app")
        one_site.serve(made)
        yield made
        one_site.leave()


@pytest.fixture(scope="module")
def visitor(service: LocalService, one_site: Site) -> Visitor:
    assert one_site.server.service is service
    return one_site.visitor()


def one_line(text: str) -> str:
    return "".join(each for each in text if each.isprintable() or each == "\u202e")


def story(service: LocalService, text: str, n: int) -> tuple[int, int]:
    """An item with this text wherever a text can be, and an item that asks it. Some fields take one line."""
    line = one_line(text)
    lane, head = f"issue:acme/app#{n}", f"{n:040x}"
    payload = json.dumps({text: text, "url": text, "list": [text]})
    (added,) = service.add(
        [
            NewItem(
                title=line,
                message=text,
                author=line,
                agent=CODER,
                lane=lane,
                payload=payload,
                reason="commented",
                retry_lane=RetryLane.KEEP,
            )
        ]
    )
    assert added.item is not None
    item = added.item.id
    service.add(
        [
            NewItem(
                title=line,
                message=text,
                author=line,
                agent=CODER,
                lane=lane,
                payload=payload,
                policy=Policy.COALESCE,
            ),
            NewItem(title=line, agent=CODER, lane=lane),
        ]
    )
    service.block(item=item, blocker=line, why=line, by=line)
    service.unblock(item=item, why=line, by=line)
    lease = start(service, item)
    service.fail([Report(run=lease.run, error=text)])
    service.retry(item, why=line, by=line)
    lease = start(service, item)
    service.release([Report(run=lease.run)])
    lease = start(service, item)
    service.store.github.links.advance(
        Head(1, n, "", 1, head, text, text, "open", "failure", text, followed=True),
        [Link(lease.fence, item, 1, n, "", "branch")],
        [
            StoredWorkflowRun(
                *(1, n, head, 1, text, "completed", text, text, text, 1),
                json.dumps([{"name": text, "url": text, "expires_at": "2027-01-01T00:00:00Z"}]),
                1,
            )
        ],
    )
    service.msg(item, text, author=line)
    service.block(item=item, blocker=line, why=line, by=line)
    service.cancel(item, why=line, by=line)

    (other,) = service.add([NewItem(title=line, agent=CODER)])
    assert other.item is not None
    service.ask(start(service, other.item.id).run, text)
    return item, other.item.id


numbers = iter(range(1, 1_000_000))


def drawn(service: LocalService, visitor: Visitor, text: str) -> dict[str, list[tuple[str, ...]]]:
    """The elements of the pages about a story with this text, which all show it."""
    item, asking = story(service, text, next(numbers))
    pages = {
        "item": f"/items/{item}",
        "asking": f"/items/{asking}",
        "messages": f"/items/{item}?messages=1",
        "list": f"/items?text={quote(one_line(text))}&agent={CODER}&status=all&before={asking + 1}",
    }
    found = {}
    for name, path in pages.items():
        seen = visitor.get(path)
        assert seen.status == 200, seen.words
        page = Structure(seen.text)
        assert page.comments == 0
        for address in page.addresses:
            assert address.startswith(("/", "#")) != web_address(address), address
            assert not address.startswith(("//", "/\\")), address
        assert _bare(text) in _bare(html.unescape(seen.text))
        found[name] = page.elements
    found["list"] = found["list"][
        : found["list"].index(("tbody",))
    ]  # it has a row for each item with the text
    return found


def _bare(text: str) -> str:
    return "".join(each for each in text if each.isascii() and each.isalnum())


@pytest.fixture(scope="module")
def plain(service: LocalService, visitor: Visitor) -> dict[str, list[tuple[str, ...]]]:
    return drawn(service, visitor, "plain")


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(text=texts)
@example(text="".join(PIECES[:5]))
@example(text=PIECES[3])
@example(text=f"x{PIECES[-6]}x{PIECES[-5]}")
def test_texts_change_nothing_but_text(
    service: LocalService, visitor: Visitor, plain: dict[str, list[tuple[str, ...]]], text: str
) -> None:
    assert drawn(service, visitor, text) == plain


@pytest.mark.parametrize("piece", PIECES)
def test_a_hostile_address_is_a_refusal_or_a_text(visitor: Visitor, piece: str) -> None:
    for path in (
        f"/items?agent={quote(piece)}",
        f"/items?status={quote(piece)}",
        f"/items/{quote(piece, safe='')}",
    ):
        seen = visitor.get(path)
        assert seen.status in (200, 404, 422)
        assert all(
            not address.lower().startswith(("javascript", "data"))
            for address in Structure(seen.text).addresses
        )
        assert "<script>alert" not in seen.text
