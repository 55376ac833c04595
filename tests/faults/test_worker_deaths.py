"""Workers and agents that are killed or stopped: nothing goes on without a lease, nothing stays behind."""

from __future__ import annotations

import os
import signal
import time

import psutil  # type: ignore[import-untyped]
import pytest

from tests.faults.processes import wait_until
from tests.faults.stores import query
from tests.faults.workers import Site, gone, until_gone

#: Puts its number and that of a child in another session into files, and works for long.
WITH_CHILD = "setsid sleep 300 & echo $! > child.pid; echo $$ > agent.pid; wait"
#: Ends only by SIGKILL.
STUBBORN = "trap '' INT TERM; echo $$ > agent.pid; while :; do sleep 0.05; done"


def stop(*pids: int) -> None:
    """Freeze them, and return when they are frozen."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    stopped = (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
    wait_until(lambda: all(psutil.Process(pid).status() in stopped for pid in pids), "they are stopped")


def test_kill_9_of_a_worker_takes_its_agent_and_what_that_started_down(site: Site) -> None:
    """Long before the lease is over. Without the supervisor's watch over its socket both processes live on
    for as long as their trust lasts (tried by hand)."""
    item = site.add(lane="issue:acme/app#1", lease_s=3600.0)
    worker = site.work(WITH_CHILD)
    worker.until("started")
    agent, child = site.number_in("agent.pid"), site.number_in("child.pid")
    worker.kill()
    until_gone(agent, "the agent died with its worker")
    until_gone(child, "what the agent had started died too")
    with site.service() as service:
        service.take_back(item, why="its worker was killed")
    heir = site.work("exit 0", "--limit", "1")
    assert heir.until("ended")["status"] == "succeeded"
    assert [run.status for run in site.runs(item)] == ["released", "succeeded"]
    assert heir.ended() == 0
    assert not list(site.file(".interlock/runs").iterdir())


def test_kill_9_of_an_agent_fails_its_run_and_frees_the_slot(any_site: Site) -> None:
    first, second = any_site.add(max_attempts=1), any_site.add()
    worker = any_site.work('[ "$INTERLOCK_ITEM" = 2 ] || { echo oh no; sleep 300; }', "--limit", "2")
    os.killpg(worker.until("started")["pid"], signal.SIGKILL)
    assert worker.until("ended", item=first)["status"] == "failed"
    assert worker.until("ended", item=second)["status"] == "succeeded"
    (run,) = any_site.runs(first)
    assert run.error is not None
    assert run.error.startswith("Killed by SIGKILL.")
    assert worker.ended() == 0


def test_kill_9_of_the_supervisor_takes_the_agent_down_and_the_worker_goes_on(site: Site) -> None:
    """Without the worker's look for survivors what the agent had started lives on (tried by hand)."""
    site.add(max_attempts=1)
    worker = site.work(WITH_CHILD)
    worker.until("started")
    agent, child = site.number_in("agent.pid"), site.number_in("child.pid")
    psutil.Process(agent).parent().kill()
    assert worker.until("ended")["status"] == "failed"
    assert gone(agent)
    assert gone(child)
    site.add("more work")
    worker.until("started")


def test_a_process_that_outlives_worker_and_supervisor_does_not_block_its_lane_for_the_next_worker(
    site: Site,
) -> None:
    """Both are killed, and a daemon of the agent stays, in a session of its own.

    Without the look into its environment the item is given back again and again (tried by hand).
    """
    item = site.add(lane="issue:acme/app#4", lease_s=1.0)
    worker = site.work(WITH_CHILD)
    worker.until("started")
    agent, child = site.number_in("agent.pid"), site.number_in("child.pid")
    watcher = psutil.Process(agent).parent()
    watcher.suspend()
    worker.kill()
    watcher.kill()
    until_gone(agent, "the agent died with its supervisor")
    assert not gone(child)
    heir = site.work("exit 0", "--limit", "1")
    assert heir.until("ended", item=item)["status"] == "succeeded"
    assert gone(child)


def test_everything_stopped_past_the_lease_and_resumed_dies_within_two_seconds(any_site: Site) -> None:
    """The whole machine pauses: worker, supervisor, agent. Meanwhile the item is another's.

    With the supervisor's test of its clock taken out, the agent goes on until the worker hears the refusal;
    with the worker's reaction taken out as well, for ever (both tried by hand).
    """
    site = any_site
    item = site.add(lane="issue:acme/app#7", lease_s=2.0)
    worker = site.work(STUBBORN + " ")
    fence = worker.until("started")["run"]
    agent = site.number_in("agent.pid")
    watcher = psutil.Process(agent).ppid()
    stop(worker.pid, watcher, agent)
    with site.service() as service:
        (lease,) = wait_until(lambda: service.next("heir", lease_s=60.0), "the item is another's")
        assert lease.item.id == item
        assert lease.fence > fence
        resumed_s = time.monotonic()
        for pid in (agent, watcher, worker.pid):
            os.kill(pid, signal.SIGCONT)
        until_gone(agent, "the old agent is dead")
        assert time.monotonic() - resumed_s < 2.0
        refused = f"SELECT count(*) FROM events WHERE kind = 'run.refused' AND run = {fence}"
        wait_until(lambda: query(site.url, refused) != [(0,)], "a write of the old run is refused")
        assert service.show(item).item.run == lease.fence
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    # It renews once more, or reports the end of its agent, whichever comes first, and after the refusal does
    # neither again. Only an end that was owed while the renewal was under way is reported all the same.
    (said,) = {"lost", "refused"} & set(worker.kinds())
    ((count,),) = query(site.url, refused)
    assert count in ((1,) if said == "lost" else (1, 2))
    assert [run.status for run in site.runs(item) if run.run == fence] == ["lost"]


