"""A stage with ``lease="auto"`` goes without a lease where its code proves that it does only what its step records."""

from __future__ import annotations

import functools
import json
import logging
import operator
import types
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final

import boto3
import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

from flowguard.destinations import Queue
from flowguard.errors import Reject
from flowguard.flow import ATTACH, IGNORE, Flow
from flowguard.outcome import Done, Outcome
from flowguard.stage import AnyStage, Stage
from flowguard.step import Step
from flowguard.worker.leases import keeps_lease, why_leased

EMAILS: Final = Queue("emails")
PRICES: Final = {"tea": Decimal("4.20")}
RATES: Final[dict[str, Any]] = {"tea": urllib.request.urlopen}
HANDLERS: Final = (urllib.request.urlopen,)
logger = logging.getLogger(__name__)
state: dict[str, Any] = {}


class Kind(StrEnum):
    SMALL = "small"
    LARGE = "large"


class Line(BaseModel):
    model_config = ConfigDict(frozen=True)

    sku: str
    quantity: int = Field(ge=1)


class Order(BaseModel):
    order_id: str
    lines: tuple[Line, ...] = ()
    kind: Kind = Kind.SMALL
    more: dict[str, Any] = Field(default_factory=dict)

    @field_validator("order_id")
    @classmethod
    def _is_short(cls, value: str) -> str:
        if len(value) > 30:
            raise ValueError("too long")
        return value

    @property
    def pieces(self) -> int:
        return sum(line.quantity for line in self.lines)


class Sum(BaseModel):
    total: Decimal = Decimal(0)


class OutOfStock(Reject):
    pass


class Records(Stage[Order, Sum], name="records", lease="auto"):
    """Does what a handler does that only records."""

    limit = 100

    def handle(self, order: Order, step: Step[Sum]) -> Outcome:
        if order.pieces > self.limit or order.kind is Kind.SMALL:
            raise OutOfStock(f"too many for {order.order_id}")
        step.state.total = self._sum(order)
        try:
            rows = [json.dumps({"sku": line.sku, "n": line.quantity}) for line in order.lines if line.sku in PRICES]
        except KeyError:
            rows = []
        step.put("orders", {"id": order.order_id, "rows": rows, "at": step.now().isoformat()})
        step.update("days", {"day": str(step.requested_at.date())}, "ADD n :one", values={":one": 1})
        step.modify("stock", {"sku": "tea"}, lambda item: {**(item or {}), "left": 1})
        step.send(EMAILS, Order(order_id=step.key("mail")), delay=1)
        step.log.info("%s", step.request_id)
        logger.info("%s", _sorted(rows))
        return Done({"total": step.state.total})

    def _sum(self, order: Order) -> Decimal:
        return sum((PRICES[line.sku] * line.quantity for line in order.lines), Decimal(0))


class Orders(Flow, name="orders", object_id="order_id"):
    stages = (Records,)


def _sorted(rows: list[str]) -> list[str]:
    """Stands below its caller, as helpers do."""
    return sorted(rows)


def test_a_stage_that_only_records_goes_without_a_lease() -> None:
    assert why_leased(Orders, Records) is None
    assert not keeps_lease(Orders, Records)


# -- what is done outside the step, or before the commit, keeps the lease

Handler = Callable[[Any, Any, Step[Any]], Outcome]


def once(self: object, payload: Any, step: Step[Any]) -> Outcome:
    return Done(step.once("charge", lambda: 1))


def apply(self: object, payload: Any, step: Step[Any]) -> Outcome:
    with step.apply("stock"):
        step.put("carts", {"id": "c1"})
    return Done()


def fence(self: object, payload: Any, step: Step[Any]) -> Outcome:
    return Done(str(step.fence()))


def is_current(self: object, payload: Any, step: Step[Any]) -> Outcome:
    return Done(step.is_current)


def token(self: object, payload: Any, step: Step[Any]) -> Outcome:
    return Records.when_all(answer=step.token("answer"))


def event(self: object, payload: Any, step: Step[Any]) -> Outcome:
    return Records.when_any(answer=step.event("id"))


def asks(self: object, payload: Any, step: Step[Any]) -> Outcome:
    return Done(step.ask(EMAILS, payload))


def group(self: object, payload: Any, step: Step[Any]) -> Outcome:
    return Records.when_group(step.group("g", []))


def calls_a_module(self: object, payload: Any, step: Step[Any]) -> Outcome:
    urllib.request.urlopen("https://example.com")
    return Done()


def calls_boto3(self: object, payload: Any, step: Step[Any]) -> Outcome:
    boto3.client("sqs").send_message(QueueUrl="q", MessageBody="b")
    return Done()


def opens_a_file(self: object, payload: Any, step: Step[Any]) -> Outcome:
    return Done(open("/tmp/file").read())  # noqa: PTH123, S108 - what is judged


