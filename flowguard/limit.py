"""Limits of how many hops of a stage are at work at once for one key."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

from flowguard.errors import RunFailed, shown
from flowguard.payload.foreign import recognised
from flowguard.payload.names import path_problems, text_at
from flowguard.protocol.places import MOST_AT_ONCE
from flowguard.startup.late_pattern import late_pattern
from flowguard.startup.value import Value

_DIGEST: Final = 32
"""Characters of a digest that stand for the value of a key: 128 bits."""

_GOOD_NAME: Final = late_pattern("[A-Za-z0-9_.-]{1,64}")


class PerKey(Value):
    """Let at most ``at_once`` hops of a stage be at work at once for one key.

    ``PerKey("customer", at_once=3)``

    ``key`` is a field of the stage's payload (dots reach inside), or a function that takes the payload and returns
    text, or None for one that is not limited. A limit by a function needs a ``name``, by which its places are known.
    Hops that find no place wait in line, without an attempt.
    """

    key: str | Callable[[Any], str | None]
    at_once: int
    name: str = ""

    @property
    def title(self) -> str:
        """Return its name, which is that of its field where none is given."""
        return self.name or str(self.key)

    def place_of(self, payload: Any) -> str | None:
        """Return what names the key of a payload: the limit's name and a digest. None for one that is not limited.

        Raises :class:`RunFailed`, which quotes nothing of the payload, where there is no usable key.
        """
        value = self._value(payload)
        if value is None:
            return None
        digest = sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
        return f"{self.title}#{digest}"

    def _value(self, payload: Any) -> str | None:
        if isinstance(self.key, str):
            text = text_at(payload, self.key)
            if text is None:
                wanted = f"no usable {self.key!r} to limit by: text, a whole number or a UUID"
                raise RunFailed(f"the payload has {wanted}{recognised(payload)}")
            return text
        try:
            value: object = self.key(payload)
        except Exception as error:  # any error of the user's own function; its text may quote the payload
            raise RunFailed(f"the key of the limit {self.name} raised {type(error).__name__}") from None
        if value is None or (isinstance(value, str) and value):
            return value
        raise RunFailed(f"the key of the limit {self.name} is {type(value).__name__}, and is to be text, or None")

    def problems(self, lease: Any, payload: Any) -> list[str]:
        """List what is wrong with it as a limit of a stage with such a lease and payload."""
        problems = []
        at_once: Any = self.at_once
        key: Any = self.key
        if type(at_once) is not int or not 1 <= at_once <= MOST_AT_ONCE:
            problems.append(f"at_once is {shown(at_once)}; it is a number from 1 to {MOST_AT_ONCE}")
        if lease is False:
            problems.append("a place is held as long as a lease, and the stage has lease=False; leave that out")
        if not (isinstance(key, str) or callable(key)):
            return [*problems, f"its key is {shown(key)}; write a field ('customer'), or a function"]
        if isinstance(self.key, str):
            problems += path_problems("its key", self.key, payload, "what is limited")
        if not _GOOD_NAME.fullmatch(self.title):
            fix = "give it a name= of 1 to 64 of: a-z, A-Z, 0-9, '-', '_', '.'"
            problems.append(f"its name is {shown(self.title)}; {fix}")
        return problems
