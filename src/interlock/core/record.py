"""Records: values with named parts, like dataclasses, but free to define.

`dataclass` compiles several methods for each class when its module is imported. A command that agents call
around every use of a tool would do that a hundred times to make three values; the methods of records are
shared. What `dataclasses` does with an instance (`fields`, `replace`, `asdict`) works on records too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from dataclasses import Field

P = TypeVar("P", bound="_Parts")


class _Fresh:
    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def fresh(make: Callable[[], Any]) -> Any:
    """A default that is created for each instance, as in `fresh(list)`."""
    return _Fresh(make)


class _Asked:
    """What `dataclasses` or `inspect` asks a class for, made when it is asked."""

    def __init__(self, answer: Callable[[type], Any]) -> None:
        self._answer = answer

    def __get__(self, _: object, cls: type[_Parts]) -> Any:
        from dataclasses import field, make_dataclass  # noqa: PLC0415  (this is what commands do without)

        def described(name: str) -> Any:
            if name in cls._NEEDED:
                return field()
            default = getattr(cls, name)
            made = isinstance(default, _Fresh)
            return field(default_factory=default.make) if made else field(default=default)

        types = {name: kind for base in reversed(cls.__mro__) for name, kind in _annotations(base).items()}
        parts = [(name, types[name], described(name)) for name in cls.PARTS]
        return self._answer(make_dataclass(cls.__name__, parts, kw_only=True))


def _annotations(cls: type) -> dict[str, Any]:
    return getattr(cls, "__annotations__", {})


def _signature(cls: type) -> Any:
    from inspect import signature  # noqa: PLC0415

    return signature(cls)


class _Parts:  # noqa: PLW1641  (whether it has a hash depends on whether it changes)
    """A value whose parts are its annotations, given by name. Equal if of one class with equal parts."""

    #: The names of the parts, in order.
    PARTS: ClassVar[tuple[str, ...]] = ()
    _KNOWN: ClassVar[frozenset[str]] = frozenset()
    _NEEDED: ClassVar[frozenset[str]] = frozenset()
    _FRESH: ClassVar[dict[str, Callable[[], Any]]] = {}
    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    else:
        __dataclass_fields__ = _Asked(lambda cls: cls.__dataclass_fields__)
        __signature__ = _Asked(_signature)

    def __init_subclass__(cls) -> None:
        cls.PARTS = tuple(dict.fromkeys((*cls.PARTS, *cls.__annotations__)))
        cls._KNOWN = frozenset(cls.PARTS)
        cls._NEEDED = frozenset(name for name in cls.PARTS if not hasattr(cls, name))
        defaults = {name: getattr(cls, name, None) for name in cls.PARTS}
        cls._FRESH = {name: value.make for name, value in defaults.items() if isinstance(value, _Fresh)}

    def __init__(self, **parts: Any) -> None:
        if not self._NEEDED <= parts.keys() <= self._KNOWN:
            wrong = sorted(self._NEEDED - parts.keys()) + sorted(parts.keys() - self._KNOWN)
            raise TypeError(f"{type(self).__name__} misses or does not know: {', '.join(wrong)}")
        values = self.__dict__
        values.update(parts)
        if self._FRESH:
            values.update({name: make() for name, make in self._FRESH.items() if name not in parts})

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if type(other) is type(self) else NotImplemented

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={value!r}" for name, value in zip(self.PARTS, self._values(), strict=True))
        return f"{type(self).__name__}({parts})"

    def _values(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self.PARTS])


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Record(_Parts):
    """A value that never changes."""

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} never changes: {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} never changes: {name} cannot be deleted")

    def __hash__(self) -> int:
        return hash(self._values())


@dataclass_transform(kw_only_default=True)
class MutableRecord(_Parts):
    """A value that is filled in step by step."""

    __hash__ = None  # type: ignore[assignment]


def as_dict(value: _Parts) -> dict[str, Any]:
    """The parts by name."""
    return {name: getattr(value, name) for name in value.PARTS}


def replace(value: P, **changes: Any) -> P:
    """The same with some parts changed."""
    kind = type(value)
    if not changes.keys() <= kind._KNOWN:
        return kind(**{**as_dict(value), **changes})  # which says what is wrong
    same: P = kind.__new__(kind)
    same.__dict__.update(value.__dict__, **changes)
    return same
