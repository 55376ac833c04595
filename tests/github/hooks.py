"""Webhooks of the fake: what is delivered, signed as GitHub does, and kept in a list.

Every change of state makes one delivery to each hook that wants the event. A hook with a url is sent to by a
thread of its own; without one, the deliveries are only listed. Faults say which get lost.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
import urllib.request
import uuid
from dataclasses import dataclass, field
from queue import Queue
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.github import fake

ANSWER_TIMEOUT_S = 10


@dataclass(eq=False)
class Hook:
    id: int
    repo: fake.Repository | None
    url: str | None
    secret: str | None
    events: tuple[str, ...]
    created_at: int
    active: bool = True

    def wants(self, event: str) -> bool:
        return self.active and ("*" in self.events or event in self.events)


@dataclass(eq=False)
class Delivery:
    id: int
    guid: str
    hook: Hook
    event: str
    action: str | None
    payload: dict[str, Any]
    #: The raw body, over which the signature was made.
    body: bytes
    at: int
    #: False for what the Actions token caused: it starts no workflow.
    starts_workflows: bool = True
    redelivery: bool = False
    #: 202 for a delivery that was taken, also by a list; 502 for one that got lost.
    status_code: int = 202
    headers: dict[str, str] = field(default_factory=dict)


def signed(secret: str, body: bytes) -> dict[str, str]:
    """The two headers in which GitHub signs a body."""
    both = {"X-Hub-Signature-256": "sha256", "X-Hub-Signature": "sha1"}
    return {
        header: f"{kind}={hmac.new(secret.encode(), body, kind).hexdigest()}" for header, kind in both.items()
    }


def made(
    github: fake.FakeGitHub, hook: Hook, event: str, payload: dict[str, Any], *, starts_workflows: bool
) -> Delivery:
    body = json.dumps(payload, separators=(",", ":")).encode()
    guid = str(uuid.UUID(hashlib.md5(f"{github.next_id()}".encode(), usedforsecurity=False).hexdigest()))
    target = hook.repo.id if hook.repo else 0
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "GitHub-Hookshot/fake",
        "X-GitHub-Event": event,
        "X-GitHub-Delivery": guid,
        "X-GitHub-Hook-ID": str(hook.id),
        "X-GitHub-Hook-Installation-Target-ID": str(target),
        "X-GitHub-Hook-Installation-Target-Type": "repository" if hook.repo else "integration",
        **(signed(hook.secret, body) if hook.secret else {}),
    }
    return Delivery(
        id=github.next_id(),
        guid=guid,
        hook=hook,
        event=event,
        action=payload.get("action"),
        payload=json.loads(body),
        body=body,
        at=github.now(),
        starts_workflows=starts_workflows,
        headers=headers,
    )


class Sender:
    """Sends deliveries one after the other, beside the requests, until it is closed."""

    def __init__(self) -> None:
        self._queue: Queue[Delivery | None] = Queue()
        self._thread: threading.Thread | None = None

    def send(self, delivery: Delivery) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        self._queue.put(delivery)

    def settle(self) -> None:
        """Wait until everything that was made so far has been answered, or has failed."""
        self._queue.join()

    def close(self) -> None:
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()

    def _run(self) -> None:
        while (delivery := self._queue.get()) is not None:
            delivery.status_code = _post(delivery)
            self._queue.task_done()
        self._queue.task_done()


def _post(delivery: Delivery) -> int:
    assert delivery.hook.url is not None
    request = urllib.request.Request(delivery.hook.url, data=delivery.body, headers=delivery.headers)
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_TIMEOUT_S) as answer:
            return 202 if 200 <= answer.status < 300 else int(answer.status)
    except OSError as error:
        return int(getattr(error, "code", 502))
