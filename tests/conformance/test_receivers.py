"""Notices to receivers on both databases: each event once for each receiver, retried, and given up in time.

The receiver is a real HTTP server in its own process. The clock is the test's, so back-offs pass at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.core.commands import QuotaLimit
from interlock.core.errors import InvalidInput
from interlock.core.policies import Policies
from interlock.notify import receiver as receiving
from interlock.notify import webhooks as sending
from interlock.notify.webhooks import LEASE_S, Webhooks
from interlock.service.notices import POLL_EVENTS
from interlock.service.relay import FAULTS, FIRST_WAIT_S, LONGEST_WAIT_S, REFUSALS, SendPass
from interlock.settings import Settings
from interlock.store.outbox import Effect, OutboxStore
from interlock.store.port import EventQuery, Store
from tests.conformance.conftest import OpenService
from tests.conformance.scene import Scene
from tests.receiver import Receiver

NO_RECEIVER = "http://127.0.0.1:1/"
APP = 7

Hooks = Callable[..., Webhooks]


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    (directory := tmp_path / "receiver").mkdir()
    made = Receiver(directory)
    yield made
    made.stop()


def store_of(scene: Scene) -> Store:
    found: Store = scene.service.store  # type: ignore[attr-defined]
    return found


def outbox_of(scene: Scene) -> OutboxStore:
    return store_of(scene).github.outbox


@pytest.fixture
def hooks(scene: Scene, receiver: Receiver, tmp_path: Path) -> Hooks:
    def made(*urls: str, store: Store | None = None, **settings: Any) -> Webhooks:
        chosen = Settings(
            root=tmp_path,
            home=tmp_path,
            notify_urls=urls or (receiver.url,),
            types={},
            policies=Policies(),
            **settings,
        )
        return Webhooks(store or store_of(scene), chosen, environ={})

    return made


def run(scene: Scene, webhooks: Webhooks) -> SendPass:
    scene.history()  # until everything so far is visible to readers of the history
    return webhooks.run()


def bury(scene: Scene, title: str = "work", error: str = "boom") -> int:
    """Let an item become a dead letter."""
    lease = scene.put_running(title)
    scene.fail(lease, error=error, retry=False)
    return lease.item.id


def test_a_question_and_a_dead_letter_are_sent_once_and_in_order(
    scene: Scene, hooks: Hooks, receiver: Receiver
) -> None:
    webhooks = hooks(public_url="https://interlock.example.com/")
    bury(scene, "before the first look")
    run(scene, webhooks)
    first = bury(scene, "Pay <!channel> & co")
    lease = scene.put_running("Choose", lane="issue:acme/app#42")
    scene.service.ask(lease.run, "Which database?\nOr which two?")
    assert run(scene, webhooks).sent == 2
    assert run(scene, webhooks).tried == 0
    dead, asked = receiver.bodies
    assert (dead["type"], dead["item"]["id"], dead["error"], dead["attempts"]) == (
        "dead_letter",
        first,
        "boom",
        1,
    )
    assert dead["text"].startswith(f"*Dead letter*: item {first}, Pay &lt;!channel&gt; &amp; co (")
    assert dead["text"].endswith(f":\nboom\nhttps://interlock.example.com/items/{first}")
    assert dead["url"] == f"https://interlock.example.com/items/{first}"
    assert (asked["type"], asked["question"]) == ("question", "Which database?\nOr which two?")
    assert asked["item"]["lane"] == "issue:acme/app#42"
    assert asked["run"] == lease.fence
    kinds = {each.seq: each.event.kind for each in store_of(scene).events(EventQuery(limit=1000))}
    assert [kinds[body["seq"]] for body in (dead, asked)] == ["run.failed", "question.asked"]
    assert receiver.ids == [dead["id"], asked["id"]]
    assert all("webhook-signature" not in request["headers"] for request in receiver.requests)
    assert {request["path"] for request in receiver.requests} == {"/hooks/T0/secret-part"}


def test_without_receivers_nothing_is_stored(scene: Scene) -> None:
    bury(scene)
    scene.service.sweep()
    scene.history()
    store = store_of(scene)
    assert store.github.outbox.backlog(10) == (0, None, 0)
    assert store._read("github/repositories", after=-(10**18), limit=1) == []  # type: ignore[attr-defined]


def test_the_address_of_a_receiver_is_not_stored(scene: Scene, hooks: Hooks, receiver: Receiver) -> None:
    webhooks = hooks()
    run(scene, webhooks)
    receiver.tell(404)
    bury(scene)
    run(scene, webhooks)
    (waiting,) = scene.service.effects()
    assert waiting.repository == f"127.0.0.1:{receiver.port}"
    rows = store_of(scene)._read("github/repositories", after=-(10**18), limit=9)  # type: ignore[attr-defined]
    effects = outbox_of(scene).effects(rows[0][0], 0, 9)
    assert "secret-part" not in repr((waiting, rows, effects))


def test_a_failing_receiver_is_tried_again_with_back_off_and_the_same_id(
    scene: Scene, hooks: Hooks, receiver: Receiver
) -> None:
    webhooks = hooks()
    run(scene, webhooks)
    receiver.tell(500, "close", 503, 200)
    bury(scene, "one")
    bury(scene, "two")
    waited_s = 0.0
    for wait_s in (FIRST_WAIT_S, 2 * FIRST_WAIT_S, 4 * FIRST_WAIT_S):
        passed = run(scene, webhooks)
        assert (passed.put_off, passed.sent) == (1, 0), "the one behind it waits too"
        assert passed.next_s is not None
        assert 0.7 * wait_s <= passed.next_s <= 1.3 * wait_s
        assert run(scene, webhooks).tried == 0
        scene.clock.advance(passed.next_s)
        waited_s += passed.next_s
    assert run(scene, webhooks).sent == 2
    assert len(set(receiver.ids)) == 2
    assert receiver.ids.count(receiver.ids[0]) == 4
    settled = outbox_of(scene).settled(9)
    assert {each.outcome for each in settled} == {"accepted (200)"}
    assert sorted(each.tries for each in settled) == [0, 3]


@pytest.mark.parametrize(("answer", "tries"), [(404, REFUSALS), (500, FAULTS)])
def test_a_notice_that_nobody_takes_becomes_a_dead_effect_that_a_person_retries(
    scene: Scene, hooks: Hooks, receiver: Receiver, answer: int, tries: int
) -> None:
    webhooks = hooks()
    run(scene, webhooks)
    receiver.tell(then={"status": answer, "text": "no_service\n"})
    item = bury(scene)
    for attempt in range(1, tries + 1):
        passed = run(scene, webhooks)
        assert (passed.put_off, passed.dead) == ((1, 0) if attempt < tries else (0, 1))
        scene.clock.advance(1.5 * LONGEST_WAIT_S)
    assert run(scene, webhooks).tried == 0
    (dead,) = scene.service.effects(status="dead")
    assert (dead.kind, dead.failures, dead.number) == ("notice", tries, 0)
    assert dead.outcome == f"127.0.0.1:{receiver.port} answered with {answer}: no_service."
    assert f"item {item}, work" in dead.detail
    assert "effects" in [each.kind for each in scene.service.attention().needs]
    receiver.tell(200)
    assert scene.service.retry_effects([dead.id]) == 1
    assert run(scene, webhooks).sent == 1
    assert len(set(receiver.ids)) == 1


def test_a_receiver_that_asks_for_a_pause_gets_it_and_no_failure_is_counted(
    scene: Scene, hooks: Hooks, receiver: Receiver
) -> None:
    webhooks = hooks()
    run(scene, webhooks)
    receiver.tell({"status": 429, "headers": {"retry-after": "240"}})
    bury(scene)
    passed = run(scene, webhooks)
    assert passed.next_s is not None
    assert 239 <= passed.next_s <= 240
    assert [each.failures for each in scene.service.effects()] == [0]
    scene.clock.advance(240)
    assert run(scene, webhooks).sent == 1


@pytest.mark.parametrize("answer", ["hang", "drip"])
def test_a_receiver_that_hangs_or_drips_holds_nobody_for_long(
    scene: Scene, hooks: Hooks, receiver: Receiver, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken out: the timer in `_CutOff`; a receiver that drips holds the sender for minutes."""
    original = receiving.post
    monkeypatch.setattr(sending, "post", lambda *given: original(*given, request_s=0.5))
    webhooks = hooks()
    run(scene, webhooks)
    receiver.tell(answer)
    bury(scene)
    assert run(scene, webhooks).put_off == 1
    (waiting,) = scene.service.effects()
    assert waiting.outcome == f"127.0.0.1:{receiver.port} did not answer in time."
    scene.clock.advance(2 * FIRST_WAIT_S)
    assert run(scene, webhooks).sent == 1


