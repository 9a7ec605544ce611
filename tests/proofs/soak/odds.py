"""How often what goes wrong in a soak. All of it is drawn from the seed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Odds:
    """Shares: ``fail`` of attempts, ``reject`` of requests, ``kill`` and ``stall`` of deliveries, ``throttle`` and
    ``lost`` of API calls, ``hostile`` of errors, notes and ids, ``forge`` of waits. ``strike`` is the mean time, in
    seconds, between two kills from outside; 0 for none."""

    seed: int = 1
    fail: float = 0.2
    reject: float = 0.05
    kill: float = 0.02
    stall: float = 0.001
    throttle: float = 0.015
    lost: float = 0.005
    strike: float = 5
    hostile: float = 0.1
    forge: float = 0.3

    def arguments(self) -> tuple[str, ...]:
        """What of it the workers decide by themselves, as they are told it."""
        told = ("seed", "kill", "stall", "throttle", "lost")
        return tuple(word for name in told for word in (f"--{name}", str(getattr(self, name))))
