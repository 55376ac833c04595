"""What a series needs of lanes in git, under contention and faults: one active issue, and no run on another.

Where the compare-and-swap is replaced by a look and a write, the same race finds doubles.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock.core.errors import LeaseLost, UnreadableState
from interlock.git.plumbing import lane_ref_id
from interlock.gitlanes.service import GitLanes
from interlock.service.contract import LeaseView, Report
from tests.faults.gitlanes import chain
from tests.faults.gitseries import (
    ISSUE,
    ISSUE_OWNER,
    OTHER_ISSUE,
    SERIES,
    SERIES_OWNER,
    SERIES_QUEUE,
    assign,
    be_assigned,
    open_gate,
    put,
    take,
)
from tests.faults.processes import Crew, wait_until
from tests.faults.test_git_lanes import CONTENDERS
from tests.git_fixtures import (
    LostAnswers,
    Window,
    bare_repository,
    git,
    git_identity,
    http_remote,
    log,
    remote_url,
    serve_over_http,
    write_hook,
)

__all__ = ["bare_repository", "git_identity", "http_remote", "remote_url"]

#: How far a runner's clock is off.
TWO_HOURS_US = 2 * 3_600 * 1_000_000
YEAR_US = 365 * 24 * 3_600 * 1_000_000

Open = Callable[..., GitLanes]


@pytest.fixture
def at(bare_repository: Path, tmp_path: Path) -> Open:
    """Lanes of the test's repository, from a clone of the given name."""

    def open_one(machine: str = "here", **options: Any) -> GitLanes:
        return GitLanes(bare_repository.as_uri(), tmp_path / machine, pause=lambda _: None, **options)

    return open_one


@pytest.mark.slow
@pytest.mark.parametrize("pinned", [True, False], ids=["compare-and-swap", "read-then-write"])
def test_exactly_one_of_a_hundred_concurrent_attempts_becomes_the_active_issue(
    crew: Crew, bare_repository: Path, tmp_path: Path, pinned: bool
) -> None:
    lanes = GitLanes(bare_repository.as_uri(), tmp_path / "here")
    item = put(lanes, SERIES)
    count = CONTENDERS if pinned else 4
    runs = crew.race(count, take, bare_repository.as_uri(), str(tmp_path / "racers"), item, pinned)
    owners = [run for run in runs if run is not None]
    assert owners == [1] if pinned else len(owners) > 1, "the check has no power"
    if pinned:
        assert chain(bare_repository, SERIES_OWNER)[-1]["run"]["run"] == 1
        assert [i.id for i in lanes.external()] == [item]


def test_over_http_too(crew: Crew, http_remote: str, tmp_path: Path) -> None:
    item = put(GitLanes(http_remote, tmp_path / "here"), SERIES)
    runs = crew.race(10, take, http_remote, str(tmp_path / "racers"), item, True)
    assert [run for run in runs if run is not None] == [1]


class TestClaimAgainstHandover:
    """A run on an issue and a change of its series are decided on the same state. Never both succeed."""

    def test_a_handover_while_the_claim_is_on_its_way(self, at: Open, bare_repository: Path) -> None:
        """Taken out: the series of the change in `_begin`, so that its owner's ref does not move."""
        worker, keeper = at("worker"), at("keeper")
        active = assign(keeper)
        open_gate(keeper)
        item = put(worker, ISSUE)
        claimed = Later(lambda: worker.next("coder", item=item), Window(bare_repository))
        with claimed.on_its_way():
            keeper.end_external(active.item.id, active.fence, "done", why="merged")
        assert claimed.result() == []
        assert chain(bare_repository, ISSUE_OWNER)[-1]["run"] is None
        assert keeper.gates()[0].open is False

    def test_a_claim_while_the_handover_is_on_its_way(self, at: Open, bare_repository: Path) -> None:
        """The claim was first. The handover is decided again, by whoever finds a run on the issue then."""
        worker, keeper = at("worker"), at("keeper")
        active = assign(keeper)
        open_gate(keeper)
        item = put(worker, ISSUE)
        before = git(bare_repository, "rev-parse", SERIES_OWNER)
        ended = Later(
            lambda: keeper.end_external(active.item.id, active.fence, "done", why="merged"),
            Window(bare_repository),
        )
        with ended.on_its_way():
            (lease,) = worker.next("coder", item=item)
            assert git(bare_repository, "rev-parse", f"{SERIES_OWNER}~1") == before
        assert ended.result().item.status == "completed"
        assert keeper.at_once().counts(SERIES) == {"conflicts": 1, "retries": 1}
        assert keeper.gates()[0].run == lease.fence, "who hands on waits for it"

    def test_a_gate_that_shuts_while_the_claim_is_on_its_way(self, at: Open, bare_repository: Path) -> None:
        worker, keeper = at("worker"), at("keeper")
        assign(keeper)
        open_gate(keeper)
        item = put(worker, ISSUE)
        claimed = Later(lambda: worker.next("coder", item=item), Window(bare_repository))
        with claimed.on_its_way():
            open_gate(keeper, is_open=False)
        assert claimed.result() == []
        assert keeper.gates()[0].run is None

    def test_two_lanes_of_a_series_that_open_at_once(self, at: Open, bare_repository: Path) -> None:
        """Taken out: the series of the change in `_gate`."""
        one, two = at("one"), at("two")
        assign(one)
        opened = Later(lambda: open_gate(one), Window(bare_repository))
        with opened.on_its_way():
            assert open_gate(two, lane=OTHER_ISSUE).open
        assert opened.result().waits_for == OTHER_ISSUE
        assert [gate.open for gate in two.gates()] == [False, True]
        said = f"on {OTHER_ISSUE}: the gate of {SERIES} is open (it is its turn)"
        assert log(bare_repository, SERIES_OWNER)[0] == said
        git(bare_repository, "update-ref", "-d", f"refs/interlock/owner/{lane_ref_id(OTHER_ISSUE)}")
        assert open_gate(one).waits_for == OTHER_ISSUE, "it cannot be read, so it counts as held"


