"""Lanes on a git remote: read them, and move their refs by compare-and-swap.

A private bare repository below `.interlock` keeps what was fetched. The user's clone, its index and its refs
are never touched, and there need not be one. Whoever wants to change a lane reads it, decides, and pushes
pinned to what was read; where another was faster the server refuses, and all is read and decided anew.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Generic, TypeVar

from filelock import FileLock, Timeout

from interlock.core.errors import (
    GitFailed,
    InterlockError,
    NoRemote,
    NotFound,
    PushFailed,
    RemoteUnavailable,
    StoreBusy,
    StoreUnavailable,
    UnreadableState,
)
from interlock.git.plumbing import Repository, access_of, lane_ref_id
from interlock.git.refusals import PushRefusal, RefMove, RefusalKind, without_secrets
from interlock.gitlanes import commit_message
from interlock.gitlanes.documents import COUNT_BITS, lane_bits, mend_hint, owner_document, queue_document
from interlock.gitlanes.lane import Lane
from interlock.gitlanes.refs import OWNERS, QUEUES, Unread, document_of, read_pair

#: Where a look at all lanes keeps them, so that it never meets a change of one.
_ALL = "refs/all/"
#: Pushes that fail although nobody else was faster are worth so many tries.
TRIES = 5
BACK_OFF_MIN_S, BACK_OFF_MAX_S = 0.2, 0.8
#: Being beaten by another's push is progress of the lane; it is borne for so long.
BEATEN_MAX_S = 180.0
#: Processes of one machine take turns. Not longer than this: whoever has the turn may be stopped.
TURN_MAX_S, TURN_POLL_S = 10.0, 0.02
#: Two refs of one push are not seen at exactly the same moment; two that stay apart are corrupt.
AGREE_TRIES, AGREE_PAUSE_S = 5, 0.1
LOOSE_MAX = 2_000
REFS_AT_ONCE = 400

#: A ref that was deleted must not linger here; nothing runs on in the background.
_CONFIGURATION = f"[fetch]\n\tprune = true\n[gc]\n\tauto = {LOOSE_MAX}\n\tautoDetach = false\n"
_FINAL = frozenset({RefusalKind.ATOMIC_UNSUPPORTED, RefusalKind.PERMISSION, RefusalKind.HOOK})
_RECORD = "%(refname)%00%(objectname)%00%(contents)%00"

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Generic[Answer]):
    """What a decision makes of a lane; `after` is the lane itself where there is nothing to write."""

    after: Lane
    answer: Answer
    happened: tuple[str, ...] = ()


class LaneRemote:
    """The lanes of one git remote."""

    def __init__(self, url: str, directory: Path, *, pause: Callable[[float], None] = time.sleep) -> None:
        self.url = url
        # A new password does not make a new remote.
        self._directory = directory / sha256(without_secrets(url).encode()).hexdigest()[:16]
        self._pause = pause
        self._ref_ids: dict[int, str] = {}
        #: Lanes as our own last push left them.
        self._left: dict[str, Lane] = {}

    @property
    def sights(self) -> Path:
        """Where first sights of this remote's lanes are kept."""
        return self._directory / "sight"

    @property
    def objects(self) -> Path:
        """Where the commits lie that are not pushed yet."""
        return self.repository.directory / "objects"

    @cached_property
    def repository(self) -> Repository:
        """The private repository."""
        path = self._directory / "cache.git"
        made = path / "interlock"
        try:
            if not made.is_file():
                with _in_turn(self._directory, "cache"):  # of two that git makes at once, one fails
                    _make_cache(path, made)
            place = self._directory.resolve()
            clone = next((p for p in place.parents if (p / ".git").exists()), place)
        except OSError as error:
            raise StoreUnavailable(
                f"{self._directory} cannot be made: {error.strerror}.", "Make room, or work elsewhere."
            ) from None
        # Network remotes may be reachable only by what the clone around us is configured with.
        environ = {} if self.url.startswith("file:") else access_of(clone)
        return Repository(path, environ=environ)

    def close(self) -> None:
        """Pack what has piled up in the private repository."""
        if "repository" not in self.__dict__:  # nobody looked at a lane
            return
        with contextlib.suppress(OSError):
            # One of 256 directories tells about all; git itself guesses like this.
            if len([*(self.objects / "17").iterdir()]) > LOOSE_MAX // 256:
                self.repository.run("gc", "--auto", "--quiet")

    # -- reading --------------------------------------------------------------------------------------

    def read(self, ref_id: str, name: str | None = None) -> Lane:
        """The lane as the remote has it now; raises `UnreadableState`, or `NotFound` without a name."""
        with self._turn(ref_id):
            return self._named(ref_id, name)

    def _named(self, ref_id: str, name: str | None) -> Lane:
        found = self._read(ref_id)
        if isinstance(found, Unread):
            known = found.name or name
            raise found.why if known is None else UnreadableState(found.why.sentence, mend_hint(known))
        if not found.name and name is None:
            raise NotFound(f"There is no lane {ref_id} on this remote.", "`interlock lanes` lists them.")
        return replace(found, name=found.name or name or "")

    def find(self, item: int) -> str:
        """The lane that an item's number belongs to."""
        bits = item >> COUNT_BITS
        if bits not in self._ref_ids:
            refs = self.repository.ls_remote(self.url, f"{QUEUES}*")
            ref_ids = (ref.removeprefix(QUEUES) for ref in refs)
            self._ref_ids = {lane_bits(ref_id): ref_id for ref_id in ref_ids}
        try:
            return self._ref_ids[bits]
        except KeyError:
            raise NotFound(
                f"There is no item {item} on this remote.", "`interlock lanes` shows who holds what."
            ) from None

    def ref_id(self, lane: str) -> str:
        """The lane's part of its refs."""
        ref_id = lane_ref_id(lane)
        self._ref_ids[lane_bits(ref_id)] = ref_id
        return ref_id

    def read_all(self) -> list[Lane | Unread]:
        """Every lane there is, by name."""
        with self._turn("all"):
            for _ in range(AGREE_TRIES):
                self._fetch(*(f"+{ref}*:{_ALL}{ref}*" for ref in (OWNERS, QUEUES)))
                refs = self.repository.text("for-each-ref", "--format=%(refname)", _ALL).split()
                carried: dict[str, tuple[str, Any]] = {}
                for start in range(0, len(refs), REFS_AT_ONCE):
                    carried |= self._carried(*refs[start : start + REFS_AT_ONCE])
                ref_ids = sorted({ref.rpartition("/")[2] for ref in refs})
                found = [read_pair(ref_id, carried) for ref_id in ref_ids]
                if not any(isinstance(lane, Unread) for lane in found):
                    break
                self._pause(AGREE_PAUSE_S)
        return sorted(found, key=lambda lane: lane.name or lane.ref_id)

    def _read(self, ref_id: str) -> Lane | Unread:
        # A pattern, because a ref that is not there is no error then.
        patterns = [f"{OWNERS}{ref_id}", f"{QUEUES}{ref_id}"]
        for _ in range(AGREE_TRIES):
            self._fetch(*(f"+{ref}*:{ref}*" for ref in patterns))
            found = read_pair(ref_id, self._carried(*patterns))
            if isinstance(found, Lane):
                break
            self._pause(AGREE_PAUSE_S)
        return found

    def _fetch(self, *refspecs: str) -> None:
        try:
            self.repository.fetch(self.url, *refspecs)
        except NoRemote:
            where = without_secrets(self.url)
            raise NoRemote(
                f"There is no git repository at {where}.", f"Check INTERLOCK_URL; try git ls-remote {where}."
            ) from None

    def _carried(self, *patterns: str) -> dict[str, tuple[str, Any]]:
        """Fetched refs with their commit's id and document, in one process."""
        text = self.repository.text("for-each-ref", f"--format={_RECORD}", *patterns)
        fields = text.replace("\0\n", "\0").split("\0")
        records = zip(*[iter(fields[:-1])] * 3, strict=True)
        return {ref.removeprefix(_ALL): (oid, document_of(contents)) for ref, oid, contents in records}

    # -- changing -------------------------------------------------------------------------------------

    def transact(
        self,
        ref_id: str,
        step: Callable[[Lane], Change[Answer]],
        *,
        name: str | None = None,
        holder: bool = False,
    ) -> Answer:
        """Read, let `step` decide, push; as often as it takes within bounds. `step` must not have effects.

        A `holder` does not give way to many arrivals.
        """
        sent: dict[str, Change[Answer]] = {}
        tries = beaten = 0
        deadline_s = time.monotonic() + BEATEN_MAX_S
        while True:
            with self._turn(ref_id):
                arrived = self._arrived(self._named(ref_id, name), sent) if sent else None
                if arrived is not None:
                    return arrived.answer
                lane, change = self._decided(ref_id, name, step)
                moves = self.commits(lane, change)
                refusal = self.repository.push(self.url, moves) if moves else None
            if refusal is None:
                if moves:
                    self._left[ref_id] = _moved(lane, change.after, moves)
                return change.answer
            if refusal.kind is RefusalKind.STALE:
                beaten += 1
            else:
                tries += 1
                sent[moves[0].new_oid or ""] = change
            if refusal.kind in _FINAL or tries == TRIES:
                # What git says of a push is a strong hint, no proof; the refs are.
                arrived = self._arrived(self.read(ref_id, name), sent)
                if arrived is not None:
                    return arrived.answer
                raise _failed(refusal, tries)
            if time.monotonic() > deadline_s:
                raise StoreBusy(
                    f"Others were faster on lane {lane.name} {beaten} times in {BEATEN_MAX_S:g} s.",
                    "Nothing was changed; try again.",
                )
            self._pause(back_off_s(0 if holder else beaten))

    def _decided(
        self, ref_id: str, name: str | None, step: Callable[[Lane], Change[Answer]]
    ) -> tuple[Lane, Change[Answer]]:
        """What `step` makes of the lane, and of which.

        If a handover follows from what our own last push left, it is tried without reading first: it is
        pinned to both refs, so it is refused unless nothing else has happened.
        """
        left = self._left.pop(ref_id, None)
        if left is not None:
            with contextlib.suppress(InterlockError):
                change = step(left)
                if change.after.owner is not left.owner and change.after.queue is not left.queue:
                    return left, change
        lane = self._named(ref_id, name)
        return lane, step(lane)

    def commits(self, lane: Lane, change: Change[Answer]) -> list[RefMove]:
        """New commits for what changed, not pushed yet. The owner moves only with a handover or a renewal."""
        after, moves = change.after, []
        subject = commit_message.subject(change.happened) if change.happened else ""
        if after.queue is not lane.queue:
            document = queue_document(after.name, after.queue, change.happened)
            moves.append(self._commit(f"{QUEUES}{lane.ref_id}", lane.queue_oid, document, subject))
        # A first arrival makes the owner's ref too: a lane has both from then on, or something is amiss.
        if after.owner is not lane.owner or (lane.owner_oid is None and moves):
            document = owner_document(after.name, after.owner, change.happened)
            moves.append(self._commit(f"{OWNERS}{lane.ref_id}", lane.owner_oid, document, subject))
        return moves

    def _commit(self, ref: str, old: str | None, document: dict[str, Any], subject: str) -> RefMove:
        parents = [old] if old is not None else []
        new = self.repository.commit_json(document, subject=subject, parents=parents)
        return RefMove(ref=ref, old_oid=old, new_oid=new)

    def _arrived(self, lane: Lane, sent: dict[str, Change[Answer]]) -> Change[Answer] | None:
        """The change whose push was not answered and that did arrive, if there is one."""
        for oid, change in sent.items():
            for tip in (lane.queue_oid, lane.owner_oid):
                if tip and not self.repository.run("merge-base", "--is-ancestor", oid, tip).code:
                    return change
        return None

    def look(self, ref_id: str) -> Lane | Unread:
        """The lane, or what is known of it if it cannot be read."""
        with self._turn(ref_id):
            return self._read(ref_id)

    def replace(self, seen: Unread, change: Change[None]) -> None:
        """Put a lane in the place of what could not be read, if that is still what is there."""
        moves = []
        pins = seen.queue_oid, seen.owner_oid
        # By hand a ref can be pointed at anything; what is no commit has no history to go on with.
        tips = (oid if oid is not None and self.repository.has(oid) else None for oid in pins)
        blank = Lane(name="", ref_id=seen.ref_id, queue_oid=next(tips), owner_oid=next(tips))
        for pin, move in zip(pins, self.commits(blank, change), strict=True):
            moves.append(RefMove(ref=move.ref, old_oid=pin, new_oid=move.new_oid))
        refusal = self.repository.push(self.url, moves)
        if refusal is not None:
            raise _failed(refusal, 1)

    @contextlib.contextmanager
    def _turn(self, what: str) -> Iterator[None]:
        """Processes of this machine take turns on a lane: none of them is beaten by a neighbour.

        A courtesy, not a lock: the pinned push is what excludes.
        """
        with _in_turn(self.repository.directory.parent / "turns", what):
            yield


