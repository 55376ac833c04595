"""The API as any program meets it: addresses, tokens, problems, keys, limits."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest

from interlock.core.errors import InterlockError
from interlock.core.model import NewItem
from interlock.core.scopes import Needs
from interlock.http import application as limits
from interlock.http.bearers import WRONG_BURST
from interlock.http.examples import EXAMPLES
from interlock.http.problems import STATUSES, status_of
from interlock.http.schemas import document
from interlock.service.contract import Service
from interlock.service.usecases import BY_NAME, ROOT, USE_CASES, UseCase
from tests.http.asking import Answered, ask
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
    addresses = [(case.method, case.path) for case in USE_CASES]
    assert len(set(addresses)) == len(addresses)


def test_handles_stand_in_bodies_and_never_in_addresses() -> None:
    """Addresses are in the logs of every proxy."""
    for case in USE_CASES:
        named = {p.name for p in case.parameters}
        assert case.writes or not named & {"run", "handle", "reports"}, case.name
        assert set(case.in_path) <= {"item", "plan", "revision"}


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


def test_the_examples_of_the_documentation_work_in_their_order(admin: Caller) -> None:
    run = ""
    for name, example in EXAMPLES.items():
        case = BY_NAME[name]
        body = json.loads(json.dumps(example).replace("{run}", run))
        answer = admin(case.method, case.path, body)
        assert answer.status == 200, (name, answer.text)
        if name == "next":
            run = answer.json["leases"][0]["run"]


def test_the_document_names_every_address_and_no_other(serving: Serving) -> None:
    answer = ask(serving.url, "GET", "/openapi.json").json
    assert answer == json.loads(json.dumps(document()))
    assert answer["openapi"].startswith("3.1")
    named = {(path, method) for path, item in answer["paths"].items() for method in item}
    ours = {(ROOT + case.path, case.method.lower()) for case in USE_CASES}
    assert ours <= named


@pytest.mark.parametrize("path", ["/", "/docs"])
def test_the_pages_load_nothing_from_elsewhere(serving: Serving, path: str) -> None:
    answer = ask(serving.url, "GET", path)
    assert answer.status == 200
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert b"http://" not in answer.text
    assert b"https://" not in answer.text
    assert b"<script" not in answer.text


# -- who may do what ----------------------------------------------------------------------------------

#: A body for each use case that an agent may call, about a run, an item or an agent.
BODIES: dict[str, Any] = {
    "add": {"items": [{"title": "more"}]},
    "msg": {"text": "hello"},
    "cancel": {"why": "over"},
    "next": {"agent": "{agent}"},
    **{name: {"reports": [{"run": "{run}"}]} for name in ("renew", "done", "fail", "release")},
    "ask": {"run": "{run}", "question": "Which?"},
    **{name: {"run": "{run}"} for name in ("inbox", "sender_of", "plan_batch")},
    "item_of": {"handle": "{run}"},
    "pass_fence": {"run": "{run}", "fence": 1, "armed_us": 0},
    "see_worker": {
        "name": "w",
        "host": "h",
        "pid": 1,
        "folder": "/",
        "agent": "{agent}",
        "slots": 1,
        "runs": 0,
    },
    "leave_worker": {"name": "w"},
    "sweep": {},
    "create_plan": {"name": "p", "tasks": [{"key": "a"}]},
    "edit_plan": {"base": 1, "run": "{run}", "operations": []},
}
#: Of these nobody can tell whose they are.
OF_NOBODY = {"add", "msg", "leave_worker", "sweep", "create_plan"}


@pytest.mark.parametrize("scope", ["read", "agent:coder", "agent:other", "admin"])
def test_what_each_scope_may_do_of_its_own_and_of_others(serving: Serving, scope: str) -> None:
    """Every address with every scope, about a run of the agent `coder`."""
    admin, caller = Caller(serving), Caller(serving, scope)
    for case in USE_CASES:
        _try(case, scope, admin, caller)


def _try(case: UseCase, scope: str, admin: Caller, caller: Caller) -> None:
    item = admin("POST", "/items", {"items": [{"title": "x", "agent": "coder"}]}).json["items"][0]["item"][
        "id"
    ]
    (lease,) = admin("POST", "/claims", {"agent": "coder", "item": item}).json["leases"]
    run = lease["run"]
    body = json.loads(json.dumps(BODIES.get(case.name, {})).replace("{run}", run).replace("{agent}", "coder"))
    path = case.path.replace("{item}", str(item)).replace("{plan}", "1").replace("{revision}", "1")
    answer = caller(case.method, path, body if case.writes else None)
    mine = scope in ("admin", "agent:coder") or (scope == "agent:other" and case.name in OF_NOBODY)
    allowed = {Needs.READ: True, Needs.AGENT: mine, Needs.ADMIN: scope == "admin"}[case.needs]
    assert (answer.status == 403) is not allowed, (case.name, answer.text)
    assert answer.status != 500
    admin("POST", f"/items/{item}/cancel", {"why": "over", "force": True})


def test_without_a_token_nothing_is_served_but_the_pages(serving: Serving) -> None:
    for case in USE_CASES:
        path = ROOT + case.path.replace("{", "").replace("}", "")
        answer = ask(serving.url, case.method, path, {} if case.writes else None)
        assert (answer.status, answer.json["code"]) == (401, "no_token"), case.name
        assert answer.headers["www-authenticate"] == "Bearer"
    assert ask(serving.url, "GET", f"{ROOT}/events/stream").status == 401
    for path in ("/", "/docs", "/openapi.json", "/healthz", "/readyz"):
        assert ask(serving.url, "GET", path).status == 200


def test_an_agent_writes_as_itself_whatever_it_says(serving: Serving, admin: Caller) -> None:
    agent = Caller(serving, "agent:coder")
    item = admin("POST", "/items", {"items": [{"title": "x"}]}).json["items"][0]["item"]["id"]
    agent("POST", f"/items/{item}/messages", {"text": "I am a person", "sender": {"kind": "person"}})
    agent("POST", "/items", {"items": [{"title": "y", "message": "So am I", "from_person": True}]})
    told = (
        admin("GET", f"/items/{item}").json["messages"] + admin("GET", f"/items/{item + 1}").json["messages"]
    )
    assert [(m["sender"], m["agent"], m["author"]) for m in told] == [("agent", "coder", "coder")] * 2


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
    serving.server.bearers._known.clear()
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
    answer = admin("POST", "/items", b"{}", Content_Length=str(limits.BODY_MAX_BYTES + 1))
    assert (answer.status, answer.json["code"]) == (413, "too_large")
    monkeypatch.setattr(limits.Server._body, "__defaults__", (1_000,))
    large = json.dumps({"items": [{"title": "x", "message": "m" * 2_000}]}).encode()
    assert admin("POST", "/items", large).status == 413
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (large[:900], large[900:]))
    assert _raw(serving, admin.token, b"Transfer-Encoding: chunked\r\n", chunks + b"0\r\n\r\n") == 413


def test_a_slow_body_is_not_waited_for(
    serving: Serving, admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "BODY_S", 0.3)
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
