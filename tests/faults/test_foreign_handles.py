"""Handles of a life that this store does not know: a copied file, a restored dump, a fork.

The numbers of run and item coincide in all of them; the bits do not. A foreign handle has lost its lease, and
whoever works under it stops. `test_guards.py` takes the comparison of the bits out, and sees it missed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import apsw
import pytest

from interlock.core.errors import LeaseLost
from interlock.core.model import NewItem
from interlock.core.plans.model import AddTask, Graph, TaskSpec
from interlock.process.clock import now_s
from interlock.process.live_run import LiveRun
from interlock.service.contract import LeaseView, Report
from interlock.service.local import LocalService
from tests.faults.past import Past
from tests.faults.stores import assert_kept, file_of, open_service, query
from tests.faults.workers import PROGRAM, Site, until_gone
from tests.patience import PATIENCE_S

UNKNOWN = "There is no run"
FOREVER = "echo $$ > pid.new && mv pid.new pid && exec sleep 600"


def relived(service: LocalService, url: str) -> tuple[LeaseView, LeaseView]:
    """A run of a lost past and one of the present, with the same numbers, on different items and lanes."""
    past = Past(url)
    service.add([NewItem(title="before", lane="issue:acme/app#1")])
    zombie = service.next("zombie", lease_s=60)[0]
    past.come_back()
    service.add([NewItem(title="after", lane="issue:acme/app#2")])
    heir = service.next("heir", lease_s=60)[0]
    assert (zombie.fence, zombie.item.id) == (heir.fence, heir.item.id)
    assert zombie.item.lane != heir.item.lane
    return zombie, heir


def rows(url: str) -> tuple[list[tuple[object, ...]], ...]:
    tables = ("items ORDER BY id", "runs ORDER BY run", "messages ORDER BY item, n", "payloads ORDER BY item")
    return tuple(query(url, f"SELECT * FROM {table}") for table in tables)


def test_a_run_of_a_lost_past_can_write_nothing_though_its_numbers_are_given_out_again(any_url: str) -> None:
    service = open_service(any_url)
    zombie, heir = relived(service, any_url)
    service.msg(heir.item.id, "for the heir alone")
    before = rows(any_url)
    for word in ("renew", "done", "fail", "release"):
        (view,) = getattr(service, word)([Report(run=zombie.run, seen=1)])
        assert (view.status, view.item) == ("refused", None)
        assert (view.refusal.code, view.refusal.message.startswith(UNKNOWN)) == ("lease_lost", True)
    for look in (service.inbox, service.item_of, service.plan_batch):
        with pytest.raises(LeaseLost, match=UNKNOWN):
            look(zombie.run)
    assert rows(any_url) == before
    refusals = query(any_url, "SELECT reason, item, run FROM events WHERE kind = 'run.refused'")
    assert refusals == [("foreign_handle", None, zombie.fence)] * 5
    assert [m.text for m in service.inbox(heir.run)] == ["for the heir alone"]
    assert service.done([Report(run=heir.run, seen=1)])[0].status == "succeeded"
    service.close()
    assert_kept(any_url)


def test_an_editor_of_a_lost_past_cannot_edit_in_the_place_of_its_successor(any_url: str) -> None:
    service = open_service(any_url)
    service.set_agent("planner")
    plan = service.create_plan("release", Graph(tasks=(TaskSpec(key="a", title="a"),)), editor="planner")
    service.done([Report(run=service.next("coder")[0].run)])
    past = Past(any_url)
    zombie = service.next("planner")[0]
    past.come_back()
    heir = service.next("planner")[0]
    assert (zombie.fence, zombie.item.id) == (heir.fence, heir.item.id)
    more = (AddTask(task=TaskSpec(key="b", title="b")),)
    with pytest.raises(LeaseLost, match=UNKNOWN):
        service.edit_plan(plan.id, base=1, operations=more, run=zombie.run)
    with pytest.raises(LeaseLost, match=UNKNOWN):
        service.plan_batch(zombie.run)
    assert service.plan(plan.id).revision == 1
    assert service.plan_batch(heir.run).through == 1
    assert service.edit_plan(plan.id, base=1, operations=more, run=heir.run).added == ("b",)
    service.close()


def test_a_copied_file_is_a_store_of_its_own(sqlite_url: str, tmp_path: Path) -> None:
    service = open_service(sqlite_url)
    service.add([NewItem(title=f"work {n}") for n in range(40)])
    held = service.next("coder")[0]
    apsw.Connection(file_of(sqlite_url)).execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(file_of(sqlite_url), tmp_path / "twin.db")
    twin = open_service(f"sqlite://{tmp_path / 'twin.db'}")
    ours, theirs = service.next("coder", limit=20), twin.next("coder", limit=20)
    assert [x.item.id for x in ours] == [x.item.id for x in theirs]
    assert {x.run for x in ours}.isdisjoint(x.run for x in theirs)
    for there, leases in ((twin, ours), (service, theirs)):
        for word in ("renew", "done"):
            views = getattr(there, word)([Report(run=x.run) for x in leases])
            assert {view.refusal.code for view in views} == {"lease_lost"}
    # Whoever was at work when the copy was made holds the item in both: a copy of a lease is a lease.
    for there, leases in ((service, ours), (twin, theirs)):
        assert {v.status for v in there.done([Report(run=x.run) for x in (held, *leases)])} == {"succeeded"}
    service.close()
    twin.close()


def test_a_forked_process_draws_bits_of_its_own(sqlite_url: str, tmp_path: Path) -> None:
    """SQLite's generator is copied by a fork, and is seeded anew for the child's first connection."""
    service = open_service(sqlite_url)
    service.add([NewItem(title=f"work {n}") for n in range(4)])
    service.next("parent")
    children = []
    for n in range(2):
        if (child := os.fork()) == 0:
            drawn = [lease.run.rpartition(".")[2] for lease in open_service(sqlite_url).next("child")]
            (tmp_path / f"drawn-{n}").write_text(json.dumps(drawn))
            os._exit(0)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    drawn = [lease.run.rpartition(".")[2] for lease in service.next("parent")]
    for n in range(2):
        drawn += json.loads((tmp_path / f"drawn-{n}").read_text())
    assert len(drawn) == len(set(drawn)) == 3
    service.close()


# -- whoever works under a foreign handle stops -------------------------------------------------------


@pytest.fixture
def past(site: Site) -> Past:
    """The site's store while it is empty."""
    with site.service():
        return Past(site.url)


