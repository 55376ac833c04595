"""The commands and their modules. A command's module is imported when it is needed."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from interlock.core.row import NamedTuple

Function = Callable[..., int]
_F = TypeVar("_F", bound=Function)

_WORK, _LOOK, _OPERATE, _SET_UP, _STORE = "Work", "Look", "Operate", "Set up", "Store"


class Group:
    """A noun with commands below it, such as `agents`."""

    alone: Function

    def __init__(self, help_text: str) -> None:
        self.help = help_text
        self.commands: dict[str, Function] = {}

    def callback(self, *, lists: bool = False) -> Callable[[_F], _F]:
        """The function that runs for the noun alone, and before each command below it. `lists`: also as
        `ls`."""

        def keep(function: _F) -> _F:
            self.alone = function
            if lists:
                self.commands["ls"] = function
            return function

        return keep

    def command(self, name: str) -> Callable[[_F], _F]:
        """A command below it."""

        def keep(function: _F) -> _F:
            self.commands[name] = function
            return function

        return keep


#: Hidden aliases.
ALIASES = {"list": "ls"}


class Entry(NamedTuple):
    """A command: its module, the name of its function or group there, and its heading in the help."""

    module: str
    name: str
    panel: str

    def load(self) -> Any:
        """The function, or the `Group`."""
        return getattr(import_module(f"interlock.cli.{self.module}"), self.name)


ENTRIES = {
    "add": Entry("add_command", "add", _WORK),
    "next": Entry("work_commands", "claim", _WORK),
    "renew": Entry("work_commands", "renew", _WORK),
    "done": Entry("work_commands", "done", _WORK),
    "fail": Entry("work_commands", "fail", _WORK),
    "release": Entry("work_commands", "release", _WORK),
    "ask": Entry("work_commands", "ask", _WORK),
    "inbox": Entry("work_commands", "inbox", _WORK),
    "msg": Entry("work_commands", "msg", _WORK),
    "cost": Entry("cost_commands", "cost", _WORK),
    "work": Entry("worker_command", "work", _WORK),
    "fleet": Entry("fleet_commands", "fleet", _WORK),
    "hold": Entry("hold_command", "hold", _WORK),
    "session": Entry("session_commands", "session", _WORK),
    "push": Entry("push_command", "push", _WORK),
    "plan": Entry("plan_commands", "plan", _WORK),
    "series": Entry("series_commands", "series", _WORK),
    "ls": Entry("query_commands", "list_items", _LOOK),
    "show": Entry("query_commands", "show", _LOOK),
    "why": Entry("query_commands", "why", _LOOK),
    "events": Entry("query_commands", "events", _LOOK),
    "stats": Entry("query_commands", "stats", _LOOK),
    "spending": Entry("cost_commands", "spending", _LOOK),
    "recap": Entry("recap_command", "recap", _LOOK),
    "metrics": Entry("metrics_command", "metrics", _LOOK),
    "log": Entry("log_command", "log", _LOOK),
    "open": Entry("open_command", "open_dashboard", _LOOK),
    "top": Entry("query_commands", "top", _LOOK),
    "help": Entry("help_command", "help_command", _LOOK),
    "cancel": Entry("operator_commands", "cancel", _OPERATE),
    "edit": Entry("operator_commands", "edit", _OPERATE),
    "retry": Entry("operator_commands", "retry", _OPERATE),
    "pause": Entry("operator_commands", "pause", _OPERATE),
    "block": Entry("block_commands", "block", _OPERATE),
    "unblock": Entry("block_commands", "unblock", _OPERATE),
    "resume": Entry("operator_commands", "resume", _OPERATE),
    "agents": Entry("agent_commands", "agents", _OPERATE),
    "budget": Entry("budget_commands", "budget", _OPERATE),
    "pools": Entry("agent_commands", "pools", _OPERATE),
    "workers": Entry("agent_commands", "workers", _OPERATE),
    "lanes": Entry("agent_commands", "lanes", _OPERATE),
    "init": Entry("init_command", "init", _SET_UP),
    "trust": Entry("trust_command", "trust", _SET_UP),
    "actions": Entry("actions_commands", "actions", _SET_UP),
    "policy": Entry("policy_commands", "policy", _SET_UP),
    "github": Entry("github_commands", "github", _SET_UP),
    "notify": Entry("notify_commands", "notify", _SET_UP),
    "hook": Entry("hook_command", "hook", _SET_UP),
    "mcp": Entry("mcp_command", "mcp", _SET_UP),
    "up": Entry("up_command", "up", _STORE),
    "token": Entry("token_commands", "token", _SET_UP),
    "sweep": Entry("store_commands", "sweep", _STORE),
    "migrate": Entry("store_commands", "migrate", _STORE),
    "doctor": Entry("store_commands", "doctor", _STORE),
    "backup": Entry("backup_commands", "backup", _STORE),
    "restore": Entry("backup_commands", "restore", _STORE),
    "copy": Entry("copy_command", "copy", _STORE),
    "prune": Entry("prune_command", "prune", _STORE),
    "demo": Entry("demo_command", "demo", _STORE),
    "prove": Entry("prove_command", "prove", _STORE),
    "completion": Entry("completion_command", "completion", _STORE),
}
