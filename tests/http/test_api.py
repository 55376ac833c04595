"""The API as any program meets it: addresses, tokens, problems, keys, limits."""

from __future__ import annotations

import http.client
import json
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import pytest

from interlock.core.errors import InterlockError
from interlock.core.model import NewItem
from interlock.core.scopes import Needs
from interlock.http import bodies, request_log
from interlock.http.bearers import WRONG_BURST
from interlock.http.problems import STATUSES, status_of
from interlock.http.queries import fields_of
from interlock.http.schemas import about, document
from interlock.service.contract import Service
from interlock.service.operations import BY_NAME, OPERATIONS, ROOT, Operation
from tests.http.requests import Answered, ask
from tests.http.serving import Serving

LANE = "issue:acme/app#42"


class Caller:
    """Somebody with a token."""

    def __init__(self, serving: Serving, scope: str = "admin") -> None:
        self.url, self.token = serving.url, serving.token(scope)

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Answered:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return ask(self.url, method, ROOT + path, body, token=self.token, headers=named)

    def claim(self, agent: str = "coder") -> str:
        (lease,) = self("POST", "/claims", {"agent": agent}).json["leases"]
        return str(lease["run"])


@pytest.fixture
def admin(serving: Serving) -> Caller:
    return Caller(serving)


# -- the table ----------------------------------------------------------------------------------------


def test_every_use_case_of_the_service_has_an_address() -> None:
    functions = {name for name in dir(Service) if not name.startswith("_")}
    assert functions - {"follow", "close"} == BY_NAME.keys()


def test_no_two_use_cases_share_an_address() -> None:
    addresses = [(operation.method, operation.path) for operation in OPERATIONS]
    assert len(set(addresses)) == len(addresses)


def test_handles_stand_in_bodies_and_never_in_addresses() -> None:
    """Addresses are in the logs of every proxy. The number of a run is no secret."""
    for operation in OPERATIONS:
        named = {p.name for p in operation.parameters if p.kind not in (int, int | None)}
        assert operation.writes or not named & {"run", "handle", "reports"}, operation.name
        assert set(operation.in_path) <= {"item", "plan", "revision", "run"}


def _codes(kind: type[InterlockError]) -> set[str]:
    below = [each for each in kind.__subclasses__() if each.__module__ == kind.__module__]
    return {kind.code}.union(*map(_codes, below))


def test_every_error_that_the_service_raises_has_a_status() -> None:
    local = {"error", "git_failed", "git_missing", "no_repository", "no_remote", "remote_unavailable"}
    local |= {"command_unusable", "unreadable_state", "two_stores", "fence_ahead", "push_failed"}
    local |= {"rebase_conflict", "illegal_transition"}
    github = {code for code in _codes(InterlockError) if code.startswith("github_")}
    assert _codes(InterlockError) - local - github <= STATUSES.keys()


# -- the documents ------------------------------------------------------------------------------------


#: What an example needs that this scene does not have: an edit that is asked for, a demo fleet, and GitHub.
ANSWERS = {
    "plan_batch": 422,
    **dict.fromkeys(("start_demo", "stop_demo"), 422),
    **{operation.name: 422 for operation in OPERATIONS if operation.tag == "series"},
    # The server of the test has no demo fleet.
    **dict.fromkeys(("start_demo", "stop_demo"), 422),
}


def test_the_examples_of_the_documentation_work(admin: Caller) -> None:
    """One for each operation that takes a body, on an item, a run and a plan of its own."""
    for operation in OPERATIONS:
        name, example = operation.name, operation.manual.example
        assert (example is not None) is operation.writes, name
        if example is None:
            continue
        agent = f"agent-{name.replace('_', '-')}"
        added = admin("POST", "/items", {"items": [{"title": "x", "agent": agent, "message": "m"}]}).json
        item = added["items"][0]["item"]["id"]
        text = json.dumps(example)
        if "{run}" in text or "{number}" in text or name == "take_back":
            claim = {"agent": agent, "item": item, "external": name == "end_external"}
            (lease,) = admin("POST", "/claims", claim).json["leases"]
            text = text.replace("{run}", lease["run"]).replace('"{number}"', str(lease["fence"]))
        elif name == "retry":
            admin("POST", f"/items/{item}/cancel", {"why": "x"})
        made = admin("POST", "/tokens", {"name": "x", "scope": "read"}).json["id"]
        plan = admin("POST", "/plans", {"name": "x", "tasks": [{"key": "a"}]}).json["id"]
        if name == "set_agent":
            admin("PUT", "/pools", {"name": example["pool"], "max_concurrency": 3})
        if name == "remove_agent":
            admin("PUT", "/agents", example)
        if name == "remove_pool":
            admin("PUT", "/pools", {**example, "max_concurrency": 1})
        if name == "resume_plan":
            admin("POST", f"/plans/{plan}/pause", {"why": "x"})
        path = operation.path.replace("{item}", str(item)).replace("{plan}", str(plan))
        answer = admin(operation.method, path, json.loads(text.replace("{token}", made)))
        assert answer.status == ANSWERS.get(name, 200), (name, answer.text)