@pytest.mark.parametrize("both", [False, True], ids=["worker", "worker-and-agent"])
def test_a_worker_that_is_stopped_has_no_agent_when_its_lease_is_over(site: Site, both: bool) -> None:
    """The supervisor's own trust ends it in time. With that taken out the agent works on (tried by hand)."""
    item = site.add(lease_s=3.0)
    worker = site.work(STUBBORN)
    worker.until("started")
    agent = site.number_in("agent.pid")
    stop(worker.pid, *([agent] if both else []))
    until_gone(agent, "the agent ends by itself")
    # Nobody could take the item before: the lease is over only now, or later.
    assert site.item(item).status == "in_progress"
    site.work("exit 0", "--limit", "1").until("ended", item=item)
    worker.signal(signal.SIGCONT)
    # Its renewal comes first, or its report; either is refused.
    wait_until(lambda: worker.peek() and worker.kinds()[-1] in ("lost", "refused"), "it learns of its loss")


def test_a_supervisor_that_is_stopped_is_woken_and_ends_the_run(site: Site) -> None:
    """Without the SIGCONT that comes with each order the run never ends (tried by hand)."""
    site.add(lease_s=2.0)
    worker = site.work("echo $$ > agent.pid; until [ -e go ]; do sleep 0.02; done", "--limit", "1")
    worker.until("started")
    agent = site.number_in("agent.pid")
    stop(psutil.Process(agent).ppid())
    site.file("go").touch()
    assert worker.until("ended")["status"] == "succeeded"


def test_supervisors_that_are_stopped_before_they_have_a_command_disturb_nothing(site: Site) -> None:
    """One is given a command, the other dismissed. Without SIGCONT both are waited for (tried by hand)."""
    worker = site.work("exit 0", "--max", "2")
    worker.until("ready")
    idle = wait_until(lambda: len(found := worker.supervisors()) == 2 and found, "two are ready")
    stop(*(process.pid for process in idle))
    site.add()
    assert worker.until("ended")["status"] == "succeeded"
    stop(*(process.pid for process in worker.supervisors()))
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0


def test_a_stopped_supervisor_does_not_block_its_lane_for_the_next_worker(site: Site) -> None:
    """Its worker is dead, it is stopped, and both it and the agent would live for ever.

    Without the look for what is below the earlier run's supervisor the item is given back again and again
    (tried by hand).
    """
    item = site.add(lane="issue:acme/app#2", lease_s=1.0)
    worker = site.work(STUBBORN)
    worker.until("started")
    agent = site.number_in("agent.pid")
    watcher = psutil.Process(agent).ppid()
    stop(watcher)
    worker.kill()
    heir = site.work("exit 0", "--limit", "1")
    assert heir.until("ended", item=item)["status"] == "succeeded"
    assert gone(agent)
    assert gone(watcher)


@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
def test_an_agent_that_ignores_sigint_and_sigterm_is_killed(site: Site, stopped: bool) -> None:
    """Also one that is stopped: it gets SIGCONT, else only SIGKILL would reach it (tried by hand)."""
    item = site.add(lease_s=8.0)
    heard = "trap 'echo int >> heard' INT; trap 'echo term >> heard' TERM"
    worker = site.work(f"{heard}; echo $$ > agent.pid; while :; do sleep 0.02; done")
    worker.until("started")
    agent = site.number_in("agent.pid")
    if stopped:
        os.killpg(agent, signal.SIGSTOP)
    with site.service() as service:
        service.cancel(item, why="not needed any more")
    assert worker.until("ended")["status"] == "cancelled"
    assert gone(agent)
    assert site.file("heard").read_text().split() == ["int", "term"]
    assert site.item(item).status == "cancelled"


def test_a_daemon_that_an_agent_leaves_is_gone_before_the_end_is_reported(site: Site) -> None:
    """Without PR_SET_CHILD_SUBREAPER it survives the run (tried by hand)."""
    daemon = "(setsid sh -c 'trap \"\" TERM HUP; echo $$ > daemon.pid; while :; do sleep 0.05; done' &) "
    site.add()
    worker = site.work(f"{daemon}; until [ -s daemon.pid ]; do sleep 0.01; done; exit 0", "--limit", "1")
    assert worker.until("ended")["status"] == "succeeded"
    assert gone(site.number_in("daemon.pid"))
    assert worker.ended() == 0


def test_a_silent_agent_keeps_its_lease(any_site: Site) -> None:
    """Four leases long it says nothing. Without the heartbeat its trust ends within the first."""
    item = any_site.add(lease_s=1.0)
    worker = any_site.work("sleep 4", "--limit", "1")
    assert worker.until("ended")["status"] == "succeeded"
    assert [run.status for run in any_site.runs(item)] == ["succeeded"]


def test_an_agent_is_gone_when_its_run_has_timed_out(site: Site) -> None:
    item = site.add(timeout_s=1.5, max_attempts=1)
    worker = site.work(STUBBORN, "--limit", "1")
    worker.until("timed_out")
    assert gone(site.number_in("agent.pid"))
    assert worker.ended() == 0
    assert [run.status for run in site.runs(item)] == ["timed_out"]
