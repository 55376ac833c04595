"""An agent's hook on a real store: what it is told, when it is asked, and what it is refused.

The store's time and the hook's are one number that the test moves.
"""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock.core.errors import StoreUnavailable
from interlock.core.model import NewItem
from interlock.hook.hook import LOOK_S, LOOK_SHARE, MESSAGE_MAX_CHARS, Hook, HookEvent
from interlock.process.provider_limits import left_limit
from interlock.service.contract import LeaseView, Report
from interlock.service.local import LocalService
from interlock.store.sqlite.store import SqliteStore

PUSH = {"command": "cd app && git push origin main"}


class Session:
    """An agent's session for one run; each call makes a hook anew, as each is a process of its own."""

    def __init__(self, tmp_path: Path) -> None:
        self.now_s = 1_800_000_000.0
        self.home = tmp_path / ".interlock"
        self.tree = tmp_path / "tree"
        self.tree.mkdir()
        self.path = tmp_path / "store.db"
        self.environ: dict[str, str] = {}
        #: How often the store was opened by the hook.
        self.looks = 0
        self.down = False
        #: Whether the program that asks is gone before it has the answer.
        self.deaf = False
        #: Which look at the store finds it away.
        self.fails_at = 0
        #: How long the store takes to answer the hook.
        self.slow_s = 0.0
        self.service = self._open()
        self.service.add([NewItem(title="Fix the login", lane="issue:acme/app#42", lease_s=60)])
        self.lease = self.claim()

    def _open(self) -> LocalService:
        return LocalService(SqliteStore(self.path, now=lambda: round(self.now_s * 1_000_000)))

    def _look(self) -> LocalService:
        self.looks += 1
        self.now_s += self.slow_s
        if self.down or self.looks == self.fails_at:
            raise StoreUnavailable("Cannot reach the database.", "Wait.")
        return self._open()

    @property
    def unread(self) -> int:
        return self.service.renew([Report(run=self.lease.run)])[0].unread

    def claim(self) -> LeaseView:
        return self.service.next("coder")[0]

    def __call__(
        self,
        name: str,
        tool: str = "",
        given: dict[str, Any] | None = None,
        asked_before: bool = False,
        **more: Any,
    ) -> dict[str, Any]:
        hook = Hook(
            self.lease.run,
            lanes=self._look,
            home=self.home,
            environ=self.environ,
            now_s=lambda: self.now_s,
            prices=("claude-sonnet-4: 3, 15, 0.3",),
        )
        reply = hook.answer(
            HookEvent(
                name=name,
                directory=self.tree,
                tool=tool,
                given=given or {},
                asked_before=asked_before,
                **more,
            )
        )
        if not self.deaf:
            hook.written()
        return reply

    def told(self, name: str, tool: str = "Read", given: dict[str, Any] | None = None) -> str:
        """What the agent is told by an event that must decide nothing."""
        answer = self(name, tool, given)
        if not answer:
            return ""
        output = answer["hookSpecificOutput"]
        assert set(answer) == {"hookSpecificOutput"}
        assert set(output) == {"hookEventName", "additionalContext"}
        assert output["hookEventName"] == name
        return str(output["additionalContext"])

    def denied(self, tool: str, given: dict[str, Any]) -> str:
        """Why a tool call is refused; empty if it is not."""
        output = self("PreToolUse", tool, given).get("hookSpecificOutput", {})
        return str(output.get("permissionDecisionReason", "")) if "permissionDecision" in output else ""

    def lose(self) -> None:
        """The lease runs out, and another agent takes the item."""
        self.now_s += 61
        self.service.sweep()
        assert self.service.next("other")


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path)


# -- being told ---------------------------------------------------------------------------------------


def test_a_session_starts_with_the_item_its_messages_and_what_a_dead_run_left(session: Session):
    session.service.msg(session.lease.item.id, "the log is in #7", author="sam")
    session.environ |= {
        "INTERLOCK_PAYLOAD": "/run/payload.json",
        "INTERLOCK_SALVAGE": "refs/interlock/salvage/9",
    }
    told = session.told("SessionStart")
    assert "item 1 on lane issue:acme/app#42, attempt 1 of 3: Fix the login" in told
    assert "Message 1 from sam: the log is in #7" in told
    assert "/run/payload.json" in told
    assert "refs/interlock/salvage/9" in told


