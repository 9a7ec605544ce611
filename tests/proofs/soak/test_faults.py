"""The soak's faults: the same for the same seed, and each as AWS would have it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError, ReadTimeoutError

from flowguard.aws.clients import Clients
from flowguard.events import Event, EventType
from flowguard.sim.calls import ApiCall, Response
from tests.proofs.soak.chronicle import Chronicle
from tests.proofs.soak.faults import Faults
from tests.proofs.soak.journal import Journal, read_journal
from tests.proofs.soak.sandbox import Sandbox


@pytest.fixture(scope="module")
def clients() -> Clients:
    return Sandbox("http://127.0.0.1:1", "http://127.0.0.1:1").clients


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal", "w1")


def delivery(request_id: str, receives: int = 1) -> dict[str, Any]:
    said = {"uniquerequestid": {"stringValue": request_id}, "flowguard": {"stringValue": '{"hop":1}'}}
    return {"messageAttributes": said, "attributes": {"ApproximateReceiveCount": str(receives)}}


def claim(client: BaseClient, request_id: str) -> ApiCall:
    return ApiCall(
        "dynamodb", "UpdateItem", {"ExpressionAttributeValues": {":request_id": {"S": request_id}}}, 1, client
    )


def batch(client: BaseClient, *request_ids: str) -> ApiCall:
    entries = [
        {"Id": str(place), "MessageAttributes": {"uniquerequestid": {"StringValue": request_id}}}
        for place, request_id in enumerate(request_ids)
    ]
    return ApiCall("sqs", "SendMessageBatch", {"Entries": entries}, 1, client)


def fates(faults: Faults, client: BaseClient, receives: int = 1) -> list[str]:
    """What becomes of a claim for each of five hundred requests, each delivered alone."""
    found = []
    for number in range(500):
        faults.begin([delivery(f"r{number}", receives)])
        try:
            faults(claim(client, f"r{number}"), lambda: {})
        except ClientError as error:
            found.append(error.response["Error"]["Code"])
        except ReadTimeoutError:
            found.append("lost")
        else:
            found.append("")
    return found


def test_the_same_seed_brings_the_same_faults_and_another_delivery_others(clients: Clients, journal: Journal) -> None:
    def of(seed: int, receives: int = 1) -> list[str]:
        return fates(Faults(0.1, 0.1, seed, journal), clients.dynamodb, receives)

    assert of(1) == of(1)
    assert of(1) != of(2)
    assert of(1) != of(1, receives=2)


def test_throttling_comes_in_bursts_and_as_often_as_asked(clients: Clients, journal: Journal) -> None:
    found = fates(Faults(0.1, 0, 1, journal), clients.dynamodb)
    refused = [bool(fate) for fate in found]
    starts = sum(now and not before for before, now in zip([False, *refused], refused, strict=False))
    assert 25 <= sum(refused) <= 100
    assert sum(refused) > 1.5 * starts
    assert len(Counter(found)) == 4, "three codes, and none"


def test_a_lost_answer_is_that_of_a_call_that_was_made(clients: Clients, journal: Journal, tmp_path: Path) -> None:
    made: list[int] = []

    def proceed() -> Response:
        made.append(1)
        return {"made": len(made)}

    faults = Faults(0, 1, 1, journal)
    ends = Counter[str]()
    for number in range(20):
        made.clear()
        faults.begin([delivery(f"r{number}")])
        try:
            answer = faults(claim(clients.dynamodb, f"r{number}"), proceed)
        except ReadTimeoutError:
            ends["lost"] += len(made)
        else:
            assert answer == {"made": 2}, "what botocore's second try was told"
            ends["repeated"] += len(made) // 2
    assert ends["lost"] + ends["repeated"] == 20
    assert set(ends) == {"lost", "repeated"}
    assert Chronicle.of(read_journal(tmp_path / "journal")).faults.total() == ends["lost"]


def test_of_a_batch_that_is_taken_in_part_the_rest_is_not_sent_and_is_named(clients: Clients, journal: Journal) -> None:
    faults = Faults(3, 0, 1, journal)  # a burst begins with each call that no other burst meets
    for number in range(20):
        call = batch(clients.sqs, "a", "b", "c", "d")
        faults.begin([delivery(f"r{number}")])
        try:
            answer = faults(call, lambda: {"Successful": []})
        except ClientError:
            continue
        failed = {entry["Id"] for entry in answer["Failed"]}
        assert failed
        assert failed | {entry["Id"] for entry in call.params["Entries"]} == {"0", "1", "2", "3"}
        assert not failed & {entry["Id"] for entry in call.params["Entries"]}
        return
    pytest.fail("no batch was taken in part")


def test_a_letter_of_no_run_that_could_not_be_parked_is_no_fault_of_a_request(journal: Journal, tmp_path: Path) -> None:
    journal.happened(Event(EventType.NOT_SENT, None, {"kind": "DEAD", "why": "refused"}))
    journal.write("not_sent", request_id="r1")
    assert Chronicle.of(read_journal(tmp_path / "journal")).faults == {"r1": 1}


def echo(call: ApiCall) -> Callable[[], Response]:
    """Answers each statement that is left with itself."""
    return lambda: {"Responses": list(call.params["Statements"])}


def test_of_shared_calls_some_are_refused_alone_and_each_answer_stays_with_its_statement(
    clients: Clients, journal: Journal
) -> None:
    faults = Faults(3, 0, 1, journal)
    for number in range(20):
        faults.begin([delivery(f"r{number}")])
        said = [{"Statement": "UPDATE", "Parameters": [{"S": name}, {"BOOL": True}]} for name in (f"r{number}", *"bcd")]
        call = ApiCall("dynamodb", "BatchExecuteStatement", {"Statements": list(said)}, 1, clients.dynamodb)
        try:
            answer = faults(call, echo(call))
        except ClientError:
            continue
        shared = [place for place, one in enumerate(answer["Responses"]) if "Error" not in one]
        assert len(answer["Responses"]) == 4 > len(shared)
        assert [answer["Responses"][place] for place in shared] == [said[place] for place in shared]
        return
    pytest.fail("no statement was refused alone")