def test_the_document_names_every_address_and_no_other(serving: Serving) -> None:
    answer = ask(serving.url, "GET", "/openapi.json").json
    assert answer == json.loads(json.dumps(document()))
    assert answer["openapi"].startswith("3.1")
    named = {(path, method) for path, item in answer["paths"].items() for method in item}
    ours = {(ROOT + operation.path, operation.method.lower()) for operation in OPERATIONS}
    assert ours <= named


def test_what_a_query_may_have_is_said_where_one_looks(serving: Serving, admin: Caller) -> None:
    wrong = admin("GET", "/items?status=pending")
    assert (wrong.status, wrong.json["detail"]) == (422, "The query has an unknown field 'status'.")
    assert wrong.json["hint"].startswith("Use all, statuses, lane, ")
    none = admin("GET", "/agents?name=x")
    assert (none.status, none.json["detail"]) == (422, "This endpoint takes no query.")
    page = ask(serving.url, "GET", "/docs").text.decode()
    assert "`" not in page
    described = document()["paths"]
    for operation in OPERATIONS:
        for field in fields_of(operation):
            (said,) = (
                p for p in described[ROOT + operation.path]["get"]["parameters"] if p["name"] == field.name
            )
            assert said["description"] == field.about
            assert f"<li><code>{field.name}</code>" in page


def test_the_bounds_of_limit_are_those_that_the_document_has(admin: Caller) -> None:
    admin("POST", "/plans", {"name": "p", "tasks": [{"key": "a"}]})
    found = [
        (operation, field)
        for operation in OPERATIONS
        for field in fields_of(operation)
        if field.name == "limit"
    ]
    assert len(found) > 5
    for operation, field in found:
        path = operation.path.replace("{plan}", "1")
        for limit, status in ((0, 422), (1, 200), (field.bounds["maximum"], 200)):
            assert admin("GET", f"{path}?limit={limit}").status == status, (operation.name, limit)
        assert admin("GET", f"{path}?limit={field.bounds['maximum'] + 1}").status == 422, operation.name


def test_the_page_of_the_api_loads_nothing_from_elsewhere(serving: Serving) -> None:
    answer = ask(serving.url, "GET", "/docs")
    assert answer.status == 200
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert b"http://" not in answer.text
    assert b"https://" not in answer.text
    assert b"<script" not in answer.text


# -- who may do what ----------------------------------------------------------------------------------

WORKER: dict[str, Any] = {"name": "w", "host": "h", "pid": 1, "folder": "/", "slots": 1, "runs": 0}
#: A body for each operation that an agent may call, about a run, an item, an agent or its worker.
BODIES: dict[str, Any] = {
    "add": {"items": [{"title": "more"}]},
    "msg": {"text": "hello"},
    "cancel": {"why": "over"},
    "next": {"agent": "{agent}"},
    **{name: {"reports": [{"run": "{run}"}]} for name in ("renew", "done", "fail", "release")},
    "ask": {"run": "{run}", "question": "Which?"},
    **{name: {"run": "{run}"} for name in ("inbox", "close_question", "sender_of", "plan_batch", "unwanted")},
    "item_of": {"handle": "{run}"},
    "act_as": {"run": "{run}", "account": "alice"},
    "append_log": {"run": "{run}", "start": 0, "text": "output\n"},
    "cost": {"run": "{run}", "usd": 0.5, "input_tokens": 10, "output_tokens": 1},
    "set_budget": {"scope": "pool", "name": "nobody", "usd": 5},
    "remove_budget": {"scope": "pool", "name": "nobody"},
    "set_reserve": {"type": "rare", "usd": 1},
    "set_time_zone": {"time_zone": "UTC"},
    "pass_fence": {"run": "{run}", "fence": 1, "armed_us": 0},
    "see_worker": WORKER | {"agent": "{agent}"},
    "leave_worker": {"name": WORKER["name"]},
    "sweep": {},
    "create_plan": {"name": "p", "tasks": [{"key": "a"}]},
    "edit_plan": {"base": 1, "run": "{run}", "operations": []},
}
#: Of these nobody can tell whose they are.
OF_NOBODY = {"add", "msg", "sweep", "create_plan"}


