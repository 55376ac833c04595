"""The rules that turn GitHub's events into work: a committed TOML table, then the defaults.

The first rule that matches an event decides. Rules use GitHub's words (`issues.labeled`). Work that depends
on a fact (open, labelled, assigned) is withdrawn when the fact is gone, so the order of deliveries does not
matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from fnmatch import fnmatchcase

from interlock.core.model import Policy
from interlock.core.record import Record

#: Events that hold as long as a fact of the number does.
LASTING = (
    "issues.opened",
    "issues.reopened",
    "issues.labeled",
    "issues.assigned",
    "pull_request.opened",
    "pull_request.reopened",
    "pull_request.labeled",
    "pull_request.assigned",
    "pull_request.ready_for_review",
    "pull_request.review_requested",
    "pull_request.synchronize",
)
#: The ends of a number. Rules name them one by one: `issues.*` means an open issue.
ENDING = ("issues.closed", "pull_request.merged", "pull_request.closed")
#: Events of ended checks, with any conclusion.
CHECKS = ("workflow_run.completed", "check_run.completed", "status")
#: Conclusions of checks that need work.
FAILED = ("failure", "error", "timed_out", "startup_failure")
#: Events that happen once, each with its own number.
PASSING = (
    "issue_comment.created",
    "pull_request_review.submitted",
    "pull_request_review_comment.created",
    *CHECKS,
)
EVENTS = LASTING + ENDING + PASSING

#: The priority of work, by the labels of its number, or else by its type. A repository's own table replaces
#: single entries.
PRIORITIES: Mapping[str, int] = {
    "critical_bug": 10,
    "critical": 10,
    "security_issue": 9,
    "security": 9,
    "bug": 8,
    "feature": 5,
    "enhancement": 5,
    "documentation": 3,
    "refactoring": 1,
    "build_failure": 8,
    "pr_review": 5,
}


class RuleAction(StrEnum):
    """What a rule does with a matching event."""

    #: Creates an item, or sends a message to the open one of its type and agent.
    CREATE = "create"
    #: Sends a message to agents with an open item, and starts no work.
    ANNOTATE = "annotate"
    IGNORE = "ignore"


class Rule(Record):
    """One rule. Patterns are as in a shell and ignore case. An empty pattern matches everything."""

    name: str
    events: tuple[str, ...]
    labels: tuple[str, ...] = ()
    authors: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()
    #: Matches any changed file of a pull request.
    paths: tuple[str, ...] = ()
    draft: bool | None = None
    #: The branch of a check, or the base of a pull request; the check's name; its conclusion. Without a
    #: conclusion, a failed check matches.
    branches: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    conclusions: tuple[str, ...] = ()
    does: RuleAction = RuleAction.CREATE
    type: str = ""
    priority: int | None = None
    #: `none`, or a name with {repository} and {number} as placeholders; the issue's own lane if empty.
    lane: str = ""
    #: If empty, the assigned, asked or mentioned agent; without one, any agent.
    agent: str = ""
    policy: Policy = Policy.COALESCE
    #: Whether the repository's rule names the policy. If not, the service's settings may choose another.
    policy_named: bool = False
    timeout_s: float | None = None


class Rules(Record):
    """All options of a repository."""

    rules: tuple[Rule, ...]
    #: Logins in lower case, and the agents that write as them.
    agents: Mapping[str, str]
    priorities: Mapping[str, int]
    #: Whether a comment of an account without write access may wake an agent.
    anyone_wakes: bool = False
    #: Whether an issue waits for its open sub-issues.
    sub_issues_block: bool = True
    #: Whether each item has a progress comment on its issue or pull request.
    progress_comments: bool = False
    #: Whether the newest commit of a pull request shows who holds its lane.
    lane_status: bool = True


#: The rules that apply where a repository's own rules do not match.
DEFAULTS = (
    Rule(
        name="default: issues",
        events=("issues.opened", "issues.reopened", "issues.labeled"),
        type="issue_triage",
    ),
    Rule(name="default: assigned issues", events=("issues.assigned",), type="issue_work"),
    Rule(
        name="default: pull requests",
        events=(
            "pull_request.opened",
            "pull_request.reopened",
            "pull_request.ready_for_review",
            "pull_request.review_requested",
            "pull_request.synchronize",
        ),
        draft=False,
        type="pr_review",
        policy=Policy.SUPERSEDE,
    ),
    Rule(
        name="default: comments",
        events=("issue_comment.created", "pull_request_review_comment.created"),
        type="issue_comment",
    ),
    Rule(name="default: reviews", events=("pull_request_review.submitted",), type="changes_requested"),
    Rule(name="default: failed checks", events=("workflow_run.completed",), type="build_failure"),
)


def default_rules() -> Rules:
    """The rules of a repository without a file."""
    return Rules(rules=DEFAULTS, agents={}, priorities=PRIORITIES)


def lane_of(rule: Rule, repository: str, number: int, *, own: str) -> str | None:
    """The lane of a rule's items. `own` is the number's own lane; None means no lane."""
    if rule.lane == "none":
        return None
    return rule.lane.format(repository=repository, number=number) or own


def fits(rule: Rule, event: str, *, label: str, draft: bool, given: Mapping[str, Iterable[str]]) -> str:
    """Why a rule does not match an event, in a few words; empty if it matches.

    `given` has the texts for the patterns: `author`, `title`, `path`, `branch`, `check` and `conclusion`.
    """
    if event not in rule.events:
        return "is for other events"
    if rule.labels and not _any_fits(rule.labels, (label,) if label else given.get("labels", ())):
        return f"wants the label {_either(rule.labels)}"
    if rule.authors and not _any_fits(rule.authors, given["author"]):
        return f"wants the author {_either(rule.authors)}"
    if rule.titles and not _any_fits(rule.titles, given["title"]):
        return f"wants a title like {_either(rule.titles)}"
    if rule.paths and not _any_fits(rule.paths, given.get("path", ())):
        return f"wants a changed file like {_either(rule.paths)}"
    if rule.branches and not _any_fits(rule.branches, given.get("branch", ())):
        return f"wants the branch {_either(rule.branches)}"
    if rule.checks and not _any_fits(rule.checks, given.get("check", ())):
        return f"wants the check {_either(rule.checks)}"
    if event in CHECKS and not _any_fits(rule.conclusions or FAILED, given.get("conclusion", ())):
        return f"wants the conclusion {_either(rule.conclusions or FAILED)}"
    if rule.draft is not None and rule.draft != draft:
        return "wants a draft" if rule.draft else "does not want a draft"
    return ""


def unreachable(rules: Rules) -> tuple[tuple[Rule, Rule], ...]:
    """The rules that never decide, each with the earlier rule that always decides first."""
    return tuple(
        (late, first)
        for n, late in enumerate(rules.rules)
        for first in rules.rules[:n]
        if set(late.events) <= set(first.events) and _covers(first, late)
    )


def _covers(first: Rule, late: Rule) -> bool:
    """Whether `first` matches everything that `late` does: each of its patterns is absent or the same."""
    parts = ("labels", "authors", "titles", "paths", "branches", "checks", "conclusions")
    pairs = ((getattr(first, part), getattr(late, part)) for part in parts)
    wider = all(not ours or (theirs and set(theirs) <= set(ours)) for ours, theirs in pairs)
    if set(late.events) & {*CHECKS}:  # no conclusion means a failure, not any
        wider = wider and set(late.conclusions or FAILED) <= set(first.conclusions or FAILED)
    return wider and first.draft in (None, late.draft)


def _any_fits(patterns: Iterable[str], texts: Iterable[str]) -> bool:
    folded = [text.lower() for text in texts]
    return any(fnmatchcase(text, pattern.lower()) for pattern in patterns for text in folded)


def _either(patterns: tuple[str, ...]) -> str:
    return " or ".join(patterns)
