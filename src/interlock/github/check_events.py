"""Turns ended checks into work, on the lane of the pull request with this newest commit, else of the branch.

A check counts once, by its number at GitHub. Only checks of the newest commit count. Work for a failed check
is withdrawn when the check passes or the pull request gets another head.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.core.errors import InvalidInput
from interlock.core.model import ANOTHER_SYSTEM
from interlock.core.names import check_name, safe_name
from interlock.core.record import Record
from interlock.github.ci import FailedJob
from interlock.github.delivery import Delivery
from interlock.github.desired_work import Condition, deciding_rule, priority_for
from interlock.github.effects import LANE_CONTEXT
from interlock.github.facts import NumberFacts, NumberState, one_line
from interlock.github.orders import (
    AddItems,
    FailedCheck,
    ItemLocation,
    NotifyAgents,
    OrderMessage,
    WithdrawRecovered,
    work_item,
)
from interlock.github.rules import FAILED, Rule, RuleAction, Rules
from interlock.github.wake_rules import owners
from interlock.store.github import NewOrder

#: Conclusions of passing checks.
_PASSED = ("success", "neutral", "skipped")
#: Events of workflows that check commits. Others, such as an agent's workflow on a comment, check nothing.
CHECKING = ("push", "pull_request", "pull_request_target", "merge_group")


class EndedCheck(Record):
    """A check that has ended."""

    #: The event in rules, and a unique name of the check.
    event: str
    name: str
    #: Its growing number at GitHub.
    id: int
    #: The checked subject, for people.
    title: str
    #: GitHub's conclusion.
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


def check_in(delivery: Delivery, run: Mapping[str, Any] | None) -> EndedCheck | None:
    """The ended check in a delivery. `run` is the current state of the workflow run, which must still have
    ended."""
    if delivery.event == "workflow_run":
        return _workflow_run(delivery, run)
    return _check_run(delivery) if delivery.event == "check_run" else _status(delivery)


def _workflow_run(delivery: Delivery, run: Mapping[str, Any] | None) -> EndedCheck | None:
    if run is None or run.get("event") not in CHECKING or not run.get("conclusion"):
        return None
    return EndedCheck(
        event=delivery.kind,
        name=f"workflow_run:{run['id']}:{run.get('run_attempt') or 1}",
        id=run["id"],
        conclusion=run["conclusion"],
        title=one_line(run.get("name") or "a workflow"),
        sha=run["head_sha"],
        branch=run.get("head_branch") or "",
        url=run.get("html_url") or "",
    )


def _check_run(delivery: Delivery) -> EndedCheck | None:
    run = delivery.payload["check_run"]
    of_actions = (run.get("app") or {}).get("slug") == "github-actions"  # reported by its workflow run
    if of_actions or not run.get("conclusion"):
        return None
    return EndedCheck(
        event=delivery.kind,
        name=f"check_run:{run['id']}",
        id=run["id"],
        conclusion=run["conclusion"],
        title=one_line(run.get("name") or "a check"),
        sha=run["head_sha"],
        branch=(run.get("check_suite") or {}).get("head_branch") or "",
        url=run.get("html_url") or "",
    )


def _status(delivery: Delivery) -> EndedCheck | None:
    told = delivery.payload
    pending = told.get("state") in (None, "pending")
    if pending or told.get("context") == LANE_CONTEXT:  # our own status
        return None
    branches = told.get("branches") or [{}]
    return EndedCheck(
        event=delivery.kind,
        name=f"status:{told['id']}",
        id=told["id"],
        conclusion=told["state"],
        title=one_line(told.get("context") or "a status"),
        sha=told["sha"],
        branch=branches[0].get("name") or "",
        url=told.get("target_url") or "",
    )


def rule_for(check: EndedCheck, facts: NumberFacts, rules: Rules) -> Rule | None:
    """The rule that matches a check."""
    rule, _ = deciding_rule(rules, facts, check.condition)
    return rule if rule is not None and rule.does is not RuleAction.IGNORE else None


def orders_of(check: EndedCheck, facts: NumberFacts, rules: Rules, place: ItemLocation) -> list[NewOrder]:
    """The orders for a pull request, or for a branch, whose facts have no number."""
    rule = rule_for(check, facts, rules)
    if rule is None:
        return []
    where = f"#{facts.number}" if facts.number else check.branch
    title = f"{check.words} on {where} at {check.sha[:12]}"
    text, reason = f"{title}.", "check_failed" if check.failed else "check_ended"
    if rule.does is RuleAction.ANNOTATE:
        message = OrderMessage(text=text, reason=reason, url=check.url)
        return [NotifyAgents(place=place, message=message).row(check.name)]
    owner = (*owners(facts, rules), "")[0]
    job = check.job
    told = {} if job is None else {"job": job.name, "job_url": job.url, "log_expires_at": job.log_expires_at}
    if job is not None and job.log_tail:
        told["log_tail"] = job.log_tail
        text += f" The end of the log of {job.name} is in the payload."
    described = {"branch": check.branch, "head_sha": check.sha, "check": check.title}
    item = work_item(
        facts,
        place,
        rule=rule,
        agent=rule.agent or owner,
        priority=priority_for(facts, rules, rule),
        event=check.event,
        message=OrderMessage(text=text, reason=reason, url=check.url, sender=ANOTHER_SYSTEM),
        title=one_line(title),
        payload={**described, "conclusion": check.conclusion, **told},
    )
    failed = FailedCheck(check.title, check.id, check.sha) if check.failed else None
    return [AddItems(place=place, items=(item,), failed=failed).row(check.name)]


# Ended failures


def recovery_orders(
    was: Mapping[str, FailedCheck],
    place: ItemLocation,
    *,
    check: EndedCheck | None,
    facts: NumberFacts | None,
) -> list[NewOrder]:
    """The orders when failures end: a check has passed, or a pull request has another head."""
    found: list[tuple[str, WithdrawRecovered]] = []
    if check is not None and check.passed:
        passed = WithdrawRecovered(
            place=place, reason="check_passed", url=check.url, check=check.title, id=check.id
        )
        found.append((f"{check.name}:passed", passed))
    if facts is not None and facts.head:
        last = max((known.id for known in was.values()), default=0)
        moved = WithdrawRecovered(place=place, reason="head_moved", url=facts.url, head=facts.head)
        found.append((f"head:{facts.head}:{last}", moved))
    return [order.row(name) for name, order in found if any(map(order.is_over, was.values()))]


def branch_place(place: ItemLocation, branch: str) -> ItemLocation:
    """The lane of a branch."""
    try:
        check_name("branch", branch)
    except InvalidInput:
        branch = safe_name(branch)
    return ItemLocation(place.project, f"branch:{place.project}:{branch}")


def of_branch(repository: int, name: str, check: EndedCheck) -> NumberFacts:
    """A branch without a pull request: number 0, the repository itself."""
    return NumberFacts(
        repository=repository,
        name=name,
        number=0,
        pull=True,
        state=NumberState.OPEN,
        title=check.branch,
        author="",
        url=check.url,
        head=check.sha,
        branch=check.branch,
    )
