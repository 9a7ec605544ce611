"""What a cache costs in calls and write units, beside Powertools' and a get and a put, measured on DynamoDB Local."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyAlreadyInProgressError
from pydantic import BaseModel

from flowguard import UNTIL_RESET, Done, Flow, FlowClient, LambdaHandler, Outcome, Queue, Stage, Step, lambda_handler
from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services
from flowguard.clock import ManualClock, SystemClock
from flowguard.events import Tally
from flowguard.names.ids import RequestId
from flowguard.protocol.callers import MOST_HELD
from flowguard.protocol.outbox import Send
from flowguard.settings import Settings
from flowguard.sim.calls import intercept
from flowguard.sim.table_keys import create_table
from flowguard.testing import sqs_event
from flowguard.testing.context import FakeContext
from flowguard.verdicts import ResetVerdict
from flowguard.wire.envelope import Envelope
from flowguard.worker.ports import Refusal
from tests.aws.engines import on_dynamodb_local
from tests.aws.test_ledger_costs import Meter

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "caches.md"
START = SystemClock().now()
"""DynamoDB Local removes items whose time is over by its own clock."""

Cost = tuple[list[str], float]
"""The calls, and the units that they write or read."""


class Wanted(BaseModel):
    page: str


MEANWHILE: list[Callable[[], object]] = []
"""What happens while the page is being made, once."""


def made(page: str) -> dict[str, str]:
    if MEANWHILE:
        MEANWHILE.pop()()
    return {"html": f"<h1>{page}</h1>"}


class Make(Stage[Wanted], name="make"):
    def handle(self, wanted: Wanted, step: Step) -> Outcome:
        return Done(made(wanted.page))


class Pages(Flow, name="pages", object_id="page", keep_result=UNTIL_RESET):
    stages = (Make,)


class Mail:
    """Implements :class:`flowguard.worker.ports.Sender`: every message is taken."""

    def __init__(self) -> None:
        self.sent: list[Send] = []

    def send(self, sends: Sequence[Send]) -> Mapping[int, Refusal]:
        self.sent.extend(sends)
        return {}

    def postpone(self, envelope: Envelope, seconds: int) -> None:
        """Nobody waits here."""

    def hand_back(self, records: Sequence[tuple[Envelope, int]]) -> None:
        """Nobody waits here."""


class Cache:
    """The flow on DynamoDB Local."""

    def __init__(self, clients: Clients) -> None:
        self.clock, self.mail, self._asked = ManualClock(START), Mail(), 0
        services = aws_services(Settings(), clients, clock=self.clock, observer=Tally())._replace(sender=self.mail)
        self.handler: LambdaHandler = lambda_handler(Pages).using(services)
        self.client = FlowClient.of(services)

    def ask(self) -> None:
        self._asked += 1
        self.clock.advance(seconds=1)
        message, _ = Pages.request(
            Wanted(page="tea"),
            request_id=RequestId(f"r-{self._asked}"),
            requested_at=self.clock.now(),
            reply_to=Queue("readers"),
        )
        event = sqs_event("pages", Wanted(page="tea"), attributes=message.attributes())
        assert self.handler(event, None) == {"batchItemFailures": []}

    def reset(self) -> None:
        assert self.client.reset(Pages, "tea") is not ResetVerdict.NOTHING


def cost(call: Callable[[], object]) -> Cost:
    with intercept(Meter()) as meter:
        call()
    return meter.calls, meter.units


@pytest.fixture
def clients(dynamodb_local_url: str) -> Clients:
    return on_dynamodb_local(dynamodb_local_url)


@pytest.fixture
def cache(clients: Clients) -> Cache:
    return Cache(clients)


def while_at_work(cache: Cache, call: Callable[[], object]) -> Cost:
    """What a call costs while the page is being made, without what the run itself does."""
    found: list[Cost] = []
    MEANWHILE.append(lambda: found.append(cost(call)))
    cache.ask()
    return found[0]


ROWS: dict[str, Cost] = {
    "a miss: the request is carried out, in one stage": (["UpdateItem"] * 2, 2),
    "a hit": (["UpdateItem"], 1),
    "meets the work of another, and is answered with it": (["UpdateItem"] * 2, 2),
    "the same, beyond the first sixteen": (["UpdateItem", "PutItem", "UpdateItem"], 3),
    "a reset of a result, or of a run at work": (["UpdateItem"], 1),
}


def test_each_request_costs_what_the_page_says(cache: Cache) -> None:
    miss, hit = cost(cache.ask), cost(cache.ask)
    dropped = cost(cache.reset)
    attached = while_at_work(cache, cache.ask)
    assert [miss, hit, attached, dropped] == [list(ROWS.values())[place] for place in (0, 1, 2, 4)]
    assert len({send.id for send in cache.mail.sent}) == 4, "each is answered once"


def test_a_caller_that_the_item_does_not_hold_costs_a_write_more(cache: Cache) -> None:
    found: list[Cost] = []

    def many() -> None:
        found.extend(cost(cache.ask) for _ in range(MOST_HELD + 1))

    MEANWHILE.append(many)
    cache.ask()
    assert [one for one, _ in found[:-1]] == [["UpdateItem", "UpdateItem"]] * MOST_HELD
    assert found[-1][0] == ROWS["the same, beyond the first sixteen"][0]


def test_a_reset_of_a_run_at_work_costs_as_much_as_that_of_a_result(cache: Cache) -> None:
    found: list[Cost] = []

    def fenced() -> None:
        found.append(cost(cache.reset))

    MEANWHILE.append(fenced)
    with pytest.raises(AssertionError):  # the worker is fenced: its message comes back
        cache.ask()
    assert found == [ROWS["a reset of a result, or of a run at work"]]


def test_a_read_from_outside_is_one_read(cache: Cache) -> None:
    cache.ask()
    assert cost(lambda: cache.client.result(Pages, "tea")) == (["GetItem"], 1)


# -- the same by others


def test_powertools_costs_as_much_and_turns_away_whoever_meets_the_work_of_another(clients: Clients) -> None:
    create_table(clients.dynamodb, "idempotency", "id")
    config = IdempotencyConfig(event_key_jmespath="page")
    config.register_lambda_context(FakeContext(clock=ManualClock(START), timeout=timedelta(seconds=30)))  # type: ignore[arg-type]  # it reads no more than this
    store = DynamoDBPersistenceLayer("idempotency", boto3_client=clients.dynamodb)
    theirs: Any = idempotent_function(
        lambda wanted: made(wanted["page"]), data_keyword_argument="wanted", config=config, persistence_store=store
    )
    refused: list[Exception] = []

    def second() -> None:
        try:
            theirs(wanted={"page": "tea"})
        except IdempotencyAlreadyInProgressError as error:
            refused.append(error)

    met: list[Cost] = []
    MEANWHILE.append(lambda: met.append(cost(second)))
    with intercept(Meter()) as meter:
        theirs(wanted={"page": "tea"})
    hit = cost(lambda: theirs(wanted={"page": "tea"}))
    assert met == [(["PutItem"], 1)]
    assert len(refused) == 1, "no answer: the caller has to ask again"
    assert (meter.calls, hit) == (["PutItem", "PutItem", "UpdateItem"], (["PutItem"], 1))


def test_powertools_keeps_what_was_made_of_the_old_though_it_was_reset_meanwhile(
    clients: Clients,
) -> None:
    """The reset deletes the record, or the item, while the work goes on. The work ends, and its result stays."""
    create_table(clients.dynamodb, "idempotency", "id")
    config = IdempotencyConfig(event_key_jmespath="page")
    config.register_lambda_context(FakeContext(clock=ManualClock(START), timeout=timedelta(seconds=30)))  # type: ignore[arg-type]  # it reads no more than this
    store = DynamoDBPersistenceLayer("idempotency", boto3_client=clients.dynamodb)
    sources = {"title": "old"}

    def of_sources() -> dict[str, str]:
        read = dict(sources)
        if MEANWHILE:
            MEANWHILE.pop()()
        return read

    theirs: Any = idempotent_function(
        lambda wanted: of_sources(), data_keyword_argument="wanted", config=config, persistence_store=store
    )

    def reset() -> None:
        sources["title"] = "new"
        for item in clients.dynamodb.scan(TableName="idempotency")["Items"]:
            clients.dynamodb.delete_item(TableName="idempotency", Key={"id": item["id"]})

    MEANWHILE.append(reset)
    theirs(wanted={"page": "tea"})
    assert theirs(wanted={"page": "tea"}) == {"title": "old"}


def test_a_get_and_a_put_is_cheaper_and_makes_the_page_as_often_as_it_is_asked_for(clients: Clients) -> None:
    table = clients.dynamodb
    times: list[int] = []

    def ask() -> None:
        key = {"id": {"S": "tea"}}
        if "Item" not in table.get_item(TableName="carts", Key=key, ConsistentRead=True):
            times.append(1)
            table.put_item(TableName="carts", Item={**key, "html": {"S": json.dumps(made("tea"))}})

    met: list[Cost] = []
    MEANWHILE.append(lambda: met.append(cost(ask)))
    ask()
    assert met == [(["GetItem", "PutItem"], 2)], "one unit to read, and one to write"
    assert len(times) == 2, "both have made it"
    assert cost(ask) == (["GetItem"], 1)
    assert cost(lambda: table.delete_item(TableName="carts", Key={"id": {"S": "tea"}})) == (["DeleteItem"], 1)


def test_the_page_has_these_rows() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for row, (calls, units) in ROWS.items():
        assert f"| {row} | {', '.join(calls)} | {units:g} |" in text, row
