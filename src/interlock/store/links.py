"""Runs in sync in a database, the same for both: only the statements are of each."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.store.links_port import Followed, Head, Link, RunsItem, WorkflowRun
from interlock.store.outbox import Ask, Tables


class Links:
    """The links of one database."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def head(self, repository: int, number: int, commit_id: str = "") -> Head | None:
        of = {"repository": repository, "number": number, "commit_id": commit_id}
        found = self._tables.reading(lambda ask: ask("links/head", **of))
        return Head(*found[0])._replace(followed=bool(found[0][10])) if found else None

    def advance(self, head: Head, links: Sequence[Link], runs: Sequence[WorkflowRun]) -> bool:
        fields = {name: value for name, value in head._asdict().items() if not name.endswith("_us")}

        def work(ask: Ask) -> bool:
            if not ask("links/advance", **fields):
                return False
            for link in sorted(links):
                ask("links/link", **link._asdict())
            for run in sorted(runs, key=lambda each: each.id):
                ask("links/keep_workflow_run", **run._asdict())
            return True

        return self._tables.writing(work)

    def runs(self, runs: Sequence[int]) -> dict[int, RunsItem]:
        rows = self._tables.reading(lambda ask: ask("links/runs", runs=list(runs))) if runs else []
        return {row[0]: RunsItem(*row) for row in rows}

    def of_run(self, run: int, limit: int) -> list[Followed]:
        return self._followed("of_run", run=run, limit=limit)

    def of_items(self, items: Sequence[int]) -> list[Followed]:
        return self._followed("of_items", items=list(items)) if items else []

    def of_number(self, repository: int, number: int, limit: int) -> list[Followed]:
        return self._followed("of_number", repository=repository, number=number, limit=limit)

    def workflow_runs(self, repository: int, head: str, limit: int) -> list[WorkflowRun]:
        of = {"repository": repository, "head": head, "limit": limit}
        rows = self._tables.reading(lambda ask: ask("links/workflow_runs", **of))
        return [WorkflowRun(*row) for row in rows]

    def longest_unseen(self, limit: int) -> list[tuple[int, int, str]]:
        rows = self._tables.reading(lambda ask: ask("links/longest_unseen", limit=limit))
        return [(repository, number, commit) for repository, number, commit in rows]

    def _followed(self, name: str, **params: object) -> list[Followed]:
        rows = self._tables.reading(lambda ask: ask(f"links/{name}", **params))
        return [Followed(*row)._replace(newest=bool(row[-1])) for row in rows]
