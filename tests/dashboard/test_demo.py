"""The demo fleet: it starts on an empty store alone, shows something of everything, and leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest

from interlock import settings
from interlock.core.errors import InvalidInput
from interlock.core.model import NewItem
from interlock.demo import fleet as demo_fleet
from interlock.demo.fleet import DemoFleet
from interlock.service.contract import ItemFilter
from interlock.service.demo import AGENTS, PROJECT
from interlock.service.local import LocalService
from interlock.service.opening import open_local
from tests.dashboard.client import Site
from tests.patience import PATIENCE_S
from tests.postgres_server import PostgresServer


def eventually(holds: Callable[[], Any], what: str) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end_s, f"{what} does not come"
        time.sleep(0.1)


def opened(url: str, folder: Path) -> LocalService:
    """A service with a fleet, as a server opens it."""
    chosen = settings.load(environ={**os.environ, "INTERLOCK_URL": url}, directory=folder)
    service = open_local(chosen)
    defects: list[Exception] = []
    fleet = DemoFleet(service, chosen, defects.append)
    service.demo_operations.open_fleet = lambda: fleet
    return service


@pytest.fixture(params=["sqlite", "postgres"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LocalService]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/interlock.db"
    else:
        server: PostgresServer = request.getfixturevalue("postgres18")
        url = server.create_database(f"demo_{tmp_path.name.replace('-', '_')}")
    with closing(opened(url, tmp_path)) as service:
        yield service
        service.demo_operations.leave_demo()


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything happens in the first seconds."""
    for name in ("ASK_AFTER_S", "DEAD_AFTER_S", "CRASH_AFTER_S"):
        monkeypatch.setattr(demo_fleet, name, 0.0)


def processes() -> list[psutil.Process]:
    """The agents of fleets of this process."""
    found = []
    for each in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it has just ended
            found += [each] if "interlock.demo.fleet_agent" in " ".join(each.cmdline()) else []
    return found


def left(service: LocalService) -> tuple[Any, ...]:
    """What a fleet could leave behind."""
    return (
        service.items(ItemFilter(all=True)),
        service.plans(ended=True),
        [agent.name for agent in service.agents()],
        service.workers(),
        dict(service.stats().items),
    )


NOTHING: tuple[Any, ...] = ([], [], [], [], {})


@pytest.mark.slow
@pytest.mark.usefixtures("hasty")
def test_it_works_asks_crashes_comes_back_and_edits_a_plan(service: LocalService) -> None:
    assert service.start_demo().running

    def happened(kind: str) -> bool:
        service.sweep()
        return any(event.kind == kind for event in service.events(limit=10_000))

    for kind in ("run.succeeded", "question.asked", "run.lost", "plan.modified"):
        eventually(lambda kind=kind: happened(kind), kind)  # type: ignore[misc]
    # If the agent of the item that always fails is the one that crashes, the run is lost instead.
    eventually(lambda: {"question", "dead_letter"} <= set(service.attention().counts), "a dead letter")
    eventually(lambda: len(processes()) == len(AGENTS), "the crashed agent")
    assert {item.project for item in service.items(ItemFilter(all=True))} == {PROJECT}
    view = service.stop_demo()
    assert (view.running, view.present) == (False, False)
    assert processes() == []
    assert left(service) == NOTHING
    broken = {check.name for check in service.doctor() if not check.ok}
    assert broken <= {"writes_are_durable"}, "the test's server is quick instead"


def test_it_starts_without_trouble_and_its_workers_tell_their_runs(service: LocalService) -> None:
    """Taken out: the age of the items of an agent that was never seen, or the report of a new run."""
    service.start_demo()
    assert "absent_agent" not in service.attention().counts
    eventually(lambda: any(worker.runs for worker in service.workers()), "a worker with a run")


def test_it_needs_an_empty_store_and_touches_nothing_else(service: LocalService) -> None:
    assert service.start_demo().running
    mine = service.add([NewItem(title="mine", agent="demo-ada", lane="issue:demo/shop#42")])[0].arrival
    service.set_agent("me", max_concurrency=2)
    service.stop_demo()
    (item,) = service.items(ItemFilter(all=True))
    assert (item.id, item.status, item.attempt) == (mine, "pending", 0)
    assert [agent.name for agent in service.agents()] == ["demo-ada", "me"], "my item names one of them"
    assert not service.demo().present
    with pytest.raises(InvalidInput, match="needs an empty store"):
        service.start_demo()
    assert processes() == []


def test_a_fleet_of_a_killed_server_is_removed(service: LocalService) -> None:
    assert service.start_demo().running
    fleet: Any = service.demo_operations._fleet
    fleet._run.end()
    fleet._run = None
    view = service.demo()
    assert (view.running, view.present) == (False, True)
    assert service.start_demo().running, "what was left is removed first"
    service.stop_demo()
    assert left(service) == NOTHING