def test_a_message_is_delivered_once_and_marked_read_once_the_answer_is_written(session: Session):
    session.told("SessionStart")
    session.service.msg(session.lease.item.id, "also the logout", author="sam")
    session.now_s += 30
    session.deaf = True
    assert session.told("PostToolUse") == "Message 1 from sam: also the logout"
    assert session.unread == 1
    session.deaf = False
    assert session.told("PostToolUse") == "Message 1 from sam: also the logout"
    assert session.unread == 0
    session.now_s += 30
    assert session.told("PostToolUse") == ""


def test_a_mark_that_did_not_reach_the_store_is_sent_by_the_next_look(session: Session):
    session.service.msg(session.lease.item.id, "also the logout", author="sam")
    session.fails_at = 2  # the first look delivers, the second would mark
    assert "also the logout" in session.told("SessionStart")
    assert session.unread == 1
    session.now_s += 30
    assert session.told("PostToolUse") == ""
    assert session.unread == 0


def test_many_and_long_messages_are_delivered_in_pieces_and_none_is_skipped(session: Session):
    for n in range(5):
        session.service.msg(session.lease.item.id, f"{n}" * MESSAGE_MAX_CHARS * 2, author="sam")
    pieces = [session.told("SessionStart")]
    while pieces[-1]:
        session.now_s += 15
        pieces.append(session.told("PostToolUse"))
    assert max(map(len, pieces)) < 10_000
    seen = "\n".join(pieces)
    assert [f"Message {n} from sam" in seen for n in range(1, 6)] == [True] * 5
    assert "4,000 more characters" in seen


def test_a_cancel_request_is_reported_once_and_does_not_hold_up_the_stop(session: Session):
    session.service.msg(session.lease.item.id, "one more thing")
    session.service.cancel(session.lease.item.id, why="not needed")
    assert "You are asked to stop" in session.told("PreToolUse")
    session.now_s += 6
    assert "asked to stop" not in session.told("PostToolUse")
    assert session("Stop") == {}


# -- renewing -----------------------------------------------------------------------------------------


def test_tool_use_renews_the_lease_at_most_every_few_seconds(session: Session):
    for _ in range(100):
        session("PreToolUse", "Read")
        session("PostToolUse", "Read")
    assert session.looks == 1
    for _ in range(10):
        session.now_s += 12
        session("PreToolUse", "Read")
        session("PostToolUse", "Read")
    assert session.looks == 11
    (view,) = session.service.renew([Report(run=session.lease.run)])
    assert view.refusal is None  # 120 s have passed on a lease of 60 s


@pytest.mark.parametrize("lease_s", [6, 600, 24 * 3600])
def test_messages_and_cancel_requests_arrive_in_seconds_even_with_a_long_lease(session: Session, lease_s):
    session.service.done([Report(run=session.lease.run)])
    session.service.add([NewItem(title="Another", lease_s=lease_s)])
    session.lease = session.claim()
    session("PreToolUse", "Read")
    session.service.msg(session.lease.item.id, "also the logout", author="sam")
    session.now_s += LOOK_S - 1
    assert session.told("PreToolUse") == ""
    assert session.looks == 1
    session.now_s += 1
    assert session.told("PreToolUse") == "Message 1 from sam: also the logout"
    session.service.cancel(session.lease.item.id, why="not needed")
    session.now_s += LOOK_S
    assert "You are asked to stop" in session.told("PostToolUse")


def test_a_store_that_is_slow_to_answer_is_asked_less_often(session: Session):
    session.slow_s = 2
    session("PreToolUse", "Read")
    session.now_s += session.slow_s / LOOK_SHARE - 1
    session("PreToolUse", "Read")
    assert session.looks == 1
    session.now_s += 1
    session("PreToolUse", "Read")
    assert session.looks == 2


