"""Answers of GitHub in a database: every process knows what any of them has read."""

from __future__ import annotations

from interlock.github.cache import Kept
from interlock.store.github_port import Answer, GitHubStore


class StoredAnswers:
    """Keeps answers in a store."""

    def __init__(self, store: GitHubStore) -> None:
        self._store = store

    def get(self, key: str) -> Kept | None:
        found = self._store.answer(key)
        return Kept(etag=found.etag, body=found.body, link=found.link) if found else None

    def put(self, key: str, kept: Kept) -> None:
        self._store.keep_answer(key, Answer(kept.etag, kept.body, kept.link))