@pytest.mark.parametrize("scope", ["read", "agent:coder", "agent:other", "admin"])
def test_what_each_scope_may_do_of_its_own_and_of_others(serving: Serving, scope: str) -> None:
    """Every address with every scope, about a run of the agent `coder`."""
    admin, caller = Caller(serving), Caller(serving, scope)
    for operation in OPERATIONS:
        admin("POST", "/workers", WORKER | {"agent": "coder"})
        _try(operation, scope, admin, caller)


def _try(operation: Operation, scope: str, admin: Caller, caller: Caller) -> None:
    item = admin("POST", "/items", {"items": [{"title": "x", "agent": "coder"}]}).json["items"][0]["item"][
        "id"
    ]
    (lease,) = admin("POST", "/claims", {"agent": "coder", "item": item}).json["leases"]
    run = lease["run"]
    body = json.loads(
        json.dumps(BODIES.get(operation.name, {})).replace("{run}", run).replace("{agent}", "coder")
    )
    path = operation.path.replace("{item}", str(item)).replace("{plan}", "1").replace("{revision}", "1")
    path = path.replace("{run}", str(lease["fence"]))
    answer = caller(operation.method, path, body if operation.writes else None)
    mine = scope in ("admin", "agent:coder") or (scope == "agent:other" and operation.name in OF_NOBODY)
    allowed = {Needs.READ: True, Needs.AGENT: mine, Needs.ADMIN: scope == "admin"}[operation.needs]
    assert (answer.status == 403) is not allowed, (operation.name, answer.text)
    assert answer.status != 500
    admin("POST", f"/items/{item}/cancel", {"why": "over", "force": True})


def test_an_agents_token_need_not_name_its_agent(serving: Serving, admin: Caller) -> None:
    """Taken out: `with_agent`; the claim misses a field that its token has said already."""
    agent = Caller(serving, "agent:coder")
    admin("POST", "/items", {"items": [{"title": "x"}, {"title": "y"}]})
    (lease,) = agent("POST", "/claims", {}).json["leases"]
    assert lease["item"]["run_agent"] == "coder"
    assert agent("POST", "/claims", {"agent": "other"}).status == 403
    assert agent("POST", "/workers", WORKER).status == 200
    assert admin("GET", "/workers").json["workers"][0]["agent"] == "coder"
    for caller, status in ((admin, 422), (Caller(serving, "read"), 403)):
        assert caller("POST", "/claims", {}).status == status
    assert admin("GET", "/items/2").json["item"]["status"] == "pending"


def test_an_agent_speaks_for_no_worker_of_another(serving: Serving, admin: Caller) -> None:
    """Taken out: the look at `PRESENCE` in `confined`; a worker seems to have ended, or to be alive."""
    coder, other = Caller(serving, "agent:coder"), Caller(serving, "agent:other")
    coder("POST", "/workers", WORKER | {"agent": "coder"})
    seen = admin("GET", "/workers").json
    for path, body in (("", WORKER | {"agent": "other", "runs": 9}), ("/leave", {"name": "w"})):
        answer = other("POST", f"/workers{path}", body)
        assert (answer.status, answer.json["code"]) == (403, "not_allowed")
        assert "a worker of another agent" in answer.json["detail"]
    assert admin("GET", "/workers").json == seen
    assert other("POST", "/workers/leave", {"name": "nobody"}).status == 200
    assert coder("POST", "/workers/leave", {"name": "w"}).status == 200
    assert admin("GET", "/workers").json == {"workers": []}


def test_what_the_api_says_about_itself_has_no_words_of_python() -> None:
    for operation in OPERATIONS:
        said = about(operation)
        assert said
        assert not re.search(
            r"_us\b|\bNone\b|`[A-Z][a-z]+[A-Z]|`expected`|\b[Rr]aises\b|\biff\b|\bFalse\b", said
        ), (operation.path, said)


#: What anybody may see; a webhook has its signature.
OPEN = {"/docs", "/openapi.json", "/healthz", "/readyz"}


def _routes(serving: Serving) -> list[tuple[str, str]]:
    """Every address that the application answers, whoever added it."""
    found = []
    for address in serving.app.addresses:
        path = re.sub(r"{[^}]*}", "1", address.path)
        found += [(method, path) for method in sorted(address.apps.keys() - {"HEAD"})]
    return found


def test_without_a_token_nothing_is_served_but_the_pages(serving: Serving) -> None:
    routes = _routes(serving)
    assert len(routes) >= len(OPERATIONS) + 6
    for method, path in routes:
        answer = ask(serving.url, method, path, {} if method != "GET" else None)
        if path in OPEN:
            assert answer.status == 200, path
        else:
            assert answer.status == 401, (method, path)
            if path.startswith(ROOT):
                assert answer.json["code"] == "no_token"
                assert answer.headers["www-authenticate"] == "Bearer"


