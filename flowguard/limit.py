"""Limits of how many hops of a stage are at work at once for one key, or begin in a time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from flowguard.errors import RunFailed, shown
from flowguard.payload.foreign import recognised
from flowguard.payload.names import function_problems, path_problems, text_at
from flowguard.protocol.places import MOST_AT_ONCE
from flowguard.retry import LONGEST_SQS_DELAY
from flowguard.startup.late_pattern import late_pattern
from flowguard.startup.value import Value
from flowguard.text.option_problems import is_whole

if TYPE_CHECKING:
    from flowguard.pause_after import PauseAfter

_DIGEST: Final = 32
"""Characters of a digest that stand for the value of a key: 128 bits."""

_SHARD: Final = "~"
"""Stands before the number of a shard in the name of its item. The first one has the name of the key."""

MOST_SHARDS: Final = 64

_GOOD_NAME: Final = late_pattern("[A-Za-z0-9_.-]{1,64}")


_MS: Final = timedelta(milliseconds=1)

SHORTEST_PER: Final = timedelta(seconds=1)

LONGEST_PER: Final = LONGEST_SQS_DELAY
"""Who waits for a place that is free later than that cannot be called ahead: SQS delays a message no longer."""

SMALLEST_MARGIN: Final = 200

LARGEST_MARGIN: Final = 1_000
"""ms. The margin is a tenth of ``per`` within these bounds, for clocks that differ and writes that take time."""


class PerKey(Value):
    """Let at most ``at_once`` hops of a stage be at work at once for one key, or ``count`` begin in each ``per``.

    ``PerKey("customer", at_once=3)``, ``PerKey("gateway", per=timedelta(minutes=1), count=100)``

    By time each call of the handler counts, and in any interval of ``per`` at most ``count`` are made.

    ``key`` is a field of the stage's payload (dots reach inside), or a function that takes the payload and returns
    text, or None for one that is not limited. A limit by a function needs a ``name``, by which its places are known.
    Hops that find no place wait in line, without an attempt. With ``pause_after`` the key pauses itself where attempts
    fail again and again, as :class:`PauseAfter` says.

    A key of which more than 500 begin in a second is split into ``shards``, 64 at most, each with its part of the
    number, which is up to 100 for each then. A hop is of the shard that a hash of its object id says.
    """

    key: str | Callable[[Any], str | None]
    at_once: int | None = None
    name: str = ""
    per: timedelta | None = None
    count: int | None = None
    pause_after: PauseAfter | None = None
    shards: int = 1

    @property
    def most(self) -> int:
        """Return how many places a key has, in all its shards together."""
        return sum(number for number in (self.at_once, self.count) if number is not None)

    def most_of(self, place: str) -> int:
        """Return how many places the item of this name has. The first shards have what does not come out even."""
        each, more = divmod(self.most, self.shards)
        return each + (int(place.partition(_SHARD)[2] or 0) < more)

    @property
    def margin(self) -> int:
        """Return for how much longer than ``per`` a start counts, in ms."""
        return 0 if self.per is None else min(max(self.per // _MS // 10, SMALLEST_MARGIN), LARGEST_MARGIN)

    @property
    def window(self) -> int:
        """Return for how long a start counts, in ms. 0 for a limit of hops at work, which hold their places."""
        return 0 if self.per is None else self.per // _MS + self.margin

    @property
    def title(self) -> str:
        """Return its name, which is that of its field where none is given."""
        return self.name or str(self.key)

    def place_of(self, payload: Any, object_id: str = "") -> str | None:
        """Return what names the key of a payload: the limit's name and a digest. None for one that is not limited.

        Of a key with shards it is the name of that of the object.

        Raises :class:`RunFailed`, which quotes nothing of the payload, where there is no usable key.
        """
        value = self._value(payload)
        return None if value is None else self.shard_of(self.place_of_value(value), object_id)

    def place_of_value(self, value: str) -> str:
        """Return the name of a key: the limit's name and a digest of the value."""
        digest = sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
        return f"{self.title}#{digest}"

    def shard_of(self, place: str, object_id: str) -> str:
        """Return the name of the shard of a key in which the object has its places, by a hash of its id."""
        number = int.from_bytes(sha256(object_id.encode("utf-8", "surrogatepass")).digest()[:8])
        return shards_of(place, self.shards)[number % self.shards]

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
        key: Any = self.key
        name: Any = self.name
        if not isinstance(name, str):
            return [f"its name is {shown(name)}; write per= and count= by their names"]
        problems = [*self._measure_problems(), *self._pause_problems()]
        if lease is False:
            problems.append("a place is taken under a lease, and the stage has lease=False; leave that out")
        if not (isinstance(key, str) or callable(key)):
            return [*problems, f"its key is {shown(key)}; write a field ('customer'), or a function"]
        if isinstance(self.key, str):
            problems += path_problems("its key", self.key, payload, "what is limited")
        else:
            problems += function_problems("its key", self.key)
        if not _GOOD_NAME.fullmatch(self.title):
            fix = "give it a name= of 1 to 64 of: a-z, A-Z, 0-9, '-', '_', '.'"
            problems.append(f"its name is {shown(self.title)}; {fix}")
        return problems

    def _pause_problems(self) -> list[str]:
        """List what is wrong with when its keys pause themselves."""
        pause: Any = self.pause_after
        if pause is None:
            return []
        if isinstance(pause, type) or not callable(getattr(pause, "problems", None)):
            form = "PauseAfter(5, errors=(GatewayAway,), within=timedelta(minutes=1), rest=timedelta(minutes=5))"
            return [f"pause_after is {shown(pause)}; write {form}"]
        if is_whole(self.shards) and self.shards > 1:
            return ["it has pause_after beside shards, each of which would be paused alone; leave one of the two out"]
        if self.at_once is None:
            return ["it has pause_after without at_once: a start by time is never given back; say it of a second limit"]
        return [f"pause_after: {problem}" for problem in pause.problems()]

    def call_problems(self) -> list[str]:
        """List what is wrong with it as a limit of a function under ``@once``, whose argument may be anything."""
        problems = self.problems(None, Any)
        if self.pause_after is not None:
            problems.append("it has pause_after, which is for stages: nobody stands in line here; leave it out")
        return problems

    def _measure_problems(self) -> list[str]:
        """List what is wrong with how much it lets through."""
        per: Any = self.per
        if (self.at_once, per, self.count) == (None, None, None):
            return ["it has no measure; say at_once=, or per= and count="]
        if not (is_whole(self.shards) and 1 <= self.shards <= MOST_SHARDS):
            return [f"shards is {shown(self.shards)}; it is a whole number from 1 to {MOST_SHARDS}"]
        if per is None and self.count is None:
            return _number_problems("at_once", self.at_once, self.shards)
        if self.at_once is not None:
            return ["it has at_once beside per and count; make two limits of it, and give each a name="]
        problems = _number_problems("count", self.count, self.shards)
        if not (isinstance(per, timedelta) and SHORTEST_PER <= per <= LONGEST_PER):
            fix = f"a timedelta from {SHORTEST_PER} to {LONGEST_PER}: for 1,000 an hour say 100 in 6 minutes"
            problems.append(f"per is {per if isinstance(per, timedelta) else shown(per)}; it is {fix}")
        return problems


def shards_of(place: str, shards: int) -> tuple[str, ...]:
    """Return the names of the items of a key with so many shards."""
    return (place, *(f"{place}{_SHARD}{number}" for number in range(1, shards)))


def _number_problems(name: str, number: Any, shards: int) -> list[str]:
    if is_whole(number) and shards <= number <= MOST_AT_ONCE * shards:
        return []
    of = f", 1 to {MOST_AT_ONCE} for each shard" if shards > 1 else ""
    return [f"{name} is {shown(number)}; it is a whole number from {shards} to {MOST_AT_ONCE * shards}{of}"]
