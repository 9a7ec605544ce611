"""The context that Lambda hands to a function, on a clock that a test sets."""

from __future__ import annotations

from datetime import timedelta

from flowguard.clock import Clock, ManualClock


class FakeContext:
    """A context that has what Lambda's has. Its remaining time shrinks as ``clock`` is advanced.

    ``timeout`` is how long the function may run. ``aws_request_id`` names the invocation.
    """

    memory_limit_in_mb = "128"
    function_version = "$LATEST"

    def __init__(
        self,
        function_name: str = "function",
        *,
        timeout: timedelta = timedelta(seconds=30),
        clock: Clock | None = None,
        aws_request_id: str = "00000000-0000-4000-8000-000000000001",
    ) -> None:
        self._clock = ManualClock() if clock is None else clock
        self._ends_at = self._clock.now() + timeout // timedelta(milliseconds=1)
        self.function_name = function_name
        self.aws_request_id = aws_request_id
        self.invoked_function_arn = f"arn:aws:lambda:eu-west-1:123456789012:function:{function_name}"
        self.log_group_name = f"/aws/lambda/{function_name}"
        self.log_stream_name = f"2026/01/01/[{self.function_version}]{aws_request_id.replace('-', '')}"

    def get_remaining_time_in_millis(self) -> int:
        """Return the time that is left, ms. It is 0 once the time is over."""
        return max(0, self._ends_at - self._clock.now())