def test_a_token_to_read_with_changes_nothing_at_any_address(serving: Serving) -> None:
    """Also at addresses that are not in the table."""
    token = serving.token("read")
    before = len(serving.server.service.events(limit=10_000))
    for method, path in _routes(serving):
        if method == "GET" or path.startswith("/webhooks"):
            continue
        if path == f"{ROOT}/sign-in":  # a link has the scope of its caller
            continue
        assert ask(serving.url, method, path, {}, token=token).status == 403, (method, path)
    assert len(serving.server.service.events(limit=10_000)) == before


def test_an_agent_writes_as_itself_whatever_it_says(serving: Serving, admin: Caller) -> None:
    agent = Caller(serving, "agent:coder")
    item = admin("POST", "/items", {"items": [{"title": "x"}]}).json["items"][0]["item"]["id"]
    mine = {"text": "I am a person", "sender": {"kind": "person"}, "author": "anna"}
    agent("POST", f"/items/{item}/messages", mine)
    new = {"title": "y", "message": "So am I", "from_person": True, "author": "anna"}
    agent("POST", "/items", {"items": [new]})
    told = (
        admin("GET", f"/items/{item}").json["messages"] + admin("GET", f"/items/{item + 1}").json["messages"]
    )
    assert [(m["sender"], m["agent"], m["author"]) for m in told] == [("agent", "coder", "coder")] * 2
    plan = {"name": "p", "tasks": [{"key": "a"}], "by": "anna"}
    number = agent("POST", "/plans", plan).json["id"]
    assert admin("GET", f"/plans/{number}/revisions").json["revisions"][0]["by"] == "coder"


def test_the_history_names_the_token_of_an_operator_who_gives_no_name(admin: Caller) -> None:
    """Taken out: `with_name`; nobody can tell who changed the item."""
    admin("POST", "/items", {"items": [{"title": "x"}]})
    admin("PATCH", "/items/1", {"priority": 3})
    admin("POST", "/items/1/cancel", {"why": "over", "by": "anna"})
    admin("PUT", "/agents", {"name": "planner"})
    plan = {"name": "p", "editor": "planner", "tasks": [{"key": "a"}, {"key": "b"}]}
    path = f"/plans/{admin('POST', '/plans', plan).json['id']}"
    admin("POST", "/runs/done", {"reports": [{"run": admin.claim()}]})
    operation = {"op": "update_task", "key": "b", "priority": 3}
    admin("PATCH", path, {"base": 1, "run": admin.claim("planner"), "operations": [operation]})
    kinds = ("item.edited", "item.cancelled", "agent.set", "plan.created", "plan.modified")
    found = {e["kind"]: e["data"]["by"] for e in admin("GET", "/events").json["events"] if e["kind"] in kinds}
    assert found == dict(zip(kinds, ("test", "anna", "test", "test", "planner"), strict=True))
    assert admin("GET", "/stats").status == 200  # its `by` is another


def test_a_revoked_or_unknown_token_lets_nobody_in(serving: Serving, admin: Caller) -> None:
    service = serving.server.service
    caller = Caller(serving, "read")
    service.revoke_token(service.tokens()[-1].id)
    assert caller("GET", "/stats").status == 401
    for text in ("", "il_", "il_abc", caller.token + "x", f"il_{'0' * 12}_x", "x" * 5_000):
        answer = ask(serving.url, "GET", f"{ROOT}/stats", token=text)
        assert answer.status == 401
        assert text[:40] not in answer.text.decode() or len(text) < 4
    assert admin("GET", "/stats").status == 200


def test_a_token_that_is_over_lets_nobody_in(serving: Serving) -> None:
    made = serving.server.service.create_token("short", scope="read", expires_s=60)
    path = f"{ROOT}/stats"
    assert ask(serving.url, "GET", path, token=made.token).status == 200
    serving.server.execution.bearers._known.clear()
    store: Any = serving.server.service.store
    store.database.db.execute("UPDATE tokens SET expires_us = 1")
    assert ask(serving.url, "GET", path, token=made.token).status == 401


def test_wrong_tokens_are_slowed_down_and_right_ones_are_not_forgotten(
    serving: Serving, admin: Caller
) -> None:
    statuses = [
        ask(serving.url, "GET", f"{ROOT}/stats", token=f"il_{n:012x}_x").status
        for n in range(int(WRONG_BURST) + 10)
    ]
    assert statuses[0] == 401
    assert statuses[-1] == 429


def test_the_store_has_no_token_in_it(serving: Serving, admin: Caller) -> None:
    store: Any = serving.server.service.store
    rows = str(list(store.database.db.execute("SELECT * FROM tokens")))
    assert admin.token.split("_", 2)[2] not in rows
    assert admin.token not in str(admin("GET", "/tokens").json)


# -- problems -----------------------------------------------------------------------------------------


