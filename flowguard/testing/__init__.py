"""For the unit tests of your own stages: no AWS and no mocks, the values of real runs made from few arguments."""

from __future__ import annotations

from flowguard.clock import ManualClock as ManualClock
from flowguard.events import Tally as Tally
from flowguard.ids import SeededIds as SeededIds
from flowguard.testing.context import FakeContext as FakeContext
from flowguard.testing.lambda_events import batch as batch
from flowguard.testing.lambda_events import invocation as invocation
from flowguard.testing.lambda_events import sns_event as sns_event
from flowguard.testing.lambda_events import sns_to_sqs_event as sns_to_sqs_event
from flowguard.testing.lambda_events import sqs_event as sqs_event
from flowguard.testing.steps import step_for as step_for

__all__ = [
    "FakeContext",
    "ManualClock",
    "SeededIds",
    "Tally",
    "batch",
    "invocation",
    "sns_event",
    "sns_to_sqs_event",
    "sqs_event",
    "step_for",
]
