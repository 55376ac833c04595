"""Reports the GitHub account that a run writes with to the store, before its command starts.

Comments by that account on the run's lane count as the agent's own while the run is live (`wake_rules`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from interlock.core.errors import InterlockError
from interlock.github.client import from_environment
from interlock.github.lookup import Reader
from interlock.github.remarks import ACTIONS_BOT
from interlock.github.tokens import is_given
from interlock.service.contract import LeaseView

#: The tokens that commands write with. A token that only Interlock uses is not among them.
_COMMANDS = ("GH_TOKEN", "GITHUB_TOKEN")
#: The time-out for the request that finds a token's owner.
TIMEOUT_S = 10.0
#: The wait after a failed request.
AGAIN_S = 60.0
#: The prefix of lanes on which comments create work.
_LANES = "issue:"


def account_of(environ: Mapping[str, str]) -> str | None:
    """The login of the user whose token a command finds in its environment.

    None for an app and a job: they write as bots, and bots wake no agent.
    """
    given = {name: value for name, value in environ.items() if not name.startswith("INTERLOCK_GITHUB_")}
    if not any(given.get(name, "").strip() for name in _COMMANDS):
        given = dict(environ)
    if not is_given(given):
        return None
    with from_environment(given, timeout_s=TIMEOUT_S, patience_s=0.0) as github:
        if github.token.kind != "user":
            return None
        login = Reader(github).account()
    return None if login == ACTIONS_BOT else login


class RunAccountReporter:
    """Reports the account of runs on the lanes of issues. It never raises: a run starts without it."""

    def __init__(
        self,
        act_as: Callable[[str, str], None],
        environ: Mapping[str, str],
        account: str | None,
        tell: Callable[[str], None],
    ) -> None:
        """`account` comes from the settings. Without it, GitHub is asked once for the token's owner."""
        self._act_as, self._environ, self._tell = act_as, environ, tell
        self._account, self._known = account, account is not None
        self._failed_s: float | None = None
        self._lock = threading.Lock()

    def __call__(self, lease: LeaseView) -> None:
        if not (lease.item.lane or "").startswith(_LANES):
            return
        try:
            account = self._learned()
            if account is not None:
                self._act_as(lease.run, account)
        except InterlockError as error:
            if self._failed_s is None:
                self._tell(f"Could not report the GitHub account of runs: {error}")
            self._failed_s = time.monotonic()

    def _learned(self) -> str | None:
        with self._lock:
            failed = self._failed_s is not None and time.monotonic() - self._failed_s < AGAIN_S
            if not self._known and not failed:
                self._account, self._known = account_of(self._environ), True
            return self._account
