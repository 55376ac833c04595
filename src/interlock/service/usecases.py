"""Every use case of the service as it goes over HTTP: one table for server, clients and documents.

What a use case takes and answers, the signature in the contract says. Handles are secrets and therefore
stand in bodies, never in paths.
"""

from __future__ import annotations

from functools import cache
from typing import Any, get_type_hints

from interlock.core.row import NamedTuple
from interlock.core.scopes import Needs
from interlock.service.contract import Service

READ, AGENT, ADMIN = Needs.READ, Needs.AGENT, Needs.ADMIN


class Parameter(NamedTuple):
    """What a use case takes."""

    name: str
    kind: Any
    needed: bool
    default: Any


class UseCase(NamedTuple):
    """A function of `Service`, its address, and who may call it."""

    name: str
    method: str
    path: str
    needs: Needs
    #: The field of the answer that has the value; empty if the value is the answer.
    field: str = ""
    #: Whether its answer is kept in the transaction that carries it out. Others may simply be repeated.
    kept: bool = False

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return _signature(self.name)[0]

    @property
    def answer(self) -> Any:
        """The type that the function returns."""
        return _signature(self.name)[1]

    @property
    def writes(self) -> bool:
        return self.method != "GET"

    @property
    def speaks(self) -> bool:
        """Whether it is called for an agent. Over HTTP the token of that agent names it well enough."""
        return any(parameter.name == "agent" and parameter.needed for parameter in self.parameters)

    @property
    def in_path(self) -> tuple[str, ...]:
        return tuple(part[1:-1] for part in self.path.split("/") if part.startswith("{"))


@cache
def _signature(name: str) -> tuple[tuple[Parameter, ...], Any]:
    """Without `inspect`, which takes long to import."""
    function = getattr(Service, name)
    code = function.__code__
    hints = get_type_hints(function)
    count = code.co_argcount + code.co_kwonlyargcount
    plain = function.__defaults__ or ()
    first = code.co_argcount - len(plain)
    defaults = dict(zip(code.co_varnames[first : code.co_argcount], plain, strict=True))
    defaults |= function.__kwdefaults__ or {}
    names = code.co_varnames[1:count]
    taken = tuple(Parameter(n, hints[n], n not in defaults, defaults.get(n)) for n in names)
    return taken, hints["return"]