class Later:
    """A call in a thread, whose first push is held on the server for a while."""

    def __init__(self, call: Callable[[], Any], window: Window) -> None:
        self._found: list[Any] = []
        self._window = window
        self._thread = threading.Thread(target=lambda: self._found.append(call()))

    def on_its_way(self) -> Any:
        self._thread.start()
        return self._window.open()

    def result(self) -> Any:
        self._thread.join()
        return self._found[0]


def _no_owner(bare: Path) -> None:
    git(bare, "update-ref", "-d", SERIES_OWNER)


def _nothing(bare: Path) -> None:
    for ref in (SERIES_OWNER, SERIES_QUEUE):
        git(bare, "update-ref", "-d", ref)


def _garbage(bare: Path) -> None:
    git(bare, "update-ref", SERIES_OWNER, git(bare, "rev-parse", "main"))


def _rolled_back(bare: Path) -> None:
    git(bare, "update-ref", SERIES_OWNER, f"{SERIES_OWNER}~2")  # before the run


@pytest.mark.parametrize(
    "damage", [_no_owner, _nothing, _garbage, _rolled_back], ids=lambda f: f.__name__[1:]
)
def test_a_series_that_is_missing_or_cannot_be_read_starts_nothing(
    at: Open, bare_repository: Path, damage: Callable[[Path], None]
) -> None:
    lanes = at()
    active = assign(lanes)
    open_gate(lanes)
    look, item = put(lanes, ISSUE, type="issue_triage"), put(lanes, ISSUE)
    damage(bare_repository)
    other = at("elsewhere")
    (triage,) = other.next("coder")
    assert triage.item.id == look, "what is exempt does not ask the series"
    other.done([Report(run=triage.run)])
    assert other.next("coder") == other.next("coder", item=item) == []
    became = "is not there" if damage is _nothing else "cannot be read"
    assert f"the lane of series rfc-093 {became}, so the active issue is unknown" in other.why(item).why
    assert "rebuilds it from the open issues" in other.why(item).next
    assert [gate.open for gate in other.gates()] == [False]
    assert open_gate(other).waits_for == SERIES
    if damage is _nothing:
        return
    with pytest.raises(UnreadableState):
        other.end_external(active.item.id, active.fence, "done", why="merged")
    mended = other.mend(SERIES, why="somebody pushed by hand")
    assert (mended.holder and mended.holder.item, other.next("coder")) == (active.item.id, [])
    (again,) = other.next("series", item=active.item.id, external=True)
    assert again.fence > active.fence
    assert other.next("coder") == [], "the gate was open for another run"
    open_gate(other)
    assert [lease.item.id for lease in other.next("coder")] == [item]


def test_a_gate_is_open_for_one_run_of_its_series_alone(at: Open) -> None:
    """Even if nobody shuts it: an operator ended the assignment by force."""
    lanes = at()
    first, second = assign(lanes, 1), put(lanes, SERIES, position=2)
    put(lanes, other := "series:acme/app/rfc-094")
    assert lanes.set_gate(ISSUE, series=other, open=True, why="its turn").waits_for == other
    open_gate(lanes)
    item = put(lanes, ISSUE)
    lanes.cancel(first.item.id, why="nobody is there", force=True)
    assert lanes.next("coder") == []
    lanes.next("series", item=second, external=True)
    assert lanes.next("coder", item=item) == []
    assert lanes.gates()[0].open is False
    open_gate(lanes)
    assert len(lanes.next("coder", item=item)) == 1


