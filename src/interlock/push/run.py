"""The run that pushes, from the store or, if the store is unreachable, from its environment.

Two checks protect a branch. First the store: a refused renewal ends the push. Then git: the guard decides. If
the store is unreachable, git decides alone, and the user gets a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, cast

from interlock.core.errors import InvalidInput, Refusal, StoreBusy, StoreUnavailable
from interlock.git.plumbing import GitRepository
from interlock.push.fence import Fence, Guard, LaneRun, LanesInGit, arm, fence_guard, owner_guard
from interlock.service.contract import Report

if TYPE_CHECKING:
    from interlock.service.contract import LaneService, Service
    from interlock.service.item_view import ItemView


class PushingRun(AbstractContextManager["PushingRun"]):
    """One run; `lanes` opens its store. Without a run, the store is not asked and the push is not fenced.

    A store in git (`in_git`) guards the push itself: if it is unreachable, the push fails.
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
        self._lanes, self._in_git, self._environ, self._tell = lanes, in_git, environ, tell
        self._store: LaneService | None = None
        self._away = False

    def __exit__(self, *_: object) -> None:
        if self._store is not None:
            self._store.close()

    def guard(self, repository: GitRepository, remote: str) -> Guard:
        """The guard of this run's pushes to `remote`. `LeaseLost` if the store refuses to renew."""
        if not self._handle:
            self._tell("There is no run, so this push is not fenced.")
            return Guard()
        if self._in_git:
            self._store = self._lanes()
            assert isinstance(self._store, LanesInGit)
            return owner_guard(self._store, self._handle)
        run = self._lane_run(self._renewed())
        return Guard() if run is None else fence_guard(repository, remote, run, self._database)

    def arm(self, repository: GitRepository, remote: str) -> Fence | None:
        """Fence off the earlier runs of the lane; None if the lane needs no fence for that."""
        if not self._handle:
            raise InvalidInput(
                "--run is missing.", "Pass --run HANDLE from interlock next, or set INTERLOCK_RUN."
            )
        if self._in_git:
            self.guard(repository, remote).check()
            return None
        run = self._lane_run(self._renewed())
        return None if run is None else arm(repository, remote, run, self._database)

    @property
    def _database(self) -> Service | None:
        """The store of the lane; None if it is unreachable."""
        return cast("Service", self._store) if self._store is not None and not self._away else None

    def renew(self) -> None:
        """Renew the lease; raises `LeaseLost` if the store refuses. Warns once if the store is
        unreachable."""
        if self._handle and not self._in_git:  # in git, the push itself renews
            self._renewed()

    def _renewed(self) -> ItemView | None:
        """The run's item; None if the store is unreachable. A second call does not wait for the store."""
        if self._away:
            return None
        try:
            self._store = self._store or self._lanes()
            (answer,) = self._store.renew([Report(run=self._handle)])
        except (StoreUnavailable, StoreBusy) as error:
            self._tell(f"The store cannot be reached: {error.sentence} Only the fence in git is checked.")
            self._away = True
            return None
        if answer.refusal is not None:
            refused = answer.refusal
            raise Refusal(
                code=refused.code, sentence=refused.message, hint=refused.hint, cures=refused.cures
            ).error()
        return answer.item

    def _lane_run(self, item: ItemView | None) -> LaneRun | None:
        lane = self._environ.get("INTERLOCK_LANE") if item is None else item.lane
        if lane:
            agent = self._environ.get("INTERLOCK_AGENT") if item is None else item.run_agent
            return LaneRun(lane=lane, handle=self._handle, agent=agent or "an unnamed agent")
        if item is None:
            raise StoreUnavailable(
                "The store cannot be reached, so the lane of the run is unknown.",
                "Set INTERLOCK_LANE, or push again when the store is back.",
            )
        self._tell(f"Item {item.id} has no lane, so this push is not fenced.")
        return None