def test_a_receiver_that_is_not_there_keeps_no_other_waiting(
    scene: Scene, hooks: Hooks, receiver: Receiver
) -> None:
    webhooks = hooks(NO_RECEIVER, receiver.url)
    run(scene, webhooks)
    bury(scene)
    passed = run(scene, webhooks)
    assert (passed.sent, passed.put_off) == (1, 1)
    (waiting,) = scene.service.effects()
    assert waiting.outcome == "127.0.0.1:1 refused the connection."


def test_no_redirect_is_followed(scene: Scene, hooks: Hooks, receiver: Receiver, tmp_path: Path) -> None:
    (other := tmp_path / "other").mkdir()
    elsewhere = Receiver(other)
    try:
        webhooks = hooks()
        run(scene, webhooks)
        receiver.tell(*({"status": s, "headers": {"location": elsewhere.url}} for s in (302, 307)))
        bury(scene)
        for _ in range(2):
            assert run(scene, webhooks).put_off == 1
            (waiting,) = scene.service.effects()
            assert waiting.outcome == (
                f"127.0.0.1:{receiver.port} redirects to 127.0.0.1. Redirects are not followed."
            )
            scene.clock.advance(4 * FIRST_WAIT_S)
        assert elsewhere.requests == []
    finally:
        elsewhere.stop()


