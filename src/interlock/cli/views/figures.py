"""The figures of `stats` and the checks of `doctor`."""

from __future__ import annotations

from collections.abc import Sequence

from rich.columns import Columns
from rich.table import Table

from interlock.cli.cures import command
from interlock.cli.page import Console, Text
from interlock.cli.views import words
from interlock.core.costs import dollars
from interlock.core.cures import hint
from interlock.core.timing import span
from interlock.service.contract import CheckView, GroupView, StatsView

_FAILURES = ("leases lost", "timeouts", "writes refused")


def stats(console: Console, seen: StatsView) -> None:
    """Counts now, then rates and spans over the window."""
    console.print(Text("Now", style="bold"))
    counts = words.counts(seen.items)
    console.print(Columns([Text("  ") + count for count in counts]) if counts else "  no items")
    depth = ", ".join(f"{n} at {priority}" for priority, n in seen.depth_by_priority.items())
    oldest = span(seen.oldest_pending_s) if seen.oldest_pending_s is not None else None
    console.print(
        words.facts(
            ("held now", str(seen.current_locks)), ("pending by priority", depth), ("oldest pending", oldest)
        )
    )
    console.print()
    console.print(Text(f"The last {words.exactly(seen.window_s)}", style="bold"))
    claims, completions = words.rates(seen.claims_per_s, seen.completions_per_s)
    failures = f"{seen.failures}, {seen.failure_rate_percent:.1f} % of ended runs"
    failed = f"{seen.failed_items}, {seen.item_failure_rate_percent:.1f} % of ended items"
    held = _spans(seen.lock_duration_avg_s, seen.lock_duration_p50_s, seen.lock_duration_p95_s)
    claimed = _spans(seen.time_to_claim_avg_s, seen.time_to_claim_p50_s, seen.time_to_claim_p95_s)
    console.print(
        words.facts(
            ("claims", f"{seen.claims}, {claims}"),
            ("completions", f"{seen.completions}, {completions}"),
            ("failures", Text(failures, style="red" if seen.failures else "")),
            ("items failed", Text(failed, style="red" if seen.failed_items else "")),
            ("items held", held),
            ("time to claim", claimed),
        )
    )
    named = {
        "leases lost": seen.lease_losses,
        "timeouts": seen.timeouts,
        "writes refused": seen.refused_writes,
        "promotions": seen.promotions,
        "coalesced": seen.coalesced,
        "superseded": seen.superseded,
        "overtaken": seen.overtaken,
        "duplicates": seen.duplicates,
        "rejected": seen.rejected,
        **{f"would have: {reason}": n for reason, n in seen.would_have.items()},
    }
    console.print(Columns([Text(f"  {n} {name}", style=_style(name, n)) for name, n in named.items()]))
    if seen.spent_today:
        console.print()
        console.print(Text("Spent today", style="bold"))
        spent = [(each.scope, each.name, dollars(each.usd)) for each in seen.spent_today]
        console.print(words.facts(*((scope, f"{name}  {usd}") for scope, name, usd in spent)))
    if seen.by is not None:
        console.print()
        _groups(console, seen.by, seen.groups)


def _groups(console: Console, by: str, groups: Sequence[GroupView]) -> None:
    """How the runs of each project, type, agent or priority went."""
    numbers = ("CLAIMS", "COMPLETED", "FAILED", "OF RUNS", "ITEMS FAILED", "OF ITEMS")
    made = words.table(by.upper(), *numbers, right=numbers, wrapped=(by.upper(),))
    for group in groups:
        made.add_row(
            words.harmless(group.name) or "(none)",
            str(group.claims),
            str(group.completions),
            Text(str(group.failures), style="red" if group.failures else ""),
            f"{group.failure_rate_percent:.1f} %",
            Text(str(group.failed_items), style="red" if group.failed_items else ""),
            f"{group.item_failure_rate_percent:.1f} %",
        )
    console.print(made if groups else f"  No runs by {by} in this window.")


def checks(console: Console, found: Sequence[CheckView]) -> None:
    """All checks; a broken one with its remedy."""
    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_column(no_wrap=True)
    made.add_column(overflow="fold")
    for check in found:
        mark = Text("✓ ", style="green") if check.ok else Text("✗ ", style="bold red")
        said = Text(check.detail, style=words.QUIET if check.ok else "")
        if not check.ok and (told := hint(check.mend, check.cures, command)):
            said.append(f"\n{told}", style="cyan")
        made.add_row(mark + Text(check.name.replace("_", " "), style="" if check.ok else "bold"), said)
    console.print(made)


def _style(name: str, n: int) -> str:
    if not n:
        return words.QUIET
    return "red" if name in _FAILURES else ""


def _spans(average: float | None, median: float | None, late: float | None) -> str | None:
    if average is None or median is None or late is None:
        return None
    return f"{span(average)} on average, median {span(median)}, p95 {span(late)}"