def test_a_lost_lease_is_gone_and_says_who_has_it(admin: Caller) -> None:
    admin("POST", "/items", {"items": [{"title": "x"}]})
    run = admin.claim()
    report = {"reports": [{"run": run}]}
    assert admin("POST", "/runs/done", report).status == 200
    answer = admin("POST", "/runs/done", report)
    assert answer.status == 410
    assert answer.headers["content-type"].startswith("application/problem+json")
    assert answer.json["code"] == "lease_lost"
    assert answer.json["runs"][0]["status"] == "refused"
    assert answer.json["hint"]


def test_a_held_lane_is_a_conflict_and_names_its_holder(admin: Caller) -> None:
    item = {"title": "x", "lane": LANE, "policy": "reject"}
    admin("POST", "/items", {"items": [item]})
    admin.claim()
    answer = admin("POST", "/items", {"items": [item]})
    assert (answer.status, answer.json["code"]) == (409, "held")
    assert answer.json["holder"]["agent"] == "coder"
    assert admin("POST", "/items", {"items": [item, {"title": "free"}]}).status == 200


def test_a_stale_edit_fails_its_precondition(admin: Caller) -> None:
    plan = admin("POST", "/plans", {"name": "p", "tasks": [{"key": "a"}]}).json
    path = f"/plans/{plan['id']}"

    def edit(priority: int) -> Answered:
        operation = {"op": "update_task", "key": "a", "priority": priority}
        return admin("PATCH", path, {"base": 1, "operations": [operation]})

    assert edit(1).status == 200
    answer = edit(2)
    assert (answer.status, answer.json["code"]) == (412, "stale_revision")
    assert answer.json["reasons"]


def test_an_edit_may_name_the_version_that_somebody_has_looked_at(admin: Caller) -> None:
    """Taken out: the comparison in `operator_rules.edit`; the second edit then undoes the first."""
    admin("POST", "/items", {"items": [{"title": "x", "lane": LANE}, {"title": "y"}]})
    looked = admin("GET", "/items/1").headers["etag"]
    assert admin("GET", "/items/1").headers["etag"] == looked
    admin("PATCH", "/items/2", {"priority": 3})
    first = admin("PATCH", "/items/1", {"priority": 3}, If_Match=looked)
    assert first.status == 200, first.text
    assert first.headers["etag"] == admin("GET", "/items/1").headers["etag"] != looked
    stale = admin("PATCH", "/items/1", {"priority": 4}, If_Match=looked)
    assert (stale.status, stale.json["code"]) == (412, "stale_revision")
    assert admin("GET", "/items/1").json["item"]["priority"] == 3
    now = admin("GET", "/items/1").headers["etag"]
    admin("POST", "/items/1/messages", {"text": "hello"})
    assert admin("PATCH", "/items/1", {"priority": 4}, If_Match=now).status == 412
    assert admin("PATCH", "/items/1", {"priority": 4}, If_Match="*").status == 200
    assert admin("PATCH", "/items/1", {"priority": 5}).status == 200
    for wrong in ("x", '"a", "b"', 'W/"a"', '""', '"' + "x" * 65 + '"'):
        assert admin("PATCH", "/items/1", {"priority": 6}, If_Match=wrong).status == 422
    assert admin("POST", "/items/1/cancel", {"why": "x"}, If_Match=now).status == 422


def test_an_edit_of_what_runs_is_not_called_an_end(admin: Caller) -> None:
    admin("POST", "/items", {"items": [{"title": "x"}]})
    run = admin("POST", "/claims", {"agent": "coder"}).json["leases"][0]["run"]
    refused = admin("PATCH", "/items/1", {"priority": 3})
    assert (refused.status, refused.json["code"]) == (409, "edit_refused")
    assert "of coder) and can no longer be edited" in refused.json["detail"]
    admin("POST", "/runs/done", {"reports": [{"run": run}]})
    refused = admin("PATCH", "/items/1", {"priority": 3})
    assert (refused.status, refused.json["code"]) == (409, "item_ended")


def test_a_plans_revision_is_its_tag(admin: Caller) -> None:
    admin("POST", "/plans", {"name": "p", "tasks": [{"key": "a"}]})
    tag = admin("GET", "/plans/1").headers["etag"]
    assert tag == '"1"'
    operation = {"op": "update_task", "key": "a", "priority": 3}
    edit = {"operations": [operation]}
    assert admin("PATCH", "/plans/1", edit, If_Match=tag).headers["etag"] == '"2"'
    later = {"operations": [{**operation, "priority": 4}]}
    assert admin("PATCH", "/plans/1", later, If_Match=tag).status == 412
    assert admin("PATCH", "/plans/1", {**later, "base": 2}, If_Match=tag).status == 422
    assert admin("PATCH", "/plans/1", later, If_Match='"x"').status == 422


