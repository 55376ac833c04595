"""Holding a lane when something happens in just that instant: failpoints in a real service."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from interlock.core.errors import Held, LeaseLost, StoreUnavailable
from interlock.core.model import NewItem
from interlock.core.timing import Timing
from interlock.hold.hold import hold
from interlock.hold.turn import Hold, IfHeld
from interlock.process.clock import now_s
from interlock.service.contract import ChangeView, ItemFilter, LeaseView, MessageView, Report, RunView
from interlock.service.local import LocalService
from interlock.store.sqlite.store import SqliteStore
from tests.overridden import OverriddenService

LANE = "deploy:production"
#: Writes down what it was told, one line a run.
LOG = "cat $INTERLOCK_MESSAGES >> log; echo >> log; exit {}"


class Interrupted(OverriddenService):
    """A service in which something happens just before the first write of a kind."""

    before_done: Any = None
    before_msg: Any = None
    before_inbox: Any = None
    #: How many claims see nothing.
    blind = 0

    def next(self, agent: str, **wish: Any) -> list[LeaseView]:
        self.blind -= 1
        return [] if self.blind >= 0 else self.plain.next(agent, **wish)

    def inbox(self, run: str, *, seen: int = 0) -> list[MessageView]:
        act, self.before_inbox = self.before_inbox, None
        if act is not None:
            act()
        return self.plain.inbox(run, seen=seen)

    def done(self, reports: Sequence[Report], **wish: Any) -> Any:
        act, self.before_done = self.before_done, None
        if act is not None:
            act()
        return self.plain.done(reports, **wish)

    def fail(self, reports: Sequence[Report]) -> list[RunView]:
        act, self.before_done = self.before_done, None
        if act is not None:
            act()
        return self.plain.fail(reports)

    def msg(self, item: int, text: str, **said: Any) -> ChangeView:
        act, self.before_msg = self.before_msg, None
        if act is not None:
            act()
        return self.plain.msg(item, text, **said)


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Interrupted]:
    monkeypatch.chdir(tmp_path)
    service = Interrupted(SqliteStore(tmp_path / "interlock.db", timing=Timing()))
    yield service
    service.close()


@pytest.fixture
def told() -> list[str]:
    """What was said on standard error."""
    return []


def held(
    service: LocalService,
    *,
    code: int = 0,
    script: str | None = None,
    told: list[str] | None = None,
    tell: Callable[[str], None] | None = None,
    beat_s: float = 2.0,
    **wish: Any,
) -> int:
    return hold(
        service,
        Hold(
            lane=LANE,
            command=("sh", "-c", script or LOG.format(code)),
            agent="ann",
            url="sqlite:////nowhere",
            default_lease_s=60.0,
            beat_s=beat_s,
            **wish,
        ),
        tell=tell or ([] if told is None else told).append,
    ).exit_code


def heard(tmp_path: Path) -> list[list[str]]:
    lines = (tmp_path / "log").read_text().splitlines()
    return [[message["text"] for message in json.loads(line)] for line in lines]


def statuses(service: LocalService) -> list[str]:
    return [item.status for item in service.items(ItemFilter(all=True))]


def owner(service: LocalService) -> int:
    (lane,) = service.lanes()
    assert lane.holder is not None
    return lane.holder.item


def test_a_message_of_the_last_instant_is_worked_on_by_the_same_process(
    service: Interrupted, tmp_path: Path
) -> None:
    """Taken out: the follow-up (`return code, None` in `_report`)."""
    service.before_done = lambda: service.msg(owner(service), "late")
    assert held(service, message="first") == 0
    assert heard(tmp_path) == [["first"], ["late"]]
    assert statuses(service) == ["completed", "completed"]
    assert service.lanes() == []


def test_a_message_of_the_last_instant_waits_behind_earlier_waiters(
    service: Interrupted, tmp_path: Path
) -> None:
    def meanwhile() -> None:
        item = owner(service)
        service.next("bob")  # whom nobody has seen may be overtaken
        service.add([NewItem(title="came before", lane=LANE, agent="bob", claim_within_s=1)])
        service.msg(item, "late")

    service.before_done = meanwhile
    assert held(service) == 0, "nobody works on the other one: its time to be claimed is over in a second"
    assert heard(tmp_path) == [[], ["late"]]
    assert statuses(service) == ["completed", "cancelled", "completed"]


def test_after_a_failure_the_command_still_runs_for_the_message_and_the_failure_is_returned(
    service: Interrupted, tmp_path: Path
) -> None:
    service.before_done = lambda: service.msg(owner(service), "late")
    assert held(service, code=3) == 3
    assert heard(tmp_path) == [[], ["late"]]
    assert statuses(service) == ["cancelled", "cancelled"]


def test_skip_finds_the_lane_free_when_its_holder_ends_just_then(
    service: Interrupted, tmp_path: Path
) -> None:
    """Taken out: the loop in `_arrive`; then the input is lost, or `skip` fails."""
    service.add([NewItem(title="the holder", lane=LANE, agent="bob")])
    (lease,) = service.next("bob")
    service.before_msg = lambda: service.done([Report(run=lease.run)])
    assert held(service, if_held=IfHeld.SKIP, message="input") == 0
    assert heard(tmp_path) == [["input"]]
    assert statuses(service) == ["completed", "completed"]


class Unrenewable(OverriddenService):
    """A service that is away whenever a lease is to be renewed."""

    def renew(self, reports: Sequence[Report]) -> list[RunView]:
        raise StoreUnavailable("Away.", "Wait.")


def test_a_hold_that_could_not_renew_gives_the_lane_back_if_the_store_answers_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken out: `_give_back`; then the lane stays held for the rest of the lease."""
    monkeypatch.chdir(tmp_path)
    service = Unrenewable(SqliteStore(tmp_path / "interlock.db", timing=Timing()))
    wish = Hold(
        lane=LANE,
        command=("sleep", "60"),
        agent="ann",
        url="sqlite:////nowhere",
        lease_s=2.0,
        default_lease_s=60.0,
        beat_s=2.0,
    )
    with pytest.raises(LeaseLost, match="could not be renewed in time") as lost:
        hold(service, wish, tell=lambda _: None)
    assert "doctor" not in lost.value.hint
    assert statuses(service) == ["cancelled"]
    (item,) = service.items(ItemFilter(all=True))
    assert item.reason == "no_retry", "it was ended by its holder, not by its lease"
    service.close()


