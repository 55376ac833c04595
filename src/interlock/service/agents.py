"""Agents and pools: what they can do, and what is paused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.core import names
from interlock.core.claims import Agent
from interlock.core.cures import Cure, cure
from interlock.core.errors import Held
from interlock.core.model import DEFAULT_PROJECT, Event, EventKind, Item
from interlock.core.overtaking import OVERTAKE_AFTER_MAX_S
from interlock.core.record import replace
from interlock.core.states import TERMINAL, ItemStatus
from interlock.core.validation import checked_reason, given_reason, signed
from interlock.service.contract import AgentView, PoolView, UnknownAgentView
from interlock.service.view_builders import agent_view, pool_view
from interlock.store.port import ItemQuery, Store

#: What pausing an unknown name with `create` does.
_PAUSES_NEW = "pauses it before its first use"


class Agents:
    """The operations on agents, pools and projects."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def agents(self) -> list[AgentView]:
        """Every agent that was set or has asked for work. Waiting items of each are counted to 1,000."""
        return [replace(agent_view(a), deferred=a.deferred) for a in self._store.agents()]

    def set_agent(
        self,
        name: str,
        *,
        max_concurrency: int | None = None,
        unlimited: bool = False,
        types: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
        pool: str | None = None,
        overtake_after_s: float | None = None,
        by: str = "",
    ) -> AgentView:
        """Set what an agent can do, how much at once, and how long it may make no claim before others may
        overtake its items (0: without a limit).

        None leaves a value unchanged; an empty pool removes the agent from its pool."""
        if max_concurrency is not None:
            names.check_whole("number of concurrent runs", max_concurrency, 1, 10_000)
        names.check_flag("unlimited", unlimited)
        key = names.needed_agent(name)
        given: dict[str, Any] = {"name": name.strip()}
        if max_concurrency is not None or unlimited:
            given["max_concurrency"] = None if unlimited else max_concurrency
        if types is not None:
            given["types"] = names.check_names("type", types)
        if labels is not None:
            given["labels"] = names.check_names("label", labels)
        if pool is not None:
            given["pool"] = None if pool == "" else names.pool_key(pool)
        if overtake_after_s is not None:
            names.check_number("overtake_after", overtake_after_s, 0, OVERTAKE_AFTER_MAX_S)
            given["overtake_after_s"] = float(overtake_after_s)

        event = self._event(EventKind.AGENT_SET, by, agent=key)

        def line(made: Agent) -> Event:
            can: dict[str, Any] = {
                "pool": made.pool,
                "max": made.max_concurrency,
                "types": made.types,
                "labels": made.labels,
            }
            if made.overtake_after_s is not None:
                can["overtake_after_s"] = made.overtake_after_s
            return event._replace(data={**event.data, **can})

        return agent_view(self._store.set_agent(Agent(key=key, **given), tuple(given), line))

    def remove_agent(self, name: str, *, by: str = "") -> str:
        """Forget an unused agent; its history stays. Gives its key.

        Refused while it has a run, an unfinished item names it, or it edits an unfinished plan. An agent that
        claims meanwhile is known again.
        """
        key = names.needed_agent(name)
        event = self._event(EventKind.AGENT_REMOVED, by, agent=key)
        if self._store.agent(key) is None:
            known = (agent.key for agent in self._store.agents())
            raise names.unknown("agent", key, known, cure("agents", "lists all agents"))
        # Already gone: another caller removed it, or the answer to an earlier attempt was lost.
        if not self._store.remove_agent(key, event) and self._store.agent(key) is not None:
            unfinished = tuple(status.value for status in ItemStatus if status not in TERMINAL)
            items = self._store.items(ItemQuery(agent=key, statuses=unfinished, limit=1))
            if not items:
                raise Held(
                    f"Agent {key} is in use: it edits an unfinished plan.", "Wait for its end, or cancel it."
                )
            lists = cure("items", "lists its items", wanted={"agent": key})
            raise Held(
                f"Agent {key} is in use: item {items[0].id} is {items[0].status}.",
                cures=(lists, cure("edit", "gives one to any agent", item=None, changes={"agent": ""})),
            )
        return key

    def near_agent(self, name: str) -> str | None:
        """The known agent that an unknown name probably means; None if the name is known."""
        key = names.agent_key(name)
        if not key or self._store.agent(key) is not None:
            return None
        return _near(key, [agent.key for agent in self._store.agents()])

    def unknown_agents(self, *, limit: int = 100) -> list[UnknownAgentView]:
        """Agents that items name and that do not exist: they were neither set up nor have they ever claimed.
        In order of name. It looks at up to 10,000 names."""
        names.check_whole("limit", limit, 1, names.BATCH_MAX)
        found = self._store.unknown_agents(limit)
        known = [agent.key for agent in self._store.agents()] if found else []
        return [UnknownAgentView(name=key, items=count, near=_near(key, known)) for key, count in found]

    def pools(self) -> list[PoolView]:
        """Every pool: the limit of its agents' runs, and their current runs."""
        return [pool_view(pool) for pool in self._store.pools()]

    def set_pool(self, name: str, *, max_concurrency: int, by: str = "") -> PoolView:
        """Set the shared limit of runs of a pool's agents. A new pool has no agents yet."""
        key = names.pool_key(name)
        names.check_whole("number of concurrent runs", max_concurrency, 1, 10_000)
        event = self._event(EventKind.POOL_SET, by, data={"pool": key, "max": max_concurrency})
        return pool_view(self._store.set_pool(key, max_concurrency, event))

    def remove_pool(self, name: str, *, by: str = "") -> str:
        """Forget a pool that no agent shares; its history stays. Gives its key."""
        key = names.pool_key(name)
        event = self._event(EventKind.POOL_REMOVED, by, data={"pool": key})
        known = {pool.name: pool for pool in self._store.pools()}
        if key not in known:
            raise names.unknown("pool", key, known, cure("pools", "lists all pools"))
        removed = self._store.remove_pool(key, event)
        if not removed and any(pool.name == key for pool in self._store.pools()):
            sharing = pool_view(known[key]).agents or ("an agent",)
            verb = "shares" if len(sharing) == 1 else "share"
            raise Held(
                f"Pool {key} is in use: {', '.join(sharing)} {verb} it.",
                cures=(cure("set_agent", "removes an agent from its pool", name=None, pool=""),),
            )
        return key

    def pause_agent(
        self, name: str, *, paused: bool, why: str, by: str = "", create: bool = False
    ) -> AgentView:
        """Pause or resume an agent. Its runs continue. With `create`, the agent may be unknown.

        Resuming also ends a quota limit."""
        key = names.needed_agent(name)
        reason = given_reason(why) if names.check_flag("paused", paused) else checked_reason(why)
        if not names.check_flag("create", create):
            pause = cure("pause_agent", _PAUSES_NEW, name=key, paused=True, why=None, create=True)
            self._require_agent(key, pause if paused else cure("agents", "lists all agents"))
        event = self._event(
            EventKind.AGENT_PAUSED if paused else EventKind.AGENT_RESUMED, by, reason, agent=key
        )
        agent = Agent(key=key, name=name.strip(), paused_why=reason if paused else None)
        named = ("paused_why",) if paused else ("paused_why", "wall_us")
        return agent_view(self._store.set_agent(agent, named, lambda _: event))

    def _require_agent(self, key: str, instead: Cure) -> None:
        """Raise unless the agent was set, has asked for work, or is or was named by an item."""
        if self._store.agent(key) is None and not self._store.items(ItemQuery(agent=key, limit=1)):
            used = {agent.key for agent in self._store.agents()}
            if names.nearest(key, used) is None:  # a name known only from an item may itself be a typo
                used |= {item.spec.agent_key for item in self._newest_items()}
            raise names.unknown("agent", key, used, instead)

    def _require_project(self, project: str, instead: Cure) -> None:
        """Raise unless an item is or was in the project, or it is paused or has a mode, or is the default."""
        used = {rule.value for rule in self._store.modes() if rule.scope == "project"} | {DEFAULT_PROJECT}
        used.update(self._store.paused_projects())
        if project not in used and not self._store.items(ItemQuery(project=project, limit=1)):
            used |= {item.spec.project for item in self._newest_items()}
            raise names.unknown("project", project, used, instead)

    def _newest_items(self) -> list[Item]:
        return self._store.items(ItemQuery(limit=1_000))

    def pause_project(
        self, project: str, *, paused: bool, why: str, by: str = "", create: bool = False
    ) -> None:
        """Pause or resume a project. Its runs continue. With `create`, the project may be unknown."""
        names.check_name("project", project)
        reason = given_reason(why) if names.check_flag("paused", paused) else checked_reason(why)
        if not names.check_flag("create", create):
            pause = cure("pause_project", _PAUSES_NEW, project=project, paused=True, why=None, create=True)
            self._require_project(
                project, pause if paused else cure("paused_projects", "lists what is paused")
            )
        kind = EventKind.PROJECT_PAUSED if paused else EventKind.PROJECT_RESUMED
        event = self._event(kind, by, reason, project=project)
        self._store.pause_project(project, reason if paused else None, event)

    def paused_projects(self) -> Mapping[str, str]:
        """Paused projects and why."""
        return self._store.paused_projects()

    def _event(
        self,
        kind: EventKind,
        by: str,
        reason: str = "",
        *,
        agent: str | None = None,
        project: str | None = None,
        data: Mapping[str, object] | None = None,
    ) -> Event:
        signature = {"by": signed(by), **(data or {})}
        return Event(self._store.now_us(), kind, reason, project=project, agent=agent, data=signature)


def _near(key: str, known: Sequence[str]) -> str | None:
    """The known agent that a name probably means. Only very similar names: a correct new name should not be
    questioned."""
    return names.nearest(key, known, likeness=0.8)
