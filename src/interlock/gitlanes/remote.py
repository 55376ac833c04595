"""Reads the refs of lanes on a git remote, and moves them by compare-and-swap.

Fetched objects are kept in a private bare repository below `.interlock`. The user's clone, its index and its
refs are never touched; no clone is needed. To change a lane: read it, decide, and push, pinned to the commits
that were read. If another process was faster, the server refuses, and the lane is read and decided again.
"""

from __future__ import annotations

import contextlib
import math
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Generic, TypeVar

from filelock import FileLock, Timeout

from interlock.core import names
from interlock.core.errors import (
    GitFailed,
    InterlockError,
    LeaseLost,
    NoRemote,
    NotFound,
    RemoteUnavailable,
    StoreBusy,
    StoreUnavailable,
    UnreadableState,
)
from interlock.core.model import ModeRule
from interlock.core.timing import doubled_s
from interlock.git.plumbing import GitRepository, access_of, lane_ref_id, message_document
from interlock.git.refusals import FINAL, PushRefusal, RefMove, RefusalKind, without_secrets
from interlock.gitlanes.commit_message import subject
from interlock.gitlanes.documents import (
    COUNT_BITS,
    ShorteningRefusal,
    lane_bits,
    mend_hint,
    owner_document,
    queue_document,
)
from interlock.gitlanes.history import Holder, held_state
from interlock.gitlanes.lane import (
    HISTORIES,
    OWNERS,
    QUEUES,
    Lane,
    UnreadableLane,
    missing_lane,
    read_lane,
)
from interlock.gitlanes.modes import MODES, modes_document, read_modes, with_rule
from interlock.push.fence import LOOKS_MAX, check_visible, failed_push, hidden_refs

#: Where `read_all` keeps fetched refs, apart from the refs of a single lane that is being changed.
_ALL = "refs/all/"
#: The fetched refs of the series that a lane's gate belongs to.
_BESIDE = "refs/beside/"
#: The last owner commit that this machine pushed for one of its runs, by lane.
_MINE = "refs/mine/"
#: A new owner begins new chains once the two old ones have this many commits, from about 100 holds.
CUT_BEYOND = 500
#: The counters of pushes: refused because another push was faster, and sent again.
CONFLICTS, RETRIES = "conflicts", "retries"
#: How often to try to set a mode.
MODE_TRIES = 20
#: How often to try a push that fails although no other push was faster.
TRIES = 5
BACK_OFF_MIN_S, BACK_OFF_MAX_S = 0.2, 0.8
#: How long to retry while other pushes win: each of them is progress for the lane.
BEATEN_MAX_S = 180.0
#: How long to wait for the turn of another process of this machine, and how often to look: it may hang.
TURN_MAX_S, TURN_POLL_S = 10.0, 0.02
#: A fetch may see only one of two refs that one push moved; a pair that stays inconsistent is corrupt.
AGREE_TRIES, AGREE_PAUSE_S = 5, 0.1
LOOSE_MAX = 2_000
REFS_AT_ONCE = 400

#: The configuration of the private repository: prune deleted refs, run nothing in the background.
_CONFIGURATION = (
    f"[fetch]\n\tprune = true\n[gc]\n\tauto = {LOOSE_MAX}\n\tautoDetach = false\n"
    "[core]\n\thooksPath = /dev/null\n"  # hooks of the user are for the user's own work
)
_RECORD = "%(refname)%00%(objectname)%00%(contents)%00"

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Generic[Answer]):
    """A decision on a lane: the lane after it, the caller's answer, and the lines of the commit message.

    `after` is the unchanged lane if there is nothing to write.
    """

    after: Lane
    answer: Answer
    lines: tuple[str, ...] = ()
    #: The series that the decision depends on. Its owner's ref moves with the push, to a commit with the same
    #: document: a push cannot pin a ref that it does not move.
    series: Lane | None = None
    #: The refused pushes that it counts.
    refused: Mapping[str, int] = field(default_factory=dict)