def test_a_lease_that_was_waited_for_is_trusted_from_when_it_was_claimed(service: Interrupted) -> None:
    """Taken out: `waited_s` of a lease; then trust is counted from the start of the wait."""
    service.add([NewItem(title="work", run_after_s=1)])
    sent_s = now_s()
    (lease,) = service.next("ann", wait_s=30)
    assert 0.9 <= lease.waited_s <= now_s() - sent_s


# -- a lane that is free, and nobody who may start ------------------------------------------------


def _full(service: LocalService) -> str:
    service.set_agent("ann", max_concurrency=1)
    service.add([NewItem(title="other work", agent="ann")])
    service.next("ann")
    return "ann has 1 of 1 runs"


def _other_types(service: LocalService) -> str:
    service.set_agent("ann", types=("review",))
    return "ann takes only review and no hold"


def _paused_agent(service: LocalService) -> str:
    service.pause_agent("ann", paused=True, why="on holiday", create=True)
    return r"ann is paused \(on holiday\)"


def _paused_project(service: LocalService) -> str:
    service.pause_project("default", paused=True, why="a freeze")
    return r"project default is paused \(a freeze\)"


@pytest.fixture(params=[_full, _other_types, _paused_agent, _paused_project])
def hindrance(request: pytest.FixtureRequest, service: Interrupted) -> str:
    """Something that keeps ann from starting on any lane; what is said of it."""
    return str(request.param(service))


def test_fail_answers_at_once_if_the_agent_may_not_start(service: Interrupted, hindrance: str) -> None:
    with pytest.raises(Held, match=f"Lane {LANE} is free, but {hindrance};"):
        held(service, if_held=IfHeld.FAIL, wait_s=10.0)
    assert service.lanes() == []


def test_skip_leaves_at_once_and_the_message_stays_in_the_record(
    service: Interrupted, hindrance: str, told: list[str]
) -> None:
    assert held(service, if_held=IfHeld.SKIP, message="input", wait_s=10.0, told=told) == 0
    assert re.search(f"Skipped: Lane {LANE} is free, but {hindrance};.* kept with item", told[-1])
    assert service.lanes() == []
    assert statuses(service)[-1] == "cancelled"


