"""The operations of the service: an entry has everything that a shell needs.

The server, the remote client, the tools for models, option help and the reference read this table. Arguments
and answer are in the signature of the function in the contract, the documentation is in the manual. Handles
are secrets: they are sent in bodies, never in paths.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from interlock.core.names import BATCH_MAX, RECAP_MAX, UPCOMING_MAX
from interlock.core.row import NamedTuple
from interlock.core.scopes import Needs
from interlock.service.contract import DoneView, Service

if TYPE_CHECKING:
    from interlock.core.scopes import Confines
    from interlock.service.manual import ManualEntry

    #: The form of a body: parameters, documents of items, reports of runs, changes of an item, a plan file or
    #: an edit file.
    Body = Literal["parameters", "items", "reports", "changes", "plan", "edit"]
    #: Which waiting claims poll after an operation: none; those for the agents of the added items; those for
    #: the agents whose runs it finished, if nothing else became ready; all; all, after reading the limits of
    #: agents again.
    Wakes = Literal["none", "added", "finished", "all", "limits"]

ROOT = "/v1"
#: The most rows of a list, unless its entry says otherwise.
LIST_MAX = 10_000
READ, AGENT, ADMIN = Needs.READ, Needs.AGENT, Needs.ADMIN


class Parameter(NamedTuple):
    """A parameter of an operation."""

    name: str
    kind: Any
    needed: bool
    default: Any


class Operation(NamedTuple):
    """A function of `Service`: its address, its scope, and how it is carried out and answered."""

    name: str
    method: str
    path: str
    needs: Needs
    #: The field of the answer with the value; empty if the value is the answer.
    field: str = ""
    #: What it answers where more is asked for: the same field, and others.
    more: Any = None
    #: What an agent's token is confined to, besides its own name and runs.
    confines: Confines = "runs"
    body: Body = "parameters"
    #: Whether its answer is stored in its transaction. Other operations are idempotent.
    kept: bool = False
    #: It is small and frequent: several that come at once share a transaction.
    gathers: bool = False
    #: It may wait for GitHub.
    asks_github: bool = False
    #: It is expensive: simultaneous callers share one answer.
    single_flight: bool = False
    wakes: Wakes = "all"
    #: The part of the answer whose version is the `ETag`; the body field that `If-Match` sets.
    etag: str = ""
    if_match: str = ""
    #: The most rows that may be requested.
    limit_max: int = LIST_MAX

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return _signature(self.name)[0]

    @property
    def by_name(self) -> Mapping[str, Parameter]:
        return _by_name(self.name)

    @property
    def answer(self) -> Any:
        """The type that the function returns, unless more is asked for."""
        found = _signature(self.name)[1]
        return get_args(found)[0] if self.more is not None else found

    @property
    def answered(self) -> Any:
        """The type of the answer, or of each part of it if it is a list."""
        return get_args(self.answer)[0] if get_origin(self.answer) is list else self.answer

    @property
    def writes(self) -> bool:
        return self.method != "GET"

    @property
    def speaks(self) -> bool:
        """Whether it acts for an agent. Over HTTP an agent's token names that agent."""
        agent = _by_name(self.name).get("agent")
        return agent is not None and agent.needed

    @property
    def waits(self) -> bool:
        """Whether a caller may wait for work with it."""
        return self.takes("wait_s")

    @property
    def for_workers(self) -> bool:
        """Whether only workers call it: it claims, needs the handle of a run, or is about a worker."""
        run = _by_name(self.name).get("run")
        needs_handle = self.takes("handle") or (run is not None and run.kind is str)
        return self.waits or needs_handle or self.body == "reports" or self.confines == "worker"

    @property
    def in_path(self) -> tuple[str, ...]:
        return _in_path(self.path)

    @property
    def refused_field(self) -> str:
        """The field of a problem that holds the value if all runs or items were refused."""
        return self.field or "run"

    @property
    def tag(self) -> str:
        """Its group: the first part of its path."""
        return self.path.split("/")[1]

    @property
    def manual(self) -> ManualEntry:
        """Its documentation."""
        from interlock.service.manual import ENTRIES  # noqa: PLC0415  (for documents and help alone)

        return ENTRIES[self.name]

    def sentence(self, parameter: str) -> str:
        """The documentation of a parameter, or of a field of its items."""
        from interlock.service.manual import COMMON, ITEM  # noqa: PLC0415

        others = COMMON if self.takes(parameter) else ITEM
        return self.manual.parameters.get(parameter) or others[parameter]

    def takes(self, name: str) -> bool:
        """Whether it has a parameter of this name."""
        return name in _by_name(self.name)

    def address(self, arguments: Mapping[str, Any]) -> str:
        """Its path with these arguments."""
        return ROOT + self.path.format_map(arguments)


@cache
def _by_name(operation: str) -> Mapping[str, Parameter]:
    return {parameter.name: parameter for parameter in _signature(operation)[0]}


