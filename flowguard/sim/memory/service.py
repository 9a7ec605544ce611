"""What every service in memory offers.

These are its operations by their API names, and its state as a value.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from flowguard.clock import Clock
from flowguard.sim.calls import Response
from flowguard.sim.limits.refusing import Refusing
from flowguard.sim.memory.not_in_memory import NotInMemory
from flowguard.sim.scans import Scans

Params: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Operation:
    """An API operation. ``accepts`` are the parameters that it obeys or may safely ignore."""

    run: Callable[[Params], Response]
    accepts: frozenset[str]

    def __call__(self, service: str, name: str, params: Params) -> Response:
        if unknown := params.keys() - self.accepts:
            raise NotInMemory(f"{service}'s {name} with {', '.join(sorted(unknown))}", self.accepts, service)
        return self.run(params)


def operation(run: Callable[[Params], Response], accepts: str = "") -> Operation:
    """Build an operation. ``accepts`` is a text of parameters' names."""
    return Operation(run, frozenset(accepts.split()))


class Service(Protocol):
    """A service in memory. Its state is returned and restored as a whole; a state that was returned never changes."""

    @property
    def operations(self) -> Mapping[str, Operation]: ...

    def state(self) -> Any: ...

    def put_back(self, state: Any, /) -> None: ...


class Surroundings:
    """What services share. This is the time, their region and account, and ids that are the same in every run."""

    def __init__(self, clock: Clock, seed: int, region: str, account: str, refusing: Refusing) -> None:
        self.clock = clock
        self.region = region
        self.account = account
        self.refusing = refusing
        self.scans = Scans.FORWARDS
        self.ids_drawn = 0
        self._seed = seed

    def now(self) -> int:
        return self.clock.now()

    def new_id(self) -> str:
        """Draw a UUID that follows from the seed and from how many there were before."""
        self.ids_drawn += 1
        drawn = f"{self._seed}.{self.ids_drawn}".encode()
        return str(uuid.UUID(bytes=hashlib.blake2b(drawn, digest_size=16).digest(), version=4))

    def arn(self, service: str, name: str) -> str:
        return f"arn:aws:{service}:{self.region}:{self.account}:{name}"
