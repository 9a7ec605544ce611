"""Tools for the tests of your own flows, without mocks and without an account.

They make values of real runs from few arguments, and run whole flows. A name loads its module when it is first used:
what tests a stage needs no boto3. ``explore`` finds the crash that breaks a flow; ``flowguard.testing.plugin`` is what
pytest loads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowguard.names.public import loader

if TYPE_CHECKING:
    from flowguard.clock import ManualClock as ManualClock
    from flowguard.events import Tally as Tally
    from flowguard.names.ids import SeededIds as SeededIds
    from flowguard.sim.memory.aws import MemoryAWS as MemoryAWS
    from flowguard.sim.moto import EmbeddedAWS as EmbeddedAWS
    from flowguard.testing.context import FakeContext as FakeContext
    from flowguard.testing.exploration import Exploration as Exploration
    from flowguard.testing.exploration import MarkerError as MarkerError
    from flowguard.testing.explorer import Later as Later
    from flowguard.testing.explorer import NoSuchSchedule as NoSuchSchedule
    from flowguard.testing.explorer import OutsideAnswer as OutsideAnswer
    from flowguard.testing.explorer import OutsideRequest as OutsideRequest
    from flowguard.testing.explorer import PlainFunction as PlainFunction
    from flowguard.testing.explorer import Question as Question
    from flowguard.testing.explorer import Report as Report
    from flowguard.testing.explorer import Trace as Trace
    from flowguard.testing.explorer import UnmetSchedule as UnmetSchedule
    from flowguard.testing.explorer import View as View
    from flowguard.testing.explorer import Violation as Violation
    from flowguard.testing.explorer import explore as explore
    from flowguard.testing.explorer import in_memory as in_memory
    from flowguard.testing.explorer import invariant as invariant
    from flowguard.testing.explorer import on_moto as on_moto
    from flowguard.testing.explorer import replay as replay
    from flowguard.testing.flow_clock import FlowClock as FlowClock
    from flowguard.testing.flow_result import FlowResult as FlowResult
    from flowguard.testing.flow_result import NotThere as NotThere
    from flowguard.testing.flow_result import RunEnd as RunEnd
    from flowguard.testing.flow_result import SentMessage as SentMessage
    from flowguard.testing.lambda_events import batch as batch
    from flowguard.testing.lambda_events import bus_event as bus_event
    from flowguard.testing.lambda_events import invocation as invocation
    from flowguard.testing.lambda_events import sns_event as sns_event
    from flowguard.testing.lambda_events import sns_to_sqs_event as sns_to_sqs_event
    from flowguard.testing.lambda_events import sqs_event as sqs_event
    from flowguard.testing.object_notices import object_notice as object_notice
    from flowguard.testing.runner import FlowRunner as FlowRunner
    from flowguard.testing.runner import NoFlow as NoFlow
    from flowguard.testing.runner import NotAtRest as NotAtRest
    from flowguard.testing.schedule_events import schedule_event as schedule_event
    from flowguard.testing.steps import step_for as step_for
    from flowguard.testing.stream_events import dynamodb_event as dynamodb_event
    from flowguard.testing.stream_events import kafka_event as kafka_event
    from flowguard.testing.stream_events import kinesis_event as kinesis_event

_HOME = {
    # call a stage
    "step_for": "testing.steps",
    "ManualClock": "clock",
    "SeededIds": "names.ids",
    "Tally": "events",
    # call a function
    "FakeContext": "testing.context",
    "sqs_event": "testing.lambda_events",
    "sns_event": "testing.lambda_events",
    "bus_event": "testing.lambda_events",
    "sns_to_sqs_event": "testing.lambda_events",
    "invocation": "testing.lambda_events",
    "batch": "testing.lambda_events",
    "kinesis_event": "testing.stream_events",
    "dynamodb_event": "testing.stream_events",
    "kafka_event": "testing.stream_events",
    "object_notice": "testing.object_notices",
    "schedule_event": "testing.schedule_events",
    # run whole flows
    "FlowRunner": "testing.runner",
    "NoFlow": "testing.runner",
    "NotAtRest": "testing.runner",
    "FlowClock": "testing.flow_clock",
    "FlowResult": "testing.flow_result",
    "NotThere": "testing.flow_result",
    "RunEnd": "testing.flow_result",
    "SentMessage": "testing.flow_result",
    "EmbeddedAWS": "sim.moto",
    "MemoryAWS": "sim.memory.aws",
    # explore them
    "explore": "testing.explorer",
    "replay": "testing.explorer",
    "Later": "testing.explorer",
    "OutsideAnswer": "testing.explorer",
    "OutsideRequest": "testing.explorer",
    "PlainFunction": "testing.explorer",
    "Question": "testing.explorer",
    "invariant": "testing.explorer",
    "View": "testing.explorer",
    "Report": "testing.explorer",
    "Trace": "testing.explorer",
    "Violation": "testing.explorer",
    "NoSuchSchedule": "testing.explorer",
    "UnmetSchedule": "testing.explorer",
    "in_memory": "testing.explorer",
    "on_moto": "testing.explorer",
    # the marker
    "Exploration": "testing.exploration",
    "MarkerError": "testing.exploration",
}

__all__ = list(_HOME)


if not TYPE_CHECKING:  # to a type checker, a name that is not above is a mistake
    __getattr__ = loader(__name__, _HOME)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
