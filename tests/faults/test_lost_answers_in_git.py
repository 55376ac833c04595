"""Lanes in git over HTTP, and one answer gets lost: the push arrived, and who sent it does not know.

The server is `git http-backend`. Each story is told once without a loss, to count its pushes, and then again
with the answer to each nth push lost. An own commit on the remote is success, whatever the error said.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from interlock.core.errors import RemoteUnavailable
from interlock.core.model import NewItem, Policy
from interlock.gitlanes.service import GitLanes
from interlock.push.fence import fence_ref
from interlock.service.contract import Report
from tests.acceptance.command import PROGRAM, Command
from tests.acceptance.holding.holders import UNTIL_LET_GO, ended, pid_in, until
from tests.faults.gitlanes import LANE, OWNER, QUEUE, assert_one_owner_at_a_time, chain, whole_chain
from tests.faults.gitseries import ISSUE, SERIES, SERIES_OWNER, assign, open_gate, put
from tests.git_fixtures import (
    IDENTITY,
    LostAnswers,
    clone,
    commit,
    git_identity,
    log,
    make_bare,
    seed,
    serve_over_http,
)

__all__ = ["git_identity"]

FENCE = fence_ref(LANE)
#: Whether every story is told with a loss at every nth push, for every n.
EVERY_LOSS = bool(os.environ.get("INTERLOCK_EVERY_LOSS"))


class Place:
    """A server with one repository, of which one answer gets lost."""

    def __init__(self, directory: Path, lost: LostAnswers) -> None:
        self.directory, self.lost = directory, lost
        self.bare = make_bare(directory / "srv" / "app.git")
        self.url = ""

    @contextmanager
    def served(self) -> Iterator[Place]:
        with serve_over_http(self.bare.parent, self.lost) as address:
            self.url = f"{address}/app.git"
            yield self


def told(directory: Path, story: Callable[[Place], Any], each: int, how: str) -> tuple[Any, int]:
    """What a story answers if the answer to each nth push is lost, and how many pushes it had."""
    directory.mkdir()
    with Place(directory, LostAnswers(each, how)).served() as place:
        answer = story(place)
    return answer, place.lost.accepted


def assert_same_with_losses(tmp_path: Path, story: Callable[[Place], Any], *losses: tuple[int, str]) -> None:
    """The story has the same answers and the same pushes, whichever answers are lost."""
    expected, pushes = told(tmp_path / "none", story, 0, "")
    assert pushes > 0
    if EVERY_LOSS:
        losses = tuple((each, how) for each in range(1, pushes + 1) for how in ("closed", "answered"))
    for each, how in losses:
        answer, made = told(tmp_path / f"{how}-{each}", story, each, how)
        assert answer == expected, f"lost: the answer to each push whose number {each} divides ({how})"
        assert made == pushes, f"a push was made again: {each}, {how}"


# -- every operation of the service


def _operations(place: Place, cut_beyond: int = 500) -> Any:
    """Arrive, take, write to, renew, read, hand over, give back, cancel: the answers, and what is left."""
    ann, bob = (
        GitLanes(place.url, place.directory / name, pause=lambda _: None, cut_beyond=cut_beyond)
        for name in ("ann", "bob")
    )
    answers: list[Any] = []
    first = ann.add([NewItem(title="first", lane=LANE, agent="ann", message="one")])[0]
    second = bob.add([NewItem(title="second", lane=LANE, agent="bob", message="two")])[0]
    third = bob.add([NewItem(title="third", lane=LANE, agent="bob")])[0]
    refused = bob.add([NewItem(title="fourth", lane=LANE, agent="bob", policy=Policy.REJECT)])[0]
    answers += [a.decision for a in (first, second, third, refused)]
    (lease,) = ann.next("ann", item=first.arrival)
    answers.append([lease.fence, [m.text for m in lease.messages]])
    answers.append(bob.msg(lease.item.id, "three").n)
    answers.append([m.text for m in ann.inbox(lease.run, seen=1)])
    answers.append(ann.done([Report(run=lease.run, seen=2)])[0].status)
    (lease,) = bob.next("bob", item=second.arrival)
    answers.append([lease.fence, [m.text for m in lease.messages]])
    answers.append(bob.release([Report(run=lease.run)])[0].status)
    answers.append(bob.cancel(second.arrival or 0, why="enough").item.status)
    (lease,) = bob.next("bob", item=third.arrival)
    answers.append(bob.fail([Report(run=lease.run, retry=False)])[0].status)
    queue, owner = whole_chain(place.bare, QUEUE), whole_chain(place.bare, OWNER)
    answers.append([(i["title"], i["status"]) for i in queue[-1]["items"]])
    happened = [
        line.partition(" until ")[0].partition(" are in ")[0]
        for d in (*queue, *owner)
        for line in d["happened"]
    ]
    answers.append(happened)  # without the times
    assert_one_owner_at_a_time(place.bare)
    return answers


@pytest.mark.slow
def test_no_operation_of_a_lane_meets_its_own_ghost(tmp_path: Path) -> None:
    """Taken out: a refused push is looked for on the remote (`LaneRemote.transact`) only if the connection
    broke; then the first arrival stands in line twice."""
    assert_same_with_losses(tmp_path, _operations, (1, "closed"), (1, "answered"))


def test_no_handover_that_cuts_the_chains_meets_its_own_ghost(tmp_path: Path) -> None:
    """Every handover cuts them."""
    assert_same_with_losses(tmp_path, partial(_operations, cut_beyond=3), (1, "closed"))


def _series(place: Place) -> Any:
    """What a series does: observe, be active, open a gate, work, shut it, hand on."""
    lanes = GitLanes(place.url, place.directory / "ann", pause=lambda _: None, cut_beyond=4)
    lanes.set_mode(scope="project", value="other", mode="observe")
    answers: list[Any] = [[(r.value, r.mode) for r in lanes.modes()]]
    active = assign(lanes, 1)
    waiting = put(lanes, SERIES, position=2)
    answers += [active.fence, open_gate(lanes).open]
    for _ in range(3):
        (lease,) = lanes.next("coder", item=put(lanes, ISSUE))
        answers.append([lease.fence, lanes.done([Report(run=lease.run)])[0].status])
    answers.append(open_gate(lanes, is_open=False).open)
    ended = lanes.end_external(active.item.id, active.fence, "done", why="merged")
    answers.append([ended.item.status, ended.promoted == (waiting,)])
    answers.append(len(log(place.bare, SERIES_OWNER)))
    for lane in (SERIES, ISSUE):
        put(lanes, lane)  # writes what was counted
        answers.append(lanes.at_once().counts(lane))
    assert answers[-1] == {"conflicts": 0, "retries": 0}, "nobody was faster, and nothing was sent twice"
    return answers


def test_nothing_of_a_series_meets_its_own_ghost(tmp_path: Path) -> None:
    """Each start on an issue moves the series too, and some begin its chain anew."""
    assert_same_with_losses(tmp_path, _series, (1, "closed"))


def test_an_arrival_whose_answer_was_lost_is_found_beyond_a_cut(tmp_path: Path) -> None:
    """Taken out: `LaneRemote._cut_since`; then it stands in line twice."""
    with Place(tmp_path, LostAnswers()).served() as place:
        bob = GitLanes(place.url, tmp_path / "bob", cut_beyond=1)
        first = bob.add([NewItem(title="first", lane=LANE, agent="bob")])[0].arrival

        def meanwhile(_: float) -> None:
            place.lost.each = 0
            assert bob.next("bob", item=first)

        place.lost.each = 1
        ann = GitLanes(place.url, tmp_path / "ann", pause=meanwhile)
        answer = ann.add([NewItem(title="second", lane=LANE, agent="ann")])[0]
        queue = chain(place.bare, QUEUE)
        assert len(queue) == 1, "the chains were cut"
        assert [i["title"] for i in queue[-1]["items"]] == ["first", "second"]
        assert answer.position == 1


def test_a_report_that_is_repeated_once_the_remote_is_back_is_no_late_one(tmp_path: Path) -> None:
    """`hold` reports its end for ten seconds. Taken out: `LaneRemote._unknown`; then that is a late one."""
    with Place(tmp_path, LostAnswers()).served() as place:
        lanes = GitLanes(place.url, tmp_path / "ann", pause=lambda _: None)
        arrival = lanes.add([NewItem(title="work", lane=LANE, agent="ann")])[0].arrival
        (lease,) = lanes.next("ann", item=arrival)
        place.lost.each, place.lost.leaves = 1, True
        with pytest.raises(RemoteUnavailable):
            lanes.done([Report(run=lease.run)])
        place.lost.each, place.lost.away = 0, False
        assert lanes.done([Report(run=lease.run)])[0].status == "succeeded"
        assert lanes.done([Report(run=lease.run)])[0].refusal is not None, "only the unknown one is asked for"
        assert [d["happened"] for d in chain(place.bare, OWNER)][2:] == [["run 1 of ann succeeded"]]


# -- the commands


def _command(place: Place, name: str, url: str | None = None) -> Command:
    directory = place.directory / name
    directory.mkdir(exist_ok=True)
    env = {"INTERLOCK_POLL_S": "0.2", **IDENTITY}
    return Command(directory, url=url or f"git+{place.url}", env=env)


def _holds(place: Place) -> Any:
    """One holds the lane, another waits, a third leaves a message and a fourth is refused."""
    ann, bob = _command(place, "ann"), _command(place, "bob")
    note = f"echo $$ > held; cat $INTERLOCK_MESSAGES >> heard; echo >> heard; {UNTIL_LET_GO}; echo ran"
    holder = ann.start("hold", LANE, "--agent", "ann", "--", "sh", "-c", note)
    pid_in(ann.directory / "held")
    waiter = bob.start("hold", LANE, "--agent", "bob", "--message", "for bob", "--", "sh", "-c", note)
    until(lambda: len(chain(place.bare, QUEUE)[-1]["items"]) == 2, "the waiter")
    skipped = bob("hold", LANE, "--if-held", "skip", "--message", "for ann", "--", "false")
    refused = bob("hold", LANE, "--if-held", "fail", "--", "false")
    for il in (ann, bob):
        (il.directory / "let-go").touch()
    answers = [ended(holder), ended(waiter), skipped, refused]
    heard = [(il.directory / "heard").read_text().splitlines() for il in (ann, bob)]
    texts = [[[m["text"] for m in json.loads(line)] for line in lines] for lines in heard]
    assert_one_owner_at_a_time(place.bare)
    items = [i["status"] for i in chain(place.bare, QUEUE)[-1]["items"]]
    assert chain(place.bare, OWNER)[-1]["run"] is None
    return [(answer.code, answer.out) for answer in answers], texts, items


@pytest.mark.slow
def test_a_hold_is_not_kept_out_by_itself_and_a_message_arrives_once(tmp_path: Path) -> None:
    """Taken out: as above; then the first hold waits for the lane that it holds."""
    assert_same_with_losses(tmp_path, _holds, (1, "closed"))


def _push_under_a_hold(place: Place) -> Any:
    """The lane and the branch are in one repository: each push renews the lane's owner commit."""
    seed(place.bare, place.directory / "first", {"README": "hello"})
    place.lost.accepted = 0
    il = _command(place, "ann")
    clone(place.url, il.directory / "tree")
    work = f"cd tree; for n in 1 2; do git commit -q --allow-empty -m work-$n; {' '.join(PROGRAM)} push; done"
    answer = ended(il.start("hold", LANE, "--", "sh", "-e", "-c", work))
    return answer.code, answer.out.count("Pushed"), log(place.bare), len(chain(place.bare, OWNER))