# -- losing the lease ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("Bash", {"command": "git push"}),
        ("Bash", {"command": "git -C app -c a.b=c push --force origin HEAD"}),
        ("Bash", {"command": "make && (cd app; /usr/bin/git push)"}),
        ("Bash", {"command": 'bash -c "git push"'}),
        ("Bash", {"command": "echo $(git push 2>&1)"}),
        ("Bash", {"command": "GH_TOKEN=x gh pr create --fill"}),
        ("Bash", {"command": "gh -R acme/app pr merge 7"}),
        ("Bash", {"command": "gh issue comment 7 -b done"}),
        ("Bash", {"command": "gh api repos/acme/app/issues -f title=x"}),
        ("Bash", {"command": "gh api -X DELETE repos/acme/app"}),
        ("mcp__github__create_pull_request", {"title": "x"}),
        ("mcp__github__push_files", {}),
    ],
)
def test_publishing_tool_calls_are_denied_once_the_lease_is_lost(session: Session, tool, given):
    assert session.denied(tool, given) == ""
    session.lose()
    assert "Stop working on this item" in session.denied(tool, given)
    assert session.denied(tool, given)  # and again, without asking the store
    looks = session.looks
    assert session.denied(tool, given)
    assert session.looks == looks


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("Bash", {"command": "git status; git stash push"}),
        ("Bash", {"command": "echo git push"}),
        ("Bash", {"command": "git commit -m 'git push'"}),
        ("Bash", {"command": "gh pr view 7; gh issue list; gh api repos/acme/app"}),
        ("Bash", {"command": 7}),
        ("Read", {"file_path": "push.md"}),
        ("mcp__github__get_issue", {}),
    ],
)
def test_local_tool_calls_are_never_denied(session: Session, tool, given):
    session.lose()
    assert session.denied(tool, given) == ""


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"seen": 10000000000}', '{"seen": -1}', "[]", '{"lost": 1}']
)
def test_a_damaged_memory_does_not_let_a_push_through(session: Session, text: str):
    session.told("SessionStart")
    session.lose()
    (memory,) = (session.home / "hooks").glob("*.json")
    memory.write_text(text)
    assert "Stop working on this item" in session.denied("Bash", PUSH)


def test_a_lost_lease_is_reported_once_and_does_not_hold_up_the_stop(session: Session):
    session.told("SessionStart")
    session.service.msg(session.lease.item.id, "unread")
    session.lose()
    assert "Your lease on this item is lost" in session.told("PostToolUse")
    assert session.told("PostToolUse") == ""
    assert session("Stop") == {}


def test_a_handle_of_another_store_pushes_nothing(session: Session):
    session.lease = session.lease._replace(run="1.1.0123456789abcdef")
    assert "no run 1 with this handle" in session.denied("Bash", PUSH)


# -- a store that is away -----------------------------------------------------------------------------


def test_an_unreachable_store_is_reported_once_and_work_goes_on(session: Session):
    session.told("SessionStart")
    session.down = True
    session.now_s += 20
    assert "cannot be used right now" in session.told("PreToolUse")
    session.now_s += 20
    assert session.told("PostToolUse") == ""
    assert session("Stop") == {"systemMessage": "Interlock: Cannot reach the database."}
    session.down = False
    session.now_s += 10
    assert session.told("PreToolUse") == ""
    session.down = True
    session.now_s += 20
    assert "cannot be used right now" in session.told("PreToolUse")  # a new outage is news again


def test_without_the_store_a_push_is_allowed_until_the_lease_must_have_ended(session: Session):
    session.told("SessionStart")
    session.down = True
    session.now_s += 50
    assert session.denied("Bash", PUSH) == ""
    session.now_s += 11
    assert "the lease has expired and cannot be renewed" in session.denied("Bash", PUSH)
    assert session.told("PostToolUse", "Bash", {"command": "ls"}) == ""
    session.down = False
    session.service.renew([Report(run=session.lease.run)])  # the worker had kept it all the while
    assert session.denied("Bash", PUSH) == ""


def test_an_unknown_lease_end_denies_nothing(session: Session):
    session.down = True
    assert session.denied("Bash", PUSH) == ""


# -- the stop -----------------------------------------------------------------------------------------


def test_a_stop_with_unread_messages_is_held_up_once(session: Session):
    session.told("SessionStart")
    session.service.msg(session.lease.item.id, "and the tests?", author="sam")
    answer = session("Stop")
    assert answer["decision"] == "block"
    assert "Message 1 from sam: and the tests?" in answer["reason"]
    assert session("Stop", asked_before=True) == {}
    assert session.service.renew([Report(run=session.lease.run)])[0].unread == 0  # so nobody repeats it
    assert session("Stop") == {}


