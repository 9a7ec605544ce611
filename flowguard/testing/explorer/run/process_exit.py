"""``os._exit`` and ``os.abort`` of invocations, which end the worker alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol


class Exits(Protocol):
    """The invocation that runs in the calling thread."""

    def is_inside(self) -> bool:
        """Answer whether the calling thread is that of an invocation."""
        ...

    def exits(self, how: str, /) -> NoReturn:
        """End the worker as the end of its process does."""
        ...


@contextmanager
def caught_exits(exits: Exits) -> Iterator[None]:
    """Let what ends the process end the worker alone while the block runs. A fork of the process ends really."""
    changed: Any = os
    before = {name: getattr(os, name) for name in ("_exit", "abort")}
    for name, real in before.items():
        setattr(changed, name, _ending(exits, name, real))
    try:
        yield
    finally:
        for name, real in before.items():
            setattr(changed, name, real)


def _ending(exits: Exits, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    here = os.getpid()

    def end(*given: Any) -> Any:
        if os.getpid() == here and exits.is_inside():
            exits.exits(f"os.{name}({', '.join(map(str, given))})")
        return real(*given)

    return end
