"""The public names of a package, each loaded with its module on first use."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def loader(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for a package. ``homes`` maps each public name to its module in flowguard.

    The name is set in the package, so that Python asks once for each.
    """

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"flowguard.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
