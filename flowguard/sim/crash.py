"""Simulated deaths of workers, by point and record."""

from __future__ import annotations

from collections.abc import Iterable

from flowguard.sim.points import Point


class Died(KeyboardInterrupt):
    """The worker is gone: the one kind of exception that a runtime neither catches nor counts as a failed attempt."""

    def __init__(self, point: Point) -> None:
        super().__init__(point.value)
        self.point = point


class Crashes:
    """Kills a worker at each of the points, once for each record (by message id) that gets there."""

    def __init__(self, points: Iterable[Point] = ()) -> None:
        self.points = frozenset(points)
        self._struck: set[tuple[Point, str]] = set()

    def strike(self, point: Point, message_id: str) -> None:
        if point in self.points and (point, message_id) not in self._struck:
            self._struck.add((point, message_id))
            raise Died(point)
