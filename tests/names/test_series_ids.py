"""Request ids that say which place in a series a request has."""

from __future__ import annotations

import pytest

from flowguard.names.ids import RequestId
from flowguard.names.series_ids import comes_after, has_place, id_in_series, place_of_number, series_of

SERIES = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders:shardId-000000000000"


def of(digits: str, series: str = SERIES) -> RequestId:
    return RequestId(id_in_series(series, place_of_number(digits)))


def test_an_id_has_its_series_and_the_length_of_its_number() -> None:
    assert of("49590") == f"{SERIES};place=005.49590"


def test_the_series_of_an_id_is_told_and_one_of_none_has_none() -> None:
    assert series_of(of("49590")) == SERIES
    assert series_of("order;place=001.2") == ""


@pytest.mark.parametrize(("later", "earlier"), [("2", "1"), ("10", "9"), ("10", "1"), ("1" * 100, "9" * 99)])
def test_places_of_one_series_are_ordered_as_numbers_are(later: str, earlier: str) -> None:
    assert comes_after(of(later), of(earlier))
    assert not comes_after(of(earlier), of(later))
    assert not comes_after(of(later), of(later))


@pytest.mark.parametrize("other", [of("1", f"{SERIES}1"), SERIES, "", "order-1", ";place=000.0"])
def test_nothing_orders_requests_of_two_series_or_of_none(other: str) -> None:
    assert not comes_after(of("2"), RequestId(other))
    assert not comes_after(RequestId(other), of("2"))


@pytest.mark.parametrize("text", ["order-1", "order;place=001.2", ";place=001.2", SERIES, f"{SERIES};place=", "arn:"])
def test_an_id_that_somebody_chose_has_no_place(text: str) -> None:
    assert not has_place(RequestId(text))
    assert not comes_after(RequestId(text), RequestId(text))
    assert has_place(of("1"))


def test_the_last_mark_counts_for_a_series_may_have_one_in_a_name_of_yours() -> None:
    inner = "arn:aws:s3:::files/a;place=009.999999999"
    assert comes_after(of("2", inner), of("1", inner))
