"""The pages of the dashboard: an address each, and the function that draws it."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.dashboard.pages.agents import agents
from interlock.dashboard.pages.effects import effects
from interlock.dashboard.pages.events import events
from interlock.dashboard.pages.item import item
from interlock.dashboard.pages.items import items
from interlock.dashboard.pages.lane import lane
from interlock.dashboard.pages.lanes import lanes
from interlock.dashboard.pages.overview import overview
from interlock.dashboard.pages.plan import plan
from interlock.dashboard.pages.plans import plans
from interlock.dashboard.pages.recap import recap
from interlock.dashboard.pages.runs import runs
from interlock.dashboard.pages.series import series
from interlock.dashboard.pages.settings import new_token, settings
from interlock.dashboard.pages.trial import try_payload
from interlock.dashboard.visit import PageFunction

ROUTES: Mapping[str, PageFunction] = {
    "/": overview,
    "/recap": recap,
    "/items": items,
    "/items/{item}": item,
    "/lanes": lanes,
    "/lane": lane,
    "/runs": runs,
    "/agents": agents,
    "/plans": plans,
    "/plans/{plan}": plan,
    "/series": series,
    "/events": events,
    "/effects": effects,
    "/settings": settings,
    "/settings/try": try_payload,
}
#: Pages that answer a form themselves.
FORM_ROUTES: Mapping[str, PageFunction] = {"/settings/try": try_payload, "/settings/tokens": new_token}
#: The navigation: section, address and label. An entry without a page in `ROUTES` is left out.
SECTIONS = (
    ("overview", "/", "Overview"),
    ("items", "/items", "Items"),
    ("lanes", "/lanes", "Lanes"),
    ("runs", "/runs", "Runs"),
    ("agents", "/agents", "Agents"),
    ("plans", "/plans", "Plans"),
    ("series", "/series", "Series"),
    ("events", "/events", "Events"),
    ("effects", "/effects", "Effects"),
    ("settings", "/settings", "Settings"),
)
