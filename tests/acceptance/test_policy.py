"""`interlock policy`: checks the rules for GitHub's events, and tries them on deliveries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.command import Command, CommandHere

REPOSITORY = {"id": 7, "full_name": "acme/App"}
ALICE = {"login": "alice", "type": "User"}


def issue(**parts: Any) -> dict[str, Any]:
    known = {
        "number": 42,
        "state": "open",
        "title": "Login fails",
        "user": ALICE,
        "html_url": "https://github.com/acme/App/issues/42",
        "labels": [{"name": "bug"}],
        "assignees": [],
        "body": "",
        "updated_at": "2026-11-01T12:00:00Z",
    }
    return known | parts


@pytest.fixture
def here(tmp_path: Path) -> Command:
    return CommandHere(tmp_path)


def rules(here: Command, text: str) -> None:
    path = here.directory / ".github" / "interlock.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


def payload(here: Command, name: str, **parts: Any) -> str:
    body = {"repository": REPOSITORY, "sender": ALICE, "issue": issue(), **parts}
    (here.directory / name).write_text(json.dumps(body))
    return name


class TestCheck:
    def test_every_mistake_of_form_is_named_at_once(self, here: Command):
        rules(
            here,
            "anyone_wakes = 'yes'\nstrange = 1\n[priorities]\nbug = 5000\n"
            "[[rule]]\nevent = 'nothing.ever'\npriority = 'x'\n"
            "[[rule]]\nevent = 'issues.opened'\ntype = 'a b'\ndraft = 3\npolicy = 'no'\n",
        )
        answer = here("--json", "policy", "check")
        said = [each["message"] for each in json.loads(answer.out)["findings"]]
        assert (answer.code, len(said)) == (1, 9), said

    def test_rules_without_a_mistake(self, here: Command):
        rules(here, '[[rule]]\nevent = "issues.labeled"\nlabel = "bug"\ntype = "fix"\n')
        assert here("policy", "check").out == ".github/interlock.toml: 1 rule, no known mistake.\n"

    def test_a_rule_that_never_decides_is_named_with_the_one_before_it(self, here: Command):
        rules(
            here,
            '[[rule]]\nevent = "issues.labeled"\ntype = "any"\n'
            '[[rule]]\nevent = "issues.labeled"\nlabel = "bug"\ntype = "fix"\n',
        )
        answer = here("policy", "check")
        assert answer.code == 1
        assert answer.out.splitlines() == [
            "rule 2 of .github/interlock.toml: unreachable",
            "  This rule never matches: rule 1 of .github/interlock.toml always matches before it.",
            "  Move it before that one, or remove it.",
            ".github/interlock.toml: 2 rules, 1 mistake.",
        ]

    def test_an_agent_that_the_store_does_not_know_is_named_with_the_nearest(self, here: Command):
        rules(here, '[agents]\nbot = "codr"\n[[rule]]\nevent = "issues"\ntype = "x"\nagent = "zoe"\n')
        assert here("policy", "check").code == 0  # there is no store yet
        here.ok("agents", "set", "coder")
        found = json.loads(here("--json", "policy", "check").out)["findings"]
        assert [(each["rule"], each["code"], each["mend"]) for each in found] == [
            (
                "rule 1 of .github/interlock.toml",
                "unknown_agent",
                "`interlock agents set zoe` makes it known.",
            ),
            ("[agents] bot", "unknown_agent", "Did you mean 'coder'?"),
        ]

    @pytest.mark.parametrize(
        ("text", "code"),
        [
            ('[[rule]]\nevent = "issues.opened"\npath = "src/*"\ntype = "x"\n', "no_paths"),
            ('[[rule]]\nevent = "issues.opened"\ndo = "annotate"\n', "tells_nothing"),
            ('[[rule]]\nevent = "issues.opened"\ndraft = true\ntype = "x"\n', "no_drafts"),
            ('[[rule]]\nevent = "issues.opened"\ntype = "x"\ntimeout = -5\n', "unreadable"),
            ('[[rule]]\nevent = "issues.opened"\ntype = "x"\npriority = "5"\n', "unreadable"),
            ("[[rule]\n", "unreadable"),
        ],
    )
    def test_a_rule_that_cannot_mean_what_it_says(self, here: Command, text: str, code: str):
        rules(here, text)
        found = json.loads(here("--json", "policy", "check").out)["findings"]
        assert [each["code"] for each in found] == [code]

    def test_a_mistake_of_form_is_one_sentence_with_the_rule(self, here: Command):
        rules(here, '[[rule]]\nevent = "issues.exploded"\ntype = "x"\n')
        answer = here("policy", "check")
        assert answer.code == 1
        assert answer.out.splitlines()[:2] == [
            ".github/interlock.toml: unreadable",
            "  Rule 1 of .github/interlock.toml has the event 'issues.exploded', which creates no work.",
        ]

    def test_no_rules(self, here: Command):
        answer = here("policy", "check")
        assert answer.code == 2
        assert answer.err.startswith(".github/interlock.toml cannot be read: No such file or directory.")


class TestTrying:
    def test_says_what_would_be_made_by_which_rule_and_why_not_by_those_before(self, here: Command):
        rules(
            here,
            '[[rule]]\nevent = "issues.labeled"\nlabel = "docs"\ntype = "write"\n'
            '[[rule]]\nevent = "issues.labeled"\nlabel = "bug"\ntype = "fix"\nagent = "coder"\n'
            'lane = "none"\n',
        )
        name = payload(here, "labeled.json", action="labeled")
        assert here("policy", "test", name).out.splitlines() == [
            'issues.labeled on acme/App#42 "Login fails" (labeled.json)',
            "  issues.opened: default: issues matches",
            "    issue_triage for any agent, priority 8, on lane issue:acme/app#42, coalesce",
            "  issues.labeled bug: rule 2 of .github/interlock.toml matches",
            "    fix for coder, priority 8, without a lane, coalesce",
            "    rule 1 of .github/interlock.toml wants the label docs",
        ]

    def test_without_rules_the_defaults_are_tried(self, here: Command):
        closed = payload(
            here, "closed.json", action="closed", issue=issue(state="closed", state_reason="not_planned")
        )
        assert here("policy", "test", closed).out.splitlines()[1:] == [
            "  Ends (closed_undone): waiting items are cancelled, running items are asked to stop.",
            "  issues.closed: no rule matches",
        ]

    def test_a_comment_and_one_of_somebody_who_may_not_write(self, here: Command):
        rules(here, '[agents]\ncoder-bot = "coder"\n')
        comment = {"id": 5, "user": ALICE, "body": "@coder look", "html_url": ""}
        name = payload(here, "comment.json", action="created", comment=comment)
        made = json.loads(here("--json", "policy", "test", name).out)["trials"][0]["steps"][0]["makes"]
        assert [(each["agent"], each["reason"]) for each in made] == [("coder", "issue_comment_mentioned")]
        assert here("policy", "test", "--outsider", name).out.splitlines()[1:] == [
            "  issue_comment.created: alice has no write access to the repository"
        ]

    def test_an_edited_comment_wakes_nobody(self, here: Command):
        comment = {"id": 5, "user": ALICE, "body": "@coder look", "html_url": ""}
        name = payload(here, "comment.json", action="edited", comment=comment)
        assert here("policy", "test", name).out.splitlines()[1:] == [
            "  issue_comment.edited: a remark that was edited wakes no agent"
        ]

    def test_a_payload_without_facts_is_not_tried(self, here: Command):
        (here.directory / "star.json").write_text(json.dumps({"action": "created", "repository": REPOSITORY}))
        answer = here("policy", "test", "star.json")
        assert (answer.code, answer.err.splitlines()[0]) == (
            2,
            "The payload does not show its event.",
        )
        out = here("policy", "test", "--event", "star", "star.json").out
        assert out.splitlines()[1].startswith("  Not tried: ")

    @pytest.mark.parametrize("body", ["", "{", "\x00"])
    def test_what_is_no_json_is_said_to_be_none(self, here: Command, body: str):
        (here.directory / "odd.json").write_text(body)
        assert here("policy", "test", "odd.json").err.startswith("The payload is not valid JSON.")

    def test_what_misses_parts_is_not_tried(self, here: Command):
        name = payload(here, "odd.json", action="opened", issue={"number": 1})
        assert here("policy", "test", name).out.splitlines()[1:] == [
            "  Not tried: The payload is incomplete."
        ]


def test_the_schema_is_printed(here: Command):
    assert json.loads(here("policy", "schema").out)["properties"]["rule"]["maxItems"] == 200
