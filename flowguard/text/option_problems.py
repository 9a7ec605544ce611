"""What is wrong with the kinds of a class's options, which code that nobody type-checked may mistake."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TypeGuard

from flowguard.errors import shown


def text_of(value: str) -> str:
    """Return a text as what it holds. A member of ``class Names(str, Enum)`` is written as its own name."""
    return str.__str__(value)


def text_problems(texts: Mapping[str, object]) -> Iterator[str]:
    """Yield which of these options are no texts."""
    for option, value in texts.items():
        if not isinstance(value, str):
            yield f"its {option} is {shown(value)}, which is no text"


def flag_problems(flags: Mapping[str, object]) -> Iterator[str]:
    """Yield which of these options are neither True nor False."""
    for option, value in flags.items():
        if not isinstance(value, bool):
            yield f"{option} is {shown(value)}; write {option}=True, or leave it out"


def number_problems(numbers: Mapping[str, object]) -> Iterator[str]:
    """Yield which of these options are no whole numbers."""
    for option, value in numbers.items():
        if not is_whole(value):
            yield f"{option} is {shown(value)}; write a whole number: {option}=7"


def is_whole(value: object) -> TypeGuard[int]:
    """Answer whether an option is a whole number, such as the member of an ``IntEnum``. A flag is none."""
    return isinstance(value, int) and not isinstance(value, bool)


def numbers_problems(option: str, values: object) -> Iterator[str]:
    """Yield why an option is no collection of whole numbers."""
    several = () if isinstance(values, str | bytes) or not isinstance(values, Collection) else values
    if several is not values or any(not is_whole(value) for value in several):
        yield f"{option} is {shown(values)}; write a tuple of whole numbers: {option}=(1, 2)"
