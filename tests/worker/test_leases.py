"""A stage with ``lease="auto"`` goes without a lease where its code proves that it does only what its step records."""

from __future__ import annotations

import functools
import json
import logging
import operator
import types
import urllib.request
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Annotated, Any, ClassVar, Final, ForwardRef, Generic, Literal, NewType

import boto3
import pytest
from annotated_types import Gt, Len, Predicate
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    ImportString,
    PrivateAttr,
    Strict,
    StringConstraints,
    Tag,
    TypeAdapter,
    computed_field,
    create_model,
    field_validator,
)
from typing_extensions import TypeAliasType, TypeVar

from flowguard.destinations import Queue
from flowguard.errors import Reject, RunFailed
from flowguard.flow import ATTACH, IGNORE, Flow
from flowguard.outcome import Done, Outcome
from flowguard.retry import RetryPolicy
from flowguard.stage import AnyStage, Stage
from flowguard.step import Step
from flowguard.worker.leases import keeps_lease, why_leased
from flowguard.worker.recorded_only import unrecorded

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
    named = next(iter(stage.payload.model_fields)) if issubclass(stage.payload, BaseModel) else "id"
    options = {"name": "made", "object_id": named, **options}
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


class ByNestedValidator(Order):
    notes: list[Annotated[str, AfterValidator(_looked_up)]] = []


class ByOptionalValidator(Order):
    note: Annotated[str, AfterValidator(_looked_up)] | None = None


class ByValuesValidator(Order):
    notes: dict[str, Annotated[str, AfterValidator(_looked_up)]] = {}


class ByPrivate(Order):
    _drawn: str = PrivateAttr(default_factory=lambda: _looked_up("drawn"))


class ByComputed(Order):
    @computed_field  # type: ignore[prop-decorator]  # pydantic takes either
    @functools.cached_property
    def seen(self) -> str:
        return _looked_up(self.order_id)


class ByComputedProperty(Order):
    @computed_field  # type: ignore[prop-decorator]  # pydantic takes either
    @property
    def seen(self) -> str:
        return _looked_up(self.order_id)


class ByPredicate(Order):
    notes: list[Annotated[str, Predicate(lambda value: bool(_looked_up(value)))]] = []


class Cup(BaseModel):
    kind: Literal["cup"] = "cup"


class Pot(BaseModel):
    kind: Literal["pot"] = "pot"


Ware = Annotated[Annotated[Cup, Tag("cup")] | Annotated[Pot, Tag("pot")], Discriminator(_looked_up)]


class ByDiscriminator(Order):
    ware: Ware | None = None


class ByNestedDiscriminator(Order):
    wares: list[Ware] = []


Named = NewType("Named", ByMethod)


class ByNewType(Order):
    other: Named | None = None


class ByField(BaseModel):
    order_id: str
    inner: list[ByMethod | None] = []


class ByDescriptor(Order):
    items: ClassVar[object] = functools.cached_property(lambda self: _looked_up(self.order_id))


class NamedOnce(Order):
    once: str = ""


@pytest.mark.parametrize(
    "payload",
    [
        *(ByProperty, ByMethod, ByValidator, ByDefault, ByField, ByNestedValidator, ByOptionalValidator),
        *(ByValuesValidator, ByPrivate, ByComputed, ByComputedProperty, ByPredicate, ByDiscriminator),
        *(ByNestedDiscriminator, ByNewType),
    ],
)
def test_a_model_whose_code_may_do_more_keeps_the_lease(payload: Any) -> None:
    stage = define(plain, payload)
    assert why_leased(flow_of(stage), stage) == "_looked_up uses the module urllib"