@pytest.fixture
def tree(session: Session, tmp_path: Path) -> Callable[..., None]:
    """The session's working tree as a clone with one commit; answers a git for it."""
    subprocess.run(["git", "init", "--quiet", "--bare", tmp_path / "remote.git"], check=True)

    def git(*args: str) -> None:
        identity = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_CONFIG_NOSYSTEM": "1"}
        env = os.environ | identity | {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
        subprocess.run(["git", *args], cwd=session.tree, env=env, check=True, capture_output=True)

    git("init", "--quiet", "--initial-branch=main")
    git("remote", "add", "origin", str(tmp_path / "remote.git"))
    git("commit", "--quiet", "--allow-empty", "-m", "first")
    git("push", "--quiet", "-u", "origin", "main")
    return git


def test_a_stop_with_unpushed_work_is_held_up_once(session: Session, tree):
    session.told("SessionStart")
    assert session("Stop") == {}
    (session.tree / "new.py").write_text("x = 1\n")
    answer = session("Stop")
    assert answer["decision"] == "block"
    assert "Not committed here: 1 changed file." in answer["reason"]
    assert session("Stop", asked_before=True) == {}
    tree("add", ".")
    tree("commit", "--quiet", "-m", "work")
    assert "Not pushed: 1 commit." in session("Stop")["reason"]
    tree("push", "--quiet")
    assert session("Stop") == {}


def test_unpushed_work_is_reported_with_a_message_and_again_after_it(session: Session, tree):
    session.told("SessionStart")
    session.service.msg(session.lease.item.id, "and the tests?", author="sam")
    (session.tree / "new.py").write_text("x = 1\n")
    reason = session("Stop")["reason"]
    assert "and the tests?" in reason
    assert "Not committed here: 1 changed file." in reason
    assert session("Stop", asked_before=True) == {}
    tree("add", ".")
    tree("commit", "--quiet", "-m", "work")
    tree("push", "--quiet")
    session.service.msg(session.lease.item.id, "rename it", author="sam")
    assert "Not committed" not in session("Stop")["reason"]
    (session.tree / "new.py").rename(session.tree / "better.py")
    assert "Not committed here: 2 changed files." in session("Stop", asked_before=True)["reason"]
    assert session("Stop", asked_before=True) == {}


def test_without_a_remote_the_stop_asks_for_a_commit_and_no_push(session: Session, tree):
    tree("remote", "remove", "origin")
    session.told("SessionStart")
    (session.tree / "new.py").write_text("x = 1\n")
    reason = session("Stop")["reason"]
    assert "Not committed here: 1 changed file. Commit it, or undo" in reason
    assert "push" not in reason
    tree("add", ".")
    tree("commit", "--quiet", "-m", "work")
    assert session("Stop") == {}


def test_uncommitted_work_in_a_repository_without_commits_holds_up_the_stop(session: Session):
    subprocess.run(["git", "init", "--quiet", session.tree], check=True)
    subprocess.run(["git", "remote", "add", "origin", "nowhere"], cwd=session.tree, check=True)
    session.told("SessionStart")
    (session.tree / "new.py").write_text("x = 1\n")
    assert "Not committed here: 1 changed file." in session("Stop")["reason"]


def test_changes_from_before_the_session_do_not_hold_up_the_stop(session: Session, tree):
    (session.tree / "scratch.txt").write_text("mine\n")
    session.told("SessionStart")
    assert session("Stop") == {}


def test_a_directory_without_git_does_not_hold_up_the_stop(session: Session):
    session.told("SessionStart")
    (session.tree / "new.py").write_text("x = 1\n")
    assert session("Stop") == {}


# -- the memory ---------------------------------------------------------------------------------------


def test_the_memory_ends_with_the_session_and_does_not_show_the_handle(session: Session):
    session.told("SessionStart")
    (file,) = (session.home / "hooks").iterdir()
    assert session.lease.run not in file.name + file.read_text()
    assert (session.home / ".gitignore").read_text() == "*\n"
    assert session("SessionEnd") == {}
    assert list((session.home / "hooks").iterdir()) == []


def test_what_the_transcript_says_was_used_is_reported_with_the_renewals(session: Session):
    path = session.home.parent / "used.jsonl"

    def answered(name: str, read: int, written: int) -> None:
        usage = {"input_tokens": read, "output_tokens": written}
        line = {"type": "assistant", "message": {"id": name, "model": "claude-sonnet-4-5", "usage": usage}}
        with path.open("a") as file:
            file.write(f"{json.dumps(line)}\n")

    def used() -> Any:
        cost = session.service.show(session.lease.item.id).cost
        return None if cost is None else (cost.usd, cost.input_tokens, cost.output_tokens)

    session("SessionStart", transcript=str(path))
    assert used() is None, "there is no transcript yet"
    answered("m1", 1_000, 100)
    session.now_s += 6
    session("PostToolUse", "Read", transcript=str(path))
    assert used() == (0.0045, 1_000, 100)
    looks = session.looks
    answered("m2", 10, 10)
    session("PostToolUse", "Read", transcript=str(path))
    assert session.looks == looks, "it reports no more often than it renews"
    session.down = True
    session("Stop", transcript=str(path))
    session.down = False
    session("Stop", transcript=str(path))
    assert used() == (0.00468, 1_010, 110)
    session("SessionEnd", transcript=str(path))
    path = session.home.parent / "resumed.jsonl"
    answered("m3", 1, 1)
    session("Stop", transcript=str(path))
    assert used() == (0.004698, 1_011, 111), "another session of the run adds to it"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"seen": "x", "lost": 7, "told": null}'])
