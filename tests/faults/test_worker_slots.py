"""Slots, draining and rivals: how many run at once, and what must have ended before something begins."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import time
from dataclasses import asdict, replace
from typing import Any

from interlock import settings
from interlock.process import supervisor
from interlock.settings.store_url import absolute_url
from interlock.worker.rundirectory import Home, Trace
from tests.faults.processes import signal_aside, wait_until
from tests.faults.stores import assert_kept, query
from tests.faults.workers import Site, WorkProcess, gone

UNTIL_TOLD = "until [ -e go ]; do sleep 0.02; done"


def test_twelve_items_in_three_slots_are_never_more_than_three_at_once(any_site: Site) -> None:
    """An agent makes a file while it works and notes how many there are."""
    site = any_site
    items = [site.add(f"item {n}", lane=f"issue:acme/app#{n % 5}", lease_s=1.0) for n in range(12)]
    site.file("at-work").mkdir()
    busy = (
        "touch at-work/$INTERLOCK_ITEM; ls at-work | wc -l >> counts; sleep 0.15; rm at-work/$INTERLOCK_ITEM"
    )
    worker = site.work(busy, "--max", "3", "--exit-when-idle")
    assert worker.ended() == 0
    assert {site.item(item).status for item in items} == {"completed"}
    counts = [int(n) for n in site.file("counts").read_text().split()]
    assert max(counts) == 3
    assert_kept(site.url, added=tuple(items))
    ((refused,),) = query(site.url, "SELECT count(*) FROM events WHERE kind = 'run.refused'")
    assert refused == 0


def test_a_drained_worker_finishes_its_runs_and_claims_no_more(site: Site) -> None:
    first, second = site.add(), site.add()
    worker = site.work(UNTIL_TOLD)
    worker.until("started", item=first)
    worker.signal(signal.SIGTERM)
    worker.until("draining")
    site.file("go").touch()
    assert worker.until("ended")["status"] == "succeeded"
    assert worker.ended() == 0
    assert site.item(second).status == "pending"


def test_a_second_signal_stops_the_runs_and_releases_their_items(site: Site) -> None:
    item = site.add(lane="issue:acme/app#3")
    worker = site.work("trap 'echo asked > asked; exit 130' INT; echo $$ > agent.pid; " + UNTIL_TOLD)
    worker.until("started")
    site.number_in("agent.pid")  # from then on it can be asked
    worker.signal(signal.SIGINT)
    worker.until("draining")
    worker.signal(signal.SIGINT)
    assert worker.until("ended")["status"] == "released"
    assert worker.ended() == 0
    assert site.file("asked").read_text() == "asked\n"
    assert site.item(item).status == "pending"


def test_a_third_signal_does_not_wait_for_the_ladder(site: Site) -> None:
    site.add()
    worker = site.work("trap '' INT TERM; echo $$ > agent.pid; " + UNTIL_TOLD)
    worker.until("started")
    agent = site.number_in("agent.pid")
    begun_s = time.monotonic()
    for event in ("draining", "stopping", "stopping"):
        worker.signal(signal.SIGTERM)
        worker.until(event)
    assert worker.ended() == 0
    assert gone(agent)
    assert time.monotonic() - begun_s < 5.0


def test_a_signal_is_heard_while_the_main_thread_waits(site: Site) -> None:
    """It goes to another thread, so that the wait is not interrupted, as with one that comes just before it.

    Taken out: the socket that signals are written into; the worker is then deaf until its agent ends.
    """
    site.add()
    worker = site.work("echo $$ > agent.pid; " + UNTIL_TOLD)
    worker.until("started")
    site.number_in("agent.pid")
    signal_aside(worker.pid, signal.SIGTERM)
    worker.until("draining")
    signal_aside(worker.pid, signal.SIGTERM)
    worker.until("stopping")
    assert worker.ended() == 0


def pretend_run(site: Site, trace: Trace) -> int:
    """The files of an earlier run, and its agent's lock, held as by a living agent."""
    files = site.file(f".interlock/runs/run-{trace.run}")
    files.mkdir(parents=True)
    (files / "worker.lock").touch()
    (files / "record.json").write_text(json.dumps(asdict(trace)))
    lock = os.open(files / "agent.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_SH)
    return lock


def note_session(site: Site, trace: Trace, session: int) -> None:
    record = asdict(replace(trace, session=session, session_begun="1"))
    site.file(f".interlock/runs/run-{trace.run}/record.json").write_text(json.dumps(record))


def earlier(site: Site, item: int, **more: object) -> Trace:
    """A run of an item that the store knows as lost."""
    with site.service() as service:
        (lease,) = service.next("before", lease_s=1.0)
    assert lease.item.id == item
    known: dict[str, Any] = {"title": "x", "lane": lease.item.lane, "agent": "before", "worker": "w", **more}
    url = absolute_url(settings.load(url=site.url, environ={}, directory=site.directory))
    return Trace(run=lease.fence, item=item, store=Home(site.directory, url).store, **known)


def watch_it_wait(site: Site, worker: WorkProcess, item: int) -> None:
    """The worker has the item and starts nothing. There is no sign of something that does not happen."""
    wait_until(lambda: site.item(item).run_agent == "coder", "the worker has claimed it")
    begun_s = time.monotonic()
    while time.monotonic() < begun_s + 1.0:
        worker.peek()
    assert worker.kinds() == ["ready"]


def test_a_process_that_cannot_be_killed_keeps_the_next_run_of_its_lane_from_starting(site: Site) -> None:
    """An earlier run's process is alive and cannot be killed. Without the look for rivals both would work
    (tried by hand)."""
    item = site.add(lane="issue:acme/app#9", lease_s=1.0)
    lock = pretend_run(site, earlier(site, item))
    worker = site.work("exit 0")
    watch_it_wait(site, worker, item)
    os.close(lock)
    worker.until("started", item=item)
    assert worker.until("ended")["status"] == "succeeded"


def test_a_process_of_an_earlier_run_is_killed_before_the_next_begins(site: Site) -> None:
    """As when a worker and its supervisor were killed at once and a child of the agent stayed.

    Without the kill the item is given back again and again (tried by hand).
    """
    item = site.add(lane="issue:acme/app#9", lease_s=1.0)
    stray = subprocess.Popen(["sleep", "300"], start_new_session=True)
    try:
        trace = earlier(site, item, session=stray.pid, session_begun=supervisor.begun(stray.pid))
        lock = pretend_run(site, trace)
        worker = site.work("exit 0")
        assert stray.wait(30) == -signal.SIGKILL
        os.close(lock)
        assert worker.until("ended")["status"] == "succeeded"
    finally:
        stray.kill()
        stray.wait()


def test_a_process_that_only_has_the_number_of_an_earlier_agent_is_left_alone(site: Site) -> None:
    """Without the look at when the process began it is killed (tried by hand)."""
    item = site.add(lane="issue:acme/app#9", lease_s=1.0)
    stranger = subprocess.Popen(["sleep", "300"], start_new_session=True)
    try:
        lock = pretend_run(site, earlier(site, item, session=stranger.pid, session_begun="1"))
        worker = site.work("exit 0")
        watch_it_wait(site, worker, item)
        os.close(lock)
        assert worker.until("ended")["status"] == "succeeded"
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def without_leader(lock: int, *, inherits: bool) -> tuple[int, int]:
    """A session whose first process has ended, and what that left in it, without our environment."""
    leader = subprocess.Popen(
        ["/bin/sh", "-c", "exec >&-; sleep 300 & echo $! >&2"],
        stderr=subprocess.PIPE,
        start_new_session=True,
        pass_fds=(lock,) if inherits else (),
        env={"PATH": os.environ["PATH"]},
    )
    assert leader.stderr is not None
    left = int(leader.stderr.readline())
    leader.stderr.close()
    leader.wait()
    return leader.pid, left


def test_a_session_that_only_has_the_number_of_an_earlier_agent_is_left_alone(site: Site) -> None:
    """Its first process is dead, so that nobody knows when it began: a job that a user's shell left behind.

    Without the look at what the processes inherited it is killed (tried by hand).
    """
    item = site.add(lane="issue:acme/app#9", lease_s=1.0)
    trace = earlier(site, item)
    lock = pretend_run(site, trace)
    session, job = without_leader(lock, inherits=False)
    try:
        note_session(site, trace, session)
        worker = site.work("exit 0")
        watch_it_wait(site, worker, item)
        os.close(lock)
        assert worker.until("ended")["status"] == "succeeded"
        assert not gone(job)
    finally:
        os.kill(job, signal.SIGKILL)


def test_what_is_left_of_the_session_of_an_earlier_agent_is_killed(site: Site) -> None:
    """It has the agent's lock, though not its environment. Without the look at locks the item is given back
    again and again (tried by hand)."""
    item = site.add(lane="issue:acme/app#9", lease_s=1.0)
    trace = earlier(site, item)
    lock = pretend_run(site, trace)
    session, left = without_leader(lock, inherits=True)
    os.close(lock)
    try:
        note_session(site, trace, session)
        assert site.work("exit 0").until("ended")["status"] == "succeeded"
        assert gone(left)
    finally:
        supervisor.signal_each([left], signal.SIGKILL)


def test_an_agent_that_reports_its_own_end_is_not_killed_for_it(site: Site) -> None:
    item = site.add(lease_s=2.0)
    # It may be asked as soon as its report is written, before the reporting process has ended.
    script = f'trap "echo asked > asked; exit 0" INT; {site.python} -m interlock done; {UNTIL_TOLD}'
    worker = site.work(script, "--limit", "1")
    assert worker.until("ended")["status"] == "succeeded"
    assert site.file("asked").read_text() == "asked\n"
    assert [run.status for run in site.runs(item)] == ["succeeded"]
    assert worker.ended() == 0
