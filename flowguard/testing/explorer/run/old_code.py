"""The older version of the explored code: flows that are given, or loaded from a directory beside the newer ones.

Two versions of a module have one name. Each keeps it: while one version's code runs, ``sys.modules`` has its modules,
and ``sys.path`` its directory.

::

    flows.pay   new │ old │ new      the module of that name, by who has the turn
    worker       w1 │ w2  │ w3
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from flowguard.errors import SettingsError, shown
from flowguard.flow import AnyFlow, is_flow
from flowguard.project.loading import NoSuchFlow, load_flows
from flowguard.testing.explorer.record.site import is_user_code
from flowguard.testing.explorer.run.code_places import (
    files_below,
    is_below,
    is_entry_of,
    is_installed_in_place,
    places_of,
    roots_of,
)
from flowguard.testing.explorer.run.explored import modules_of
from flowguard.testing.explorer.run.module_state import imported_by, with_imported

GivenCode: TypeAlias = "AnyFlow | Sequence[AnyFlow] | str | Path | OldCode"
"""The older code: its flows, or a directory in which their modules are under the same names."""


class OldCode:
    """The flows of the older version.

    Raises :class:`SettingsError` for other flows.
    """

    def __init__(self, given: AnyFlow | Sequence[AnyFlow] | str | Path, flows: Sequence[AnyFlow]) -> None:
        if not flows:
            raise SettingsError("before", "it is for flows, and a plain function is none; leave it out")
        code = given_code(given)
        self._directory = code if isinstance(code, Path) else None
        self._roots = roots_of(flows)
        self._hidden: list[tuple[int, str]] = []
        self._modules: dict[str, ModuleType] = {}
        self._tops: dict[str, bool] = {}
        self._is_in = False
        self.flows = self._loaded(code, flows) if isinstance(code, Path) else code
        names, there = [flow.name for flow in self.flows], sorted(flow.name for flow in flows)
        if sorted(names) != there:
            problem = f"the old code has {', '.join(names)}, and the new {', '.join(there)}"
            raise SettingsError("before", f"{problem}; give the same flows, by their names")

    @property
    def modules(self) -> list[ModuleType]:
        """Return the loaded modules of the flows."""
        with self.imported():
            return with_imported(modules_of(self.flows))

    def about(self) -> list[tuple[str, str]]:
        """Return the files below the directory with their digests, and the names of the flows."""
        files = [] if self._directory is None else files_below(self._directory)
        digests = [(str(file), hashlib.sha256(file.read_bytes()).hexdigest()) for file in files]
        return [*digests, *((flow.__module__, flow.__qualname__) for flow in self.flows)]

    @contextmanager
    def imported(self, *, is_it: bool = True) -> Iterator[None]:
        """Let imports find this version's modules in a block, or the newer ones where ``is_it`` is False.

        Raises :class:`SettingsError` for an import of newer code.
        """
        if is_it == self._is_in or self._directory is None:
            yield
            return
        self._exchange()
        loaded = len(sys.modules)
        try:
            yield
        finally:
            mixed = self._mixed(self._directory) if is_it and len(sys.modules) != loaded else None
            self._exchange()
            if mixed is not None:
                raise mixed from None

    def _mixed(self, directory: Path) -> SettingsError | None:
        """Return the error of an older module with a newer import."""
        inside = [module for module in [*sys.modules.values()] if self._is_inside(module)]
        for module, imported in ((older, imported) for older in inside for imported in imported_by(older)):
            file = str(imported.__file__)
            if not self._is_inside(imported) and not is_installed_in_place(file, self._roots):
                problem = f"{module.__file__} imports {imported.__name__}, which is {file}: that is not of the old code"
                return SettingsError("before", f"{problem}; put it as it was then into {directory}, or install it")
        return None

    def _exchange(self) -> None:
        """Put the other version's modules into ``sys.modules``, and its directory into ``sys.path``."""
        there = {name: module for name, module in sys.modules.items() if self._has(name, module)}
        for name in there:
            del sys.modules[name]
        sys.modules.update(self._modules)
        self._modules, self._is_in = there, not self._is_in
        if self._is_in:
            self._hidden = [(at, entry) for at, entry in enumerate(sys.path) if is_entry_of(entry, self._roots)]
            sys.path[:] = [str(self._directory), *(entry for entry in sys.path if not is_entry_of(entry, self._roots))]
            return
        sys.path.remove(str(self._directory))
        for at, entry in self._hidden:
            sys.path.insert(at, entry)

    def _has(self, name: str, module: Any) -> bool:
        """Answer whether a module is of either version, by its place, or by its name in the older one."""
        top = name.partition(".")[0]
        if top == "__main__":
            return False
        if self._is_inside(module):
            return True
        if not any(map(is_user_code, places := places_of(module))):
            return False
        if (is_there := self._tops.get(top)) is None:
            is_there = self._tops[top] = any(map(Path.exists, self._places_of(top)))
        return is_there or any(is_below(place, self._roots) for place in places)

    def _is_inside(self, module: Any) -> bool:
        """Answer whether a module lies in the directory of the older code."""
        return any(is_below(place, [str(self._directory)]) for place in places_of(module))

    def _places_of(self, top: str) -> Iterator[Path]:
        if self._directory is not None:
            yield from (self._directory / top, self._directory / f"{top}.py")

    def _loaded(self, directory: Path, flows: Sequence[AnyFlow]) -> tuple[AnyFlow, ...]:
        """Load the flows of the same import paths from the directory."""
        if not directory.is_dir():
            raise SettingsError("before", f"{shown(str(directory))} is no directory; name one with the older code")
        both = [str(directory), str(directory.resolve())]
        if any(is_below(f"{root}{os.sep}", both) for root in self._roots):
            raise SettingsError("before", f"{directory} has the newer code; name one with the older code")
        paths = [f"{flow.__module__}:{flow.__qualname__}" for flow in flows]
        with self.imported():
            try:
                loaded = load_flows(paths, directory=directory)
            except NoSuchFlow as error:
                raise SettingsError("before", f"in {directory}, {error}") from None
            places = [(flow, getattr(sys.modules[flow.__module__], "__file__", None)) for flow in loaded]
        for flow, file in places:
            if file is None or not Path(file).is_relative_to(directory):
                raise SettingsError("before", f"{directory} has no older {flow.__module__}; that is {file}")
        return tuple(loaded)


def given_code(given: Any) -> Path | tuple[AnyFlow, ...]:
    """Check the argument ``before=``: a directory, or flows. Raises :class:`SettingsError` for anything else."""
    if isinstance(given, str | Path):
        return Path(given).absolute()
    flows = tuple(given) if isinstance(given, list | tuple) else (given,)
    for flow in flows:
        if not is_flow(flow):
            raise SettingsError("before", f"{shown(repr(flow))} is no flow; give flows, or a directory with their code")
    return flows
