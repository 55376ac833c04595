"""A server sends notices to receivers, and no claim and no finish waits for that."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interlock.core.model import NewItem
from interlock.service.contract import Report
from tests.http.up import Up
from tests.receiver import Receiver

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
PAGE = Path(__file__).parents[2] / "docs/how-to/notifications.md"


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    (directory := tmp_path / "receiver").mkdir()
    made = Receiver(directory)
    yield made
    made.stop()


@pytest.fixture
def up(tmp_path: Path, receiver: Receiver) -> Iterator[Up]:
    server = Up(
        tmp_path,
        INTERLOCK_NOTIFY_URLS=json.dumps([receiver.url]),
        INTERLOCK_NOTIFY_SECRET=SECRET,
        INTERLOCK_PUBLIC_URL="https://interlock.example.com",
    )
    yield server
    for client in server.clients:
        client.close()
    server.end()


def recipe(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str], bytes], bool]:
    """The function of the page, as a reader would copy it."""
    monkeypatch.setenv("INTERLOCK_NOTIFY_SECRET", SECRET)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, Callable[[dict[str, str], bytes], bool]] = {}
    exec(code, names)
    return names["is_genuine"]


def test_a_question_reaches_the_receiver_signed(
    up: Up, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = up.client()
    while not receiver.requests:  # the server's first look is where notices begin
        client.add([NewItem(title="Choose")])
        (lease,) = client.next("coder")
        client.ask(lease.run, "Which database?")
        receiver.wait_a_moment()
    first = receiver.requests[0]
    body = json.loads(first["body"])
    assert (body["type"], body["question"]) == ("question", "Which database?")
    assert body["url"] == f"https://interlock.example.com/items/{body['item']['id']}"
    assert body["item"]["title"] == "Choose"
    is_genuine = recipe(monkeypatch)
    assert is_genuine(first["headers"], first["body"].encode())
    assert not is_genuine(first["headers"], first["body"].replace("Which", "What").encode())
    old = {**first["headers"], "webhook-timestamp": str(int(first["headers"]["webhook-timestamp"]) - 600)}
    assert not is_genuine(old, first["body"].encode())
    assert not is_genuine({**first["headers"], "webhook-id": "another"}, first["body"].encode())


def test_while_a_receiver_hangs_claims_and_ends_go_on(up: Up, receiver: Receiver) -> None:
    client = up.client()
    receiver.tell(then="hang")
    while not receiver.requests:
        client.add([NewItem(title="work")])
        (lease,) = client.next("coder")
        client.fail([Report(run=lease.run, error="boom", retry=False)])
        receiver.wait_a_moment()
    # The receiver has the request and never answers it. Everything else is done meanwhile.
    for n in range(20):
        client.add([NewItem(title=f"work {n}")])
        (lease,) = client.next("coder")
        client.done([Report(run=lease.run)])
    assert client.sweep() is not None
    (waiting,) = client.effects()[:1]
    assert (waiting.kind, waiting.failures) == ("notice", 0), "the request is still open"
