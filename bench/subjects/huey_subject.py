"""huey with SqliteHuey and fsync on: dequeue and execute, which is what its consumer does for each task.

A dequeued task is deleted, so a task whose worker dies is gone: it writes less than the others here.
"""

from __future__ import annotations

import logging
from typing import Any

from bench.databases import clear
from bench.subject import NotAvailable, Shift, Store

BUSY_TIMEOUT_S = 60


class Huey:
    name = "huey (fsync)"
    store: Store = "sqlite"

    def setup(self, url: str) -> None:
        clear(self.store, url)
        make_huey(url)

    def fill(self, url: str, n: int, lanes: int | None = None) -> None:
        if lanes is not None:
            raise NotImplementedError("huey has no lanes")
        _, do_nothing = make_huey(url, fsync=False)  # filling is not measured
        for number in range(n):
            do_nothing(number)

    def drain(self, shift: Shift) -> None:
        huey, _ = make_huey(shift.order.url)
        shift.start()
        while not shift.over:
            task = huey.dequeue()
            if task is None:
                break
            huey.execute(task)
            shift.acknowledge([int(task.args[0])])

    def left(self, url: str) -> int:
        # It keeps no record of finished tasks: what is gone from the queue is done.
        queue, _ = make_huey(url)
        return int(queue.pending_count())


def make_huey(url: str, *, fsync: bool = True) -> tuple[Any, Any]:
    try:
        import huey  # type: ignore[import-untyped]
    except ImportError as missing:
        raise NotAvailable(str(missing)) from missing
    logging.getLogger("huey").setLevel(logging.ERROR)
    queue = huey.SqliteHuey("bench", filename=url, fsync=fsync, timeout=BUSY_TIMEOUT_S)

    @queue.task()  # type: ignore[untyped-decorator]
    def do_nothing(number: int) -> None:  # noqa: ARG001
        return

    return queue, do_nothing
