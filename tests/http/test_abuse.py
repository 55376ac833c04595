"""What one caller, with or without a token, cannot take away from all others."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import anyio
import pytest

from interlock.core.model import NewItem, Policy
from interlock.core.policies import NO_POLICIES, Policies
from interlock.core.record import replace
from interlock.http import bodies, connections
from interlock.service.contract import Report
from interlock.service.local import LocalService
from interlock.service.operations import ROOT
from tests.http.requests import ask, eventually
from tests.http.serving import Serving
from tests.http.test_attacks import connected, ends, head, status
from tests.patience import PATIENCE_S

SIGNED = f"X-Hub-Signature-256: sha256={'0' * 64}"


def handles(count: int, first: int = 1) -> list[dict[str, Any]]:
    """Handles of runs that this store never gave out."""
    return [{"run": f"{first + n}.{first + n}.{n:016x}"} for n in range(count)]


def counted(monkeypatch: pytest.MonkeyPatch, serving: Serving) -> list[str]:
    """The names of the statements that the store is asked from now on."""
    database: Any = serving.server.service.store.database
    asked: list[str] = []
    rows = database.rows

    def count(name: str, /, **params: Any) -> Any:
        asked.append(name)
        return rows(name, **params)

    monkeypatch.setattr(database, "rows", count)
    return asked


# -- an agent's token ---------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["renew", "done", "fail", "release"])
def test_unknown_handles_are_looked_up_together(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Taken out: the one statement of `run_agents`; each handle costs statements of its own."""
    token = serving.token("agent:coder")
    ask(serving.url, "POST", f"{ROOT}/runs/{what}", {"reports": handles(1)}, token=token)
    asked = counted(monkeypatch, serving)
    alone = ask(serving.url, "POST", f"{ROOT}/runs/{what}", {"reports": handles(1)}, token=token)
    for_one = len([name for name in asked if name not in UPKEEP])
    asked.clear()
    many = ask(serving.url, "POST", f"{ROOT}/runs/{what}", {"reports": handles(1_000, 500)}, token=token)
    assert (alone.status, many.status) == (410, 410)
    assert len([name for name in asked if name not in UPKEEP]) <= for_one


#: What the server asks by itself meanwhile, and what SQLite does for each lease.
UPKEEP = {"horizon", "newest_events", "agents", "renew"}