def test_a_repeated_edit_is_answered_as_the_first_though_its_version_is_stale_now(admin: Caller) -> None:
    admin("POST", "/items", {"items": [{"title": "x"}]})
    tag = admin("GET", "/items/1").headers["etag"]
    for _ in range(2):
        answer = admin("PATCH", "/items/1", {"priority": 3}, If_Match=tag, Idempotency_Key="one")
        assert answer.status == 200
    assert admin("PATCH", "/items/1", {"priority": 3}, Idempotency_Key="one").status == 422


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/items/7", None, 404),
        ("GET", "/nothing", None, 404),
        ("GET", "/items/x", None, 422),
        ("GET", "/items?limit=many", None, 422),
        ("GET", "/items?colour=red", None, 422),
        ("GET", "/items?limit=1&limit=2", None, 422),
        ("DELETE", "/items", None, 405),
        ("POST", "/items", {}, 422),
        ("POST", "/items", [], 422),
        ("POST", "/items", {"items": [{}]}, 422),
        ("POST", "/items", {"items": [{"title": "x", "colour": "red"}]}, 422),
        ("POST", "/items", {"items": [{"title": "x" * 501}]}, 413),
        ("POST", "/items?a=b", {"items": []}, 422),
        ("POST", "/items", {"items": [{"title": "x"}] * 1001}, 413),
        ("POST", "/claims", {"agent": "coder", "wait_s": 61}, 422),
        ("POST", "/claims", {"agent": 7}, 422),
        ("POST", "/claims", {"agent": "coder", "limit": True}, 422),
        ("POST", "/runs/done", {"reports": [{"run": "1.1.00"}]}, 422),
        ("POST", "/runs/inbox", {"run": f"1.1.{'0' * 16}"}, 410),
        ("POST", "/plans", {"name": "p", "tasks": [{"key": "a"}, {"key": "a"}]}, 422),
        ("PUT", "/agents", {"name": "../x"}, 422),
    ],
)
def test_bad_input_is_refused_in_words_and_changes_nothing(
    admin: Caller, method: str, path: str, body: Any, status: int
) -> None:
    answer = admin(method, path, body)
    assert answer.status == status, answer.text
    problem = answer.json
    assert problem["status"] == status == status_of(problem["code"])
    assert problem["detail"]
    assert admin("GET", "/items", None).json == {"items": []}


def test_an_address_says_which_methods_it_takes(admin: Caller) -> None:
    answer = admin("DELETE", "/agents")
    assert (answer.status, answer.json["code"]) == (405, "wrong_method")
    assert "GET" in answer.headers["allow"]


def test_every_answer_has_the_id_of_its_request(admin: Caller) -> None:
    assert admin("GET", "/stats", X_Request_Id="mine-1").headers["x-request-id"] == "mine-1"
    assert len(admin("GET", "/stats", X_Request_Id="not\tmine").headers["x-request-id"]) == 16


# -- repeated requests --------------------------------------------------------------------------------


def test_a_request_is_carried_out_once_for_each_key(admin: Caller) -> None:
    body = {"items": [{"title": "x"}]}
    first = admin("POST", "/items", body, Idempotency_Key="one")
    again = admin("POST", "/items", body, Idempotency_Key="one")
    other = admin("POST", "/items", body, Idempotency_Key="two")
    assert first.json == again.json
    assert other.json != first.json
    assert len(admin("GET", "/items").json["items"]) == 2


def test_a_repeated_claim_gives_the_same_lease(admin: Caller) -> None:
    admin("POST", "/items", {"items": [{"title": "x", "message": "hello"}, {"title": "y"}]})
    first = admin("POST", "/claims", {"agent": "coder"}, Idempotency_Key="one").json["leases"]
    again = admin("POST", "/claims", {"agent": "coder"}, Idempotency_Key="one").json["leases"]
    assert [lease["run"] for lease in first] == [lease["run"] for lease in again]
    assert first[0]["messages"] == again[0]["messages"]
    empty = admin("POST", "/claims", {"agent": "coder", "item": 1}, Idempotency_Key="two").json
    assert empty == {"leases": []}


def test_an_end_with_a_claim_has_leases_only_where_asked(serving: Serving, admin: Caller) -> None:
    """Taken out: the wish in `confine`; an agent's token claims for another agent."""
    admin("POST", "/items", {"items": [{"title": title} for title in "abcd"]})
    agent, run = Caller(serving, "agent:coder"), admin.claim()
    plain = admin("POST", "/runs/done", {"reports": [{"run": run}]}).json
    assert plain.keys() == {"runs"}
    run = agent.claim()
    refused = agent("POST", "/runs/done", {"reports": [{"run": run}], "next": {"agent": "other"}})
    assert refused.status == 403
    body = {"reports": [{"run": run}], "next": {"labels": ["gpu"]}}
    found = agent("POST", "/runs/done", body).json
    assert [run["status"] for run in found["runs"]] == ["succeeded"]
    assert [lease["item"]["run_agent"] for lease in found["leases"]] == ["coder"]
    wrong = {"reports": [{"run": found["leases"][0]["run"]}], "next": {"wait_s": 5}}
    assert agent("POST", "/runs/done", wrong).status == 422
    gone = agent("POST", "/runs/done", body)
    assert (gone.status, gone.json["leases"], len(gone.json["runs"])) == (410, [], 1)


