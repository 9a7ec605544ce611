"""Hostile texts and numbers in the store: refused by name before anything is written, or read back as they were."""

from __future__ import annotations

import random
from typing import Any

import pytest

from flowguard.aws.clients import Clients
from flowguard.aws.commit_texts import CommitTexts
from flowguard.aws.items import run_key
from flowguard.aws.packing import Packing
from flowguard.aws.store import DynamoDBStore
from flowguard.destinations import Function, Queue
from flowguard.errors import Reject, RunFailed, WriteInvalid
from flowguard.items.writes import Condition, Put, Update, Write
from flowguard.names.ids import ObjectId, RequestId
from flowguard.payload.encoding import encode_json
from flowguard.protocol.outbox import Kind, Outbox, Send
from flowguard.protocol.run import Claim, ClaimRequest, Committed, Status
from flowguard.sim.calls import Recorder, intercept
from flowguard.testing import hostile
from flowguard.wire.attributes import Attribute
from flowguard.wire.message import ErrorNote
from tests.aws.engines import on_dynamodb_local
from tests.aws.states import NOW, STORED
from tests.aws.states import request as claim_request
from tests.aws.store.run import cart, claimed, commit, counted, stored


@pytest.fixture
def names(request: pytest.FixtureRequest) -> list[str]:
    """All on DynamoDB Local and in memory. moto is slow, and judges no better: every seventh."""
    return list(hostile.IDS)[:: 7 if "moto" in request.node.name else 1]


def asked(**fields: Any) -> ClaimRequest:
    made = claim_request(STORED)
    return made._replace(message=made.message._replace(**fields))


def count(clients: Clients) -> int:
    return int(clients.dynamodb.scan(TableName="flowguard", Select="COUNT")["Count"])


def claim_or_none(store: DynamoDBStore, wanted: ClaimRequest) -> Claim | None:
    """The claim; None where it is refused by name."""
    try:
        found = store.claim(wanted)
    except RunFailed:
        return None
    assert isinstance(found, Claim)
    return found


def test_an_id_is_refused_by_name_or_read_back_as_it_was(
    clients: Clients, store: DynamoDBStore, names: list[str]
) -> None:
    taken = []
    for name in names:
        text = hostile.IDS[name]
        stage = text if len(text.encode("utf-8", "replace")) <= 255 else "stage"
        ids = {"request_id": RequestId(text), "object_id": ObjectId(text)}
        first = claim_or_none(store, asked(**ids, stage=stage))
        if first is not None:
            taken.append(name)
            assert store.commit(first, commit()) == Committed(), name
            item = store.read("flow", text)
            assert item is not None, name
            assert (item.request_id, item.stages) == (text, {stage: text}), name
    assert len(taken) > len(names) * 0.7
    assert count(clients) == len(taken), "nothing was written for what was refused"
    assert {"1,025 bytes", "empty", "the first half of a surrogate pair"}.isdisjoint(taken)


@pytest.mark.parametrize(
    ("field", "said"), [("request_id", "request id"), ("object_id", "object id"), ("stage", "stage's name")]
)
def test_each_text_of_a_message_is_refused_by_its_own_name(memory: DynamoDBStore, field: str, said: str) -> None:
    for hop in (1, 2):
        for text in ("", "\ud800", "i" * 1_025):
            with pytest.raises(RunFailed, match=f"the message can have no run: its {said} (is empty|has )"):
                memory.claim(asked(hop=hop, **{field: text}))


def test_a_stage_that_no_expression_can_name_is_refused_and_one_byte_less_is_not(
    clients: Clients, store: DynamoDBStore
) -> None:
    with pytest.raises(RunFailed, match="its stage's name has 256 bytes of at most 255"):
        store.claim(asked(hop=2, stage="s" * 256))
    store.commit(claimed(store), commit())
    onward = claim_or_none(store, asked(hop=2, stage="s" * 255))
    assert onward is not None
    assert store.commit(onward, commit()) == Committed()


