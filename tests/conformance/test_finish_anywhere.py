"""Who writes about runs makes no difference.

On PostgreSQL a process that ends what it has claimed itself decides on what it remembers, writes what is
alike in all of them once, and reads only who comes next. One that knows nothing reads everything under locks.
Here both do the same, and leave the same.

Taken out: that rows must have the version and the run they had (`settle_alike.sql`), that nobody observed is
active on the lane (`load_heads.sql`); each shows.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest

from interlock.core.model import ItemId
from interlock.service.contract import LeaseView, Report, Service
from interlock.service.local import LocalService
from interlock.store.port import EventQuery
from interlock.store.postgres.store import PostgresStore
from tests.conformance.conftest import OpenService
from tests.conformance.scene import FIRST_BACK_OFF_S, Scene


class Case(NamedTuple):
    """Items that arrive, what happens to their runs before the end, and what is reported."""

    #: Lanes end with what tells one go from the other.
    items: Sequence[dict[str, Any]]
    verb: str = "done"
    reports: Sequence[dict[str, Any]] = ({},)
    meanwhile: Callable[[Scene, list[LeaseView]], object] = lambda _scene, _leases: None
    mode: str = "enforce"
    #: Whether the claimer goes by what it remembers.
    short: bool = False


def renew_one(scene: Scene, leases: list[LeaseView]) -> None:
    scene.renew(leases[1])


def tell_one(scene: Scene, leases: list[LeaseView]) -> None:
    scene.service.msg(leases[0].item.id, "and the tests")


def ask_one_to_stop(scene: Scene, leases: list[LeaseView]) -> None:
    scene.cancel(leases[0].item.id)


def take_one_back(scene: Scene, leases: list[LeaseView]) -> None:
    scene.service.take_back(leases[1].item.id, why="mine")


def send_one_back_into_line(scene: Scene, leases: list[LeaseView]) -> None:
    """Its run ends, another has the lane, and it waits behind that one again."""
    scene.fail(leases[0])
    scene.claim("other")
    scene.pass_s(FIRST_BACK_OFF_S)
    assert scene.status(leases[0].item.id) == "deferred"


def come_newer(scene: Scene, leases: list[LeaseView]) -> None:
    lane = leases[0].item.lane
    scene.put("newer", lane=lane, policy=leases[0].item.policy)


def observe_another(scene: Scene, leases: list[LeaseView]) -> None:
    lane = leases[0].item.lane
    assert lane is not None
    scene.service.set_mode(scope="lane", value=lane, mode="observe")
    scene.put("observed", lane=lane)
    scene.service.set_mode(scope="lane", value=lane, mode="enforce")
    scene.put("waits for it", lane=lane)


def switch_to_enforce(scene: Scene, leases: list[LeaseView]) -> None:
    lane = leases[0].item.observed_lane
    assert lane is not None
    scene.service.set_mode(scope="lane", value=lane, mode="enforce")
    scene.put("waits for all that was observed", lane=lane)


PLAIN = [{"title": f"plain {n}"} for n in range(4)]
LANES = [{"title": f"{lane} {n}", "lane": f"lane:{lane}"} for n in range(3) for lane in "abc"]
SUPERSEDE = [{**fields, "policy": "supersede"} for fields in LANES[:3]]
TIMED = [{**fields, "claim_within_s": 9} for fields in LANES]
WHOSE = ("coder", "coder", "", "a/b[c]:1", "coder", "", "", "other", "coder")
RESULTS = [{"result": f'{{"n": {n}}}'} for n in range(4)]
CASES = {
    "alike": Case(PLAIN, short=True),
    "with a result each": Case(PLAIN, reports=RESULTS, short=True),
    "the same result": Case(PLAIN, reports=[{"result": "true"}], short=True),
    "failed for good": Case(PLAIN, "fail", [{"retry": False, "error": "broken"}]),
    "failed once": Case(PLAIN, "fail", [{"error": "broken"}]),
    "given back": Case(PLAIN, "release"),
    "one of another project": Case([*PLAIN, {"title": "x", "project": "other"}]),
    "one of three attempts": Case([*PLAIN, {"title": "x", "max_attempts": 1}], "fail"),
    "one renewed": Case(PLAIN, meanwhile=renew_one),
    "one taken back": Case(PLAIN, meanwhile=take_one_back),
    "one told": Case(PLAIN, meanwhile=tell_one),
    "one asked to stop": Case(PLAIN, meanwhile=ask_one_to_stop),
    "with messages": Case([{"title": "x", "message": "hello"}, {"title": "y"}]),
    "lanes": Case(LANES, short=True),
    "lanes and none": Case([*LANES, *PLAIN], short=True),
    "lanes, with a result each": Case(LANES, reports=RESULTS, short=True),
    "lanes, some without an heir": Case(LANES[:5], short=True),
    "lanes of one agent and of all": Case(
        [{**i, "agent": ("", "coder")[n % 2]} for n, i in enumerate(LANES)], short=True
    ),
    "lanes of several agents": Case([{**i, "agent": a} for i, a in zip(LANES, WHOSE, strict=True)]),
    "lanes, heirs of two projects": Case([{**i, "project": f"p{n // 4}"} for n, i in enumerate(LANES)]),
    "lanes, failed once": Case(LANES, "fail"),
    "lanes, given back": Case(LANES, "release"),
    "lanes, one renewed": Case(LANES, meanwhile=renew_one),
    "lanes, one taken back": Case(LANES, meanwhile=take_one_back),
    "lanes, one told": Case(LANES, meanwhile=tell_one),
    "lanes, one asked to stop": Case(LANES, meanwhile=ask_one_to_stop),
    "lanes, one in line again": Case(LANES[::3], meanwhile=send_one_back_into_line),
    "positions": Case([{**i, "position": 9 - n} for n, i in enumerate(LANES)], short=True),
    "supersede": Case(SUPERSEDE, meanwhile=come_newer),
    "supersede, given back": Case(SUPERSEDE, "release", meanwhile=come_newer),
    "coalesce": Case([{**i, "policy": "coalesce", "message": "m"} for i in LANES], short=True),
    "latest": Case([{**i, "policy": "latest"} for i in LANES], short=True),
    "to be claimed in time": Case(TIMED),
    "one to be claimed in time": Case([*LANES[:4], TIMED[4], *LANES[5:]]),
    "to be claimed in time, one renewed": Case(TIMED, meanwhile=renew_one),
    "lanes, another observed": Case(LANES, meanwhile=observe_another),
    "observed": Case(LANES, mode="observe"),
    "observed, then enforced": Case(LANES[:1] * 3, mode="observe", meanwhile=switch_to_enforce),
}


def go(
    scene: Scene, case: Case, mark: str, finisher: Service, stranger: Service, *, turned: bool
) -> list[Any]:
    """Play a case; what it answered and left. What happens meanwhile is a stranger's doing."""
    lanes = {f["lane"]: f"{f['lane']}.{mark}" for f in case.items if "lane" in f}
    for lane in lanes.values():
        scene.service.set_mode(scope="lane", value=lane, mode=case.mode)
    first = [scene.put(**{**f, **({"lane": lanes[f["lane"]]} if "lane" in f else {})}) for f in case.items]
    leases = scene.service.next("coder", limit=100)
    assert leases
    scene.clock.advance(1)
    case.meanwhile(Scene(stranger, scene.clock), leases)
    scene.clock.advance(1)
    reports = [Report(run=lease.run, **case.reports[n % len(case.reports)]) for n, lease in enumerate(leases)]
    ended = getattr(finisher, case.verb)(reports[::-1] if turned else reports)
    answers = [(view.status, view.item and view.item.status, len(view.promoted)) for view in ended]
    return [*answers, *left(scene, min(first), mark)]


