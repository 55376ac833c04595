"""`interlock hook`: answers an agent's program at each event of a session.

The agent's program calls the hook at the start of a session, around every use of a tool, when it shows a
prompt, and when the agent wants to stop. Each call is a separate process; its memory is a small file. The
hook renews the lease every few seconds, for leases of any length, and reports news: messages, a request to
stop, the loss of the lease. It lets the run ask a person what a prompt asks.

Not promised: that a paused or stubborn agent stops acting. Once the lease is lost the hook denies a push, and
the git server refuses one through `interlock push`. An unreachable store never stops an agent, unless the
lease is known to have expired.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from interlock.core.errors import GitFailed, InterlockError
from interlock.core.record import MutableRecord, Record, fresh
from interlock.core.timing import LIVE_QUESTION_TIMEOUT_S
from interlock.hook.memory import Memory

if TYPE_CHECKING:
    from interlock.core.commands import QuotaLimit
    from interlock.process.provider_limits import LimitRules
    from interlock.service.contract import LaneService, MessageView, RunView
    from interlock.service.item_view import ItemView

#: The limit is high because an event may contain a whole file that a tool wrote.
EVENT_MAX_BYTES = 64 << 20
#: How often to ask the store while tools are used, for any lease: messages should arrive soon.
LOOK_S = 5.0
#: A slow store, such as a git server, costs an agent at most this share of its time.
LOOK_SHARE = 1 / 10
#: The program truncates longer texts; the rest is delivered by the next call.
TOLD_MAX_CHARS, MESSAGE_MAX_CHARS = 8_000, 4_000
GIT_TIMEOUT_S = 10.0
#: The tools with which an agent asks the person at the terminal.
QUESTION_TOOLS = frozenset({"AskUserQuestion", "ask_user"})
#: How much of the agent's last message is kept, to be shown if it waits for input.
SAID_MAX_CHARS = 2_000
#: How much of the end of a transcript is searched for a provider's limit.
TAIL_BYTES = 64 << 10
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

Reply = dict[str, Any]
#: Gemini's names of events. Codex has those of Claude Code.
_GEMINI = {
    "BeforeAgent": "UserPromptSubmit",
    "BeforeTool": "PreToolUse",
    "AfterTool": "PostToolUse",
    "AfterAgent": "Stop",
}


class HookEvent(Record):
    """An event in the agent's program."""

    name: str
    directory: Path
    tool: str = ""
    given: Mapping[str, Any] = MappingProxyType({})
    #: A hook has already asked the agent to continue: do not ask again.
    asked_before: bool = False
    #: The transcript of the session; empty if there is none.
    transcript: str = ""
    #: Why the agent's turn failed, and its last message.
    error: str = ""
    last_message: str = ""
    #: Of a notification: its kind, its text and what it is about.
    kind: str = ""
    message: str = ""
    details: Mapping[str, Any] = MappingProxyType({})
    #: The subagent in which it happened; empty for the main one.
    agent: str = ""

    @property
    def step(self) -> str:
        """What happened, by Claude Code's name for it."""
        return _GEMINI.get(self.name, self.name)


