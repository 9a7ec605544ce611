"""How long a record is left alone after what it needs has failed."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from flowguard.retry import LONGEST_VISIBILITY
from flowguard.testing import sqs_event
from flowguard.wire.envelope import Envelope, normalize
from flowguard.worker.patience import MANY_RECEIVES, delay, is_nearly_over, minutes, pause


class Highest(random.Random):
    """Draws nothing of the jitter: the pause is at its longest."""

    def random(self) -> float:
        return 0.0


class Lowest(random.Random):
    """Draws all of the jitter."""

    def random(self) -> float:
        return 1.0


@pytest.mark.parametrize("days", [1, 7, 14, 49])
def test_all_receives_last_most_of_the_time_for_which_the_queue_keeps_the_record_and_never_longer(days: int) -> None:
    kept_for = timedelta(days=days) * 2 / 7
    for seed in range(20):
        draw = random.Random(seed)
        pauses = [pause(receive, timedelta(days=days), draw) for receive in range(1, MANY_RECEIVES + 1)]
        assert 0.6 < sum(pauses) / kept_for.total_seconds() < 0.95


def test_pauses_grow_with_the_receives_up_to_a_share_of_the_retention() -> None:
    pauses = [pause(receive, timedelta(days=14), Highest()) for receive in (1, 2, 10, 20, 30, 40, 100, 100_000)]
    assert pauses == [10, 12, 52, 319, 1978, 4937, 4937, 4937]


def test_half_of_a_pause_is_drawn_so_that_records_of_one_outage_do_not_come_together() -> None:
    draw = random.Random(0)
    drawn = {pause(30, timedelta(days=14), draw) for _ in range(200)}
    assert min(drawn) >= 989
    assert len({seconds // 60 for seconds in drawn}) > 14, "spread over the minutes"


def test_no_pause_is_longer_than_sqs_can_hide_a_record_nor_none_at_all() -> None:
    assert pause(100, timedelta(days=1_000), Highest()) == LONGEST_VISIBILITY.total_seconds()
    assert pause(1, timedelta(seconds=1), Lowest()) == 1


def test_a_record_waits_a_fraction_of_the_outage_that_it_has_met() -> None:
    waited = 0
    for receive in range(1, 35):
        last = pause(receive, timedelta(days=14), Highest())
        waited += last
        assert last <= max(10, waited * 0.21 + 9)


@pytest.mark.parametrize(("receive", "longest"), [(1, 200), (3, 200), (17, 200), (18, 222), (30, 1978), (100, 4937)])
def test_what_passes_for_minutes_waits_for_some_and_then_as_long_as_anything_else(receive: int, longest: int) -> None:
    assert minutes(receive, timedelta(days=14), Highest()) == longest
    assert minutes(receive, timedelta(days=14), Lowest()) == pytest.approx(longest / 2, abs=1)


@pytest.mark.parametrize(
    ("waited", "seconds"),
    [(timedelta(0), 60), (timedelta(minutes=8), 60), (timedelta(minutes=40), 300), (timedelta(days=3), 900)],
)
def test_what_sqs_has_given_up_is_in_its_queue_again_after_a_share_of_what_has_passed_which_sqs_can_delay(
    waited: timedelta, seconds: int
) -> None:
    assert (delay(waited, Highest()), delay(waited, Lowest())) == (seconds, seconds / 2)


DAY = 86_400_000


@pytest.mark.parametrize(
    ("fifo", "age", "over"),
    [("", 12 * DAY - 1, False), ("", 12 * DAY, True), (".fifo", 4 * DAY - 1, False), (".fifo", 4 * DAY, True)],
)
def test_the_last_day_of_a_record_that_sqs_gave_up_is_known_by_its_age(fifo: str, age: int, over: bool) -> None:
    envelope = received(1, eventSourceARN=f"arn:aws:sqs:eu-west-1:123456789012:killed{fifo}")
    assert envelope.sent_at is not None
    assert is_nearly_over(envelope, timedelta(days=14), envelope.sent_at + age) is over


def test_a_record_that_does_not_say_when_it_was_sent_is_a_new_one() -> None:
    assert not is_nearly_over(received(1, attributes={}), timedelta(days=14), SENT)


def received(receives: int, **changes: object) -> Envelope:
    [record] = sqs_event("orders", {}, receive_count=receives)["Records"]
    [found] = normalize({"Records": [record | changes]})
    assert isinstance(found, Envelope)
    return found


SENT = 1_800_000_000_000