@pytest.mark.parametrize("what", ["runs/renew", "runs/done", "items"])
def test_a_batch_that_is_too_large_is_refused_before_the_store_is_asked(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Taken out: the look at its length in `arguments`; all of its handles are looked up first."""
    token = serving.token("agent:coder")
    assert ask(serving.url, "GET", f"{ROOT}/agents", token=token).status == 200
    asked = counted(monkeypatch, serving)
    field, each = ("items", [{"title": "x"}]) if what == "items" else ("reports", handles(1))
    answer = ask(serving.url, "POST", f"{ROOT}/{what}", {field: each * 1_001}, token=token)
    assert (answer.status, answer.json["code"]) == (413, "too_large")
    assert not set(asked) - UPKEEP


def test_what_a_client_no_longer_waits_for_is_not_begun(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken out: `OperationCall.left`; clients that send and hang up keep the threads busy."""
    begun, go = threading.Event(), threading.Event()
    monkeypatch.setattr(serving.server.execution, "limiter", anyio.CapacityLimiter(1))
    service: Any = serving.server.service
    stats, swept = service.stats, list[int]()

    def slowly(**given: Any) -> Any:
        begun.set()
        go.wait(PATIENCE_S)
        return stats(**given)

    monkeypatch.setattr(service, "stats", slowly)
    monkeypatch.setattr(service, "sweep", lambda: swept.append(1))
    with connected(serving, head(serving)) as first:
        assert begun.wait(PATIENCE_S)
        body = ("Content-Type: application/json", "Content-Length: 2")
        with connected(serving, head(serving, *body, method="POST", path=f"{ROOT}/sweep") + b"{}"):
            eventually(lambda: serving.server.execution.limiter.statistics().tasks_waiting >= 1)
        eventually(lambda: len(serving.listener.server_state.connections) == 1)
        go.set()
        assert status(first.recv(1_000)) == 200
    assert ask(serving.url, "GET", f"{ROOT}/stats", token=serving.token()).status == 200
    assert swept == []


# -- bodies -------------------------------------------------------------------------------------------


def test_deliveries_that_never_end_take_nothing_from_agents_and_other_senders(serving: Serving) -> None:
    """Taken out: the budgets of their own; three unfinished deliveries used up what all bodies have."""
    token, size = serving.token(), 24 << 20
    lines = ("Content-Type: application/json", f"Content-Length: {size}", SIGNED)
    sent = head(serving, *lines, method="POST", path="/webhooks/github")
    large = json.dumps({"items": [{"title": "x", "payload": {"text": "x" * 900_000}}]}).encode()
    with ExitStack() as opened:
        for _ in range(3):
            opened.enter_context(connected(serving, sent + b"x" * (size - 1)))
        eventually(lambda: serving.server.deliveries.held > 20 << 20)
        assert ask(serving.url, "POST", f"{ROOT}/items", large, token=token).status == 200
        small = ask(
            serving.url,
            "POST",
            "/webhooks/github",
            {"text": "x" * 50_000},
            headers=dict([SIGNED.split(": ")]),
        )
        assert small.status == 202
    eventually(lambda: serving.server.deliveries.held == 0)


def test_one_token_cannot_use_up_what_bodies_of_other_tokens_need(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "HELD_MAX_BYTES", 1_000_000)
    monkeypatch.setattr(bodies, "HELD_EACH_MAX_BYTES", 400_000)
    greedy, other = serving.token("agent:coder"), serving.token("agent:other")
    lines = ["POST /v1/items HTTP/1.1", "Host: x", f"Authorization: Bearer {greedy}"]
    lines += ["Content-Type: application/json", "Content-Length: 900000", "", ""]
    sent = "\r\n".join(lines).encode()
    body = {"items": [{"title": "x", "payload": {"text": "x" * 300_000}}]}
    with connected(serving, sent + b"x" * 400_000):
        eventually(lambda: serving.server.bodies.held > 300_000)
        assert ask(serving.url, "POST", f"{ROOT}/items", body, token=greedy).status == 503
        assert ask(serving.url, "POST", f"{ROOT}/items", body, token=other).status == 200
        body["items"][0]["payload"] = {}
        assert ask(serving.url, "POST", f"{ROOT}/items", body, token=greedy).status == 200, "small ones go on"
    eventually(lambda: serving.server.bodies.held == 0)


def test_bytes_are_held_until_their_request_is_answered(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken out: the late release; whole deliveries pile up before the threads that check signatures."""
    begun, go = threading.Event(), threading.Event()

    def keep(_: Any, body: bytes) -> dict[str, int]:
        begun.set()
        go.wait(PATIENCE_S)
        return {"bytes": len(body)}

    monkeypatch.setattr(serving.server, "_webhook", keep)
    size = bodies.FREE_BYTES + 5_000
    lines = ("Content-Type: application/json", f"Content-Length: {size}", SIGNED)
    sent = head(serving, *lines, method="POST", path="/webhooks/github")
    with connected(serving, sent + b"x" * size) as sock:
        assert begun.wait(PATIENCE_S)
        assert serving.server.deliveries.held == 5_000
        go.set()
        assert status(sock.recv(1_000)) == 202
    eventually(lambda: serving.server.deliveries.held == 0)


def test_a_body_that_stops_coming_is_cut_off_early(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much of it came before. Taken out: the steps; it is held for as long as a slow one may take."""
    monkeypatch.setattr(bodies, "STEP_S", 0.3)
    monkeypatch.setattr(bodies, "BODY_S", 10 * PATIENCE_S)
    lines = ("Content-Type: application/json", "Content-Length: 900000")
    sent = head(serving, *lines, method="POST", path=f"{ROOT}/items")
    with connected(serving, sent + b"x" * 500_000) as sock:
        assert status(sock.recv(1_000)) == 408


# -- JSON ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"[" * (15 << 20),
        b"[" + b"[]," * (5 << 20) + b"[]]",
        b"[" + b"{}," * (5 << 20) + b"{}]",
        b'{"items": [' + b"1," * (7 << 20) + b"1]}",
        b'{"items": [' + b'"",' * (5 << 20) + b'""]}',
    ],
    ids=["deep", "lists", "objects", "numbers", "texts"],
)
def test_a_body_of_very_many_values_is_refused_and_blocks_nobody(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    """Taken out: the count in `parse`, or the thread; the event loop does nothing else for seconds."""
    parse, threads = bodies.parsed, list[threading.Thread]()

    def watched(body: bytes) -> Any:
        threads.append(threading.current_thread())
        return parse(body)

    monkeypatch.setattr(bodies, "parsed", watched)
    answer = ask(serving.url, "POST", f"{ROOT}/items", body, token=serving.token())
    assert answer.status == 422
    assert "values" in answer.json["detail"]
    assert serving._thread not in threads


def test_a_long_text_is_no_multitude_of_values(serving: Serving) -> None:
    body = {"items": [{"title": "x", "payload": {"log": '[{",' * 200_000 + '\\"'}}]}
    token = serving.token()
    assert ask(serving.url, "POST", f"{ROOT}/items", body, token=token).status == 200
    (lease,) = serving.server.service.next("coder")
    assert lease.item.payload == body["items"][0]["payload"]


# -- what an agent's token reaches ----------------------------------------------------------------------


#: How an item meets a default policy: by its type, by its lane or by its project.
DEFAULTS: dict[str, tuple[dict[str, str], Callable[[Policy], Policies]]] = {
    "none": ({}, lambda _: NO_POLICIES),
    "type": ({"type": "review"}, lambda policy: Policies(types={"review": policy})),
    "lane": ({}, lambda policy: Policies(lanes={"issue:": policy})),
    "project": ({"project": "shop"}, lambda policy: Policies(projects={"shop": policy})),
}


@pytest.mark.parametrize("default", DEFAULTS)
@pytest.mark.parametrize("policy", [Policy.SUPERSEDE, Policy.LATEST])
@pytest.mark.parametrize("named", [{"agent": "other"}, {}], ids=["other", "nobody"])
def test_an_agent_cannot_take_work_from_another_agent_by_adding_some(
    serving: Serving, named: dict[str, str], policy: Policy, default: str
) -> None:
    """Taken out: the look at policies in `_check_added`, or the defaults in `policy_of`; the run is asked to
    stop, and the waiting item replaced."""
    more, policies = DEFAULTS[default]
    service = LocalService(serving.server.service.store, policies=policies(policy))
    serving.serve(service)
    old = NewItem(title="x", lane="issue:acme/app#1", policy=policy, **more, **named)  # type: ignore[arg-type]
    service.add([old])
    (lease,) = service.next("other")
    waiting = service.add([replace(old, run_after_s=3_600.0)])[0].arrival
    token = serving.token("agent:coder")
    payload = {"repository": "acme/app", "issue_number": 1}  # gives the lane

    def added(**given: str) -> Any:
        item = {"title": "y", "payload": payload, **more, **named, **given}
        return ask(serving.url, "POST", f"{ROOT}/items", {"items": [item]}, token=token)

    answer = added(policy=policy) if default == "none" else added()
    assert (answer.status, answer.json["code"]) == (403, "not_allowed")
    assert service.renew([Report(run=lease.run)])[0].cancel_requested is False
    assert waiting is not None
    assert service.show(waiting).item.status == "waiting"
    assert added(policy="queue").status == 200
    assert added(agent="Coder", policy=policy).status in (200, 409)


def test_a_lost_run_is_not_told_that_it_may_start(serving: Serving) -> None:
    service = serving.server.service
    service.add([NewItem(title="x", agent="coder")])
    (lease,) = service.next("coder")
    token = serving.token("agent:coder")
    body = {"run": lease.run}
    assert ask(serving.url, "POST", f"{ROOT}/runs/unwanted", body, token=token).json == {"why": None}
    service.release([Report(run=lease.run)])
    answer = ask(serving.url, "POST", f"{ROOT}/runs/unwanted", body, token=token)
    assert (answer.status, answer.json["code"]) == (410, "lease_lost")


# -- heads and bodies in very many parts ------------------------------------------------------------------


@pytest.mark.parametrize("token", [True, False])
@pytest.mark.parametrize("what", ["chunks", "headers"])
def test_very_many_small_parts_end_the_connection(serving: Serving, what: str, token: bool) -> None:
    """Taken out: the counts in `_Lines`; a few connections keep the event loop busy for a minute."""
    lines: tuple[str, ...] = ("Content-Type: application/json", "Transfer-Encoding: chunked")
    lines = lines if what == "chunks" else tuple(f"a{n}:" for n in range(5_000))
    sent = head(serving, *lines, method="POST", path=f"{ROOT}/items")
    sent = sent if token else sent.replace(b"Bearer il_", b"Bearer xx_")
    with connected(serving) as sock:
        try:
            sock.sendall(sent + b"1\r\n[\r\n" * 200_000)
        except ConnectionError:
            return  # it was closed meanwhile
        assert status(ends(sock)) in (0, 400, 401)


def test_a_body_in_chunks_is_taken(serving: Serving) -> None:
    body = json.dumps({"items": [{"title": f"{n}"} for n in range(40)]}).encode()
    lines = ("Content-Type: application/json", "Transfer-Encoding: chunked", "Connection: close")
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
    assert len(body) < connections.CHUNKS_MAX
    with connected(
        serving, head(serving, *lines, method="POST", path=f"{ROOT}/items") + chunks + b"0\r\n\r\n"
    ) as sock:
        assert status(ends(sock)) == 200