def left(scene: Scene, first: int, mark: str) -> list[Any]:
    """Everything that is stored about the items from this one on, told without numbers that differ from one
    go to the other. Then they are ended, so that none stands in the way of the next go."""
    service = scene.service
    assert isinstance(service, LocalService)
    found: list[Any] = []
    items = [v.id for v in scene.every(limit=1000) if v.id >= first]
    ended = {i: service.store.runs(ItemId(i)) for i in items}
    whose: dict[Any, Any] = {r.run: (i - first, r.attempt) for i, runs in ended.items() for r in runs}
    scene.history()  # until all of it can be read
    history = [stored.event for stored in service.store.events(EventQuery(limit=10_000))]
    for item_id in items:
        item = service.store.item(ItemId(item_id))
        assert item is not None
        spec, state = item
        times = {
            name: at_us - spec.created_us
            for name, at_us in state._asdict().items()
            if name.endswith("_us") and at_us is not None
        }
        plain = {name: v for name, v in state._asdict().items() if not name.endswith("_us")}
        plain["run"], plain["promoted_from"] = state.run is None, state.promoted_from is None
        plain["absorbed_by"] = state.absorbed_by and state.absorbed_by - first
        runs = [(whose[r.run], r.agent, r.worker, r.ended_us - r.started_us, *r[7:]) for r in ended[spec.id]]
        events = [
            (
                *(e.at_us - spec.created_us, e.kind, e.reason, e.project, whose.get(e.run)),
                *((e.lane or "").removesuffix(mark), e.agent, e.span_us),
                {name: told(name, value, first, whose, spec.created_us) for name, value in e.data.items()},
            )
            for e in history
            if e.item == spec.id
        ]
        found.append((spec.id - first, spec.title, spec.max_attempts, plain, times, runs, events))
    while unfinished := scene.unfinished():
        for view in unfinished:
            scene.cancel(view.id, force=True)
    return sorted(found, key=str)


