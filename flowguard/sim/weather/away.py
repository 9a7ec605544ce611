"""The outage of a service."""

from __future__ import annotations

from typing import Final

from flowguard.sim.calls import ApiCall
from flowguard.sim.limits.fault import Fault
from flowguard.sim.weather.layer import Layer

_SAYS: Final = {
    "dynamodb": Fault("InternalServerError", "The server encountered an internal error", status=500),
    "sqs": Fault("ServiceUnavailable", "The request has failed due to a temporary failure of the server", status=503),
    "ssm": Fault("InternalServerError", "An error occurred on the server side", status=500),
}
"""What a service says while it is away, after botocore's own repeats.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html
https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/CommonErrors.html
https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_GetParameter.html
"""


class Away(Layer):
    """A service that refuses every call from ``begins`` until ``ends``, ms since 1970. While SQS is, nothing is polled.

    Nothing is applied of what it refuses. (An effect whose answer got lost is what the explorer plays.)
    """

    def __init__(self, service: str, begins: int, ends: int) -> None:
        self.service = service
        self.begins = begins
        self.ends = ends

    def refusal(self, call: ApiCall, now: int) -> Fault | None:
        return _SAYS[self.service] if call.service == self.service and self._is_away(now) else None

    def polled_from(self, now: int) -> int:
        return self.ends if self.service == "sqs" and self._is_away(now) else now

    def _is_away(self, now: int) -> bool:
        return self.begins <= now < self.ends
