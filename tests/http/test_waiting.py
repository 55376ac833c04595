"""How waiting claims look at the store, counted; and requests that share a commit."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import apsw
import pytest

from interlock.core.errors import InvalidInput
from interlock.core.model import NewItem
from interlock.http import claims as claim_limits
from interlock.http.claims import WaitingClaims
from interlock.http.request_groups import RequestGroups
from interlock.service.contract import ItemFilter, Report
from interlock.service.operations import ROOT
from interlock.store.port import outcome_of
from tests.http.requests import Answered, ask, eventually
from tests.http.serving import Serving, local_service
from tests.patience import PATIENCE_S


class Queue:
    """Items for agents, and claims of them that wait in lines."""

    def __init__(self) -> None:
        self.waiting_claims = WaitingClaims()
        self.ready: Counter[str] = Counter()
        self.claims: list[asyncio.Task[list[Any]]] = []
        self.looks: Counter[str] = Counter()

    def wait(self, agent: str, wait_s: float = PATIENCE_S, gone: asyncio.Event | None = None) -> None:
        async def attempt() -> list[Any]:
            self.looks[agent] += 1
            await asyncio.sleep(0)
            if self.ready[agent]:
                self.ready[agent] -= 1
                return [agent]
            return []

        claim = self.waiting_claims.wait((agent,), agent, attempt, wait_s, gone or asyncio.Event())
        self.claims.append(asyncio.create_task(claim))

    async def settle(self) -> None:
        for _ in range(200):
            await asyncio.sleep(0)

    def got(self) -> list[list[Any]]:
        return [claim.result() for claim in self.claims if claim.done()]


def test_an_item_that_comes_alone_costs_a_few_looks_however_many_wait() -> None:
    """Taken out: lines; each of two hundred looks at every item."""

    async def story() -> None:
        queue = Queue()
        for _ in range(200):
            queue.wait("coder")
        await queue.settle()
        assert queue.looks["coder"] == 1, "one looks for all of them"
        for n in range(1, 51):
            queue.ready["coder"] += 1
            queue.waiting_claims.wake({"coder"}, count=1)
            await queue.settle()
            assert len(queue.got()) == n
        assert queue.looks["coder"] == 1 + 50
        queue.ready["coder"] += 3
        queue.waiting_claims.wake({"coder"})  # nobody knows of how many
        await queue.settle()
        assert len(queue.got()) == 53
        queue.waiting_claims.stop()
        await asyncio.gather(*queue.claims)

    asyncio.run(story())


def test_a_burst_is_given_out_by_several_at_once_and_in_order() -> None:
    async def story() -> None:
        queue = Queue()
        for _ in range(40):
            queue.wait("coder")
        await queue.settle()
        queue.ready["coder"] = 30
        queue.waiting_claims.wake({"coder"})
        await queue.settle()
        assert [claim.done() for claim in queue.claims] == [True] * 30 + [False] * 10
        queue.waiting_claims.stop()
        assert [len(found) for found in await asyncio.gather(*queue.claims)] == [1] * 30 + [0] * 10

    asyncio.run(story())


def test_only_lines_of_the_agents_that_something_is_ready_for_look() -> None:
    async def story() -> None:
        queue = Queue()
        for n in range(50):
            queue.wait(f"agent{n}")
        await queue.settle()
        before = queue.waiting_claims.polls
        queue.ready["agent7"] += 1
        queue.waiting_claims.wake({"agent7"})
        await queue.settle()
        assert queue.got() == [["agent7"]]
        assert queue.waiting_claims.polls == before + 1
        queue.waiting_claims.stop()
        await asyncio.gather(*queue.claims)
        assert not queue.waiting_claims._lines
        assert queue.waiting_claims.waiting == 0

    asyncio.run(story())


def test_what_happens_while_somebody_looks_is_looked_at_again() -> None:
    async def story() -> None:
        lines, looking, go = WaitingClaims(), asyncio.Event(), asyncio.Event()
        ready: list[str] = []

        async def attempt() -> list[Any]:
            found = list(ready)
            looking.set()
            await go.wait()
            return found

        claim = asyncio.create_task(lines.wait("x", "coder", attempt, PATIENCE_S, asyncio.Event()))
        await looking.wait()
        ready.append("work")  # too late for this look
        lines.wake({"coder"})
        go.set()
        assert await claim == ["work"]

    asyncio.run(story())


def test_whose_time_is_over_gets_nothing_unless_it_has_got_it_already() -> None:
    async def story() -> None:
        lines, looking, go, gone = WaitingClaims(), asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def late() -> list[Any]:
            looking.set()
            await go.wait()
            return ["work"]

        claim = asyncio.create_task(lines.wait("x", "coder", late, PATIENCE_S, gone))
        await looking.wait()
        gone.set()
        await asyncio.sleep(0)
        go.set()
        assert await claim == ["work"], "an attempt is never given up half-way"

        async def nothing() -> list[Any]:
            return []

        assert await lines.wait("y", "coder", nothing, 0.02, asyncio.Event()) == []
        assert not lines._lines

    asyncio.run(story())


def test_more_than_was_announced_is_found_at_the_next_look() -> None:
    """Another process may have added something too; what is announced of that is not counted."""

    async def story() -> None:
        queue = Queue()
        for _ in range(5):
            queue.wait("coder")
        await queue.settle()
        queue.ready["coder"] = 3
        queue.waiting_claims.wake({"coder"}, count=1)
        await queue.settle()
        assert len(queue.got()) == 1
        queue.waiting_claims.wake(soon=False)
        await queue.settle()
        assert len(queue.got()) == 3
        queue.waiting_claims.stop()
        await asyncio.gather(*queue.claims)

    asyncio.run(story())


def test_an_error_reaches_everybody_who_waits_for_the_same() -> None:
    async def story() -> None:
        lines = WaitingClaims()

        async def broken() -> list[Any]:
            raise InvalidInput("over")

        claims = [lines.wait("x", "coder", broken, PATIENCE_S, asyncio.Event()) for _ in range(3)]
        found = await asyncio.gather(*claims, return_exceptions=True)
        assert [type(each) for each in found] == [InvalidInput] * 3

    asyncio.run(story())


def test_lines_that_nothing_asks_for_look_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that many lines do not keep the store busy at each thing that another server does."""
    monkeypatch.setattr(claim_limits, "LATER_S", 60.0)

    async def story() -> None:
        queue = Queue()
        for n in range(50):
            queue.wait(f"agent{n}")
        await queue.settle()
        before = queue.waiting_claims.polls
        queue.waiting_claims.wake(soon=False)
        await queue.settle()
        assert queue.waiting_claims.polls == before + 1
        queue.ready["agent9"] += 1
        queue.waiting_claims.wake({"agent9"})
        await queue.settle()
        assert queue.got() == [["agent9"]], "and what is known to be ready comes before them"
        queue.waiting_claims.stop()
        await asyncio.gather(*queue.claims)

    asyncio.run(story())


