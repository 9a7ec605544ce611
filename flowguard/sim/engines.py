"""The engines there are, made for a clock."""

from __future__ import annotations

from flowguard.clock import Clock
from flowguard.sim.engine import Engine
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.moto import EmbeddedAWS


def on_moto(clock: Clock) -> Engine:
    """Build an engine of moto, which takes the time from the process. That time is virtual."""
    return EmbeddedAWS()


def in_memory(clock: Clock) -> Engine:
    """Build the fast engine."""
    return MemoryAWS(clock)
