"""Named tuples that compile nothing where they are defined.

`typing.NamedTuple` compiles every annotation of a class and a constructor when its module is imported: three
hundred times for a command that agents call around every use of a tool, and that makes tuples of five
classes. Here the constructor is compiled with the first tuple, and annotations stay as they are written. To
a type checker, and to users of the tuple, it is `typing.NamedTuple`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import NamedTuple  # noqa: TID251
else:
    from collections.abc import Callable, Iterable
    from operator import itemgetter

    try:  # what the standard library itself takes, where it is
        from collections import _tuplegetter
    except ImportError:

        def _tuplegetter(index: int, doc: str) -> property:
            return property(itemgetter(index), doc=doc)

    class _Rows(type):
        def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
            if any(getattr(base, "_fields", ()) for base in bases):  # a tuple with more methods
                return super().__new__(cls, name, bases, body)
            fields = tuple(body.get("__annotations__", ()))
            defaults = {field: body[field] for field in fields if field in body}
            parts = {field: _tuplegetter(at, f"Field {at}") for at, field in enumerate(fields)}
            about = {"_fields": fields, "_field_defaults": defaults, "__match_args__": fields}
            return super().__new__(cls, name, bases or (tuple,), {**body, **parts, **about, "__slots__": ()})

        def constructor(cls) -> Callable[..., Any]:
            """Compile what makes tuples of this class from now on."""
            parts = "".join(f"{field}, " for field in cls._fields)
            made = eval(f"lambda _cls, {parts}: _new(_cls, ({parts}))", {"_new": tuple.__new__})  # noqa: S307
            made.__name__, made.__qualname__ = "__new__", f"{cls.__qualname__}.__new__"
            made.__defaults__ = tuple(cls._field_defaults.values())
            cls.__new__ = staticmethod(made)
            return made

        @property
        def __signature__(cls) -> Any:
            from inspect import signature  # noqa: PLC0415

            whole = signature(cls.constructor())
            return whole.replace(parameters=list(whole.parameters.values())[1:])

    class NamedTuple(metaclass=_Rows):
        """A base class: the annotations of a class below it are the names of its parts."""

        def __new__(cls, /, *values: Any, **named: Any) -> Any:
            return cls.constructor()(cls, *values, **named)

        @classmethod
        def _make(cls, values: Iterable[Any]) -> Any:
            made = tuple.__new__(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"{cls.__name__} has {len(cls._fields)} parts, not {len(made)}")
            return made

        def _replace(self, /, **changes: Any) -> Any:
            made = self._make(map(changes.pop, self._fields, self))
            if changes:
                raise ValueError(f"{type(self).__name__} has no {', '.join(changes)}")
            return made

        def _asdict(self) -> dict[str, Any]:
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self) -> str:
            return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self._asdict().items())})"

        def __getnewargs__(self) -> tuple[Any, ...]:
            return tuple(self)


__all__ = ["NamedTuple"]
