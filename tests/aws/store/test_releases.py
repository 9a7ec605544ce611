"""A release after a failed attempt: what it changes, and whose it is."""

from __future__ import annotations

from flowguard.aws.store import DynamoDBStore
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.run import Refused
from flowguard.protocol.verdicts import Verdict
from tests.aws.states import NOW, request
from tests.aws.store.run import claimed, stored


def test_a_release_ends_the_lease_and_counts_the_attempt(store: DynamoDBStore) -> None:
    claim = claimed(store)
    store.release(claim, NOW + 5, failed=True)
    item = stored(store)
    assert (item.retry, item.lease_until, item.done, item.epoch) == (1, NOW + 5, False, 1)
    assert claimed(store, attempt=(0, 1), owner="next", now=NOW + 5).item.epoch == 2


def test_a_release_of_what_never_failed_counts_no_attempt(store: DynamoDBStore) -> None:
    store.release(claimed(store, attempt=(0, 2)), NOW + 5, failed=False)
    assert (stored(store).retry, stored(store).lease_until) == (2, NOW + 5)


def test_a_released_run_still_keeps_its_object_from_others(store: DynamoDBStore) -> None:
    store.release(claimed(store, policy=OnConflict.IGNORE), NOW + 5, failed=True)
    refused = store.claim(request((501, "request-n"), policy=OnConflict.IGNORE, now=NOW + 10))
    assert isinstance(refused, Refused)
    assert refused.verdict is Verdict.IGNORED


def test_a_release_of_another_workers_hop_writes_nothing(store: DynamoDBStore) -> None:
    old = claimed(store)
    new = claimed(store, (501, "request-n"))
    store.release(old, NOW, failed=True)
    assert stored(store) == new.item
