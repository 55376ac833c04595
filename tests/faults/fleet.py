"""A fleet: producers, workers and sweepers on one store, and the faults that hit them."""

from __future__ import annotations

import random
import threading
from pathlib import Path

from interlock.service.contract import Report
from tests.faults import traffic
from tests.faults.processes import Actor, Crew, wait_until
from tests.faults.stores import open_service, query

WORKERS = 6
#: With fewer runs a storm shows nothing.
ENOUGH_RUNS = 20


class Fleet:
    """Producers, workers and sweepers on one store, and their journals."""

    def __init__(self, crew: Crew, url: str, folder: Path, seed: int) -> None:
        self.crew, self.url, self.folder = crew, url, folder
        self.dice = random.Random(seed)
        self.ghosts: list[threading.Timer] = []
        self.frozen: list[Actor] = []
        service = open_service(url)
        service.set_agent("ada", max_concurrency=4)
        service.close()
        self.producer = crew.start(traffic.produce, url, folder, seed)
        self.sweepers = [crew.start(traffic.sweep, url) for _ in range(2)]
        self.workers = [self._worker(n) for n in range(WORKERS)]

    def _worker(self, n: int) -> Actor:
        agent = traffic.AGENTS[n % len(traffic.AGENTS)]
        return self.crew.start(traffic.work, self.url, self.folder, agent, self.dice.randrange(2**32))

    def kill_one(self) -> None:
        """`kill -9` a worker, now and then a sweeper, and start another in its place. What a dead worker had
        in its hands is finished in its name a little later, when somebody else may be at work on it."""
        if self.dice.random() < 0.1:
            self.sweepers.pop().kill()
            self.sweepers.append(self.crew.start(traffic.sweep, self.url))
            return
        n = self.dice.randrange(WORKERS)
        victim, self.workers[n] = self.workers[n], self._worker(n)
        victim.kill()
        late = traffic.unacknowledged(self.folder, victim.pid)
        ghost = threading.Timer(
            self.dice.uniform(1.1, 1.6), traffic.knock, (self.url, traffic.Journal(self.folder), late)
        )
        self.ghosts.append(ghost)
        ghost.start()

    def stop_one(self) -> None:
        """Stop a worker for longer than its lease, then let it go on where it was."""
        awake = [actor for actor in self.workers if actor not in self.frozen]
        if not awake:
            return
        victim = self.dice.choice(awake)
        self.frozen.append(victim)
        victim.stop()

        def thaw() -> None:
            victim.go_on()
            self.frozen.remove(victim)

        self.ghosts.append(threading.Timer(self.dice.uniform(1.1, 1.6), thaw))
        self.ghosts[-1].start()

    def worked(self) -> bool:
        """Whether there were runs enough for the storm to be one."""
        return len(traffic.journals(self.folder, "claimed")) > ENOUGH_RUNS

    def calm_down(self) -> tuple[int, ...]:
        """Add no more, and wait until all that was added has ended; the ids that were acknowledged."""
        for ghost in self.ghosts:
            ghost.join()
        self.producer.tell("stop")
        assert self.producer.join() > 0
        unfinished = (
            "SELECT count(*) FROM items WHERE status IN ('waiting', 'deferred', 'pending', 'in_progress')"
            f" AND title <> '{traffic.IN_FRONT}'"
        )
        while (left := query(self.url, unfinished)) != [(0,)]:
            wait_until(lambda left=left: query(self.url, unfinished) < left, "one more item has ended")  # type: ignore[misc]
        for actor in self.workers:
            actor.tell("stop")
        for actor in self.workers:
            assert actor.join() is None
        for actor in self.sweepers:
            actor.tell("stop")
            actor.join()
        return tuple(item for (item,) in traffic.journals(self.folder, "added"))

    def haunt(self) -> None:
        """Finish once more whatever was never acknowledged; by now every one of these runs has ended."""
        service = open_service(self.url)
        late = traffic.unacknowledged(self.folder)
        accepted = [run for handle, run, _ in late if service.done([Report(run=handle)])[0].refusal is None]
        service.close()
        assert not accepted, f"runs {accepted} had ended and finished once more"