class _Sent(Generic[Answer]):
    """The refused pushes of one transaction, and the lane that the first of them was decided on."""

    def __init__(self) -> None:
        self.since: Lane | None = None
        self.refusal: PushRefusal | None = None
        #: The changes by the id of a commit in their push. No two pushes have a commit in common.
        self.changes: dict[str, Change[Answer]] = {}

        #: Whether the server refused to create refs that it hides.
        self.is_hidden = False

    @property
    def is_stale(self) -> bool:
        return self.refusal is not None and self.refusal.kind is RefusalKind.STALE

    def note(self, lane: Lane, moves: Sequence[RefMove], change: Change[Answer]) -> None:
        self.since = self.since or lane
        self.changes[moves[0].new_oid or ""] = change


class LaneRemote:
    """The lanes of one git remote."""

    def __init__(
        self,
        url: str,
        directory: Path,
        *,
        cut_beyond: int = CUT_BEYOND,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = url
        self.cut_beyond = cut_beyond
        # A new password does not make it a different remote.
        self._directory = directory / sha256(without_secrets(url).encode()).hexdigest()[:16]
        self._pause = pause
        self._ref_ids: dict[int, str] = {}
        #: Lanes as our own last push left them.
        self._left: dict[str, Lane] = {}
        #: The turns that another process of this machine has held for too long.
        self._hanging: set[str] = set()
        #: The modes of the last read, and their commit.
        self.modes: tuple[ModeRule, ...] = ()
        self.modes_error: UnreadableState | None = None
        self._modes_oid: str | None = None
        #: The refused pushes of each lane that no document counts yet.
        self._refused: dict[str, Counter[str]] = defaultdict(Counter)
        #: Changes with an unknown outcome, because the remote became unreachable, by their callers' names.
        self._unknown: dict[str, _Sent[Any]] = {}

    @property
    def first_seen(self) -> Path:
        """The directory for the records of `FirstSeen`."""
        return self._directory / "sight"

    @property
    def objects(self) -> Path:
        """The directory with commits that are not pushed yet."""
        return self.repository.directory / "objects"

    @cached_property
    def repository(self) -> GitRepository:
        """The private repository."""
        path = self._directory / "cache.git"
        made = path / "interlock"
        try:
            if not made.is_file():
                # One of two concurrent `git init` would fail.
                with _in_turn(self._directory, "cache", self._hanging):
                    _make_cache(path, made)
            place = self._directory.resolve()
            clone = next((p for p in place.parents if (p / ".git").exists()), place)
        except OSError as error:
            raise StoreUnavailable(
                f"{self._directory} cannot be created: {error.strerror}.",
                "Free some space, or work elsewhere.",
            ) from None
        # The credentials for a network remote may be in the configuration of the surrounding clone.
        environ = {} if self.url.startswith("file:") else access_of(clone)
        return GitRepository(path, environ=environ)

    @cached_property
    def _address(self) -> str:
        return self.repository.push_address(self.url)

    def close(self) -> None:
        """Pack the private repository if it has many loose objects."""
        with contextlib.suppress(OSError):
            # Estimated from one of 256 directories, as git does it, to save a process for each command.
            if len([*(self._directory / "cache.git/objects/17").iterdir()]) > LOOSE_MAX // 256:
                self.repository.run("gc", "--auto", "--quiet")

    # -- reading --------------------------------------------------------------------------------------

    def read(self, ref_id: str, name: str | None = None) -> Lane:
        """The current lane on the remote; raises `UnreadableState`, or `NotFound` if no name is given."""
        with self._turn(ref_id):
            return self._named(ref_id, name)

    def _named(self, ref_id: str, name: str | None, holder: Holder | None = None) -> Lane:
        found = self._read(ref_id)
        if isinstance(found, UnreadableLane):
            if holder is not None and not found.newer:
                return self._lane_of_holder(found, holder)
            known = found.name or name
            raise found.error if known is None else UnreadableState(found.error.sentence, mend_hint(known))
        if not found.name and name is None:
            raise NotFound(f"There is no lane {ref_id} on this remote.", "`interlock lanes` lists them.")
        return replace(found, name=found.name or name or "")

    def _lane_of_holder(self, seen: UnreadableLane, holder: Holder) -> Lane:
        """The lane as its holder last knew it; raises `LeaseLost` if nothing proves that the run holds it."""
        record = self.repository.run("rev-parse", "--verify", "--quiet", f"{_MINE}{seen.ref_id}").out.strip()
        lane = held_state(self.repository, seen, holder, record or None)
        if lane is not None:
            return lane
        why = seen.error.sentence.removesuffix(" It counts as held.")
        raise LeaseLost(f"{why} Nothing proves that run {holder.run} still holds the lane.", seen.error.hint)

    def find(self, item: int) -> str:
        """The ref id of the lane that an item's number belongs to."""
        bits = names.whole("item number", item) >> COUNT_BITS
        if bits not in self._ref_ids:
            refs = self.repository.ls_remote(self._address, f"{QUEUES}*")
            ref_ids = (ref.removeprefix(QUEUES) for ref in refs)
            self._ref_ids = {lane_bits(ref_id): ref_id for ref_id in ref_ids}
        try:
            return self._ref_ids[bits]
        except KeyError:
            raise NotFound(
                f"There is no item {item} on this remote.", "`interlock lanes` shows who holds what."
            ) from None

    def ref_id(self, lane: str) -> str:
        """The last part of the lane's two refs."""
        ref_id = lane_ref_id(lane)
        self._ref_ids[lane_bits(ref_id)] = ref_id
        return ref_id

    def read_all(self) -> list[Lane | UnreadableLane]:
        """All lanes, by name."""

        def fetch() -> list[Lane | UnreadableLane]:
            self._fetch(*(f"+{ref}*:{_ALL}{ref}*" for ref in (OWNERS, QUEUES, MODES)))
            refs = self.repository.text("for-each-ref", "--format=%(refname)", _ALL).split()
            found: dict[str, tuple[str, Any]] = {}
            for start in range(0, len(refs), REFS_AT_ONCE):
                found |= self._fetched(*refs[start : start + REFS_AT_ONCE])
            self._note_modes(found.get(MODES))
            refs = [ref for ref in refs if not ref.startswith(f"{_ALL}{MODES}")]
            return [read_lane(ref_id, found) for ref_id in {ref.rpartition("/")[2] for ref in refs}]

        with self._turn("all"):
            return sorted(self._consistent(fetch), key=lambda lane: lane.name or lane.ref_id)

    def look(self, ref_id: str) -> Lane | UnreadableLane:
        """The lane, or what is known about it if it is unreadable."""
        with self._turn(ref_id):
            return self._read(ref_id)

    def look_with(self, ref_id: str, name: str) -> Lane | UnreadableLane:
        """Another lane that a decision depends on. A missing lane counts as unreadable: if it was deleted,
        its holder is unknown."""
        other = self.ref_id(name)
        with self._turn(f"{ref_id}.beside"):
            found = self._read(other, into=f"{_BESIDE}{ref_id}/")
        return found if isinstance(found, UnreadableLane) or found.name else missing_lane(other, name)

    def _note_modes(self, found: tuple[str, Any] | None) -> None:
        oid, document = found or (None, None)
        self._modes_oid, self.modes, self.modes_error = oid, (), None
        if oid is not None:
            try:
                self.modes = read_modes(document)
            except UnreadableState as error:
                self.modes_error = error

    def read_modes(self) -> None:
        """Read only the modes."""
        with self._turn("modes"):
            ref = f"{_BESIDE}modes/{MODES}"
            self._fetch(f"+{MODES}*:{ref}*")
            self._note_modes(self._fetched(ref).get(ref))

    def set_mode(self, rule: ModeRule, lines: tuple[str, ...]) -> None:
        """Write a mode by compare-and-swap. The slower of two writers reads again and retries."""
        for beaten in range(MODE_TRIES):
            self.read_modes()
            if self.modes_error is not None:
                raise self.modes_error
            old, after = self._modes_oid, with_rule(self.modes, rule)
            if after == self.modes:
                return
            document = modes_document(after, lines)
            parents = [old] if old is not None else []
            new = self.repository.commit_json(document, subject=subject(lines), parents=parents)
            refusal = self.repository.push(self._address, [RefMove(ref=MODES, old_oid=old, new_oid=new)])
            if refusal is None:
                self.modes, self._modes_oid = after, new
                return
            if refusal.kind in FINAL or beaten + 1 == MODE_TRIES:
                raise _failed(self.url, refusal, beaten + 1)
            self._pause(back_off_s(beaten))

    def _read(self, ref_id: str, into: str = "") -> Lane | UnreadableLane:
        refs = [f"{OWNERS}{ref_id}", f"{QUEUES}{ref_id}"]
        modes = f"{into or _BESIDE}{ref_id}/{MODES}"

        def fetch() -> list[Lane | UnreadableLane]:
            # With a pattern, a missing ref is not an error.
            wanted = [*(f"+{ref}*:{into}{ref}*" for ref in refs), f"+{MODES}*:{modes}*"]
            self._fetch(*wanted)
            found = self._fetched(*(f"{into}{ref}" for ref in refs), modes, below=into)
            self._note_modes(found.get(modes.removeprefix(into)))
            return [read_lane(ref_id, found)]

        return self._consistent(fetch)[0]

    def _consistent(self, fetch: Callable[[], list[Lane | UnreadableLane]]) -> list[Lane | UnreadableLane]:
        """The lanes that `fetch` returns, fetched again while a lane is unreadable."""
        for _ in range(AGREE_TRIES):
            found = fetch()
            if not any(isinstance(lane, UnreadableLane) for lane in found):
                break
            self._pause(AGREE_PAUSE_S)
        return found

    def _fetch(self, *refspecs: str) -> None:
        try:
            self.repository.fetch(self._address, *refspecs)
        except NoRemote:
            where = without_secrets(self.url)
            raise NoRemote(
                f"There is no git repository at {where}.", f"Check INTERLOCK_URL; try git ls-remote {where}."
            ) from None

    def _fetched(self, *patterns: str, below: str = _ALL) -> dict[str, tuple[str, Any]]:
        """Fetched refs with the id and the document of their commit, in one process."""
        text = self.repository.text("for-each-ref", f"--format={_RECORD}", *patterns)
        fields = text.replace("\0\n", "\0").split("\0")
        records = zip(*[iter(fields[:-1])] * 3, strict=True)
        return {ref.removeprefix(below): (oid, message_document(message)) for ref, oid, message in records}

    # -- changing -------------------------------------------------------------------------------------

    def transact(
        self,
        ref_id: str,
        step: Callable[[Lane], Change[Answer]],
        *,
        name: str | None = None,
        holder: Holder | None = None,
        again: str | None = None,
    ) -> Answer:
        """Read, let `step` decide, push; repeat within bounds. `step` must not have effects.

        A refused push may have succeeded: after a broken connection an HTTP client sends it again, and the
        server refuses the second one. So if the remote has one of our own commits, the push succeeded, for
        any refusal.

        A `holder` retries without a growing back-off, so that many arrivals do not starve it. If the lane is
        unreadable, a write by its holder repairs it, provided that the run still holds it. `again` names a
        change that a caller may request again if the remote was unreachable at the end: the first one that
        arrived counts.
        """
        sent: _Sent[Answer] = self._unknown.pop(again, _Sent()) if again is not None else _Sent()
        try:
            return self._transact(ref_id, step, sent, name=name, holder=holder)
        except RemoteUnavailable:
            if again is not None and sent.changes:
                self._unknown[again] = sent
            raise

    def _transact(
        self,
        ref_id: str,
        step: Callable[[Lane], Change[Answer]],
        sent: _Sent[Answer],
        *,
        name: str | None,
        holder: Holder | None,
    ) -> Answer:
        tries = beaten = 0
        #: The lanes whose chains the server refused to shorten.
        kept: dict[str, ShorteningRefusal] = {}
        deadline_s = time.monotonic() + BEATEN_MAX_S

        def given_up() -> bool:
            return tries == TRIES or (sent.refusal is not None and sent.refusal.kind in FINAL)

        while True:
            with self._turn(ref_id):
                arrived = self._change_on_remote(ref_id, name, holder, sent)
                if arrived is not None:
                    ours = {CONFLICTS: int(sent.is_stale)}  # only our own push was faster
                    self._refused[ref_id] -= Counter(arrived.refused) + Counter(ours)
                    return arrived.answer
                if sent.is_hidden and beaten == LOOKS_MAX:
                    raise hidden_refs(self.url, f"{OWNERS}{ref_id}")
                if sent.refusal is not None and given_up():
                    raise _failed(self.url, sent.refusal, tries)
                if time.monotonic() > deadline_s:
                    raise StoreBusy(
                        f"{beaten} pushes to lane {name or ref_id} conflicted in {BEATEN_MAX_S:g} s.",
                        "Nothing was changed; try again.",
                    )
                lane, change = self._decided(ref_id, name, holder, step)
                self._refused[ref_id][RETRIES] += sent.since is not None and change.after is not lane
                moves, change, cut = self._moves(lane, change, kept)
                refusal = self.repository.push(self._address, moves) if moves else None
                if refusal is None:
                    self._refused[ref_id] -= Counter(change.refused)
                    self._done(lane, change.after, moves)
                    return change.answer
            sent.note(lane, moves, change)
            self._refused[ref_id][CONFLICTS] += refusal.kind is RefusalKind.STALE
            if cut and refusal.kind not in (RefusalKind.STALE, RefusalKind.NETWORK):
                kept = {
                    one: ShorteningRefusal(commits=length, why=refusal.detail) for one, length in cut.items()
                }
                continue  # retry without shortening
            sent.refusal = refusal
            if refusal.kind is RefusalKind.STALE:
                beaten += 1
            else:
                tries += 1
            if not given_up():
                self._pause(back_off_s(0 if holder is not None else beaten))

    def _moves(
        self, lane: Lane, change: Change[Answer], kept: Mapping[str, ShorteningRefusal]
    ) -> tuple[list[RefMove], Change[Answer], dict[str, int]]:
        """The moves of a change, the resulting change, and the lanes whose chains begin anew, with the
        numbers of commits in their old chains."""
        refused = +self._refused[lane.ref_id]
        if refused and change.after.queue is not lane.queue:
            change = replace(change, after=change.after.with_counts(refused), refused=refused)
        length = self._length_to_cut(lane, change.after) if lane.ref_id not in kept else 0
        if length or lane.ref_id in kept:
            change = replace(change, after=change.after.with_kept(kept.get(lane.ref_id)))
        moves = self._cut(lane, change, length) if length else self.commits(lane, change)
        cut = {lane.ref_id: length} if length else {}
        series = change.series
        if series is not None and moves:
            self._left.pop(series.ref_id, None)
            length = self._owner_to_cut(series) if series.ref_id not in kept else 0
            if length or series.ref_id in kept:
                series = series.with_kept(kept.get(series.ref_id))
            lines = tuple(f"on {lane.name}: {line}" for line in change.lines)
            moves += self._touched(series, lines, length)
            cut |= {series.ref_id: length} if length else {}
        return moves, change, cut

    def _done(self, lane: Lane, after: Lane, moves: Sequence[RefMove]) -> None:
        """Remember what our push left on the remote."""
        if not moves:
            return
        now = self._left[lane.ref_id] = _moved(lane, after, moves)
        if now.owner.run is not None and now.owner_oid is not None and now.owner_oid != lane.owner_oid:
            self.repository.run("update-ref", f"{_MINE}{lane.ref_id}", now.owner_oid)
        if lane.owner_oid is None:
            check_visible(self.repository, self._address, moves[0].ref, pause=self._pause)

    def _decided(
        self,
        ref_id: str,
        name: str | None,
        holder: Holder | None,
        step: Callable[[Lane], Change[Answer]],
    ) -> tuple[Lane, Change[Answer]]:
        """The lane that `step` decided on, and its change.

        A handover that follows our own last push is tried without a read. It is pinned to both refs, so the
        server refuses it if the lane has changed.
        """
        left = self._left.pop(ref_id, None)
        if left is not None:
            with contextlib.suppress(InterlockError):
                change = step(left)
                if change.after.owner is not left.owner and change.after.queue is not left.queue:
                    return left, change
        lane = self._named(ref_id, name, holder)
        change = step(lane)
        if lane.broken:
            change = replace(change, lines=(*change.lines, "the lane's state could not be read: mended"))
        return lane, change

    def _length_to_cut(self, lane: Lane, after: Lane) -> int:
        """The number of commits in both chains, if a new owner should begin new ones; else 0.

        Only an owner's first commit may cut a chain: a cut by another process would break the holder's pin.
        """
        if after.owner.last_run == lane.owner.last_run or lane.owner_oid is None or lane.queue_oid is None:
            return 0
        length = int(self.repository.text("rev-list", "--count", lane.owner_oid, lane.queue_oid))
        kept = lane.owner.kept.commits if lane.owner.kept is not None else 0
        return length if length >= kept + self.cut_beyond else 0

    def _owner_to_cut(self, series: Lane) -> int:
        """The number of commits in the owner's chain of a series, if it should begin anew; else 0.

        Any run on an issue of the series may cut it: the owner of the series is external and has no pin.
        """
        assert series.owner_oid is not None
        if series.owner.run is None or not series.owner.run.external:
            return 0
        length = int(self.repository.text("rev-list", "--count", series.owner_oid))
        kept = series.owner.kept.commits if series.owner.kept is not None else 0
        return length if length >= kept + self.cut_beyond else 0

    def _touched(self, series: Lane, lines: tuple[str, ...], length: int) -> list[RefMove]:
        """A new owner commit of a series with the same document; with a length, it begins a new chain."""
        assert series.owner_oid is not None
        document = owner_document(series.name, series.owner, lines)
        parents = [] if length else [series.owner_oid]
        new = self.repository.commit_json(document, subject=subject(lines), parents=parents)
        moves = [RefMove(ref=f"{OWNERS}{series.ref_id}", old_oid=series.owner_oid, new_oid=new)]
        return [*moves, self._history(series, series.owner.last_run, length)] if length else moves

    def _cut(self, lane: Lane, change: Change[Answer], length: int) -> list[RefMove]:
        """Commits for a handover that begin new chains, and a ref that keeps the old ones."""
        old = self._history(lane, change.after.owner.last_run, length)
        line = f"{length} earlier commits are in {old.ref}"
        return [*self.commits(lane, replace(change, lines=(*change.lines, line)), cut=True), old]

    def _history(self, lane: Lane, run: int, length: int) -> RefMove:
        """A new ref that keeps the current chains of a lane."""
        assert lane.owner_oid is not None and lane.queue_oid is not None
        # The commit id makes it unique: after its refs are deleted, a lane counts its runs from 1 again.
        ref = f"{HISTORIES}{lane.ref_id}/{run}-{lane.owner_oid[:12]}"
        parents = [lane.queue_oid, lane.owner_oid]
        old = self.repository.commit_json({"lane": lane.name}, subject=f"{length} commits", parents=parents)
        return RefMove(ref=ref, old_oid=None, new_oid=old)

    def commits(self, lane: Lane, change: Change[Answer], *, cut: bool = False) -> list[RefMove]:
        """New commits for the changed documents, not pushed yet. The owner moves only with a handover or a
        renewal.

        With `cut` the commits have no parents.
        """
        after, moves, lines = change.after, [], change.lines

        def commit(ref: str, old: str | None, document: dict[str, Any]) -> None:
            parents = [old] if old is not None and not cut else []
            if lane.broken:  # the ref may point at anything; a parent must be a commit
                parents = [oid for oid in parents if self.repository.has(oid)]
            new = self.repository.commit_json(
                document, subject=subject(lines) if lines else "", parents=parents
            )
            moves.append(RefMove(ref=ref, old_oid=old, new_oid=new))

        if after.queue is not lane.queue or lane.broken:
            commit(f"{QUEUES}{lane.ref_id}", lane.queue_oid, queue_document(after.name, after.queue, lines))
        # The first arrival also creates the owner's ref: from then on, a lane with only one ref is corrupt.
        if after.owner is not lane.owner or lane.broken or (lane.owner_oid is None and moves):
            commit(f"{OWNERS}{lane.ref_id}", lane.owner_oid, owner_document(after.name, after.owner, lines))
        return moves

    def _change_on_remote(
        self, ref_id: str, name: str | None, holder: Holder | None, sent: _Sent[Answer]
    ) -> Change[Answer] | None:
        """The change that is on the remote despite a refused push, if any."""
        if sent.since is None:
            return None
        now = self._read_patiently(ref_id, name, holder)
        # A ref that cannot be created because it exists, yet is hidden from us.
        sent.is_hidden = sent.since.owner_oid is None and now.owner_oid is None and sent.is_stale
        tips = [oid for oid in (now.queue_oid, now.owner_oid) if oid]
        known = [f"^{oid}" for oid in (sent.since.queue_oid, sent.since.owner_oid) if oid]
        if sent.since.owner_oid and now.owner_oid:
            tips += self._cut_since(ref_id, sent.since.owner_oid, now.owner_oid)
        listed = self.repository.run("rev-list", *tips, *known).out.split() if tips else []
        return next((sent.changes[oid] for oid in listed if oid in sent.changes), None)

    def _cut_since(self, ref_id: str, before: str, now: str) -> list[str]:
        """The last commits of the chains that were cut between two commits."""
        if self.repository.is_ancestor(before, now):
            return []
        pattern = f"{HISTORIES}{ref_id}/*"
        self._fetch(f"+{pattern}:{pattern}")
        return self.repository.text("for-each-ref", "--format=%(objectname)", f"{HISTORIES}{ref_id}").split()

    def _read_patiently(self, ref_id: str, name: str | None, holder: Holder | None) -> Lane:
        """The lane after a push with an unknown outcome: only the refs tell, so the read is retried."""
        for _ in range(TRIES - 1):
            with contextlib.suppress(RemoteUnavailable):
                return self._named(ref_id, name, holder)
            self._pause(back_off_s(0))
        return self._named(ref_id, name, holder)

    def replace(self, seen: Lane, after: Lane, lines: tuple[str, ...]) -> None:
        """Overwrite an unreadable lane, unless the refs in `seen` have moved."""
        self._left.pop(seen.ref_id, None)
        moves = self.commits(replace(seen, broken=True), Change(after=after, answer=None, lines=lines))
        refusal = self.repository.push(self._address, moves)
        if refusal is not None:
            raise _failed(self.url, refusal, 1)

    # -- other refs -----------------------------------------------------------------------------------

    def tips(self, beginning: str) -> dict[str, tuple[str, Any]]:
        """The refs with this prefix, each with the id and the document of its commit."""
        below = f"{_BESIDE}tips/"
        with self._turn("tips"):
            self._fetch(f"+{beginning}*:{below}{beginning}*")
            return self._fetched(f"{below}{beginning}*", below=below)

    def push(self, moves: Sequence[RefMove]) -> PushRefusal | None:
        """Push pinned moves. Returns the server's refusal, if any."""
        return self.repository.push(self._address, moves)

    def failed(self, refusal: PushRefusal) -> GitFailed:
        """The error for a push that was refused, but not because another push was faster."""
        return _failed(self.url, refusal, 1)

    def _turn(self, what: str) -> contextlib.AbstractContextManager[None]:
        return _in_turn(self._directory / "turns", what, self._hanging)


@contextlib.contextmanager
def _in_turn(directory: Path, what: str, hanging: set[str]) -> Iterator[None]:
    """Processes of this machine take turns, so that their pushes do not conflict.

    This is an optimisation, not a lock: the pinned push gives the exclusion. If the file lock is unavailable,
    continue without it and do not wait for it again: `hanging` has the turns that timed out.
    """
    with contextlib.ExitStack() as turn:
        with contextlib.suppress(OSError, NotImplementedError):
            directory.mkdir(parents=True, exist_ok=True)
            lock = FileLock(directory / f"{what}.lock")
            patience_s = 0 if what in hanging else TURN_MAX_S
            try:
                turn.enter_context(lock.acquire(timeout=patience_s, poll_interval=TURN_POLL_S))
                hanging.discard(what)
            except Timeout:
                hanging.add(what)
        yield


def _make_cache(path: Path, made: Path) -> None:
    """Create the private repository, unless another process just did."""
    if made.is_file():
        return
    GitRepository.make_bare(path)
    with (path / "config").open("a") as file:
        file.write(f"[include]\n\tpath = {made.name}\n")
    made.write_text(_CONFIGURATION)  # last: this file marks the repository as ready


def _moved(lane: Lane, after: Lane, moves: Sequence[RefMove]) -> Lane:
    """The lane once these moves are on the remote."""
    tips = {move.ref: move.new_oid for move in moves}
    return replace(
        after,
        broken=False,
        owner_oid=tips.get(f"{OWNERS}{lane.ref_id}", lane.owner_oid),
        queue_oid=tips.get(f"{QUEUES}{lane.ref_id}", lane.queue_oid),
    )


def back_off_s(beaten: int) -> float:
    """200 to 800 ms; doubled after every five lost races, at most four times."""
    spread = random.uniform(BACK_OFF_MIN_S, BACK_OFF_MAX_S)  # noqa: S311  (not a secret)
    return doubled_s(spread, min((beaten - 1) // TRIES, 4), math.inf)


def _failed(url: str, refusal: PushRefusal, tries: int) -> GitFailed:
    if refusal.kind in (RefusalKind.NETWORK, RefusalKind.OTHER):
        return RemoteUnavailable(
            f"The push to the lanes' remote failed {tries} times: {refusal.detail}.",
            "It may have arrived; look with `interlock lanes`, then try again.",
        )
    return failed_push(url, refusal)
