"""The doctor: checks every invariant against the database, and says why nothing starts."""

from __future__ import annotations

from interlock.core.cures import cure
from interlock.service.contract import CheckView
from interlock.service.item_view import ItemView, moment
from interlock.service.view_builders import NAMED, external_check
from interlock.store.port import Store


def check_store(store: Store) -> list[CheckView]:
    """Check every invariant against the database. Reads the whole store, so call it rarely."""
    views = []
    for finding in store.findings():
        shown = "; ".join(finding.broken[:5])
        more = len(finding.broken) - 5
        detail = shown + (f"; and {more} more" if more > 0 else "") if finding.broken else finding.promise
        mend = finding.mend if finding.broken else ""
        views.append(CheckView(name=finding.name, ok=not finding.broken, detail=detail, mend=mend))
    outside = external_check([ItemView(item) for item in store.external(NAMED + 1)])
    return [*views, _stalled(store), _quota_limits(store), outside, _blocks(store), _rivals(store)]


def _stalled(store: Store) -> CheckView:
    """Lanes with a line whose owner's agent cannot start it."""
    found = store.stalled(NAMED + 1)
    named = [f"{lane} (item {item} waits for {agent})" for lane, item, agent in found[:NAMED]]
    more = " and more" if len(found) > NAMED else ""
    if not found:
        well = "Every lane with a line has an owner that runs or can be started."
        return CheckView(name="stalled_lanes", ok=True, detail=well)
    detail = f"Lanes wait for an agent that is unknown, unable or gone: {', '.join(named)}{more}."
    why = cure("why", "explains the first", item=found[0][1])
    return CheckView(name="stalled_lanes", ok=False, detail=detail, cures=(why,))


def _quota_limits(store: Store) -> CheckView:
    """Agents at a quota limit. This is no fault, but a reason why nothing starts."""
    limited = (a for a in store.agents() if a.wall_us is not None)
    shown = [f"{a.name} until {moment(a.wall_us or 0):%Y-%m-%d %H:%M} UTC" for a in limited]
    named = f"Agents at a quota limit: {', '.join(shown)}."
    detail = named if shown else "No agent is at a quota limit."
    return CheckView(name="quota_limits", ok=True, detail=detail)


def _blocks(store: Store) -> CheckView:
    """Blocked lanes and items. This is no fault, but a reason why nothing starts."""
    found = store.blocks(NAMED + 1)
    waits = [f"{b.lane or f'item {b.item}'} by {b.blocker}" for b in found[:NAMED]]
    more = " and more" if len(found) > NAMED else ""
    detail = f"Blocked: {', '.join(waits)}{more}."
    return CheckView(name="blocks", ok=True, detail=detail if found else "No lane or item is blocked.")


def _rivals(store: Store) -> CheckView:
    """Issues that several open pull requests would close. People decide which one to merge."""
    found = store.github.contested_issues(NAMED + 1)
    named = [f"{name}#{issue} by {pulls}" for name, issue, pulls in found[:NAMED]]
    more = " and more" if len(found) > NAMED else ""
    detail = f"Issues that several open pull requests would close: {', '.join(named)}{more}."
    well = "No two open pull requests close the same issue."
    return CheckView(name="rival_pull_requests", ok=True, detail=detail if found else well)
