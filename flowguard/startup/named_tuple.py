"""The base of named tuples that are made while a function starts: ``typing.NamedTuple`` in half of the time."""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING, Any, Final

__all__ = ["NamedTuple"]

if TYPE_CHECKING:
    from typing import NamedTuple
else:
    _KEPT_BY_THE_CLASS: Final = frozenset({"__annotations__", "__module__"})

    class _Maker(type):
        def __new__(mcs, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> type:
            """Return the class that ``collections.namedtuple`` makes, with the methods of the body.

            The annotations stay the texts that they are: ``typing`` compiles each, and nobody reads them in a function.
            """
            fields = body.get("__annotations__", {})
            defaults = [body[field] for field in fields if field in body]
            made = namedtuple(name, fields, defaults=defaults, module=body["__module__"])
            made.__annotations__ = made.__new__.__annotations__ = fields
            for key, value in body.items():
                if key not in fields and key not in _KEPT_BY_THE_CLASS:
                    setattr(made, key, value)
            return made

    NamedTuple = type.__new__(_Maker, "NamedTuple", (), {})
