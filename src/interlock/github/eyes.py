"""👀 on the message that a run works on: put there at its start, taken away at its end, whichever it is.

What becomes of the reaction is up to this process, and after its death, on a lane in git, to the next run;
a database keeps it with the run, and whoever sends what is owed takes it away.
Nothing here raises: work must not fail because GitHub does. The user hears of the first failure, in one
sentence.
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
from interlock.github import effects
from interlock.github.about import about
from interlock.process.sign import Before, Sign

if TYPE_CHECKING:
    from interlock.github.client import GitHub
    from interlock.service.itemview import ItemView

#: A cancelled job has ten seconds in all.
TIMEOUT_S = 4.0
_PATIENCE_S = 2.0
_EVENT_MAX_BYTES = 32 * 1024 * 1024
#: The clock of the machine that the run before worked on may be this much behind GitHub's.
_SKEW = timedelta(seconds=5)
#: How far back a notice is looked for, so that it is not written twice.
_LOOKED_BACK, _COMMENTS_MAX = timedelta(days=1), 100
SUPERSEDED = "An earlier run gave way to a newer message, which is being worked on now."


class Message(Record):
    """What somebody wrote, or did, that a job works on."""

    repository: str
    number: int
    subject: effects.Subject
    #: By GitHub's clock; None if the event does not say.
    written_at: datetime | None


def message_of(environ: Mapping[str, str]) -> Message | None:
    """The message that a job of Actions was started for; None if its event is about no number."""
    try:
        with Path(environ["GITHUB_EVENT_PATH"]).open("rb") as file:
            event = json.loads(file.read(_EVENT_MAX_BYTES))
        return _read(environ["GITHUB_REPOSITORY"], event)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # no file of GitHub's
        return None


def _read(repository: str, event: Mapping[str, Any]) -> Message | None:
    issue = event.get("issue") or event.get("pull_request") or {}
    comment, review = event.get("comment") or {}, event.get("review") or {}
    asked = str((event.get("inputs") or {}).get("number") or "")
    number = issue.get("number") or (int(asked) if asked.isdecimal() else None)
    if not isinstance(number, int):
        return None
    # A review can have no reaction by itself: the pull request gets it.
    subject = effects.Subject("issue", number)
    if comment:
        kind = "comment" if event.get("issue") else "review_comment"
        subject = effects.Subject(kind, int(comment["id"]))
    at = (comment or issue).get("updated_at") if not review else review.get("submitted_at")
    return Message(
        repository=repository,
        number=number,
        subject=subject,
        written_at=datetime.fromisoformat(at) if at else None,
    )


def message_of_item(item: ItemView) -> Message | None:
    """The message that an item came from; None if it did not come from GitHub."""
    of = about(item.payload)
    if of is None or not of.event:
        return None
    return Message(repository=of.repository, number=of.number, subject=of.subject, written_at=None)


class Eyes:
    """The reaction of one run. It may be hidden from any thread, and more than once."""

    def __init__(
        self, message: Message, open_client: Callable[[float], GitHub], tell: Callable[[str], None]
    ) -> None:
        self._message, self._open_client, self._tell = message, open_client, tell
        self.sign: Sign | None = None
        #: Where a database keeps our sign: before it is there, with its id, and when it is gone.
        self.keep: Callable[[int | None], None] = lambda _: None
        self.forget: Callable[[], None] = lambda: None
        #: The run before ours on the lane, where the store knows it.
        self.before: Callable[[str], Before | None] = lambda _: None
        #: A reaction of ours may be there.
        self._may_be_there = False
        self._failed = False
        self._lock = threading.Lock()
        self._hiding: threading.Thread | None = None

    def show(self) -> None:
        with self._quietly("put 👀 on the message"), self._open_client(0.0) as github:
            self.keep(None)
            self._may_be_there = True  # also if we never get the answer
            try:
                self.sign = self._reacted(github)
            except GitHubRefused:
                self._may_be_there = False
                self.forget()
                raise
            self.keep(self.sign.reaction)

    def hide_soon(self) -> None:
        # Not a daemon: the process does not end before it.
        with self._lock:
            if self._hiding is None:
                self._hiding = threading.Thread(target=self._hide, name="interlock-eyes")
                self._hiding.start()

    def hide(self) -> None:
        self.hide_soon()
        assert self._hiding is not None
        self._hiding.join()

    def begin(self, run: str) -> None:
        with self._quietly("see to what the run before left"):
            before = self.before(run)
            if before is None or self._is_ours(before.sign):
                return
            gave_way, cut_off = self._gave_way(before), before.lost or before.interrupted
            if not gave_way and not cut_off:
                return
            with self._open_client(0.0) as github:
                # One that was interrupted may have been killed before it could.
                if before.sign is not None and cut_off:
                    _remove(github, before.sign)
                if gave_way and not self._is_said(github, before.name):
                    text = effects.marked(SUPERSEDED, superseded=before.name)
                    _send(github, effects.comment(self._message.repository, self._message.number, text))

    def _gave_way(self, before: Before) -> bool:
        """Whether it was interrupted once our message was there, which then is why."""
        at = self._message.written_at
        ended = datetime.fromtimestamp(before.ended_us / 1_000_000, UTC)
        return before.superseded or (before.interrupted and at is not None and ended >= at - _SKEW)

    def _is_said(self, github: GitHub, name: str) -> bool:
        """A run that was given back begins again, and its successor too."""
        since = datetime.now(UTC) - _LOOKED_BACK
        comments = github.pages(
            "/repos/{+repo}/issues/{number}/comments",
            limit=_COMMENTS_MAX,
            query={"since": f"{since:%Y-%m-%dT%H:%M:%SZ}"},
            repo=self._message.repository,
            number=self._message.number,
        )
        return any(effects.has_mark(each.get("body") or "", superseded=name) for each in comments)

    def _is_ours(self, sign: Sign | None) -> bool:
        """A later attempt works on the message that its earlier one worked on."""
        message = self._message
        return sign is not None and sign[:3] == (message.repository, *message.subject)

    def _hide(self) -> None:
        if not self._may_be_there:
            return
        with self._quietly("take 👀 away again"), self._open_client(_PATIENCE_S) as github:
            # One account has a reaction once: to add it again tells its number.
            _remove(github, self.sign or self._reacted(github))
            self.forget()

    def _reacted(self, github: GitHub) -> Sign:
        answer = _send(github, effects.react(self._message.repository, self._message.subject))
        return Sign(self._message.repository, *self._message.subject, reaction=int(answer["id"]))

    @contextmanager
    def _quietly(self, what: str) -> Iterator[None]:
        try:
            yield
        except (InterlockError, KeyError, TypeError, ValueError) as error:
            # The last three: something else than GitHub answered.
            if not self._failed:
                self._failed = True
                why = error if isinstance(error, InterlockError) else "what answered was not GitHub."
                self._tell(f"Could not {what}: {why}")


def take_away(github: GitHub, signs: Iterable[Sign], tell: Callable[[str], None]) -> list[Sign]:
    """Remove the 👀 of dead runs, and return those that were still there. The first refusal is reported and
    ends it."""
    try:
        return [sign for sign in signs if _remove(github, sign)]
    except InterlockError as error:
        tell(f"Could not take 👀 away that dead runs left: {error}")
        return []


def _send(github: GitHub, request: effects.Request) -> Any:
    return github.send(request.method, request.route, request.body, **request.options()).body


def _remove(github: GitHub, sign: Sign) -> bool:
    """Whether it was there."""
    try:
        subject = effects.Subject(sign.kind, sign.subject)
        _send(github, effects.unreact(sign.repository, subject, sign.reaction))
    except GitHubRefused as refused:
        if refused.status != 404:
            raise
        return False
    return True