class Schema:
    """What builds the schema of a type by itself."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return handler(source)


class ByEncoder(Order):
    """Pydantic warns of such encoders where a class is made."""


ByEncoder.model_config["json_encoders"] = {str: _looked_up}


class BySchema(Order):
    note: Annotated[str, Schema()] = ""


class ByPrivateValue(Order):
    _send: Any = PrivateAttr(default=urllib.request.urlopen)


class ByImport(Order):
    code: ImportString[Any] | None = None


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (BySchema, "an annotation has Schema"),
        (ByEncoder, "ByEncoder has json_encoders"),
        (ByPrivateValue, "a private field has the default function"),
        (ByImport, "an annotation has ImportString"),
    ],
)
def test_what_a_model_calls_and_nobody_knows_keeps_the_lease(payload: Any, why: str) -> None:
    stage = define(plain, payload)
    assert why_leased(flow_of(stage), stage) == why


class ByBareImport(Order):
    code: ImportString  # type: ignore[type-arg]  # what is judged


class Calls(Enum):
    SEND = (urllib.request.urlopen,)


class ByMember(Order):
    call: Calls = Calls.SEND


class Meta(type(BaseModel)):  # type: ignore[misc]  # the metaclass of models
    def __call__(cls, *args: Any, **fields: Any) -> Any:
        return _looked_up("made")


class ByMetaclass(Order, metaclass=Meta):
    pass


class ByOperator(Order):
    __format__ = functools.partialmethod(_looked_up)


class ByMatch(Order):
    __match_args__ = ("items",)


class ByFieldInField(Order):
    wares: list[
        Annotated[
            Annotated[Cup, Tag("cup")] | Annotated[Pot, Tag("pot")], Field(discriminator=Discriminator(_looked_up))
        ]
    ] = []


Text = TypeAliasType("Text", Annotated[str, AfterValidator(_looked_up)])


class ByAlias(Order):
    note: Text = ""


class Hidden:
    """Pydantic warns of a field that it hides where a class is made."""


class ByMixin(Hidden, BaseModel):
    order_id: str
    note: str = ""


Hidden.note = functools.cached_property(_looked_up)  # type: ignore[attr-defined]


class ByExclusion(Order):
    note: str = Field(default="", exclude_if=_looked_up)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (ByBareImport, "a field has ImportString"),
        (ByMember, "Calls has a value that is not known"),
        (ByMetaclass, "ByMetaclass has a metaclass"),
        (ByOperator, "ByOperator has its own __format__"),
        (ByMatch, "ByMatch has its own __match_args__"),
        (ByFieldInField, "_looked_up uses the module urllib"),
        (ByAlias, "_looked_up uses the module urllib"),
        (ByExclusion, "_looked_up uses the module urllib"),
    ],
)
def test_what_python_or_pydantic_calls_without_a_name_keeps_the_lease(payload: Any, why: str) -> None:
    stage = define(plain, payload)
    assert why_leased(flow_of(stage), stage) == why


def test_a_descriptor_in_the_place_of_a_field_keeps_the_lease() -> None:
    def reads(self: object, payload: Any, step: Step[Any]) -> Outcome:
        return Done(payload.note)

    stage = define(reads, ByMixin)
    assert why_leased(flow_of(stage), stage) is not None


class Other(Stage[Order], name="other"):
    def handle(self, order: Order, step: Step[Any]) -> Outcome:
        return Done(_looked_up("handled"))

    @staticmethod
    def check() -> str:
        return _looked_up("checked")


class Built(Stage[Order], name="built"):
    def __init__(self) -> None:
        _looked_up("built")

    def handle(self, order: Order, step: Step[Any]) -> Outcome:
        return Done()


def calls_another_stage(self: object, payload: Any, step: Step[Any]) -> Outcome:
    return Done(Other.check())


def handles_with_another_stage(self: object, payload: Any, step: Step[Any]) -> Outcome:
    return Other().handle(payload, step)


def builds_another_stage(self: object, payload: Any, step: Step[Any]) -> Outcome:
    return Done(str(Built()))


def names_another_stage(self: object, payload: Any, step: Step[Any]) -> Outcome:
    step.log.info("%s", step.state)
    return Other.message(payload)


def matches_a_name(self: object, payload: Any, step: Step[Any]) -> Outcome:
    match payload:
        case Order(charge=charge):  # type: ignore[misc]  # what is judged
            return Done(charge())
        case _:
            return Done()


def by_a_default_by_name(self: object, payload: Any, step: Step[Any], *, call: Any = urllib.request.urlopen) -> Outcome:
    call("https://example.com")
    return Done()


def by_a_function_of_a_library(self: object, payload: Any, step: Step[Any]) -> Outcome:
    return Done(create_model("Made"))


def by_a_class_of_a_library(self: object, payload: Any, step: Step[Any]) -> Outcome:
    return Done(TypeAdapter(str))


def calls_itself(self: object, payload: Any, step: Step[Any]) -> Outcome:
    return Done(_again(3))


def _again(count: int) -> int:
    return count and _again(count - 1)


def takes_a_value_of_an_enum(self: object, payload: Any, step: Step[Any]) -> Outcome:
    return Done(MEMBERS[0])


MEMBERS: Final = (Calls.SEND,)


def by_an_error_of_a_library(self: object, payload: Any, step: Step[Any]) -> Outcome:
    raise RunFailed("why")


def by_a_class_of_python(self: object, payload: Any, step: Step[Any]) -> Outcome:
    return Done(memoryview(b""))


def by_an_error_of_python(self: object, payload: Any, step: Step[Any]) -> Outcome:
    raise ValueError("why")


def by_a_module_within(self: object, payload: Any, step: Step[Any]) -> Outcome:
    return Done(json.codecs.get("utf-8"))  # type: ignore[attr-defined]  # what is judged


@pytest.mark.parametrize(
    ("handle", "why"),
    [
        (calls_another_stage, "calls_another_stage uses .check"),
        (handles_with_another_stage, "handles_with_another_stage uses .handle"),
        (builds_another_stage, "Built has its own __init__"),
        (names_another_stage, None),
        (matches_a_name, "matches_a_name uses .charge"),
        (by_a_default_by_name, "by_a_default_by_name keeps values of its own"),
        (by_a_function_of_a_library, "by_a_function_of_a_library uses create_model"),
        (by_a_class_of_a_library, "by_a_class_of_a_library uses TypeAdapter"),
        (calls_itself, None),
        (by_an_error_of_python, None),
        (by_an_error_of_a_library, "by_an_error_of_a_library uses RunFailed"),
        (by_a_class_of_python, "by_a_class_of_python uses memoryview"),
        (takes_a_value_of_an_enum, "Calls has a value that is not known"),
        (by_a_module_within, "by_a_module_within uses .codecs"),
    ],
)
def test_a_name_is_only_harmless_where_it_is_known_what_has_it(handle: Any, why: str | None) -> None:
    stage = define(handle)
    assert why_leased(flow_of(stage), stage) == why


V = Annotated[str, AfterValidator(_looked_up)]
ByText = TypeAliasType("ByText", "list[V]")
Defaulted = TypeVar("Defaulted", default=V)
Plain = TypeVar("Plain")


class ByAliasOfText(Order):
    notes: ByText = []


class ByDefaultOfVariable(Order, Generic[Defaulted]):
    note: Defaulted | None = None


class ByVariable(Order, Generic[Plain]):
    note: Plain | None = None


class Patience(RetryPolicy):
    """Has code of its own."""

    def get(self) -> str:
        return _looked_up("x")


def asks_its_policy(self: Any, payload: Any, step: Step[Any]) -> Outcome:
    self.retry.get()
    return Done()


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (ByAliasOfText, "ByText names a type by a text"),
        (ByDefaultOfVariable, "_looked_up uses the module urllib"),
        (ByVariable, None),
    ],
)
def test_an_alias_and_a_variable_stand_for_what_they_name(payload: Any, why: str | None) -> None:
    stage = define(plain, payload)
    assert why_leased(flow_of(stage), stage) == why


def test_a_retry_policy_of_the_users_own_keeps_the_lease() -> None:
    stage = define(asks_its_policy, retry=Patience())
    assert why_leased(flow_of(stage), stage) == "Patience is a retry policy of the user's own"


def test_a_type_that_nobody_knows_keeps_the_lease() -> None:
    assert str(unrecorded(define(plain), (object(),))).endswith("is no type that is known")
    assert unrecorded(define(plain), (ForwardRef("Order"),)) == "ForwardRef('Order') is no type that is known"


class Away(Order):
    """Comes from a module that is not loaded."""


class Disguised(ByMethod):
    """Says that it is pydantic's."""

    def get(self, name: str, default: object) -> str:
        return _looked_up(self.order_id)