def test_a_damaged_memory_counts_as_missing(session: Session, text):
    session.told("SessionStart")
    (file,) = (session.home / "hooks").iterdir()
    file.write_text(text)
    assert "Fix the login" in session.told("SessionStart")


def test_memories_of_old_sessions_are_removed(session: Session):
    old = session.home / "hooks" / "0123.json"
    session.told("SessionStart")
    old.write_text("{}")
    os.utime(old, (session.now_s - 8 * 24 * 3600, session.now_s - 8 * 24 * 3600))
    session.told("SessionStart")
    assert not old.exists()


def test_unknown_hook_events_get_an_empty_answer(session: Session):
    assert session("Notification") == {}
    assert session.looks == 0


LIMIT = "You've hit your session limit · resets 11am (UTC)"
#: The session's time is 08:00 UTC.
UNTIL_S = 1_800_000_000.0 + 3 * 3600


def transcript(session: Session, text: str, *, failed: bool = True) -> str:
    entry = {"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}}
    path = session.home.parent / "transcript.jsonl"
    path.write_text(json.dumps(entry | ({"isApiErrorMessage": True} if failed else {})) + "\n")
    return str(path)


@pytest.mark.parametrize("how", ["StopFailure", "Stop"])
def test_a_session_that_stops_at_a_providers_limit_gives_its_item_back(session: Session, how: str):
    more: dict[str, Any] = {"transcript": transcript(session, LIMIT)}
    if how == "StopFailure":
        more = {"error": "rate_limit", "last_message": LIMIT}
    assert "released" in session(how, **more)["systemMessage"]
    item = session.service.show(session.lease.item.id).item
    assert (item.status, item.reason, item.attempt) == ("waiting", "quota_wall", 0)
    assert item.run_at is not None
    assert item.run_at.timestamp() == UNTIL_S
    assert session.service.agents()[0].walled_until is not None
    assert session("PreToolUse", "Bash", PUSH)["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert session(how, **more) == {}, "once"


def test_a_session_of_a_worker_leaves_the_limit_to_it(session: Session):
    path = session.home.parent / "retry-at"
    session.environ["INTERLOCK_RETRY_AT_FILE"] = str(path)
    assert session("StopFailure", error="rate_limit", last_message=LIMIT) == {}
    assert session.service.show(session.lease.item.id).item.status == "in_progress"
    left = left_limit(path.parent)
    assert left is not None
    assert left.until is not None
    assert left.until.timestamp() == UNTIL_S
    session("Stop")
    assert left_limit(path.parent) is None, "it went on meanwhile"


def test_other_failures_and_talk_of_limits_release_nothing(session: Session):
    session("StopFailure", error="server_error", last_message="API Error: 500")
    session("Stop", transcript=transcript(session, LIMIT, failed=False))
    session("Stop", transcript="/dev/zero")
    assert session.service.show(session.lease.item.id).item.status == "in_progress"


def test_a_hold_is_not_released_at_a_limit(session: Session):
    session.service.add([NewItem(title="release", type="hold")])
    session.lease = session.service.next("holder", types=["hold"])[0]
    assert session("StopFailure", error="rate_limit") == {}
    assert session.service.show(session.lease.item.id).item.status == "in_progress"
