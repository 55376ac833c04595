"""👀 on the message that a run works on: added at its start, removed at its end.

This process removes the reaction. If it dies, the next run on a lane in git removes it. A database stores the
reaction with the run, and the outbox relay removes it. No function here raises: work must not fail because
GitHub does. Only the first failure is reported.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interlock.core.errors import GitHubRefused, InterlockError
from interlock.core.record import Record
from interlock.github.effects import Comment, Reaction, ReactionRemoval, ReactionTarget
from interlock.github.remarks import has_mark, marked
from interlock.github.subject import subject_of
from interlock.process.reaction import PostedReaction, PreviousRun

if TYPE_CHECKING:
    from interlock.github.client import GitHub
    from interlock.service.item_view import ItemView

#: A cancelled job has ten seconds in total.
TIMEOUT_S = 4.0
_PATIENCE_S = 2.0
_EVENT_MAX_BYTES = 32 * 1024 * 1024
#: How far the clock of the previous run's machine may be behind GitHub's.
_SKEW = timedelta(seconds=5)
#: How far back we search for our comment, so that it is not written twice.
_LOOKED_BACK, _COMMENTS_MAX = timedelta(days=1), 100
SUPERSEDED = "A newer message superseded an earlier run. Work on the newer message has started."


class TriggerMessage(Record):
    """The comment or event that a job works on."""

    repository: str
    number: int
    subject: ReactionTarget
    #: By GitHub's clock; None if the event does not say.
    written_at: datetime | None


def message_of(environ: Mapping[str, str]) -> TriggerMessage | None:
    """The message that started a job of Actions; None if its event has no number."""
    try:
        with Path(environ["GITHUB_EVENT_PATH"]).open("rb") as file:
            event = json.loads(file.read(_EVENT_MAX_BYTES))
        return _read(environ["GITHUB_REPOSITORY"], event)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # not a file from GitHub
        return None


def _read(repository: str, event: Mapping[str, Any]) -> TriggerMessage | None:
    issue = event.get("issue") or event.get("pull_request") or {}
    comment, review = event.get("comment") or {}, event.get("review") or {}
    asked = str((event.get("inputs") or {}).get("number") or "")
    number = issue.get("number") or (int(asked) if asked.isdecimal() else None)
    if not isinstance(number, int):
        return None
    # A review can have no reaction, so its pull request gets it.
    subject = ReactionTarget("issue", number)
    if comment:
        kind = "comment" if event.get("issue") else "review_comment"
        subject = ReactionTarget(kind, int(comment["id"]))
    at = (comment or issue).get("updated_at") if not review else review.get("submitted_at")
    return TriggerMessage(
        repository=repository,
        number=number,
        subject=subject,
        written_at=datetime.fromisoformat(at) if at else None,
    )


def message_of_item(item: ItemView) -> TriggerMessage | None:
    """The message that an item came from; None if it did not come from GitHub."""
    of = subject_of(item.payload)
    if of is None or not of.event:
        return None
    return TriggerMessage(repository=of.repository, number=of.number, subject=of.subject, written_at=None)


class WorkReaction:
    """The reaction of one run. It may be hidden from any thread, and more than once."""

    def __init__(
        self, message: TriggerMessage, open_client: Callable[[float], GitHub], tell: Callable[[str], None]
    ) -> None:
        self._message, self._open_client, self._tell = message, open_client, tell
        self.posted: PostedReaction | None = None
        #: Record the reaction in a database: before it is added, with its id, and when it is removed.
        self.keep: Callable[[int | None], None] = lambda _: None
        self.forget: Callable[[], None] = lambda: None
        #: The previous run on the lane, if the store knows it.
        self.previous_run: Callable[[str], PreviousRun | None] = lambda _: None
        #: Whether a reaction of ours may exist.
        self._may_be_there = False
        self._failed = False
        self._lock = threading.Lock()
        self._hiding: threading.Thread | None = None

    def show(self) -> None:
        with self._reporting_failure("add 👀 to the message"), self._open_client(0.0) as github:
            self.keep(None)
            self._may_be_there = True  # even if the answer is lost
            try:
                self.posted = self._reacted(github)
            except GitHubRefused:
                self._may_be_there = False
                self.forget()
                raise
            self.keep(self.posted.reaction)

    def hide_soon(self) -> None:
        # Not a daemon, so that the process waits for it.
        with self._lock:
            if self._hiding is None:
                self._hiding = threading.Thread(target=self._hide, name="interlock-reaction")
                self._hiding.start()

    def hide(self) -> None:
        self.hide_soon()
        assert self._hiding is not None
        self._hiding.join()

    def begin(self, run: str) -> None:
        with self._reporting_failure("clean up after the previous run"):
            previous = self.previous_run(run)
            if previous is None or self._is_ours(previous.reaction):
                return
            gave_way, cut_off = self._was_interrupted(previous), previous.lost or previous.interrupted
            if not gave_way and not cut_off:
                return
            with self._open_client(0.0) as github:
                # An interrupted run may have been killed before it removed its own.
                if previous.reaction is not None and cut_off:
                    _remove(github, previous.reaction)
                if gave_way and not self._is_posted(github, previous.name):
                    comment = Comment(text=marked(SUPERSEDED, superseded=previous.name))
                    comment.request(self._message.repository, self._message.number).send(github)

    def _was_interrupted(self, previous: PreviousRun) -> bool:
        """Whether our message interrupted the previous run."""
        at = self._message.written_at
        ended = datetime.fromtimestamp(previous.ended_us / 1_000_000, UTC)
        return previous.superseded or (previous.interrupted and at is not None and ended >= at - _SKEW)

    def _is_posted(self, github: GitHub, name: str) -> bool:
        """Whether the notice is already posted: a released run starts again, and so does its successor."""
        since = datetime.now(UTC) - _LOOKED_BACK
        comments = github.pages(
            "/repos/{+repo}/issues/{number}/comments",
            limit=_COMMENTS_MAX,
            query={"since": f"{since:%Y-%m-%dT%H:%M:%SZ}"},
            repo=self._message.repository,
            number=self._message.number,
        )
        return any(has_mark(each.get("body") or "", superseded=name) for each in comments)

    def _is_ours(self, reaction: PostedReaction | None) -> bool:
        """Whether a reaction is on our message: a later attempt works on the same message as the earlier
        one."""
        message = self._message
        return reaction is not None and reaction[:3] == (message.repository, *message.subject)

    def _hide(self) -> None:
        if not self._may_be_there:
            return
        with self._reporting_failure("remove 👀"), self._open_client(_PATIENCE_S) as github:
            # An account has a reaction once: adding it again returns its id.
            _remove(github, self.posted or self._reacted(github))
            self.forget()

    def _reacted(self, github: GitHub) -> PostedReaction:
        message = self._message
        answer = Reaction.on(message.subject).request(message.repository).send(github)
        return PostedReaction(message.repository, *message.subject, reaction=int(answer.body["id"]))

    @contextmanager
    def _reporting_failure(self, what: str) -> Iterator[None]:
        try:
            yield
        except (InterlockError, KeyError, TypeError, ValueError) as error:
            # The last three: another server than GitHub answered.
            if not self._failed:
                self._failed = True
                why = error if isinstance(error, InterlockError) else "the answer was not GitHub's."
                self._tell(f"Could not {what}: {why}")


def remove_reactions(
    github: GitHub, reactions: Iterable[PostedReaction], tell: Callable[[str], None]
) -> list[PostedReaction]:
    """Remove the 👀 of dead runs; gives those that still existed. The first refusal is reported and stops
    the removal."""
    try:
        return [reaction for reaction in reactions if _remove(github, reaction)]
    except InterlockError as error:
        tell(f"Could not remove 👀 of dead runs: {error}")
        return []


def _remove(github: GitHub, reaction: PostedReaction) -> bool:
    """Remove a reaction; gives whether it existed."""
    try:
        removal = ReactionRemoval(subject=reaction.kind, id=reaction.subject)
        removal.removal_request(reaction.repository, reaction.reaction).send(github)
    except GitHubRefused as refused:
        if refused.status != 404:
            raise
        return False
    return True
