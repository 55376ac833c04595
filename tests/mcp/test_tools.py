"""The tools as a model meets them: each answer, each refusal, and what happens in the store."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from interlock.core.cures import cure
from interlock.core.errors import LeaseLost
from interlock.core.model import ArrivalDecision, NewItem
from interlock.mcp import answer_conversion
from interlock.mcp.protocol import TEMPLATES
from interlock.mcp.tools import LEASE_S, NAMES
from interlock.service.contract import ItemFilter
from interlock.service.local import LocalService
from interlock.store.sqlite.store import SqliteStore
from tests.clock import Clock
from tests.mcp.client import MODES, Model, here, text_of

LANE = "issue:acme/app#42"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def service(tmp_path: Path, clock: Clock) -> Iterator[LocalService]:
    with closing(LocalService(SqliteStore(tmp_path / "store.db", now=clock), poll_s=0.01)) as service:
        yield service


@pytest.fixture
def coder(service: LocalService) -> Iterator[Model]:
    with here(service, agent="coder") as model:
        yield model


# -- what a model knows ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_every_revision_has_the_same_tools_with_typed_answers(service: LocalService, mode: str) -> None:
    with here(service, mode) as model:
        tools = model.client_says("list_tools").tools
        assert tuple(tool.name for tool in tools) == NAMES
        for tool in tools:
            assert tool.description
            assert tool.input_schema["additionalProperties"] is False
            assert all(part.get("description") for part in tool.input_schema["properties"].values()), (
                tool.name
            )
            assert "refusal" in tool.output_schema["required"], tool.name
        assert model.client_says("list_resources").resources == []
        assert model.client.protocol_version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
        assert model.client_says("list_resource_templates").resource_templates == list(TEMPLATES)


def test_a_description_says_when_to_call_and_names_only_what_there_is(coder: Model) -> None:
    tools = {tool.name: tool for tool in coder.client_says("list_tools").tools}
    for name, tool in tools.items():
        assert "Call this" in tool.description, name
        assert "\n " not in tool.description
        answers = json.dumps(tool.output_schema)
        for word in _quoted(tool.description):
            known = word in NAMES or word in tool.input_schema["properties"] or f'"{word}"' in answers
            assert known or word in _CODES | _DECISIONS, f"{name}: {word}"


_CODES = {
    "lease_lost",
    "held",
    "item_ended",
    "stale_revision",
    "edit_refused",
    "edit_cycle_expired",
    "plan_ended",
}
_DECISIONS = set(ArrivalDecision) - {ArrivalDecision.REJECTED}


def _quoted(text: str) -> set[str]:
    return {part.partition(".")[2] or part for part in text.split("`")[1::2]}


def test_tools_that_were_started_for_an_agent_claim_for_no_other(service: LocalService, coder: Model) -> None:
    """Taken out: `_claimer`; whoever guides the model gets the work of any agent."""
    service.add([NewItem(title="another's", agent="other"), NewItem(title="mine", agent="coder")])
    assert coder.claim_next(agent="other")["refusal"]["code"] == "not_allowed"
    assert coder.claim_next(agent="Coder")["lease"]["item"]["title"] == "mine"


# -- a whole job ----------------------------------------------------------------------------------------


def test_a_model_asks_goes_on_and_has_the_answer(service: LocalService, coder: Model) -> None:
    service.add([NewItem(title="Fix the page")])
    run = coder.claim_next()["lease"]["run"]
    asked = coder.ask(run=run, question="Which blue?", keep_lease=True)
    assert (asked["status"], asked["item_status"]) == ("running", "in_progress")
    assert "read_messages" in asked["next"]
    assert coder.get_item(item=1)["item"]["question"] == "Which blue?"
    service.msg(1, "sky", author="ann")
    assert [m["text"] for m in coder.read_messages(run=run)["messages"]] == ["Which blue?", "sky"]
    coder.ask(run=run, question="Which green?", keep_lease=True)
    assert coder.close_question(run=run)["status"] == "running"
    assert coder.get_item(item=1)["item"]["question"] is None
    assert coder.complete(run=run, seen=2)["status"] == "succeeded"
    assert coder.refusal("close_question", run=run)["code"] == "lease_lost"


@pytest.mark.parametrize("mode", MODES)
def test_a_whole_job_with_messages_a_question_and_an_end(service: LocalService, mode: str) -> None:
    with here(service, mode, agent="coder") as model:
        assert model.claim_next()["lease"] is None
        service.add([NewItem(title="Fix the page", lane=LANE, payload='{"page": "login"}', message="in red")])
        lease = model.claim_next()["lease"]
        assert (lease["item"]["title"], lease["item"]["payload"]) == ("Fix the page", {"page": "login"})
        assert [m["text"] for m in lease["messages"]] == ["in red"]
        assert lease["renew_within_s"] == LEASE_S / 3
        run = lease["run"]
        service.msg(1, "no, in blue", author="ann")
        assert model.renew(run=run)["unread_messages"] == 1
        read = model.read_messages(run=run)
        assert [(m["text"], m["author"]) for m in read["messages"]] == [("no, in blue", "ann")]
        assert read["next"] == "Act on them, then pass seen=2 in your next call."
        assert model.read_messages(run=run, seen=2)["messages"] == []
        asked = model.ask(run=run, question="Which blue?")
        assert asked["status"] == "released"
        assert model.get_item(item=1)["item"]["question"] == "Which blue?"
        assert model.claim_next()["lease"] is None
        service.msg(1, "sky", author="ann")
        lease = model.claim_next()["lease"]
        assert [m["text"] for m in lease["messages"]][-2:] == ["Which blue?", "sky"]
        ended = model.complete(run=lease["run"], result={"commit": "abc"})
        assert (ended["status"], ended["item_status"], ended["follow_up"]) == ("succeeded", "completed", None)
        shown = model.get_item(item=1)
        assert shown["runs"][-1]["result"] == {"commit": "abc"}
        again = model.refusal("complete", run=lease["run"])
        assert again["code"] == "lease_lost"
        assert again["hint"].startswith("Its result is already recorded")


def test_what_was_not_read_becomes_an_item(service: LocalService, coder: Model) -> None:
    service.add([NewItem(title="x", lane=LANE)])
    run = coder.claim_next()["lease"]["run"]
    service.msg(1, "and the footer", author="ann")
    ended = coder.complete(run=run)
    assert ended["follow_up"] == 2
    assert ended["next"].startswith("Messages that you did not read became item 2.")


def test_a_lease_that_ran_out_is_told_and_nothing_is_written(
    service: LocalService, coder: Model, clock: Clock
) -> None:
    service.add([NewItem(title="x", lane=LANE)])
    run = coder.claim_next()["lease"]["run"]
    clock.advance(LEASE_S + 1)
    service.sweep()
    for tool, more in (("renew", {}), ("complete", {}), ("fail", {"error": "e"}), ("release", {})):
        refusal = coder.refusal(tool, run=run, **more)
        assert refusal["code"] == "lease_lost"
        assert "Stop working on it" in refusal["hint"]
    assert coder.refusal("read_messages", run=run)["code"] == "lease_lost"
    assert coder.refusal("ask", run=run, question="Which?")["code"] == "lease_lost"
    assert service.show(1).item.status != "completed"


def test_a_run_that_another_took_over_hears_who_has_it(
    service: LocalService, coder: Model, clock: Clock
) -> None:
    service.add([NewItem(title="x", lane=LANE)])
    run = coder.claim_next()["lease"]["run"]
    clock.advance(LEASE_S + 1)
    with here(service, agent="other") as other:
        mine = other.claim_next()["lease"]
        refusal = coder.refusal("complete", run=run, result={"late": True})
        assert "of other" in refusal["message"]
        held = coder.who_has(lane=LANE.upper())
        assert (held["free"], held["holder"]["agent"], held["holder"]["run"]) == (False, "other", 2)
        assert other.complete(run=mine["run"])["status"] == "succeeded"
    assert coder.who_has(lane=LANE)["free"]


def test_a_run_that_is_asked_to_stop_hears_of_it(service: LocalService, coder: Model) -> None:
    service.add([NewItem(title="x")])
    run = coder.claim_next()["lease"]["run"]
    service.cancel(1, why="over")
    renewed = coder.renew(run=run)
    assert renewed["cancel_requested"]
    assert "then call release" in renewed["next"]
    assert coder.release(run=run)["item_status"] == "cancelled"


def test_fail_is_tried_again_unless_told_otherwise(service: LocalService, coder: Model, clock: Clock) -> None:
    service.add([NewItem(title="x")])
    run = coder.claim_next()["lease"]["run"]
    assert coder.fail(run=run, error="no network")["item_status"] == "waiting"
    clock.advance(3600)
    run = coder.claim_next()["lease"]["run"]
    assert coder.get_item(item=1)["runs"][0]["error"] == "no network"
    assert coder.fail(run=run, error="it cannot be done", retry=False)["item_status"] == "failed"


def test_a_release_waits_for_what_is_outside(service: LocalService, coder: Model, clock: Clock) -> None:
    service.add([NewItem(title="x")])
    run = coder.claim_next()["lease"]["run"]
    assert "`wait_s`" in coder.mistake("release", run=run, why="quota")
    coder.release(run=run, wait_s=7200, why="the quota is used up")
    answer = coder.claim_next(item=1)
    assert answer["lease"] is None
    assert "the quota is used up" in answer["next"]
    clock.advance(7201)
    assert coder.claim_next()["lease"]["item"]["attempt"] == 1


@pytest.mark.parametrize(("left_at", "shield"), [("next", True), ("renew", True), ("renew", False)])
def test_a_claim_whose_caller_left_is_given_back(
    service: LocalService, coder: Model, left_at: str, shield: bool
) -> None:
    """Before or while what came with it is marked as read. Taken out: `_take`; the item stays claimed until
    its lease runs out."""
    import anyio

    from interlock.core.names import USUAL_FIELDS
    from interlock.mcp.stdio import direct
    from interlock.mcp.tools import Defaults, ToolCaller, Tools

    async def main() -> None:
        with anyio.CancelScope() as scope:

            async def call(name: str, given: dict[str, Any]) -> Any:
                if name == left_at:
                    scope.cancel()
                with anyio.CancelScope(shield=shield or name == "release"):
                    return await direct(service)(name, given)

            await Tools(call, ToolCaller(agent="coder"), Defaults({}, USUAL_FIELDS)).claim_next()
        assert scope.cancelled_caught

    service.add([NewItem(title="x", message="in red")])
    anyio.run(main)
    assert service.show(1).item.status == "pending"
    (message,) = coder.claim_next()["lease"]["messages"]
    assert message["text"] == "in red"


def follow(model: Model) -> list[str]:
    """A model that knows only what the answers tell it: it calls the tool that `next` names, with what it was
    told to pass, and stops at a refusal or where it is told nothing new. Which tools it called."""
    called: list[str] = []
    given: dict[str, Any] = {}
    tool, run = "claim_next", ""
    while tool and len(called) < 20:
        called.append(tool)
        answer = getattr(model, tool)(**given)
        if answer["refusal"] is not None:
            return [*called, answer["refusal"]["code"]]
        run = answer["lease"]["run"] if answer.get("lease") else run
        named = re.findall(r"[Cc]all (\w+)", answer["next"])
        tool = named[0] if named else "complete"  # the work itself is done in no time
        if tool == called[-1]:
            return called
        seen = re.search(r"seen=(\d+)", answer["next"])
        given = {} if tool == "claim_next" else {"run": run, **({"seen": int(seen[1])} if seen else {})}
    return called


def test_whoever_follows_the_answers_alone_finishes_the_work(service: LocalService, coder: Model) -> None:
    service.add([NewItem(title=title, lane=LANE, message="in red") for title in ("a", "b")])
    kept, calls = service.renew, itertools.count()

    def interrupted(reports: Any) -> Any:
        if next(calls) == 1:  # the first marks what the claim has brought
            service.msg(1, "no, in blue", author="ann")
        return kept(reports)

    service.renew = interrupted
    first, second = ["claim_next", "renew", "read_messages", "complete"], ["claim_next", "renew", "complete"]
    assert follow(coder) == [*first, *second, "claim_next"]
    assert [item.status for item in service.items(ItemFilter(all=True))] == ["completed", "completed"]


def test_whoever_follows_the_answers_alone_stops_when_the_lease_is_lost(
    service: LocalService, coder: Model, clock: Clock
) -> None:
    service.add([NewItem(title="a")])
    kept = service.renew

    def late(reports: Any) -> Any:
        clock.advance(LEASE_S + 1)
        service.sweep()
        return kept(reports)

    service.renew = late
    assert follow(coder) == ["claim_next", "renew", "lease_lost"]


# -- inside of a run ------------------------------------------------------------------------------------


def test_inside_of_a_run_the_tools_know_it(service: LocalService) -> None:
    service.add([NewItem(title="mine", lane=LANE, payload='{"a": 1}'), NewItem(title="another")])
    (lease,) = service.next("coder", lease_s=60)
    with here(service, run=lease.run, agent="coder") as model:
        own = model.claim_next()["lease"]
        assert (own["item"]["id"], own["item"]["payload"], own["run"]) == (1, {"a": 1}, lease.run)
        assert model.claim_next(item=2)["lease"]["item"]["id"] == 1
        assert service.show(2).item.status == "pending", "it claims nothing else"
        assert model.get_item()["item"]["id"] == 1
        assert model.why()["item"] == 1
        assert model.renew()["unread_messages"] == 0
        sent = model.send_message(item=1, text="half done")
        message = service.show(1).messages[-1]
        assert (sent["n"], message.sender, message.agent, message.author) == (1, "agent", "coder", "coder")
        assert model.complete()["item_status"] == "completed"
        assert model.refusal("renew")["code"] == "lease_lost"
        assert model.refusal("claim_next")["code"] == "lease_lost"


def test_without_a_run_and_a_name_the_tools_say_what_is_missing(service: LocalService) -> None:
    with here(service) as model:
        assert "claim_next gave you" in model.mistake("renew")
        assert "Pass your name as `agent`" in model.mistake("claim_next")
        assert "Pass its number" in model.mistake("plan_status")


# -- items ----------------------------------------------------------------------------------------------


def test_what_a_model_adds_is_never_a_persons(service: LocalService) -> None:
    """Else two agents could wake each other for ever."""
    with here(service, by="ann") as model:
        model.add_item(title="a", message="hello")
        assert (service.show(1).messages[0].sender, service.show(1).messages[0].author) == ("system", "ann")
    with here(service, agent="Coder") as model:
        model.add_item(title="b", message="hello")
        assert (service.show(2).messages[0].sender, service.show(2).messages[0].agent) == ("agent", "coder")


def test_what_a_traced_model_adds_goes_on_with_its_trace(service: LocalService) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with here(service, traceparent=parent) as model:
        model.add_item(title="a")
        model.add_item(title="b", payload={"n": 1})
    assert [dict(service.show(n).item.payload or {}) for n in (1, 2)] == [
        {"traceparent": parent},
        {"n": 1, "traceparent": parent},
    ]


def test_an_arrival_says_what_became_of_it(service: LocalService, coder: Model) -> None:
    assert coder.add_item(title="a", lane=LANE, dedupe_key="k")["decision"] == "admitted"
    assert coder.add_item(title="a", lane=LANE, dedupe_key="k")["decision"] == "duplicate"
    queued = coder.add_item(title="b", lane=LANE, payload={"n": 1}, labels=["python"], priority=3)
    assert (queued["decision"], queued["position"]) == ("queued", 1)
    assert coder.add_item(title="later", run_at="+1h")["decision"] == "queued"
    refusal = coder.refusal("add_item", title="c", lane=LANE, policy="reject")
    assert refusal["code"] == "held"
    assert len(service.items(ItemFilter())) == 3
    why = coder.why(item=queued["item"]["id"])
    assert why["status"] == "deferred"
    assert LANE in why["why"]


def test_a_model_hears_of_tools_and_not_of_commands(coder: Model) -> None:
    assert coder.mistake("get_item", item=7) == "There is no item 7 in this store."  # no tool lists items
    cures = [
        cure("next", "asks for other work", agent="coder"),
        cure("items", "lists them", wanted={"all": True}),
        cure("msg", "reaches it", item=7, text=None),
        cure("msg", "brings it back", item=7, text=None, sender={"kind": "person"}),  # a model is none
    ]
    said = answer_conversion.refused(LeaseLost("It is lost.", "Stop.", tuple(cures)))
    assert said["hint"] == (
        'Stop. `claim_next(agent="coder")` asks for other work. `send_message(item=7, text=…)` reaches it.'
    )


def test_nobody_writes_to_an_item_that_has_ended(service: LocalService, coder: Model) -> None:
    service.add([NewItem(title="a")])
    service.cancel(1, why="over")
    assert coder.refusal("send_message", item=1, text="hello")["code"] == "item_ended"


# -- plans ----------------------------------------------------------------------------------------------


def test_an_editor_answers_with_an_edit_and_with_none(service: LocalService) -> None:
    from interlock.plans.planfile import plan_of

    for name in ("coder", "planner"):
        service.set_agent(name)
    plan = plan_of(
        {
            "name": "p",
            "editor": "planner",
            "tasks": [{"key": "a"}, {"key": "b"}],
            "edges": [{"from": "a", "to": "b"}],
        }
    )
    service.create_plan(plan.name, plan.graph, editor=plan.editor)
    with here(service, agent="coder") as coder, here(service, agent="planner") as planner:
        run = coder.claim_next()["lease"]["run"]
        task = coder.plan_status(run=run)
        assert (task["plan"], task["completions"], task["through"]) == (1, [], None)
        coder.complete(run=run, result={"n": 1})
        asked = planner.claim_next()["lease"]
        assert asked["item"]["type"] == "plan.edit"
        found = planner.plan_status(run=asked["run"])
        assert [(c["key"], c["result"]) for c in found["completions"]] == [("a", {"n": 1})]
        assert {t["key"]: (t["status"], t["after"]) for t in found["tasks"]}["b"] == ("pending", ["a"])
        assert found["editing_until"] is not None
        assert coder.claim_next()["lease"] is None, "the edit comes first"
        wrong = planner.refusal(
            "edit_plan",
            run=asked["run"],
            base_revision=1,
            operations=[{"op": "remove_task", "key": "a"}, {"op": "add_edge", "from": "x", "to": "b"}],
        )
        assert (wrong["code"], len(wrong["reasons"])) == ("edit_refused", 2)
        assert "colour" in planner.mistake(
            "edit_plan", run=asked["run"], base_revision=1, operations=[{"op": "add_task", "colour": 1}]
        )
        edited = planner.edit_plan(
            run=asked["run"],
            base_revision=found["revision"],
            through=found["through"],
            operations=[{"op": "add_task", "key": "c", "title": "More"}],
        )
        assert (edited["revision"], edited["added"], edited["ready"]) == (2, ["c"], ["c"])
        assert (
            planner.refusal("edit_plan", run=asked["run"], base_revision=2, operations=[])["code"]
            == "lease_lost"
        )
        ready = coder.plan_status(plan=1, statuses=["pending"], limit=1)
        assert (len(ready["tasks"]), ready["left_off"], ready["counts"]["completed"]) == (1, 2, 1)
        coder.complete(run=coder.claim_next()["lease"]["run"])
        asked = planner.claim_next()["lease"]
        with here(service, run=asked["run"]) as inside:
            listed = [str(each.uri) for each in inside.client_says("list_resources").resources]
            own = f"interlock://items/{asked['item']['id']}"
            assert listed == [own, f"{own}/messages", "interlock://plans/1"]
            (content,) = inside.client_says("read_resource", listed[2]).contents
            assert [task["key"] for task in json.loads(content.text)["tasks"]] == ["a", "b", "c"]
            assert inside.edit_plan(base_revision=2, operations=[])["plan"] == 1
        stale = coder.refusal(
            "edit_plan", plan=1, base_revision=1, operations=[{"op": "remove_task", "key": "c"}]
        )
        assert stale["code"] in ("stale_revision", "edit_refused")


# -- resources ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_resources_have_everything_uncut(service: LocalService, mode: str) -> None:
    long = "x" * (answer_conversion.TEXT_MAX_CHARS + 1)
    payload = json.dumps({"long": "y" * answer_conversion.PAYLOAD_MAX_CHARS})
    service.add([NewItem(title="a", message=long, payload=payload)])
    with here(service, mode) as model:
        shown = model.get_item(item=1)
        assert (shown["item"]["payload"], shown["item"]["payload_is_cut"]) == (None, True)
        (message,) = shown["messages"]
        assert (len(message["text"]), message["is_cut"]) == (answer_conversion.TEXT_MAX_CHARS, True)

        def read(uri: str) -> Any:
            (content,) = model.client_says("read_resource", uri).contents
            return json.loads(content.text)

        assert read("interlock://items/1")["item"]["payload"] == json.loads(payload)
        assert read("interlock://items/1/messages")["messages"][0]["text"] == long


@pytest.mark.parametrize(
    "uri",
    [
        "interlock://items/7",
        "interlock://items/x",
        "interlock://plans/1",
        "interlock://tokens",
        "file:///etc/passwd",
    ],
)
def test_a_resource_that_is_not_there_is_named(coder: Model, uri: str) -> None:
    from mcp import MCPError

    with pytest.raises(MCPError) as error:
        coder.client_says("read_resource", uri)
    assert error.value.error.code == -32602
    assert error.value.error.message.startswith("There is no ")


def test_long_results_and_errors_are_cut_and_the_resource_has_them(
    service: LocalService, coder: Model
) -> None:
    service.add([NewItem(title="a", max_attempts=9)])
    for _ in range(7):
        run = coder.claim_next(item=1)["lease"]["run"]
        coder.fail(run=run, error="x" * (answer_conversion.TEXT_MAX_CHARS + 1))
        service.retry(1)
    coder.complete(
        run=coder.claim_next()["lease"]["run"], result={"long": "y" * answer_conversion.TEXT_MAX_CHARS}
    )
    found = coder.call("get_item", {"item": 1})
    assert len(text_of(found)) < 2 * answer_conversion.TEXTS_MAX_CHARS
    *failed, last = found.structured_content["runs"]
    assert [len(run["error"]) for run in failed][::6] == [answer_conversion.TEXT_MAX_CHARS, 200]
    assert (last["result"], last["is_cut"]) == (None, True)
    (content,) = coder.client_says("read_resource", "interlock://items/1").contents
    assert len(json.loads(content.text)["runs"][-1]["result"]["long"]) == answer_conversion.TEXT_MAX_CHARS


def test_many_long_messages_fit_an_answer(service: LocalService, coder: Model) -> None:
    service.add([NewItem(title="a")])
    for _ in range(20):
        service.msg(1, "x" * answer_conversion.TEXT_MAX_CHARS)
    found = coder.call("claim_next", {})
    assert len(text_of(found)) < 2 * answer_conversion.TEXTS_MAX_CHARS
    assert found.structured_content["lease"]["messages"][-1]["is_cut"]
