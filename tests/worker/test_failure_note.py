"""The failure that an ``on_failed`` stage gets: what is told of the hop, its message and what it did early."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from flowguard.errors import TextGone
from flowguard.failed import LONGEST_PAYLOAD
from flowguard.names.ids import ObjectId, Owner, RequestId
from flowguard.payload.results import to_text
from flowguard.protocol.memo import Memo
from flowguard.protocol.run import RunItem, Status
from flowguard.wire.message import ErrorNote, Message
from flowguard.worker.failure_note import failure_of

RUN = RequestId("run-1")
NOTE = ErrorNote("RuntimeError", "gateway down", 1_800_000_000_123)
FIRST = ErrorNote("TimeoutError", "too slow", 1_800_000_000_000)
MESSAGE = Message("orders", "price", 1, ObjectId("o1"), RUN, 1_000, '{"order_id":"o1"}', hop=2, retry=3)
ITEM = RunItem(RUN, 1_000, 1, Status.RUNNING, "price", 2, 3, 0, 7, Owner("w"), 0, done=False, committed_at=900)


def gone() -> str:
    raise TextGone("texts", "memo-1", "NoSuchKey")


def failure(error: BaseException | None = None, *, memo: Memo | None = None, **changes: Any) -> Any:
    return failure_of(
        MESSAGE._replace(**changes), ITEM._replace(memo=memo), NOTE, error or RuntimeError("gateway down")
    )


def memo(run: str = "run-1", hop: int = 2, **results: Callable[[], str]) -> Memo:
    return Memo(RequestId(run), hop, results or {"charge": lambda: "7"}, 10)


def test_it_says_what_has_failed_where_when_and_after_how_many_attempts() -> None:
    found = failure()
    assert (found.type, found.text) == ("RuntimeError", "gateway down")
    assert (found.stage, found.hop, found.attempts) == ("price", 2, 4)
    assert found.at == datetime(2027, 1, 15, 8, 0, 0, 123_000, tzinfo=UTC)


def test_it_says_how_it_began_where_that_was_another_error() -> None:
    assert failure(first_error=FIRST).first_error == "TimeoutError: too slow"
    assert failure().first_error == "RuntimeError: gateway down"


def test_it_says_the_cause_where_there_is_one() -> None:
    error = RuntimeError("gateway down")
    assert failure(error).cause is None
    error.__cause__ = ConnectionError("refused")
    assert failure(error).cause == "ConnectionError: refused"


@pytest.mark.parametrize(
    ("changes", "payload"),
    [
        ({}, '{"order_id":"o1"}'),
        ({"resumed": True}, None),
        ({"body": "x" * LONGEST_PAYLOAD}, "x" * LONGEST_PAYLOAD),
        ({"body": "x" * (LONGEST_PAYLOAD + 1)}, None),
        ({"body": "é" * LONGEST_PAYLOAD}, None),
        ({"body": "\ud800"}, None),
    ],
    ids=["as it came", "after a wait", "at the limit", "beyond it", "beyond it in bytes", "half a surrogate pair"],
)
def test_it_brings_the_payload_where_that_is_one_and_short_enough(changes: dict[str, Any], payload: str | None) -> None:
    assert failure(**changes).payload == payload


def test_it_brings_what_this_very_hop_did_early_and_nothing_of_another() -> None:
    assert failure(memo=memo()).remembered == {"charge": "7"}
    for other in (None, memo("run-0"), memo(hop=1)):
        assert failure(memo=other).remembered == {}


def test_a_result_that_is_gone_is_none_and_one_that_cannot_be_read_now_is_no_reason_to_go_on_without_it() -> None:
    assert failure(memo=memo(charge=gone, mail=lambda: "null")).remembered == {"charge": None, "mail": "null"}

    def down() -> str:
        raise ConnectionError("no way")

    with pytest.raises(ConnectionError, match="no way"):
        failure(memo=memo(charge=down))


def test_what_was_remembered_without_a_type_is_json_that_anybody_reads() -> None:
    made = memo(made=lambda: to_text({"paid": Decimal("1.10")}), plain=lambda: '{"a":1}')
    assert failure(memo=made).remembered == {"made": '{"paid":"1.10"}', "plain": '{"a":1}'}


def test_what_was_remembered_with_half_a_surrogate_pair_is_told_as_it_stands_there() -> None:
    """It could not be written anew."""
    text, priced = to_text("\ud83d"), to_text({"name": "\ud83d", "paid": Decimal("1.10")})
    remembered = failure(memo=memo(named=lambda: text, priced=lambda: priced)).remembered
    assert remembered == {"named": text, "priced": priced}