def test_what_others_did_is_looked_at_while_own_work_keeps_everybody_busy() -> None:
    """Taken out: the place of `_later`; a line that nothing here asks for looks only when nobody does."""

    async def story() -> None:
        lines, gone, busy, go = WaitingClaims(), asyncio.Event(), asyncio.Event(), asyncio.Event()
        ready: list[str] = []

        async def own() -> list[Any]:
            busy.set()
            await go.wait()
            return ["own"]

        async def others() -> list[Any]:
            return list(ready)

        waiting = asyncio.create_task(lines.wait("others", "others", others, PATIENCE_S, gone))
        claim = asyncio.create_task(lines.wait("own", "own", own, PATIENCE_S, gone))
        await busy.wait()
        ready.append("from another server")
        lines.wake(soon=False)
        assert await asyncio.wait_for(waiting, PATIENCE_S) == ready
        go.set()
        await claim

    asyncio.run(story())


def test_whoever_found_no_place_looks_when_others_have_looked() -> None:
    """Taken out: the look after a look has ended; nobody would look before the next thing happens."""

    async def story() -> None:
        lines, gone, go = WaitingClaims(), asyncio.Event(), asyncio.Event()

        async def slow() -> list[Any]:
            await go.wait()
            return []

        async def quick() -> list[Any]:
            return ["work"]

        claims = [
            asyncio.create_task(lines.wait(n, f"agent{n}", slow, PATIENCE_S, gone))
            for n in range(claim_limits.POLLS_MAX)
        ]
        last = asyncio.create_task(lines.wait("last", "last", quick, PATIENCE_S, gone))
        while lines.waiting <= claim_limits.POLLS_MAX or lines.polls < claim_limits.POLLS_MAX:
            await asyncio.sleep(0)
        assert lines.polls == claim_limits.POLLS_MAX, "there is no place for the last one"
        go.set()
        assert await last == ["work"]
        lines.stop()
        await asyncio.gather(*claims)

    asyncio.run(story())