def test_a_receiver_gets_what_the_setting_names(scene: Scene, hooks: Hooks, receiver: Receiver) -> None:
    webhooks = hooks(notify_events="quota_limit")
    run(scene, webhooks)
    bury(scene)
    lease = scene.put_running("work", agent="coder")
    scene.release(lease, wall=QuotaLimit(for_s=600, why="5-hour limit reached", whole_agent=True))
    assert run(scene, webhooks).sent == 1
    (body,) = receiver.bodies
    assert (body["type"], body["agent"], body["error"]) == ("quota_limit", "coder", "5-hour limit reached")
    assert "starts nothing until" in body["text"]
    with pytest.raises(InvalidInput, match="unknown word 'monday'"):
        hooks(notify_events="question, monday")


def test_two_receivers_have_marks_and_queues_of_their_own(
    scene: Scene, hooks: Hooks, receiver: Receiver
) -> None:
    run(scene, hooks())
    bury(scene, "before the second")
    both = hooks(receiver.url, receiver.url + "?2")
    run(scene, both)
    bury(scene, "for both")
    assert run(scene, both).sent == 2
    titles = [
        (request["path"][-2:], json.loads(request["body"])["item"]["title"]) for request in receiver.requests
    ]
    assert sorted(titles) == [("?2", "for both"), ("rt", "before the second"), ("rt", "for both")]


def test_a_long_history_without_notices_is_passed_over(
    scene: Scene, hooks: Hooks, receiver: Receiver
) -> None:
    webhooks = hooks()
    run(scene, webhooks)
    for n in range(POLL_EVENTS + 20):
        scene.service.set_mode(scope="lane", value=f"lane-{n % 7}", mode="enforce")
    item = bury(scene)
    assert run(scene, webhooks).sent == 1
    assert receiver.bodies[0]["item"]["id"] == item


def test_long_texts_are_cut_and_stay_readable(scene: Scene, hooks: Hooks, receiver: Receiver) -> None:
    webhooks = hooks()
    run(scene, webhooks)
    bury(scene, "t" * 500, error="\x1b[31m" + "<é\N{PILE OF POO}" * 100_000)
    assert run(scene, webhooks).sent == 1
    assert len(receiver.requests[0]["body"].encode()) < 32_000
    (body,) = receiver.bodies
    assert body["error"].endswith("…")
    assert "\x1b" not in body["text"]


def test_a_sender_that_died_leaves_its_notice_to_the_next(
    scene: Scene, open_service: OpenService, hooks: Hooks, receiver: Receiver
) -> None:
    webhooks = hooks()
    run(scene, webhooks)
    bury(scene)
    scene.history()
    (there,) = webhooks.receivers
    assert webhooks.enqueue(there) == 1
    assert outbox_of(scene).take(LEASE_S, there.repository) is not None, "and it dies here"
    assert run(scene, webhooks).tried == 0
    scene.clock.advance(LEASE_S)
    other = hooks(store=open_service().store)  # type: ignore[attr-defined]
    assert run(scene, other).sent == 1
    assert run(scene, webhooks).tried == 0


def test_github_s_sender_takes_no_notice_and_its_limits_do_not_count_them(scene: Scene, hooks: Hooks) -> None:
    webhooks = hooks()
    run(scene, webhooks)
    outbox = outbox_of(scene)
    (there,) = webhooks.receivers
    store_of(scene).github.repository(there.repository, there.host)
    for n in range(90):  # GitHub's limit is 80 a minute
        outbox.enqueue([Effect(there.repository, 0, f"question:{n}", "notice", "{}")])
        assert outbox.take(300) is None
        assert outbox.next_s() is None
        taken = outbox.take(LEASE_S, there.repository)
        assert taken is not None
        assert taken.sent_us is None
        assert outbox.settle(taken, made=None, outcome="accepted (200)")
    store_of(scene).github.repository(APP, "acme/app")
    outbox.enqueue([Effect(APP, 4, "comment", "comment", "{}")])
    assert outbox.next_s() == 0
    assert outbox.take(300, there.repository) is None
    taken = outbox.take(300)
    assert taken is not None
    assert taken.repository == APP


def test_each_page_of_effects_begins_before_receivers(scene: Scene, hooks: Hooks, receiver: Receiver) -> None:
    webhooks = hooks()
    run(scene, webhooks)
    receiver.tell(then=500)
    bury(scene, "one")
    bury(scene, "two")
    run(scene, webhooks)
    first, second = scene.service.effects()
    assert [each.id for each in scene.service.effects(after=first.id)] == [second.id]
