"""What becomes of a call, in the words by which a sender judges it: code, HTTP status, and the fate of an entry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from botocore.exceptions import ClientError


class Simply(Enum):
    TAKEN = "taken"
    UNENCODABLE = "refused by botocore, which cannot write it as UTF-8"


@dataclass(frozen=True)
class Refused:
    """The call failed. ``reasons`` are those of a cancelled transaction."""

    code: str
    status: int = 400
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Failed:
    """The entry ``bad`` of a batch failed by the sender's fault, and the entry ``good`` was taken."""

    code: str


Outcome: TypeAlias = Simply | Refused | Failed


def outcome(call: Callable[[], Any]) -> Outcome:
    try:
        answer = call()
    except ClientError as error:
        response: Any = error.response
        reasons = tuple(reason["Code"] for reason in response.get("CancellationReasons", ()))
        return Refused(response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"], reasons)
    except UnicodeEncodeError:
        return Simply.UNENCODABLE
    return _failed_entry(answer) or Simply.TAKEN


def _failed_entry(answer: Any) -> Failed | None:
    if failed := answer.get("Failed"):
        [entry] = failed
        assert (entry["Id"], entry["SenderFault"]) == ("bad", True)
        assert [one["Id"] for one in answer["Successful"]] == ["good"]
        return Failed(entry["Code"])
    if answer.get("FailedEntryCount"):
        good, bad = answer["Entries"]
        assert (answer["FailedEntryCount"], "EventId" in good) == (1, True)
        return Failed(bad["ErrorCode"])
    return None
