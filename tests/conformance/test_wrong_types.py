"""Programs may pass anything: a value of the wrong type is `InvalidInput` in one sentence, never a raw error
of Python or of a database, and it changes nothing.

The methods and their types are read from the interface, so a new method or parameter is tried as well.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.client import Interlock, ItemFields
from interlock.core.errors import InterlockError, InvalidInput
from interlock.core.model import NewItem
from interlock.core.plans.model import AddEdge, AddTask, EdgeSpec, Graph, TaskSpec, UpdateTask
from interlock.orchestrator.orchestrator import Orchestrator
from interlock.service.contract import EventView, ItemFilter, NoticeView, Report, Service
from interlock.service.local import LocalService
from interlock.service.series import SeriesView
from interlock.settings import TypeDefaults
from tests.conformance.scene import Scene


class Silent:
    """A value that cannot even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError


WRONG: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    7,
    1.5,
    2.0,
    float("nan"),
    float("inf"),
    2**31,
    2**63,
    -(2**70),
    10**400,
    "",
    "x",
    "\x00",
    "\ud800",
    "x" * 3_000,
    b"x",
    [],
    [1],
    ["x"],
    [None],
    ["x"] * 2_000,
    (),
    {},
    {"a": 1},
    {1: 2},
    {"x"},
    object(),
    Silent(),
    Fraction(1, 2),
    Decimal("1.5"),
    1j,
    datetime(2027, 1, 1),  # noqa: DTZ001  (a program may leave the zone out)
    timedelta(1),
    range(3),
    print,
    Exception,
)
_PLAIN: dict[Any, Callable[[Any], bool]] = {
    int: lambda v: type(v) is int,
    float: lambda v: type(v) in (int, float),
    str: lambda v: isinstance(v, str),
    bool: lambda v: isinstance(v, bool),
    type(None): lambda v: v is None,
    Any: lambda _: True,
}


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is of the type that the interface names."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, each) for each in inner)
    if origin in (Sequence, tuple):
        listed = isinstance(value, Sequence | Set) and not isinstance(value, str | bytes)
        return listed and all(fits(each, inner[0]) for each in value)
    if origin in (Mapping, dict):
        pairs = value.items() if isinstance(value, Mapping) else [(None, None)]
        return all(fits(k, inner[0]) and fits(v, inner[1]) for k, v in pairs)
    if origin is Callable:
        return callable(value)
    return _PLAIN[hint](value) if hint in _PLAIN else inspect.isclass(hint) and isinstance(value, hint)


def methods() -> list[str]:
    """The methods of the interface that take anything."""
    named = (name for name in dir(Service) if not name.startswith("_"))
    return [n for n in named if len(inspect.signature(getattr(Service, n)).parameters) > 1]


NOTICE = NoticeView(
    name="on_dead_letter",
    event=EventView(
        seq=1,
        at=datetime.now(UTC),
        kind="",
        reason="",
        project=None,
        item=None,
        run=None,
        lane=None,
        agent=None,
        data={},
    ),
    item=None,
    attempt=1,
    after=0,
    token=1,
)


class _AnySeries:
    """Series of a repository that take everything: what is wrong, the service says."""

    def status(self, _: str | None = None) -> list[SeriesView]:
        return []

    def __getattr__(self, _: str) -> Callable[..., Any]:
        return lambda *_, **__: None