def told(name: str, value: Any, first: int, whose: dict[Any, Any], since_us: int) -> Any:
    """A detail of a line of history, without numbers that differ from one go to the other."""
    if name.endswith("_us"):
        return value - since_us
    if name.endswith("_item"):
        return value - first
    return whose.get(value) if name.endswith("_run") or name == "promoted_from" else value


def goes_the_long_way(service: Service, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """A list that grows with each decision that is made of rows read under locks."""
    long: list[bool] = []
    assert isinstance(service, LocalService)
    store = service.store
    if isinstance(store, PostgresStore):
        inner = store._decide

        def decide(*args: Any) -> Any:
            long.append(True)
            return inner(*args)

        monkeypatch.setattr(store, "_decide", decide)
    return long


@pytest.fixture(autouse=True)
def no_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Back-offs are as long the one way as the other."""
    monkeypatch.setattr(random, "random", lambda: 0.5)


@pytest.mark.parametrize("turned", [False, True], ids=["in order", "turned round"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_claimer_and_a_stranger_leave_the_same(
    scene: Scene, open_service: OpenService, case: Case, turned: bool
) -> None:
    stranger = open_service()
    theirs = go(scene, case, "theirs", stranger, stranger, turned=turned)
    ours = go(scene, case, "ours", scene.service, stranger, turned=turned)
    assert ours == theirs


@pytest.mark.parametrize(
    "case", [c for c in CASES.values() if c.short], ids=[n for n, c in CASES.items() if c.short]
)
def test_the_claimer_goes_by_what_it_remembers(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, case: Case
) -> None:
    """Else the test above would compare the long way with itself. Those who were promoted go the same way."""
    for fields in case.items:
        scene.put(**fields)
    long = goes_the_long_way(scene.service, monkeypatch)
    while leases := scene.service.next("coder", limit=100):
        reports = [
            Report(run=lease.run, **case.reports[n % len(case.reports)]) for n, lease in enumerate(leases)
        ]
        getattr(scene.service, case.verb)(reports)
    assert long == []


def older_and_newer(service: Service, writer: Service) -> Any:
    older = service.next("coder", limit=10)
    service.release([Report(run=lease.run) for lease in older])
    newer = service.next("coder", limit=10)
    views = writer.done([Report(run=lease.run) for lease in (*older, *newer)])
    return [(view.status, len(view.promoted)) for view in views]


def the_same_twice(service: Service, writer: Service) -> Any:
    leases = service.next("coder", limit=10)
    views = writer.done([Report(run=lease.run) for lease in (*leases, *reversed(leases))])
    return [(view.status, len(view.promoted)) for view in views]


def end_by_force(service: Service, writer: Service) -> Any:
    leases = service.next("coder", limit=10)
    return [len(writer.cancel(x.item.id, why="w", by="me", force=True).promoted) for x in leases]


def take_back(service: Service, writer: Service) -> Any:
    leases = service.next("coder", limit=10)
    return [len(writer.take_back(x.item.id, why="w", by="me").promoted) for x in leases]


def tell(service: Service, writer: Service) -> Any:
    return [writer.msg(lease.item.id, "hello").n for lease in service.next("coder", limit=10)]


def of_two_agents(service: Service, writer: Service) -> Any:
    leases = [*service.next("coder", limit=2), *service.next("other", limit=10)]
    views = writer.done([Report(run=lease.run) for lease in leases])
    return [(view.status, len(view.promoted)) for view in views]


def of_an_agent_with_a_limit(service: Service, writer: Service) -> Any:
    service.set_agent("capped", max_concurrency=3)
    leases = service.next("capped", limit=10)
    views = writer.done([Report(run=lease.run) for lease in leases])
    return [(view.status, len(view.promoted)) for view in views]


def given_back_thrice(service: Service, writer: Service) -> Any:
    views = []
    for _ in range(3):
        leases = service.next("coder", limit=10)
        views += writer.release([Report(run=lease.run) for lease in leases])
    return [(view.status, len(view.promoted)) for view in views]


def told_and_done(service: Service, writer: Service) -> Any:
    leases = service.next("coder", limit=10)
    for lease in leases:
        service.msg(lease.item.id, "late")
    views = writer.done([Report(run=lease.run) for lease in leases])
    return [(view.status, len(view.promoted)) for view in views]


KINDS: list[dict[str, Any]] = [
    {},
    {"max_attempts": 1},
    {"policy": "latest"},
    {"policy": "coalesce", "message": "m"},
    {"claim_within_s": 200},
    {"retry_lane": "keep"},
]
WRITES = [
    older_and_newer,
    the_same_twice,
    end_by_force,
    take_back,
    tell,
    of_two_agents,
    of_an_agent_with_a_limit,
    given_back_thrice,
    told_and_done,
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("write", WRITES)
def test_whoever_writes_leaves_the_same(
    scene: Scene, open_service: OpenService, write: Callable[[Service, Service], Any], kind: dict[str, Any]
) -> None:
    stranger = open_service()
    outcomes = []
    for mark, writer in ((".theirs", stranger), (".ours", scene.service)):
        on_lanes = [
            scene.put(f"{lane}{n}", lane=f"lane:{lane}{mark}", **kind) for n in range(3) for lane in "ab"
        ]
        for n in range(2):
            scene.put(f"plain {n}", **{name: value for name, value in kind.items() if name != "policy"})
        scene.clock.advance(1)
        answers = write(scene.service, writer)
        outcomes.append((answers, left(scene, on_lanes[0], mark)))
    assert outcomes[0] == outcomes[1]


def test_a_sweep_by_whoever_leaves_the_same(scene: Scene, open_service: OpenService) -> None:
    stranger = open_service()
    outcomes = []
    for mark, sweeping in ((".theirs", stranger), (".ours", scene.service)):
        items = [scene.put(f"{n}", lane=f"lane:{n % 2}{mark}", max_attempts=1) for n in range(6)]
        scene.service.next("coder", limit=10)
        scene.clock.advance(100)
        swept = sweeping.sweep()
        outcomes.append(((swept.expired, swept.promoted), left(scene, items[0], mark)))
    assert outcomes[0] == outcomes[1]


def test_a_run_with_more_messages_than_it_was_given_is_refused_like_any_other(
    scene: Scene, open_service: OpenService
) -> None:
    """What the claimer remembers has unread messages, which went with the end that a stranger reported."""
    item = scene.put("work")
    for n in range(1003):
        scene.service.msg(item, f"message {n}")
    lease = scene.claim()
    assert open_service().done([Report(run=lease.run)])[0].status == "succeeded"
    assert scene.done(lease).status == "refused"