USE_CASES = (
    UseCase("add", "POST", "/items", AGENT, "items", kept=True),
    UseCase("items", "GET", "/items", READ, "items"),
    UseCase("show", "GET", "/items/{item}", READ),
    UseCase("edit", "PATCH", "/items/{item}", ADMIN, kept=True),
    UseCase("why", "GET", "/items/{item}/why", READ),
    UseCase("hindered", "GET", "/items/{item}/hindered", READ, "hindered"),
    UseCase("msg", "POST", "/items/{item}/messages", AGENT, kept=True),
    UseCase("cancel", "POST", "/items/{item}/cancel", AGENT, kept=True),
    UseCase("take_back", "POST", "/items/{item}/take-back", ADMIN, kept=True),
    UseCase("retry", "POST", "/items/{item}/retry", ADMIN, kept=True),
    UseCase("end_external", "POST", "/items/{item}/end-external", ADMIN, kept=True),
    UseCase("stopped", "GET", "/stopped", READ, "items"),
    UseCase("external", "GET", "/external", READ, "items"),
    UseCase("next", "POST", "/claims", AGENT, "leases", kept=True),
    UseCase("renew", "POST", "/runs/renew", AGENT, "runs"),
    UseCase("done", "POST", "/runs/done", AGENT, "runs", kept=True),
    UseCase("fail", "POST", "/runs/fail", AGENT, "runs", kept=True),
    UseCase("release", "POST", "/runs/release", AGENT, "runs", kept=True),
    UseCase("ask", "POST", "/runs/ask", AGENT, kept=True),
    UseCase("inbox", "POST", "/runs/inbox", AGENT, "messages"),
    UseCase("sender_of", "POST", "/runs/sender", AGENT, "sender"),
    UseCase("item_of", "POST", "/runs/item", AGENT, "item"),
    UseCase("unwanted", "POST", "/runs/unwanted", AGENT, "why"),
    UseCase("act_as", "POST", "/runs/account", AGENT, "kept"),
    UseCase("pass_fence", "POST", "/runs/pass-fence", AGENT, "passed"),
    UseCase("plan_batch", "POST", "/runs/batch", AGENT),
    UseCase("recent_runs", "GET", "/runs", READ, "runs"),
    UseCase("lanes", "GET", "/lanes", READ, "lanes"),
    UseCase("on_lane", "GET", "/lanes/items", READ, "items"),
    UseCase("blocks", "GET", "/blocks", READ, "blocks"),
    UseCase("block", "POST", "/blocks", ADMIN),
    UseCase("unblock", "POST", "/blocks/remove", ADMIN, "blockers"),
    UseCase("gates", "GET", "/gates", READ, "gates"),
    UseCase("set_gate", "PUT", "/gates", ADMIN),
    UseCase("remove_gate", "POST", "/gates/remove", ADMIN, "removed"),
    UseCase("series", "GET", "/series", READ, "series"),
    UseCase("series_metrics", "GET", "/series/metrics", READ),
    UseCase("acquire_issue", "POST", "/series/acquire", ADMIN),
    UseCase("release_issue", "POST", "/series/release", ADMIN),
    UseCase("promote_series", "POST", "/series/promote", ADMIN),
    UseCase("reconcile_series", "POST", "/series/reconcile", ADMIN, "series"),
    UseCase("rebuild_series", "POST", "/series/rebuild", ADMIN),
    UseCase("modes", "GET", "/modes", READ, "modes"),
    UseCase("set_mode", "PUT", "/modes", ADMIN, "set"),
    UseCase("events", "GET", "/events", READ, "events"),
    UseCase("stats", "GET", "/stats", READ),
    UseCase("metrics", "GET", "/metrics", READ, "metrics"),
    UseCase("doctor", "GET", "/doctor", READ, "checks"),
    UseCase("lineage", "GET", "/lineage", READ),
    UseCase("owed_to_github", "GET", "/github/owed", READ),
    UseCase("agents", "GET", "/agents", READ, "agents"),
    UseCase("near_agent", "GET", "/agents/near", READ, "near"),
    UseCase("set_agent", "PUT", "/agents", ADMIN),
    UseCase("remove_agent", "POST", "/agents/remove", ADMIN, "removed"),
    UseCase("pause_agent", "POST", "/agents/pause", ADMIN),
    UseCase("pools", "GET", "/pools", READ, "pools"),
    UseCase("set_pool", "PUT", "/pools", ADMIN),
    UseCase("remove_pool", "POST", "/pools/remove", ADMIN, "removed"),
    UseCase("paused_projects", "GET", "/projects/paused", READ, "projects"),
    UseCase("pause_project", "POST", "/projects/pause", ADMIN, "paused"),
    UseCase("workers", "GET", "/workers", READ, "workers"),
    UseCase("see_worker", "POST", "/workers", AGENT, "seen"),
    UseCase("leave_worker", "POST", "/workers/leave", AGENT, "left"),
    UseCase("sweep", "POST", "/sweep", AGENT),
    UseCase("next_notice", "POST", "/notices/next", ADMIN, "notice"),
    UseCase("end_notice", "POST", "/notices/end", ADMIN, "ended"),
    UseCase("plans", "GET", "/plans", READ, "plans"),
    UseCase("create_plan", "POST", "/plans", AGENT, kept=True),
    UseCase("plan", "GET", "/plans/{plan}", READ),
    UseCase("edit_plan", "PATCH", "/plans/{plan}", AGENT, kept=True),
    UseCase("cancel_plan", "POST", "/plans/{plan}/cancel", ADMIN, kept=True),
    UseCase("pause_plan", "POST", "/plans/{plan}/pause", ADMIN, kept=True),
    UseCase("resume_plan", "POST", "/plans/{plan}/resume", ADMIN, kept=True),
    UseCase("set_edit_deadline", "POST", "/plans/{plan}/deadline", ADMIN, kept=True),
    UseCase("plan_stats", "GET", "/plans/{plan}/stats", READ),
    UseCase("plan_history", "GET", "/plans/{plan}/revisions", READ, "revisions"),
    UseCase("plan_at", "GET", "/plans/{plan}/revisions/{revision}", READ),
    UseCase("tokens", "GET", "/tokens", ADMIN, "tokens"),
    UseCase("create_token", "POST", "/tokens", ADMIN),
    UseCase("revoke_token", "POST", "/tokens/revoke", ADMIN),
)
#: The same by name. `follow` is a stream of its own, `close` is nobody else's business.
BY_NAME = {case.name: case for case in USE_CASES}
ROOT = "/v1"
