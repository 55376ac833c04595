"""The file of rules: what it may say, and what is said about mistakes in it."""

from __future__ import annotations

import pytest

from interlock.core.errors import InvalidInput
from interlock.core.model import Policy
from interlock.github.rulefile import parse
from interlock.github.rules import DEFAULTS, RuleAction, unreachable

WHOLE = """
anyone_wakes = true

[agents]
"Coder-Bot[bot]" = "Coder"

[priorities]
Bug = 7

[[rule]]
event = "pull_request"
action = ["opened", "synchronize"]
author = "dependabot*"
path = ["docs/**", "*.md"]
draft = false
type = "pr_review"
priority = 3
lane = "docs:{repository}"
agent = "critic"
policy = "latest"
timeout = "30m"

[[rule]]
event = "issue_comment.created"
author = "noisy-bot"
do = "ignore"
"""


def test_a_file_says_everything_a_rule_can() -> None:
    rules = parse(WHOLE)
    first, second = rules.rules[:2]
    assert first.events == ("pull_request.opened", "pull_request.synchronize")
    assert (first.authors, first.paths, first.draft) == (("dependabot*",), ("docs/**", "*.md"), False)
    assert (first.priority, first.lane, first.agent) == (3, "docs:{repository}", "critic")
    assert (first.policy, first.timeout_s) == (Policy.LATEST, 1800.0)
    assert second.does is RuleAction.IGNORE
    assert rules.rules[2:] == DEFAULTS
    assert rules.agents == {"coder-bot[bot]": "coder"}
    assert (rules.priorities["bug"], rules.priorities["security"]) == (7, 9)
    assert rules.anyone_wakes


def test_an_event_without_an_action_means_all_of_them() -> None:
    (rule,) = parse('defaults = false\n[[rule]]\nevent = "issues"\ntype = "x"').rules
    assert rule.events == ("issues.opened", "issues.reopened", "issues.labeled", "issues.assigned")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x", "is not valid TOML"),
        ("colour = 1", "has the unknown field 'colour'"),
        ("rule = 1", "is not a list of tables"),
        ("[[rule]]\ntype = 'x'", "Rule 1 of .github/interlock.toml has no event"),
        ("[[rule]]\nevent = 'issues.opend'\ntype = 'x'", "the event 'issues.opend', which creates no work"),
        ("[[rule]]\nevent = 'issues.opened'", "has no type"),
        ("[[rule]]\nevent = 'issues.opened'\ntype = 'a b'", "The type 'a b'"),
        ("[[rule]]\nevent = 'issues.opened'\ntype = 'x'\nlabel = 3", "`label` of rule 1"),
        ("[[rule]]\nevent = 'issues.opened'\ntype = 'x'\nlane = '{x}'", "braces around something else"),
        ("[[rule]]\nevent = 'issues.opened'\ntype = 'x'\nlane = 'a b'", "The lane 'a b'"),
        ("[[rule]]\nevent = 'issues.opened'\ntype = 'x'\npolicy = 'best'", "cannot be 'best'"),
        ("[[rule]]\nevent = 'issues.opened'\ntype = 'x'\ntimeout = 'soon'", "is not a duration"),
        ("[[rule]]\nevent = 'issues.opened'\ntype = 'x'\npriority = 5000", "is 5000"),
        ("[agents]\nx = 1", "is not a table of texts"),
        ("[priorities]\nbug = 'high'", "is not a table of whole numbers"),
        ("anyone_wakes = 'yes'", "Use true or false"),
        ("[[rule]]\nevent='issues.opened'\ntype='x'\n" * 201, "has 201 rules"),
        ("#" * (1 << 19), "is larger than"),
    ],
)
def test_a_mistake_is_named(text: str, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence.replace("(", r"\(").replace("{", r"\{")):
        parse(text)


def test_a_rule_that_never_decides_is_found() -> None:
    rules = parse(
        """
        [[rule]]
        event = "issues.labeled"
        type = "any"
        [[rule]]
        event = "issues.labeled"
        label = "bug"
        type = "bug"
        [[rule]]
        event = ["issues.labeled", "issues.opened"]
        type = "more"
        """
    )
    found = {(late.type, first.type) for late, first in unreachable(rules)}
    assert ("bug", "any") in found
    assert not any(late == "more" for late, _ in found)
