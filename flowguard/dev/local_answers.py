"""The function of answers, asked over HTTP on this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from flowguard.dev.mapping import LocalContext, Say
from flowguard.wire.http_page import Page
from flowguard.wire.http_response import lambda_response, page_response

NO_FUNCTION: Final = Page("No function of answers", "No callback_handler(…) is in the modules of this flowguard dev.")
SECONDS: Final = 30
"""The time-out of the function."""


class LocalAnswers:
    """Answers requests to links. ``handler`` is the function of answers; None where there is none."""

    def __init__(self, handler: Callable[[Any, Any], Any] | None, region: str, account: str, say: Say) -> None:
        self._handler = handler
        self._arn = f"arn:aws:lambda:{region}:{account}:function:answers"
        self._say = say

    def take(self, asked: Mapping[str, Any]) -> None:
        """Say the answer to a request, and for the live view that there was one."""
        event = asked["event"]
        answer = self.respond(event)
        self._say({"answer_to": asked["ask"], "answer": answer})
        method = event["requestContext"]["http"]["method"]
        self._say({"event": "answer", "method": method, "status": answer["statusCode"]})

    def respond(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the function returns."""
        if self._handler is None:
            return lambda_response(page_response(404, NO_FUNCTION), event)
        answer: dict[str, Any] = self._handler(event, LocalContext("answers", 128, SECONDS, self._arn))
        return answer