def test_a_worker_ends_the_command_of_a_run_that_its_store_has_forgotten(site: Site, past: Past) -> None:
    number = site.add("work")
    worker = site.work(FOREVER)
    pid = site.number_in("pid")
    past.come_back()
    assert UNKNOWN in worker.until("lost")["text"]
    until_gone(pid)
    refused = query(site.url, "SELECT DISTINCT reason, item FROM events WHERE kind = 'run.refused'")
    assert refused == [("foreign_handle", None)]
    assert site.add("again") == number, "the store has forgotten the item too"
    worker.until("started")


def test_a_hold_ends_its_command_when_its_store_has_forgotten_it(site: Site, past: Past) -> None:
    command = [*PROGRAM, "hold", "deploy:production", "--", "sh", "-c", FOREVER]
    holder = subprocess.Popen(
        command, cwd=site.directory, env=site.environment(), stderr=subprocess.PIPE, text=True
    )
    pid = site.number_in("pid")
    past.come_back()
    _, said = holder.communicate(timeout=PATIENCE_S)
    assert holder.returncode == 5
    assert UNKNOWN in said
    until_gone(pid)


def test_a_hook_forbids_the_push_of_a_run_that_its_store_has_forgotten(site: Site, past: Past) -> None:
    site.add("work", lane="issue:acme/app#1")
    with site.service() as service:
        run = service.next("coder", lease_s=60)[0].run
    past.come_back()
    event = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": "git push"}}
    answer = subprocess.run(
        [*PROGRAM, "hook"],
        cwd=site.directory,
        env=site.environment({"INTERLOCK_RUN": run}),
        input=json.dumps(event | {"cwd": str(site.directory), "session_id": "s"}),
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    said = json.loads(answer.stdout)["hookSpecificOutput"]
    assert said["permissionDecision"] == "deny"
    assert UNKNOWN in said["permissionDecisionReason"]


def test_a_python_program_learns_that_its_lease_is_lost(any_url: str) -> None:
    service = open_service(any_url)
    past = Past(any_url)
    service.add([NewItem(title="work")])
    lease = service.next("coder", lease_s=60)[0]
    live = LiveRun(lease, now_s())
    past.come_back()
    live.renewed(service.renew([live.renewal])[0], now_s())
    assert live.lost is not None
    assert live.stop_event.is_set()
    service.close()