def test_a_waiter_says_once_what_it_waits_for_and_does_not_name_itself(
    service: Interrupted, hindrance: str, told: list[str]
) -> None:
    with pytest.raises(Held, match=f"is free, but {hindrance};.* The wait timed out"):
        held(service, wait_s=0.3, beat_s=0.05, told=told)
    (line,) = told
    assert re.search(f"Waiting: Lane {LANE} is free, but {hindrance};", line)


def test_a_waiter_starts_when_its_agent_may(service: Interrupted, told: list[str]) -> None:
    _full(service)
    (item,) = service.items(ItemFilter())

    def tell(sentence: str) -> None:
        told.append(sentence)
        service.cancel(item.id, why="it has waited enough", force=True)

    assert held(service, tell=tell) == 0
    assert len(told) == 1


def test_a_claim_that_returns_nothing_once_does_not_fail_the_hold(service: Interrupted) -> None:
    """A row that somebody else has locked is passed over."""
    service.blind = 2
    assert held(service, if_held=IfHeld.FAIL) == 0


# -- files that the command left in disorder ------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("mkfifo $INTERLOCK_RESULT", "it is a FIFO, not a plain file"),
        ("mkdir $INTERLOCK_RESULT", "it is a directory, not a plain file"),
        ("ln -s /etc/hostname $INTERLOCK_RESULT", "it is a symbolic link, not a plain file"),
        ("head -c 100000 /dev/zero | tr '\\0' '[' > $INTERLOCK_RESULT", "it is nested more than 64 deep"),
        ("head -c 2000000 /dev/zero > $INTERLOCK_RESULT", "it has more than 1,048,576 bytes"),
        ("echo '{\"a\": NaN}' > $INTERLOCK_RESULT", "NaN is not a finite number"),
        ("echo 1e999 > $INTERLOCK_RESULT", "1e999 is not a finite number"),
    ],
)
def test_a_result_that_cannot_be_kept_is_reported_and_the_hold_succeeds(
    service: Interrupted, told: list[str], script: str, problem: str
) -> None:
    assert held(service, script=script, told=told) == 0
    assert told == [f"The command left a result that cannot be kept: {problem}."]
    (run,) = service.show(1).runs
    assert (run.status, run.result) == ("succeeded", {"problem": f"INTERLOCK_RESULT: {problem}"})
    assert service.lanes() == []


@pytest.mark.parametrize("ruin", ["rm -r $(dirname $INTERLOCK_RESULT)", "mkdir $INTERLOCK_RESULT"])
def test_a_command_that_ruins_its_files_can_run_again(
    service: Interrupted, tmp_path: Path, ruin: str
) -> None:
    """Taken out: a directory for each run. Then the second one ends in an error of the file system."""
    service.before_inbox = lambda: service.msg(owner(service), "second")
    script = f"{LOG.format(0).removesuffix('exit 0')} {ruin}"
    assert held(service, message="first", script=script) == 0
    assert heard(tmp_path) == [["first"], ["second"]]
    assert service.lanes() == []


def test_a_command_that_cannot_run_again_keeps_its_exit_code_and_the_message_is_left_over(
    service: Interrupted, tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile() -> None:
        service.msg(owner(service), "second")
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))

    service.before_inbox = meanwhile
    assert held(service, message="first", told=told) == 0
    assert heard(tmp_path) == [["first"]]
    assert "There is no space for the command's files" in told[-1]
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert held(service) == 0
    assert heard(tmp_path) == [["first"], ["second"]]


def test_a_follow_up_that_cannot_be_begun_is_given_back_and_the_exit_code_kept(
    service: Interrupted, tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile() -> None:
        service.msg(owner(service), "late")
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))

    service.before_done = meanwhile
    assert held(service, code=3, told=told) == 3
    assert statuses(service) == ["cancelled", "pending"]
    assert "There is no space for the command's files" in told[-1]


def test_a_defect_while_the_lane_is_ours_gives_it_back(
    service: Interrupted, monkeypatch: pytest.MonkeyPatch
) -> None:
    def defect(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr("interlock.hold.hold.SupervisedCommand.follow", defect)
    with pytest.raises(RecursionError):
        held(service)
    assert service.lanes() == []
    assert statuses(service) == ["cancelled"]
