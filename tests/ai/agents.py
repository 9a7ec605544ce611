"""A flow of one stage whose handler a test writes, and models that note what they are asked."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, ModelResponsePart, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from flowguard import Done, Fixed, Flow, Outcome, RetryPolicy, Stage, Step
from flowguard.testing import FlowClock, FlowRunner, MemoryAWS
from flowguard.testing.flow_result import FlowResult
from tests.aws.engines import kept

SECRET: Final = "the customer owes 4,711 EUR"
"""What stands in prompts, and nowhere else."""


class Question(BaseModel):
    id: str
    text: str = SECRET


class World:
    """What the handler of this module does, and the errors that it raised."""

    handle: Callable[[Step], Any]
    raised: list[BaseException]


WORLD = World()


class Ask(Stage[Question], name="ask", retry=RetryPolicy(attempts=4, backoff=Fixed(1), jitter=0)):
    def handle(self, question: Question, step: Step) -> Outcome:
        try:
            return Done(WORLD.handle(step))
        except Exception as error:
            WORLD.raised.append(error)
            raise


class Questions(Flow, name="questions", object_id="id"):
    stages = (Ask,)


def run(handle: Callable[[Step], Any], **within: Any) -> FlowResult:
    """Run one request, whose handler that is, to its end."""
    WORLD.handle, WORLD.raised = handle, []
    with FlowClock() as clock, MemoryAWS(clock) as aws, kept(), FlowRunner(aws, clock) as runner:
        runner.send(Questions, Question(id="q-1"))
        return runner.run(**within)


class Model(FunctionModel):
    """Answers by its script, an entry for each number of answers that the conversation has, and notes what it gets."""

    def __init__(self, *script: Any) -> None:
        super().__init__(self._answer, model_name="scripted")
        self.script = list(script)
        self.asked: list[int] = []
        self.infos: list[AgentInfo] = []

    def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        place = sum(isinstance(message, ModelResponse) for message in messages)
        self.asked.append(place + 1)
        self.infos.append(info)
        entry = self.script[min(place, len(self.script) - 1)]
        made = entry() if callable(entry) else entry
        parts: Sequence[ModelResponsePart] = made if isinstance(made, list) else [TextPart(made)]
        return ModelResponse(parts=parts)


def calls(*words: str) -> list[ToolCallPart]:
    """Parts that call the tool ``look`` for each of the words."""
    return [ToolCallPart("look", {"word": word}) for word in words]


class Looking:
    """An agent with a tool, and what the tool was called with."""

    def __init__(
        self, *script: Any, look: Callable[[str], Any] = str.upper, sequential: bool = False, **about: Any
    ) -> None:
        self.looked: list[str] = []
        self.model = Model(*script)
        self.agent: Agent[None, Any] = Agent(self.model, **about)

        def note(word: str) -> Any:
            """Look at a word."""
            self.looked.append(word)
            return look(word)

        self.agent.tool_plain(name="look", sequential=sequential)(note)


def fails_until(attempt: int, step: Step) -> None:
    if step.attempt < attempt:
        raise ConnectionError("the mail server is away")


@contextmanager
def logged() -> Iterator[list[str]]:
    """What flowguard logs meanwhile, at every level."""
    lines: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(f"{self.format(record)} {vars(record)}")

    logger, handler = logging.getLogger("flowguard"), Kept()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield lines
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)