def good(scene: Scene) -> dict[str, dict[str, Any]]:
    """For each method, arguments that it takes."""
    run = scene.put_running("held", agent="holder").run
    item, graph = scene.put("waits", agent="waiter"), Graph(tasks=(TaskSpec(key="a", title="a"),))
    plan = scene.service.create_plan("plan", graph).id
    gone = 10**9
    report = {"reports": [Report(run=run)]}
    return {
        "add": {"items": [NewItem(title="x")]},
        "next": {"agent": "nobody"},
        "renew": report,
        "done": {"reports": [Report(run="7.7.0123456789abcdef")]},
        "fail": {"reports": [Report(run="7.7.0123456789abcdef")]},
        "release": {"reports": [Report(run="7.7.0123456789abcdef")]},
        "inbox": {"run": run},
        "cost": {"run": run, "usd": 0.5},
        "append_log": {"run": run, "start": 0, "text": "output"},
        "last_lines": {"runs": [1]},
        "run_log": {"run": 1},
        "spending": {},
        "budgets": {},
        "set_budget": {"scope": "pool", "name": "nobody", "usd": 5},
        "remove_budget": {"scope": "pool", "name": "gone"},
        "set_reserve": {"type": "rare", "usd": 1},
        "set_time_zone": {"time_zone": "UTC"},
        "act_as": {"run": run, "account": "alice"},
        "pass_fence": {"run": run, "fence": 1, "armed_us": 0},
        "ask": {"run": "7.7.0123456789abcdef", "question": "x"},
        "close_question": {"run": "7.7.0123456789abcdef"},
        "edit": {"item": gone, "changes": {"priority": 1}},
        "set_pool": {"name": "p", "max_concurrency": 1},
        "remove_pool": {"name": "gone"},
        "remove_agent": {"name": "gone"},
        "near_agent": {"name": "codr"},
        "unknown_agents": {},
        "sender_of": {"run": run},
        "stopped": {},
        "trend": {},
        "attention": {},
        "upcoming": {},
        "recap": {},
        "effects": {},
        "retry_effects": {"effects": ["1:7:1"]},
        "drop_effects": {"effects": ["1:7:1"], "why": "x"},
        "demo": {},
        "external": {},
        "block": {"lane": "issue:acme/app#7", "blocker": "x", "why": "x"},
        "unblock": {"lane": "issue:acme/app#7"},
        "blocks": {},
        "set_gate": {"lane": "issue:acme/app#7", "series": "series:acme/app/RFC-1", "open": True, "why": "x"},
        "remove_gate": {"lane": "issue:acme/app#7", "why": "x"},
        "gates": {},
        "series": {"repository": "acme/app"},
        "series_metrics": {"repository": "acme/app"},
        "acquire_issue": {"repository": "acme/app", "issue": 7},
        "release_issue": {"repository": "acme/app", "issue": 7},
        "promote_series": {"repository": "acme/app", "series": "RFC-093"},
        "reconcile_series": {"repository": "acme/app"},
        "rebuild_series": {"repository": "acme/app", "series": "RFC-093"},
        "on_lane": {"lane": "issue:acme/app#7"},
        "create_token": {"name": "ci", "scope": "read"},
        "revoke_token": {"token": "gone"},
        "sign_in_link": {"caller": "gone"},
        "end_external": {"item": gone, "run": 1, "outcome": "done", "why": "x"},
        "msg": {"item": item, "text": "x"},
        "cancel": {"item": gone, "why": "x"},
        "lanes": {},
        "recent_runs": {},
        "hindered": {"item": item},
        "take_back": {"item": gone, "why": "x"},
        "retry": {"item": gone},
        "retry_dead": {},
        "cancel_lane": {"lane": "issue:acme/app#7", "why": "x"},
        "items": {"wanted": ItemFilter()},
        "item_of": {"handle": run},
        "unwanted": {"run": run},
        "show": {"item": item},
        "why": {"item": item},
        "events": {},
        "follow": {},
        "stats": {},
        "set_agent": {"name": "a"},
        "pause_agent": {"name": "a", "paused": False, "why": "x", "create": True},
        "pause_project": {"project": "p", "paused": False, "why": "x", "create": True},
        "see_worker": {
            "name": "w",
            "host": "h",
            "pid": 1,
            "folder": "/",
            "agent": "a",
            "slots": 1,
            "runs": 0,
        },
        "leave_worker": {"name": "w"},
        "workers": {},
        "next_notice": {"name": "on_dead_letter"},
        "end_notice": {"notice": NOTICE},
        "set_mode": {"scope": "lane", "value": "p:", "mode": "enforce"},
        "create_plan": {"name": "p", "graph": graph},
        "plan": {"plan": plan},
        "plans": {},
        "plan_history": {"plan": plan},
        "plan_at": {"plan": plan, "revision": 1},
        "plan_tasks": {"plan": plan},
        "plan_stats": {"plan": plan},
        "edit_plan": {"plan": plan, "base": 1, "operations": ()},
        "plan_batch": {"run": run},
        "cancel_plan": {"plan": gone, "why": "x"},
        "pause_plan": {"plan": plan, "why": "x"},
        "resume_plan": {"plan": plan},
        "set_edit_deadline": {"plan": plan, "edit_deadline_s": 60.0},
    }


