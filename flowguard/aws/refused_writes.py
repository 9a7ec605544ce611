"""What a refused write of the run item means for the writes recorded beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import combinations
from typing import Any

from flowguard.aws import botocore_errors
from flowguard.aws.faults import FINAL_REASONS, PASSING_REASONS, error_code, is_final, is_for_minutes
from flowguard.aws.writes import condition_failure
from flowguard.errors import WriteDenied, WriteInvalid, shown
from flowguard.items.writes import Put, Write


def is_at_fence(error: botocore_errors.ClientError) -> bool:
    """Answer whether the condition on the run item did not hold, in a write or as the first of a transaction."""
    first = _reasons_of(error)[:1]
    failed = bool(first) and first[0].get("Code") == "ConditionalCheckFailed"
    return failed or error_code(error) == "ConditionalCheckFailedException"


def is_only_beside_fence(error: botocore_errors.ClientError) -> bool:
    """Answer whether the condition on the run item held, and one of what was to be written with it did not."""
    codes = [reason.get("Code") for reason in _reasons_of(error)]
    return "ConditionalCheckFailed" in codes[1:] and codes[0] != "ConditionalCheckFailed"


def item_at_fence(error: botocore_errors.ClientError) -> Any:
    """Return the run item that the condition met. None where there is none."""
    first = _reasons_of(error)[:1]
    return first[0].get("Item") if first else error.response.get("Item")


def refusal_of(writes: Sequence[Write], error: botocore_errors.ClientError) -> Exception:
    """Return what it means that a write of the run item was refused, with the writes beside it.

    A condition of the caller's own becomes the error that it asks for, and what is refused for good a
    :class:`flowguard.errors.WriteInvalid`. Any other error is returned as it is: it may hide a success.
    """
    match error_code(error):
        case "TransactionCanceledException":
            reasons = _reasons_of(error)
            if failure := condition_failure(writes, reasons[1:]):
                return failure
            if not any(reason.get("Code") in FINAL_REASONS for reason in reasons):
                return error
            return WriteInvalid(f"DynamoDB refuses a recorded write: {_reasons(reasons)}")
        case "ResourceNotFoundException" if writes:
            why = f"{_tables(writes)} does not exist in the region of the function; {_CREATE}"
            return WriteDenied(why, (write.table for write in writes))
        case "ValidationException" | "SerializationException":
            problem = _twice(writes) if _SAME_ITEM in _message(error) else _message(error)
            return WriteInvalid(f"DynamoDB refuses the commit: {problem}")
        case code if writes and is_for_minutes(error):  # the run item was claimed: it is a table of the user's
            why = f"DynamoDB refuses the recorded writes: {code}: {_message(error)}"
            return WriteDenied(why, (write.table for write in writes))
        case code if writes and is_final(error):  # the run item was claimed: it is a table of the user's
            return WriteInvalid(f"DynamoDB refuses the recorded writes: {code}: {_message(error)}")
        case _:
            return error


def _reasons_of(error: botocore_errors.ClientError) -> list[Any]:
    reasons: list[Any] = error.response.get("CancellationReasons", [])
    return reasons


_KEYS = (str, int, float, Decimal, bytes, bytearray)
_SAME_ITEM = "multiple operations on one item"
_CREATE = "create it, or correct its name. Nothing was written"


def _tables(writes: Sequence[Write]) -> str:
    """Name the tables that the handler writes to."""
    names = [shown(name) for name in dict.fromkeys(write.table for write in writes)]
    return f"the table {names[0]}" if len(names) == 1 else f"one of the tables {', '.join(names)}"


def _twice(writes: Sequence[Write]) -> str:
    """Name the writes that are to one item. They are puts, or a step would have refused them with their key.

    Where no table is written to twice, one of them is to the run item, which the commit writes too.
    """
    times = Counter(write.table for write in writes)
    if not (often := [write for write in writes if times[write.table] > 1]):
        return f"a write to {_tables(writes)} is to the item of this very run; leave run items to flowguard"
    return f"two of its writes to {_tables(often)} are to one item{_key_of_two(often)}; record one with both"


def _key_of_two(writes: Sequence[Write]) -> str:
    """Name the key that two of the puts share: with its value where no other attribute is alike in both."""
    puts = [write for write in writes if isinstance(write, Put)]
    pairs = [(put.item, other.item) for put, other in combinations(puts, 2) if put.table == other.table]
    alike = [shared for item, other in pairs if (shared := _alike(item, other))]
    if len(alike) == 1 and len(alike[0]) == 1:
        return f", {shown(alike[0])}"
    names = sorted({name for shared in alike for name in shared})
    return f", whose key is among {', '.join(map(shown, names))}" if names else ""


def _alike(item: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that are equal in two items and may be a key."""
    return {name: value for name, value in item.items() if type(value) in _KEYS and other.get(name) == value}


def _message(error: botocore_errors.ClientError) -> str:
    return str(error.response.get("Error", {}).get("Message", ""))


def _reasons(reasons: Sequence[Any]) -> str:
    pairs = [(str(reason.get("Code", "None")), reason.get("Message", "")) for reason in reasons]
    return "; ".join(f"{code}: {text}" for code, text in pairs if code not in PASSING_REASONS)