def test_a_repeated_end_with_a_claim_gives_the_same_lease(admin: Caller) -> None:
    """The answer may have been lost on its way; its lease must not be."""
    admin("POST", "/items", {"items": [{"title": title, "message": "hello"} for title in "abc"]})
    body = {"reports": [{"run": admin.claim()}], "next": {}}
    first, again = (admin("POST", "/runs/done", body, Idempotency_Key="one").json for _ in range(2))
    (lease,), (same,) = first["leases"], again["leases"]
    assert first["runs"] == again["runs"]
    assert (lease["run"], lease["messages"]) == (same["run"], same["messages"])
    admin("POST", "/runs/done", {"reports": [{"run": lease["run"]}]})
    third = admin("POST", "/runs/done", body, Idempotency_Key="one").json
    assert (third["runs"], third["leases"]) == (first["runs"], [])
    assert admin("GET", "/items/3").json["item"]["status"] == "pending"


def test_a_repeated_end_is_answered_as_the_first(admin: Caller) -> None:
    admin("POST", "/items", {"items": [{"title": "x"}]})
    report = {"reports": [{"run": admin.claim(), "result": {"n": 1}}]}
    first = admin("POST", "/runs/done", report, Idempotency_Key="one")
    again = admin("POST", "/runs/done", report, Idempotency_Key="one")
    assert (first.status, first.json) == (again.status, again.json)
    assert first.status == 200


def test_a_key_belongs_to_its_request_and_its_token(serving: Serving, admin: Caller) -> None:
    admin("POST", "/items", {"items": [{"title": "x"}]}, Idempotency_Key="one")
    assert admin("POST", "/items", {"items": [{"title": "y"}]}, Idempotency_Key="one").status == 422
    Caller(serving)("POST", "/items", {"items": [{"title": "z"}]}, Idempotency_Key="one")
    assert len(admin("GET", "/items").json["items"]) == 2
    assert admin("POST", "/items", {"items": []}, Idempotency_Key="x" * 201).status == 422


def test_of_many_claims_at_once_under_one_key_all_get_the_same_lease(admin: Caller) -> None:
    """A client sends a claim again while the first one is carried out. Taken out: `_keyed`; some find no
    work, and nobody may be told of the lease."""
    with ThreadPoolExecutor(8) as threads:
        for n in range(10):
            admin("POST", "/items", {"items": [{"title": "the only one"}]})
            asked = partial(admin, "POST", "/claims", {"agent": "coder"}, Idempotency_Key=f"claim-{n}")
            answers = [claim.result().json for claim in [threads.submit(asked) for _ in range(8)]]
            runs = [[lease["run"] for lease in answer["leases"]] for answer in answers]
            assert runs == [runs[0]] * 8
            assert len(runs[0]) == 1


def test_of_many_at_once_under_one_key_one_is_carried_out(admin: Caller) -> None:
    body = {"name": "p", "tasks": [{"key": "a"}]}
    with ThreadPoolExecutor(8) as threads:
        answers = [
            f.result()
            for f in [threads.submit(admin, "POST", "/plans", body, Idempotency_Key="one") for _ in range(16)]
        ]
    assert {answer.status for answer in answers} == {200}
    assert len({answer.json["id"] for answer in answers}) == 1
    assert len(admin("GET", "/plans").json["plans"]) == 1


# -- bodies -------------------------------------------------------------------------------------------


def test_bodies_that_are_not_plain_json_are_refused(admin: Caller) -> None:
    good = json.dumps({"items": [{"title": "x"}]}).encode()
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        assert admin("POST", "/items", good, Content_Type=kind).status == 415
    assert admin("POST", "/items", good, Content_Encoding="gzip").status == 415
    for text in (b"{", b'{"a": NaN}', b"[" * 100, b'{"items": [], "items": []}', b"\xff"):
        assert admin("POST", "/items", text).status == 422


