"""What goes wrong at the calls to DynamoDB: workers die, answers are lost, calls are repeated, throttled, collide."""

from __future__ import annotations

import os
import random
import signal
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError, ReadTimeoutError

from flowguard.sim.calls import ApiCall, Proceed, Response
from tests.proofs.races.statements import statements_of
from tests.proofs.races.witness import TOKEN, run_item_update
from tests.proofs.soak.journal import Journal

READS = "BatchGetItem"
_PASSING = ("ThrottlingError", "TransactionConflict", "InternalServerError", "ProvisionedThroughputExceeded")

WITHOUT_TOKEN = 0.5
"""The share of repeated transactions that DynamoDB cannot know by their token."""


class Died(BaseException):
    """The worker stops where it is: nothing of its invocation is reported, sent or acknowledged."""


@dataclass(frozen=True)
class Odds:
    """The share of calls that meet each mishap, and of invocations whose clock is a whole lease ``ahead``.

    A worker that dies is called again; ``kill`` is the share of calls at which the whole process does not survive.
    """

    die_before: float = 0.01
    die_after: float = 0.02
    repeat: float = 0.04
    lose: float = 0.01
    throttle: float = 0.01
    ahead: float = 0.05
    kill: float = 0
    partly: float = 0.15
    """Of the requests for several items: not all are answered, or not all are made before the worker dies."""


class Mishaps:
    """An interceptor. A repeated call is what botocore makes of a lost answer: made twice, the second one answered.

    It meets the calls that change run items, or those ``everywhere``.
    """

    def __init__(self, odds: Odds, draw: random.Random, journal: Journal, *, everywhere: bool = False) -> None:
        self._odds = odds
        self._draw = draw
        self._journal = journal
        self._everywhere = everywhere

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        several = call.operation == READS or bool(statements_of(call))
        if run_item_update(call) is None and not several and not self._everywhere:
            return proceed()
        odds = self._odds
        if several and self._strikes("answered in part", odds.partly):
            return self._partly(call, proceed)
        if odds.kill and self._strikes("killed before", odds.kill / 2):
            os.kill(os.getpid(), signal.SIGKILL)
        if self._strikes("died before", odds.die_before):
            raise Died
        if self._strikes("throttled", odds.throttle):
            raise _passing(call)
        if self._strikes("repeated", odds.repeat):
            self._unheard(call, proceed)
        answer = proceed()
        if odds.kill and self._strikes("killed after", odds.kill / 2):
            os.kill(os.getpid(), signal.SIGKILL)
        if self._strikes("died after", odds.die_after):
            raise Died
        if self._strikes("unanswered", odds.lose):
            raise ReadTimeoutError(endpoint_url="dynamodb")
        return answer

    def _partly(self, call: ApiCall, proceed: Proceed) -> Response:
        """One of several is left unprocessed, refused, or applied and not answered; or the worker dies after some."""
        params: Any = call.params
        if call.operation == READS:
            [(table, asked)] = params["RequestItems"].items()
            left = asked["Keys"].pop(self._draw.randrange(len(asked["Keys"])))
            answer = proceed() if asked["Keys"] else {"Responses": {}}
            return {**answer, "UnprocessedKeys": {table: {**asked, "Keys": [left]}}}
        place = self._draw.randrange(len(params["Statements"]))
        how = self._draw.choice(("refused", "unheard", "died"))
        if how == "unheard":
            answer = proceed()
            answer["Responses"][place] = {"Error": {"Code": self._draw.choice(_PASSING), "Message": "no"}}
            return answer
        whole = params["Statements"]
        params["Statements"] = [one for at, one in enumerate(whole) if (at < place if how == "died" else at != place)]
        answer = proceed() if params["Statements"] else {"Responses": []}
        if how == "died":
            raise Died
        answer["Responses"].insert(place, {"Error": {"Code": self._draw.choice(_PASSING), "Message": "no"}})
        return answer

    def _unheard(self, call: ApiCall, proceed: Proceed) -> None:
        """Makes the call and keeps its answer. A transaction that is repeated has its token still, by which DynamoDB
        knows it; now and then it goes without, and only the fence can tell.
        """
        try:
            proceed()
        except ClientError:
            return
        finally:
            if self._draw.random() < WITHOUT_TOKEN and isinstance(call.params, dict):
                call.params.pop(TOKEN, None)

    def _strikes(self, name: str, share: float) -> bool:
        struck = self._draw.random() < share
        if struck:
            self._journal.write("mishap", name=name)
        return struck


def _passing(call: ApiCall) -> ClientError:
    """Nothing is applied. DynamoDB Local serialises transactions, so that their conflicts have to be made up."""
    said: Any = {"Error": {"Code": "ThrottlingException", "Message": "slow down"}}
    if call.operation == "TransactWriteItems":
        untouched = [{"Code": "None"}] * (len(call.params["TransactItems"]) - 1)
        said = {
            "Error": {"Code": "TransactionCanceledException", "Message": "another transaction is under way"},
            "CancellationReasons": [{"Code": "TransactionConflict"}, *untouched],
        }
    return ClientError(said, call.operation)