def rows(scene: Scene) -> list[Any]:
    """All that a refused call could have changed."""
    service, store = scene.service, scene.service.store  # type: ignore[attr-defined]
    figures = store.figures(3_600_000_000)
    found = [service.items(ItemFilter(all=True, limit=10_000)), service.agents(), service.modes()]
    return [[repr(each) for each in found], figures.by_status, figures.counts, service.plans(ended=True)]


Call = Callable[[Any], object]


def attempt(call: Call, value: object, *, lawful: bool, what: str) -> None:
    """A lawful value may still be refused, in words; any other is bad input."""
    try:
        answer = call(value)
        if isinstance(answer, Iterator):
            next(answer, None)
    except InterlockError as error:
        if isinstance(error, InvalidInput) or lawful:
            return
        raise AssertionError(f"{what}: {error.code} is no word for a wrong type") from error
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
    assert lawful, f"{what} was accepted"


def attempt_all(scene: Scene, what: str, call: Call, lawful: Callable[[Any], bool]) -> None:
    """Try every wrong value; those of a wrong type change nothing."""
    before = rows(scene)
    for value in WRONG:
        if not lawful(value):
            attempt(call, value, lawful=False, what=f"{what} = {shown(value)}")
    assert rows(scene) == before, what
    for value in WRONG:
        if lawful(value):
            attempt(call, value, lawful=True, what=f"{what} = {shown(value)}")


def shown(value: object) -> str:
    return type(value).__name__ if isinstance(value, Silent) else f"{value!r:.40}"


#: What waits for as long as a lawful value says.
PATIENT = {"next.wait_s", "follow.after"}


@pytest.mark.parametrize("method", methods())
def test_a_wrong_argument_of_any_method_is_refused_in_words(scene: Scene, method: str) -> None:
    if isinstance(scene.service, LocalService):
        scene.service.series_operations.open_series = lambda _: nullcontext(_AnySeries())
        scene.service.series_operations.repositories = lambda: ["acme/app"]
    call, arguments = getattr(scene.service, method), good(scene)[method]
    hints = typing.get_type_hints(getattr(Service, method))
    for name in [*inspect.signature(getattr(Service, method)).parameters][1:]:
        what = f"{method}.{name}"

        def given(value: object, name: str = name, what: str = what) -> object:
            patient = what in PATIENT and fits(value, hints[name])
            return None if patient else call(**{**arguments, name: value})

        attempt_all(scene, what, given, lambda value, hint=hints[name]: fits(value, hint))  # type: ignore[misc]


def with_report(scene: Scene, name: str, value: object) -> object:
    report: dict[str, Any] = {"run": "7.7.0123456789abcdef", name: value}
    return [getattr(scene.service, word)([Report(**report)]) for word in ("renew", "done")]


def with_graph(scene: Scene, graph: Graph) -> object:
    return scene.service.create_plan("p", graph)


A, B = TaskSpec(key="a", title="a"), TaskSpec(key="b", title="b")
#: What is passed inside of lists: how a value reaches the service, and the type of each field.
INSIDE: dict[type, Callable[[Scene, str, Any], object]] = {
    NewItem: lambda s, name, value: s.service.add([NewItem(**{"title": "x", name: value})]),
    Report: with_report,
    ItemFilter: lambda s, name, value: s.service.items(ItemFilter(**{name: value})),
    TaskSpec: lambda s, name, value: with_graph(s, Graph(tasks=(dataclasses.replace(A, **{name: value}),))),
    EdgeSpec: lambda s, name, value: with_graph(
        s, Graph(tasks=(A, B), edges=(EdgeSpec(**{"source": "a", "target": "b", name: value}),))
    ),
    Graph: lambda s, name, value: with_graph(s, Graph(**{"tasks": (A,), name: value})),
}


