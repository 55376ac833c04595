"""Sends the newest output of runs to the store every few seconds, so that it can be read on any machine.

A run sends at most one small piece in an interval; what does not fit is left out. A run that ends before its
first interval sends nothing: its end has the last lines. Nothing waits for it, and an unreachable store only
misses output.
"""

from __future__ import annotations

import codecs
import contextlib
import threading
from collections.abc import Callable, Iterable

from interlock.core.errors import InterlockError, InvalidInput, LeaseLost, NotFound
from interlock.core.output_text import plain, split_begun
from interlock.service.contract import Service

#: The most characters of a piece: as many as the store takes at once.
PIECE_CHARS = 1 << 14
#: What stands in the place of a secret.
REDACTED = "[redacted]"


class SharedOutput:
    """The output of one run that was not sent yet, in a buffer of bounded size."""

    def __init__(self, handle: str, secrets: Iterable[str] = ()) -> None:
        """Each of the secrets is left out where it is whole, and so are the bits of the handle."""
        self.handle = handle
        self._secrets = tuple(filter(None, (handle.rpartition(".")[2], *secrets)))
        #: Whether the store has a piece of it, and whether it takes no more.
        self.sent, self.closed = False, False
        self._lock = threading.Lock()
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._text, self._begun = "", ""
        self._start = 0
        #: A piece whose answer is not known: it is sent again, and the store knows it by its place.
        self._pending: tuple[int, str] | None = None

    def take(self, data: bytes) -> None:
        """Add output; never blocks and never raises."""
        if self.closed:
            return
        with self._lock:
            text, self._begun = split_begun(self._begun + self._decoder.decode(data))
            self._text = self._redacted(self._text + plain(text))
            if (over := len(self._text) - PIECE_CHARS) > 0:
                self._text = self._text[over:]
                self._start += over

    def _redacted(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, REDACTED)
        return text

    def _begun_secret(self) -> int:
        """How many characters at the end may begin a secret, and wait for the next output."""
        lengths = (
            n for secret in self._secrets for n in range(1, len(secret)) if self._text.endswith(secret[:n])
        )
        return max(lengths, default=0)

    def send(self, service: Service, *, last: bool = False) -> bool:
        """Send a piece, if there is one. Raises if the store cannot be reached."""
        with self._lock:
            if self._pending is None:
                ready = len(self._text) - (0 if last else self._begun_secret())
                if ready:
                    self._pending = self._start, self._text[:ready]
                    self._start, self._text = self._start + ready, self._text[ready:]
            piece = self._pending
        if piece is None or self.closed:
            return False
        try:
            service.append_log(self.handle, start=piece[0], text=piece[1])
            self.sent = True
        except (LeaseLost, NotFound, InvalidInput):  # it has ended, or the server does not know the operation
            self.closed = True
        self._pending = None
        return True


class LogSharing:
    """Sends the output of a worker's runs until it is stopped."""

    def __init__(self, service: Service, runs: Callable[[], Iterable[SharedOutput]], every_s: float) -> None:
        """`every_s` is the interval; 0 sends nothing."""
        self._service, self._runs, self._every_s = service, runs, every_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="interlock-logs", daemon=True)

    def start(self) -> None:
        if self._every_s:
            self._thread.start()

    def finish(self, output: SharedOutput) -> None:
        """Send the rest of a run that ends now, if the store has the beginning."""
        if output.sent:
            with contextlib.suppress(InterlockError):
                while output.send(self._service, last=True):
                    pass
        output.closed = True

    def stop(self, timeout_s: float) -> None:
        self._ended.set()
        if self._every_s:
            self._thread.join(timeout_s)

    def _loop(self) -> None:
        while not self._ended.wait(self._every_s):
            for output in self._runs():
                with contextlib.suppress(InterlockError):
                    output.send(self._service)
