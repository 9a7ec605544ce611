"""The end of a run, as those who are notified open it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowguard.codecs import Compressed, opened_end
from flowguard.errors import CannotOpen
from flowguard.names.ids import ObjectId, RequestId
from flowguard.payload.codec import END, About
from flowguard.protocol.callers import Caller, StoredEnd
from flowguard.protocol.run_orders import answer_of
from flowguard.wire.sealed_end import SealedEnd, _bytes_of, sealed_end
from flowguard.worker.replies import answer_place, end_body
from tests.codecs.test_reading import flow

CODEC = Compressed()
REQUEST = Caller(RequestId("r1"), 5, "sqs:replies")
SEALS, PLAIN = flow(CODEC), StoredEnd(RequestId("r1"), 5, "COMPLETED", '{"total":7}')


def body(end: StoredEnd = PLAIN, *, is_answer: bool = False) -> str:
    return end_body(SEALS, ObjectId("o1"), RequestId("r1"), end, is_answer=is_answer)


def test_a_notice_says_its_status_and_seals_the_rest() -> None:
    said = json.loads(body())
    assert said.keys() == {"flow", "object_id", "request_id", "status", "sealed"}
    opened = opened_end(CODEC, body())
    assert opened == {
        "flow": "orders",
        "object_id": "o1",
        "request_id": "r1",
        "status": "COMPLETED",
        "result": {"total": 7},
    }


def test_a_failure_says_no_error_unopened() -> None:
    failed = StoredEnd(RequestId("r1"), 5, "FAILED", None, "Reject: no")
    assert "Reject" not in body(failed)
    assert opened_end(CODEC, body(failed))["error"] == "Reject: no"


def test_an_answer_says_not_even_its_status_so_that_no_older_release_takes_it_for_an_empty_one() -> None:
    text = body(is_answer=True)
    assert json.loads(text).keys() == {"flow", "object_id", "request_id", "sealed"}
    with pytest.raises(ValueError, match="no end of a run"):
        answer_of(text)
    assert answer_of(SealedEnd.read(text).opened(CODEC)).text == '{"total":7}'


def test_the_place_of_an_answer_says_that_its_body_is_sealed() -> None:
    assert answer_place(SEALS, '{"name":"a"}', REQUEST)["flowguard"].value == '{"answer":{"name":"a"},"sealed":true}'
    assert answer_place(SEALS, None, REQUEST._replace(depth=3))["flowguard"].value == '{"depth":4}'


def test_an_end_that_is_not_sealed_is_returned_as_it_is() -> None:
    assert opened_end(CODEC, '{"status":"COMPLETED","result":1}') == {"status": "COMPLETED", "result": 1}
    with pytest.raises(ValueError, match="is no JSON object"):
        opened_end(CODEC, "[]")


@pytest.mark.parametrize(
    "text",
    ["[]", "{}", *(f'{{"flow":"a","object_id":"b","sealed":{text}}}' for text in ("1", '"%"', '"ü"'))],
)
def test_what_says_that_it_is_sealed_and_is_not_cannot_be_read(text: str) -> None:
    with pytest.raises(ValueError, match="says that its body is sealed"):
        SealedEnd.read(text)


def test_an_end_of_another_object_is_not_opened() -> None:
    other = body().replace('"object_id":"o1"', '"object_id":"o2"')
    with pytest.raises(CannotOpen):
        opened_end(CODEC, other)


def test_where_there_is_no_codec_an_end_is_not_opened() -> None:
    with pytest.raises(CannotOpen, match="it is of 'orders', which seals, and no codec is there to open it"):
        SealedEnd.read(body()).opened(None)


def test_what_was_sealed_and_is_no_end_is_refused() -> None:
    text = sealed_end(CODEC, "orders", "o1", {"flow": "orders", "object_id": "o1"}, "[]")
    with pytest.raises(CannotOpen, match="is no end of a run"):
        opened_end(CODEC, text)
    assert About("orders", "o1", END).kind == "end"


def test_a_text_that_is_none_is_a_mistake_of_ours() -> None:
    nothing: Any = None
    with pytest.raises(TypeError):
        _bytes_of(nothing)