def test_a_number_is_refused_by_name_or_read_back_as_it_was(clients: Clients, store: DynamoDBStore) -> None:
    refused = 0
    for number, name in enumerate(hostile.TIMES):
        for field in ("version", "retry", "redrive", "requested_at"):
            wanted = asked(object_id=ObjectId(f"{field}-{number}"), **{field: hostile.TIMES[name]})
            claim = claim_or_none(store, wanted)
            item = store.read("flow", wanted.message.object_id)
            assert (claim is None) is (item is None)
            assert item is None or getattr(item, field) == hostile.TIMES[name], name
            refused += claim is None
    assert refused == 4, "401 digits, in each field"
    with pytest.raises(RunFailed, match="its hop has more than the 38 digits"):
        store.claim(asked(hop=hostile.TIMES["401 digits"]))


# -- a commit's texts, in each form of theirs --------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["inside", "outside"])
def test_what_a_commit_says_is_read_back_as_it_was(with_s3: Clients, form: str) -> None:
    """Inside the item short texts stand as S and long ones as B; outside it holds M, which points to S3."""
    _says_and_reads(DynamoDBStore(with_s3.dynamodb, "flowguard", _packing(with_s3, form)), every=3)


def test_what_a_commit_says_is_read_back_from_dynamodb_local(dynamodb_local_url: str) -> None:
    clients = on_dynamodb_local(dynamodb_local_url)
    _says_and_reads(DynamoDBStore(clients.dynamodb, "flowguard", _packing(clients, "inside")), every=1)


def _packing(clients: Clients, form: str) -> Packing:
    return Packing(lambda: clients.s3, "long-texts" if form == "outside" else None, 0 if form == "outside" else 32_768)


def _says_and_reads(store: DynamoDBStore, *, every: int) -> None:
    for place, name in enumerate(list(hostile.TEXTS)[::every]):
        text = hostile.TEXTS[name]
        note = ErrorNote.of(ValueError(text), NOW).because("attempt 3 of 3")
        attributes = {"a": Attribute.string(text), "b": Attribute("Binary", "AA==")}
        sends = (
            Send(Kind.SIDE, Queue("q"), text, text, attributes, 1, text),
            Send(Kind.SIDE, Function("f"), text, "o", attributes),
        )
        object_id = ObjectId(f"o{place}")
        claim = store.claim(asked(object_id=object_id, request_id=RequestId(f"r{place}")))
        assert isinstance(claim, Claim)
        told = encode_json(text) if text.isprintable() or text.isascii() else encode_json(ascii(text))
        outbox = Outbox(claim.item.request_id, NOW, sends)
        assert (
            store.commit(claim, commit(status=Status.FAILED, outbox=outbox, state=None, error=note, result=told))
            == Committed()
        ), name
        item = store.read("flow", object_id)
        assert item is not None
        assert item.outbox is not None
        assert (item.error, item.result, item.outbox.sends) == (str(note), told, sends), name


def test_a_text_outside_the_item_has_a_key_that_s3_takes(with_s3: Clients) -> None:
    """A key of S3 has at most 1,024 bytes, and an id of as many may take three times that where it is quoted."""
    store = DynamoDBStore(with_s3.dynamodb, "flowguard", _packing(with_s3, "outside"))
    keys: set[str] = set()
    for text in ("/" * 1_024, "é" * 512, "/" * 1_023 + "a"):
        claim = store.claim(asked(request_id=RequestId(text), object_id=ObjectId(text)))
        assert isinstance(claim, Claim)
        with intercept(Recorder()) as calls:
            store.commit(claim, commit(state=hostile.noise(1_000)))
        keys.update(call.params["Key"] for call in calls.calls if call.operation == "PutObject")
        item = store.read("flow", text)
        assert item is not None
        assert item.state == hostile.noise(1_000)
    assert max(len(key.encode()) for key in keys) <= 1_024
    assert len(keys) == 6, "an outbox and a state of each"


# -- a run always ends -------------------------------------------------------------------------------------------------


