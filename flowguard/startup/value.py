"""The base of frozen values that are equal to none of another class: a frozen dataclass in a tenth of the time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError
from inspect import Parameter, Signature, get_annotations
from typing import Any, ClassVar, Final, Self, TypeVar, dataclass_transform

Default = TypeVar("Default")

_ANY: Final = Parameter.POSITIONAL_OR_KEYWORD


class _Fresh:
    """Stands for a default of which each value gets one of its own."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make

    def __repr__(self) -> str:
        return f"{getattr(self.make, '__name__', self.make)}()"


def fresh(*, default_factory: Callable[[], Default]) -> Default:
    """Give a field a default that ``default_factory`` makes for each value."""
    stand_in: Any = _Fresh(default_factory)
    return stand_in  # type: ignore[no-any-return]  # as dataclasses.field, it says that it is what it stands for


class _Form:
    """The form of a call of a class, which ``inspect`` and ``help`` show."""

    def __get__(self, value: Value | None, kind: type[Value]) -> Signature:
        parameters = [
            Parameter(field, _ANY, default=kind._defaults.get(field, Parameter.empty), annotation=annotation)
            for field, annotation in get_annotations(kind).items()
        ]
        return Signature(parameters)


@dataclass_transform(frozen_default=True, field_specifiers=(fresh,))
class Value:
    """A value with the fields that its class annotates, each of them given by position or by name.

    ``dataclasses`` writes six methods of each class as text and compiles them, while a function starts. These are
    compiled once for all. A class has the fields of its own body alone. It may check them in ``__post_init__``.
    """

    __match_args__: ClassVar[tuple[str, ...]]
    __signature__: ClassVar[_Form] = _Form()
    _defaults: ClassVar[Mapping[str, Any]]
    _fresh: ClassVar[Mapping[str, Callable[[], Any]]]

    def __init_subclass__(cls) -> None:
        fields = get_annotations(cls)
        cls.__match_args__ = tuple(fields)  # type: ignore[misc]  # mypy takes it for a constant
        cls._defaults = {name: cls.__dict__[name] for name in fields if name in cls.__dict__}
        cls._fresh = {name: value.make for name, value in cls._defaults.items() if isinstance(value, _Fresh)}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        names = self.__match_args__
        made = {name: make() for name, make in self._fresh.items()}
        values = {**self._defaults, **made, **dict(zip(names, args, strict=False)), **kwargs}
        is_given_twice = not kwargs.keys().isdisjoint(names[: len(args)])
        if is_given_twice or len(args) > len(names) or values.keys() != set(names):
            form = ", ".join(f"{name}=…" if name in self._defaults else name for name in names)
            raise TypeError(f"{type(self).__name__} is made of ({form}), each of them once")
        self.__dict__.update((name, values[name]) for name in names)
        self.__post_init__()

    def __post_init__(self) -> None:
        """Check the values. Does nothing where a class does not say what."""

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def _replace(self, **changes: Any) -> Self:
        """Return the value with other fields, as that of a named tuple."""
        return type(self)(**{**self.__dict__, **changes})

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__ if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), *self.__dict__.values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"
