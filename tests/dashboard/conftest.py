"""A server with the dashboard on a fresh SQLite file, and visitors who have signed in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.clock import Clock
from tests.dashboard.client import Site, Visitor
from tests.dashboard.fleet_scenes import DAY, Fleet, fleet
from tests.http.serving import local_service


@pytest.fixture(scope="session")
def one_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with closing(local_service(tmp_path_factory.mktemp("first") / "interlock.db")) as service:
        site = Site(service)
        yield site
        site.stop()


@pytest.fixture
def clock() -> Clock:
    """The store's clock in tests that ask for `clocked`."""
    return Clock(DAY)


@pytest.fixture
def clocked() -> None:
    """Asked for by a test, only the test moves the clock of its store."""


@pytest.fixture
def site(one_site: Site, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    """The server, on an empty store of the test's own; `site.server.service` is its service."""
    moved = {"now": request.getfixturevalue("clock")} if "clocked" in request.fixturenames else {}
    with closing(local_service(tmp_path / "interlock.db", **moved)) as service:
        one_site.serve(service)
        yield one_site
        one_site.leave()


@pytest.fixture
def busy(site: Site, clock: Clock, clocked: None) -> Fleet:
    """A fleet that has worked for an hour."""
    return fleet(site.server.service, clock)


@pytest.fixture
def admin(site: Site) -> Visitor:
    return site.visitor("admin")


@pytest.fixture
def reader(site: Site) -> Visitor:
    """A visitor who may only read."""
    return site.visitor("read")


@pytest.fixture
def coder(site: Site) -> Visitor:
    """A visitor with the scope of the agent `coder`."""
    return site.visitor("agent:coder")
