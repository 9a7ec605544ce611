"""The ways in which a stage can end, as values.

They are matched exhaustively, so that a new ending names every place that must know it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from flowguard.destinations import Destination
from flowguard.errors import RunFailed
from flowguard.payload.encoding import Payload
from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.answer_link import answer_link
from flowguard.wire.attributes import Attribute


class Next(NamedTuple):
    """The run goes on with another stage. Made by ``SomeStage.message(payload)``, which checks the payload's type."""

    stage: str
    payload: Payload


class Done(NamedTuple):
    """The run is complete. ``result`` is kept for late duplicates and sent in the reply; keep it small.

    Anything JSON can hold, or a pydantic model. What JSON has not, such as a ``Decimal`` or a date, becomes its text;
    a flow that asks for the result declares its type and gets it back as it was.
    """

    result: Any = None


class Ask(NamedTuple):
    """A question to a party outside flowguard, made by ``step.ask``. ``body`` is the payload's text."""

    to: Destination
    body: str
    attributes: Mapping[str, Attribute] = {}
    group: str | None = None


class AskFlow(NamedTuple):
    """A request to another flow, made by ``step.ask``. The result of its run is the answer.

    With ``cancel_too`` that run is cancelled with this one.
    """

    flow: Any
    payload: Payload
    object_id: str | None = None
    cancel_too: bool = False


class AwaitedEvent(NamedTuple):
    """Something that happens outside, to an ``id`` that others know. Made by ``step.event``.

    ``keep_early`` says that its answer may have been kept before the run began to wait.
    """

    id: str
    keep_early: bool = False


class AwaitedToken:
    """The answer of a person or a third party, made by ``step.token``.

    Send them its :meth:`link`, or a URL of your own that ends with its ``text``. The token itself is no JSON, and its
    repr does not show the text: who has that can answer.
    """

    __slots__ = ("base", "row_id", "shown", "text")

    def __init__(self, text: str, row_id: str, shown: str = "", base: str | None = None) -> None:
        self.text, self.row_id = text, row_id
        self.shown = shown  # the title and the facts that its page shows, sealed
        self.base = base  # what FLOWGUARD_ANSWERS_URL says

    def link(
        self,
        base: str | None = None,
        *,
        choices: Sequence[str] = (),
        with_comment: bool = False,
        failed: bool = False,
    ) -> str:
        """Make the link with which a person answers: ``base``, then the token.

        ``base`` is the URL above it, such as ``https://example.com/answers``; by default what ``FLOWGUARD_ANSWERS_URL``
        says, which ``flowguard dev`` sets. The page of the link has a button for each of ``choices``, and a field for a
        comment where ``with_comment`` says so. An answer to a link with ``failed`` reports that it could not be done.
        Raises :class:`flowguard.errors.RunFailed` for a base with a query, for choices that no page would show, and
        where there is no base.
        """
        base = self.base if base is None else base
        if base is None:
            raise RunFailed("no link can be made: set FLOWGUARD_ANSWERS_URL, or give the URL above the token")
        try:
            return answer_link(
                base, self.text, choices=choices, with_comment=with_comment, failed=failed, about=self.shown
            )
        except ValueError as error:
            raise RunFailed(f"no link can be made: {error}") from None


Awaited = Ask | AskFlow | AwaitedEvent | AwaitedToken
"""What a run can wait for."""


class WaitFor(NamedTuple):
    """The run waits, and goes on at ``stage``. Made by ``SomeStage.when_all(…)``, ``when_any`` or ``when(quorum=n)``.

    ``quorum`` is how many answers are enough; None stands for all. ``on_timeout`` and ``on_error`` are the names of the
    stages at which the run goes on otherwise.
    """

    stage: str
    awaited: Mapping[str, Awaited]
    quorum: int | None
    within: timedelta | None
    on_timeout: str | None = None
    on_error: str | None = None


class AskGroup(NamedTuple):
    """Requests to one flow, or to one party outside, each with its name. Made by ``step.group``.

    ``to`` is a flow or a destination. The requests are read once, a shard at a time. With ``cancel_too`` the flow's
    runs are cancelled with this one.
    """

    to: Any
    requests: Iterable[tuple[str, Payload]]
    attributes: Mapping[str, Attribute] = {}
    cancel_too: bool = False


class WaitForGroup(NamedTuple):
    """The run waits for a group, and goes on at ``stage``. Made by ``SomeStage.when_group(…)``.

    ``quorum`` is the share of each shard's requests that is enough; None stands for all.
    """

    stage: str
    group: AskGroup
    quorum: float | None
    within: timedelta | None
    on_timeout: str | None = None


Outcome = Next | Done | WaitFor | WaitForGroup
