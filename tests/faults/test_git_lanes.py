"""Lanes in git under real contention and real faults: real git, real processes, a server that is only git."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import libfaketime
import pytest

from interlock.core.errors import LeaseLost
from interlock.core.model import NewItem, Policy
from interlock.core.validation import checked_claim
from interlock.git.plumbing import GitRepository
from interlock.git.refusals import RefusalKind
from interlock.gitlanes.service import MARGIN_SHARE, GitLanes
from interlock.service.contract import Report
from tests.faults.gitlanes import (
    LANE,
    OWNER,
    QUEUE,
    acquire,
    arrive,
    assert_one_owner_at_a_time,
    chain,
    compete,
    hold,
    take_over,
)
from tests.faults.processes import Crew
from tests.git_fixtures import bare_repository, git, git_identity, http_remote, remote_url, write_hook

__all__ = ["bare_repository", "git_identity", "http_remote", "remote_url"]

#: 100 processes try at once in each round; INTERLOCK_GIT_ROUNDS=30 makes 3,000 attempts.
CONTENDERS = int(os.environ.get("INTERLOCK_GIT_CONTENDERS", "100"))
ROUNDS = int(os.environ.get("INTERLOCK_GIT_ROUNDS", "1"))
ARRIVALS = int(os.environ.get("INTERLOCK_GIT_ARRIVALS", "20"))


def test_exactly_one_of_a_hundred_concurrent_claimers_owns_the_lane(
    crew: Crew, remote_url: str, bare_repository: Path, tmp_path: Path
) -> None:
    """Every process has a clone of its own. Over HTTP, where each costs more, every round is of half as many,
    unless a number is asked for."""
    asked = "INTERLOCK_GIT_CONTENDERS" in os.environ or remote_url.startswith("file:")
    contenders = CONTENDERS if asked else CONTENDERS // 2
    actors = [crew.start(compete, remote_url, str(tmp_path / str(n)), ROUNDS) for n in range(contenders)]
    for number in range(1, ROUNDS + 1):
        for actor in actors:
            assert actor.hear() == "ready"
        for actor in actors:
            actor.tell()
        answers = [actor.hear() for actor in actors]
        winners = [actor for actor, answer in zip(actors, answers, strict=True) if answer]
        assert [answer[0] for answer in answers if answer] == [number]
        assert chain(bare_repository, OWNER)[-1]["run"]["run"] == number
        for actor in actors:
            actor.tell()
        assert winners[0].hear() == "succeeded"
    assert assert_one_owner_at_a_time(bare_repository) == list(range(1, ROUNDS + 1))


def test_many_concurrent_arrivals_are_all_accepted(crew: Crew, bare_repository: Path, tmp_path: Path) -> None:
    """Each is beaten by others many times, more often than five: that is progress of the lane, no failure."""
    answers = crew.race(ARRIVALS, arrive, bare_repository.as_uri(), str(tmp_path))
    assert sorted(position or 0 for _, position in answers) == list(range(ARRIVALS))
    queue = chain(bare_repository, QUEUE)[-1]
    assert len(queue["items"]) == len({m["text"] for m in queue["messages"]}) == ARRIVALS
    assert [i["status"] for i in queue["items"]] == ["pending"] + ["deferred"] * (ARRIVALS - 1)


def test_a_holder_killed_is_taken_over_after_its_lease_and_all_its_later_writes_are_refused(
    crew: Crew, remote_url: str, bare_repository: Path, tmp_path: Path
) -> None:
    lease_s = 2.0
    holder = crew.start(hold, remote_url, str(tmp_path / "holder"), lease_s)
    fence, handle, prepared, objects = holder.hear()
    holder.kill()
    lanes = GitLanes(remote_url, tmp_path / "heir", lease_min_s=1, poll_s=0.05)
    lease, took_s = take_over(lanes, 60)
    assert lease.fence == fence + 1
    assert took_s >= lease_s * (1 + MARGIN_SHARE)
    for write in (lanes.renew, lanes.done, lanes.fail, lanes.release):
        (view,) = write([Report(run=handle)])
        assert (view.status, view.refusal and view.refusal.code) == ("refused", "lease_lost")
        assert "ended as lost (lease_expired)" in str(view.refusal)
    for late in (lanes.new_owner_commit, lanes.inbox):
        with pytest.raises(LeaseLost):
            late(handle)
    # Its push was ready before it died, and git itself refuses it.
    refusal = GitRepository(tmp_path / "holder" / Path(objects).parent).push(remote_url, [prepared])
    assert refusal is not None
    assert refusal.kind is RefusalKind.STALE
    assert lanes.renew([Report(run=lease.run)])[0].status == "running"
    assert assert_one_owner_at_a_time(bare_repository) == [fence, lease.fence]


def test_a_holder_stopped_past_its_lease_finds_itself_refused_when_it_goes_on(
    crew: Crew, bare_repository: Path, tmp_path: Path
) -> None:
    holder = crew.start(hold, bare_repository.as_uri(), str(tmp_path / "holder"), 1.5)
    holder.hear()
    holder.stop()
    lanes = GitLanes(bare_repository.as_uri(), tmp_path / "heir", lease_min_s=1, poll_s=0.05)
    lease, _ = take_over(lanes, 60)
    holder.tell("renew")
    holder.go_on()
    assert holder.hear().status == "refused"
    holder.tell("done")
    assert holder.hear().status == "refused"
    assert lanes.done([Report(run=lease.run)])[0].status == "succeeded"


def test_a_renewal_keeps_a_taker_waiting(crew: Crew, bare_repository: Path, tmp_path: Path) -> None:
    """A taker counts from the last owner commit, not the first: more than a lease passes, none is robbed."""
    lease_s = 4.0
    holder = crew.start(hold, bare_repository.as_uri(), str(tmp_path / "holder"), lease_s)
    holder.hear()
    lanes = GitLanes(bare_repository.as_uri(), tmp_path / "heir", lease_min_s=1, poll_s=0.05)
    answer = lanes.add([NewItem(title="heir", lane=LANE, agent="heir")])[0]
    assert answer.item is not None
    began_s = time.monotonic()
    while time.monotonic() < began_s + 1.3 * lease_s:
        holder.tell("renew")
        assert holder.hear().status == "running"
        assert lanes.next("heir", item=answer.item.id, wait_s=lease_s / 3) == []
    holder.tell("done")
    assert holder.hear().promoted == (answer.item.id,)
    assert len(lanes.next("heir", item=answer.item.id)) == 1


@pytest.mark.parametrize("offset", ["+2h", "-2h"])
def test_a_clock_two_hours_off_does_not_change_when_a_lease_ends(
    crew: Crew, bare_repository: Path, tmp_path: Path, offset: str
) -> None:
    """The taker's wall clock is wrong from its start. It is granted the lane when *it* has seen enough."""
    lease_s = 3.0
    holder = crew.start(hold, bare_repository.as_uri(), str(tmp_path / "holder"), lease_s)
    holder.hear()
    environ = os.environ | {
        "LD_PRELOAD": str(next(Path(libfaketime.__file__).parent.rglob("libfaketime.so.1"))),
        "FAKETIME": offset,
        "DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    taker = [sys.executable, "-m", "tests.faults.gitlanes", bare_repository.as_uri(), str(tmp_path / "taker")]
    done = subprocess.run(taker, env=environ, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    off_s, took_s = (float(word) for word in done.stdout.split())
    assert abs(off_s) > 7_000, "the clock was not off at all"
    assert took_s >= lease_s * (1 + MARGIN_SHARE)
    assert assert_one_owner_at_a_time(bare_repository) == [1, 2]


def test_a_push_whose_answer_is_lost_counts_once(bare_repository: Path, tmp_path: Path) -> None:
    """The server dies after it moved the refs, before it said so."""
    lanes = GitLanes(bare_repository.as_uri(), tmp_path / "here", pause=lambda _: None)
    hook = write_hook(bare_repository, "post-receive", '#!/bin/sh\nrm -- "$0"\nkill -9 "$PPID"\n')
    first = lanes.add([NewItem(title="work", lane=LANE, agent="coder")])[0]
    assert not hook.exists(), "the server did not die"
    assert first.item is not None
    write_hook(bare_repository, "post-receive", '#!/bin/sh\nrm -- "$0"\nkill -9 "$PPID"\n')
    (lease,) = lanes.next("coder", item=first.item.id)
    write_hook(bare_repository, "post-receive", '#!/bin/sh\nrm -- "$0"\nkill -9 "$PPID"\n')
    assert lanes.done([Report(run=lease.run)])[0].status == "succeeded"
    assert [i["status"] for i in chain(bare_repository, QUEUE)[-1]["items"]] == ["completed"]
    assert len(chain(bare_repository, QUEUE)) == 3


def test_two_clones_with_the_same_content_never_both_win(
    bare_repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same state, same clock, same agent, same handle: the commits differ all the same, and one is refused.

    With the nonce taken out of `GitRepository.commit_json` (in a scratch copy) both pushes succeed.
    """
    monkeypatch.setattr(secrets, "token_hex", _the_same_handle(secrets.token_hex))
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_DATE", "2026-11-15T12:00:00Z")
    clones = [GitLanes(bare_repository.as_uri(), tmp_path / name, now=lambda: 0) for name in ("one", "two")]
    added = clones[0].add([NewItem(title="work", lane=LANE, agent="coder")])[0]
    assert added.item is not None
    claim = checked_claim("coder", (), (), 1, None, None)
    moves = []
    for clone in clones:
        lane = clone.remote.read(clone.remote.find(added.item.id))
        moves.append(clone.remote.commits(lane, clone._begin(lane, claim, time.monotonic())))
    refusals = [
        clone.remote.repository.push(clone.remote.url, move)
        for clone, move in zip(clones, moves, strict=True)
    ]
    assert [r and r.kind for r in refusals] == [None, RefusalKind.STALE]


def test_a_claim_that_was_decided_on_an_older_queue_is_refused_as_a_whole(
    bare_repository: Path, tmp_path: Path
) -> None:
    """The owner has not moved since, but whom it would start has been superseded. Neither ref moves.

    With a claim that moves the owner alone, or a push that is not atomic, a superseded item would run.
    """
    slow, quick = (GitLanes(bare_repository.as_uri(), tmp_path / name) for name in ("slow", "quick"))
    old, new = (NewItem(title=title, lane=LANE, agent="coder", policy=Policy.SUPERSEDE) for title in "ab")
    added = quick.add([old])[0]
    assert added.item is not None
    lane = slow.remote.read(slow.remote.find(added.item.id))
    moves = slow.remote.commits(
        lane, slow._begin(lane, checked_claim("coder", (), (), 1, None, None), time.monotonic())
    )
    assert {move.ref for move in moves} == {OWNER, QUEUE}
    assert quick.add([new])[0].decision == "superseding"
    before = git(bare_repository, "for-each-ref")
    refusal = slow.remote.repository.push(slow.remote.url, moves)
    assert refusal is not None
    assert refusal.kind is RefusalKind.STALE
    assert git(bare_repository, "for-each-ref") == before


def _the_same_handle(token_hex: Callable[[int], str]) -> Callable[[int], str]:
    return lambda size: "0" * 16 if size == 8 else token_hex(size)


def test_arrivals_do_not_disturb_a_push_that_was_prepared_before_them(
    bare_repository: Path, tmp_path: Path
) -> None:
    holder, others = (GitLanes(bare_repository.as_uri(), tmp_path / name) for name in ("holder", "others"))
    lease = acquire(holder, "holder")
    assert lease is not None
    prepared = holder.new_owner_commit(lease.run)
    for n in range(5):
        others.add([NewItem(title=f"comment {n}", lane=LANE, agent="holder", policy=Policy.SUPERSEDE)])
    assert holder.remote.repository.push(holder.remote.url, [prepared]) is None
    assert holder.renew([Report(run=lease.run)])[0].cancel_requested is False  # other policy, other kin
