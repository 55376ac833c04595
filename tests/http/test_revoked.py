"""A token that was revoked or has expired ends what it began: streams of events, and claims that wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.core.model import NewItem
from interlock.http import store_watch
from interlock.service.contract import ItemFilter
from interlock.service.operations import ROOT
from tests.http.requests import Answered, ask, eventually
from tests.http.serving import Serving, local_service
from tests.http.test_attacks import connected, ends
from tests.patience import PATIENCE_S

#: How long after its end a token may keep something open.
BOUND_S = 5.0


class Clock:
    """A store's time, as the test wants it."""

    now_us = 1_700_000_000_000_000

    def __call__(self) -> int:
        return self.now_us


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def timed(one_server: Serving, tmp_path: Path, clock: Clock) -> Iterator[Serving]:
    service = local_service(tmp_path / "timed.db", now=clock)
    one_server.serve(service)
    yield one_server
    one_server.leave()
    service.close()


def ending(timed: Serving, clock: Clock, how: str) -> tuple[str, Any]:
    """A token, and what makes it useless."""
    made = timed.server.service.create_token("x", scope="agent:coder", expires_s=3600)

    def end() -> None:
        if how == "revoked":
            timed.server.service.revoke_token(made.id)
        else:
            clock.now_us += 3_600_000_000

    return made.token or "", end


@pytest.mark.parametrize("how", ["revoked", "expired"])
def test_an_idle_stream_ends(timed: Serving, clock: Clock, how: str) -> None:
    """Taken out: `_end_revoked`; nothing happens, and the stream stays open."""
    token, end = ending(timed, clock, how)
    sent = f"GET {ROOT}/events/stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    sent += f"Authorization: Bearer {token}\r\n\r\n"
    with connected(timed, sent.encode()) as sock:
        eventually(lambda: timed.server.streams.open == 1)
        end()
        begun_s = time.monotonic()
        ends(sock)
        assert time.monotonic() - begun_s < BOUND_S
    assert not timed.server.streams.tokens


@pytest.mark.parametrize("how", ["revoked", "expired"])
def test_no_event_goes_out_after_the_end(
    timed: Serving, clock: Clock, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Taken out: the look at tokens in `_sent_after`; what happens within two seconds is still told."""
    monkeypatch.setattr(store_watch, "TOKENS_S", 10 * PATIENCE_S)
    token, end = ending(timed, clock, how)
    sent = f"GET {ROOT}/events/stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    sent += f"Authorization: Bearer {token}\r\n\r\n"
    with connected(timed, sent.encode()) as sock:
        eventually(lambda: timed.server.streams.open == 1)
        timed.server.service.add([NewItem(title="told")])
        found = b""
        while b"item.added" not in found:
            found += sock.recv(65_536)
        end()
        timed.server.service.add([NewItem(title="secret")])
        assert b"item" not in ends(sock)


@pytest.mark.parametrize("how", ["revoked", "expired"])
def test_a_waiting_claim_ends_without_a_lease(
    timed: Serving, clock: Clock, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Work that comes right after the end goes to nobody. Taken out: `check_live` before the claim."""
    monkeypatch.setattr(store_watch, "TOKENS_S", 10 * PATIENCE_S)
    token, end = ending(timed, clock, how)
    answers = list[Answered]()

    def claim() -> None:
        answers.append(ask(timed.url, "POST", f"{ROOT}/claims", {"wait_s": 50}, token=token))

    waiting = threading.Thread(target=claim, daemon=True)
    waiting.start()
    eventually(lambda: timed.server.claims.lines.waiting == 1 and timed.server.claims.lines.polls > 0)
    looked = timed.server.claims.lines.polls
    eventually(lambda: timed.server.claims.lines.polls > looked)
    end()
    timed.server.service.add([NewItem(title="x", agent="coder")])
    waiting.join(PATIENCE_S)
    (answer,) = answers
    assert (answer.status, answer.json["code"]) == (401, "no_token")
    assert timed.server.service.items(ItemFilter())[0].status == "pending"


def test_a_claim_that_waits_in_vain_ends_too(timed: Serving, clock: Clock) -> None:
    """Taken out: the events that `_end_revoked` sets; it waits for its whole time."""
    timed.server.watch.poll_s, poll_s = 10 * PATIENCE_S, timed.server.watch.poll_s
    try:
        token, end = ending(timed, clock, "revoked")
        waiting = threading.Timer(0.3, end)
        waiting.start()
        begun_s = time.monotonic()
        answer = ask(timed.url, "POST", f"{ROOT}/claims", {"wait_s": 50}, token=token)
        assert answer.status == 401
        assert time.monotonic() - begun_s < BOUND_S
    finally:
        timed.server.watch.poll_s = poll_s
