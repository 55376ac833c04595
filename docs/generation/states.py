"""States of items and runs. The diagrams are drawn from the tables that the rules themselves use."""

from __future__ import annotations

from docs.generation.markdown import code, fence, table
from docs.generation.meanings import meanings
from interlock.core.model import ArrivalDecision
from interlock.core.states import ACTIVE, BIRTHS, ITEM_MOVES, RUN_MOVES, TERMINAL, ItemStatus, RunStatus


def item_diagram() -> str:
    """Every way an item can go, as Mermaid."""
    births = meanings("item_births", (s.value for s in ItemStatus if s in BIRTHS))
    lines = ["stateDiagram-v2"]
    lines += [f"    [*] --> {status}: {why}" for status, why in births.items()]
    for before in ItemStatus:
        moves = [after.value for after in ItemStatus if after in ITEM_MOVES[before]]
        if moves:
            words = meanings(f"item_moves.{before}", moves)
            lines += [f"    {before} --> {after}: {why}" for after, why in words.items()]
    lines += [f"    {status} --> [*]" for status in ItemStatus if not ITEM_MOVES[status]]
    return fence("mermaid", "\n".join(lines))


def run_diagram() -> str:
    """Every way a run can go, as Mermaid."""
    lines = ["stateDiagram-v2", "    [*] --> running: claim"]
    for before in RunStatus:
        moves = [after.value for after in RunStatus if after in RUN_MOVES[before]]
        if moves:
            words = meanings("run_moves", moves)
            lines += [f"    {before} --> {after}: {why}" for after, why in words.items()]
        else:
            lines.append(f"    {before} --> [*]")
    return fence("mermaid", "\n".join(lines))


def items() -> str:
    words = meanings("item_states", (s.value for s in ItemStatus))
    rows = ((code(s), _kind(ItemStatus(s)), text) for s, text in words.items())
    return table(("state", "kind", "meaning"), rows)


def runs() -> str:
    words = meanings("run_states", (s.value for s in RunStatus))
    return table(("state", "meaning"), ((code(s), text) for s, text in words.items()))


def decisions() -> str:
    words = meanings("verdicts", (v.value for v in ArrivalDecision))
    return table(("decision", "meaning"), ((code(v), text) for v, text in words.items()))


def _kind(status: ItemStatus) -> str:
    return "active" if status in ACTIVE else "terminal" if status in TERMINAL else ""
