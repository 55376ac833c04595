"""Plans whose tasks are Python callables: `Orchestrator(plan, executors={…}, editor=…).run()`."""

from interlock.orchestrator.orchestrator import AsyncOrchestrator, Orchestrator

__all__ = ["AsyncOrchestrator", "Orchestrator"]
