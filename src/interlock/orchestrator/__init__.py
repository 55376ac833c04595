"""Plans whose tasks are Python callables: `Orchestrator(plan, executors={…}, editor=…).run()`."""

from interlock.orchestrator.orchestrator import Orchestrator

__all__ = ["Orchestrator"]
