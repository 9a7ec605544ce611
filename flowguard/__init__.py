"""Multi-Lambda flows on AWS that stay right under duplicates, disorder and death.

They run on SQS, SNS and DynamoDB. This page is the table of contents. A name loads its module when it is first used, so
that a function pays only for what it needs: what defines flows needs pydantic alone, what runs them loads boto3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowguard.names.public import loader

if TYPE_CHECKING:
    # define a flow
    # start one, serve one
    from flowguard.aws.modify import modify as modify
    from flowguard.callback import Callback as Callback
    from flowguard.callback_function import callback_handler as callback_handler
    from flowguard.client import FlowClient as FlowClient
    from flowguard.client import KeptResult as KeptResult
    from flowguard.client import Started as Started
    from flowguard.destinations import Bus as Bus
    from flowguard.destinations import Function as Function
    from flowguard.destinations import Queue as Queue
    from flowguard.destinations import Topic as Topic

    # what goes wrong
    from flowguard.errors import ConditionFailed as ConditionFailed
    from flowguard.errors import ConditionRejected as ConditionRejected
    from flowguard.errors import DefinitionError as DefinitionError
    from flowguard.errors import EnvelopeError as EnvelopeError
    from flowguard.errors import FlowguardError as FlowguardError
    from flowguard.errors import InProgress as InProgress
    from flowguard.errors import ItemChanged as ItemChanged
    from flowguard.errors import Reject as Reject
    from flowguard.errors import Retry as Retry
    from flowguard.errors import WorkerFenced as WorkerFenced
    from flowguard.events import Event as Event

    # see what happened
    from flowguard.events import EventType as EventType
    from flowguard.failed import Failed as Failed
    from flowguard.failed import Failure as Failure
    from flowguard.flow import ATTACH as ATTACH
    from flowguard.flow import IGNORE as IGNORE
    from flowguard.flow import PER_REQUEST as PER_REQUEST
    from flowguard.flow import SUPERSEDE as SUPERSEDE
    from flowguard.flow import UNTIL_RESET as UNTIL_RESET
    from flowguard.flow import Flow as Flow
    from flowguard.group import GroupEnd as GroupEnd
    from flowguard.handler import LambdaHandler as LambdaHandler
    from flowguard.handler import dlq_handler as dlq_handler
    from flowguard.handler import lambda_handler as lambda_handler
    from flowguard.key_table import KeyTable as KeyTable
    from flowguard.limit import PerKey as PerKey
    from flowguard.once_function import once as once
    from flowguard.outcome import AwaitedToken as AwaitedToken
    from flowguard.outcome import Done as Done
    from flowguard.outcome import Next as Next
    from flowguard.outcome import Outcome as Outcome
    from flowguard.pause_after import PauseAfter as PauseAfter
    from flowguard.retry import Exponential as Exponential
    from flowguard.retry import Fixed as Fixed
    from flowguard.retry import Linear as Linear
    from flowguard.retry import RetryPolicy as RetryPolicy
    from flowguard.settings import Settings as Settings
    from flowguard.stage import Stage as Stage
    from flowguard.start_function import start_handler as start_handler
    from flowguard.start_request import StartRequest as StartRequest
    from flowguard.step import Step as Step
    from flowguard.verdicts import AnswerVerdict as AnswerVerdict
    from flowguard.verdicts import ResetVerdict as ResetVerdict
    from flowguard.verdicts import Verdict as Verdict

    __version__: str

_HOME = {
    # define a flow
    "Flow": "flow",
    "SUPERSEDE": "flow",
    "IGNORE": "flow",
    "ATTACH": "flow",
    "UNTIL_RESET": "flow",
    "PER_REQUEST": "flow",
    "Stage": "stage",
    "Step": "step",
    "Outcome": "outcome",
    "Next": "outcome",
    "Done": "outcome",
    "AwaitedToken": "outcome",
    "Failed": "failed",
    "Failure": "failed",
    "GroupEnd": "group",
    "Callback": "callback",
    "PauseAfter": "pause_after",
    "PerKey": "limit",
    "RetryPolicy": "retry",
    "Exponential": "retry",
    "Linear": "retry",
    "Fixed": "retry",
    # say where messages go
    "Queue": "destinations",
    "Topic": "destinations",
    "Function": "destinations",
    "Bus": "destinations",
    # start one, serve one
    "modify": "aws.modify",
    "FlowClient": "client",
    "Started": "client",
    "KeptResult": "client",
    "LambdaHandler": "handler",
    "lambda_handler": "handler",
    "dlq_handler": "handler",
    "callback_handler": "callback_function",
    "start_handler": "start_function",
    "StartRequest": "start_request",
    "Settings": "settings",
    # without a flow
    "once": "once_function",
    "KeyTable": "key_table",
    # see what happened
    "Event": "events",
    "EventType": "events",
    "Verdict": "verdicts",
    "AnswerVerdict": "verdicts",
    "ResetVerdict": "verdicts",
    # what goes wrong
    "Retry": "errors",
    "Reject": "errors",
    "FlowguardError": "errors",
    "DefinitionError": "errors",
    "EnvelopeError": "errors",
    "ConditionFailed": "errors",
    "ConditionRejected": "errors",
    "ItemChanged": "errors",
    "WorkerFenced": "errors",
    "InProgress": "errors",
}

__all__ = list(_HOME)


if not TYPE_CHECKING:  # to a type checker, a name that is not above is a mistake
    _load = loader(__name__, _HOME)

    def __getattr__(name: str) -> Any:
        """Load the module that holds a public name, once."""
        if name == "__version__":
            from importlib.metadata import version  # loads a dozen modules that no function needs

            return version("flowguard-aws")
        return _load(name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