@pytest.mark.parametrize("kind", INSIDE, ids=lambda kind: kind.__name__)
def test_a_wrong_field_inside_of_an_argument_is_refused_in_words(scene: Scene, kind: type) -> None:
    hints = typing.get_type_hints(kind)
    for name, hint in ((n, h) for n, h in hints.items() if typing.get_origin(h) is not typing.ClassVar):
        attempt_all(
            scene,
            f"{kind.__name__}.{name}",
            lambda value, name=name: INSIDE[kind](scene, name, value),  # type: ignore[misc]
            lambda value, hint=hint: fits(value, hint),  # type: ignore[misc]
        )


def test_a_wrong_element_of_a_batch_is_refused_in_words(scene: Scene) -> None:
    service = scene.service
    plan = service.create_plan("plan", Graph(tasks=(A,))).id
    calls: tuple[Call, ...] = (
        lambda v: service.add([v]),
        lambda v: service.done([v]),
        lambda v: service.renew([v]),
        lambda v: service.edit_plan(plan, base=1, operations=[v]),
        lambda v: service.edit_plan(plan, base=1, operations=[AddTask(task=v)]),
        lambda v: service.edit_plan(plan, base=1, operations=[AddEdge(edge=v)]),
        lambda v: service.edit_plan(plan, base=1, operations=[UpdateTask(key="a", changes=v)]),
    )
    for n, call in enumerate(calls):
        attempt_all(scene, f"call {n}", call, lambda value: isinstance(value, dict))


def test_fractions_of_positions_and_read_marks_are_refused(scene: Scene) -> None:
    for fraction in (0.5, 1.0, 7.25, Fraction(1, 2), Decimal(1)):
        with pytest.raises(InvalidInput, match=r"position .* is not a whole number"):
            scene.put("work", position=fraction)
    lease = scene.put_running("work", message="hello")
    for fraction in (0.0, 0.5, 1.0, Fraction(1, 2)):
        for write in (scene.renew, scene.done, scene.fail, scene.release):
            with pytest.raises(InvalidInput, match=r"read mark .* is not a whole number"):
                write(lease, seen=fraction)
        with pytest.raises(InvalidInput, match="read mark"):
            scene.service.inbox(lease.run, seen=fraction)  # type: ignore[arg-type]
    assert scene.done(lease, seen=1).status == "succeeded"


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '{"a": [{"b": 1, "b": 1}]}', '{"r": "x", "r": "y"}'])
def test_a_payload_or_result_with_a_key_twice_is_refused(scene: Scene, text: str) -> None:
    with pytest.raises(InvalidInput, match=r"payload is not valid JSON: the key '.' is duplicated"):
        scene.put("work", payload=text)
    lease = scene.put_running("work")
    with pytest.raises(InvalidInput, match="result is not valid JSON: the key"):
        scene.done(lease, result=text)
    with pytest.raises(InvalidInput, match="duplicated"):
        with_graph(scene, Graph(tasks=(dataclasses.replace(A, payload=text),)))
    assert scene.done(lease).status == "succeeded"


# -- the client ---------------------------------------------------------------------------------------


def test_the_client_refuses_a_wrong_field_of_an_item_in_words(scene: Scene) -> None:
    il = Interlock(scene.service)
    for name, hint in {"title": str, **typing.get_type_hints(ItemFields)}.items():
        also: tuple[type, ...] = (str,)  # numbers and spans may be texts
        if name in ("no_lane", "from_person", "from_bot", "from_system"):
            also = ()
        elif name == "payload":
            also = (str, dict)  # JSON makes texts of all keys
        attempt_all(
            scene,
            f"add({name})",
            lambda value, name=name: il.add(**{"title": "x", name: value}),  # type: ignore[misc]
            lambda value, hint=hint, also=also: fits(value, hint) or isinstance(value, also),  # type: ignore[misc]
        )


