"""What goes wrong, or goes on meanwhile: interceptors of the calls that functions make."""

from __future__ import annotations

from collections.abc import Callable

from flowguard.sim.calls import ApiCall, Proceed, Response
from flowguard.sim.crash import Died
from flowguard.sim.points import Point


class Meanwhile:
    """Something else happens just before the first call of this operation is made."""

    def __init__(self, operation: str, happens: Callable[[], object]) -> None:
        self._operation = operation
        self._happens: list[Callable[[], object]] = [happens]

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        if call.operation == self._operation and self._happens:
            self._happens.pop()()
        return proceed()


class Death:
    """The worker dies at a call of this operation, before it is made or when it has been: the first so many times."""

    def __init__(self, operation: str, *, made: bool, times: int = 1) -> None:
        self._operation = operation
        self._made = made
        self._left = times

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        if call.operation != self._operation or not self._left:
            return proceed()
        self._left -= 1
        if self._made:
            proceed()
        raise Died(Point.AFTER_COMMIT if self._made else Point.BEFORE_COMMIT)


class Copies:
    """SQS delivers each message of a queue so many times."""

    def __init__(self, times: int) -> None:
        self._times = times

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        answer = proceed()
        if call.operation == "ReceiveMessage" and "Messages" in answer:
            return {**answer, "Messages": answer["Messages"] * self._times}
        return answer