@contextlib.contextmanager
def _in_turn(directory: Path, what: str) -> Iterator[None]:
    """One process of this machine after the other. Where no turn is to be had, we do without."""
    with contextlib.ExitStack() as turn:
        with contextlib.suppress(Timeout, OSError, NotImplementedError):
            directory.mkdir(parents=True, exist_ok=True)
            lock = FileLock(directory / f"{what}.lock")
            turn.enter_context(lock.acquire(timeout=TURN_MAX_S, poll_interval=TURN_POLL_S))
        yield


def _make_cache(path: Path, made: Path) -> None:
    """Make the private repository, unless another has by now."""
    if made.is_file():
        return
    Repository.make_bare(path)
    with (path / "config").open("a") as file:
        file.write(f"[include]\n\tpath = {made.name}\n")
    made.write_text(_CONFIGURATION)  # last: it says that the repository is ready


def _moved(lane: Lane, after: Lane, moves: Sequence[RefMove]) -> Lane:
    """The lane after these moves arrived."""
    tips = {move.ref: move.new_oid for move in moves}
    return replace(
        after,
        owner_oid=tips.get(f"{OWNERS}{lane.ref_id}", lane.owner_oid),
        queue_oid=tips.get(f"{QUEUES}{lane.ref_id}", lane.queue_oid),
    )


def back_off_s(beaten: int) -> float:
    """200 to 800 ms; doubled for each further five pushes that others were faster than, up to 16 times."""
    spread = random.uniform(BACK_OFF_MIN_S, BACK_OFF_MAX_S)  # noqa: S311  (not a secret)
    return float(spread * 2 ** min(max(0, beaten - 1) // TRIES, 4))


def _failed(refusal: PushRefusal, tries: int) -> GitFailed:
    match refusal.kind:
        case RefusalKind.PERMISSION:
            hint = (
                "Lanes need write access to refs/interlock/*; check the token's rights, or a rule for refs."
            )
        case RefusalKind.HOOK:
            hint = "Let the server's hook accept refs below refs/interlock/."
        case RefusalKind.ATOMIC_UNSUPPORTED:
            hint = "Lanes need a remote that moves several refs at once; most do, over https and ssh."
        case RefusalKind.STALE:
            hint = "Look again: somebody else was faster."
        case _:
            return RemoteUnavailable(
                f"The push to the lanes' remote failed {tries} times: {refusal.detail}.",
                "It may have arrived; look with `interlock lanes`, then try again.",
            )
    return PushFailed(f"The lanes' remote refused the push: {refusal.detail}.", hint)