def test_another_server_removes_it(service: LocalService, tmp_path: Path) -> None:
    """Taken out: the mark. The first server would add items to what the second one has removed."""
    assert service.start_demo().running
    url = str(getattr(service.store.database, "url", "")) or f"sqlite:///{tmp_path}/interlock.db"
    with closing(opened(url, tmp_path)) as other:
        view = other.demo()
        assert (view.running, view.present) == (False, True)
        other.stop_demo()
        eventually(lambda: not service.demo().running, "the end of the fleet")
        eventually(lambda: processes() == [], "the end of the processes")
        assert not other.demo().present
        other.stop_demo()
        assert other.items(ItemFilter(all=True)) == []


def test_it_ends_by_itself(service: LocalService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_fleet, "LASTS_S", 0.0)
    service.start_demo()
    eventually(lambda: not service.demo().present, "the end")
    assert left(service) == NOTHING
    eventually(lambda: processes() == [], "the end of the processes")


def test_only_a_server_runs_it(tmp_path: Path) -> None:
    chosen = settings.load(environ={"INTERLOCK_URL": f"sqlite:///{tmp_path}/x.db"}, directory=tmp_path)
    with closing(open_local(chosen)) as service, pytest.raises(InvalidInput, match="Only a server"):
        service.start_demo()


class TestPages:
    @pytest.fixture
    def demo_site(self, one_site: Site, tmp_path: Path) -> Iterator[Site]:
        with closing(opened(f"sqlite:///{tmp_path}/interlock.db", tmp_path)) as service:
            one_site.serve(service)
            yield one_site
            one_site.leave()
            service.demo_operations.leave_demo()

    def test_a_button_starts_it_a_banner_tells_of_it_and_a_button_removes_it(self, demo_site: Site) -> None:
        admin = demo_site.visitor()
        seen = admin.get("/")
        assert "These items, plans and agents are made up." not in seen.words
        assert admin.do(seen.form("start_demo")).status == 303
        for path in ("/", "/plans"):
            assert "These items, plans and agents are made up." in admin.get(path).words, path
        assert admin.do(admin.get("/").form("stop_demo")).status == 303
        seen = admin.get("/")
        assert "These items, plans and agents are made up." not in seen.words
        assert "This store is empty" in seen.words

    @pytest.mark.parametrize("scope", ["read", "agent:coder"])
    def test_only_an_admin_starts_and_stops_it(self, demo_site: Site, scope: str) -> None:
        visitor, admin = demo_site.visitor(scope), demo_site.visitor()
        form = admin.get("/").form("start_demo")
        assert visitor.get("/").forms() == []
        assert visitor.do(form).status == 403
        assert admin.do(form).status == 303
        assert visitor.get("/").forms() == []
        assert "These items, plans and agents are made up." in visitor.get("/").words
        assert visitor.do({**form, "operation": "stop_demo"}).status == 403
        admin.do(admin.get("/").form("stop_demo"))

    def test_a_refusal_says_why(self, demo_site: Site) -> None:
        admin = demo_site.visitor()
        form = admin.get("/").form("start_demo")
        demo_site.server.service.add([NewItem(title="mine")])
        refused = admin.do(form)
        assert refused.status == 422
        assert "The demo fleet needs an empty store" in refused.words


class TestUp:
    def up(self, folder: Path, *more: str) -> subprocess.Popen[str]:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("INTERLOCK_")}
        environ |= {"INTERLOCK_URL": f"sqlite:///{folder}/interlock.db", "HOME": str(folder)}
        command = [sys.executable, "-m", "interlock", "up", "--port", "0", *more]
        return subprocess.Popen(
            command, env=environ, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def test_up_with_a_demo_leaves_an_empty_store(self, tmp_path: Path) -> None:
        up = self.up(tmp_path, "--demo")
        assert up.stdout is not None
        assert "Interlock serves" in up.stdout.readline()
        agents = psutil.Process(up.pid).children(recursive=True)
        assert len(agents) >= len(AGENTS)
        up.send_signal(signal.SIGTERM)
        _, said = up.communicate(timeout=PATIENCE_S)
        assert up.returncode == 0, said
        assert not any(agent.is_running() for agent in agents)
        with closing(opened(f"sqlite:///{tmp_path}/interlock.db", tmp_path)) as service:
            assert left(service) == NOTHING

    def test_a_killed_server_leaves_no_process(self, tmp_path: Path) -> None:
        up = self.up(tmp_path, "--demo")
        assert up.stdout is not None
        assert up.stdout.readline()
        agents = psutil.Process(up.pid).children(recursive=True)
        up.kill()
        up.communicate(timeout=PATIENCE_S)
        _, alive = psutil.wait_procs(agents, timeout=PATIENCE_S)
        assert alive == []

    def test_up_refuses_a_demo_on_a_store_with_items(self, tmp_path: Path) -> None:
        with closing(opened(f"sqlite:///{tmp_path}/interlock.db", tmp_path)) as service:
            service.add([NewItem(title="mine")])
        up = self.up(tmp_path, "--demo")
        out, said = up.communicate(timeout=PATIENCE_S)
        assert (up.returncode != 0, out) == (True, "")
        assert "The demo fleet needs an empty store, and this one has items." in said
