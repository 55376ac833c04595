"""A series on lanes in git: its lane, the lane of one of its issues, and processes that compete for them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from interlock.core.model import NewItem
from interlock.git.plumbing import lane_ref_id
from interlock.git.refusals import RefMove
from interlock.gitlanes.service import GitLanes
from interlock.service.contract import GateView, LeaseView
from tests.faults.processes import wait_until

SERIES, ISSUE, OTHER_ISSUE = "series:acme/app/rfc-093", "issue:acme/app#42", "issue:acme/app#43"
SERIES_OWNER, SERIES_QUEUE, ISSUE_OWNER, ISSUE_QUEUE = (
    f"refs/interlock/{kind}/{lane_ref_id(lane)}" for lane in (SERIES, ISSUE) for kind in ("owner", "queue")
)


def put(lanes: GitLanes, lane: str, **fields: Any) -> int:
    """Let an item arrive."""
    agent = "series" if lane.startswith("series:") else "coder"
    arrival = lanes.add([NewItem(title="work", lane=lane, agent=agent, **fields)])[0].arrival
    assert arrival is not None
    return arrival


def assign(lanes: GitLanes, position: int = 1) -> LeaseView:
    """Make an issue the active one of the series: an external run has the lane of the series."""
    item = put(lanes, SERIES, position=position)
    (lease,) = lanes.next("series", item=item, external=True)
    return lease


def open_gate(lanes: GitLanes, *, lane: str = ISSUE, is_open: bool = True) -> GateView:
    return lanes.set_gate(lane, series=SERIES, open=is_open, exempt=["issue_triage"], why="it is its turn")


def take(talk: Connection, barrier: Any, url: str, directory: str, item: int, pinned: bool) -> int | None:
    """Try once to be the active one; all have read the same state when the first of them pushes.

    Without pins it writes what it decided over whatever is there, as somebody does who only looks before.
    """
    lanes = GitLanes(url, Path(directory) / str(os.getpid()))
    repository = lanes.remote.repository
    push = repository.push

    def push_all_at_once(remote: str, moves: Sequence[RefMove]) -> Any:
        repository.push = push  # type: ignore[method-assign]
        barrier.wait()
        if pinned:
            return push(remote, moves)
        refs = [f"{move.new_oid}:{move.ref}" for move in moves]
        wait_until(lambda: repository.run("push", "--force", remote, *refs).code == 0, "the push arrived")
        return None

    repository.push = push_all_at_once  # type: ignore[method-assign, assignment]
    lease = next(iter(lanes.next("series", item=item, external=True)), None)
    return None if lease is None else lease.fence


def be_assigned(talk: Connection, url: str, place: str) -> None:
    """Be the active one, and go on for ever."""
    assign(GitLanes(url, Path(place)))
    talk.recv()
