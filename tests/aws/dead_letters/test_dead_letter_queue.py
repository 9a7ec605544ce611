"""A queue of dead letters is read, and its letters are given back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError, NoRegionError

from flowguard.aws.clients import Clients
from flowguard.aws.dead_letter_queue import DeadLetterQueue, Reading, Unusable, explained
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
        assert open_.warnings == []
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
    assert open_.fell_short


def test_letters_that_come_round_again_end_the_reading(at: Scene) -> None:
    die(at)

    def visible_at_once(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "ReceiveMessage":
            params: Any = call.params
            params["VisibilityTimeout"] = 0
        return proceed()

    with intercept(visible_at_once), reading() as open_:
        assert [len(page) for page in open_.pages()] == [1]
    assert "longer --visibility" in open_.doubts[0]


def test_where_letters_cannot_be_deleted_it_is_the_reason_for_all_and_no_further_page_is_read(at: Scene) -> None:
    die(at, *(at.order(f"o{i}", request_id=f"r{i}") for i in range(23)))
    calls: list[str] = []

    def refuse_the_second(call: ApiCall, proceed: Proceed) -> Response:
        calls.extend([call.operation] if call.operation == "DeleteMessageBatch" else [])
        return denying("DeleteMessageBatch")(call, proceed) if len(calls) == 2 else proceed()

    with reading() as open_:
        letters = [letter for page in open_.pages() for letter in page]
        with intercept(refuse_the_second):
            failures = open_.delete(letters)
        assert (len(calls), len(failures)) == (2, 13), "those after it are not tried"
        assert set(failures) == {letter.message_id for letter in letters[10:]}
    with reading() as open_:
        pages = open_.pages()
        with intercept(denying("DeleteMessageBatch")):
            failures = open_.delete(next(pages))
        assert {text.partition(" (")[0] for text in failures.values()} == {"queue 'dead': DeleteMessageBatch is denied"}
        with pytest.raises(Unusable, match="DeleteMessageBatch is denied"):
            next(pages)
    with reading() as open_:
        assert sum(len(page) for page in open_.pages()) == 13


# -- what may not have been shown


def fifo(at: Scene, *groups: str) -> None:
    """Letters in a FIFO queue, of these groups."""
    sqs = at.aws.client("sqs")
    sqs.create_queue(QueueName="dead.fifo", Attributes={"FifoQueue": "true"})
    for number, group in enumerate(groups):
        sqs.send_message(
            QueueUrl=url(at, "dead.fifo"), MessageBody="x", MessageGroupId=group, MessageDeduplicationId=str(number)
        )


def read(queue: str = "dead", most: int = 10) -> Reading:
    with reading(queue) as open_:
        for _ in open_.pages(most):
            pass
        return open_


def test_letters_that_another_reader_holds_leave_a_doubt(at: Scene) -> None:
    die(at, *(at.order(f"o{i}", request_id=f"r{i}") for i in range(3)))
    at.aws.client("sqs").receive_message(QueueUrl=url(at, "dead"), MaxNumberOfMessages=2)
    open_ = read()
    assert (open_.queue.count, open_.queue.hidden, open_.unseen) == (1, 2, 2)
    assert open_.doubts == [
        "letters that were hidden when this began, as those that another reader holds: about 2; repeat this when they "
        "are visible again"
    ]


def test_a_letter_that_is_delayed_leaves_a_doubt(at: Scene) -> None:
    at.aws.client("sqs").send_message(QueueUrl=url(at, "dead"), MessageBody="x", DelaySeconds=60)
    assert read().doubts[0].startswith("letters that were hidden when this began")


def test_what_was_hidden_and_is_shown_meanwhile_leaves_the_doubt(at: Scene) -> None:
    """SQS's numbers are estimates: more may have been hidden than it said."""
    die(at, *(at.order(f"o{i}", request_id=f"r{i}") for i in range(2)))
    sqs = at.aws.client("sqs")
    [held] = sqs.receive_message(QueueUrl=url(at, "dead"))["Messages"]
    with reading() as open_:
        sqs.change_message_visibility(
            QueueUrl=url(at, "dead"), ReceiptHandle=held["ReceiptHandle"], VisibilityTimeout=0
        )
        assert sum(len(page) for page in open_.pages()) == 2
    assert (len(open_.doubts), open_.unseen) == (1, 0)


