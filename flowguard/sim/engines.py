"""The engines there are, made for a clock."""

from __future__ import annotations

from collections.abc import Collection
from importlib.util import find_spec

from flowguard.clock import Clock
from flowguard.sim.engine import Engine, EngineFor
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.memory_and_moto import MemoryAndMoto
from flowguard.sim.moto import EmbeddedAWS


def on_moto(clock: Clock) -> Engine:
    """Build an engine of moto, which takes the time from the process. That time is virtual."""
    return EmbeddedAWS()


def in_memory(clock: Clock) -> Engine:
    """Build the fast engine."""
    return MemoryAWS(clock)


def with_moto(services: Collection[str]) -> EngineFor | None:
    """Return what builds the fast engine with moto for these services, or moto alone where they cannot be taken out.

    None where moto is not installed.
    """
    if find_spec("moto") is None:
        return None
    if not all(map(MemoryAndMoto.can_have, services)):
        return on_moto
    return lambda clock: MemoryAndMoto(clock, services)
