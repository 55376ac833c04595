"""The fenced push: one atomic push of the branch and of its guard, repeated where others were faster.

What it promises: when it returns, the branch and the guarding ref have both moved, and the run held the lane
in that moment. When it raises `LeaseLost`, neither has moved. A push that was overtaken is rebased and tried
again; a conflict leaves the working tree as it was.

Not promised: anything after the push. The run may lose its lane in the next moment.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from interlock.checkout import Checkout
from interlock.core.errors import PushFailed
from interlock.fencing import Guard, failed_push
from interlock.git import check_remote
from interlock.refusals import PushRefusal, RefMove, RefusalKind, without_secrets

#: What a push waits before each retry, and by how much of it at most the wait is longer or shorter.
RETRY_AFTER_S = (1.0, 2.0, 4.0, 8.0, 16.0)
RETRY_SPREAD = 0.25
#: How often in a row the run's own renewals may move the guard under a push.
OWN_MOVES_MAX = 5

#: No retry changes these.
_FINAL = (RefusalKind.ATOMIC_UNSUPPORTED, RefusalKind.PERMISSION, RefusalKind.HOOK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """What a push did."""

    remote: str
    branch: str
    #: The commit that the branch has now.
    commit: str
    #: False: the branch had it already.
    moved: bool
    #: Whether the own commits were put on top of others first.
    rebased: bool
    attempts: int


class FencedPush:
    """One push of what is checked out in a clean working tree, with its retries."""

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
        """`renew` asks the store whether the run still holds its lane, and raises `LeaseLost` if not."""
        self._checkout, self._repository = checkout, checkout.repository
        self._remote, self._branch, self._guard = check_remote(remote), branch, guard
        self._ref = f"refs/heads/{branch}"
        self._renew, self._tell, self._sleep, self._spread = renew, tell, sleep, spread
        self._first_head = ""
        self._attempts = 0
        self._moved = False

    def run(self) -> Pushed:
        """Push; raises where it cannot be done, with nothing moved and nothing half done."""
        self._first_head = self._checkout.head()
        for n, wait_s in enumerate(RETRY_AFTER_S, start=1):
            refusal = self._try()
            if refusal is None:
                return self._pushed()
            pause_s = wait_s * self._spread(1 - RETRY_SPREAD, 1 + RETRY_SPREAD)
            self._tell(
                f"Not pushed yet: {refusal.detail}. Retry {n} of {len(RETRY_AFTER_S)} in {pause_s:.1f} s."
            )
            self._sleep(pause_s)
        refusal = self._try()
        if refusal is None:
            return self._pushed()
        if refusal.kind in (RefusalKind.STALE, RefusalKind.NON_FAST_FORWARD):
            raise PushFailed(
                f"Others were faster than each of {self._attempts} pushes to {self._branch}.",
                "Nothing was pushed; your commits are safe in this clone. Push again.",
            )
        raise failed_push(self._remote, refusal)

    def _try(self) -> PushRefusal | None:
        """Look, rebase if others were faster, push. What is returned is worth a retry after a wait."""
        self._renew()
        for moves_left in reversed(range(OWN_MOVES_MAX)):
            guarding = [move] if (move := self._guard.move()) is not None else []
            seen = self._look(guarding)
            tip = seen.get(self._ref)
            head = self._on_top_of(tip)
            if head == tip:
                return None
            moves = [RefMove(ref=self._ref, old_oid=tip, new_oid=head), *guarding]
            self._attempts += 1
            refusal = self._repository.push(self._remote, moves, hooks=True, environ=self._guard.environ)
            if refusal is not None and refusal.kind in _FINAL:
                raise failed_push(self._remote, refusal)
            now = seen if refusal is None else self._look(guarding)
            # The answer to a push that arrived may be lost; the commit of a guard is nobody else's.
            if refusal is None or all(now.get(move.ref) == move.new_oid for move in moves):
                self._moved = True
                return None
            # If only the guard moved, then by another run, which its next look tells, or by our own renewal.
            own_move = now.get(self._ref) == tip and any(now.get(m.ref) != m.old_oid for m in guarding)
            if not own_move or not moves_left:
                return refusal
        raise AssertionError("the last try returns")

    def _look(self, guarding: list[RefMove]) -> dict[str, str]:
        """Where the refs of this push point now."""
        now = self._repository.ls_remote(self._remote, self._ref, *(move.ref for move in guarding))
        for move in guarding:
            if move.old_oid is not None and move.ref not in now:
                raise PushFailed(
                    f"The remote {without_secrets(self._remote)!r} does not have {move.ref}, which guards the"
                    " lane.",
                    "Push to the repository in which the lanes are kept (INTERLOCK_URL).",
                )
        return now

    def _on_top_of(self, tip: str | None) -> str:
        """The commit to push: what is checked out, rebased where the branch has more."""
        if tip is not None:
            if not self._repository.has(tip):
                self._repository.fetch(self._remote, self._ref)
            if not self._checkout.contains(tip):
                self._checkout.rebase(tip, self._branch)
        return self._checkout.head()

    def _pushed(self) -> Pushed:
        head = self._checkout.head()
        return Pushed(
            remote=without_secrets(self._remote),
            branch=self._branch,
            commit=head,
            moved=self._moved,
            rebased=head != self._first_head,
            attempts=self._attempts,
        )