@pytest.mark.slow("fills an item on an engine")
def test_a_run_whose_state_fills_the_item_can_still_end_failed(dynamodb_local_url: str) -> None:
    """What a successful commit leaves free is there for the error of the hop after it."""
    clients = on_dynamodb_local(dynamodb_local_url)
    store = DynamoDBStore(clients.dynamodb, "flowguard", _packing(clients, "inside"))
    draw = random.Random(1)
    state = "".join(map(chr, draw.choices(range(0x4E00, 0x9FFF), k=200_000)))
    claim = claimed(store)
    low, high = 100_000, 200_000
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _fits(clients, claim, state[:middle]) else (low, middle)
    assert store.commit(claim, commit(outbox=None, state=state[:low])) == Committed()
    onward = store.claim(asked(hop=2, stage="s" * 64))
    assert isinstance(onward, Claim)
    note = ErrorNote.storable("é" * 100, "".join(map(chr, draw.choices(range(0x1F000, 0x1FFA0), k=500))), NOW)
    ended = commit(status=Status.FAILED, outbox=None, state=None, error=note)
    assert store.commit(onward, ended) == Committed()
    assert (stored(store).error, stored(store).state) == (str(note), state[:low])


def _fits(clients: Clients, claim: Claim, state: str) -> bool:
    try:
        key = run_key(claim.message.flow, claim.message.object_id)
        CommitTexts(_packing(clients, "inside"), "").pack(claim, commit(outbox=None, state=state), key)
    except Reject:
        return False
    return True


# -- recorded writes ---------------------------------------------------------------------------------------------------


def _values() -> dict[str, Any]:
    numbers = {name: hostile.NUMBERS[name] for name in hostile.NUMBERS}
    structures = {name: hostile.STRUCTURES[name] for name in hostile.STRUCTURES}
    return {**numbers, **structures, **{name: hostile.UNSENDABLE[name] for name in hostile.UNSENDABLE}}


REFUSED = {
    "infinity",
    "negative infinity",
    "not a number",
    "a Decimal that signals",
    "an infinite Decimal",
    "39 digits",
    "401 digits",
    "the largest float",
    "a set with half a surrogate pair",
    "a set with a number too long",
    "100,000 levels",
    "a list that contains itself",
    "300 halves of a surrogate pair",
}


def test_a_recorded_value_is_written_or_refused_by_name_with_its_whole_commit(
    clients: Clients, store: DynamoDBStore, request: pytest.FixtureRequest
) -> None:
    refused = set()
    for place, (name, value) in enumerate(_values().items()):
        if "moto" in request.node.name and name not in REFUSED:
            continue  # it fails by mistakes of its own for some that DynamoDB takes
        claim = store.claim(asked(object_id=ObjectId(f"o{place}"), request_id=RequestId(f"r{place}")))
        assert isinstance(claim, Claim)
        try:
            answer = store.commit(claim, commit(Put("carts", {"id": f"c{place}", "value": value}), counted()))
        except WriteInvalid:
            refused.add(name)
        else:
            assert answer == Committed()
        item = store.read("flow", claim.message.object_id)
        assert item is not None
        assert (item.done, cart(clients, f"c{place}") is not None) == ((name not in refused),) * 2, name
    assert refused >= REFUSED


HOSTILE_WRITES: dict[str, Write] = {
    "no table": Put("", {"id": "c1"}),
    "a table that is no text": Put(None, {"id": "c1"}),  # type: ignore[arg-type]  # as untyped code may write it
    "a table of hostile text": Put("\ud800\0", {"id": "c1"}),
    "an alias that is no text": Put("carts", {"id": "c1"}, Condition("attribute_exists(#a)", {"#a": 5})),  # type: ignore[dict-item]  # as above
    "a condition that is no text": Put("carts", {"id": "c1"}, Condition(5)),  # type: ignore[arg-type]  # as above
    "no change": Update("carts", {"id": "c1"}, Condition("")),
    "a change of hostile text": Update("carts", {"id": "c1"}, Condition("SET \0 = \ud800")),
    "no key": Update("carts", {}, Condition("ADD n :one", {}, {":one": 1})),
}


@pytest.mark.parametrize("name", HOSTILE_WRITES)
def test_a_write_that_botocore_would_not_even_send_is_refused_by_name(
    clients: Clients, store: DynamoDBStore, name: str
) -> None:
    with pytest.raises(WriteInvalid) as refused:
        store.commit(claimed(store), commit(HOSTILE_WRITES[name]))
    assert "c1" not in str(refused.value)
    assert not stored(store).done
