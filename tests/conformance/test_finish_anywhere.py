"""Who reports the end of runs makes no difference.

A process that finishes what it has claimed itself may decide on what it remembers, write what is alike in all
of them once, and read only who comes next. One that knows nothing reads everything under locks. Here both do
the same, and leave the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest

from interlock.contract import LeaseView, Report, Service
from tests.conformance.conftest import OpenService
from tests.conformance.scene import Scene


class Case(NamedTuple):
    """Items that arrive, what happens to their runs before the end, and what is reported."""

    #: Lanes end with what tells one go from the other.
    items: Sequence[dict[str, Any]]
    verb: str = "done"
    reports: Sequence[dict[str, Any]] = ({},)
    meanwhile: Callable[[Scene, list[LeaseView]], object] = lambda _scene, _leases: None
    mode: str = "enforce"


def renew_one(scene: Scene, leases: list[LeaseView]) -> None:
    scene.renew(leases[1])


def tell_one(scene: Scene, leases: list[LeaseView]) -> None:
    scene.service.msg(leases[0].item.id, "and the tests")


def ask_one_to_stop(scene: Scene, leases: list[LeaseView]) -> None:
    scene.cancel(leases[0].item.id)


def take_one_back(scene: Scene, leases: list[LeaseView]) -> None:
    scene.service.take_back(leases[1].item.id, why="mine")


def come_newer(scene: Scene, leases: list[LeaseView]) -> None:
    lane = leases[0].item.lane
    scene.put("newer", lane=lane, policy=leases[0].item.policy)


def switch_to_enforce(scene: Scene, leases: list[LeaseView]) -> None:
    lane = leases[0].item.observed_lane
    assert lane is not None
    scene.service.set_mode(scope="lane", value=lane, mode="enforce")
    scene.put("waits for all that was observed", lane=lane)


PLAIN = [{"title": f"plain {n}"} for n in range(4)]
LANES = [{"title": f"{lane} {n}", "lane": f"lane:{lane}"} for n in range(3) for lane in "abc"]
CASES = {
    "alike": Case(PLAIN),
    "with a result each": Case(PLAIN, reports=[{"result": f'{{"n": {n}}}'} for n in range(4)]),
    "the same result": Case(PLAIN, reports=[{"result": "true"}]),
    "failed for good": Case(PLAIN, verb="fail", reports=[{"retry": False, "error": "broken"}]),
    "failed once": Case(PLAIN, verb="fail", reports=[{"error": "broken"}]),
    "given back": Case(PLAIN, verb="release"),
    "one of another project": Case([*PLAIN, {"title": "x", "project": "other"}]),
    "one of three attempts": Case([*PLAIN, {"title": "x", "max_attempts": 1}], verb="fail"),
    "one renewed": Case(PLAIN, meanwhile=renew_one),
    "one taken back": Case(PLAIN, meanwhile=take_one_back),
    "one told": Case(PLAIN, meanwhile=tell_one),
    "one asked to stop": Case(PLAIN, meanwhile=ask_one_to_stop),
    "with messages": Case([{"title": "x", "message": "hello"}, {"title": "y"}]),
    "lanes": Case(LANES),
    "lanes and none": Case([*LANES, *PLAIN]),
    "lanes, failed once": Case(LANES, verb="fail"),
    "lanes, given back": Case(LANES, verb="release"),
    "lanes, one renewed": Case(LANES, meanwhile=renew_one),
    "lanes, one taken back": Case(LANES, meanwhile=take_one_back),
    "lanes, one told": Case(LANES, meanwhile=tell_one),
    "lanes, one asked to stop": Case(LANES, meanwhile=ask_one_to_stop),
    "lanes with positions": Case([{**fields, "position": 9 - n} for n, fields in enumerate(LANES)]),
    "supersede": Case([{**i, "policy": "supersede"} for i in LANES[:3]], meanwhile=come_newer),
    "supersede, given back": Case(
        [{**i, "policy": "supersede"} for i in LANES[:3]], "release", meanwhile=come_newer
    ),
    "coalesce": Case([{**i, "policy": "coalesce", "message": "m"} for i in LANES]),
    "latest": Case([{**i, "policy": "latest"} for i in LANES]),
    "to be claimed in time": Case([{**i, "claim_within_s": 9} for i in LANES]),
    "to be claimed in time, one renewed": Case(
        [{**i, "claim_within_s": 9} for i in LANES], meanwhile=renew_one
    ),
    "observed": Case(LANES, mode="observe"),
    "observed, then enforced": Case(LANES[:1] * 3, mode="observe", meanwhile=switch_to_enforce),
}


def go(scene: Scene, case: Case, mark: str, finisher: Service, *, turned: bool) -> list[tuple[Any, ...]]:
    """Play a case; what it left in the history, told without numbers."""
    lanes = {f["lane"]: f"{f['lane']}.{mark}" for f in case.items if "lane" in f}
    for lane in lanes.values():
        scene.service.set_mode(scope="lane", value=lane, mode=case.mode)
    first = [scene.put(**{**f, **({"lane": lanes[f["lane"]]} if "lane" in f else {})}) for f in case.items]
    leases = scene.service.next("coder", limit=100)
    assert leases
    scene.clock.advance(1)
    case.meanwhile(scene, leases)
    scene.clock.advance(1)
    before = max(e.seq for e in scene.history())
    reports = [Report(run=lease.run, **case.reports[n % len(case.reports)]) for n, lease in enumerate(leases)]
    ended = getattr(finisher, case.verb)(reports[::-1] if turned else reports)
    answers = [(view.status, view.item and view.item.status, len(view.promoted)) for view in ended]
    base = min(first)
    whose = {lease.fence: lease.item.id - base for lease in leases}
    told = [
        (
            e.kind,
            e.reason,
            e.project,
            e.item and e.item - base,
            whose.get(e.run or 0),
            e.lane and e.lane.removesuffix(f".{mark}"),
            e.agent,
            sorted(e.data),
        )
        for e in scene.history(after=before)
    ]
    items = [(i.title, i.status, i.attempt, i.reason, i.messages) for i in scene.every() if i.id >= base]
    for item in scene.unfinished():  # nothing of this go stands in the way of the next
        scene.cancel(item.id, force=True)
    return [*answers, *told, *sorted(items)]


@pytest.mark.parametrize("turned", [False, True], ids=["in order", "turned round"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_claimer_and_a_stranger_leave_the_same(
    scene: Scene, open_service: OpenService, case: Case, turned: bool
) -> None:
    stranger = open_service()
    theirs = go(scene, case, "theirs", stranger, turned=turned)
    ours = go(scene, case, "ours", scene.service, turned=turned)
    assert ours == theirs