def test_a_body_beyond_the_limit_is_refused_announced_or_not(
    serving: Serving, admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = admin("POST", "/items", b"{}", Content_Length=str(bodies.BODY_MAX_BYTES + 1))
    assert (answer.status, answer.json["code"]) == (413, "too_large")
    monkeypatch.setattr(bodies, "BODY_MAX_BYTES", 1_000)
    large = json.dumps({"items": [{"title": "x", "message": "m" * 2_000}]}).encode()
    assert admin("POST", "/items", large).status == 413
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (large[:900], large[900:]))
    assert _raw(serving, admin.token, b"Transfer-Encoding: chunked\r\n", chunks + b"0\r\n\r\n") == 413


def test_a_slow_body_is_not_waited_for(
    serving: Serving, admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "BODY_S", 0.3)
    assert _raw(serving, admin.token, b"Content-Length: 100\r\n", b"{") == 408


def test_a_truncated_body_changes_nothing(serving: Serving, admin: Caller) -> None:
    body = json.dumps({"items": [{"title": "x"}]}).encode()
    parts = urlsplit(serving.url)
    with socket.create_connection((parts.hostname, parts.port)) as sock:
        sock.sendall(_head(admin.token, b"Content-Length: %d\r\n" % len(body)) + body[:-1])
    assert admin("GET", "/items").json == {"items": []}


def _head(token: str, more: bytes) -> bytes:
    return (
        b"POST /v1/items HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Authorization: Bearer " + token.encode() + b"\r\n" + more + b"\r\n"
    )


def _raw(serving: Serving, token: str, more: bytes, body: bytes) -> int:
    parts = urlsplit(serving.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as sock:
        sock.sendall(_head(token, more) + body)
        return int(sock.recv(1_000).split()[1])


def test_smuggled_lengths_are_refused(serving: Serving, admin: Caller) -> None:
    more = b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n"
    status = _raw(serving, admin.token, more, b"0\r\n\r\nGET / HTTP/1.1\r\n\r\n")
    assert status in (400, 422)
    assert _raw(serving, admin.token, b"Content-Length: 4\r\nContent-Length: 5\r\n", b"{}") == 400


def test_a_new_item_is_there_for_everybody(serving: Serving, admin: Caller) -> None:
    """What the store has, the API shows: nothing is kept in the server."""
    serving.server.service.add([NewItem(title="from elsewhere")])
    assert admin("GET", "/items").json["items"][0]["title"] == "from elsewhere"


def test_a_refused_body_is_named(serving: Serving) -> None:
    token = serving.token()
    for path, body, said in (
        ("/v1/items", {"title": "x"}, "The body has an unknown field 'title'."),
        ("/v1/claims", {}, "The body lacks the field agent."),
    ):
        assert ask(serving.url, "POST", path, body, token=token).json["detail"] == said


def test_a_method_that_an_address_does_not_take_is_answered_with_all_that_it_takes(admin: Caller) -> None:
    for method, path, takes in (
        ("DELETE", "/items/1", "GET, HEAD, PATCH"),
        ("OPTIONS", "/items", "GET, HEAD, POST"),
        ("GET", "/claims", "POST"),
    ):
        answer = admin(method, path)
        assert (answer.status, answer.headers["allow"]) == (405, takes)


def test_what_is_refused_early_has_an_id_and_a_line_and_is_counted(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[dict[str, Any]] = []
    logger = type(request_log.log.bind())
    monkeypatch.setattr(logger, "info", lambda _self, _event, **line: lines.append(line))
    count = serving.server.instruments.registry.get_sample_value
    name = "interlock_http_requests_total"
    for method, path, status, route in (
        ("GET", "/nothing", 404, "other"),
        ("GET", "/a//b", 404, "other"),
        ("DELETE", "/healthz", 405, "/healthz"),
    ):
        labels = {"route": route, "status": str(status)}
        before = count(name, labels) or 0
        answer = ask(serving.url, method, path, headers={"X-Request-Id": "mine"})
        assert (answer.status, answer.headers["x-request-id"]) == (status, "mine")
        assert answer.headers["cache-control"] == "no-store"
        line = lines.pop()
        assert (line["request"], line["path"], line["status"], lines) == ("mine", path, status, [])
        assert count(name, labels) == before + 1


def test_a_stream_that_goes_on_after_an_event_that_never_was_is_refused(admin: Caller) -> None:
    """As after a restore: it would be silent until as many events have come again."""
    admin("POST", "/items", {"items": [{"title": "x"}]})
    newest = admin("GET", "/events").json["events"][-1]["seq"]
    for query, headers in ((f"?after={newest + 1}", {}), ("", {"Last-Event-ID": str(newest + 1)})):
        connection = http.client.HTTPConnection(urlsplit(admin.url).netloc, timeout=60)
        headers["Authorization"] = f"Bearer {admin.token}"
        connection.request("GET", f"{ROOT}/events/stream{query}", headers=headers)
        with closing(connection), connection.getresponse() as answer:
            assert answer.status == 410  # else it has no end
            assert json.load(answer)["code"] == "unknown_event"
