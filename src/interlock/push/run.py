"""The run that wants to push, as the store knows it and, where the store cannot be asked, its environment.

Two guards stand before a branch. The store is asked first: a refused renewal ends the matter. Then git
itself guards the push. When the store cannot be reached the second decides alone, and that is said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

from interlock.core.errors import InvalidInput, Refusal, StoreBusy, StoreUnavailable
from interlock.git.plumbing import Repository
from interlock.push.fence import Fence, FenceGuard, Guard, LaneRun, LanesInGit, NoGuard, OwnerGuard, arm
from interlock.service.contract import Report

if TYPE_CHECKING:
    from interlock.service.contract import LaneService
    from interlock.service.itemview import ItemView


class Pusher:
    """One run; `lanes` opens the store it belongs to.

    Lanes that live in git (`in_git`) are guarded by that store itself: without it nothing is decided.
    """

    def __init__(
        self,
        handle: str | None,
        *,
        lanes: Callable[[], LaneService],
        in_git: bool,
        environ: Mapping[str, str],
        tell: Callable[[str], None],
    ) -> None:
        self._handle = handle or environ.get("INTERLOCK_RUN", "").strip()
        if not self._handle:
            raise InvalidInput(
                "There is no run to push for.",
                "Give --run HANDLE from interlock next, or set INTERLOCK_RUN; for no run use git push.",
            )
        self._lanes, self._in_git, self._environ, self._tell = lanes, in_git, environ, tell
        self._store: LaneService | None = None
        self._warned = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._store is not None:
            self._store.close()

    def guard(self, repository: Repository, remote: str) -> Guard:
        """What guards this run's pushes to `remote` in git. `LeaseLost` if the store refuses to renew."""
        if self._in_git:
            self._store = self._lanes()
            assert isinstance(self._store, LanesInGit)
            return OwnerGuard(self._store, self._handle)
        run = self._lane_run(self._renewed())
        return NoGuard() if run is None else FenceGuard(repository, remote, run)

    def arm(self, repository: Repository, remote: str) -> Fence | None:
        """Shut out the earlier runs of the lane; None where no fence is needed for that."""
        guard = self.guard(repository, remote)
        if isinstance(guard, FenceGuard):
            return arm(repository, remote, guard.run)
        guard.check()
        return None

    def renew(self) -> None:
        """Keep the lease; `LeaseLost` if the store refuses. A store that cannot be asked is told of, once."""
        if not self._in_git:  # there the push itself is the renewal
            self._renewed()

    def _renewed(self) -> ItemView | None:
        """The run's item; None if the store cannot be asked."""
        try:
            self._store = self._store or self._lanes()
            (answer,) = self._store.renew([Report(run=self._handle)])
        except (StoreUnavailable, StoreBusy) as error:
            if not self._warned:
                self._tell(f"The store could not be asked: {error.sentence} The fence in git decides alone.")
            self._warned = True
            return None
        if answer.refusal is not None:
            refused = answer.refusal
            raise Refusal(code=refused.code, sentence=refused.message, hint=refused.hint).error()
        return answer.item

    def _lane_run(self, item: ItemView | None) -> LaneRun | None:
        lane = self._environ.get("INTERLOCK_LANE") if item is None else item.lane
        if lane:
            agent = self._environ.get("INTERLOCK_AGENT") if item is None else item.run_agent
            return LaneRun(lane=lane, handle=self._handle, agent=agent or "an unnamed agent")
        if item is None:
            raise StoreUnavailable(
                "The store cannot be asked which lane the run holds.",
                "Set INTERLOCK_LANE, or push again when the store is back.",
            )
        self._tell(f"Item {item.id} holds no lane: the store was asked, but nothing in git guards this push.")
        return None
