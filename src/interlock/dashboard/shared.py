"""Rendered pages that viewers of one scope share for a short time."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from interlock.dashboard.rendering import Rendered

#: How long a page is shared: at least this long, and so many times as long as it took to render. So pages
#: take at most a part of a processor.
SHARED_S, TIMES = 0.25, 4.0
_PAGES_MAX = 200

#: The cookie's name, which names the store; the scope; the address.
Key = tuple[str, str, str]


class SharedPage:
    """A page that is rendered now or was rendered lately."""

    def __init__(self, newest: int, page: asyncio.Future[Rendered]) -> None:
        #: It shows at least what happened up to this event.
        self.newest, self.page = newest, page
        #: Until when it is shared; infinite while it is rendered.
        self.until_s = float("inf")


class SharedPages:
    """Pages by store, scope and address."""

    def __init__(self) -> None:
        self._pages: OrderedDict[Key, SharedPage] = OrderedDict()

    def clear(self) -> None:
        """Forget all pages: something was changed here."""
        self._pages.clear()

    async def get(self, key: Key, newest: int, draw: Callable[[], Awaitable[Rendered]]) -> Rendered:
        """A shared page that shows at least what happened up to an event, or a newly drawn one.

        A viewer who knows of later events waits until the page may be drawn again.
        """
        while True:
            now_s, shared = time.monotonic(), self._pages.get(key)
            if shared is None or now_s >= shared.until_s:
                shared = self._begin(key, newest, draw)
            if shared.newest >= newest:
                return await asyncio.shield(shared.page)
            if shared.page.done():
                await asyncio.sleep(shared.until_s - now_s)
            else:
                await asyncio.wait([shared.page])

    def _begin(self, key: Key, newest: int, draw: Callable[[], Awaitable[Rendered]]) -> SharedPage:
        task = asyncio.ensure_future(draw())
        shared = self._pages[key] = SharedPage(newest, task)
        self._pages.move_to_end(key)
        while len(self._pages) > _PAGES_MAX:
            self._pages.popitem(last=False)
        begun_s = time.monotonic()

        def drawn(page: asyncio.Future[Rendered]) -> None:
            now_s = time.monotonic()
            failed = page.cancelled() or page.exception() is not None
            shared.until_s = now_s if failed else now_s + max(SHARED_S, TIMES * (now_s - begun_s))

        task.add_done_callback(drawn)
        return shared