def test_fewer_letters_than_sqs_has_counted_leave_a_doubt(at: Scene) -> None:
    die(at, at.message())
    found = DeadLetterQueue.find(Clients(), "dead")
    assert found.count == 1
    before = replace(found, looked_up_at=found.looked_up_at - 60_000)
    with Reading(Clients(), before, wait=0) as open_:
        assert [len(page) for page in open_.pages()] == [1], "it arrived later, and is not the one that was counted"
    assert open_.doubts == [
        "letters that SQS counted at the beginning and did not show: about 1; repeat this in a minute"
    ]


def test_a_reading_that_is_not_at_its_end_has_no_doubt(at: Scene) -> None:
    die(at, *(at.order(f"o{i}", request_id=f"r{i}") for i in range(12)))
    at.aws.client("sqs").receive_message(QueueUrl=url(at, "dead"))
    with reading() as open_:
        next(open_.pages())
    assert open_.doubts == []


@pytest.mark.parametrize(
    ("of_the_group", "most", "is_short"), [(10, 10, False), (15, 10, True), (1, 1, False), (2, 1, True)]
)
def test_a_group_that_has_shown_as_many_as_were_asked_for_may_have_more(
    at: Scene, of_the_group: int, most: int, is_short: bool
) -> None:
    """It is a failure only where SQS has counted more."""
    fifo(at, *["a"] * of_the_group)
    open_ = read("dead.fifo", most)
    assert open_.full_groups == [
        f"a group of this FIFO queue has shown as many letters as were asked for at once ({most}); if it has more, "
        "they come when those are sent back or dropped"
    ]
    assert (open_.fell_short, [text[:29] for text in open_.doubts]) == (
        is_short,
        ["letters that SQS counted at t"] * is_short,
    )
    assert open_.warnings == [*open_.doubts, *open_.full_groups]


@pytest.mark.parametrize("groups", [["a"] * 9, [*"abcdefghij"]], ids=["nine", "ten groups"])
def test_letters_of_several_groups_or_fewer_than_ten_leave_no_doubt(at: Scene, groups: list[str]) -> None:
    fifo(at, *groups)
    assert read("dead.fifo").warnings == []


def test_ten_letters_of_one_tenant_are_all_that_a_standard_queue_shows(at: Scene) -> None:
    for _ in range(10):
        at.aws.client("sqs").send_message(QueueUrl=url(at, "dead"), MessageBody="x", MessageGroupId="a")
    assert read().warnings == []


def test_the_next_ones_of_a_group_can_be_asked_for_when_its_letters_are_deleted(at: Scene) -> None:
    fifo(at, *["a"] * 15)
    with reading("dead.fifo") as open_:
        for expected in (10, 5, 0):
            letters = [letter for page in open_.pages() for letter in page]
            assert (len(letters), bool(open_.doubts)) == (expected, expected == 10)
            open_.delete(letters)


def test_a_reading_that_holds_as_many_as_sqs_shows_is_in_doubt(at: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    die(at, *(at.order(f"o{i}", request_id=f"r{i}") for i in range(3)))
    monkeypatch.setattr("flowguard.aws.dead_letter_queue.MOST_IN_FLIGHT", 10_003)
    assert read().doubts[0].startswith("SQS shows no more than about 10,003 letters at once")


def test_the_next_reading_counts_on_what_this_one_has_seen_and_deleted(at: Scene) -> None:
    """SQS's own numbers take a minute to follow."""
    die(at, *(at.order(f"o{i}", request_id=f"r{i}") for i in range(3)))
    with reading() as open_:
        [letters] = open_.pages()
        open_.delete(letters[:1])
    assert (open_.rest.count, open_.rest.hidden) == (2, 0)
    with Reading(Clients(), open_.rest, wait=0) as again:
        assert [len(page) for page in again.pages()] == [2]
    assert again.doubts == []


@pytest.mark.parametrize(
    ("before", "after", "hidden"), [(0, 3, 0), (0, 0, 0), (2, 5, 2), (2, 0, 2), (0, 5, 2)],
    ids=["its own, still", "none", "its own and others'", "others', who are done", "others', who came meanwhile"],
)  # fmt: skip
def test_letters_that_a_look_has_given_back_are_not_taken_for_those_of_another_reader(
    at: Scene, before: int, after: int, hidden: int
) -> None:
    die(at, *(at.order(f"o{i}", request_id=f"r{i}") for i in range(3)))
    found = DeadLetterQueue.find(Clients(), "dead")
    with Reading(Clients(), replace(found, hidden=before), wait=0) as look:
        assert [len(page) for page in look.pages()] == [3]
    assert look.looked_up_again(replace(found, hidden=after)) == replace(found, hidden=hidden)


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
