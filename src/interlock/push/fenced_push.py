"""The fenced push: one atomic push of the branch and the guarding ref, retried if others pushed first.

When it returns, the remote's branch was seen with the commit. If this push put it there, the guarding ref
moved with it, and the run held the lane at that moment. When it raises `LeaseLost`, neither has moved. If
others pushed first, our commits are rebased and the push is retried. A conflict leaves the working tree
unchanged. Commits that others removed from the branch by a forced push are not restored.

Not promised: that the run keeps its lane after the push.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Sequence

from interlock.core.errors import GitFailed, PushFailed, RemoteUnavailable
from interlock.core.record import Record
from interlock.git.checkout import Checkout
from interlock.git.plumbing import check_remote
from interlock.git.refusals import FINAL, PushRefusal, RefMove, RefusalKind, without_secrets
from interlock.push.fence import Guard, failed_push

#: The wait before each retry, and the share of jitter.
RETRY_AFTER_S = (1.0, 2.0, 4.0, 8.0, 16.0)
RETRY_SPREAD = 0.25
#: The timeout for one fetch or push of the branch, with the user's hooks: they may run tests.
TRANSFER_TIMEOUT_S = 1_800.0
#: How often in a row our own renewals may move the guarding ref during a push.
OWN_MOVES_MAX = 5

#: How often to look again after a push if the remote is unreachable.
LOOKS_MAX = 2

#: Others moved the branch first.
_OVERTAKEN = (RefusalKind.STALE, RefusalKind.NON_FAST_FORWARD)


class Pushed(Record):
    """The result of a push."""

    remote: str
    branch: str
    #: The tip of the branch after the push.
    commit: str
    #: False: the branch already had the commit.
    moved: bool
    #: Whether our commits were rebased first.
    rebased: bool
    attempts: int
    #: Whether the git server would have refused the push if the run had lost its lane.
    fenced: bool


class FencedPush:
    """One push of the checked-out commit of a clean working tree, with its retries."""

    def __init__(
        self,
        checkout: Checkout,
        *,
        remote: str,
        branch: str,
        guard: Guard,
        renew: Callable[[], None],
        tell: Callable[[str], None],
        sleep: Callable[[float], None] = time.sleep,
        spread: Callable[[float, float], float] = random.uniform,
    ) -> None:
        """`renew` raises `LeaseLost` if the store says that the run has lost its lane."""
        self._checkout, self._repository = checkout, checkout.repository
        self._remote, self._branch, self._guard = check_remote(remote), branch, guard
        self._ref = f"refs/heads/{branch}"
        self._renew, self._tell, self._sleep, self._spread = renew, tell, sleep, spread
        self._head, self._moved, self._attempts, self._fenced = "", False, 0, False
        #: The tips of the branch at each look.
        self._seen: set[str] = set()

    def run(self) -> Pushed:
        """Push, or raise without having moved any ref."""
        first_head = self._checkout.head()
        retries = 0
        while (refusal := self._try()) is not None:
            if retries == len(RETRY_AFTER_S):
                raise self._failure(refusal)
            pause_s = RETRY_AFTER_S[retries] * self._spread(1 - RETRY_SPREAD, 1 + RETRY_SPREAD)
            retries += 1
            self._tell(f"{self._why(refusal)} Retry {retries} of {len(RETRY_AFTER_S)} in {pause_s:.1f} s.")
            self._sleep(pause_s)
        return Pushed(
            remote=without_secrets(self._remote),
            branch=self._branch,
            commit=self._head,
            moved=self._moved,
            rebased=self._head != first_head,
            attempts=self._attempts,
            fenced=self._fenced,
        )

    def _try(self) -> PushRefusal | None:
        """Push, and retry at once if only our own renewal interfered. Returns the refusal if others did."""
        self._renew()
        for _ in range(OWN_MOVES_MAX):
            refusal, only_guard_moved = self._attempt()
            if not only_guard_moved:
                break
            # The guarding ref was moved by our own renewal or by another run. The next move() finds out
            # which.
        return refusal

    def _attempt(self) -> tuple[PushRefusal | None, bool]:
        """Look, rebase if others were faster, push. The flag: only the guarding ref was stale."""
        guarding = [move] if (move := self._guard.move()) is not None else []
        self._fenced = bool(guarding)
        tip = self._look(guarding).get(self._ref)
        self._head = self._rebased_on(tip)
        if self._head == tip:
            return None, False
        moves = [RefMove(ref=self._ref, old_oid=tip, new_oid=self._head), *guarding]
        self._attempts += 1
        refusal = self._repository.push(
            self._remote, moves, hooks=True, environ=self._guard.environ, timeout_s=TRANSFER_TIMEOUT_S
        )
        now = self._look_patiently(guarding)
        if self._is_pushed(now, moves if refusal is not None else moves[:1]):
            self._moved = True  # if it was refused, only the answer was lost
            return None, False
        if refusal is None:
            raise PushFailed(
                f"git reports a push, but {self._branch} of {without_secrets(self._remote)!r} does not have"
                f" {self._head[:12]}.",
                "Look at the remote and at git's configuration; your commits are safe in this clone.",
            )
        if refusal.kind in FINAL:
            if self._is_pushed(now, moves[:1]):
                raise PushFailed(
                    f"The server moved {self._branch} without its guard: {refusal.detail}.",
                    "Stale pushes are not refused there. Let it accept refs/interlock/*, then arm again.",
                )
            raise failed_push(self._remote, refusal)
        guard_moved = any(now.get(move.ref) != move.old_oid for move in guarding)
        return refusal, guard_moved and now.get(self._ref) == tip

    def _is_pushed(self, now: dict[str, str], moves: Sequence[RefMove]) -> bool:
        """Whether every ref has its new commit, at its tip or below later commits."""
        missing = [move for move in moves if now.get(move.ref) != move.new_oid]
        if any(move.ref not in now for move in missing):
            return False
        if missing:
            self._repository.fetch(self._remote, *(m.ref for m in missing), timeout_s=TRANSFER_TIMEOUT_S)
        return all(self._repository.is_ancestor(m.new_oid or "", now[m.ref]) for m in missing)

    def _look_patiently(self, guarding: list[RefMove]) -> dict[str, str]:
        """The refs after a push: only they tell whether it arrived, so the read is retried."""
        for pause_s in RETRY_AFTER_S[:LOOKS_MAX]:
            with contextlib.suppress(RemoteUnavailable):
                return self._look(guarding)
            self._sleep(pause_s)
        return self._look(guarding)

    def _look(self, guarding: list[RefMove]) -> dict[str, str]:
        """The current refs of this push on the remote."""
        now = self._repository.ls_remote(self._remote, self._ref, *(move.ref for move in guarding))
        for move in guarding:
            if move.old_oid is not None and move.ref not in now:
                raise PushFailed(
                    f"The remote {without_secrets(self._remote)!r} does not have {move.ref}, which guards the"
                    " lane.",
                    "Push to the repository in which the lanes are kept (INTERLOCK_URL).",
                )
        return now

    def _why(self, refusal: PushRefusal) -> str:
        if refusal.kind in _OVERTAKEN:
            return f"Others pushed to {self._branch} first."
        return f"The push failed: {refusal.detail}."

    def _failure(self, refusal: PushRefusal) -> GitFailed:
        if refusal.kind in _OVERTAKEN:
            return PushFailed(
                f"Others pushed to {self._branch} first, {self._attempts} times in a row.",
                "Nothing was pushed; your commits are safe in this clone. Push again.",
            )
        return failed_push(self._remote, refusal)

    def _rebased_on(self, tip: str | None) -> str:
        """The commit to push: the checked-out one, rebased if the branch has new commits."""
        if tip is not None:
            if not self._repository.has(tip):
                self._repository.fetch(self._remote, self._ref, timeout_s=TRANSFER_TIMEOUT_S)
            self._checkout.check_own(tip, remote=self._remote, branch=self._branch, seen=self._seen)
            self._seen.add(tip)
            if not self._checkout.contains(tip):
                self._checkout.rebase(tip, remote=self._remote, branch=self._branch)
        return self._checkout.head()
