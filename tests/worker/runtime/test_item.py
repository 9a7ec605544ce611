"""What stands in the run item over time."""

from __future__ import annotations

from datetime import timedelta

from tests.scene import START, Scene
from tests.worker.runtime.mishaps import boom


def test_an_item_outlives_the_last_copy_of_its_messages(at: Scene) -> None:
    at.deliver(at.message())
    item = at.item()
    assert item is not None
    assert item.ttl >= (item.committed_at + 2 * timedelta(days=14) // timedelta(milliseconds=1)) // 1000


def test_a_commit_never_lies_before_the_one_that_went_before_whatever_the_clock_says(at: Scene) -> None:
    at.deliver(at.message())
    at.clock.advance(seconds=-3600)
    at.deliver(at.second())
    item = at.item()
    assert item is not None
    assert item.committed_at == START + 1


def test_the_stages_passed_keep_their_request_id_until_the_run_is_complete(at: Scene) -> None:
    at.deliver(at.message())
    at.script.closing = boom
    at.deliver(at.second())
    item = at.item()
    assert item is not None
    assert item.stages == {"price-order": "run-1", "close-order": "run-1"}
    at.script.closing = lambda step: None
    at.deliver(at.second()._replace(retry=1))
    item = at.item()
    assert item is not None
    assert item.stages == {}
