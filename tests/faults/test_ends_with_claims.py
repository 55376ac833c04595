"""An end stands whatever becomes of the claim in its transaction."""

from __future__ import annotations

import pytest

from interlock.core.model import NewItem
from interlock.service.contract import NextWish, Report
from interlock.store.access import RepeatableRequest
from tests.faults.stores import assert_kept, is_sqlite, open_service, query

KEY = RepeatableRequest("key", "asked")


def refuse_starts(url: str) -> None:
    """From now on the database refuses to start a run."""
    if is_sqlite(url):
        query(
            url,
            "CREATE TRIGGER no_starts BEFORE UPDATE ON items WHEN new.status = 'in_progress'"
            " AND old.status <> 'in_progress' BEGIN SELECT RAISE(ABORT, 'no starts'); END",
        )
        return
    query(
        url,
        "CREATE FUNCTION public.no_starts() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'no starts'; END $$",
    )
    query(
        url,
        "CREATE TRIGGER no_starts BEFORE UPDATE ON items FOR EACH ROW WHEN (new.status = 'in_progress'"
        " AND old.status <> 'in_progress') EXECUTE FUNCTION public.no_starts()",
    )


def accept_starts(url: str) -> None:
    query(url, "DROP TRIGGER no_starts" + ("" if is_sqlite(url) else " ON items"))


@pytest.mark.parametrize("keyed", [False, True], ids=["", "with a key"])
@pytest.mark.parametrize("lane", [None, "issue:acme/app#1"])
@pytest.mark.parametrize("limited", [False, True], ids=["plain", "limited"])
def test_the_end_stands_if_the_claim_fails(
    any_url: str, limited: bool, lane: str | None, keyed: bool
) -> None:
    """Taken out: the second attempt without the claim, and the part that SQLite undoes alone; the end is
    lost with the claim."""
    service = open_service(any_url)
    if limited:
        service.set_agent("coder", max_concurrency=1)
    service.add([NewItem(title=title, lane=lane) for title in ("first", "second")])
    (lease,) = service.next("coder", lease_s=60)
    refuse_starts(any_url)
    doing = service.answering(KEY) if keyed else service
    done = doing.done([Report(run=lease.run)], next=NextWish("coder"))
    assert [run.status for run in done.runs] == ["succeeded"]
    assert list(done.runs[0].promoted) == ([2] if lane else [])
    assert done.leases == []
    if keyed:
        kept = service.answered(KEY)
        assert ([run["status"] for run in kept["runs"]], kept["claimed"]) == (["succeeded"], [])
    accept_starts(any_url)
    assert [lease.item.id for lease in service.next("coder", lease_s=60)] == [2]
    assert_kept(any_url, done=((lease.fence, lease.item.id),))
    service.close()


@pytest.mark.parametrize("limited", [False, True], ids=["plain", "limited"])
def test_nothing_is_claimed_if_the_item_was_changed_since_it_was_known(pg_url: str, limited: bool) -> None:
    """Taken out: the look at the answer of the end, with a limit, or at `interlock.ended` in `claim_first`,
    without one; the claim is made, though nothing was ended."""
    service, other = open_service(pg_url), open_service(pg_url)
    if limited:
        service.set_agent("coder", max_concurrency=2)
    service.add([NewItem(title=title) for title in ("first", "second")])
    (lease,) = service.next("coder", lease_s=60)
    assert other.done([Report(run=lease.run)])[0].refusal is None
    done = service.done([Report(run=lease.run)], next=NextWish("coder"))
    assert done.runs[0].refusal is not None
    assert done.leases == []
    assert query(pg_url, "SELECT count(*) FROM events WHERE kind = 'run.started'") == [(1,)]
    service.add([NewItem(title="third")])
    (lease,) = service.next("coder", lease_s=60)
    other.msg(lease.item.id, "one more thing")
    done = service.done([Report(run=lease.run)], next=NextWish("coder", lease_s=60))
    assert done.runs[0].follow_up is not None
    assert len(done.leases) == 1
    assert query(pg_url, "SELECT count(*) FROM events WHERE kind = 'run.started'") == [(3,)]
    service.close()
    other.close()


@pytest.mark.parametrize("before", [0, 3, 4, 5, 6])
def test_a_failed_end_leaves_a_connection_that_works(pg_url: str, before: int) -> None:
    """The claim is sent behind it unseen, and may just then be the one that the driver prepares.

    Taken out: the `ROLLBACK` after a failed pipeline.
    """
    service = open_service(pg_url)
    service.add([NewItem(title=f"item {n}") for n in range(before + 4)])
    held = service.next("coder", lease_s=60)
    for _ in range(before):
        held = service.done([Report(run=held[0].run)], next=NextWish("coder", lease_s=60)).leases
    query(pg_url, "ALTER TABLE runs ADD CONSTRAINT none_ends CHECK (false) NOT VALID")
    with pytest.raises(Exception, match="none_ends"):
        service.done([Report(run=held[0].run)], next=NextWish("coder", lease_s=60))
    query(pg_url, "ALTER TABLE runs DROP CONSTRAINT none_ends")
    for _ in range(2):
        done = service.done([Report(run=held[0].run)], next=NextWish("coder", lease_s=60))
        assert (done.runs[0].refusal, len(done.leases)) == (None, 1)
        held = done.leases
    service.close()
