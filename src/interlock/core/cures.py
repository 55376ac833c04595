"""Cures: what to do about a refusal or a wait, as data that each shell renders in its own syntax."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from interlock.core.record import Record


class Cure(Record):
    """Something to do about a refusal or a wait: a call of an operation."""

    #: The name of an operation: `retry`.
    operation: str
    #: By the names of the operation's parameters. A value of None is left blank for the reader.
    arguments: Mapping[str, Any]
    #: What it does, a clause in the third person: "gives it another attempt".
    effect: str

    def __hash__(self) -> int:
        return hash((self.operation, self.effect))


def cure(operation: str, effect: str, /, **arguments: Any) -> Cure:
    """A cure: `cure("retry", "gives it another attempt", item=7)`."""
    return Cure(operation=operation, arguments=arguments, effect=effect)


#: The sender argument of a message that only a person may send.
FROM_PERSON = {"kind": "person"}

#: A shell's notation for the call of a cure; null if the shell cannot perform it.
Spelling = Callable[[Cure], str | None]


def hint(advice: str, cures: Sequence[Cure], spelling: Spelling) -> str:
    """What to do, as one text: the advice, then a sentence for each cure that the shell can perform."""
    calls = [f"`{call}` {each.effect}." for each in cures if (call := spelling(each)) is not None]
    return " ".join(filter(None, (advice, *calls)))


#: Parameters that may be passed by position if they come first.
_POSITIONAL = frozenset({"agent", "item", "name", "plan", "project", "repository", "run", "token", "wanted"})


def python_call(cure: Cure) -> str:
    """The call in Python: `retry(7)`. What is left blank is an ellipsis."""
    values = []
    for n, (name, value) in enumerate(cure.arguments.items()):
        text = "..." if value is None else repr(value)
        if name == "wanted":
            text = f"ItemFilter({', '.join(f'{field}={each!r}' for field, each in value.items())})"
        values.append(text if n == 0 and name in _POSITIONAL else f"{name}={text}")
    return f"{cure.operation}({', '.join(values)})"
