"""The loop that detects other processes' changes in the store, and wakes event streams and waiting claims."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from functools import partial

from interlock.core.errors import InterlockError
from interlock.http.claims import ClaimRequests
from interlock.http.execution import OperationRunner
from interlock.http.request_log import log
from interlock.http.store_signal import StoreSignal
from interlock.http.streams import Streams

#: How often the history is read for other processes' changes.
WATCH_S = 0.1
#: How often the agents with a limit are read.
LIMITED_S = 5.0
#: How often the tokens of open streams and waiting claims are checked.
TOKENS_S = 2.0


class StoreWatch:
    """Watches the store of one server. Waiting claims poll at least every `poll_s`."""

    def __init__(
        self,
        execution: OperationRunner,
        signals: StoreSignal,
        claims: ClaimRequests,
        streams: Streams,
        poll_s: float,
    ) -> None:
        self._execution, self._signals, self._claims, self._streams = execution, signals, claims, streams
        self.poll_s = poll_s

    async def run(self) -> None:
        """Watch until the server stops."""
        last, looked_s, asked_s, checked_s = -1, 0.0, 0.0, 0.0
        while not self._signals.stopping:
            try:
                now = await self._execution.in_thread(self._execution.last_event)
            except InterlockError:  # the store may be unreachable for a while
                now = last
            except Exception:  # otherwise streams and waiting claims would get no further changes
                log.exception("defect", where="watch")
                now = last
            if now != last:
                last = self._streams.newest = now
                self._signals.signal()
                self._claims.lines.wake(soon=False)
            elif time.monotonic() >= looked_s + self.poll_s:
                looked_s = time.monotonic()
                self._claims.lines.wake(soon=False)
            if time.monotonic() >= asked_s + LIMITED_S:
                asked_s = time.monotonic()
                with suppress(InterlockError):
                    self._claims.limited = await self._execution.in_thread(self._limited_agents)
            if time.monotonic() >= checked_s + TOKENS_S:
                checked_s = time.monotonic()
                with suppress(InterlockError):
                    await self._end_revoked()
            await asyncio.sleep(WATCH_S)

    def _limited_agents(self) -> set[str]:
        agents = self._execution.service.agents()
        return {agent.key for agent in agents if agent.max is not None or agent.pool is not None}

    async def _end_revoked(self) -> None:
        """End the streams and waiting claims of tokens that were revoked or have expired."""
        tokens = {*self._streams.tokens, *self._claims.by_token}
        live = (
            await self._execution.in_thread(partial(self._execution.live_tokens, tokens)) if tokens else set()
        )
        self._claims.revoke(tokens - live)
        if tokens - live:
            self._execution.bearers.forget_tokens(tokens - live)
            self._streams.end(tokens - live)