def _arm_and_push(place: Place) -> Any:
    """The lane is in a database, its fence in the repository."""
    seed(place.bare, place.directory / "first", {"README": "hello"})
    place.lost.accepted = 0
    il = _command(place, "ann", url=f"sqlite:///{place.directory / 'store.db'}")
    il = Command(clone(place.url, il.directory / "tree"), url=il.url, env=il.env)
    il.ok("add", "work", "--lane", LANE)
    run = ("--run", il.claim()["run"])
    answers = [il("push", *run, "--arm")]
    for number in (1, 2):
        commit(il.directory, {}, f"work-{number}")
        answers.append(il("--json", "push", *run))
    moved = [(answer.json["moved"], answer.json["attempts"]) for answer in answers[1:]]
    return [answer.code for answer in answers], moved, log(place.bare), log(place.bare, FENCE)


@pytest.mark.parametrize("story", [_push_under_a_hold, _arm_and_push])
def test_a_push_lands_once(tmp_path: Path, story: Callable[[Place], Any]) -> None:
    """Taken out: the look at the remote after a refusal, in `FencedPush` and in `arm`."""
    assert_same_with_losses(tmp_path, story, (1, "closed"))


# -- the holder dies or stops instead of hearing the answer


def _holder(
    place: Place, nth: int, how: signal.Signals, lease_s: int, script: str
) -> tuple[Command, Popen[bytes]]:
    """A hold that gets a signal instead of the answer to its nth push."""
    il = _command(place, "ann", f"git+{place.url}")
    il.env["INTERLOCK_GIT_LEASE_MIN_S"] = "1"
    place.lost.each = nth
    started: list[Popen[bytes]] = []

    def instead() -> None:
        place.lost.each = 0
        started[0].send_signal(how)

    place.lost.instead = instead
    started.append(il.start("hold", LANE, "--agent", "ann", "--lease", lease_s, "--", "sh", "-c", script))
    return il, started[0]


