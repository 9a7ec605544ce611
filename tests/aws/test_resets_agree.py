"""The condition of a reset and its decision agree in every small state, and each part of the condition counts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from flowguard.aws import expressions
from flowguard.aws.clients import Clients
from flowguard.aws.items import number, read_item, record_item, run_key
from flowguard.aws.services import aws_store
from flowguard.aws.store import DynamoDBStore
from flowguard.names.ids import ObjectId, RequestId
from flowguard.protocol.claims import can_be_reset
from flowguard.protocol.run import Cancellation, ResetOnce, RunItem
from flowguard.settings import Settings
from tests.aws.engines import EVERY_STATE, on_memory
from tests.aws.states import NOW, STATES, STORED, failed, item

OBJECT = ObjectId("object")


def states() -> Iterator[dict[str, Any] | None]:
    yield None
    for state in STATES:
        for by in (None, "reset-1", "reset-2"):
            came = {} if by is None else {"reset_by": {"S": by}, "reset_at": number(NOW)}
            yield {**item(2, state, (0, 0), "alive", "other"), **came}
    for run, undone in product(
        (STORED, *((time, STORED[1]) for time in (499, 501)), (STORED[0], "other")), (False, True)
    ):
        yield {**item(2, "failed" if undone else "running", (0, 0), "alive", "other"), **failed(run, 1, undone)}
    for (name, own), at in product((("its own", STORED[1]), ("another's", "other")), (499, 500, 501)):
        note = record_item(Cancellation(RequestId(own), at, name))
        found = {**item(2, "running", (0, 0), "alive", "other"), "cancelled": note}
        yield found
        yield {**found, "reset_at": number(500)}


def resets(store: DynamoDBStore, clients: Clients, found: dict[str, Any] | None, at: int) -> bool:
    """Whether the reset changes the item, as the database has it."""
    clients.dynamodb.delete_item(TableName="flowguard", Key=run_key("flow", OBJECT))
    if found is not None:
        clients.dynamodb.put_item(TableName="flowguard", Item=found)
    before = store.read("flow", OBJECT)
    answer = store.callers.reset("flow", OBJECT, "reset-1", at, NOW)
    after = store.read("flow", OBJECT)
    changed = before != after
    assert (answer is not None) == (changed or _came_before(after)), "the answer says whether it stands"
    if changed and before is not None:
        assert after is not None
        fenced = (before.epoch + 1, "reset-1", NOW, at, "reset-1")
        assert (after.epoch, after.owner, after.lease_until, after.reset_at, after.reset_by) == fenced
    return changed


def _came_before(found: RunItem | None) -> bool:
    return found is not None and found.reset_by == "reset-1"


def disagreements(clients: Clients) -> list[str]:
    store = aws_store(Settings(), clients)
    return [
        f"{found} at {at}"
        for found in states()
        for at in (STORED[0] - 1, STORED[0], STORED[0] + 1)
        if resets(store, clients, found, at) != can_be_reset(read_item(found) if found else None, "reset-1", at)
    ]


@pytest.mark.parametrize("clients", EVERY_STATE, indirect=True)
def test_the_database_and_the_decision_agree_on_every_reset(clients: Clients) -> None:
    assert disagreements(clients) == []


@pytest.mark.parametrize(("latest", "is_reset"), [(None, True), (STORED[0], True), (STORED[0] - 1, False)])
def test_a_run_that_was_asked_for_after_the_latest_moment_is_as_good_as_reset(
    latest: int | None, is_reset: bool
) -> None:
    with on_memory() as clients:
        clients.dynamodb.put_item(TableName="flowguard", Item=item(2, "running", (0, 0), "alive", "other"))
        answer = aws_store(Settings(), clients).callers.reset(
            "flow", OBJECT, "reset-1", NOW, NOW, None if latest is None else ResetOnce(latest, NOW)
        )
        assert (answer is not None) is is_reset
        assert answer is None or answer.reset_at == NOW


ALWAYS = "attribute_exists(pk)"


@pytest.mark.parametrize(
    ("part", "instead"),
    [
        ("#status <> :failed", f"(#status <> :failed OR {ALWAYS})"),
        ("requested_at <= :latest", f"(requested_at <= :latest OR {ALWAYS})"),
        ("requested_at <= :latest", "requested_at < :latest"),
        ("reset_by <> :by", f"(reset_by <> :by OR {ALWAYS})"),
        ("cancelled.#at >= reset_at", "cancelled.#at > reset_at"),
        ("cancelled.#at >= reset_at", "#at = :at"),
        ("cancelled.request_id = request_id", ALWAYS),
        ("cancelled.#at >= requested_at", f"({ALWAYS} OR #at = :at)"),
        ("cancelled.#at >= requested_at", "cancelled.#at > requested_at"),
        ("failed.request_id = request_id", ALWAYS),
        ("failed.requested_at = requested_at", ALWAYS),
        (" AND NOT (failed.request_id = request_id AND failed.requested_at = requested_at)", ""),
    ],
)
def test_without_one_part_of_the_condition_some_reset_is_wrong(
    part: str, instead: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert part in expressions.CAN_RESET
    monkeypatch.setattr(expressions, "CAN_RESET", expressions.CAN_RESET.replace(part, instead))
    with on_memory() as clients:
        assert disagreements(clients)
