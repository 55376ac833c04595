"""Lanes in git from other processes, and from a reader who knows nothing but `git log`."""

from __future__ import annotations

import json
import os
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from interlock.core.errors import ItemEnded
from interlock.core.model import NewItem, Policy
from interlock.git.plumbing import lane_ref_id
from interlock.gitlanes.service import GitLanes
from interlock.service.contract import LeaseView, Report
from tests.faults.processes import say
from tests.git_fixtures import git

LANE = "branch:acme/app/main"
OWNER, QUEUE = (f"refs/interlock/{kind}/{lane_ref_id(LANE)}" for kind in ("owner", "queue"))


def acquire(lanes: GitLanes, agent: str, lane: str = LANE, **options: Any) -> LeaseView | None:
    """Try once to own a lane."""
    answer = lanes.add([NewItem(title="work", lane=lane, agent=agent, policy=Policy.REJECT, max_attempts=1)])[
        0
    ]
    if answer.item is None:
        return None
    try:
        return next(iter(lanes.next(agent, item=answer.item.id, **options)), None)
    except ItemEnded:
        return None


def compete(talk: Connection, url: str, place: str, rounds: int) -> None:
    """Try once in each round; whoever owns the lane lets go when told."""
    lanes = GitLanes(url, Path(place))
    for _ in range(rounds):
        say(talk, "ready")
        talk.recv()
        lease = acquire(lanes, f"agent-{os.getpid()}")
        say(talk, lease and (lease.fence, lease.run))
        talk.recv()
        if lease is not None:
            say(talk, lanes.done([Report(run=lease.run)])[0].status)


def arrive(talk: Connection, barrier: Any, url: str, directory: str) -> tuple[str, int | None]:
    """Stand in line once, from a clone of its own."""
    lanes = GitLanes(url, Path(directory) / str(os.getpid()))
    assert lanes.objects.is_dir()
    barrier.wait()
    answer = lanes.add([NewItem(title="work", lane=LANE, agent="coder", message=str(os.getpid()))])[0]
    return answer.decision, answer.position


def hold(talk: Connection, url: str, place: str, lease_s: float) -> None:
    """Own the lane, say so, then do as told until killed."""
    lanes = GitLanes(url, Path(place), lease_min_s=lease_s)
    lease = acquire(lanes, "holder", lease_s=lease_s)
    assert lease is not None
    say(talk, (lease.fence, lease.run, lanes.new_owner_commit(lease.run), str(lanes.objects)))
    while True:
        word = talk.recv()
        say(talk, getattr(lanes, word)([Report(run=lease.run)])[0])


def take_over(lanes: GitLanes, patience_s: float) -> tuple[LeaseView, float]:
    """Wait in line until the lane is ours; the lease, and how long that took."""
    began_s = time.monotonic()
    answer = lanes.add([NewItem(title="heir", lane=LANE, agent="heir")])[0]
    assert answer.item is not None
    (lease,) = lanes.next("heir", item=answer.item.id, wait_s=patience_s)
    return lease, time.monotonic() - began_s


def chain(bare: Path, ref: str) -> list[dict[str, Any]]:
    """The documents of a ref, oldest first, as any reader of the repository finds them."""
    log = git(bare, "log", "--reverse", "--format=%B%x00", ref)
    return [json.loads(message.strip().split("\n\n")[1]) for message in log.split("\0") if message.strip()]


def whole_chain(bare: Path, ref: str) -> list[dict[str, Any]]:
    """The same with the chains that were cut off before."""
    history = f"refs/interlock/history/{lane_ref_id(LANE)}"
    cuts = git(bare, "for-each-ref", "--sort=version:refname", "--format=%(refname)", history).split()
    ends = [f"{cut}^{2 if ref == OWNER else 1}" for cut in cuts]
    return [document for end in (*ends, ref) for document in chain(bare, end)]


def assert_one_owner_at_a_time(bare: Path) -> list[int]:
    """Walk through the owner's history: a run begins only where none is, with the next number."""
    numbers: list[int] = []
    before = None
    for document in whole_chain(bare, OWNER):
        run = document["run"] and document["run"]["run"]
        if run is not None and run != before:
            assert before is None or "ended" in str(document["happened"]), f"run {run} began beside {before}"
            numbers.append(run)
        before = run
    assert numbers == list(range(1, len(numbers) + 1))
    return numbers


if __name__ == "__main__":
    # What a process with a wrong clock does: take the lane over; says how wrong it is and how long that took.
    url, place = sys.argv[1:]
    _, took_s = take_over(GitLanes(url, Path(place), lease_min_s=1, poll_s=0.05), 60)
    behind = Path(place).parent / "holder"
    print(time.time() - behind.stat().st_mtime, took_s)
