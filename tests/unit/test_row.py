"""A named tuple of ours does what `typing.NamedTuple` does, and compiles nothing where it is defined."""

import builtins
import copy
import inspect
import pickle
import typing
from collections.abc import Callable
from typing import Any, get_type_hints

import pytest

from interlock.core.row import NamedTuple


class Place(NamedTuple):
    """Where somebody sits."""

    name: str
    row: int = 1
    new: "int | None" = None

    @property
    def label(self) -> str:
        return f"{self.name}{self.row}"


class Theirs(typing.NamedTuple):
    name: str
    row: int = 1
    new: "int | None" = None


class Seat(Place):
    def __str__(self) -> str:
        return f"seat {self.label}"


USES: list[Callable[[Any], Any]] = [
    lambda kind: kind("a"),
    lambda kind: kind("a", 2, 3),
    lambda kind: kind(new=3, name="a"),
    lambda kind: kind._make(["a", 2, 3]),
    lambda kind: kind("a")._replace(row=5),
    lambda kind: kind("a")._asdict(),
    lambda kind: kind("a") == ("a", 1, None),
    lambda kind: hash(kind("a")),
    lambda kind: (kind("a").name, kind("a").row, kind("a")[1:]),
    lambda kind: kind._fields,
    lambda kind: kind._field_defaults,
    lambda kind: kind.__match_args__,
    lambda kind: repr(kind("a")).partition("(")[2],
    lambda kind: copy.deepcopy(kind("a")),
    lambda kind: pickle.loads(pickle.dumps(kind("a"))),
    lambda kind: sorted([kind("b"), kind("a", 2), kind("a")]),
    get_type_hints,
    lambda kind: [(p.name, p.default) for p in inspect.signature(kind).parameters.values()],
    lambda kind: hasattr(kind("a"), "__dict__"),
]
MISUSES: list[Callable[[Any], Any]] = [
    lambda kind: kind(),
    lambda kind: kind("a", 1, None, 4),
    lambda kind: kind("a", colour="red"),
    lambda kind: kind._make(["a"]),
    lambda kind: kind("a")._replace(colour="red"),
    lambda kind: setattr(kind("a"), "name", "b"),
    lambda kind: setattr(kind("a"), "colour", "red"),
]


@pytest.mark.parametrize("use", USES)
def test_it_does_what_the_other_does(use: Callable[[Any], Any]) -> None:
    assert use(Place) == use(Theirs)


@pytest.mark.parametrize("misuse", MISUSES)
def test_it_refuses_what_the_other_refuses(misuse: Callable[[Any], Any]) -> None:
    kinds = []
    for kind in (Theirs, Place):
        with pytest.raises((TypeError, ValueError, AttributeError)) as error:
            misuse(kind)
        kinds.append(error.type)
    assert kinds[0] is kinds[1]


def test_a_class_has_its_methods_and_one_below_it_more() -> None:
    assert (Place("a").label, Place.__doc__) == ("a1", "Where somebody sits.")
    seat = Seat("a", row=2)
    assert (str(seat), seat, type(seat._replace(row=3))) == ("seat a2", ("a", 2, None), Seat)


def test_a_pattern_takes_its_parts_in_order() -> None:
    match Place("a", 2):
        case Place("a", row):
            assert row == 2
        case _:
            pytest.fail("the pattern did not match")


def test_nothing_is_compiled_before_the_first_tuple_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated: list[str] = []
    evaluate = builtins.eval

    def watching(code: str, *where: Any) -> Any:
        evaluated.append(code)
        return evaluate(code, *where)

    monkeypatch.setattr(builtins, "eval", watching)

    class Late(NamedTuple):
        a: "Nowhere"  # type: ignore[name-defined] # noqa: F821
        b: int = 2

    assert evaluated == []
    assert (Late(1), Late(3)) == ((1, 2), (3, 2))
    assert len(evaluated) == 1
