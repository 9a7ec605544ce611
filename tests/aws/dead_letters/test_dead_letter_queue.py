"""A queue of dead letters is read, and its letters are given back."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError, NoRegionError

from flowguard.aws.clients import Clients
from flowguard.aws.dead_letter_queue import DeadLetterQueue, Unusable, explained
from flowguard.clock import ManualClock
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from tests.aws.dead_letters.letters import (
    arn,
    denying,
    die,
    reading,
    url,
)
from tests.scene import Scene, scene


def test_looking_at_the_letters_consumes_none_and_leaves_none_hidden(at: Scene) -> None:
    die(at, *(at.order(f"o{i}", request_id=f"r{i}") for i in range(23)))
    for count in (1, 2):
        with reading() as open_:
            letters = [letter for page in open_.pages() for letter in page]
        assert len({letter.message_id for letter in letters}) == len(letters) == 23
        assert {letter.receive_count for letter in letters} == {count}, "SQS counts whoever looks"


def test_the_letters_are_given_back_where_the_reader_fails(at: Scene) -> None:
    die(at)

    def read_and_fail() -> None:
        with reading() as open_:
            next(open_.pages())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_and_fail()
    assert len(at.sent("dead")) == 1


def test_a_reader_that_may_not_give_back_says_how_long_the_letters_stay_hidden(at: Scene) -> None:
    die(at)
    with intercept(denying("ChangeMessageVisibilityBatch")), reading() as open_:
        assert [len(page) for page in open_.pages()] == [1]
    assert open_.warnings[0].startswith("letters stay hidden for up to 300 s: ")


def test_letters_that_come_round_again_end_the_reading(at: Scene) -> None:
    die(at)

    def visible_at_once(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "ReceiveMessage":
            params: Any = call.params
            params["VisibilityTimeout"] = 0
        return proceed()

    with intercept(visible_at_once), reading() as open_:
        assert [len(page) for page in open_.pages()] == [1]
    assert "longer --visibility" in open_.warnings[0]


def test_a_queue_is_found_by_name_url_and_arn(at: Scene) -> None:
    die(at)
    for name in ("dead", url(at, "dead"), arn("dead")):
        found = DeadLetterQueue.find(Clients(), name)
        assert (found.url, found.arn, found.count) == (url(at, "dead"), arn("dead"), 1)


@pytest.mark.parametrize(
    ("date", "own", "found"),
    [
        ("Mon, 01 Jan 2024 00:00:10 GMT", 1_704_067_210_250, 1_704_067_210_250),
        ("Mon, 01 Jan 2024 00:00:10 GMT", 1_704_067_212_000, 1_704_067_212_000),
        ("Mon, 01 Jan 2024 00:00:10 GMT", 1_704_067_212_001, 1_704_067_210_999),
        ("Mon, 01 Jan 2024 00:00:10 GMT", 1_704_063_600_000, 1_704_067_210_999),
        ("soon", 1_704_067_212_001, 1_704_067_212_001),
        (None, 1_704_067_212_001, 1_704_067_212_001),
    ],
)
def test_a_queue_is_looked_up_by_its_own_clock_where_this_machines_is_wrong(
    at: Scene, date: str | None, own: int, found: int
) -> None:
    def dated(call: ApiCall, proceed: Proceed) -> Response:
        answer = dict(proceed())
        answer["ResponseMetadata"] = {"HTTPHeaders": {} if date is None else {"date": date}}
        return answer

    with intercept(dated):
        assert DeadLetterQueue.find(Clients(), "dead", ManualClock(own)).looked_up_at == found


# -- what goes wrong


def test_a_missing_queue_is_named() -> None:
    with scene(), pytest.raises(Unusable, match=r"queue 'nope': does not exist; check its name"):
        DeadLetterQueue.find(Clients(), "nope")


def test_denied_access_names_the_action_to_allow(at: Scene) -> None:
    with intercept(denying("GetQueueAttributes")), pytest.raises(Unusable, match=r"allow it .*: GetQueueAttributes"):
        DeadLetterQueue.find(Clients(), "dead")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (NoRegionError(), "x: no region is known; give --region, or set AWS_DEFAULT_REGION"),
        (NoCredentialsError(), "x: there are no credentials; sign in, or choose a profile with AWS_PROFILE"),
        (EndpointConnectionError(endpoint_url="http://h"), "is --endpoint-url right, and can it be reached?"),
        (ClientError({"Error": {"Code": "ExpiredToken"}}, "X"), "x: the credentials are not accepted (ExpiredToken)"),
        (
            ClientError({"Error": {"Code": "RequestTimeTooSkewed"}}, "X"),
            "sign in again, and check this machine's clock",
        ),
        (ClientError({"Error": {"Code": "Odd", "Message": "so"}}, "X"), "x: Odd: so"),
    ],
)
def test_every_error_of_aws_says_what_to_put_right(error: Exception, told: str) -> None:
    with pytest.raises(Unusable) as caught, explained("x"):
        raise error
    assert told in str(caught.value)
