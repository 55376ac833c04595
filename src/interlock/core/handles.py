"""Handles: the right to write as a run. A number alone would let anyone finish another's run by guessing.

A handle is `<run>.<item>.<64 bits>`. The bits come from the store's secret key, so a handle that was never
issued differs from one whose lease was lost, without a lookup.
"""

from __future__ import annotations

import hmac
import re
from collections import OrderedDict
from hashlib import blake2b

from interlock.core.errors import InvalidInput, UnknownRun
from interlock.core.model import ItemId, RunId

REMEMBERED_AT_MOST = 10_000
_FORM = re.compile(r"([1-9][0-9]{0,18})\.([1-9][0-9]{0,18})\.([0-9a-f]{16})", re.ASCII)


def run_number(handle: str) -> RunId:
    """The run's number in a handle, without a check that a store issued it."""
    return handle_numbers(handle)[0]


def handle_numbers(handle: str) -> tuple[RunId, ItemId]:
    """The numbers of run and item in a handle, without a check that a store issued it."""
    match = _match(handle)
    return RunId(int(match[1])), ItemId(int(match[2]))


def _match(handle: str) -> re.Match[str]:
    match = _FORM.fullmatch(handle)
    if match is None:
        raise InvalidInput(f"{handle[:80]!r} is not a handle.", "Use the handle from `next` (`run` in JSON).")
    return match


class Handles:
    """The handles of one store. The latest ones made here are remembered, so that reading them needs no proof
    of their bits."""

    def __init__(self, key: bytes) -> None:
        #: A digest with the key in it: copying it is cheaper than keying a new one each time.
        self._keyed = blake2b(digest_size=8, key=key)
        # A plain dict is slow at removing its first key.
        self._given: OrderedDict[str, tuple[RunId, ItemId]] = OrderedDict()

    def make(self, run: RunId, item: ItemId) -> str:
        """The handle of a run that was just claimed."""
        named = f"{run}.{item}"
        handle = f"{named}.{self._bits(named)}"
        self._given[handle] = run, item
        if len(self._given) > REMEMBERED_AT_MOST:
            self._given.popitem(last=False)
        return handle

    def read(self, handle: str) -> tuple[RunId, ItemId]:
        """The run and item of a handle that this store issued."""
        return self._given.get(handle) or self._proved(handle)

    def take(self, handle: str) -> tuple[RunId, ItemId]:
        """`read` for the last report of a run: the handle is forgotten afterwards."""
        return self._given.pop(handle, None) or self._proved(handle)

    def _proved(self, handle: str) -> tuple[RunId, ItemId]:
        run, item = handle_numbers(handle)
        if not hmac.compare_digest(handle.rpartition(".")[2], self._bits(f"{run}.{item}")):
            raise UnknownRun(
                f"The handle {handle} was never issued by this store.",
                "Use the handle from `next` (`run` in JSON), and check INTERLOCK_URL.",
            )
        return run, item

    def _bits(self, named: str) -> str:
        digest = self._keyed.copy()
        digest.update(named.encode())
        return digest.hexdigest()
