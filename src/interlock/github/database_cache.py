"""Caches answers of GitHub in a database, for all processes."""

from __future__ import annotations

from interlock.github.cache import CachedAnswer
from interlock.store.github import GitHubStore, StoredGitHubAnswer


class StoredAnswers:
    """Caches answers in a store."""

    def __init__(self, store: GitHubStore) -> None:
        self._store = store

    def get(self, key: str) -> CachedAnswer | None:
        found = self._store.answer(key)
        return CachedAnswer(etag=found.etag, body=found.body, link=found.link) if found else None

    def put(self, key: str, kept: CachedAnswer) -> None:
        self._store.keep_answer(key, StoredGitHubAnswer(kept.etag, kept.body, kept.link))
