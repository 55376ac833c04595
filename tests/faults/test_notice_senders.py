"""Senders of notices that die at every step, and several that send at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.core.model import NewItem
from interlock.core.policies import Policies
from interlock.notify import webhooks as sending
from interlock.notify.webhooks import Webhooks
from interlock.service.contract import Report
from interlock.service.local import LocalService
from interlock.settings import Settings
from interlock.store.github import GitHubStore
from interlock.store.outbox import OutboxStore
from interlock.store.port import Store
from tests.faults.processes import Crew, wait_until
from tests.faults.stores import open_service, open_store, query
from tests.receiver import Receiver

#: Every call of a sender that writes.
STEPS = ("begin_mark", "lease_mark", "move_mark", "repository", "enqueue", "take", "settle")


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    (directory := tmp_path / "receiver").mkdir()
    made = Receiver(directory)
    yield made
    made.stop()


def webhooks_on(store: Store, address: str) -> Webhooks:
    home = Path("/nowhere")
    chosen = Settings(root=home, home=home, notify_urls=(address,), types={}, policies=Policies())
    return Webhooks(store, chosen, environ={})


def bury(service: LocalService, title: str) -> int:
    (arrived,) = service.add([NewItem(title=title)])
    (lease,) = service.next("coder", lease_s=60)
    service.fail([Report(run=lease.run, error="boom", retry=False)])
    assert arrived.item is not None
    return arrived.item.id


def send_and_die(_: Any, url: str, address: str, step: int, after: bool) -> bool:
    """Send, and be killed before or after the write with this number; false if there are not so many."""
    sending.LEASE_S = 0.1
    store = open_store(url)
    made = 0

    def mortal(call: Callable[..., Any]) -> Callable[..., Any]:
        def made_mortal(*args: Any, **named: Any) -> Any:
            nonlocal made
            made += 1
            if made == step and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            answer = call(*args, **named)
            if made == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return made_mortal

    for part in (type(store), GitHubStore, OutboxStore):
        for name in STEPS:
            if hasattr(part, name):
                setattr(part, name, mortal(getattr(part, name)))
    webhooks_on(store, address).run()
    store.close()
    return False


@pytest.mark.parametrize("after", [False, True], ids=["before a write", "after a write"])
def test_a_sender_killed_at_any_step_loses_nothing(
    any_url: str, crew: Crew, receiver: Receiver, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken out: `enqueue` in the transaction of `move_mark`, put behind it; the notice of a sender that dies
    between the two is never sent."""
    monkeypatch.setattr(sending, "LEASE_S", 0.1)
    service = open_service(any_url)
    healthy = webhooks_on(service.store, receiver.url)
    healthy.run()
    buried, step, dies = [], 0, True
    while dies:
        step += 1
        buried.append(bury(service, f"work {step}"))
        actor = crew.start(send_and_die, any_url, receiver.url, step, after)
        actor._process.join()
        dies = actor._process.exitcode == -signal.SIGKILL
    assert step > 5, "there are more steps than that"

    def all_came() -> bool:
        healthy.run()
        return {body["item"]["id"] for body in receiver.bodies} == set(buried)

    wait_until(all_came, "all notices have come")
    wait_until(lambda: healthy.run().next_s is None, "all are settled")
    by_id = {body["id"]: body["item"]["id"] for body in receiver.bodies}
    assert sorted(by_id.values()) == buried, "a repetition has the same id"
    assert query(any_url, "SELECT count(*) FROM github_effects WHERE done_us IS NOT NULL") == [(len(buried),)]
    service.close()


def send_with_others(_: Any, barrier: Any, url: str, address: str, passes: int) -> int:
    store = open_store(url)
    webhooks = webhooks_on(store, address)
    barrier.wait()
    sent = sum(webhooks.run().sent for _ in range(passes))
    store.close()
    return sent


def test_of_several_senders_one_sends_each_notice(any_url: str, crew: Crew, receiver: Receiver) -> None:
    """Taken out: the condition on `due_us` in `outbox/lease_receiver.sql`; one sender never ends."""
    service = open_service(any_url)
    webhooks_on(service.store, receiver.url).run()
    buried = [bury(service, f"work {n}") for n in range(15)]
    sent = crew.race(4, send_with_others, any_url, receiver.url, 8)
    last = webhooks_on(service.store, receiver.url).run().sent
    assert sum(sent) + last == len(buried)
    assert [body["item"]["id"] for body in receiver.bodies] == buried
    assert len(set(receiver.ids)) == len(buried)
    service.close()
