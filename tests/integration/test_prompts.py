"""An agent's prompts become questions of its live run: the inputs that each agent program gives its hooks.

The inputs in `tests/hook_inputs` have the form of the programs' public schemas, as of November 2026.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.core.record import replace
from interlock.core.timing import LIVE_QUESTION_TIMEOUT_S
from interlock.hook.hook import Hook, HookEvent, read_event
from interlock.hook.prompts import MAX_CHARS, question_of
from interlock.service.contract import ItemFilter, LaneService, Report
from tests.integration.test_hook import Session, session

__all__ = ["session"]

INPUTS = Path(__file__).parents[1] / "hook_inputs"
LAST_SAID = "Shall I also change the tests?"
MAY_INSTALL = "May the agent use Bash? (Install the dependencies) npm install"

QUESTIONS = {
    "claude/permission_request": MAY_INSTALL,
    "claude/permission_request_of_subagent": "May the agent use WebFetch? https://example.com/docs",
    "claude/permission_request_of_edit": "May the agent use Edit? /home/anna/app/login.py",
    "claude/permission_prompt": "Claude needs your permission to use Bash",
    "claude/permission_prompt_without_type": "Claude needs your permission to use Bash",
    "claude/idle_prompt": f"Claude is waiting for your input: {LAST_SAID}",
    "claude/elicitation_dialog": "Claude Code needs your input",
    "claude/auth_success": "",
    "claude/ask_user_question": "Which database? (PostgreSQL / SQLite)",
    "codex/permission_request": MAY_INSTALL,
    "codex/permission_request_of_network": "May the agent use Bash? (network-access example.com)"
    " curl https://example.com",
    "gemini/tool_permission": "Tool Confirm Shell Command requires execution: npm install",
    "gemini/tool_permission_of_edit": "Tool Confirm Write requires editing: /home/anna/app/login.py",
}
#: What each program does once the prompt that was asked about was answered.
ANSWERS = {
    "claude/permission_request": ("after_bash", "bash_failed", "before_read", "user_prompt", "stop"),
    "claude/permission_prompt": ("after_bash", "before_read", "user_prompt", "stop"),
    "claude/idle_prompt": ("user_prompt",),
    "claude/ask_user_question": ("ask_user_question_answered", "user_prompt"),
    "codex/permission_request": ("after_bash", "before_bash", "stop"),
    "gemini/tool_permission": ("after_tool", "before_tool", "before_agent", "after_agent"),
}


def given(name: str) -> HookEvent:
    return read_event((INPUTS / f"{name}.json").read_text(encoding="utf-8"))


def call(session: Session, name: str, **changes: Any) -> dict[str, Any]:
    """One call of the hook, as a process of its own."""
    hook = Hook(
        session.lease.run,
        lanes=session._look,
        home=session.home,
        environ=session.environ,
        now_s=lambda: session.now_s,
    )
    reply = hook.answer(replace(given(name), directory=session.tree, **changes))
    hook.written()
    return reply


def asked(session: Session) -> list[str | None]:
    return [item.question for item in session.service.items(ItemFilter(asking=True))]


def kinds(session: Session) -> list[str]:
    events = session.service.show(session.lease.item.id).events
    return [event.kind for event in events if event.kind.startswith("question.")]


def left_s(session: Session) -> float:
    item = session.service.show(session.lease.item.id).item
    assert item.expires_at is not None
    return item.expires_at.timestamp() - session.now_s


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_question_of_a_prompt(name: str) -> None:
    assert question_of(given(name), LAST_SAID) == QUESTIONS[name]


def test_every_input_of_a_prompt_has_its_question_here() -> None:
    found = {f"{path.parent.name}/{path.stem}" for path in INPUTS.glob("*/*.json")}
    prompts = {name for name in found if given(name).step in ("PermissionRequest", "Notification")}
    assert prompts | {"claude/ask_user_question"} == QUESTIONS.keys()


def test_a_long_prompt_is_cut_and_odd_ones_are_put_in_words() -> None:
    event = given("claude/permission_request")
    long = question_of(replace(event, given={"command": "x" * 10_000}), "")
    assert (len(long), long[-2:]) == (MAX_CHARS, "x…")
    assert question_of(replace(event, given={"n": [1]}), "") == 'May the agent use Bash? {"n": [1]}'
    assert question_of(replace(event, given={}, tool=""), "") == "May the agent use a tool?"
    odd = {
        "questions": [None, {"question": "Why?", "options": "no list"}, {"question": "How?", "options": [1]}]
    }
    assert question_of(replace(event, given=odd), "") == "Why?\nHow? (1)"


@pytest.mark.parametrize("name", ANSWERS)
def test_a_prompt_lets_the_run_ask_and_keep_its_lease(session: Session, name: str) -> None:
    if name == "claude/idle_prompt":
        call(session, "claude/stop")
    assert call(session, name) == {}
    assert asked(session) == [QUESTIONS[name]]
    assert left_s(session) == LIVE_QUESTION_TIMEOUT_S
    session.now_s += LIVE_QUESTION_TIMEOUT_S - 1
    session.service.sweep()
    assert session.service.renew([Report(run=session.lease.run)])[0].status == "running"
    assert kinds(session) == ["question.asked"]


@pytest.mark.parametrize(
    ("name", "answer"), [(name, answer) for name, answers in ANSWERS.items() for answer in answers]
)
def test_the_agent_goes_on_after_an_answer_at_its_terminal(session: Session, name: str, answer: str) -> None:
    call(session, name)
    session.now_s += 1_000
    call(session, f"{name.partition('/')[0]}/{answer}")
    assert asked(session) == []
    assert left_s(session) == 60
    assert kinds(session) == ["question.asked", "question.answered"]
    call(session, name)
    assert len(asked(session)) == 1


def test_one_prompt_asks_once_though_two_hooks_tell_of_it(session: Session) -> None:
    call(session, "claude/permission_request")
    session.now_s += 6
    call(session, "claude/permission_prompt")
    call(session, "claude/permission_request")
    assert kinds(session) == ["question.asked"]
    assert asked(session) == [MAY_INSTALL]
    call(session, "claude/permission_request_of_edit")
    assert kinds(session) == ["question.asked"] * 2


@pytest.mark.parametrize("other", ["after_read", "before_read_of_subagent", "auth_success"])
def test_what_goes_on_beside_an_open_prompt_answers_nothing(session: Session, other: str) -> None:
    call(session, "claude/permission_request")
    session.now_s += 30
    call(session, f"claude/{other}")
    assert asked(session) == [MAY_INSTALL]
    assert left_s(session) == LIVE_QUESTION_TIMEOUT_S - 30


def test_a_prompt_of_a_subagent_is_open_while_the_main_agent_goes_on(session: Session) -> None:
    call(session, "claude/permission_request_of_subagent")
    call(session, "claude/before_read")
    assert len(asked(session)) == 1
    call(session, "claude/before_read_of_subagent")
    assert asked(session) == []


def test_the_answer_from_elsewhere_reaches_the_agent_with_its_next_tool(session: Session) -> None:
    call(session, "claude/permission_request")
    session.service.msg(session.lease.item.id, "No, use pnpm.", author="anna")
    assert asked(session) == []
    session.now_s += 2_000
    told = call(session, "claude/after_bash")["hookSpecificOutput"]["additionalContext"]
    assert "from anna: No, use pnpm." in told
    assert MAY_INSTALL in told
    assert left_s(session) == 60
    assert kinds(session) == ["question.asked", "question.answered"]


def test_an_answer_reaches_a_gemini_agent_after_its_tool_not_before(session: Session) -> None:
    call(session, "gemini/tool_permission")
    session.service.msg(session.lease.item.id, "Yes.", author="anna")
    assert call(session, "gemini/before_tool") == {}
    session.now_s += 10
    output = call(session, "gemini/after_tool")["hookSpecificOutput"]
    assert output["hookEventName"] == "AfterTool"
    assert "from anna: Yes." in output["additionalContext"]


def test_a_gemini_agent_that_lost_its_lease_may_not_push(session: Session) -> None:
    assert call(session, "gemini/before_push") == {}
    session.lose()
    reply = call(session, "gemini/before_push")
    assert reply["decision"] == "deny"
    assert "git push is refused" in reply["reason"]


def test_a_session_that_ends_at_its_prompt_gives_the_lease_its_usual_length_again(session: Session) -> None:
    call(session, "claude/permission_request")
    call(session, "claude/session_end")
    assert asked(session) == []
    assert left_s(session) == 60


def test_a_prompt_after_the_time_out_finds_the_run_ended(session: Session) -> None:
    call(session, "claude/permission_request")
    session.now_s += LIVE_QUESTION_TIMEOUT_S
    session.service.sweep()
    told = call(session, "claude/after_bash")["hookSpecificOutput"]["additionalContext"]
    assert "Your lease on this item is lost" in told
    assert call(session, "claude/permission_request") == {}
    assert asked(session) == [MAY_INSTALL]


def test_a_store_that_is_away_stops_no_prompt_and_is_asked_again(session: Session) -> None:
    session.down = True
    assert call(session, "claude/permission_request") == {}
    session.down = False
    call(session, "claude/permission_prompt")
    assert asked(session) == [QUESTIONS["claude/permission_prompt"]]
    session.down = True
    call(session, "claude/after_bash")
    assert len(asked(session)) == 1
    session.down = False
    session.now_s += 10
    call(session, "claude/before_read")
    assert asked(session) == []


def test_a_store_without_questions_is_left_alone(session: Session) -> None:
    class Lanes:
        """Like lanes in git."""

        def __init__(self, lanes: LaneService) -> None:
            self.renew, self.inbox, self.close = lanes.renew, lanes.inbox, lambda: None

    look = session._look
    session._look = lambda: Lanes(look())  # type: ignore[assignment, method-assign, return-value]
    assert call(session, "claude/permission_request") == {}
    assert call(session, "claude/after_bash") == {}
    assert asked(session) == []
