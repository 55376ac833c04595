"""Whom a remark wakes, and why nobody."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.core.model import A_PERSON, AN_OUTSIDER, OUR_BOT, Sender, SenderKind
from interlock.github.facts import NumberFacts, NumberState
from interlock.github.remarks import Remark, mark
from interlock.github.rulefile import parse
from interlock.github.rules import Rules
from interlock.github.wake_rules import RemarkOutcome, remark_outcome

AGENTS = '[agents]\ncoder-bot = "coder"\ncto-bot = "cto"\n'
RULES = parse(AGENTS)


def facts(**parts: Any) -> NumberFacts:
    given: dict[str, Any] = {"pull": False, "state": NumberState.OPEN, "title": "Login", "author": "alice"}
    return NumberFacts(repository=7, name="acme/app", number=42, url="", **{**given, **parts})


def remark(text: str = "Look.", author: str = "alice", **parts: Any) -> Remark:
    given: dict[str, Any] = {"kind": "issue_comment", "bot": False, "url": "", "state": ""}
    return Remark(id=5, number=42, author=author, text=text, **{**given, **parts})


def hear(
    said: Remark, about: NumberFacts | None = None, rules: Rules = RULES, *, may_write: bool = True
) -> RemarkOutcome:
    about = about or facts(assignees=("coder-bot",))
    return remark_outcome(
        said, about, rules, may_write=may_write, known=["tester"], own=frozenset({"interlock[bot]"})
    )


def woken(answer: RemarkOutcome) -> dict[str, str]:
    return {wake.agent: wake.reason for wake in answer.wakes}


class TestPeople:
    def test_wake_whom_the_issue_belongs_to_and_all_that_they_name_once(self) -> None:
        answer = hear(remark("@cto-bot and @coder, and @tester, @coder again"))
        assert woken(answer) == {
            "cto": "issue_comment_mentioned",
            "coder": "issue_comment_mentioned",
            "tester": "issue_comment_mentioned",
        }
        assert answer.sender == A_PERSON

    def test_wake_the_assignee_without_naming_it(self) -> None:
        answer = hear(remark("And @cto?"))
        assert woken(answer) == {"cto": "issue_comment_mentioned", "coder": "issue_commented"}

    def test_wake_anyone_where_the_issue_belongs_to_no_agent(self) -> None:
        assert woken(hear(remark(), facts(assignees=("bob",)))) == {"": "issue_commented"}

    def test_wake_the_agent_that_opened_the_pull_request(self) -> None:
        assert woken(hear(remark(), facts(pull=True, author="cto-bot"))) == {"cto": "issue_commented"}

    def test_without_the_right_to_write_start_nothing(self) -> None:
        answer = hear(remark("@coder /interlock\n/interlock cancel", "mallory"), may_write=False)
        assert (answer.sender, answer.wakes, answer.told, answer.commands) == (AN_OUTSIDER, (), True, ())
        assert answer.why == "mallory has no write access to the repository."

    def test_without_the_right_wake_where_the_rules_say_so_and_command_nothing(self) -> None:
        anyone = parse(AGENTS.replace("[agents]", "anyone_wakes = true\n[agents]"))
        answer = hear(remark("Look.\n/interlock cancel", "bob"), rules=anyone, may_write=False)
        assert woken(answer) == {"coder": "issue_commented"}
        assert (answer.sender, answer.commands) == (A_PERSON, ())

    def test_give_commands(self) -> None:
        answer = hear(remark("/interlock priority 9\n"))
        assert [(each.name, each.argument) for each in answer.commands] == [("priority", "9")]
        assert (answer.wakes, answer.told) == ((), False)
        assert answer.why == "It contains only commands."

    @pytest.mark.parametrize("text", ["", " \n", "<!-- nothing -->"])
    def test_who_say_nothing_wake_nobody(self, text: str) -> None:
        answer = hear(remark(text))
        assert (answer.wakes, answer.told, answer.why) == ((), False, "It has no text.")


class TestAgents:
    def test_wake_whom_they_name_but_never_themselves(self) -> None:
        answer = hear(remark("@coder-bot, @cto: done", "coder-bot"))
        assert woken(answer) == {"cto": "issue_comment_mentioned"}
        assert answer.sender == Sender(SenderKind.AGENT, "coder")

    def test_that_name_nobody_wake_nobody(self) -> None:
        answer = hear(remark("Done.", "cto-bot"))
        assert (answer.wakes, answer.told) == ((), True)
        assert answer.why == "It mentions no known agent."

    def test_are_known_by_their_mark_where_all_write_as_one(self) -> None:
        said = remark(f"@coder @cto {mark(agent='cto')}", "github-actions[bot]", bot=True)
        assert woken(hear(said)) == {"coder": "issue_comment_mentioned"}

    def test_our_own_bot_does_nothing(self) -> None:
        answer = hear(remark("@coder", "interlock[bot]", bot=True))
        assert (answer.sender, answer.wakes, answer.told) == (OUR_BOT, (), False)


class TestReviews:
    PULL = facts(pull=True, author="coder-bot")

    def review(self, state: str, text: str = "", author: str = "alice") -> Remark:
        return remark(text, author, kind="pull_request_review", state=state)

    def test_that_want_changes_wake_the_author_without_a_word(self) -> None:
        assert woken(hear(self.review("changes_requested"), self.PULL)) == {
            "coder": "pull_request_changes_requested"
        }

    def test_of_another_agent_that_want_changes_wake_the_author(self) -> None:
        answer = hear(self.review("changes_requested", "No.", "cto-bot"), self.PULL)
        assert woken(answer) == {"coder": "pull_request_changes_requested"}

    def test_that_want_changes_of_a_person_wake_nobody(self) -> None:
        assert hear(self.review("changes_requested"), facts(pull=True)).wakes == ()

    @pytest.mark.parametrize("state", ["approved", "commented"])
    def test_that_want_nothing_tell_and_wake_whom_they_name(self, state: str) -> None:
        answer = hear(self.review(state, "Nice."), self.PULL)
        assert (answer.wakes, answer.told) == ((), True)
        assert woken(hear(self.review(state, "@cto?"), self.PULL)) == {"cto": "issue_comment_mentioned"}


class TestRules:
    def test_a_rule_chooses_by_who_wrote_the_remark_not_by_who_opened_the_issue(self) -> None:
        own = parse(AGENTS + '[[rule]]\nevent = "issue_comment.created"\nauthor = "bob"\ndo = "ignore"\n')
        answer = hear(remark(author="bob"), rules=own)
        assert (answer.wakes, answer.told, answer.why) == ((), False, "The rule ignores it.")
        assert woken(hear(remark(), rules=own)) == {"coder": "issue_commented"}

    def test_a_rule_may_only_tell(self) -> None:
        own = parse(AGENTS + '[[rule]]\nevent = "issue_comment.created"\ndo = "annotate"\n')
        answer = hear(remark("@cto"), rules=own)
        assert (answer.wakes, answer.told) == ((), True)

    def test_a_rule_may_name_the_agent_and_the_priority(self) -> None:
        own = parse(
            AGENTS
            + '[[rule]]\nevent = "issue_comment.created"\ntype = "chat"\nagent = "tester"\npriority = 4\n'
        )
        answer = hear(remark("@cto"), rules=own)
        assert (woken(answer), answer.priority) == ({"tester": "issue_commented"}, 4)

    def test_labels_give_the_priority_otherwise(self) -> None:
        assert hear(remark(), facts(labels=("bug",))).priority == 8

    def test_without_a_rule_a_remark_is_told(self) -> None:
        none = parse("defaults = false\n" + AGENTS)
        answer = hear(remark(), rules=none)
        assert (answer.rule, answer.wakes, answer.told, answer.why) == (None, (), True, "No rule matches.")


@pytest.mark.parametrize("state", [NumberState.COMPLETED, NumberState.MERGED, NumberState.DROPPED])
def test_what_is_over_wakes_nobody(state: NumberState) -> None:
    answer = hear(remark("@coder\n/interlock retry"), facts(state=state))
    assert (answer.wakes, answer.told, answer.commands, answer.why) == ((), False, (), f"#42 is {state}.")