class ByCallable(Order):
    __format__ = operator.attrgetter("order_id")


class ByMethodInC(Order):
    __reversed__ = deque.__reversed__


Away.__module__, Disguised.__module__ = "nowhere", "pydantic"


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (Away, None),
        (Disguised, "_looked_up uses the module urllib"),
        (ByCallable, "ByCallable has its own __format__"),
        (ByMethodInC, "ByMethodInC has its own __reversed__"),
    ],
)
def test_a_class_is_known_by_where_it_is(payload: Any, why: str | None) -> None:
    stage = define(plain, payload)
    assert why_leased(flow_of(stage), stage) == why


class Many(Order):
    """What annotations may say without a function."""

    ware: Literal["cup", "pot"] = "cup"
    amount: Annotated[int, Gt(0), Field(lt=9)] = 1
    name: Annotated[str, StringConstraints(pattern="a+")] = "a"
    strict: Annotated[str, Strict()] | None = None
    names: tuple[Annotated[str, Len(1, 3)], ...] = ()
    wares: list[Annotated[Cup | Pot, Field(discriminator="kind")]] = []
    anything: Any = None
    made: list[str] = Field(default_factory=list)
    _seen: int = PrivateAttr(default=0)

    @computed_field  # type: ignore[prop-decorator]  # pydantic takes either
    @property
    def size(self) -> int:
        return len(self.names)

    _list: list[int] = PrivateAttr(default_factory=list)


