"""An agent comes back between the claim that finds its item overtakable and the lock of that claim.

The second connection commits at exactly that moment, on each database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from interlock.core import overtaking
from interlock.core.claims import Claim
from interlock.core.model import NewItem
from interlock.core.timing import Timing
from interlock.service.contract import Report
from interlock.service.local import LocalService
from interlock.store.postgres.claims import Claims
from interlock.store.sqlite.store import SqliteStore
from tests.clock import Clock
from tests.faults.stores import assert_kept, is_sqlite, open_service, read_log

LANE = "issue:acme/app#42"
CALM = Timing(lease_s=60)
AFTER_S = 60.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pair(any_url: str, clock: Clock) -> Iterator[tuple[LocalService, LocalService]]:
    """Two services on one store, each with its own connection."""
    first, second = (open_service(any_url, timing=CALM, now=clock) for _ in range(2))
    yield first, second
    first.close()
    second.close()


def claim_the_item(service: LocalService) -> None:
    assert len(service.next("coder")) == 1


def claim_in_vain(service: LocalService) -> None:
    assert service.next("coder", types=["nothing"]) == []


def run_elsewhere(service: LocalService) -> None:
    service.add([NewItem(title="other", agent="coder", type="other")])
    assert len(service.next("coder", types=["other"])) == 1


def report_a_worker(service: LocalService) -> None:
    service.see_worker("box.1", host="box", pid=1, folder="/work", agent="coder", slots=1, runs=0)


def forbid(service: LocalService) -> None:
    service.set_agent("coder", overtake_after_s=0)


def close_the_gate(service: LocalService) -> None:
    service.set_gate(LANE, series="series:acme/app/RFC-093", open=False, why="not its turn")


def block_the_lane(service: LocalService) -> None:
    service.block(lane=LANE, blocker="acme/app#3", why="first that")


MEANWHILE = (
    claim_the_item,
    claim_in_vain,
    run_elsewhere,
    report_a_worker,
    forbid,
    close_the_gate,
    block_the_lane,
)


def between_look_and_lock(patch: pytest.MonkeyPatch, url: str, work: Callable[[], object]) -> list[str]:
    """Do `work` once, as soon as a claim has found what it may overtake and has locked nothing yet."""
    done: list[str] = []
    owner, name = (SqliteStore, "_overtakable") if is_sqlite(url) else (Claims, "_overtake_one")
    found: Any = getattr(owner, name)

    def interrupt() -> None:
        if not done:
            done.append("interrupted")
            work()

    def look(self: Any, *args: Any) -> Any:
        """SQLite: the look without the lock has its answer."""
        candidates = found(self, *args)
        if candidates:
            interrupt()
        return candidates

    def lock(self: Any, *args: Any) -> Any:
        """PostgreSQL: the candidates were read, and the transaction that decides has no lock yet."""
        interrupt()
        return found(self, *args)

    patch.setattr(owner, name, look if is_sqlite(url) else lock)
    return done


def without_the_guard(patch: pytest.MonkeyPatch) -> None:
    """Believe the look without a lock. Under its lock SQLite gets the first answer again."""
    first: list[Any] = []
    found = SqliteStore._overtakable

    def once(self: SqliteStore, claim: Claim, *args: Any) -> Any:
        if claim.agent == "coder":
            return found(self, claim, *args)
        first.extend(() if first else found(self, claim, *args))
        return first

    patch.setattr(SqliteStore, "_overtakable", once)
    patch.setattr(overtaking, "may_overtake", lambda *_: True)
    patch.setattr(overtaking, "is_gone", lambda *_: True)


def waits_for_coder(service: LocalService, clock: Clock) -> tuple[int, int]:
    """The owner of a lane whose agent counts as gone, and the item of cto behind it."""
    assert service.next("coder") == []
    owner, item = (service.add([NewItem(title=a, lane=LANE, agent=a)])[0].item for a in ("coder", "cto"))
    assert owner is not None
    assert item is not None
    clock.advance(AFTER_S)
    return owner.id, item.id


@pytest.mark.parametrize("meanwhile", MEANWHILE, ids=lambda f: f.__name__)
def test_an_agent_that_comes_back_at_that_moment_keeps_its_lane(
    pair: tuple[LocalService, LocalService],
    any_url: str,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    meanwhile: Callable[[LocalService], None],
) -> None:
    """Taken out: `is_gone` in `overtake` on PostgreSQL; on SQLite the second look under the lock as well."""
    claims, other = pair
    owner, item = waits_for_coder(claims, clock)
    done = between_look_and_lock(monkeypatch, any_url, lambda: meanwhile(other))
    assert claims.next("cto") == []
    assert done == ["interrupted"]
    assert claims.why(item).item.status == "deferred"
    assert claims.why(owner).item.status == ("in_progress" if meanwhile is claim_the_item else "pending")
    assert "lane.overtaken" not in {line.kind for line in read_log(any_url)}
    assert_kept(any_url)


def start_the_owner(service: LocalService, owner: int) -> None:
    service.pause_agent("coder", paused=False, why="")
    assert [lease.item.id for lease in service.next("coder")] == [owner]


def end_the_owner(service: LocalService, owner: int) -> None:
    service.cancel(owner, why="not needed")


@pytest.mark.parametrize("meanwhile", [start_the_owner, end_the_owner], ids=lambda f: f.__name__)
def test_an_owner_that_starts_or_ends_at_that_moment_is_not_overtaken(
    pair: tuple[LocalService, LocalService],
    any_url: str,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    meanwhile: Callable[[LocalService, int], None],
) -> None:
    """Its agent was paused, so nobody asks whether it is gone. Taken out: `may_overtake` in `overtake` on
    PostgreSQL; on SQLite the second look under the lock as well."""
    claims, other = pair
    owner, item = waits_for_coder(claims, clock)
    claims.pause_agent("coder", paused=True, why="holiday")
    done = between_look_and_lock(monkeypatch, any_url, lambda: meanwhile(other, owner))
    claims.next("cto")
    assert done == ["interrupted"]
    ended = meanwhile is end_the_owner
    assert claims.why(owner).item.status == ("cancelled" if ended else "in_progress")
    assert claims.why(item).item.status in (("pending", "in_progress") if ended else ("deferred",))
    assert "lane.overtaken" not in {line.kind for line in read_log(any_url)}
    assert_kept(any_url)


@pytest.mark.parametrize("meanwhile", [claim_in_vain, report_a_worker, forbid], ids=lambda f: f.__name__)
def test_without_the_guard_it_loses_its_lane(
    pair: tuple[LocalService, LocalService],
    any_url: str,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    meanwhile: Callable[[LocalService], None],
) -> None:
    """The interleaving is the one that the guard is for."""
    claims, other = pair
    _, item = waits_for_coder(claims, clock)
    without_the_guard(monkeypatch)
    done = between_look_and_lock(monkeypatch, any_url, lambda: meanwhile(other))
    leases = claims.next("cto")
    assert done == ["interrupted"]
    assert [lease.item.id for lease in leases] == [item]
    claims.done([Report(run=lease.run) for lease in leases])
