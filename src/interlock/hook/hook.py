"""What an agent is told, and what it is refused, while it works for a run: the answers of `interlock hook`.

The agent's program calls the hook at the start of a session, around every use of a tool, and when the agent
wants to stop. Each call is a process of its own; what one must remember for the next lies in a small file.
The hook renews the lease every few seconds, however long it is, and brings what came: messages, a request to
stop, the loss of the lease.

Not promised: that a paused or stubborn agent stops acting. Once the lease is lost a push is denied here, and
the git server refuses it where it goes through `interlock push`. A store that cannot be reached never stops
an agent, unless the lease is known to be over.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interlock.core.errors import GitFailed, InterlockError, UnknownRun
from interlock.hook.memory import Memory
from interlock.hook.tool_calls import publishes
from interlock.service.contract import MessageView, Report, RunView

if TYPE_CHECKING:
    from interlock.service.contract import LaneService
    from interlock.service.itemview import ItemView

#: What the program sends may hold a whole file that a tool wrote.
EVENT_MAX_BYTES = 64 << 20
#: So often the store is asked while tools are used, whatever the lease: people who write wait for no renewal.
LOOK_S = 5.0
#: A store that is slow to answer, as a git server may be, costs an agent at most this share of its time.
LOOK_SHARE = 1 / 10
#: The program cuts longer texts; what does not fit is told next time.
TOLD_MAX_CHARS, MESSAGE_MAX_CHARS = 8_000, 4_000
GIT_TIMEOUT_S = 10.0

Answer = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEvent:
    """What happened in the agent's program."""

    name: str
    directory: Path
    tool: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)
    #: The agent goes on because a hook asked it to: it must not be asked again.
    asked_before: bool = False


