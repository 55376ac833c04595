"""Items for the pages that show them: a day of a small fleet on one repository."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from interlock.core.errors import InterlockError
from interlock.core.model import ANOTHER_SYSTEM, NewItem, Policy, Sender, SenderKind
from interlock.service.contract import LeaseView, Report
from interlock.service.local import LocalService
from interlock.store.links import Head, Link, StoredWorkflowRun
from tests.clock import Clock

CODER, REVIEWER, TRIAGE, DOCS = "coder", "reviewer", "triage", "docs-writer"
LANE = "issue:acme/app#42"
RIGHT_TO_LEFT = (
    "\u0625\u0635\u0644\u0627\u062d \u0635\u0641\u062d\u0629 \u0627\u0644\u062f\u062e\u0648\u0644"
    " \u0644\u0644\u0645\u0633\u062a\u062e\u062f\u0645\u064a\u0646"
)
TRACE = """FAILED tests/test_build.py::test_image_is_small - AssertionError: 812 MiB
    image = build("linux/arm64")
>   assert image.size_mib < 400
E   assert 812 < 400
1 failed, 212 passed in 94.12s"""


def add(service: LocalService, title: str, **fields: Any) -> int:
    """Add an item; gives its number."""
    (added,) = service.add([NewItem(title=title, **fields)])
    assert added.arrival is not None
    return added.arrival


def start(service: LocalService, item: int, agent: str = CODER, lease_s: float = 300) -> LeaseView:
    (lease,) = service.next(agent, item=item, lease_s=lease_s, worker=f"{agent}@build-2")
    return lease


def on_issue(number: int, **fields: Any) -> dict[str, Any]:
    payload = {
        "repository": "acme/app",
        "issue_number": number,
        "html_url": f"https://github.com/acme/app/issues/{number}",
    }
    return {"payload": json.dumps(payload), "type": "issue_work", "project": "acme/app", **fields}


class Day:
    """A day of work. Each number is that of an item."""

    def __init__(self, service: LocalService, clock: Clock) -> None:
        self.service, self.clock = service, clock
        for name, slots in ((CODER, 2), (REVIEWER, 1), (TRIAGE, 4), (DOCS, 1)):
            service.set_agent(name, max_concurrency=slots)
        self.done = self._done()
        self.dead = self._dead()
        self.crashed, self.waiting_behind, self.absorbed = self._crashed()
        self.asking = self._asking()
        self.superseded, self.newest = self._superseded()
        self.rest = self._others()

    def _done(self) -> int:
        item = add(self.service, "Login test fails on slow machines", agent=CODER, **on_issue(31))
        lease = start(self.service, item)
        self.clock.advance(1_260)
        result = {"stdout": "212 passed in 94.12s\npushed fix-login-test\nopened pull request #88\n"}
        self.service.done([Report(run=lease.run, result=json.dumps(result))])
        self._pull_request(item, lease.fence)
        return item

    def _pull_request(self, item: int, run: int) -> None:
        """The pull request that a run made, with failing checks, as GitHub's deliveries leave it."""
        github, head = self.service.store.github, "a1b2c3d4" * 5
        github.repository(1, "acme/app")
        pull = "https://github.com/acme/app/pull/88"
        github.links.advance(
            Head(
                1,
                88,
                "",
                1,
                head,
                "fix-login",
                pull,
                "open",
                "failure",
                "build (macos) failed",
                followed=True,
            ),
            [Link(run, item, 1, 88, "", "branch")],
            [
                StoredWorkflowRun(
                    *(1, 9, head, 1, "build", "completed", "failure"),
                    "https://github.com/acme/app/actions/runs/9",
                    "https://api.github.com/repos/acme/app/actions/runs/9/logs",
                    self.clock.now_us + 90 * 86_400_000_000,
                    "[]",
                    1,
                )
            ],
        )

    def _dead(self) -> int:
        item = add(self.service, "Build the image for arm64", agent=CODER, max_attempts=2, **on_issue(27))
        for _ in range(2):
            lease = start(self.service, item)
            self.clock.advance(400)
            self.service.renew([Report(run=lease.run)])
            self.clock.advance(140)
            self.service.fail([Report(run=lease.run, error=TRACE)])
            self.clock.advance(1_200)
            self.service.sweep()
        return item

    def _crashed(self) -> tuple[int, int, list[int]]:
        """A run that was lost, writes late, and whose item has been started again; and its line."""
        service, clock = self.service, self.clock
        item = add(
            service,
            "Webhook of payments is retried twice",
            agent=CODER,
            priority=9,
            message="Customers were charged twice, see the log of 09:14.",
            author="anna",
            **on_issue(42),
        )
        lost = start(service, item)
        clock.advance(60)
        service.msg(item, "It happens only with retries of the provider.", author="ben")
        clock.advance(400)
        service.sweep()  # the lease has expired
        lease = start(service, item)
        with suppress(InterlockError):
            service.done([Report(run=lost.run)])  # the zombie
        clock.advance(120)
        service.renew([Report(run=lease.run, seen=1)])
        comments = []
        for n, text in enumerate(
            ("Please also check refunds.", "Refunds are fine, see #40.", "Add a test, too.")
        ):
            comments.append(
                add(
                    service,
                    f"Comment {n + 1} on #42",
                    agent=CODER,
                    message=text,
                    author=("anna", "ben", "anna")[n],
                    reason="issue_commented",
                    url=f"https://github.com/acme/app/issues/42#issuecomment-{n + 1}",
                    **on_issue(42, policy=Policy.COALESCE, type="issue_comment"),
                )
            )
            clock.advance(20)
            if n == 0:
                service.inbox(lease.run, seen=3)
        service.msg(item, "CI is green again.", author="ci", sender=ANOTHER_SYSTEM)
        behind = add(service, "Review the fix of #42", agent=REVIEWER, **on_issue(42, type="pr_review"))
        add(service, "Describe the retries in the manual", agent=DOCS, **on_issue(42, type="docs"))
        service.renew([Report(run=lease.run, seen=4)])
        self.lease = lease
        return item, behind, comments

    def _asking(self) -> int:
        item = add(self.service, "Unify the two login pages", agent=CODER, priority=5, **on_issue(44))
        lease = start(self.service, item)
        self.clock.advance(90)
        self.service.ask(
            lease.run,
            "There are two login pages, /login and /signin. Which one stays? /signin has the newer form, but"
            " all mails link to /login.",
        )
        return item

    def _superseded(self) -> tuple[list[int], int]:
        """Five pushes to a pull request: the newest has the messages of all."""
        found = []
        for n in range(5):
            found.append(
                add(
                    self.service,
                    f"Review pull request #88 at {0xA1B2C3 + n:x}",
                    agent=REVIEWER,
                    message=f"New commit {0xA1B2C3 + n:x}",
                    author="interlock",
                    sender=ANOTHER_SYSTEM,
                    **on_issue(88, policy=Policy.SUPERSEDE, type="pr_review"),
                )
            )
            self.clock.advance(30)
        return found[:-1], found[-1]

    def _others(self) -> list[int]:
        service = self.service
        later = add(service, "Remove the old API", agent=CODER, run_after_s=7_200, **on_issue(50))
        stopped = add(service, "Rename the settings page", agent=CODER, **on_issue(51))
        service.cancel(stopped, why="Decided against it in the meeting", by="anna")
        blocked = add(service, "Switch to the new payment API", agent=CODER, **on_issue(52))
        service.block(item=blocked, blocker="acme/api#7", why="It needs the new endpoint", by="anna")
        long = add(service, "A title that nobody should write " * 8, agent=DOCS, **on_issue(53))
        rtl = add(service, RIGHT_TO_LEFT, agent=DOCS, lane="session:" + "very-long-name-" * 8 + "end")
        titles = (
            ("Dark mode flickers on first load", 60, CODER, 3),
            ("Export invoices as CSV", 61, CODER, 0),
            ("Label new issues", 62, TRIAGE, 0),
            ("Upgrade PostgreSQL to 18", 63, CODER, 8),
            ("Translate the checkout into Dutch", 64, DOCS, 1),
            ("Rate limit the search endpoint", 65, "", 2),
        )
        more = [
            add(service, title, agent=agent, priority=priority, **on_issue(number))
            for title, number, agent, priority in titles
        ]
        bot = Sender(SenderKind.AGENT, TRIAGE)
        service.msg(more[0], "Looks like #59, which was closed in May.", author=TRIAGE, sender=bot)
        start(service, more[2], TRIAGE)
        self.clock.advance(45)
        return [later, stopped, blocked, long, rtl, *more]
