"""The rows that are deleted with an item or a plan, for both databases.

Items are deleted in groups: an item with all items that it absorbed, as its messages show their data. A plan
is deleted with all its tasks.
"""

from __future__ import annotations

from collections.abc import Iterable

from interlock.core.row import NamedTuple

#: The tables with rows of a plan, and of an item, with their columns. Referenced tables come last.
BY_PLAN = (("completions", "plan"), ("edges", "plan"), ("tasks", "plan"), ("revisions", "plan"))
BY_ITEM = (
    ("payloads", "item"),
    ("messages", "item"),
    ("runs", "item"),
    ("events", "item"),
    ("dedupe_keys", "item"),
    ("blocks", "item"),
    ("github_links", "item"),
    ("github_accounts", "item"),
    ("run_costs", "item"),
    ("run_logs", "item"),
    ("items", "id"),
)
#: Tables without rows of items or plans.
OF_THE_STORE = frozenset(
    {
        *("lanes", "plans", "pools", "agents", "paused_projects", "modes", "marks", "series_notes", "tokens"),
        *("metric_labels", "metric_counts", "spending", "calendars", "budgets", "reserves"),
    }
)
#: Tables whose rows are deleted with a row of another one: pieces go with their log.
OF_OTHER_ROWS = frozenset({"run_log_pieces"})
#: Answers to repeatable requests. Sweeps delete them by their own age.
OF_SERVERS = frozenset({"requests"})
#: Deliveries, orders, effects, workflow runs and commits are deleted by their own age. Repositories with
#: their options, numbers, pull requests with the issues they close, and queues stay. A reaction's row is
#: deleted when the reaction is removed.
OF_GITHUB = frozenset(
    {
        "github_repositories",
        "github_deliveries",
        "github_numbers",
        "github_consequences",
        "github_outboxes",
        "github_effects",
        "github_heads",
        "github_workflow_runs",
        "github_choices",
        "github_closes",
        "github_signs",
    }
)


class Pruned(NamedTuple):
    """The deleted rows, or those that would be deleted."""

    items: int = 0
    plans: int = 0
    events: int = 0
    #: The numbers of the runs.
    runs: tuple[int, ...] = ()
    #: The item or plan after which the next search begins; 0 when all were searched.
    onward: int = 0
    #: Deliveries of GitHub.
    deliveries: int = 0

    def __bool__(self) -> bool:
        return bool(self.items or self.plans or self.deliveries)

    def plus(self, other: Pruned) -> Pruned:
        return Pruned(
            self.items + other.items,
            self.plans + other.plans,
            self.events + other.events,
            self.runs + other.runs,
            deliveries=self.deliveries + other.deliveries,
        )


def whole(groups: Iterable[tuple[int, int]], got: Iterable[int]) -> list[int]:
    """The items of groups whose every item is in `got`."""
    groups, there = list(groups), set(got)
    broken = {root for root, item in groups if item not in there}
    return [item for root, item in groups if root not in broken]
