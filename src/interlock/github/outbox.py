"""Sends what is owed to GitHub: each effect at least once, and once wherever GitHub lets us recognise it.

    take      the next effect of a number, which is leased meanwhile; from now on it counts as sent
    look      if it was taken before: is it there? (by its mark, its id, or because sending twice is harmless)
    send      the request
    settle    it is done; or put off, or given to a person, with a reason

A sender that dies between any two of these leaves an effect that counts as sent; the next one looks. What a
sender does that is paused for longer than its lease, nobody can prevent: the lease is checked before each
request that must not be repeated.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from interlock.core.errors import GitHubLimited, GitHubRefused, GitHubUnavailable
from interlock.core.record import MutableRecord, Record, replace
from interlock.github import effects, owing
from interlock.github.client import Answer, GitHub
from interlock.github.effects import Request, Subject
from interlock.github.owing import Place
from interlock.github.reading import Reader
from interlock.github.remarks import from_answer
from interlock.github.showing import Showing
from interlock.store.outbox_port import Effect, OutboxStore, Taken

if TYPE_CHECKING:
    from interlock.github.traces import Traces

#: How long a sender has for one effect, and what of it must be left for a request that is not repeated.
LEASE_S, LAST_REQUEST_S = 300.0, 60.0
#: How long one request may wait for GitHub: what takes longer is put off, and other numbers go on.
PATIENCE_S = 5.0
#: How many comments are looked through for a mark, and how many workflow runs.
COMMENTS_LOOKED_AT, RUNS_LOOKED_AT = 1_000, 100
#: How long an effect waits after its first failure; twice as long after each further one. GitHub's reads may
#: lag behind its writes: a look right after a lost answer could miss what was written.
FIRST_WAIT_S, LONGEST_WAIT_S = 15.0, 3600.0
#: After how many failures a person is asked: of refusals, which seldom go away; and of faults at GitHub.
REFUSALS, FAULTS = 5, 20
#: So many effects in a row that met a fault are an outage: the rest is left for later.
OUTAGE = 3
#: A clock here may be ahead of GitHub's.
SKEW_S = 600.0
#: How a run has ended that lost its lease.
LOST = ("lost", "timed_out", "cancelled")
_REPO = "/repos/{+repo}"


class Passed(MutableRecord):
    """What came of one pass."""

    #: Effects that were carried out, that were dropped, that are tried again, and that wait for a person.
    sent: int = 0
    dropped: int = 0
    put_off: int = 0
    dead: int = 0
    #: Why it ended before everything was tried; empty if it did not.
    stopped: str = ""
    #: In how many seconds something can be sent again; None if nothing is owed.
    next_s: float | None = None

    @property
    def tried(self) -> int:
        return self.sent + self.dropped + self.put_off + self.dead


class _Done(Record):
    """An effect that was carried out, or need not be."""

    outcome: str
    made: int | None = None
    then: tuple[Effect, ...] = ()
    dropped: bool = False


class _Failed(Exception):
    """GitHub answered, and it is not as it should be: tried again, then given to a person."""


class _Unsure(Exception):
    """Only a person can say whether it happened."""


class Sender:
    """Sends what is owed in one database, in the name of one account."""

    def __init__(
        self,
        github: GitHub,
        outbox: OutboxStore,
        *,
        showing: Showing | None = None,
        traces: Traces | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._github, self._outbox, self._clock, self._showing = github, outbox, clock, showing
        self._traces = traces
        self._reader = Reader(github)
        self._leased_at = 0.0

    def send(self, limit: int, *, again: bool = False) -> Passed:
        """Send what is due, up to so many effects. With `again`, what waits for a person is owed first."""
        if again:
            self._outbox.retry(limit)
        if self._showing is not None:
            self._showing.owe()
        passed, faults = Passed(), 0
        for _ in range(limit):
            self._leased_at = self._clock()
            taken = self._outbox.take(LEASE_S)
            if taken is None:
                break
            try:
                stopped, fault = self._sent(taken, passed)
            except GitHubRefused as refused:  # nobody can send with this token
                self._put_off(taken, passed, FIRST_WAIT_S, refused, failed=False)
                raise
            faults = faults + 1 if fault else 0
            passed.stopped = stopped or (fault if faults >= OUTAGE else "")
            if passed.stopped:
                break
        passed.next_s = self._outbox.next_s()
        return passed

    def _sent(self, taken: Taken, passed: Passed) -> tuple[str, str]:
        """Send one; gives why nothing more can be sent, and the fault that GitHub had."""
        refusals, begun_us = taken.tries + 1 >= REFUSALS, time.time_ns() // 1000
        try:
            done = self._carried_out(taken)
            self._settle(taken, passed, done)
            if self._traces is not None:
                self._traces.sent(taken, begun_us, done.outcome)
        except GitHubLimited as limited:
            self._put_off(taken, passed, limited.wait_s, limited, failed=False)
            return str(limited), ""
        except GitHubUnavailable as error:
            wait_s = None if taken.tries + 1 >= FAULTS else _wait_s(taken.tries)
            self._put_off(taken, passed, wait_s, error, maybe_sent=error.uncertain)
            return "", str(error)
        except GitHubRefused as refused:
            if refused.status == 401:
                raise
            self._put_off(taken, passed, None if refusals else _wait_s(taken.tries), refused)
        except _Failed as failed:
            self._put_off(taken, passed, None if refusals else _wait_s(taken.tries), failed)
        except _Unsure as unsure:
            # A person decides: if they want it again, it is sent without another look.
            passed.dead += 1
            self._outbox.put_off(taken, None, str(unsure), failed=True, maybe_sent=False)
        return "", ""

    def _settle(self, taken: Taken, passed: Passed, done: _Done) -> None:
        self._outbox.settle(taken, made=done.made, outcome=done.outcome, then=done.then)
        if done.dropped:
            passed.dropped += 1
        else:
            passed.sent += 1

    def _put_off(
        self,
        taken: Taken,
        passed: Passed,
        wait_s: float | None,
        why: Exception,
        *,
        failed: bool = True,
        maybe_sent: bool = False,
    ) -> None:
        if wait_s is None:
            passed.dead += 1
        else:
            passed.put_off += 1
        maybe_sent = maybe_sent or taken.sent_us is not None
        self._outbox.put_off(taken, wait_s, str(why), failed=failed, maybe_sent=maybe_sent)

    # One effect

    def _carried_out(self, taken: Taken) -> _Done:
        if taken.run is not None and taken.run_status in LOST:
            told = "was cancelled" if taken.run_status == "cancelled" else "lost its lease"
            return _Done(outcome=f"not sent: run {taken.run} {told}", made=taken.made, dropped=True)
        if taken.run_status not in (None, "running") and json.loads(taken.data).get("while_running"):
            return _Done(outcome=f"not sent: run {taken.run} has ended", made=taken.made, dropped=True)
        carry_out = _KINDS.get(taken.kind)
        if carry_out is None:
            raise _Failed(f"This version of Interlock knows no effect '{taken.kind}'.")
        try:
            return carry_out(self, taken, json.loads(taken.data))
        except (KeyError, TypeError, ValueError) as error:
            raise _Failed(f"The effect, or GitHub's answer, lacks something: {error!r}.") from error

    def _comment(self, taken: Taken, data: Mapping[str, Any]) -> _Done:
        if taken.sent_us is not None:
            found = self._found(taken, since_us=taken.owed_us, effect=taken.name)
            if found is not None:
                return _Done(outcome="was there already", made=found)
        return self._posted(taken, data)

    def _sticky(self, taken: Taken, data: Mapping[str, Any]) -> _Done:
        if taken.made is not None and self._edited(taken, taken.made, data):
            return _Done(outcome="edited", made=taken.made)
        found = self._found(taken, sticky=data["topic"])
        if found is not None and found != taken.made and self._edited(taken, found, data):
            return _Done(outcome="edited", made=found)
        return self._posted(taken, data)

    def _posted(self, taken: Taken, data: Mapping[str, Any]) -> _Done:
        answer = self._ask(effects.comment(taken.repo, taken.number, _marked(taken, data)))
        return _Done(outcome="posted", made=answer.body["id"])

    def _edited(self, taken: Taken, comment_id: int, data: Mapping[str, Any]) -> bool:
        """False if somebody deleted it."""
        answer = self._ask_for(effects.edit_comment(taken.repo, comment_id, _marked(taken, data)), 404, 410)
        return answer is not None

    def _found(self, taken: Taken, *, since_us: int | None = None, **mark: str) -> int | None:
        """Our comment with a mark, if it is there."""
        query = {} if since_us is None else {"since": _stamp(since_us / 1e6 - SKEW_S)}
        comments = self._github.pages(
            _REPO + "/issues/{number}/comments",
            limit=COMMENTS_LOOKED_AT,
            query=query,
            repo=taken.repo,
            number=taken.number,
        )
        for comment in comments:
            remark = from_answer("issue_comment", taken.number, comment)
            # Anybody can copy a mark.
            if effects.has_mark(remark.text, **mark) and remark.author in self._reader.own(remark, comment):
                return remark.id
        return None

    def _react(self, taken: Taken, data: Mapping[str, Any]) -> _Done:
        answer = self._ask_for(effects.react(taken.repo, _subject(data), data["content"]), 404, 410)
        if answer is None:
            return _Done(outcome="not sent: what it is on is gone, or hidden from the token", dropped=True)
        return _Done(outcome="reacted", made=answer.body["id"])

    def _unreact(self, taken: Taken, data: Mapping[str, Any]) -> _Done:
        """Without the id, by the way of a reaction: GitHub answers with the one that is there."""
        reaction = taken.made if taken.made is not None else data.get("reaction")
        if reaction is None:
            answer = self._ask_for(effects.react(taken.repo, _subject(data), data["content"]), 404, 410)
            if answer is None:
                return _Done(outcome="was gone with what it was on")
            reaction = int(answer.body["id"])
        gone = self._ask_for(effects.unreact(taken.repo, _subject(data), reaction), 404, 410)
        return _Done(outcome="was gone already" if gone is None else "taken back")

    def _label(self, taken: Taken, data: Mapping[str, Any]) -> _Done:
        self._ask(effects.label(taken.repo, taken.number, data["labels"]))
        return _Done(outcome="labelled")

    def _unlabel(self, taken: Taken, data: Mapping[str, Any]) -> _Done:
        gone = self._ask_for(effects.unlabel(taken.repo, taken.number, data["label"]), 404)
        return _Done(outcome="was not there" if gone is None else "taken away")

    def _check_others(self, taken: Taken, data: Mapping[str, Any]) -> None:
        """Read back that other issues have lost the assignees that must be gone first."""
        for other in data.get("after") or ():
            left = effects.still_assigned(self._github, taken.repo, other["number"], other["logins"])
            if left:
                raise _Failed(f"#{other['number']} is still assigned to {', '.join(left)}.")

    def _assign(self, taken: Taken, data: Mapping[str, Any]) -> _Done:
        self._check_others(taken, data)
        answer = self._ask(effects.assign(taken.repo, taken.number, data["logins"]))
        dropped = effects.not_assigned(answer.body, data["logins"])
        if dropped:
            raise _Failed(
                f"GitHub did not assign {', '.join(dropped)}, and does not say why:"
                " may they be assigned in this repository, and by this token?"
            )
        return _Done(outcome="assigned")

    def _unassign(self, taken: Taken, data: Mapping[str, Any]) -> _Done:
        answer = self._ask_for(effects.unassign(taken.repo, taken.number, data["logins"]), 404, 410)
        if answer is None:
            return _Done(outcome="the issue is gone")
        left = effects.assigned(answer.body, data["logins"])
        if left:
            raise _Failed(f"GitHub left {', '.join(left)} assigned, and does not say why.")
        return _Done(outcome="unassigned")

    def _request_review(self, taken: Taken, data: Mapping[str, Any]) -> _Done:
        logins = list(data["logins"])
        if taken.sent_us is not None:
            route = _REPO + "/pulls/{number}/requested_reviewers"
            asked = self._github.get(route, repo=taken.repo, number=taken.number).body["users"]
            there = {str(user["login"]).lower() for user in asked}
            logins = [login for login in logins if login.lower() not in there]
        if logins:
            self._ask(effects.request_review(taken.repo, taken.number, logins))
        return _Done(outcome="asked" if logins else "was asked already")

    def _status(self, taken: Taken, data: Mapping[str, Any]) -> _Done:
        shown = {name: data[name] for name in ("description", "url", "context")}
        self._ask(effects.status(taken.repo, data["sha"], data["state"], **shown))
        return _Done(outcome=data["state"])

    # What is made up when it is sent

    def _progress(self, taken: Taken, data: Mapping[str, Any]) -> _Done:
        found = self._shown().progress(_place(taken), data["item"], there=taken.made is not None)
        if found is None:
            return _Done(outcome="not sent: nothing is to be shown", made=taken.made, dropped=True)
        if taken.made is not None and (taken.last or "").endswith(f": {found.line}"):
            return _Done(outcome=f"is there: {found.line}", made=taken.made)
        done = self._sticky(taken, {**data, "text": found.text})
        return replace(done, outcome=f"{done.outcome}: {found.line}")

    def _lane(self, taken: Taken, _: Mapping[str, Any]) -> _Done:
        found = self._shown().lane(_place(taken))
        if found is None:
            return _Done(outcome="not sent: nothing is to be shown", dropped=True)
        if taken.last == found.line:
            return _Done(outcome=found.line)
        shown = {"description": found.description, "url": found.url}
        sent = self._ask_for(effects.status(taken.repo, found.sha, found.state, **shown), 403, 404, 422)
        if sent is None:
            why = "the commit is gone, or the token may not write statuses"
            return _Done(outcome=f"not sent: {why}", dropped=True)
        return _Done(outcome=found.line)

    def _shown(self) -> Showing:
        if self._showing is None:
            raise _Failed("Nobody here can say what is to be shown.")
        return self._showing

    # Workflow runs

    def _dispatch(self, taken: Taken, data: Mapping[str, Any]) -> _Done:
        self._check_others(taken, data)
        # A workflow's runs are of all numbers, and a name is of one.
        mark, inputs = f"[interlock:{taken.number}:{taken.name}]", dict(data["inputs"])
        if taken.sent_us is not None:
            found = self._dispatched(taken, data, mark)
            if found is not None:
                return _Done(outcome="had started already", made=found)
        if data["mark_input"]:
            inputs[data["mark_input"]] = mark
        answer = self._ask(effects.dispatch(taken.repo, data["workflow"], data["ref"], inputs))
        return _Done(outcome="started", made=int(answer.body["workflow_run_id"]))

    def _dispatched(self, taken: Taken, data: Mapping[str, Any], mark: str) -> int | None:
        """The run that an earlier try started; None if none did.

        A run says nothing of its inputs: only its title can carry the mark.
        """
        since = _stamp(taken.owed_us / 1e6 - SKEW_S)
        ref = str(data["ref"]).removeprefix("refs/heads/")
        runs = self._github.pages(
            _REPO + "/actions/workflows/{workflow}/runs",
            limit=RUNS_LOOKED_AT,
            within="workflow_runs",
            query={"event": "workflow_dispatch", "branch": ref, "created": f">={since}"},
            repo=taken.repo,
            workflow=data["workflow"],
        )
        unmarked: list[Mapping[str, Any]] = []
        for run in runs:
            title = str(run.get("display_title") or "")
            if mark in title:
                return int(run["id"])
            if not data["mark_input"] and str(run["created_at"]) >= since:
                unmarked.append(run)
        if unmarked:
            raise _Unsure(
                f"GitHub did not answer when {data['workflow']} was started, and"
                f" {unmarked[-1]['html_url']} may be that run, or not: if it is not, send it again."
            )
        return None

    def _cancel(self, taken: Taken, data: Mapping[str, Any]) -> _Done:
        if self._ask_for(effects.cancel_run(taken.repo, data["run_id"]), 404, 409) is None:
            return _Done(outcome="had ended already")
        force = owing.force_cancel(_place(taken), f"{taken.name[:190]}:force", data["run_id"])
        return _Done(outcome="asked to end", then=(force,))

    def _force_cancel(self, taken: Taken, data: Mapping[str, Any]) -> _Done:
        ended = self._ask_for(effects.force_cancel_run(taken.repo, data["run_id"]), 404, 409) is None
        return _Done(outcome="has ended" if ended else "ended by force")

    # Requests

    def _ask(self, request: Request) -> Answer:
        late = self._clock() > self._leased_at + LEASE_S - LAST_REQUEST_S
        if late and not request.again:
            raise GitHubUnavailable("It took so long that somebody else may be sending it.")
        return self._github.send(request.method, request.route, request.body, **request.options())

    def _ask_for(self, request: Request, *gone: int) -> Answer | None:
        """None if GitHub answers with one of these."""
        try:
            return self._ask(request)
        except GitHubRefused as refused:
            if refused.status in gone:
                return None
            raise


_KINDS: dict[str, Callable[[Sender, Taken, Mapping[str, Any]], _Done]] = {
    "comment": Sender._comment,
    "sticky": Sender._sticky,
    "react": Sender._react,
    "unreact": Sender._unreact,
    "label": Sender._label,
    "unlabel": Sender._unlabel,
    "assign": Sender._assign,
    "unassign": Sender._unassign,
    "request_review": Sender._request_review,
    "status": Sender._status,
    "progress": Sender._progress,
    "lane": Sender._lane,
    "dispatch": Sender._dispatch,
    "cancel": Sender._cancel,
    "force_cancel": Sender._force_cancel,
}


def _marked(taken: Taken, data: Mapping[str, Any]) -> str:
    parts = {"effect": taken.name, "sticky": data.get("topic"), "agent": data.get("agent")}
    return effects.marked(data["text"], **{name: value for name, value in parts.items() if value})


def _place(taken: Taken) -> Place:
    return Place(taken.repository, taken.number)


def _subject(data: Mapping[str, Any]) -> Subject:
    return Subject(data["subject"], data["id"])


def _wait_s(tries: int) -> float:
    """A quarter more or less, so that what failed together does not come back together."""
    return min(FIRST_WAIT_S * 2.0**tries, LONGEST_WAIT_S) * random.uniform(0.75, 1.25)  # noqa: S311


def _stamp(epoch_s: float) -> str:
    return datetime.fromtimestamp(max(0.0, epoch_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
