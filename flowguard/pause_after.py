"""The rule by which a key of a limit pauses itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, Final

from flowguard.errors import FlowguardError, Reject, shown
from flowguard.protocol.breaker import Rule
from flowguard.retry import LONGEST_SQS_DELAY
from flowguard.startup.value import Value
from flowguard.text.option_problems import is_whole

MOST_FAILURES: Final = 100
"""The item of a key has the time of each failure that counts."""

SHORTEST: Final = timedelta(seconds=1)

LONGEST_WITHIN: Final = timedelta(hours=1)

LONGEST_REST: Final = LONGEST_SQS_DELAY
"""The hop that is to try is called by its own message, which SQS delays no longer."""

_MS: Final = timedelta(milliseconds=1)


class PauseAfter(Value):
    """Pause a limit's key after so many ``failures`` of its attempts ``within`` a time, by one of these ``errors``.

    ``PauseAfter(5, errors=(GatewayAway,), within=timedelta(minutes=1), rest=timedelta(minutes=5))``

    It goes with ``at_once``: ``PerKey("gateway", at_once=20, pause_after=PauseAfter(…))``. The ``errors`` say that what
    the stage calls is away. An error that one payload can cause does not belong there. While the key is paused its hops
    wait in line, without an attempt. After the ``rest`` one of them tries: where it fails by such an error, all rest as
    long again, else the pause is over. ``failures`` is 1 to 100, ``within`` 1 s to 1 h, ``rest`` 1 s to 15 min.
    """

    failures: int
    errors: tuple[type[Exception], ...]
    within: timedelta
    rest: timedelta

    @property
    def rule(self) -> Rule:
        """Return it for decisions, in ms."""
        names = " or ".join(kind.__name__ for kind in self.errors)
        why = f"{self.failures} {names} within {self.within}"
        return Rule(self.failures, self.within // _MS, self.rest // _MS, why)

    def counts(self, raised: Sequence[type[BaseException]]) -> bool:
        """Answer whether an attempt that fails with errors of these classes counts: of a group one is enough."""
        return any(issubclass(kind, self.errors) for kind in raised)

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with it."""
        if not (is_whole(self.failures) and 1 <= self.failures <= MOST_FAILURES):
            yield f"failures is {shown(self.failures)}; it is a whole number from 1 to {MOST_FAILURES}"
        errors: Any = self.errors
        within: Any = self.within
        rest: Any = self.rest
        if not isinstance(errors, tuple) or not errors:
            yield f"errors is {shown(errors)}; write a tuple of classes of your own: errors=(GatewayAway,)"
        else:
            yield from (problem for problem in map(_error_problem, errors) if problem)
        for name, span, longest in (("within", within, LONGEST_WITHIN), ("rest", rest, LONGEST_REST)):
            if not (isinstance(span, timedelta) and SHORTEST <= span <= longest):
                told = span if isinstance(span, timedelta) else shown(span)
                yield f"{name} is {told}; it is a timedelta from {SHORTEST} to {longest}"


def _error_problem(kind: Any) -> str | None:
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        return f"errors has {shown(kind)}, which is no class of errors"
    if issubclass(kind, Reject):
        return f"errors has {kind.__name__}, which is of one message: others would wait for nothing"
    if kind is Exception or kind.__module__ == FlowguardError.__module__:
        return f"errors has {kind.__name__}, which may be of one message; write a class that says what is away"
    return None