# -- claims with a key that others stand before ---------------------------------------------------------


class Crowd:
    """Claims for the agent `coder`, and others that wait to do the same."""

    def __init__(self, serving: Serving) -> None:
        self._serving, self._token = serving, serving.token()
        self._over = False

    def claim(self, key: str | None = None, **more: Any) -> Answered:
        headers = {} if key is None else {"Idempotency-Key": key}
        body = {"agent": "coder", "wait_s": 1, **more}
        return ask(self._serving.url, "POST", f"{ROOT}/claims", body, token=self._token, headers=headers)

    def gather(self) -> None:
        for _ in range(2):
            threading.Thread(target=self._wait, daemon=True).start()
        self.until_waiting(2)

    def _wait(self) -> None:
        while not self._over:
            self.claim(wait_s=60)

    def until_waiting(self, count: int) -> None:
        eventually(lambda: self._serving.server.claims.lines.waiting == count)

    def add(self, count: int) -> None:
        self._serving.server.service.add([NewItem(title="work", agent="coder")] * count)

    def go_home(self) -> None:
        self._over = True
        self.add(2)
        self.until_waiting(0)


@pytest.fixture
def crowd(serving: Serving) -> Iterator[Crowd]:
    crowd = Crowd(serving)
    yield crowd
    crowd.go_home()


def test_a_repeated_claim_gets_its_lease_and_no_later_beginning(crowd: Crowd) -> None:
    """Taken out: the answer before the wait."""
    crowd.add(1)
    (first,) = crowd.claim("a-key").json["leases"]
    crowd.gather()
    (again,) = crowd.claim("a-key").json["leases"]
    assert (again["run"], again["waited_s"]) == (first["run"], 0)


