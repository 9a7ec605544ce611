"""What a release writes, read from the very call that the store makes: it stands nowhere but in its expression."""

from __future__ import annotations

from typing import Any, Final

from flowguard.aws.commit_call import CommitCalls
from flowguard.aws.commit_texts import CommitTexts
from flowguard.protocol.run import Claim, RunItem

NO_TEXTS: Final = CommitTexts(packing=None, prefix="")  # type: ignore[arg-type]  # a release has no text to pack


def released(item: RunItem, claim: Claim, now: int) -> RunItem:
    call = CommitCalls("table", NO_TEXTS).release(claim, now, failed=True)
    changes = call["UpdateExpression"].removeprefix("SET ").split(", ")
    written = dict(change.split(" = ") for change in changes)
    values: Any = {name: int(call["ExpressionAttributeValues"][value]["N"]) for name, value in written.items()}
    return item._replace(**values)