def imports(self: object, payload: Any, step: Step[Any]) -> Outcome:
    import socket

    return Done(socket.gethostname())


def calls_a_payload(self: object, payload: Any, step: Step[Any]) -> Outcome:
    payload.charge()
    return Done()


def calls_what_a_container_has(self: object, payload: Any, step: Step[Any]) -> Outcome:
    HANDLERS[0](payload)
    return Done()


def calls_what_a_table_has(self: object, payload: Any, step: Step[Any]) -> Outcome:
    RATES["tea"](payload)
    return Done()


def by_a_helper(self: object, payload: Any, step: Step[Any]) -> Outcome:
    _charged(payload)
    return Done()


def by_a_helper_within(self: object, payload: Any, step: Step[Any]) -> Outcome:
    def inner() -> None:
        _charged(payload)

    inner()
    return Done()


def by_a_helper_that_claims(self: object, payload: Any, step: Step[Any]) -> Outcome:
    _once(step)
    return Done()


def by_a_name(self: object, payload: Any, step: Step[Any]) -> Outcome:
    getattr(payload, "charge")()  # noqa: B009 - what is judged
    return Done()


def by_a_getter(self: object, payload: Any, step: Step[Any]) -> Outcome:
    operator.methodcaller("charge")(payload)
    return Done()


def by_a_dunder(self: object, payload: Any, step: Step[Any]) -> Outcome:
    return Done(payload.__class__.__name__)


def by_a_default(self: object, payload: Any, step: Step[Any], call: Any = urllib.request.urlopen) -> Outcome:
    call("https://example.com")
    return Done()


def within_a_block(self: object, payload: Any, step: Step[Any]) -> Outcome:
    with payload:
        return Done()


def sets_a_global(self: object, payload: Any, step: Step[Any]) -> Outcome:
    global state  # noqa: PLW0603 - what is judged
    state = payload
    return Done()


def reads_what_is_not_there(self: object, payload: Any, step: Step[Any]) -> Outcome:
    return Done(nowhere)  # type: ignore[name-defined]  # noqa: F821 - what is judged


async def awaits(self: object, payload: Any, step: Step[Any]) -> Outcome:
    return Done()


def sends_by_another_class(self: object, payload: Any, step: Step[Any]) -> Outcome:
    Sender("url")
    return Done()


@functools.wraps(once)
def decorated(*args: Any) -> Outcome:
    return Done()


@functools.cache
def _cached() -> int:
    return 1


def by_a_decorated_helper(self: object, payload: Any, step: Step[Any]) -> Outcome:
    return Done(_cached())


def in_a_closure() -> Handler:
    call = urllib.request.urlopen

    def handle(self: object, payload: Any, step: Step[Any]) -> Outcome:
        call("https://example.com")
        return Done()

    return handle


@dataclass
class Sender:
    url: str

    def __post_init__(self) -> None:
        urllib.request.urlopen(self.url)  # noqa: S310 - what is judged


def _charged(payload: Any) -> None:
    boto3.client("sqs")


def _once(step: Step[Any]) -> None:
    step.once("charge", int)


@contextmanager
def _block() -> Iterator[None]:
    yield


EFFECTS: Final = {
    once: "once uses .once",
    apply: "apply has ",
    fence: "fence uses .fence",
    is_current: "is_current uses .is_current",
    token: "token uses .",
    event: "event uses .",
    asks: "asks uses .ask",
    group: "group uses .",
    calls_a_module: "calls_a_module uses the module urllib",
    calls_boto3: "calls_boto3 uses the module boto3",
    opens_a_file: "opens_a_file uses open",
    imports: "imports has IMPORT_NAME",
    calls_a_payload: "calls_a_payload uses .charge",
    calls_what_a_container_has: "calls_what_a_container_has uses HANDLERS",
    calls_what_a_table_has: "calls_what_a_table_has uses RATES",
    by_a_helper: "_charged uses the module boto3",
    by_a_helper_within: "_charged uses the module boto3",
    by_a_helper_that_claims: "_once uses .once",
    by_a_name: "by_a_name uses getattr",
    by_a_getter: "by_a_getter uses the module operator",
    by_a_dunder: "by_a_dunder uses .__class__",
    by_a_default: "by_a_default keeps values of its own",
    within_a_block: "within_a_block has ",
    sets_a_global: "sets_a_global has STORE_GLOBAL",
    reads_what_is_not_there: "reads_what_is_not_there uses nowhere, which is not there",
    awaits: "awaits awaits",
    sends_by_another_class: "Sender is no model",
    decorated: "once is decorated",
    by_a_decorated_helper: "by_a_decorated_helper uses _cached",
    in_a_closure(): "in_a_closure.<locals>.handle keeps values of its own",
}


def define(handle: Any, payload: Any = dict[str, Any], **body: Any) -> AnyStage:
    options: dict[str, Any] = {"name": "made", "lease": "auto"}
    return types.new_class(
        "Made", (Stage[payload],), options, lambda space: space.update(__module__=__name__, handle=handle, **body)
    )


