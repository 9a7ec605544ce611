"""Names of resources within a template, made of their names at AWS."""

from __future__ import annotations

import hashlib
import re

_WORD = re.compile("[A-Za-z0-9]+")
_LONGEST = 200


class LogicalIds:
    """Hands out a name for each resource. Two resources whose names differ in signs alone have two names."""

    def __init__(self) -> None:
        self._ids: dict[tuple[str, str], str] = {}
        self._taken: set[str] = set()

    def camel(self, kind: str, name: str) -> str:
        """Return a name as CloudFormation takes it: letters and digits."""
        words = "".join(word[:1].upper() + word[1:] for word in _WORD.findall(name))
        return self._id(kind, name, f"{words}{kind}", "")

    def snake(self, kind: str, name: str) -> str:
        """Return a name as Terraform takes it. It begins with a letter."""
        words = "_".join(word for word in _WORD.findall(name))
        return self._id(kind, name, words if words[:1].isalpha() else f"n{words}", "_")

    def _id(self, kind: str, name: str, wanted: str, joint: str) -> str:
        if (kind, name) not in self._ids:
            scope = "" if joint == "" else f"{kind}."
            if len(wanted) > _LONGEST or f"{scope}{wanted}" in self._taken or not wanted[:1].isalpha():
                digest = hashlib.sha256(f"{kind}\n{name}".encode("utf-8", "surrogatepass")).hexdigest()[:8]
                wanted = f"{'N' if joint == '' else 'n'}{wanted[:_LONGEST]}{joint}{digest}"
            self._taken.add(f"{scope}{wanted}")
            self._ids[kind, name] = wanted
        return self._ids[kind, name]