@cache
def _in_path(path: str) -> tuple[str, ...]:
    return tuple(part[1:-1] for part in path.split("/") if part.startswith("{"))


@cache
def _signature(name: str) -> tuple[tuple[Parameter, ...], Any]:
    """Without `inspect`, whose import is slow."""
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


OPERATIONS = (
    Operation(
        "add",
        "POST",
        "/items",
        AGENT,
        "items",
        confines="arrivals",
        body="items",
        kept=True,
        gathers=True,
        wakes="added",
    ),
    Operation("items", "GET", "/items", READ, "items"),
    Operation("show", "GET", "/items/{item}", READ, etag="item"),
    Operation(
        "edit", "PATCH", "/items/{item}", ADMIN, body="changes", kept=True, etag="item", if_match="expected"
    ),
    Operation("why", "GET", "/items/{item}/why", READ),
    Operation("hindered", "GET", "/items/{item}/hindered", READ, "hindered"),
    Operation("msg", "POST", "/items/{item}/messages", AGENT, kept=True, gathers=True),
    Operation("cancel", "POST", "/items/{item}/cancel", AGENT, confines="item", kept=True),
    Operation("take_back", "POST", "/items/{item}/take-back", ADMIN, kept=True),
    Operation("retry", "POST", "/items/{item}/retry", ADMIN, kept=True),
    Operation("retry_dead", "POST", "/items/retry-dead", ADMIN, limit_max=BATCH_MAX),
    Operation("end_external", "POST", "/items/{item}/end-external", ADMIN, kept=True),
    Operation("stopped", "GET", "/stopped", READ, "items", limit_max=BATCH_MAX),
    Operation("external", "GET", "/external", READ, "items", limit_max=BATCH_MAX),
    Operation("next", "POST", "/claims", AGENT, "leases", kept=True, gathers=True, wakes="none"),
    Operation("renew", "POST", "/runs/renew", AGENT, "runs", body="reports", gathers=True, wakes="none"),
    Operation(
        "done",
        "POST",
        "/runs/done",
        AGENT,
        "runs",
        more=DoneView,
        body="reports",
        kept=True,
        gathers=True,
        wakes="finished",
    ),
    Operation("fail", "POST", "/runs/fail", AGENT, "runs", body="reports", kept=True, gathers=True),
    Operation("release", "POST", "/runs/release", AGENT, "runs", body="reports", kept=True, gathers=True),
    Operation("ask", "POST", "/runs/ask", AGENT, kept=True),
    Operation("close_question", "POST", "/runs/close-question", AGENT, wakes="none"),
    Operation("inbox", "POST", "/runs/inbox", AGENT, "messages", gathers=True, wakes="none"),
    Operation("sender_of", "POST", "/runs/sender", AGENT, "sender", wakes="none"),
    Operation("item_of", "POST", "/runs/item", AGENT, "item", wakes="none"),
    Operation("unwanted", "POST", "/runs/unwanted", AGENT, "why", asks_github=True, wakes="none"),
    Operation("act_as", "POST", "/runs/account", AGENT, "kept", wakes="none"),
    Operation("cost", "POST", "/runs/cost", AGENT, wakes="none"),
    Operation("pass_fence", "POST", "/runs/pass-fence", AGENT, "passed", wakes="none"),
    Operation("plan_batch", "POST", "/runs/batch", AGENT, wakes="none"),
    Operation("append_log", "POST", "/runs/log", AGENT, "end", wakes="none"),
    Operation("recent_runs", "GET", "/runs", READ, "runs"),
    Operation("last_lines", "GET", "/runs/last-lines", READ, "lines"),
    Operation("run_log", "GET", "/runs/{run}/log", READ),
    Operation("lanes", "GET", "/lanes", READ, "lanes"),
    Operation("on_lane", "GET", "/lanes/items", READ, "items"),
    Operation("cancel_lane", "POST", "/lanes/cancel", ADMIN),
    Operation("blocks", "GET", "/blocks", READ, "blocks", limit_max=BATCH_MAX),
    Operation("block", "POST", "/blocks", ADMIN),
    Operation("unblock", "POST", "/blocks/remove", ADMIN, "blockers"),
    Operation("gates", "GET", "/gates", READ, "gates", limit_max=BATCH_MAX),
    Operation("set_gate", "PUT", "/gates", ADMIN),
    Operation("remove_gate", "POST", "/gates/remove", ADMIN, "removed"),
    Operation("series", "GET", "/series", READ, "series"),
    Operation("series_metrics", "GET", "/series/metrics", READ),
    Operation("acquire_issue", "POST", "/series/acquire", ADMIN, asks_github=True),
    Operation("release_issue", "POST", "/series/release", ADMIN, asks_github=True),
    Operation("promote_series", "POST", "/series/promote", ADMIN, asks_github=True),
    Operation("reconcile_series", "POST", "/series/reconcile", ADMIN, "series", asks_github=True),
    Operation("rebuild_series", "POST", "/series/rebuild", ADMIN, asks_github=True),
    Operation("modes", "GET", "/modes", READ, "modes"),
    Operation("set_mode", "PUT", "/modes", ADMIN, "set"),
    Operation("events", "GET", "/events", READ, "events"),
    Operation("stats", "GET", "/stats", READ),
    Operation("spending", "GET", "/spending", READ, "spending"),
    Operation("trend", "GET", "/trend", READ, "trend"),
    Operation("attention", "GET", "/attention", READ),
    Operation("upcoming", "GET", "/upcoming", READ, "upcoming", limit_max=UPCOMING_MAX),
    Operation("recap", "GET", "/recap", READ, limit_max=RECAP_MAX),
    Operation("demo", "GET", "/demo", READ),
    Operation("start_demo", "POST", "/demo/start", ADMIN),
    Operation("stop_demo", "POST", "/demo/stop", ADMIN),
    Operation("metrics", "GET", "/metrics", READ, "metrics"),
    Operation("doctor", "GET", "/doctor", READ, "checks", single_flight=True),
    Operation("lineage", "GET", "/lineage", READ),
    Operation("owed_to_github", "GET", "/github/owed", READ),
    Operation("effects", "GET", "/github/effects", READ, "effects", limit_max=BATCH_MAX),
    Operation("retry_effects", "POST", "/github/effects/retry", ADMIN, "retried", wakes="none"),
    Operation("drop_effects", "POST", "/github/effects/drop", ADMIN, "dropped", wakes="none"),
    Operation("agents", "GET", "/agents", READ, "agents"),
    Operation("near_agent", "GET", "/agents/near", READ, "near"),
    Operation("unknown_agents", "GET", "/agents/unknown", READ, "agents", limit_max=BATCH_MAX),
    Operation("set_agent", "PUT", "/agents", ADMIN, wakes="limits"),
    Operation("remove_agent", "POST", "/agents/remove", ADMIN, "removed"),
    Operation("pause_agent", "POST", "/agents/pause", ADMIN, wakes="limits"),
    Operation("pools", "GET", "/pools", READ, "pools"),
    Operation("set_pool", "PUT", "/pools", ADMIN),
    Operation("remove_pool", "POST", "/pools/remove", ADMIN, "removed"),
    Operation("budgets", "GET", "/budgets", READ),
    Operation("set_budget", "PUT", "/budgets", ADMIN),
    Operation("remove_budget", "POST", "/budgets/remove", ADMIN),
    Operation("set_reserve", "PUT", "/budgets/reserves", ADMIN),
    Operation("set_time_zone", "PUT", "/budgets/time-zone", ADMIN, wakes="none"),
    Operation("paused_projects", "GET", "/projects/paused", READ, "projects"),
    Operation("pause_project", "POST", "/projects/pause", ADMIN, "paused"),
    Operation("workers", "GET", "/workers", READ, "workers"),
    Operation("see_worker", "POST", "/workers", AGENT, "seen", confines="worker", gathers=True, wakes="none"),
    Operation("leave_worker", "POST", "/workers/leave", AGENT, "left", confines="worker", wakes="none"),
    Operation("sweep", "POST", "/sweep", AGENT),
    Operation("next_notice", "POST", "/notices/next", ADMIN, "notice", wakes="none"),
    Operation("end_notice", "POST", "/notices/end", ADMIN, "ended", wakes="none"),
    Operation("plans", "GET", "/plans", READ, "plans"),
    Operation("create_plan", "POST", "/plans", AGENT, body="plan", kept=True),
    Operation("plan", "GET", "/plans/{plan}", READ, etag="revision"),
    Operation(
        "edit_plan",
        "PATCH",
        "/plans/{plan}",
        AGENT,
        confines="editor",
        body="edit",
        kept=True,
        etag="revision",
        if_match="base",
    ),
    Operation("cancel_plan", "POST", "/plans/{plan}/cancel", ADMIN, kept=True),
    Operation("pause_plan", "POST", "/plans/{plan}/pause", ADMIN, kept=True),
    Operation("resume_plan", "POST", "/plans/{plan}/resume", ADMIN, kept=True),
    Operation("set_edit_deadline", "POST", "/plans/{plan}/deadline", ADMIN, kept=True),
    Operation("plan_tasks", "GET", "/plans/{plan}/tasks", READ, "tasks"),
    Operation("plan_stats", "GET", "/plans/{plan}/stats", READ),
    Operation("plan_history", "GET", "/plans/{plan}/revisions", READ, "revisions"),
    Operation("plan_at", "GET", "/plans/{plan}/revisions/{revision}", READ),
    Operation("tokens", "GET", "/tokens", ADMIN, "tokens"),
    Operation("create_token", "POST", "/tokens", ADMIN, wakes="none"),
    Operation("revoke_token", "POST", "/tokens/revoke", ADMIN, wakes="none"),
    Operation("sign_in_link", "POST", "/sign-in", READ, wakes="none"),
)
#: The same by name. `follow` is a separate stream, `close` is not for clients.
BY_NAME = {operation.name: operation for operation in OPERATIONS}
