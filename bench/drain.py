"""One measured drain: two processes empty one queue, and nothing may be lost or done twice."""

from __future__ import annotations

import multiprocessing
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.queues import SimpleQueue
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Barrier

from bench.subject import Order, Shift, Subject, Tally

WORKERS = 2
READY_TIMEOUT_S = 60


class Broken(Exception):
    """A subject lost an item, finished one twice, or its worker died."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """The outcome of one drain, already checked."""

    items: int
    elapsed_s: float
    complete: bool
    #: Processor time of all workers while they drained, and of the server all the while they lived.
    worker_cpu_s: float
    server_cpu_s: float

    @property
    def items_per_s(self) -> float:
        return self.items / self.elapsed_s


def drain(
    subject: Subject,
    url: str,
    *,
    n: int,
    batch: int,
    lanes: int | None = None,
    limit_s: float = 60,
    server_cpu_s: Callable[[], float] = lambda: 0.0,
) -> Drained:
    """Set up, fill, drain with `WORKERS` processes and verify."""
    subject.setup(url)
    subject.fill(url, n, lanes)
    orders = [
        Order(url=url, worker=worker, batch=batch, total=n, lanes=lanes, limit_s=limit_s)
        for worker in range(WORKERS)
    ]
    cpu_before_s = server_cpu_s()
    tallies = _run_workers(subject, orders)
    cpu_s = server_cpu_s() - cpu_before_s
    _verify(subject, url, n, tallies)
    items = sum(len(tally.finished) for tally in tallies)
    elapsed_s = max(tally.ended_s for tally in tallies) - min(tally.started_s for tally in tallies)
    return Drained(
        items=items,
        elapsed_s=elapsed_s,
        complete=items == n,
        worker_cpu_s=sum(tally.cpu_s for tally in tallies),
        server_cpu_s=cpu_s,
    )


def _run_workers(subject: Subject, orders: list[Order]) -> list[Tally]:
    # Spawned, not forked: a fork would share sockets and locks that the libraries hold.
    context = multiprocessing.get_context("spawn")
    answers: SimpleQueue[Tally | str] = context.SimpleQueue()
    barrier = context.Barrier(len(orders))
    finished: Synchronized[int] = context.Value("q", 0)
    workers = [
        context.Process(target=_work, args=(subject, order, barrier, finished, answers)) for order in orders
    ]
    for worker in workers:
        worker.start()
    received = [answers.get() for _ in workers]
    for worker in workers:
        worker.join()
    failures = [answer for answer in received if isinstance(answer, str)]
    if failures:
        raise Broken(f"{subject.name}: a worker failed\n" + "\n".join(failures))
    return [answer for answer in received if isinstance(answer, Tally)]


def _work(
    subject: Subject,
    order: Order,
    barrier: Barrier,
    finished: Synchronized[int],
    answers: SimpleQueue[Tally | str],
) -> None:
    def count(more: int) -> int:
        with finished.get_lock():
            finished.value += more
            return finished.value

    tally = Tally()
    shift = Shift(order=order, tally=tally, begin=lambda: _meet(barrier), count=count)
    try:
        subject.drain(shift)
    except Exception:
        barrier.abort()
        answers.put(traceback.format_exc())
    else:
        answers.put(tally)


def _meet(barrier: Barrier) -> None:
    barrier.wait(timeout=READY_TIMEOUT_S)


def _verify(subject: Subject, url: str, n: int, tallies: list[Tally]) -> None:
    """Each item was finished at most once, and the store agrees on which were."""
    times = Counter(number for tally in tallies for number in tally.finished)
    twice = [number for number, count in times.items() if count > 1]
    if twice:
        raise Broken(f"{subject.name}: {len(twice)} items were finished twice, such as {twice[:5]}")
    if not times.keys() <= set(range(n)):
        raise Broken(f"{subject.name}: finished items that nobody added")
    left = subject.left(url)
    if len(times) + left != n:
        raise Broken(f"{subject.name}: of {n} items {len(times)} were finished, but {left} are left")
    if not times:
        raise Broken(f"{subject.name}: nothing was finished")
