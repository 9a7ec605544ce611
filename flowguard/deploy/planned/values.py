"""Values of files. Some are not known before the deployment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn

from flowguard.deploy.account import NotKnown


class _Unknown:
    """The type of :data:`UNKNOWN`."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()
"""Stands for a value that the deployment decides."""


class Unanswered:
    """Collects what a file does not say, with the names of the resources."""

    def __init__(self) -> None:
        self._names: dict[str, set[str]] = {}

    def add(self, what: str, name: str) -> None:
        """Note that the file does not say this of a resource."""
        self._names.setdefault(what, set()).add(name)

    def stop(self, what: str, name: str) -> NoReturn:
        """Note that, and end the check that asks."""
        self.add(what, name)
        raise NotKnown(what, name)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Yield each thing with the names, in order."""
        return ((what, ", ".join(sorted(names))) for what, names in sorted(self._names.items()))


class Answer(Mapping[str, Any]):
    """An answer about a resource. A value that is not known ends the check that looks at it."""

    def __init__(self, values: Mapping[str, Any], name: str, unanswered: Unanswered) -> None:
        self._values = values
        self._name = name
        self._unanswered = unanswered

    def __getitem__(self, key: str) -> Any:
        return self._opened(key, self._values[key])

    def _opened(self, key: str, value: Any) -> Any:
        if value is UNKNOWN:
            self._unanswered.stop(key, self._name)
        if isinstance(value, dict):
            return Answer(value, self._name, self._unanswered)
        return [self._opened(key, item) for item in value] if isinstance(value, list) else value

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def is_known(value: Any) -> bool:
    """Answer whether all of a value is known."""
    if isinstance(value, dict):
        return all(map(is_known, value.values()))
    return all(map(is_known, value)) if isinstance(value, list) else value is not UNKNOWN
