"""The parties outside, which answer what the explored runs await.

::

    commit of a wait ──▶ event, token: asked at once  ┐
    message of an ask ─▶ asked when it was sent       ├──▶ the user's answer ──▶ a record for the answering function
                                                      ┘
A token is answered over HTTP, by a POST to the URL of the answering function. Everything else, and a failure, is
answered as ``FlowClient`` does. Each call can meet a fault, and the client tries again unless the schedule says
otherwise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from flowguard.callback_function import CallbackHandler
from flowguard.errors import FlowguardError, SettingsError, shown
from flowguard.failed import Failed
from flowguard.flow import AnyFlow
from flowguard.payload.encoding import encode_json
from flowguard.protocol.outbox import Kind
from flowguard.protocol.run import RunItem, Status
from flowguard.protocol.run_orders import failed_answer
from flowguard.protocol.waiting import GivenAnswer, WaitPlan
from flowguard.sim.functions import ServedFunction
from flowguard.sim.issued_tokens import MadeTokens
from flowguard.testing.explorer.record.history import History
from flowguard.testing.explorer.record.question import PARTIES, Question
from flowguard.testing.explorer.record.view import body_of
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.message import REQUEST_ID
from flowguard.wire.tokens import SEALED_IDS
from flowguard.worker.callbacks import Callbacks
from flowguard.worker.external_answer import ExternalAnswer
from flowguard.worker.ports import Services
from flowguard.worker.resumed_payload import check_answer

GivenAnswers: TypeAlias = Mapping[str, object]
"""Answers by the names that stages await: values, or functions that make one of a :class:`Question`."""

_DIGEST: Final = re.compile(r"-[0-9a-f]{16}(?=\.)")
_VISIBILITY: Final = 30_000
_AGAIN: Final = 503
"""The status of an answer that is to be sent again."""

_LIKE: Final = 'give each awaited name its answer: answers={"parcel": {"number": 17}}'


class AskedQuestion(NamedTuple):
    """A question with its number, and the body of the record that answers it."""

    number: int
    question: Question
    body: str


class Parties:
    """The user's answers, and the numbers of the questions. A question has the same number in each schedule.

    Raises :class:`SettingsError` for what gives no answers.
    """

    def __init__(self, given: GivenAnswers, flows: Sequence[AnyFlow]) -> None:
        answers: object = given
        if not isinstance(answers, Mapping) or not all(isinstance(name, str) and name for name in answers):
            raise SettingsError("answers", f"{shown(repr(answers))} gives no answers; {_LIKE}")
        self.given = given
        self._stages = {(flow.name, stage.name): stage for flow in flows for stage in flow.stages}
        self._numbers: dict[tuple[object, ...], int] = {}

    def answer(self, question: Question, plan: WaitPlan) -> AskedQuestion | None:
        """Return the answer to a question. None where nobody answers it."""
        given: Any = self.given.get(question.name)
        value = given(question) if callable(given) else given
        if value is None:
            return None
        try:
            answer = _given(value)
            check_answer(self._stages[question.flow, plan.stage], question.name, answer)
        except (FlowguardError, TypeError, ValueError) as error:
            raise SettingsError("answers", f"the answer for {question.name!r} cannot be given: {error}") from error
        place = (question.flow, question.object_id, _DIGEST.sub("", question.request_id), question.hop, question.name)
        number = self._numbers.setdefault(place, len(self._numbers) + 1)
        content = {"flow": question.flow, "id": question.id, "text": answer.text, "failed": answer.failed}
        return AskedQuestion(number, question, json.dumps(content))

    def function(self, services: Services, made: MadeTokens, flows: Sequence[AnyFlow]) -> ServedFunction:
        """Return the function that gives the answers to these flows. ``made`` has the tokens that its clients hold."""
        handler = _answering({flow.name: flow for flow in flows}, services, made)
        return ServedFunction(PARTIES, handler, _VISIBILITY, plain=True)


def _answering(flows: Mapping[str, AnyFlow], services: Services, made: MadeTokens) -> Callable[[Any], Any]:
    over_http = CallbackHandler(tuple(flows.values()), services)

    def handler(event: Any) -> Any:
        [record] = event["Records"]
        content = json.loads(record["body"])
        flow, answer = flows[content["flow"]], GivenAnswer(content["text"], content["failed"])
        token = made.text_of(flow.name, content["id"].removeprefix(SEALED_IDS))
        if token is not None and not answer.failed:
            early = over_http(_post(token, answer.text))["statusCode"] == _AGAIN
        else:
            early = (
                Callbacks((flow,), services).answer(ExternalAnswer(flow, content["id"], answer)) is AnswerVerdict.EARLY
            )
        return {"batchItemFailures": [{"itemIdentifier": record["messageId"]}] if early else []}

    return handler


def _post(token: str, body: str) -> Any:
    """Return the event in which a function URL hands over a POST of JSON."""
    return {
        "version": "2.0",
        "rawPath": f"/{token}",
        "rawQueryString": "",
        "headers": {"content-type": "application/json"},
        "requestContext": {"domainName": "answers.lambda-url.eu-west-1.on.aws", "http": {"method": "POST"}},
        "body": body,
        "isBase64Encoded": False,
    }


class OpenQuestions:
    """Finds the questions of one schedule. Each is asked once, as soon as its party can know of it."""

    def __init__(self, parties: Parties) -> None:
        self._parties = parties
        self._history: History | None = None
        self._versions = self._posted = 0
        self._unsent: dict[str, tuple[Question, WaitPlan]] = {}
        self._asked: set[tuple[str, str, str]] = set()

    def new(self, history: History) -> Iterator[AskedQuestion]:
        """Yield the questions that have come up since the last time, where somebody answers them."""
        if history is not self._history:
            self._history, self._versions, self._posted = history, 0, 0
        versions, posted = history.versions[self._versions :], history.posted[self._posted :]
        self._versions, self._posted = len(history.versions), len(history.posted)
        questions: list[tuple[Question, WaitPlan]] = []
        for version in versions:
            if version.item is not None and version.item.status is Status.WAITING:
                questions += self._of_wait(version.key, version.item)
        for message in posted:
            if message.id in self._unsent:
                question, plan = self._unsent.pop(message.id)
                questions.append((question._replace(payload=body_of(message)), plan))
        for question, plan in questions:
            if (asked := self._parties.answer(question, plan)) is not None:
                yield asked

    def _of_wait(self, key: str, item: RunItem) -> Iterator[tuple[Question, WaitPlan]]:
        """Yield what is known to its party once the wait is committed. Asks are known when they were sent."""
        if item.wait is None or item.wait.plan is None:
            return
        _, flow, object_id = key.split("#", 2)
        sends = item.outbox.sends if item.outbox is not None else ()
        asks = {send.attributes[REQUEST_ID].value for send in sends if send.kind is Kind.ASK}
        for name, awaited_id in item.wait.plan.names.items():
            if awaited_id is None or (awaited_id, key, item.request_id) in self._asked:
                continue
            self._asked.add((awaited_id, key, item.request_id))
            question = Question(flow, object_id, item.request_id, item.hop, name, awaited_id, None, item.wait.deadline)
            if awaited_id in asks:
                self._unsent[awaited_id] = (question, item.wait.plan)
            else:
                yield question, item.wait.plan


def _given(value: object) -> GivenAnswer:
    return failed_answer(value.type, value.text) if isinstance(value, Failed) else GivenAnswer(encode_json(value))
