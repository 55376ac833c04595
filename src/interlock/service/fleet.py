"""The fleet: what agents can do, what is paused, and whether lanes are enforced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.core import names
from interlock.core.checking import checked_mode, checked_reason, given_reason, signed
from interlock.core.claiming import Agent
from interlock.core.errors import Held
from interlock.core.model import DEFAULT_PROJECT, Event, EventKind, Item, ModeRule
from interlock.core.overtaking import OVERTAKE_AFTER_MAX_S
from interlock.core.states import TERMINAL, ItemStatus
from interlock.service.answers import agent_view, gate_view, lane_view, pool_view
from interlock.service.contract import AgentView, LaneView, PoolView
from interlock.store.port import ItemQuery, Store

_CREATE = "A name that is still to come needs --create."
_PAUSED = "`interlock pause` lists what is paused."


class Fleet:
    """The use cases of whoever runs a fleet of agents."""

    store: Store

    def agents(self) -> list[AgentView]:
        """Every agent that was set, or that has asked for work. What waits for each is counted to 1,000."""
        return [agent_view(a) for a in self.store.agents()]

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
        overtake its items (0: for ever).

        None leaves a value unchanged; an empty pool removes the agent from its pool."""
        if max_concurrency is not None:
            names.check_whole("number of runs at once", max_concurrency, 1, 10_000)
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
            names.check_number("time without a claim", overtake_after_s, 0, OVERTAKE_AFTER_MAX_S)
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

        return agent_view(self.store.set_agent(Agent(key=key, **given), tuple(given), line))

    def remove_agent(self, name: str, *, by: str = "") -> str:
        """Forget an agent that nobody uses; its history stays. Gives its key.

        Refused while it has a run, an unfinished item names it, or it edits a plan that goes on. One that
        asks for work at this moment is known again.
        """
        key = names.needed_agent(name)
        event = self._event(EventKind.AGENT_REMOVED, by, agent=key)
        if self.store.agent(key) is None:
            known = (agent.key for agent in self.store.agents())
            raise names.unknown("agent", key, known, "`interlock agents` lists all.")
        # Gone all the same: somebody else removed it, or the answer to an earlier attempt was lost.
        if not self.store.remove_agent(key, event) and self.store.agent(key) is not None:
            unfinished = tuple(status.value for status in ItemStatus if status not in TERMINAL)
            items = self.store.items(ItemQuery(agent=key, statuses=unfinished, limit=1))
            why = f"item {items[0].spec.id} is {items[0].status}" if items else "it edits a plan that goes on"
            raise Held(
                f"The agent {key} is in use: {why}.",
                f"`interlock ls --agent {key}` lists them; `edit ITEM --agent none` gives one to anyone.",
            )
        return key

    def near_agent(self, name: str) -> str | None:
        """The known agent that was probably meant by a name that no agent has; None if one has it."""
        key = names.agent_key(name)
        if not key or self.store.agent(key) is not None:
            return None
        # Nearly the same letters: whoever is right and new is not to be asked about every other agent.
        return names.nearest(key, (agent.key for agent in self.store.agents()), likeness=0.8)

    def pools(self) -> list[PoolView]:
        """Every pool: how many runs its agents may have together, and have."""
        return [pool_view(pool) for pool in self.store.pools()]

    def set_pool(self, name: str, *, max_concurrency: int, by: str = "") -> PoolView:
        """Set how many runs the agents of a pool may have together; a new pool has no agents yet."""
        key = names.pool_key(name)
        names.check_whole("number of runs at once", max_concurrency, 1, 10_000)
        event = self._event(EventKind.POOL_SET, by, data={"pool": key, "max": max_concurrency})
        return pool_view(self.store.set_pool(key, max_concurrency, event))

    def remove_pool(self, name: str, *, by: str = "") -> str:
        """Forget a pool that no agent shares; its history stays. Gives its key."""
        key = names.pool_key(name)
        event = self._event(EventKind.POOL_REMOVED, by, data={"pool": key})
        known = {pool.name: pool for pool in self.store.pools()}
        if key not in known:
            raise names.unknown("pool", key, known, "`interlock pools` lists all.")
        removed = self.store.remove_pool(key, event)
        if not removed and any(pool.name == key for pool in self.store.pools()):
            sharing = pool_view(known[key]).agents or ("an agent",)
            verb = "shares" if len(sharing) == 1 else "share"
            raise Held(
                f"The pool {key} is in use: {', '.join(sharing)} {verb} it.",
                "Take them out first: interlock agents set NAME --pool none.",
            )
        return key

    def pause_agent(
        self, name: str, *, paused: bool, why: str, by: str = "", create: bool = False
    ) -> AgentView:
        """Stop or resume giving an agent work. Its runs go on. With `create`, also one nobody knows yet.

        To resume ends a wall, too."""
        key = names.needed_agent(name)
        reason = given_reason(why) if names.check_flag("paused", paused) else checked_reason(why)
        if not names.check_flag("create", create):
            self._require_agent(key, _CREATE if paused else _PAUSED)
        event = self._event(
            EventKind.AGENT_PAUSED if paused else EventKind.AGENT_RESUMED, by, reason, agent=key
        )
        agent = Agent(key=key, name=name.strip(), paused_why=reason if paused else None)
        named = ("paused_why",) if paused else ("paused_why", "wall_us")
        return agent_view(self.store.set_agent(agent, named, lambda _: event))

    def _require_agent(self, key: str, otherwise: str = _CREATE) -> None:
        """Raise unless the agent was set, has asked for work, or is or was named by an item."""
        if self.store.agent(key) is None and not self.store.items(ItemQuery(agent=key, limit=1)):
            used = {agent.key for agent in self.store.agents()}
            if names.nearest(key, used) is None:  # one that only an item names may be a typo itself
                used |= {item.spec.agent_key for item in self._newest_items()}
            raise names.unknown("agent", key, used, otherwise)

    def _require_project(self, project: str, otherwise: str = _CREATE) -> None:
        """Raise unless an item is or was in the project, or it is paused or has a mode, or is the default."""
        used = {rule.value for rule in self.store.modes() if rule.scope == "project"} | {DEFAULT_PROJECT}
        used.update(self.store.paused_projects())
        if project not in used and not self.store.items(ItemQuery(project=project, limit=1)):
            used |= {item.spec.project for item in self._newest_items()}
            raise names.unknown("project", project, used, otherwise)

    def _newest_items(self) -> list[Item]:
        return self.store.items(ItemQuery(limit=1_000))

    def pause_project(
        self, project: str, *, paused: bool, why: str, by: str = "", create: bool = False
    ) -> None:
        """Stop or resume claims of a project's items. Runs go on. With `create`, also of one nobody knows."""
        names.check_name("project", project)
        reason = given_reason(why) if names.check_flag("paused", paused) else checked_reason(why)
        if not names.check_flag("create", create):
            self._require_project(project, _CREATE if paused else _PAUSED)
        kind = EventKind.PROJECT_PAUSED if paused else EventKind.PROJECT_RESUMED
        event = self._event(kind, by, reason, project=project)
        self.store.pause_project(project, reason if paused else None, event)

    def paused_projects(self) -> Mapping[str, str]:
        """Paused projects and why."""
        return self.store.paused_projects()

    def lanes(self, *, prefix: str = "", limit: int = 100) -> list[LaneView]:
        """Lanes that are held or have a line. Who waits on each is counted to 1,000."""
        names.check_whole("limit", limit, 1, 10_000)
        rules = self.store.modes()
        beginning = names.folded_lane(names.check_text("prefix", prefix, names.NAME_MAX_CHARS))
        rows = self.store.lanes(beginning, limit)
        found = self.store.gates_of([row.lane for row in rows])
        gates = {key: gate_view(key, gate) for key, gate in found.items()}
        return [lane_view(row, rules, gates.get(row.lane)) for row in rows]

    def modes(self) -> list[ModeRule]:
        """Every mode that was set, for projects and lane prefixes; all other lanes are enforced."""
        return list(self.store.modes())

    def set_mode(self, *, scope: str, value: str, mode: str, by: str = "") -> None:
        """Enforce, observe or switch off the lanes of a project or prefix."""
        rule = checked_mode(scope, value, mode)
        data = {"scope": rule.scope, "value": rule.value}
        self.store.set_mode(rule, self._event(EventKind.MODE_SET, by, rule.mode.value, data=data))

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
        return Event(self.store.now_us(), kind, reason, project=project, agent=agent, data=signature)