def flow_of(stage: AnyStage, **options: Any) -> type[Flow]:
    options = {"name": "made", "object_id": lambda payload: "o", **options}
    return types.new_class("MadeFlow", (Flow,), options, lambda space: space.update(stages=(stage,)))


@pytest.mark.parametrize("handle", EFFECTS, ids=lambda handle: handle.__name__)
def test_an_effect_that_is_not_recorded_keeps_the_lease(handle: Any) -> None:
    stage = define(handle)
    flow = flow_of(stage)
    why = why_leased(flow, stage)
    assert why is not None
    assert why.startswith(EFFECTS[handle])
    assert keeps_lease(flow, stage)


# -- and so does a model that may do anything


def plain(self: object, payload: Any, step: Step[Any]) -> Outcome:
    step.put("orders", {"id": payload.order_id, **payload.get("more", {})})
    return Done()


def _looked_up(value: str) -> str:
    return str(urllib.request.urlopen(value))  # noqa: S310 - what is judged


class ByProperty(Order):
    @property
    def cost(self) -> str:
        return _looked_up(self.order_id)


class ByMethod(Order):
    def get(self, name: str, default: object) -> str:
        return _looked_up(self.order_id)


class ByValidator(Order):
    note: Annotated[str, AfterValidator(_looked_up)] = ""


class ByDefault(Order):
    drawn: str = Field(default_factory=lambda: _looked_up("drawn"))


class ByField(BaseModel):
    order_id: str
    inner: list[ByMethod | None] = []


class ByDescriptor(Order):
    items: ClassVar[object] = functools.cached_property(lambda self: _looked_up(self.order_id))


class NamedOnce(Order):
    once: str = ""


@pytest.mark.parametrize("payload", [ByProperty, ByMethod, ByValidator, ByDefault, ByField])
def test_a_model_whose_code_may_do_more_keeps_the_lease(payload: Any) -> None:
    stage = define(plain, payload)
    assert why_leased(flow_of(stage), stage) == "_looked_up uses the module urllib"


class ByValue(BaseModel):
    send: object = urllib.request.urlopen


def test_a_default_that_may_do_anything_keeps_the_lease() -> None:
    def calls(self: object, payload: Any, step: Step[Any]) -> Outcome:
        payload.send("https://psp.example")
        return Done()

    stage = define(calls, ByValue)
    assert why_leased(flow_of(stage), stage) == "a field has the default function"


def test_a_plain_model_does_not() -> None:
    stage = define(plain, Order)
    assert why_leased(flow_of(stage), stage) is None


def test_a_name_that_stands_for_more_than_is_known_keeps_the_lease() -> None:
    def reads(self: object, payload: Any, step: Step[Any]) -> Outcome:
        return Done(payload.items)

    stage = define(reads, ByDescriptor)
    assert why_leased(flow_of(stage), stage) is not None
    assert why_leased(flow_of(define(reads, Order)), define(reads, Order)) is None


def test_a_field_makes_no_method_of_the_step_harmless() -> None:
    stage = define(once, NamedOnce)
    assert why_leased(flow_of(stage), stage) == "once uses .once"


def test_what_a_stage_keeps_for_itself_is_judged_too() -> None:
    def calls(self: Any, payload: Any, step: Step[Any]) -> Outcome:
        self.call(payload)
        return Done()

    kept = define(calls, call=urllib.request.urlopen)
    assert why_leased(flow_of(kept), kept) is not None
    method = define(calls, call=lambda self, payload: _charged(payload))
    assert why_leased(flow_of(method), method) == "_charged uses the module boto3"


# -- the stage, and its flow, say whether that is asked


@pytest.mark.parametrize("policy", [IGNORE, ATTACH])
def test_where_the_first_request_keeps_the_object_there_is_a_lease(policy: Any) -> None:
    stage = define(plain, Order)
    flow = flow_of(stage, on_conflict=policy)
    assert why_leased(flow, stage) == f"on_conflict={policy.name} needs a claim to show that a run is at work"
    assert keeps_lease(flow, stage)


@pytest.mark.parametrize(("lease", "keeps"), [(True, True), (False, False)])
def test_a_stage_that_says_it_is_not_asked(lease: bool, keeps: bool) -> None:
    stage: Any = types.new_class(
        "Made", (Stage[Order],), {"name": "made", "lease": lease}, lambda space: space.update(handle=calls_boto3)
    )
    assert keeps_lease(flow_of(stage), stage) is keeps


def test_who_says_nothing_has_a_lease() -> None:
    stage: Any = types.new_class("Made", (Stage[Order],), {"name": "made"}, lambda space: space.update(handle=plain))
    assert keeps_lease(flow_of(stage), stage)
    assert not stage.lease_given
    assert define(plain).lease_given
