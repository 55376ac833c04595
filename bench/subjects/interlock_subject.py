"""Interlock itself, through its service: `next` and `done` in batches, as a worker uses them."""

from __future__ import annotations

from bench.subject import NotAvailable, Shift, Store


class Interlock:
    name = "Interlock"

    def __init__(self, *, store: Store) -> None:
        self.store = store

    def setup(self, url: str) -> None:  # noqa: ARG002
        raise NotAvailable("the adapter is not written yet")

    def fill(self, url: str, n: int, lanes: int | None = None) -> None:
        raise NotImplementedError

    def drain(self, shift: Shift) -> None:
        raise NotImplementedError

    def left(self, url: str) -> int:
        raise NotImplementedError
