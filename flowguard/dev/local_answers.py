"""Calls functions with a URL over HTTP on this machine, to answer links and to start runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from flowguard.dev.local_pages import OF_ANSWERS
from flowguard.dev.mapping import LocalContext, Say
from flowguard.wire.http_page import Page
from flowguard.wire.http_response import json_response, lambda_response, page_response

NO_FUNCTION: Final = Page("No function of answers", "No callback_handler(…) is in the modules of this flowguard dev.")
SECONDS: Final = 30
"""The time-out of each function."""

HttpFunction: TypeAlias = Callable[[Any, Any], Any]


class LocalAnswers:
    """Answers requests. ``handler`` is the function of answers; None where there is none.

    ``starts`` are the functions that start runs, by name.
    """

    def __init__(
        self,
        handler: HttpFunction | None,
        region: str,
        account: str,
        say: Say,
        starts: Mapping[str, HttpFunction] | None = None,
    ) -> None:
        self._handler = handler
        self._starts = starts if starts is not None else {}
        self._place = f"arn:aws:lambda:{region}:{account}:function:"
        self._say = say

    def take(self, asked: Mapping[str, Any]) -> None:
        """Say the answer to a request, and for the live view that there was one."""
        event = asked["event"]
        answer = self.respond(event)
        self._say({"answer_to": asked["ask"], "answer": answer})
        context = event["requestContext"]
        kind = "answer" if _named(context) == OF_ANSWERS else "start"
        self._say({"event": kind, "method": context["http"]["method"], "status": answer["statusCode"]})

    def respond(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the function returns."""
        name = _named(event["requestContext"])
        if name == OF_ANSWERS:
            if self._handler is None:
                return lambda_response(page_response(404, NO_FUNCTION), event)
            return self._called(self._handler, "answers", event)
        if name not in self._starts:
            detail = f"No start_handler(…) of that name is here. There is {', '.join(self._starts) or 'none'}."
            return lambda_response(json_response(404, {"error": "NO_FUNCTION", "detail": detail}), event)
        return self._called(self._starts[name], name, event)

    def _called(self, function: HttpFunction, name: str, event: Mapping[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = function(event, LocalContext(name, 128, SECONDS, f"{self._place}{name}"))
        return answer


def _named(context: Mapping[str, Any]) -> str:
    return str(context["domainName"]).partition(".")[0]