def read_event(text: str) -> HookEvent:
    """The event that the program wrote to standard input."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or not isinstance(document.get("hook_event_name"), str):
        # Not InvalidInput: its exit code is the one by which a hook blocks the agent.
        raise InterlockError(
            "Standard input holds no hook event.", "Let the agent call it: interlock hook install."
        )
    given = document.get("tool_input")
    return HookEvent(
        name=document["hook_event_name"],
        directory=Path(str(document.get("cwd") or ".")),
        tool=str(document.get("tool_name") or ""),
        given=given if isinstance(given, dict) else {},
        asked_before=document.get("stop_hook_active") is True,
    )


@dataclass(slots=True)
class _Sight:
    """What one look at the store brought."""

    view: RunView | None = None
    messages: list[MessageView] = field(default_factory=list)
    #: Why the store could not be asked.
    trouble: str = ""


class Hook:
    """One run's hook; `lanes` opens the store it belongs to."""

    def __init__(
        self,
        handle: str,
        *,
        lanes: Callable[[], LaneService],
        home: Path,
        environ: Mapping[str, str],
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._handle, self._lanes, self._environ, self._now_s = handle, lanes, environ, now_s
        self._memory = Memory(home, sha256(handle.encode()).hexdigest()[:24])

    def answer(self, event: HookEvent) -> Answer:
        """What to print for the program; empty where there is nothing to say."""
        match event.name:
            case "SessionStart":
                answer = self._start(event)
            case "PreToolUse":
                answer = self._before_tool(event)
            case "PostToolUse":
                answer = _context(event, self._news(self._look(urgent=False)))
            case "Stop":
                answer = self._stop(event)
            case "SessionEnd":
                self._memory.forget()
                return {}
            case _:
                return {}
        self._memory.save()
        return answer

    def _start(self, event: HookEvent) -> Answer:
        self._memory.prune(self._now_s())
        self._memory.work = _work(event.directory).mark
        sight = self._look(urgent=True)
        item = sight.view.item if sight.view is not None else None
        return _context(event, [*_introduction(item, self._environ), *self._news(sight)])

    def _before_tool(self, event: HookEvent) -> Answer:
        what = publishes(event.tool, event.given)
        sight = self._look(urgent=bool(what))
        news = self._news(sight)
        if what and self._memory.lost:
            return _denied(f"{what} is refused: {self._memory.lost} Stop working on this item.")
        if what and sight.trouble and 0 < self._memory.expires_at_s <= self._now_s():
            return _denied(
                f"{what} is refused: the lease is over and the store cannot be asked for it."
                f" {sight.trouble} Wait until it can, then try again."
            )
        return _context(event, news)

    def _stop(self, event: HookEvent) -> Answer:
        sight = self._look(urgent=True)  # also the last chance to say what was read
        if self._memory.lost or (sight.view and sight.view.cancel_requested):
            return {}  # the sooner it stops the better
        wanted = []
        if not event.asked_before:
            self._memory.tell_again("work")
            wanted = self._told(sight.messages)
        if wanted:
            wanted.append("Answer these messages or act on them, then end.")
        work = _work(event.directory)
        # What it did because of a message may be asked about too, but no work is asked about twice in a row.
        if work.left and work.mark != self._memory.work and self._memory.tell_once("work"):
            wanted.append(
                f"{work.left} {work.remedy}, or undo what is not wanted, then end: other runs do not see what"
                " only lies here."
            )
        return {"decision": "block", "reason": "\n".join(wanted)} if wanted else _warning(sight)

    def _look(self, *, urgent: bool) -> _Sight:
        """Renew, and read what came, unless that was done a moment ago or nothing can come any more."""
        memory = self._memory
        sight = _Sight()
        if memory.lost or (not urgent and self._now_s() < memory.look_again_s):
            return sight
        sent_s = self._now_s()
        try:
            with contextlib.closing(self._lanes()) as service:
                sight.view = service.renew([Report(run=self._handle, seen=memory.seen)])[0]
                if sight.view.refusal is None and sight.view.unread:
                    sight.messages = service.inbox(self._handle, seen=memory.seen)
        except UnknownRun as error:
            memory.lost = error.sentence
        except InterlockError as error:
            sight.trouble = error.sentence
        answered_s = self._now_s()
        memory.look_again_s = answered_s + max(LOOK_S, (answered_s - sent_s) / LOOK_SHARE)
        if sight.view is not None and sight.view.refusal is not None:
            memory.lost = sight.view.refusal.message
        elif sight.view is not None and sight.view.expires_at is not None:
            memory.tell_again("trouble")
            memory.expires_at_s = sight.view.expires_at.timestamp()
        return sight

    def _news(self, sight: _Sight) -> list[str]:
        """What the agent does not know yet; each thing is told once."""
        memory = self._memory
        news = self._told(sight.messages)
        if memory.lost and memory.tell_once("lost"):
            news.append(
                f"Your lease on this item is lost: {memory.lost} Another run may be at work on it. Stop now:"
                " do not push, comment or open pull requests."
            )
        if sight.view is not None and sight.view.cancel_requested and memory.tell_once("cancel"):
            news.append(
                "You are asked to stop. Commit what is worth keeping, run interlock push, and end at once;"
                " soon the lease is revoked and pushes are refused."
            )
        if sight.trouble and memory.tell_once("trouble"):
            news.append(f"Interlock's store cannot be asked right now: {sight.trouble} Go on working.")
        return news

    def _told(self, messages: Sequence[MessageView]) -> list[str]:
        """Messages as lines, as many as fit; the next call marks these as read."""
        lines: list[str] = []
        for message in messages:
            text = message.text
            if len(text) > MESSAGE_MAX_CHARS:
                text = f"{text[:MESSAGE_MAX_CHARS]}… ({len(text) - MESSAGE_MAX_CHARS:,} more characters)"
            line = f"Message {message.n} from {message.author or 'somebody'}: {text}"
            if lines and sum(map(len, lines)) + len(line) > TOLD_MAX_CHARS:
                break
            lines.append(line)
            self._memory.seen = max(self._memory.seen, message.n)
        return lines


def _introduction(item: ItemView | None, environ: Mapping[str, str]) -> list[str]:
    lines = []
    if item is not None:
        lane = f" on lane {item.lane}" if item.lane else ""
        lines.append(
            f"You work for Interlock on item {item.id}{lane}, attempt {item.attempt} of {item.max_attempts}:"
            f" {item.title}"
        )
        lines.append(
            "Push with interlock push instead of git push: it is refused when this run has lost its lane."
        )
    if environ.get("INTERLOCK_PAYLOAD"):
        lines.append(f"The item's payload is the JSON file {environ['INTERLOCK_PAYLOAD']}.")
    if environ.get("INTERLOCK_SALVAGE"):
        lines.append(
            "An earlier run died and left work that it had not committed:"
            f" {environ['INTERLOCK_SALVAGE']}. Look at it with git show before you begin."
        )
    return lines


def _context(event: HookEvent, lines: Sequence[str]) -> Answer:
    """Something for the agent to know, which decides nothing."""
    if not lines:
        return {}
    return {"hookSpecificOutput": {"hookEventName": event.name, "additionalContext": "\n".join(lines)}}


def _denied(reason: str) -> Answer:
    decision = {"permissionDecision": "deny", "permissionDecisionReason": reason}
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **decision}}


def _warning(sight: _Sight) -> Answer:
    """For the person who watches: at a stop there is nobody else to tell."""
    return {"systemMessage": f"Interlock: {sight.trouble}"} if sight.trouble else {}


@dataclass(frozen=True, slots=True)
class Work:
    """What lies in a working tree and nowhere else."""

    left: str = ""
    remedy: str = ""
    mark: str = ""


def _work(directory: Path) -> Work:
    """Changes that are not committed and commits that no remote has; nothing where git cannot say.

    Where there is no remote a commit is as far as work can go.
    """
    from interlock.git.plumbing import Repository  # noqa: PLC0415  (only two of the events need it)

    repository = Repository(directory)
    try:
        status = repository.text("status", "--porcelain", timeout_s=GIT_TIMEOUT_S)
        remote = bool(repository.text("remote", timeout_s=GIT_TIMEOUT_S))
    except GitFailed:
        return Work()
    ahead = ""
    if remote:
        with contextlib.suppress(GitFailed):  # there is no commit yet
            ahead = repository.text("rev-list", "HEAD", "--not", "--remotes", timeout_s=GIT_TIMEOUT_S)
    changed, commits = len(status.splitlines()), len(ahead.splitlines())
    left = f"Not committed here: {_counted(changed, 'changed file')}." if changed else ""
    left += f" Not pushed: {_counted(commits, 'commit')}." if commits else ""
    return Work(
        left=left.strip(),
        remedy="Commit and run interlock push" if remote else "Commit it",
        mark=sha256(f"{status}\0{ahead}".encode()).hexdigest()[:16],
    )


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
