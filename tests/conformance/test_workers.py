"""Workers that say they are there: who is alive, who is silent, who is forgotten."""

from __future__ import annotations

from interlock.core.workers import ALIVE_S, FORGOTTEN_S
from tests.conformance.scene import Scene


def see(scene: Scene, name: str = "w-1", runs: int = 0) -> None:
    scene.service.see_worker(name, host="h", pid=7, folder="/srv/app", agent="Coder", slots=3, runs=runs)


def test_a_worker_is_alive_while_it_says_so(scene: Scene) -> None:
    see(scene)
    began = scene.clock.now
    scene.clock.advance(ALIVE_S - 1)
    see(scene, runs=2)
    (worker,) = scene.service.workers()
    assert (worker.name, worker.host, worker.pid, worker.folder) == ("w-1", "h", 7, "/srv/app")
    assert (worker.agent, worker.slots, worker.runs, worker.alive) == ("coder", 3, 2, True)
    assert (worker.since, worker.last_seen_at) == (began, scene.clock.now)
    scene.clock.advance(ALIVE_S)
    assert scene.service.workers()[0].alive
    scene.clock.advance(1)
    assert not scene.service.workers()[0].alive


def test_a_worker_that_says_goodbye_is_forgotten_at_once(scene: Scene) -> None:
    see(scene, "w-1")
    see(scene, "w-2")
    scene.service.leave_worker("w-1")
    assert [worker.name for worker in scene.service.workers()] == ["w-2"]


def test_a_silent_worker_is_forgotten_when_another_speaks(scene: Scene) -> None:
    see(scene, "dead")
    scene.clock.advance(FORGOTTEN_S)
    see(scene, "w-2")
    assert [worker.name for worker in scene.service.workers()] == ["w-2", "dead"]
    scene.clock.advance(1)
    see(scene, "w-2")
    assert [worker.name for worker in scene.service.workers()] == ["w-2"]


def test_a_listing_is_bounded(scene: Scene) -> None:
    for n in range(5):
        see(scene, f"w-{n}")
    assert len(scene.service.workers(limit=3)) == 3


def test_why_says_that_nobody_claims_for_an_agent_and_since_when(scene: Scene) -> None:
    see(scene)
    assert scene.service.next("coder") == []
    item = scene.put("work", agent="coder", lane="x:1")
    takes = f"Item {item} is ready for coder and first in the queue; coder's next claim takes it"
    assert scene.service.why(item).why == f"{takes}."
    scene.clock.advance(600)
    dead = ", but no worker of coder is alive: its last sign of life was 10 min ago"
    assert scene.service.why(item).why == f"{takes}{dead}."
    scene.put("behind", agent="cto", lane="x:1")
    assert scene.service.why(item).why == f"{takes}{dead}; another agent's claim may overtake it on x:1."
    see(scene)
    assert scene.service.why(item).why.startswith(f"{takes}; unless coder makes a claim before, in 30 s")
