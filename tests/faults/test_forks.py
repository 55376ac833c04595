"""A program opens a store and then forks. Neither side may use the other's connection, locks or session."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from interlock.core.errors import StoreUnavailable
from interlock.core.model import NewItem
from interlock.service.local import LocalService
from tests.faults.processes import Crew, say
from tests.faults.stores import assert_kept, open_service, query, writing


def add(service: LocalService, title: str) -> int:
    item = service.add([NewItem(title=title)])[0].item
    assert item is not None
    return item.id


def fork(child: Callable[[], object]) -> int:
    """Run a function in a forked child of this process, which says nothing when it dies."""
    pid = os.fork()
    if pid == 0:
        try:
            child()
            os._exit(0)
        finally:
            os._exit(1)
    return pid


def end_of(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def parent_and_child_write(talk: Connection, url: str) -> int:
    """The parent closes the store; its child goes on writing to it. Gives the child's exit code."""
    service = open_service(url)
    add(service, "before the fork")
    ready_r, ready_w = os.pipe()
    closed_r, closed_w = os.pipe()

    def child() -> None:
        add(service, "child, while its parent has the store open")
        os.write(ready_w, b"x")
        os.read(closed_r, 1)
        add(service, "child, after its parent closed the store")
        service.close()

    pid = fork(child)
    os.read(ready_r, 1)
    add(service, "parent, after the fork")
    service.close()
    say(talk, "closed")
    talk.recv()  # a third process writes now
    os.write(closed_w, b"x")
    return end_of(pid)


def test_a_child_that_outlives_its_parents_use_of_the_store_loses_nothing(crew: Crew, url: str) -> None:
    """Taken out: `_before_fork` in the SQLite database. The child then writes to a log that is no longer
    there: it is told of item 4, and so is somebody else. And `_leave_parent` in the PostgreSQL database: two
    processes then speak through one socket.
    """
    family = crew.start(parent_and_child_write, url)
    assert family.hear() == "closed"
    service = open_service(url)
    add(service, "somebody else")
    family.tell()
    assert family.join() == 0
    titles = [title for (title,) in query(url, "SELECT title FROM items ORDER BY id")]
    assert titles == [
        "before the fork",
        "child, while its parent has the store open",
        "parent, after the fork",
        "somebody else",
        "child, after its parent closed the store",
    ]
    service.close()
    assert_kept(url)


def fork_beside_a_writing_thread(talk: Connection, url: str) -> tuple[str, int]:
    """Fork while another thread is inside a transaction; what the child could do, and its exit code."""
    service = open_service(url)
    write = writing(service)
    inside, go_on = threading.Event(), threading.Event()
    whole = write.get()

    def slow(*args: Any) -> None:
        whole(*args)
        inside.set()
        go_on.wait()

    write.put(slow)
    thread = threading.Thread(target=add, args=(service, "thread"))
    thread.start()
    inside.wait()
    write.put(whole)
    outcome_r, outcome_w = os.pipe()

    def child() -> None:
        try:
            os.write(outcome_w, b"added %d" % add(service, "child"))
        except StoreUnavailable as error:
            os.write(outcome_w, error.sentence.encode())

    code = end_of(fork(child))
    go_on.set()
    thread.join()
    add(service, "parent")
    service.close()
    return os.read(outcome_r, 1000).decode(), code


def test_sqlite_refuses_a_child_whose_parent_wrote_in_another_thread(crew: Crew, sqlite_url: str) -> None:
    """Its locks cannot be had there, so it says so, and leaves what the thread is writing alone."""
    outcome, code = crew.start(fork_beside_a_writing_thread, sqlite_url).join()
    assert code == 0
    assert "was forked while another thread" in outcome
    assert query(sqlite_url, "SELECT title FROM items ORDER BY id") == [("thread",), ("parent",)]
    assert_kept(sqlite_url)


def test_postgres_gives_a_child_a_session_of_its_own(crew: Crew, pg_database18: str) -> None:
    """A thread that was writing when its process forked has its session to itself as well."""
    outcome, code = crew.start(fork_beside_a_writing_thread, pg_database18).join()
    assert code == 0
    assert outcome.startswith("added")
    titles = query(pg_database18, "SELECT title FROM items ORDER BY title")
    assert titles == [("child",), ("parent",), ("thread",)]
    assert_kept(pg_database18)


def close_in_child(talk: Connection, url: str) -> int:
    service = open_service(url)
    add(service, "before")
    code = end_of(fork(service.close))
    add(service, "after")
    return code


def test_a_child_that_closes_the_store_does_not_close_its_parents(crew: Crew, url: str) -> None:
    assert crew.start(close_in_child, url).join() == 0
    assert query(url, "SELECT count(*) FROM items") == [(2,)]
