"""Checks that have ended become work: on the lane of the pull request whose newest commit it was, else of the
branch.

A check happens once by its number at GitHub. Only the newest commit counts: what an old one says has been
replaced. Work for a failed check is withdrawn when that check passes, or when the pull request has another
head.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from interlock.core.errors import InvalidInput
from interlock.core.model import ANOTHER_SYSTEM
from interlock.core.names import check_name, safe_name
from interlock.core.record import Record
from interlock.core.row import NamedTuple
from interlock.github.ci import FailedJob
from interlock.github.delivery import Delivery
from interlock.github.effects import LANE_CONTEXT
from interlock.github.facts import Facts, State, one_line
from interlock.github.heard import owners
from interlock.github.orders import Order, Place, arrival, kept, telling
from interlock.github.rules import CHECKS, FAILED, Does, Rule, Rules
from interlock.github.wanted import Condition, deciding, urgency
from interlock.store.github_port import Follows

#: How a check ends that holds nothing up.
_PASSED = ("success", "neutral", "skipped")
#: What starts workflows that check commits. Others, such as an agent's own on a comment, check nothing.
CHECKING = ("push", "pull_request", "pull_request_target", "merge_group")


class Check(Record):
    """A check that has ended."""

    #: The event that rules know, and a name that the check has once.
    event: str
    name: str
    #: GitHub's number of it, which grows.
    id: int
    #: What was checked, for people.
    title: str
    #: GitHub's word for how it ended.
    conclusion: str
    sha: str
    branch: str
    url: str
    #: The first of its jobs that failed.
    job: FailedJob | None = None

    @property
    def failed(self) -> bool:
        return self.conclusion in FAILED

    @property
    def passed(self) -> bool:
        return self.conclusion in _PASSED

    @property
    def words(self) -> str:
        how = "failed" if self.failed else "passed" if self.passed else f"ended: {self.conclusion}"
        return f"{self.title} {how}"

    @property
    def condition(self) -> Condition:
        return Condition(
            self.event, self.name, branch=self.branch, check=self.title, conclusion=self.conclusion
        )


def check_in(delivery: Delivery, run: Mapping[str, Any] | None) -> Check | None:
    """The check in a delivery that has ended and still has: `run` is the workflow run as it is now."""
    if delivery.event == "workflow_run":
        return _workflow_run(delivery, run)
    return _check_run(delivery) if delivery.event == "check_run" else _status(delivery)


def _workflow_run(delivery: Delivery, run: Mapping[str, Any] | None) -> Check | None:
    if run is None or run.get("event") not in CHECKING or not run.get("conclusion"):
        return None
    return Check(
        event=delivery.kind,
        name=f"workflow_run:{run['id']}:{run.get('run_attempt') or 1}",
        id=run["id"],
        conclusion=run["conclusion"],
        title=one_line(run.get("name") or "a workflow"),
        sha=run["head_sha"],
        branch=run.get("head_branch") or "",
        url=run.get("html_url") or "",
    )


def _check_run(delivery: Delivery) -> Check | None:
    run = delivery.payload["check_run"]
    of_actions = (run.get("app") or {}).get("slug") == "github-actions"  # told by its workflow run
    if of_actions or not run.get("conclusion"):
        return None
    return Check(
        event=delivery.kind,
        name=f"check_run:{run['id']}",
        id=run["id"],
        conclusion=run["conclusion"],
        title=one_line(run.get("name") or "a check"),
        sha=run["head_sha"],
        branch=(run.get("check_suite") or {}).get("head_branch") or "",
        url=run.get("html_url") or "",
    )


def _status(delivery: Delivery) -> Check | None:
    told = delivery.payload
    pending = told.get("state") in (None, "pending")
    if pending or told.get("context") == LANE_CONTEXT:  # ours says who has the lane
        return None
    branches = told.get("branches") or [{}]
    return Check(
        event=delivery.kind,
        name=f"status:{told['id']}",
        id=told["id"],
        conclusion=told["state"],
        title=one_line(told.get("context") or "a status"),
        sha=told["sha"],
        branch=branches[0].get("name") or "",
        url=told.get("target_url") or "",
    )


def rule_for(check: Check, facts: Facts, rules: Rules) -> Rule | None:
    """The rule that wants something done about a check."""
    rule, _ = deciding(rules, facts, check.condition)
    return rule if rule is not None and rule.does is not Does.IGNORE else None


def following(check: Check, facts: Facts, rules: Rules, place: Place) -> list[Follows]:
    """What follows for a pull request, or for a branch, whose facts have no number."""
    rule = rule_for(check, facts, rules)
    if rule is None:
        return []
    where = f"#{facts.number}" if facts.number else check.branch
    title = f"{check.words} on {where} at {check.sha[:12]}"
    text, reason = f"{title}.", "check_failed" if check.failed else "check_ended"
    if rule.does is Does.ANNOTATE:
        return [kept(check.name, telling(place, text, reason=reason, url=check.url))]
    owner = (*owners(facts, rules), "")[0]
    job = check.job
    told = {} if job is None else {"job": job.name, "job_url": job.url, "log_expires_at": job.log_expires_at}
    if job is not None and job.log_tail:
        told["log_tail"] = job.log_tail
        text += f" The end of the log of {job.name} is in the payload."
    described = {"branch": check.branch, "head_sha": check.sha, "check": check.title}
    made = arrival(
        facts,
        place,
        rule=rule,
        agent=rule.agent or owner,
        priority=urgency(facts, rules, rule),
        event=check.event,
        sender=ANOTHER_SYSTEM,
        message=text,
        reason=reason,
        url=check.url,
        title=one_line(title),
        payload={**described, "conclusion": check.conclusion, **told},
    )
    if not facts.number:
        del made["payload"]["pr_number"]
    order: Order = {"do": "add", **place._asdict(), "key": None, "items": [made]}
    if check.failed:
        order["failed"] = {"check": check.title, "id": check.id, "sha": check.sha}
    return [kept(check.name, order)]


# Failures that are over


class Failing(NamedTuple):
    """The newest failure of a check."""

    id: int
    sha: str


def failing(orders: Iterable[Order], lane: str) -> dict[str, Failing]:
    """The checks of a lane that have failed and not recovered, by what was ordered, oldest first."""
    found: dict[str, Failing] = {}
    for order in orders:
        if order.get("lane") != lane:
            continue
        if (failed := order.get("failed")) is not None:
            new = Failing(failed["id"], failed["sha"])
            found[failed["check"]] = max(new, found.get(failed["check"], new))
        if order["do"] == "recover":
            found = {check: known for check, known in found.items() if not _is_over(check, known, order)}
    return found


def _is_over(check: str, known: Failing, order: Order) -> bool:
    if "head" in order:
        return bool(known.sha != order["head"])
    return bool(check == order["check"] and known.id <= order["id"])


def recovery(
    was: Mapping[str, Failing], place: Place, *, check: Check | None, facts: Facts | None
) -> list[Follows]:
    """What follows where failures are over: a check has passed, or a pull request has another head."""
    found: list[tuple[str, Order]] = []
    if check is not None and check.passed:
        over = {"check": check.title, "id": check.id, "reason": "check_passed", "url": check.url}
        found.append((f"{check.name}:passed", over))
    if facts is not None and facts.head:
        last = max((known.id for known in was.values()), default=0)
        over = {"head": facts.head, "reason": "head_moved", "url": facts.url}
        found.append((f"head:{facts.head}:{last}", over))
    return [
        kept(name, {"do": "recover", **place._asdict(), **over})
        for name, over in found
        if any(_is_over(each, known, over) for each, known in was.items())
    ]


def failed_check(payload: Mapping[str, Any] | None) -> str:
    """The failed check that an item or a message is about; empty if it is about none."""
    told = payload or {}
    failed = is_about_check(told) and told.get("conclusion", FAILED[0]) in FAILED
    return str(told.get("check") or "") if failed else ""


def is_about_check(payload: Mapping[str, Any] | None) -> bool:
    return (payload or {}).get("event_type") in CHECKS


def branch_place(place: Place, branch: str) -> Place:
    """The lane of a branch."""
    try:
        check_name("branch", branch)
    except InvalidInput:
        branch = safe_name(branch)
    return Place(place.project, f"branch:{place.project}:{branch}")


def of_branch(repository: int, name: str, check: Check) -> Facts:
    """What stands for a branch where there is no pull request: number 0, the repository itself."""
    return Facts(
        repository=repository,
        name=name,
        number=0,
        pull=True,
        state=State.OPEN,
        title=check.branch,
        author="",
        url=check.url,
        head=check.sha,
        branch=check.branch,
    )