def test_a_new_series_with_the_number_of_an_old_one_opens_nothing(at: Open, bare_repository: Path) -> None:
    """Somebody deleted its refs, so its runs are counted from 1 again. Taken out: the handle of `GateRun`."""
    lanes = at()
    former = assign(lanes)
    open_gate(lanes)
    item = put(lanes, ISSUE)
    _nothing(bare_repository)
    assert assign(at("elsewhere")).fence == former.fence
    assert lanes.next("coder", item=item) == []
    assert lanes.gates()[0].open is False


def test_the_owners_chain_of_a_series_stays_short(at: Open, bare_repository: Path) -> None:
    """Each run on an issue adds a commit to it. Beyond the limit the next one begins a new chain."""
    lanes = at(cut_beyond=6)
    active = assign(lanes)
    open_gate(lanes)
    lengths = []
    for _ in range(12):
        (lease,) = lanes.next("coder", item=put(lanes, ISSUE))
        lengths.append(int(git(bare_repository, "rev-list", "--count", SERIES_OWNER)))
        lanes.done([Report(run=lease.run)])
    assert max(lengths) == 6
    subjects = git(
        bare_repository, "log", "--format=%s", SERIES_OWNER, "--glob=refs/interlock/history/series*"
    )
    assert subjects.count(f"on {ISSUE}: run ") == 12, "nothing of it is lost"
    at("elsewhere").end_external(active.item.id, active.fence, "done", why="merged")
    assert chain(bare_repository, SERIES_OWNER)[-1]["last_run"] == 1


def test_where_the_server_refuses_a_new_chain_the_old_one_goes_on(at: Open, bare_repository: Path) -> None:
    guard = 'case "$1" in */history/*) echo no history here >&2; exit 1;; esac'
    write_hook(bare_repository, "update", f"#!/bin/sh\n{guard}\n")
    lanes = at(cut_beyond=4)
    assign(lanes)
    open_gate(lanes)
    for _ in range(6):
        (lease,) = lanes.next("coder", item=put(lanes, ISSUE))
        lanes.done([Report(run=lease.run)])
    assert int(git(bare_repository, "rev-list", "--count", SERIES_OWNER)) == 9
    cut = next(check for check in lanes.doctor() if check.name == "chains are cut")
    assert f"{SERIES} has more than 8 commits" in cut.detail, "it was asked again after as many more"


def test_an_assignment_killed_before_it_hears_the_answer_stands_and_is_ended_by_its_number(
    crew: Crew, bare_repository: Path, tmp_path: Path
) -> None:
    """`kill -9` between the push and its answer: nobody has the handle of the run, and nobody needs it."""
    lost = LostAnswers(each=2)  # the first push is the arrival, the second the claim
    with serve_over_http(bare_repository.parent, lost) as address:
        url = f"{address}/{bare_repository.name}"
        killed = crew.start(be_assigned, url, str(tmp_path / "killed"))
        lost.instead = killed.kill
        wait_until(lambda: not killed.alive, "the process is killed")
        lost.each = 0
        lanes = GitLanes(url, tmp_path / "heir")
        (found,) = lanes.external()
        assert lanes.next("series", external=True) == []
        with pytest.raises(LeaseLost):
            lanes.end_external(found.id, 2, "done", why="merged")
        assert found.run == 1
        lanes.end_external(found.id, found.run, "done", why="merged")
        assert lanes.external() == []


@pytest.mark.parametrize("off_us", [TWO_HOURS_US, -TWO_HOURS_US, YEAR_US], ids=["+2h", "-2h", "+1y"])
def test_a_wrong_clock_of_a_runner_changes_nothing(at: Open, off_us: int) -> None:
    right = at("right")
    wrong = at("wrong", now=lambda: right._now() + off_us)
    active, item = assign(right), put(right, ISSUE)
    open_gate(wrong)
    assert wrong.next("series", external=True) == [], "no time ends it"
    (lease,) = wrong.next("coder", item=item)
    open_gate(right, is_open=False)
    assert right.gates()[0].run == lease.fence
    assert wrong.renew([Report(run=lease.run)])[0].cancel_requested
    wrong.release([Report(run=lease.run)])
    assert right.gates()[0].run is None
    ended: LeaseView = active
    assert wrong.end_external(ended.item.id, ended.fence, "done", why="merged").item.status == "completed"
    assert Counter(gate.open for gate in wrong.gates()) == {False: 1}