def test_what_annotations_say_without_a_function_does_not() -> None:
    stage = define(plain, Many)
    assert why_leased(flow_of(stage), stage) is None


class ByValue(BaseModel):
    send: object = urllib.request.urlopen


def test_a_default_that_may_do_anything_keeps_the_lease() -> None:
    def calls(self: object, payload: Any, step: Step[Any]) -> Outcome:
        payload.send("https://psp.example")
        return Done()

    stage = define(calls, ByValue)
    assert why_leased(flow_of(stage), stage) == "a field has the default function"


class Again(Stage[Order], name="again", lease="auto"):
    """Goes on with itself."""

    def handle(self, order: Order, step: Step[Any]) -> Outcome:
        return self._next(order)

    def _next(self, order: Order) -> Outcome:
        return Again.message(order)


class Sized(Order):
    def __len__(self) -> int:
        return 1


def test_a_name_of_python_stays_unknown_where_a_model_has_its_own() -> None:
    def reads(self: object, payload: Any, step: Step[Any]) -> Outcome:
        return Done(payload.__len__)

    stage = define(reads, Sized)
    assert (
        why_leased(flow_of(stage), stage) == "test_a_name_of_python_stays_unknown_where_a_model_has_its_own.<locals>."
        "reads uses .__len__"
    )


def test_a_handler_that_is_no_function_keeps_the_lease() -> None:
    stage = define(functools.partial(once))
    assert why_leased(flow_of(stage), stage) == "<class 'functools.partial'> is decorated"


def test_a_stage_may_go_on_with_itself() -> None:
    assert why_leased(flow_of(Again), Again) is None


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
