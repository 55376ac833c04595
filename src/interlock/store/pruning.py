"""What goes with an item or a plan that is kept no longer, the same for both databases.

Items go in groups: an item, and all that it absorbed, for its messages show what came with those. A plan goes
with all its tasks.
"""

from __future__ import annotations

from collections.abc import Iterable

from interlock.core.row import NamedTuple

#: What has rows of a plan, and of an item, and by which column. What is referred to comes last.
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
    ("items", "id"),
)
#: Tables that no item or plan has rows in.
OF_THE_STORE = frozenset(
    {
        *("lanes", "plans", "pools", "agents", "paused_projects", "modes", "marks", "series_notes", "tokens"),
        *("metric_labels", "metric_counts"),
    }
)
#: Answers to requests that may be repeated: sweeps forget them by their own age.
OF_SERVERS = frozenset({"requests"})
#: What GitHub sent, what followed, effects, workflow runs and commits go by their own age; repositories
#: with their choices, numbers, pull requests with what they close, and queues stay. A sign goes once it is
#: taken away.
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
    """What went, or would go."""

    items: int = 0
    plans: int = 0
    events: int = 0
    #: The numbers of the runs.
    runs: tuple[int, ...] = ()
    #: The item, or the plan, behind which the next look begins; 0 when all were looked at.
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
    """The items of groups of which every item was got."""
    groups, there = list(groups), set(got)
    broken = {root for root, item in groups if item not in there}
    return [item for root, item in groups if root not in broken]