def test_a_lease_of_an_earlier_request_has_not_waited_as_long_as_its_repetition(
    crowd: Crowd, serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if both had come at once, so that neither knew of the other. Taken out: that only own leases waited;
    a worker would trust this one for as long as the repetition stood in line."""
    monkeypatch.setattr(serving.server.claims.lines, "has_line", lambda _: False)
    crowd.add(1)
    (first,) = crowd.claim("a-key", wait_s=60).json["leases"]
    crowd.gather()
    found: list[Any] = []
    asked = threading.Thread(target=lambda: found.extend(crowd.claim("a-key", wait_s=60).json["leases"]))
    asked.start()
    crowd.until_waiting(3)
    time.sleep(0.05)  # what it must not count
    crowd.add(2)
    asked.join(PATIENCE_S)
    assert [(lease["run"], lease["waited_s"]) for lease in found] == [(first["run"], 0)]


@pytest.mark.parametrize("wrong", [{"lease_s": -5}, {"limit": 0}, {"types": ["no\ttype"]}])
def test_a_wish_that_nobody_can_meet_is_refused_at_once(crowd: Crowd, wrong: dict[str, Any]) -> None:
    crowd.gather()
    assert crowd.claim(wait_s=60, **wrong).status == 422


def _groups(carry_out: Callable[[Any], Any]) -> RequestGroups[Any]:
    return RequestGroups(carry_out, anyio.CapacityLimiter(1))


# -- one commit for several -----------------------------------------------------------------------------


def test_each_request_of_a_group_is_kept_or_undone_by_itself(tmp_path: Path) -> None:
    service = local_service(tmp_path / "interlock.db")

    def broken() -> None:
        with service.store.database.write():  # type: ignore[attr-defined]
            service.add([NewItem(title="undone")])
            raise InvalidInput("no")

    works = [partial(service.add, [NewItem(title=f"{n}")]) for n in range(3)]
    found = service.together([works[0], broken, works[1], works[2]])
    assert [outcome.error is None for outcome in found] == [True, False, True, True]
    assert [item.title for item in service.items(ItemFilter())] == ["0", "1", "2"]
    service.close()


def test_a_group_that_sqlite_has_undone_has_done_nothing(tmp_path: Path) -> None:
    """Taken out: the look at the transaction in `SqliteStore.together`, and the rest is kept without its
    beginning; or the one in `_part`, and it is a missing savepoint that is complained about."""
    service = local_service(tmp_path / "interlock.db")
    database: Any = service.store.database

    def lost() -> None:
        with database.write():
            service.add([NewItem(title="lost")])
            database.db.execute("ROLLBACK")  # as SQLite does of its own accord when the disk is full
            raise OSError("full")

    works = [partial(service.add, [NewItem(title=title)]) for title in ("before", "behind")]
    with pytest.raises(OSError, match="full"):
        service.together([works[0], lost, works[1]])
    assert service.items(ItemFilter()) == []
    service.add([NewItem(title="after")])
    service.close()


def test_if_the_commit_fails_every_request_of_the_group_gets_the_error(tmp_path: Path) -> None:
    """Taken out: the `except` of `RequestGroups`, and all wait for ever; or an answer is given before the
    commit, and somebody hears of an item that is not there."""
    service = local_service(tmp_path / "interlock.db")
    database: Any = service.store.database

    def refuse() -> bool:
        database.db.set_commit_hook(None)
        return True

    def last() -> Any:
        database.db.set_commit_hook(refuse)
        return service.add([NewItem(title="last")])

    works: list[Callable[[], Any]] = [partial(service.add, [NewItem(title=f"{n}")]) for n in range(3)]
    works.append(last)

    async def story() -> None:
        groups = _groups(service.together)
        async with asyncio.timeout(PATIENCE_S):
            found = await asyncio.gather(*map(groups.run, works), return_exceptions=True)
            assert [type(each) for each in found] == [apsw.ConstraintError] * 4
            assert service.items(ItemFilter()) == []
            await groups.run(works[0])
        assert [item.title for item in service.items(ItemFilter())] == ["0"]

    asyncio.run(story())
    service.close()


def test_what_a_group_reads_at_one_moment_is_read_in_its_own_transaction(tmp_path: Path) -> None:
    """Taken out: the look at `is_part` in `at_once`; the reader undoes what came before it."""
    service = local_service(tmp_path / "interlock.db")
    found = service.together([partial(service.add, [NewItem(title="x")]), partial(service.why, 1)])
    assert [outcome.error for outcome in found] == [None, None]
    assert service.show(1).item.title == "x"
    service.close()


def test_a_write_after_a_group_is_whole_again(tmp_path: Path) -> None:
    """Taken out: the end of `together`; the write is a savepoint of nothing, and reads without the lock."""
    service = local_service(tmp_path / "interlock.db")
    database: Any = service.store.database
    service.together([])
    with database.write():
        assert database.db.txn_state() == apsw.SQLITE_TXN_WRITE
    service.close()


def test_who_leaves_a_group_keeps_nobody_else_waiting() -> None:
    """Taken out: the look whether an answer is still wanted; nothing more is ever carried out."""

    async def story() -> None:
        looking, go = threading.Event(), threading.Event()

        def carry_out(works: Any) -> Any:
            looking.set()
            assert go.wait(PATIENCE_S)
            return [outcome_of(work) for work in works]

        groups = _groups(carry_out)
        gone, other = (asyncio.create_task(groups.run(partial(int, n))) for n in range(2))
        await asyncio.to_thread(looking.wait, PATIENCE_S)
        gone.cancel()
        await asyncio.sleep(0)
        go.set()
        async with asyncio.timeout(PATIENCE_S):
            assert await other == 1
            assert await groups.run(partial(int, 2)) == 2

    asyncio.run(story())


def test_requests_that_come_meanwhile_share_the_next_commit() -> None:
    async def story() -> None:
        groups: list[int] = []
        first, go = threading.Event(), threading.Event()

        def carry_out(works: Any) -> Any:
            groups.append(len(works))
            first.set()
            assert go.wait(PATIENCE_S)
            return [outcome_of(work) for work in works]

        def broken() -> None:
            raise InvalidInput("no")

        together = _groups(carry_out)
        answers = [asyncio.create_task(together.run(lambda: "one"))]
        await asyncio.to_thread(first.wait)
        answers += [asyncio.create_task(together.run(partial(int, n))) for n in range(40)]
        answers.append(asyncio.create_task(together.run(broken)))
        await asyncio.sleep(0.01)
        go.set()
        found = await asyncio.gather(*answers, return_exceptions=True)
        assert found[:-1] == ["one", *range(40)]
        assert isinstance(found[-1], InvalidInput)
        assert groups == [1, 32, 9]

    asyncio.run(story())


def test_a_request_that_comes_as_the_last_group_ends_is_carried_out() -> None:
    """Taken out: the count of groups under way; a task that has just ended passes for one that goes on."""

    async def story() -> None:
        groups = _groups(lambda works: [outcome_of(work) for work in works])

        async def again() -> None:
            assert await groups.run(lambda: 1) == 1
            assert await groups.run(lambda: 2) == 2

        async with asyncio.timeout(PATIENCE_S):
            await again()

    asyncio.run(story())


def test_beside_a_slow_group_another_one_begins() -> None:
    """Taken out: the timer of `RequestGroups`; all wait for the slow one."""

    async def story() -> None:
        go = threading.Event()
        groups = RequestGroups[Any](
            lambda works: [outcome_of(work) for work in works], anyio.CapacityLimiter(4), 2
        )
        async with asyncio.timeout(PATIENCE_S):
            slow = asyncio.create_task(groups.run(partial(go.wait, PATIENCE_S)))
            await asyncio.sleep(0)
            found = [asyncio.create_task(groups.run(partial(int, n))) for n in range(3)]
            assert await asyncio.gather(*found) == [0, 1, 2]
            assert not slow.done()
            go.set()
            assert await slow

    asyncio.run(story())


def test_a_request_that_fails_in_an_odd_way_stops_no_other() -> None:
    """Taken out: the case of `StopIteration`, which a future refuses; all later requests would hang."""

    async def story() -> None:
        groups = _groups(lambda works: [outcome_of(work) for work in works])

        def odd() -> None:
            raise StopIteration

        answers = [asyncio.create_task(groups.run(work)) for work in (odd, lambda: 1)]
        found = await asyncio.gather(*answers, return_exceptions=True)
        assert isinstance(found[0], RuntimeError)
        assert found[1] == 1
        assert await groups.run(lambda: 2) == 2

    asyncio.run(story())


def test_a_store_under_many_clients_makes_fewer_commits_than_it_answers_requests(serving: Serving) -> None:
    """Taken out: the group; each request waits for the disk by itself."""
    service = serving.server.service
    database: Any = service.store.database
    begun: list[int] = []
    transaction = database.transaction

    def counted() -> Any:
        if not database.is_part:
            begun.append(1)
        return transaction()

    database.transaction = counted

    def work(n: int) -> None:
        client = serving.client()
        for _ in range(10):
            client.add([NewItem(title="x", agent=f"a{n}")])
            (lease,) = client.next(f"a{n}")
            assert client.done([Report(run=lease.run)])[0].status == "succeeded"

    with ThreadPoolExecutor(12) as threads:
        list(threads.map(work, range(12)))
    assert len(begun) < 12 * 30 * 0.8
    assert {item.status for item in service.items(ItemFilter(all=True))} == {"completed"}
