"""Two operators at once: each setting is written by itself, and its answer is what was written."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from interlock.core.model import NewItem
from interlock.core.record import replace
from interlock.service.contract import Service
from interlock.service.local import LocalService
from tests.conformance.conftest import OpenService
from tests.conformance.scene import LANE, Scene


@pytest.fixture
def others(open_service: OpenService, service: Service) -> LocalService:
    """Another operator's service on the same database."""
    other = open_service()
    assert isinstance(other, LocalService)
    return other


def around(
    service: Service,
    setter: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    before: Callable[[], object] | None = None,
    after: Callable[[], object] | None = None,
) -> None:
    """Let something happen just before the store writes a setting, or as soon as it has written it."""
    assert isinstance(service, LocalService)
    written = getattr(service.store, setter)

    def write(*args: Any, **options: Any) -> Any:
        if before is not None:
            before()
        answer = written(*args, **options)
        if after is not None:
            after()
        return answer

    monkeypatch.setattr(service.store, setter, write)


class TestTwoOperators:
    """Both set one agent, each something else: the second writes after the first has read."""

    @pytest.fixture(autouse=True)
    def agent(self, service: Service) -> None:
        service.set_pool("gpu", max_concurrency=9)
        service.set_agent("coder", max_concurrency=1, types=["fix"])

    def test_a_change_of_labels_undoes_no_pause(
        self, service: Service, others: LocalService, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pause = partial(others.pause_agent, "coder", paused=True, why="holiday")
        around(service, "set_agent", monkeypatch, before=pause)
        made = service.set_agent("coder", labels=["python"])
        assert (made.labels, made.paused_reason) == (("python",), "holiday")
        assert service.agents() == [replace(made, deferred=0)]
        assert service.next("coder") == []

    def test_a_pause_undoes_no_limit(
        self, scene: Scene, others: LocalService, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        change = partial(others.set_agent, "Coder", max_concurrency=5, types=[], labels=["go"], pool="gpu")
        around(scene.service, "set_agent", monkeypatch, before=change)
        made = scene.service.pause_agent("coder", paused=True, why="holiday")
        assert (made.max, made.types, made.labels, made.pool) == (5, (), ("go",), "gpu")
        assert (made.name, made.paused_reason) == ("Coder", "holiday")

    def test_a_change_of_one_thing_is_recorded_with_what_the_agent_can_do_then(
        self, scene: Scene, others: LocalService, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        change = partial(others.set_agent, "coder", max_concurrency=5)
        around(scene.service, "set_agent", monkeypatch, before=change)
        scene.service.set_agent("coder", pool="gpu")
        said = [e.data for e in scene.history() if e.kind == "agent.set"][-1]
        assert (said["max"], said["pool"], said["types"]) == (5, "gpu", ["fix"])


class TestRemovedMeanwhile:
    """A thing that is removed at the moment it is set was set: the answer says how."""

    def test_a_pool(self, service: Service, others: LocalService, monkeypatch: pytest.MonkeyPatch) -> None:
        around(service, "set_pool", monkeypatch, after=lambda: others.remove_pool("gpu"))
        made = service.set_pool("gpu", max_concurrency=3)
        assert (made.name, made.max, made.running, made.agents) == ("gpu", 3, 0, ())
        assert service.pools() == []

    def test_an_agent(self, service: Service, others: LocalService, monkeypatch: pytest.MonkeyPatch) -> None:
        around(service, "set_agent", monkeypatch, after=lambda: others.remove_agent("coder"))
        made = service.set_agent("Coder", labels=["python"])
        assert (made.name, made.key, made.labels) == ("Coder", "coder", ("python",))
        paused = service.pause_agent("coder", paused=True, why="holiday", create=True)
        assert (paused.key, paused.paused_reason) == ("coder", "holiday")
        assert service.agents() == []

    def test_a_block(self, service: Service, others: LocalService, monkeypatch: pytest.MonkeyPatch) -> None:
        around(service, "block", monkeypatch, after=lambda: others.unblock(lane=LANE))
        for _ in range(2):
            made = service.block(lane=LANE, blocker="acme/app#3", why="blocked by")
            assert (made.blocker, made.reason) == ("acme/app#3", "blocked by")
        assert service.blocks() == []

    def test_the_pool_of_an_agent_that_is_read(
        self, service: Service, others: LocalService, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of an agent that leaves a pool, which then goes, one moment is read."""
        assert isinstance(service, LocalService)
        service.set_pool("gpu", max_concurrency=3)
        service.set_agent("coder", pool="gpu")
        read = service.store.pools

        def pools() -> Any:
            others.set_agent("coder", pool="")
            others.remove_pool("gpu")
            return read()

        monkeypatch.setattr(service.store, "pools", pools)
        agent = service.store.agent("coder")
        assert agent is not None
        assert (agent.pool, agent.pool_max) == ("gpu", 3)


def test_the_owner_of_a_long_lane_comes_first_and_its_line_in_order(scene: Scene) -> None:
    """More wait than one answer has: those at the end of the line are left out."""
    owner = scene.put(lane=LANE, position=5, payload='{"n": 1}')
    scene.service.add([NewItem(title="late", lane=LANE, position=1_000 + n) for n in range(1_000)])
    first = scene.put(lane=LANE, position=7)
    found = scene.service.on_lane(LANE)
    assert [view.id for view in found[:2]] == [owner, first]
    assert found[0].payload == {"n": 1}
    assert len(found) == 1_000
    assert [view.position for view in found] == sorted(view.position or 0 for view in found)
