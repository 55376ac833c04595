"""Whatever people, agents and GitHub write is text on every page: no element, attribute or link of its own.

A store with a hostile text in every field has the same pages, element by element, as one with a plain text.
"""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, example, given, settings

from interlock.app import open_service
from interlock.core.commands import QuotaLimit
from interlock.core.model import NewItem
from interlock.core.plans.model import Graph, TaskSpec
from interlock.dashboard.pages import ROUTES
from interlock.dashboard.rendering import web_address
from interlock.service.contract import Report
from interlock.service.local import LocalService
from interlock.store.sqlite.database import SqliteDatabase
from tests.clock import Clock
from tests.dashboard.client import Site
from tests.dashboard.effect_scenes import add_failed, effect, outbox_of
from tests.dashboard.item_scenes import start
from tests.dashboard.test_hostile_items import Structure, one_line, texts

AGENT, LANE = "coder", "issue:acme/app#42"


class Ticking(Clock):
    """A millisecond passes whenever it is read, so that what is sorted by time has one order."""

    def __call__(self) -> int:
        self.advance(0.001)
        return super().__call__()


class Drawn(dict[str, list[tuple[str, ...]]]):
    """The elements of each page, by its route."""

    def __repr__(self) -> str:
        return f"{len(self)} pages"  # hypothesis prints arguments, and warns of long ones


def story(service: LocalService, text: str) -> dict[str, str]:
    """A store with this text wherever a text can be; gives the addresses of its pages."""
    line = one_line(text)
    for agent in (AGENT, "planner", "reviewer"):
        service.set_agent(agent)
    new = NewItem(title=line, message=text, author=line, agent=AGENT, lane=LANE)
    (added,) = service.add([new])
    assert added.item is not None
    item = added.item.id
    lease = start(service, item, AGENT)
    service.fail([Report(run=lease.run, error=text, retry=False)])
    service.retry(item, why=line, by=line)
    start(service, item, AGENT)
    service.add([NewItem(title=line, agent="reviewer", lane=LANE), NewItem(title=line, agent="reviewer")])
    (asking, limited, stopped) = (
        each.item.id
        for each in service.add([NewItem(title=line, agent=AGENT) for _ in range(3)])
        if each.item is not None
    )
    service.ask(start(service, asking, AGENT).run, text)
    run = start(service, limited, AGENT).run
    service.release([Report(run=run, wall=QuotaLimit(for_s=600.0, whole_agent=True, why=line))])
    service.cancel(stopped, why=line, by=line)
    service.block(lane=LANE, blocker=line, why=line, url="https://example.com/", by=line)
    service.pause_agent("reviewer", paused=True, why=line, by=line)
    service.pause_project("acme/old", paused=True, why=line, by=line, create=True)
    service.set_mode(scope="project", value="acme/old", mode="observe", by=line)
    service.see_worker("w@build", host=line, pid=1, folder=line, agent=AGENT, slots=1, runs=1)
    graph = Graph(tasks=(TaskSpec(key="x", title=line, agent=AGENT),))
    plan = service.create_plan(line, graph, editor="planner", by=line).id
    service.pause_plan(plan, why=line, by=line)
    add_failed(service, effect("a", 1, "label", labels=[text]), text)
    outbox_of(service).enqueue([effect("b", 2, text=text), effect("c", 3, "lane")])
    values = {"/lane": "/lane?name=issue%3Aacme%2Fapp%2342"}
    return {route: values.get(route, route.format(item=item, plan=plan)) for route in ROUTES}


def drawn(site: Site, text: str) -> Drawn:
    """The elements of every page of a store with this text, in the same milliseconds: pages draw time."""
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(SqliteDatabase, "now_us", Ticking()),
        closing(open_service(url=f"sqlite:///{Path(folder) / 'interlock.db'}")) as service,
    ):
        assert isinstance(service, LocalService)
        addresses = story(service, text)
        site.serve(service)
        try:
            visitor = site.visitor()
            found = Drawn()
            for route, address in addresses.items():
                seen = visitor.get(address)
                assert seen.status == 200, (route, seen.words)
                page = Structure(seen.text)
                assert page.comments == 0, route
                for each in page.addresses:
                    assert each.startswith(("/", "#")) != web_address(each), (route, each)
                    assert not each.startswith(("//", "/\\")), (route, each)
                found[route] = page.elements
            return found
        finally:
            site.leave()


@pytest.fixture(scope="module")
def plain(one_site: Site) -> Drawn:
    return drawn(one_site, "plain")


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(text=texts)
@example(text="x<script>alert(1)</script>\"><img src=x onerror=alert(1)>'x")
@example(text="x\x01key\x02{{ 7 * 7 }}</title></textarea></pre></svg><!--x")
def test_no_text_becomes_an_element_an_attribute_or_a_link(one_site: Site, plain: Drawn, text: str) -> None:
    found = drawn(one_site, text)
    for route, elements in plain.items():
        assert found[route] == elements, route
