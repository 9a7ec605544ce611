"""What a refused write of the run item means for the writes recorded beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from botocore.exceptions import ClientError

from flowguard.aws.faults import PASSING_REASONS, error_code, is_final, is_passing
from flowguard.aws.writes import condition_failure
from flowguard.errors import WriteInvalid, shown
from flowguard.writes import Write


def is_at_fence(error: ClientError) -> bool:
    """Answer whether the condition on the run item did not hold, in a write or as the first of a transaction."""
    first = _reasons_of(error)[:1]
    failed = bool(first) and first[0].get("Code") == "ConditionalCheckFailed"
    return failed or error_code(error) == "ConditionalCheckFailedException"


def item_at_fence(error: ClientError) -> Any:
    """Return the run item that the condition met. None where there is none."""
    first = _reasons_of(error)[:1]
    return first[0].get("Item") if first else error.response.get("Item")


def refusal_of(writes: Sequence[Write], error: ClientError) -> Exception:
    """Return what it means that a write of the run item was refused, with the writes beside it.

    A condition of the caller's own becomes the error that it asks for, and what is refused for good a
    :class:`flowguard.errors.WriteInvalid`. Any other error is returned as it is: it may hide a success.
    """
    match error_code(error):
        case "TransactionCanceledException":
            reasons = _reasons_of(error)
            if failure := condition_failure(writes, reasons[1:]):
                return failure
            if not reasons or is_passing(error):
                return error
            return WriteInvalid(f"DynamoDB refuses a recorded write: {_reasons(reasons)}")
        case "ResourceNotFoundException" if writes:
            return WriteInvalid(f"{_tables(writes)} does not exist in the region of the function; {_CREATE}")
        case "ValidationException" | "SerializationException":
            problem = _twice(writes) if _SAME_ITEM in _message(error) else _message(error)
            return WriteInvalid(f"DynamoDB refuses the commit: {problem}")
        case code if writes and is_final(error):  # the run item was claimed: it is a table of the user's
            return WriteInvalid(f"DynamoDB refuses the recorded writes: {code}: {_message(error)}")
        case _:
            return error


def _reasons_of(error: ClientError) -> list[Any]:
    found: list[Any] = error.response.get("CancellationReasons", [])
    return found


_SAME_ITEM = "multiple operations on one item"
_CREATE = "create it, or correct its name. Nothing was written"


def _tables(writes: Sequence[Write], at_least: int = 1) -> str:
    """Name the tables that the handler writes to so often."""
    names = Counter(write.table for write in writes)
    often = [shown(name) for name, times in names.items() if times >= at_least]
    return f"the table {often[0]}" if len(often) == 1 else f"one of the tables {', '.join(often)}"


def _twice(writes: Sequence[Write]) -> str:
    return f"two of its writes to {_tables(writes, at_least=2)} are to one item; record one with both"


def _message(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Message", ""))


def _reasons(reasons: Sequence[Any]) -> str:
    said = [(str(reason.get("Code", "None")), reason.get("Message", "")) for reason in reasons]
    return "; ".join(f"{code}: {text}" for code, text in said if code not in PASSING_REASONS)
