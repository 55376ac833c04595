"""`github doctor`: finds what will not work with this token and this repository, and why. It only reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from interlock.core.errors import GitHubLimited, GitHubRefused, GitHubUnavailable, InvalidInput
from interlock.github.client import GitHub
from interlock.github.lookup import Reader
from interlock.github.remarks import ACTIONS_BOT
from interlock.github.rules import PRIORITIES, Rules
from interlock.service.contract import CheckView

_REPO = "/repos/{+repo}"
LABELS_MAX, HOOKS_MAX = 1_000, 100
#: A smaller clock skew harms neither signatures nor leases.
SKEW_MAX_S = 30.0
#: Fewer remaining requests of the hour are too few.
LEFT_MIN = 0.1
_Check = Callable[[GitHub, Mapping[str, Any]], Iterator[CheckView]]
#: The events that the intake uses.
EVENTS = frozenset(
    {
        "issues",
        "issue_comment",
        "pull_request",
        "pull_request_review",
        "pull_request_review_comment",
        "workflow_run",
    }
)
#: The reads of CI outcomes, by the permission that they need.
_OF_CHECKS = {
    "checks": _REPO + "/commits/{branch}/check-runs",
    "statuses": _REPO + "/commits/{branch}/status",
    "actions": _REPO + "/actions/runs",
}
_ACCOUNTS = {
    "user": "a user",
    "app": "an app",
    "actions": "a job of Actions: its events start no workflow, and it cannot assign a hosted agent",
}


NO_TOKEN = CheckView(
    name="token",
    ok=False,
    detail="No GitHub token: Interlock cannot read from or write to GitHub.",
    mend="Set INTERLOCK_GITHUB_TOKEN, GH_TOKEN, or the variables of an app.",
)


def check_up(github: GitHub, repo: str, accounts: Sequence[str] = ()) -> list[CheckView]:
    """Check a repository. Checks that depend on a missing answer are skipped.

    `accounts` has the accounts that runs reported.
    """
    try:
        found = github.get(_REPO, repo=repo).body
    except (GitHubLimited, GitHubRefused, GitHubUnavailable) as error:
        mend = (
            "Give the token access to the repository, or correct the name."
            if isinstance(error, GitHubRefused)
            else ""
        )
        return [_of("repository", error.sentence, mend or error.hint)]
    checks: Mapping[str, _Check] = {
        "access": _access,
        "account": partial(_account, accounts=accounts),
        "rules": _rules,
        "checks": _checks,
        "webhook": _webhook,
        "limits": _limits,
    }
    return [each for name, check in checks.items() for each in _tried(name, check, github, found)]


def _tried(name: str, check: _Check, github: GitHub, found: Mapping[str, Any]) -> Iterator[CheckView]:
    try:
        yield from check(github, found)
    except (GitHubLimited, GitHubRefused, GitHubUnavailable) as error:
        yield _of(name, error.sentence, error.hint)


def _access(github: GitHub, found: Mapping[str, Any]) -> Iterator[CheckView]:
    who = _ACCOUNTS[github.token.kind]
    yield _of("token", f"Requests come from {who}.")
    name, rights = found["full_name"], found.get("permissions") or {}
    # A job's and an app's rights are set elsewhere, and an answer about the repository does not tell them.
    if github.token.kind == "user" and not rights.get("push"):
        yield _of(
            "access",
            f"The token can read {name} but not write to it: no comments, reactions, labels or assignments.",
            "Use a token whose account has write access.",
        )
        return
    if found.get("archived"):
        yield _of("access", f"{name} is archived, so it is read-only.", "Unarchive the repository.")
        return
    yield _of("access", f"{name} can be read and written." if rights.get("push") else f"{name} can be read.")


def _account(github: GitHub, found: Mapping[str, Any], accounts: Sequence[str]) -> Iterator[CheckView]:
    """Whether a person may write with the account of our token, or with one that runs reported."""
    reader, name = Reader(github), found["full_name"]
    own = reader.account() if github.token.kind == "user" else ACTIONS_BOT
    try:
        agents = reader.rules(name).agents
    except InvalidInput:
        return
    for login in dict.fromkeys((own, *accounts)):
        whose = f"The token is of {login}" if login == own else f"Runs write as {login}"
        if login in agents:
            yield _of("account", f"{whose}, the account of the agent {agents[login]}.")
        elif login != ACTIONS_BOT and reader.may_write(name, login):
            when = "" if login == own else " on the lane of such a run"
            yield _of(
                "account",
                f"{whose}, a person with write access to {name}: comments by {login}{when} wake no agent.",
                f"Use a token of an app or a bot. If only an agent uses {login}, add it to [agents].",
            )


def _rules(github: GitHub, found: Mapping[str, Any]) -> Iterator[CheckView]:
    name = found["full_name"]
    try:
        rules = Reader(github).rules(name)
    except InvalidInput as wrong:
        yield _of("rules", wrong.sentence, f"{wrong.hint} Deliveries wait until then.".strip())
        return
    own = sum(not rule.name.startswith("default:") for rule in rules.rules)
    yield _of("rules", f"{name} has {_many(own, 'rule')} of its own.")
    labels = github.pages(_REPO + "/labels", limit=LABELS_MAX, repo=name)
    there = {str(label["name"]).lower() for label in labels}
    missing = sorted(_wanted_labels(rules) - there)
    if missing:
        yield _of(
            "labels",
            f"The rules of {name} name labels that do not exist: {_list(missing)}.",
            "Create the labels, or correct the rules.",
        )
    else:
        yield _of("labels", "All labels in the rules exist.")


def _checks(github: GitHub, found: Mapping[str, Any]) -> Iterator[CheckView]:
    """Whether the checks of pull requests can be read."""
    name, branch = found["full_name"], found["default_branch"]
    missing = [each for each, route in _OF_CHECKS.items() if not _readable(github, route, name, branch)]
    if missing:
        yield _of(
            "checks",
            f"The token cannot read {_list(missing)}, so the CI outcome of runs is incomplete.",
            "Give the token permission to read them.",
        )
    else:
        yield _of("checks", "Checks, statuses and workflow runs can be read.")


def _readable(github: GitHub, route: str, name: str, branch: str) -> bool:
    try:
        github.get(route, query={"per_page": 1}, repo=name, branch=branch)
    except GitHubRefused as refused:
        return refused.status != 403  # a repository without a commit has no checks
    return True


def _webhook(github: GitHub, found: Mapping[str, Any]) -> Iterator[CheckView]:
    name = found["full_name"]
    try:
        hooks = list(github.pages(_REPO + "/hooks", limit=HOOKS_MAX, repo=name))
    except GitHubRefused as refused:
        if refused.status not in (403, 404):
            raise
        yield _of("webhook", "Webhooks were not checked: only an administrator's token can read them.")
        return
    heard = {event for hook in hooks if hook["active"] for event in hook["events"]}
    if not heard:
        yield _of("webhook", "No active webhook: events arrive through Actions only.")
        return
    missing = sorted(EVENTS - heard) if "*" not in heard else []
    failing = [hook for hook in hooks if hook["active"] and (hook["last_response"].get("code") or 200) >= 300]
    if missing:
        yield _of("webhook", f"No webhook sends {_list(missing)}.", "Choose them in the webhook's settings.")
    elif failing:
        code = failing[0]["last_response"]["code"]
        yield _of(
            "webhook",
            f"The webhook {failing[0]['config'].get('url', '')} answered its last delivery with {code}.",
            "Check its recent deliveries. GitHub does not redeliver by itself.",
        )
    else:
        yield _of("webhook", "A webhook sends every event that creates work.")


def _limits(github: GitHub, _found: Mapping[str, Any]) -> Iterator[CheckView]:
    known = github.limits.remaining()
    if known is not None:
        left, hourly = known
        few = left < LEFT_MIN * hourly
        yield _of("allowance", f"{left:,} of {hourly:,} requests are left this hour.", _FEW if few else "")
    skew_s = github.limits.skew_s
    if skew_s is not None:
        off = abs(skew_s) > SKEW_MAX_S
        told = (
            f"This machine's clock is {abs(skew_s):.0f} s {'behind' if skew_s > 0 else 'ahead of'} GitHub's."
        )
        yield _of("clock", told if off else "The clock agrees with GitHub's.", _SET if off else "")


_FEW = "Background reads wait for the next hour."
_SET = "Set the clock: GitHub rejects tokens that an app signs with a time in the future."


def _wanted_labels(rules: Rules) -> set[str]:
    """Labels that rules name literally. Labels of the default priorities need not exist."""
    named = {label.lower() for rule in rules.rules for label in rule.labels if not set("*?[") & set(label)}
    return named | (set(rules.priorities) - set(PRIORITIES))


def _of(name: str, detail: str, mend: str = "") -> CheckView:
    return CheckView(name=name, ok=not mend, detail=detail, mend=mend)


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count or 'no'} {what}s"


def _list(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