def read_event(text: str) -> HookEvent:
    """The event that the program wrote to standard input."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or not isinstance(document.get("hook_event_name"), str):
        # Not InvalidInput: its exit code would block the agent.
        raise InterlockError(
            "Standard input is not a hook event.", "Let the agent call it: interlock hook install."
        )
    given, details = document.get("tool_input"), document.get("details")
    said = document.get("last_assistant_message") or document.get("prompt_response")
    return HookEvent(
        name=document["hook_event_name"],
        directory=Path(str(document.get("cwd") or ".")),
        tool=str(document.get("tool_name") or ""),
        given=given if isinstance(given, dict) else {},
        asked_before=document.get("stop_hook_active") is True,
        transcript=str(document.get("transcript_path") or ""),
        error=str(document.get("error") or ""),
        last_message=str(said or ""),
        kind=str(document.get("notification_type") or ""),
        message=str(document.get("message") or ""),
        details=details if isinstance(details, dict) else {},
        agent=str(document.get("agent_id") or ""),
    )


class _News(MutableRecord):
    """The result of one look at the store."""

    view: RunView | None = None
    messages: list[MessageView] = fresh(list)
    #: Why the store was unreachable.
    trouble: str = ""


class Hook:
    """The hook of one run; `lanes` opens its store."""

    def __init__(
        self,
        handle: str,
        *,
        lanes: Callable[[], LaneService],
        home: Path,
        environ: Mapping[str, str],
        now_s: Callable[[], float] = time.time,
        limits: Callable[[], LimitRules] | None = None,
        prices: Sequence[str] = (),
        question_s: float = LIVE_QUESTION_TIMEOUT_S,
    ) -> None:
        """`limits` reads the settings for a provider's limits; `prices` are those of models. A run without a
        worker keeps its lease for `question_s` while a prompt is open."""
        self._limits, self._prices, self._transcript = limits, prices, ""
        self._question_s = question_s
        self._handle, self._lanes, self._environ, self._now_s = handle, lanes, environ, now_s
        self._memory = Memory(home, sha256(handle.encode()).hexdigest()[:24])
        #: The read mark in the store: the last message that the agent has read.
        self._marked = self._memory.seen
        self._unsaved = False

    def answer(self, event: HookEvent) -> Reply:
        """The answer to print for the program, before calling `written`; empty if there is no news."""
        self._transcript = event.transcript
        answered = self._is_answered(event)
        match event.step:
            case "SessionStart":
                reply = self._start(event, answered=answered)
            case "PreToolUse":
                reply = self._before_tool(event, answered=answered)
            case "PostToolUse" | "PostToolUseFailure" | "UserPromptSubmit":
                urgent = event.step == "UserPromptSubmit"
                reply = _context(event, self._lines(self._read_news(urgent=urgent, answered=answered)))
            case "PermissionRequest" | "Notification":
                self._ask(event)
                reply = {}
            case "Stop" | "StopFailure" if (limited := self._limit(event)) is not None:
                reply = limited
            case "Stop":
                reply = self._stop(event, answered=answered)
            case "SessionEnd":
                if answered:
                    self._read_news(urgent=True, answered=True)
                self._memory.forget()  # all but what the run has used: another session may follow
                return {}
            case _:
                return {}
        self._unsaved = True
        return reply

    def written(self) -> None:
        """The program has the answer: remember what it was told, and mark its messages as read.

        It is not called before that, because a lost answer must be given again. If the store is unreachable
        now, the next look moves the mark.
        """
        if self._unsaved:
            self._memory.save()
        if self._memory.seen > self._marked:
            with contextlib.suppress(InterlockError), contextlib.closing(self._lanes()) as service:
                self._renew(service)

    def _start(self, event: HookEvent, *, answered: bool) -> Reply:
        self._memory.prune(self._now_s())
        self._memory.work = _local_work(event.directory).mark
        news = self._read_news(urgent=True, answered=answered)
        item = news.view.item if news.view is not None else None
        return _context(event, [*_introduction(item, self._environ), *self._lines(news)])

    def _before_tool(self, event: HookEvent, *, answered: bool) -> Reply:
        what = _published_by(event)
        news = self._read_news(urgent=bool(what), answered=answered)
        # Gemini takes no text before a tool is used: its agent is told afterwards.
        lines = [] if event.name in _GEMINI else self._lines(news)
        if what and self._memory.lost:
            return _denial(event, f"{what} is refused: {self._memory.lost} Stop working on this item.")
        if what and news.trouble and 0 < self._memory.expires_at_s <= self._now_s():
            return _denial(
                event,
                f"{what} is refused: the lease has expired and cannot be renewed."
                f" {news.trouble} Wait until it can, then try again.",
            )
        if event.tool in QUESTION_TOOLS:
            self._ask(event)
        return _context(event, lines)

    def _is_answered(self, event: HookEvent) -> bool:
        """Whether an event shows that the open question was answered at the terminal: its agent has gone on.

        Other tools that run at the same time, and other agents, go on while a prompt is open.
        """
        if not self._memory.question:
            return False
        agent, tool = (*self._memory.asker, "", "")[:2]
        match event.step:
            case "PreToolUse":
                return event.agent == agent or not tool
            case "PostToolUse" | "PostToolUseFailure":
                return (event.agent, event.tool) == (agent, tool) or not tool
            case step:
                return step in ("SessionStart", "UserPromptSubmit", "Stop", "StopFailure", "SessionEnd")

    def _ask(self, event: HookEvent) -> None:
        """Let the run ask a person what the prompt asks. A store that cannot be asked stops no prompt."""
        from interlock.hook.prompts import question_of  # noqa: PLC0415  (few events ask)

        memory = self._memory
        question = question_of(event, memory.said)
        if not question or memory.lost or question == memory.question:
            return
        if memory.question and event.step == "Notification":
            return  # about the prompt that has been asked about already, in more words
        try:
            with contextlib.closing(self._lanes()) as service:
                ask = getattr(service, "ask", None)  # lanes in git have no questions
                if ask is None:
                    return
                view: RunView = ask(self._handle, question, timeout_s=self._question_s, keep_lease=True)
        except InterlockError:
            return
        if view.refusal is not None:
            memory.lost = view.refusal.message
            return
        memory.question, memory.asker = question, [event.agent, event.tool]
        if view.expires_at is not None:
            memory.expires_at_s = view.expires_at.timestamp()

    def _stop(self, event: HookEvent, *, answered: bool) -> Reply:
        self._memory.said = event.last_message[-SAID_MAX_CHARS:]
        news = self._read_news(urgent=True, answered=answered)
        if self._memory.lost or (news.view and news.view.cancel_requested):
            return {}  # it should stop as soon as possible
        wanted = []
        if not event.asked_before:
            self._memory.tell_again("work")
            wanted = self._message_lines(news.messages)
        if wanted:
            wanted.append("Answer these messages or act on them, then end.")
        work = _local_work(event.directory)
        # Work that a message caused may be asked about too, but the same work never twice in a row.
        if work.left and work.mark != self._memory.work and self._memory.tell_once("work"):
            wanted.append(
                f"{work.left} {work.remedy}, or undo what is not wanted, then end: other runs do not see what"
                " is only here."
            )
        if wanted:
            return {"decision": "block", "reason": "\n".join(wanted)}
        # At a stop, a warning reaches only the person who watches.
        return {"systemMessage": f"Interlock: {news.trouble}"} if news.trouble else {}

    def _limit(self, event: HookEvent) -> Reply | None:
        """Release the run if the session stopped at a provider's limit; None if it did not.

        The worker of a run does so itself, once the program has ended: it gets the limit from a file.
        """
        entries = _tail(event.transcript) if event.transcript else b""
        if event.name != "StopFailure" and b'"isApiErrorMessage"' not in entries:
            self._forget_limit()
            return None
        from datetime import UTC, datetime  # noqa: PLC0415  (few sessions end so)

        from interlock.core.provider_limits import (  # noqa: PLC0415
            NoticedLimit,
            limit_of_message,
            limit_of_transcript,
        )
        from interlock.process.provider_limits import (  # noqa: PLC0415
            LimitRules,
            leave_limit,
            worker_file,
            zone,
        )

        now = datetime.fromtimestamp(self._now_s(), UTC)
        noticed = limit_of_message(event.last_message, now=now, zones=zone) or limit_of_transcript(
            entries.decode(errors="replace"), now=now, zones=zone
        )
        if noticed is None and event.error == "rate_limit":
            noticed = NoticedLimit("The provider's rate limit was hit.", None)
        if noticed is None:
            self._forget_limit()
            return None
        if (path := worker_file(self._environ)) is not None:
            leave_limit(path, noticed)
            return {}
        rules = LimitRules() if self._limits is None else self._limits()
        return self._release(rules.reported(noticed, now))

    def _forget_limit(self) -> None:
        """The session works on after a limit that was left for the worker."""
        if "INTERLOCK_RETRY_AT_FILE" in self._environ:
            from interlock.process.provider_limits import worker_file  # noqa: PLC0415

            if (path := worker_file(self._environ)) is not None:
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)

    def _release(self, limit: QuotaLimit) -> Reply:
        from interlock.core.errors import InvalidInput  # noqa: PLC0415
        from interlock.core.model import HOLD  # noqa: PLC0415
        from interlock.service.contract import Report  # noqa: PLC0415

        report = Report(run=self._handle, seen=self._memory.seen, wall=limit)
        item_alone = report._replace(wall=limit._replace(whole_agent=False, whole_pool=False))
        try:
            with contextlib.closing(self._lanes()) as service:
                item = self._renew(service).item
                if item is not None and item.type == HOLD:
                    return {}  # its command holds the lane
                try:
                    answer = service.release([report])[0]
                except InvalidInput:  # a store in git has limits of items only
                    answer = service.release([item_alone])[0]
        except InterlockError as error:
            return {"systemMessage": f"Interlock: {error.sentence}"}
        if answer.refusal is not None:
            return {}
        self._memory.lost = f"It was released at a provider's limit: {limit.why}"
        return {"systemMessage": f"Interlock: the item is released until the limit ends. {limit.why}"}

    def _renew(self, service: LaneService) -> RunView:
        from interlock.service.contract import Report  # noqa: PLC0415  (at most calls no store is asked)

        return service.renew([Report(run=self._handle, seen=self._memory.seen)])[0]

    def _read_news(self, *, urgent: bool, answered: bool = False) -> _News:
        """Renew and read new messages, unless that was just done or the lease was lost. A question that was
        answered at the terminal is closed."""
        memory = self._memory
        news = _News()
        if memory.lost or (not (urgent or answered) and self._now_s() < memory.look_again_s):
            return news
        sent_s = self._now_s()
        try:
            with contextlib.closing(self._lanes()) as service:
                close = getattr(service, "close_question", None) if answered else None
                news.view = self._renew(service) if close is None else close(self._handle)
                if answered:
                    memory.question, memory.asker = "", []
                if news.view.refusal is None and news.view.unread:
                    news.messages = service.inbox(self._handle, seen=memory.seen)
                self._report_cost(service)
        except InterlockError as error:
            news.trouble = error.sentence
        answered_s = self._now_s()
        memory.look_again_s = answered_s + max(LOOK_S, (answered_s - sent_s) / LOOK_SHARE)
        if news.view is not None and news.view.refusal is not None:
            memory.lost = news.view.refusal.message
        elif news.view is not None and news.view.expires_at is not None:
            memory.tell_again("trouble")
            memory.expires_at_s = news.view.expires_at.timestamp()
        return news

    def _report_cost(self, service: LaneService) -> None:
        """Report what the run has used, if its transcript says that it was more. A store in git keeps none.

        A report is the total, so one that was lost is made good by the next."""
        report = getattr(service, "cost", None)
        if not self._transcript or report is None:
            return
        from interlock.hook.usage import Usage, prices_of  # noqa: PLC0415  (at most calls nothing is read)

        usage = Usage(self._memory.usage, prices_of(self._prices))
        if usage.look(self._transcript):
            money, read, written = usage.totals
            usd = money / 1e6 if money else None
            report(self._handle, usd=usd, input_tokens=read, output_tokens=written)
        self._memory.usage = usage.kept()

    def _lines(self, news: _News) -> list[str]:
        """The news for the agent; each item once."""
        memory = self._memory
        lines = self._message_lines(news.messages)
        if memory.lost and memory.tell_once("lost"):
            lines.append(
                f"Your lease on this item is lost: {memory.lost} Another run may be at work on it. Stop now:"
                " do not push, comment or open pull requests."
            )
        if news.view is not None and news.view.cancel_requested and memory.tell_once("cancel"):
            lines.append(
                "You are asked to stop. Commit what is worth keeping, run interlock push, and end at once;"
                " soon the lease is revoked and pushes are refused."
            )
        if news.trouble and memory.tell_once("trouble"):
            lines.append(f"Interlock's store cannot be used right now: {news.trouble} Go on working.")
        return lines

    def _message_lines(self, messages: Sequence[MessageView]) -> list[str]:
        """As many messages as fit, as lines."""
        lines: list[str] = []
        for message in messages:
            text = message.text
            if len(text) > MESSAGE_MAX_CHARS:
                text = f"{text[:MESSAGE_MAX_CHARS]}… ({len(text) - MESSAGE_MAX_CHARS:,} more characters)"
            cause = ", ".join(filter(None, (message.reason, message.url)))
            who = f"{message.author or 'an unnamed author'}{f' ({cause})' if cause else ''}"
            line = f"Message {message.n} from {who}: {text}"
            if lines and sum(map(len, lines)) + len(line) > TOLD_MAX_CHARS:
                break
            lines.append(line)
            self._memory.seen = max(self._memory.seen, message.n)
        return lines


def _tail(path: str) -> bytes:
    """The last lines of a transcript; empty if it is unreadable."""
    try:
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(open(os.open(path, _READ), "rb"))  # noqa: PTH123
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - TAIL_BYTES))
            return file.read(TAIL_BYTES)
    except (OSError, ValueError):
        return b""


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
            "An earlier run died and left uncommitted work:"
            f" {environ['INTERLOCK_SALVAGE']}. Look at it with git show before you begin."
        )
    return lines


def _context(event: HookEvent, lines: Sequence[str]) -> Reply:
    """Information for the agent, without a decision."""
    if not lines:
        return {}
    return {"hookSpecificOutput": {"hookEventName": event.name, "additionalContext": "\n".join(lines)}}


def _published_by(event: HookEvent) -> str:
    """The command by which a tool call publishes; empty if none is known."""
    if "command" not in event.given and not event.tool.startswith("mcp__"):
        return ""
    from interlock.hook.tool_calls import publishes  # noqa: PLC0415  (most tools run no command)

    return publishes(event.tool, event.given)


def _denial(event: HookEvent, reason: str) -> Reply:
    if event.name in _GEMINI:
        return {"decision": "deny", "reason": reason}
    decision = {"permissionDecision": "deny", "permissionDecisionReason": reason}
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **decision}}


class LocalWork(Record):
    """Work that exists only in this working tree."""

    left: str = ""
    remedy: str = ""
    mark: str = ""


def _local_work(directory: Path) -> LocalWork:
    """Uncommitted changes, and commits that no remote has; empty if git fails.

    Without a remote, only uncommitted changes count.
    """
    from interlock.git.plumbing import GitRepository  # noqa: PLC0415  (only two of the events need it)

    repository = GitRepository(directory)
    try:
        status = repository.text("status", "--porcelain", timeout_s=GIT_TIMEOUT_S)
        remote = bool(repository.text("remote", timeout_s=GIT_TIMEOUT_S))
    except GitFailed:
        return LocalWork()
    ahead = ""
    if remote:
        with contextlib.suppress(GitFailed):  # the repository has no commit yet
            ahead = repository.text("rev-list", "HEAD", "--not", "--remotes", timeout_s=GIT_TIMEOUT_S)
    changed, commits = len(status.splitlines()), len(ahead.splitlines())
    left = f"Not committed here: {_counted(changed, 'changed file')}." if changed else ""
    left += f" Not pushed: {_counted(commits, 'commit')}." if commits else ""
    return LocalWork(
        left=left.strip(),
        remedy="Commit and run interlock push" if remote else "Commit it",
        mark=sha256(f"{status}\0{ahead}".encode()).hexdigest()[:16],
    )


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
