"""The long texts of run items, unpacked from the items or from S3."""

from __future__ import annotations

import functools
from typing import Final, Literal, assert_never

from flowguard.aws.commit_texts import FIRST_MESSAGE, PLAN
from flowguard.aws.items import Item, about_of, read_item, size_of_value
from flowguard.aws.packing import Packing
from flowguard.errors import CannotOpen, KeyUnavailable, TextGone
from flowguard.names.ids import RequestId
from flowguard.protocol.callers import LeftEnd, StoredEnd
from flowguard.protocol.outbox import Outbox, StoredOutbox
from flowguard.protocol.run import ENDED, LeftState, RunItem, Status
from flowguard.protocol.waiting import GivenAnswer, WaitPlan

UNREADABLE: Final = (TextGone, CannotOpen, KeyUnavailable)
"""Why a text is not read. The claim goes on, and the error is raised where the text is needed."""


class ItemTexts:
    """Adds long texts to run items, each only where it is needed."""

    def __init__(self, packing: Packing) -> None:
        self._packing = packing

    def whole(self, raw: Item) -> RunItem:
        """Return everything an item holds, its long texts too."""
        item = self.with_memo(self.with_wait(self.with_outbox(read_item(raw), raw), raw), raw)
        item = self.with_text(item, raw, "state")
        if item.status not in ENDED and not item.done:  # what is there is of the run before
            return self.with_left_end(item, raw) if item.hop == 1 else item
        return self.with_end(item, raw)

    def with_wait(self, item: RunItem, raw: Item) -> RunItem:
        """Return the item with its wait's plan and answers, or with the reason why an answer is lost."""
        planned = self.with_plan(item, raw)
        if planned.wait is None:
            return item
        try:
            answers = {
                name: GivenAnswer(self._text(raw, answer["M"]["text"], f"answer {name}"), "failed" in answer["M"])
                for name, answer in raw["wait"]["M"]["answers"]["M"].items()
            }
        except UNREADABLE as gone:
            return planned._replace(lost=gone)
        return planned._replace(wait=planned.wait._replace(answers=answers))

    def with_plan(self, item: RunItem, raw: Item) -> RunItem:
        """Return the item with its wait's plan. That is all that settling an answer needs."""
        if item.wait is None:
            return item
        plan = WaitPlan.from_text(self._packing.unpack(raw["wait"]["M"][PLAN], None))
        return item._replace(wait=item.wait._replace(plan=plan))

    def with_outbox(self, item: RunItem, raw: Item) -> RunItem:
        """Return the item with the messages that its last commit had to send."""
        if "outbox" not in raw:
            return item
        stored = raw["outbox"]
        match stored:
            case {"M": {"request_id": {"S": request_id}, "committed_at": {"N": at}}}:
                read = functools.partial(self._text, raw, stored, "outbox")
                return item._replace(outbox=StoredOutbox(RequestId(request_id), int(at), read))
            case {"M": _}:  # as versions before this one wrote it: of a run that the item may not name any more
                read = functools.partial(self._text, raw, stored, "outbox")
                return item._replace(outbox=StoredOutbox(RequestId(""), item.committed_at, read))
            case _:
                return item._replace(outbox=Outbox.from_text(self._text(raw, stored, "outbox")))

    def with_text(self, item: RunItem, raw: Item, name: Literal["state", "result", "error"]) -> RunItem:
        """Return the item with one of its long texts, or with the reason why that is lost."""
        if name not in raw:
            return item
        try:
            text = self._text(raw, raw[name], name)
        except UNREADABLE as gone:
            return item._replace(lost=gone)
        match name:
            case "state":
                return item._replace(state=text)
            case "result":
                return item._replace(result=text)
            case "error":
                return item._replace(error=text)
            case _:
                assert_never(name)

    def with_end(self, item: RunItem, raw: Item) -> RunItem:
        """Return the item with its result and its error."""
        return self.with_text(self.with_text(item, raw, "result"), raw, "error")

    def with_left_end(self, item: RunItem, raw: Item) -> RunItem:
        """Return the item with the end of the run before, whose callers may not have been answered yet."""
        if item.answered is None or item.answered_by is None:
            return item
        by, at = item.answered_by, item.committed_at

        def read() -> StoredEnd:
            result = self._text(raw, raw["result"], "result") if "result" in raw else None
            if "error" in raw:
                return StoredEnd(by, at, Status.FAILED.value, result, self._text(raw, raw["error"], "error"))
            return StoredEnd(by, at, Status.COMPLETED.value, result)

        return item._replace(left_end=LeftEnd(by, at, item.answered, read))

    def left(self, raw: Item) -> LeftState | None:
        """Return the state that the run before has left. Nothing is read before it is asked for."""
        if "state" not in raw:
            return None
        return LeftState(functools.partial(self._text, raw, raw["state"], "state"), size_of_value(raw["state"]))

    def with_first_message(self, item: RunItem, raw: Item) -> RunItem:
        """Return the item with its restart payload."""
        if FIRST_MESSAGE not in raw:
            return item
        return item._replace(first_message=self._text(raw, raw[FIRST_MESSAGE], FIRST_MESSAGE))

    def with_memo(self, item: RunItem, raw: Item) -> RunItem:
        """Return the item with what its hop remembers."""
        if "memo" not in raw:
            return item
        from flowguard.aws.memos import read_memo  # a function that remembers nothing starts quicker

        return item._replace(memo=read_memo(raw, self._text))

    def _text(self, raw: Item, stored: Item, kind: str) -> str:
        """Return a text of an item, opened where it is sealed."""
        return self._packing.unpack(stored, about_of(raw, kind))
