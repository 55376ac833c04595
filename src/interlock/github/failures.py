"""Failed checks become work: on the lane of the pull request whose newest commit failed, else of the branch.

A check happens once by its number at GitHub. Only the newest commit counts: what an old one says has been
replaced.
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
from interlock.github.effects import LANE_CONTEXT
from interlock.github.facts import Facts, State, one_line
from interlock.github.heard import owners
from interlock.github.orders import Order, Place, arrival, kept, telling
from interlock.github.rules import Does, Rules
from interlock.github.wanted import Condition, deciding, urgency
from interlock.store.github_port import Follows

EVENTS = ("workflow_run.completed", "check_run.completed", "status")
#: How a check ends that needs work.
_FAILED = ("failure", "error", "timed_out", "startup_failure")
#: What starts workflows that check commits. Others, such as an agent's own on a comment, check nothing.
CHECKING = ("push", "pull_request", "pull_request_target", "merge_group")
_REASON = "check_failed"


class Failure(Record):
    """A check that failed."""

    #: The event that rules know, and a name that the check has once.
    event: str
    name: str
    #: What failed, for people.
    title: str
    sha: str
    branch: str
    url: str
    #: The first of its jobs that failed.
    job: FailedJob | None = None


def failure_in(delivery: Delivery, run: Mapping[str, Any] | None) -> Failure | None:
    """The failed check in a delivery, if it is one and still is: `run` is the workflow run as it is now."""
    if delivery.event == "workflow_run":
        return _workflow_run(delivery, run)
    return _check_run(delivery) if delivery.event == "check_run" else _status(delivery)


def _workflow_run(delivery: Delivery, run: Mapping[str, Any] | None) -> Failure | None:
    if run is None or run.get("event") not in CHECKING or run.get("conclusion") not in _FAILED:
        return None
    return Failure(
        event=delivery.kind,
        name=f"workflow_run:{run['id']}:{run.get('run_attempt') or 1}",
        title=one_line(run.get("name") or "a workflow"),
        sha=run["head_sha"],
        branch=run.get("head_branch") or "",
        url=run.get("html_url") or "",
    )


def _check_run(delivery: Delivery) -> Failure | None:
    run = delivery.payload["check_run"]
    of_actions = (run.get("app") or {}).get("slug") == "github-actions"  # told by its workflow run
    if of_actions or run.get("conclusion") not in _FAILED:
        return None
    return Failure(
        event=delivery.kind,
        name=f"check_run:{run['id']}",
        title=one_line(run.get("name") or "a check"),
        sha=run["head_sha"],
        branch=(run.get("check_suite") or {}).get("head_branch") or "",
        url=run.get("html_url") or "",
    )


def _status(delivery: Delivery) -> Failure | None:
    told = delivery.payload
    if told.get("state") not in _FAILED or told.get("context") == LANE_CONTEXT:  # ours says who has the lane
        return None
    branches = told.get("branches") or [{}]
    return Failure(
        event=delivery.kind,
        name=f"status:{told['id']}",
        title=one_line(told.get("context") or "a status"),
        sha=told["sha"],
        branch=branches[0].get("name") or "",
        url=told.get("target_url") or "",
    )


def makes_work(failure: Failure, facts: Facts, rules: Rules) -> bool:
    """Whether an item follows, for which the log is worth reading."""
    rule, _ = deciding(rules, facts, Condition(failure.event, failure.name))
    return rule is not None and rule.does is Does.CREATE


def following(failure: Failure, facts: Facts, rules: Rules, place: Place) -> list[Follows]:
    """What follows for a pull request, or for a branch, whose facts have no number."""
    rule, _ = deciding(rules, facts, Condition(failure.event, failure.name))
    if rule is None or rule.does is Does.IGNORE:
        return []
    where = f"#{facts.number}" if facts.number else failure.branch
    title = f"{failure.title} failed on {where} at {failure.sha[:12]}"
    text = f"{title}."
    if rule.does is Does.ANNOTATE:
        return [kept(failure.name, telling(place, text, reason=_REASON, url=failure.url))]
    owner = (*owners(facts, rules), "")[0]
    job = failure.job
    told = {} if job is None else {"job": job.name, "job_url": job.url, "log_expires_at": job.log_expires_at}
    if job is not None and job.log_tail:
        told["log_tail"] = job.log_tail
        text += f" The end of the log of {job.name} is in the payload."
    made = arrival(
        facts,
        place,
        rule=rule,
        agent=rule.agent or owner,
        priority=rule.priority if rule.priority is not None else urgency(facts, rules),
        event=failure.event,
        sender=ANOTHER_SYSTEM,
        message=text,
        reason=_REASON,
        url=failure.url,
        title=one_line(title),
        payload={"branch": failure.branch, "head_sha": failure.sha, "check": failure.title, **told},
    )
    if not facts.number:
        del made["payload"]["pr_number"]
    order: Order = {"do": "add", **place._asdict(), "key": None, "items": [made]}
    return [kept(failure.name, order)]


def branch_place(place: Place, branch: str) -> Place:
    """The lane of a branch."""
    try:
        check_name("branch", branch)
    except InvalidInput:
        branch = safe_name(branch)
    return Place(place.project, f"branch:{place.project}:{branch}")


def of_branch(repository: int, name: str, failure: Failure) -> Facts:
    """What stands for a branch where there is no pull request: number 0, the repository itself."""
    return Facts(
        repository=repository,
        name=name,
        number=0,
        pull=True,
        state=State.OPEN,
        title=failure.branch,
        author="",
        url=failure.url,
        head=failure.sha,
        branch=failure.branch,
    )
