"""`interlock notify`, and sweepers and workers that send notices, as processes on both databases."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.command import Command
from tests.acceptance.test_trust import Stranger
from tests.patience import PATIENCE_S
from tests.receiver import Receiver


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    (directory := tmp_path / "receiver").mkdir()
    made = Receiver(directory)
    yield made
    made.stop()


def told(receiver: Receiver) -> dict[str, str]:
    return {"INTERLOCK_NOTIFY_URLS": json.dumps([receiver.url])}


def bury(il: Command, title: str = "work") -> int:
    item = il.ok("add", title)["item"]["id"]
    il.ok("fail", il.claim()["run"], "--no-retry", "--error", "boom")
    return int(item)


def test_test_shows_how_each_receiver_answered(il: Command, receiver: Receiver) -> None:
    answer = il("notify", "test", env=told(receiver))
    assert answer.code == 0
    first, *others = answer.out.splitlines()
    assert first.startswith(f"127.0.0.1:{receiver.port}: accepted (200) in ")
    assert others == [
        "Not signed: INTERLOCK_NOTIFY_SECRET is not set.",
        "Without a link to the dashboard: public_url is not set.",
    ]
    (body,) = receiver.bodies
    assert (body["type"], body["url"]) == ("test", None)
    assert body["text"].startswith("*Test* of Interlock by ")
    assert "webhook-signature" not in receiver.requests[0]["headers"]
    assert not (il.directory / ".interlock").exists(), "no store is made"


def test_test_signs_and_links_and_fails_if_a_receiver_does(il: Command, receiver: Receiver) -> None:
    receiver.tell({"status": 403, "text": "action_prohibited"})
    il.env |= {
        "INTERLOCK_NOTIFY_URLS": json.dumps([receiver.url, receiver.url + "?2"]),
        "INTERLOCK_NOTIFY_SECRET": "a-secret-of-at-least-24-bytes",
        "INTERLOCK_PUBLIC_URL": "https://interlock.example.com",
    }
    answer = il("--json", "notify", "test")
    assert answer.code == 1
    refused, accepted = answer.json["receivers"]
    assert (refused["ok"], accepted["ok"], answer.json["ok"]) == (False, True, False)
    assert refused["problem"] == f"127.0.0.1:{receiver.port} answered with 403: action_prohibited."
    assert accepted["signed"]
    assert accepted["linked"]
    assert "secret" not in answer.out, "neither the path nor the key is shown"
    assert all(each["headers"]["webhook-signature"].startswith("v1,") for each in receiver.requests)
    assert receiver.bodies[1]["url"] == "https://interlock.example.com/"
    people = il("notify", "test", env={"INTERLOCK_NOTIFY_URLS": '["http://127.0.0.1:1/"]'})
    assert "127.0.0.1:1: failed. 127.0.0.1:1 refused the connection." in people.out


def test_what_is_set_wrongly_is_said(il: Command) -> None:
    assert "No receiver is set." in il("notify", "test").err
    for variable, value, said in (
        ("INTERLOCK_NOTIFY_URLS", '["http://example.com/"]', "without encryption"),
        ("INTERLOCK_NOTIFY_URLS", json.dumps([f"https://example.com/{n}" for n in range(11)]), "at most 10"),
        ("INTERLOCK_NOTIFY_URLS", "https://example.com", "is not a list of texts"),
        ("INTERLOCK_NOTIFY_SECRET", "short", "too few for a key"),
        ("INTERLOCK_NOTIFY_EVENTS", "monday", "unknown word 'monday'"),
    ):
        env = {"INTERLOCK_NOTIFY_URLS": '["http://127.0.0.1:1/"]', variable: value}
        for command in (("notify", "test"), ("notify", "send")):
            answer = il("--json", *command, env=env)
            assert answer.error["code"] == "invalid_input"
            assert said in answer.error["message"]


def test_send_sends_what_is_due_and_again_what_was_given_up(any_il: Command, receiver: Receiver) -> None:
    any_il.env |= told(receiver)
    assert any_il.ok("notify", "send")["sent"] == 0
    item = bury(any_il)
    assert any_il.ok("notify", "send")["sent"] == 1
    assert any_il.ok("notify", "send", "--again")["sent"] == 0
    assert receiver.bodies[0]["item"]["id"] == item
    assert receiver.bodies[0]["error"] == "boom"


def test_a_sweep_and_a_worker_send_notices(any_il: Command, receiver: Receiver) -> None:
    any_il.env |= told(receiver)
    any_il.ok("sweep", "--once")
    swept = bury(any_il)
    any_il.ok("sweep", "--once")
    assert [body["item"]["id"] for body in receiver.bodies] == [swept]
    worked = any_il.ok("add", "work", "--max-attempts", 1)["item"]["id"]
    worker = Command(any_il.directory, any_il.url, told(receiver)).start(
        "work", "--agent", "coder", "--", "false"
    )
    receiver.wait(2)
    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=PATIENCE_S)
    assert [body["item"]["id"] for body in receiver.bodies] == [swept, worked]


def test_a_receiver_that_hangs_delays_no_sweep(il: Command, receiver: Receiver) -> None:
    il.env |= told(receiver)
    il.ok("sweep", "--once")
    receiver.tell(then="hang")
    bury(il)
    sweeper = il.start("sweep", "--every", "0.1s")
    receiver.wait(1)
    item = il.ok("add", "work")["item"]["id"]
    il.ok("next", "--agent", "coder", "--lease", "1s")
    until = time.monotonic() + PATIENCE_S
    while il.ok("show", item)["item"]["status"] != "pending":  # the sweeper has expired its lease
        assert time.monotonic() < until
    assert len(receiver.requests) == 1, "the receiver still has the first request"
    sweeper.send_signal(signal.SIGINT)
    sweeper.communicate(timeout=PATIENCE_S)


def test_a_stranger_s_receiver_gets_nothing_until_it_is_trusted(tmp_path: Path, receiver: Receiver) -> None:
    stranger = Stranger(tmp_path)
    stranger.write(f"notify_urls = {json.dumps([receiver.url])}\n")
    il = stranger.il
    il.ok("sweep", "--once")
    bury(il)
    answer = il("sweep", "--once")
    assert "Ignored until you trust" in answer.err
    assert receiver.requests == []
    stranger.trust()
    il.ok("sweep", "--once")  # from here on
    item = bury(il)
    il.ok("sweep", "--once")
    assert [body["item"]["id"] for body in receiver.bodies] == [item]