def test_the_client_refuses_everything_else_that_is_wrong(scene: Scene) -> None:
    service, gone = scene.service, 10**9
    il = Interlock(service)
    calls: tuple[tuple[Any, Call], ...] = (
        (int, lambda v: il.msg(v, "x")),
        (str, lambda v: il.msg(gone, v)),
        (str | None, lambda v: il.msg(gone, "x", author=v)),
        (int, lambda v: il.cancel(v, why="x")),
        (str, lambda v: il.cancel(gone, why=v)),
        (bool, lambda v: il.cancel(gone, why="x", force=v)),
        (bool, lambda v: il.next("nobody", renew=v)),
        (bool, lambda v: il.ls(all=v)),
        (Sequence[str], lambda v: il.ls(statuses=v)),
        (str | None, lambda v: il.ls(lane=v)),
        (int, lambda v: il.ls(limit=v)),
        (int, il.show),
        (int, il.why),
        (int, lambda v: il.events(after=v)),
        (float, lambda v: il.stats(window_s=v)),
        (str | None, lambda v: il.stats(by=v)),
        (str, lambda v: Interlock(service, actor=v)),
        (None | dict[str, TypeDefaults], lambda v: Interlock(service, types=v)),
    )
    for hint, call in calls:
        attempt_all(scene, str(hint), call, lambda value, hint=hint: fits(value, hint))  # type: ignore[misc]


def test_a_result_that_is_no_json_is_refused_and_the_run_goes_on(scene: Scene) -> None:
    scene.put("work")
    loop: list[Any] = []
    loop.append(loop)
    with Interlock(scene.service).next("coder", renew=False) as lease:
        assert lease is not None
        for value in (*WRONG, loop, {"a": float("nan")}, {(1, 2): 3}, {1: "a", "1": "b"}, "x" * 2_000_000):
            if fits(value, int | str | bool | None) and value != "x" * 2_000_000:
                continue
            if value in ([], [1], ["x"], [None], ["x"] * 2_000, (), {}, {"a": 1}, {1: 2}, 1.5, 2.0):
                continue
            with pytest.raises(InvalidInput):
                lease.done(value)
        for value in (0, 1.5, [], b"x", Silent()):
            with pytest.raises(InvalidInput):
                lease.fail(value)  # type: ignore[arg-type]
        assert not lease.ended
        assert lease.done({"a": [1, None, "\ud800"]}).status == "succeeded"


class Nameless(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize("error", [ValueError("\x00 \ud800"), ValueError("x" * 3_000_000), Nameless()])
def test_a_block_that_raises_something_odd_fails_its_run_at_once(scene: Scene, error: Exception) -> None:
    """Its text is kept as far as every store can; the run does not wait for its lease to run out."""
    item = scene.put("work", max_attempts=1)
    with pytest.raises(type(error)), Interlock(scene.service).next("coder", renew=False):
        raise error
    assert scene.status(item) == "failed"
    kept = scene.service.show(item).runs[0].error
    assert kept is not None
    assert kept.startswith(type(error).__name__)


def test_an_orchestrator_refuses_wrong_arguments_in_words(scene: Scene) -> None:
    plan = {"name": "p", "tasks": [{"key": "a"}]}
    with Orchestrator(plan, executors={}, interlock=Interlock(scene.service)) as orchestrator:
        fine: dict[str, Any] = {
            "plan": orchestrator.plan_id,
            "executors": {},
            "interlock": Interlock(scene.service),
        }

        def make(name: str) -> Call:
            return lambda v: Orchestrator(**{**fine, name: v})

        calls: tuple[tuple[Any, Call], ...] = (
            (int, make("plan")),
            (dict[str, Callable[..., Any]], make("executors")),
            (Callable[..., Any], lambda v: make("executors")({"coder": v})),
            (Callable[..., Any] | None, make("editor")),
            (int, make("max_concurrency")),
            (float | None, make("lease_s")),
            (float, orchestrator.set_timeout),
            (float | None, orchestrator.wait_for_pending),
            (Callable[..., Any], orchestrator.listen),
            (str, lambda v: orchestrator.listen(print, v)),
        )
        for n, (hint, call) in enumerate(calls):
            attempt_all(scene, f"call {n}", call, lambda value, hint=hint: fits(value, hint))  # type: ignore[misc]


# -- anything at all ----------------------------------------------------------------------------------

_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20)
ANYTHING = st.recursive(
    _LEAVES | st.binary(max_size=5) | st.sampled_from(WRONG[-8:]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(fields=st.dictionaries(st.sampled_from(["title", *ItemFields.__annotations__]), ANYTHING, min_size=1))
def test_no_combination_of_fields_raises_a_raw_error(scene: Scene, fields: dict[str, Any]) -> None:
    il = Interlock(scene.service)
    attempt(lambda given: il.add(**{"title": "x", **given}), fields, lawful=True, what=f"{fields!r}"[:200])