@pytest.mark.parametrize(("nth", "runs"), [(2, 0), (3, 1)], ids=["it takes the lane", "it gives it back"])
def test_a_holder_killed_before_it_hears_the_answer_is_followed(tmp_path: Path, nth: int, runs: int) -> None:
    """Its command runs only if the lane was its own, and the heir's runs once."""
    with Place(tmp_path, LostAnswers()).served() as place:
        il, holder = _holder(place, nth, signal.SIGKILL, 2 if nth == 2 else 60, "echo ann >> ran")
        assert ended(holder).code == -signal.SIGKILL
        heir = il("hold", LANE, "--agent", "bob", "--", "sh", "-c", "echo bob >> ran")
        assert heir.code == 0
        assert (il.directory / "ran").read_text().split() == ["ann"] * runs + ["bob"]
        assert assert_one_owner_at_a_time(place.bare) == [1, 2]


@pytest.mark.slow
def test_a_holder_stopped_before_it_hears_of_its_renewal_ends_its_command(tmp_path: Path) -> None:
    """It stops while it has its machine's turn. Taken out: `LaneRemote._hanging`; then its heir waits ten
    seconds for that turn at each step."""
    with Place(tmp_path, LostAnswers()).served() as place:
        il, holder = _holder(place, 3, signal.SIGSTOP, 8, "echo $$ > pid; sleep 60 & wait")
        until(lambda: place.lost.each == 0, "the renewal")
        assert pid_in(il.directory / "pid")
        heir = il("hold", LANE, "--agent", "bob", "--", "sh", "-c", "! kill -0 $(cat pid) 2> /dev/null")
        assert heir.code == 0, "the first command had ended before the second began"
        holder.send_signal(signal.SIGCONT)
        assert ended(holder).code == 5
        assert assert_one_owner_at_a_time(place.bare) == [1, 2]


@pytest.mark.parametrize("nth", [1, 2], ids=["it arms", "it pushes"])
def test_a_push_killed_before_it_hears_the_answer_lands_once(tmp_path: Path, nth: int) -> None:
    """The same command again finds what the first one did."""
    with Place(tmp_path, LostAnswers()).served() as place:
        seed(place.bare, tmp_path / "first", {"README": "hello"})
        tree = clone(place.url, tmp_path / "tree")
        il = Command(tree, url=f"sqlite:///{tmp_path / 'store.db'}", env=dict(IDENTITY))
        il.ok("add", "work", "--lane", LANE)
        run = il.claim()["run"]
        commit(tree, {}, "work")
        place.lost.accepted, place.lost.each = 0, nth
        started: list[Popen[bytes]] = []
        place.lost.instead = lambda: started[0].send_signal(signal.SIGKILL)
        started.append(il.start("push", "--run", run))
        assert ended(started[0]).code == -signal.SIGKILL
        place.lost.each = 0
        answer = il("--json", "push", "--run", run)
        assert (answer.code, answer.json["moved"]) == (0, nth == 1)
        assert log(place.bare) == ["work", "first"]
        assert log(place.bare, FENCE) == ["run 1 of coder pushes", "run 1 of coder armed"]
