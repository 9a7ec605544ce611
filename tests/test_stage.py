"""A stage is checked when its class is defined: every mistake is told at once, each with its fix."""

from __future__ import annotations

import types
from abc import abstractmethod
from datetime import timedelta
from typing import Any, Generic

import pytest
from pydantic import BaseModel, Field, SecretStr
from typing_extensions import TypeVar

from flowguard.destinations import Function, Queue, Topic
from flowguard.errors import DefinitionError
from flowguard.outcome import Done, Next, Outcome
from flowguard.payload.encoding import Payload
from flowguard.retry import Fixed, RetryPolicy
from flowguard.stage import Stage
from flowguard.step import NoState, Step


class Cart(BaseModel):
    cart_id: str


class CartState(BaseModel):
    total: int = 0


class Hiding(BaseModel):
    card: SecretStr | None = None
    note: str = Field(default="", exclude=True)


class Unstartable(BaseModel):
    total: int
    lines: list[str]


def handle(self: object, payload: Any, step: Step[Any]) -> Outcome:
    return Done()


def define(*bases: Any, body: dict[str, Any] | None = None, **options: Any) -> type[Stage[Any, Any]]:
    """A stage class named Made, complete but for what a test leaves out."""
    members = {"handle": handle} if body is None else body
    return types.new_class("Made", bases or (Stage[Cart],), options, lambda space: space.update(members))


def problems(*bases: Any, body: dict[str, Any] | None = None, **options: Any) -> tuple[str, ...]:
    with pytest.raises(DefinitionError) as caught:
        define(*bases, body=body, **options)
    assert caught.value.what == "stage Made"
    return caught.value.problems


class Price(Stage[Cart, CartState], name="price", then="confirm", inbox="carts", timeout=timedelta(seconds=5)):
    retry = RetryPolicy(attempts=2)

    def handle(self, payload: Cart, step: Step[CartState]) -> Outcome:
        return Confirm.message({"cart": payload.cart_id})


class Confirm(Stage[dict[str, Any], CartState], name="confirm"):
    def handle(self, payload: dict[str, Any], step: Step[CartState]) -> Outcome:
        return Done()


# -- what a class says, and what it leaves out ------------------------------------------------------------------------


def test_a_stage_knows_its_name_types_and_options() -> None:
    assert (Price.name, Price.payload, Price.state) == ("price", Cart, CartState)
    assert (Price.then, Price.inbox, Price.timeout) == (("confirm",), Queue("carts"), timedelta(seconds=5))


def test_a_policy_can_stand_in_the_body_or_in_the_class_line() -> None:
    assert Price.retry == RetryPolicy(attempts=2)
    assert define(name="made", retry=RetryPolicy(attempts=3)).retry == RetryPolicy(attempts=3)


def test_so_can_every_option_but_the_name() -> None:
    made = define(name="made", body={"handle": handle, "then": "confirm", "inbox": "carts"})
    assert (made.then, made.inbox) == (("confirm",), Queue("carts"))


def test_what_a_stage_leaves_out_has_a_default() -> None:
    made = define(name="made")
    assert (made.then, made.inbox, made.timeout, made.retry, made.state) == ((), None, None, RetryPolicy(), NoState)


@pytest.mark.parametrize("payload", [dict, dict[str, Any]])
def test_a_dict_is_a_dict_with_or_without_its_arguments(payload: Any) -> None:
    assert define(Stage[payload], name="made").payload is dict


@pytest.mark.parametrize("payload", [str, Cart])
def test_text_and_models_are_taken_as_they_are(payload: Any) -> None:
    assert define(Stage[payload], name="made").payload is payload


@pytest.mark.parametrize(
    ("then", "names"),
    [("a", ("a",)), (("a", "b"), ("a", "b")), (Price, ("price",)), ((Price, "b"), ("price", "b")), ((), ())],
)
def test_the_stages_that_may_come_next_are_named_by_text_or_by_class(then: Any, names: tuple[str, ...]) -> None:
    assert define(name="made", then=then).then == names


@pytest.mark.parametrize("inbox", ["carts", Queue("carts"), Topic("arn:aws:sns:eu-west-1:123456789012:carts")])
def test_a_stage_reads_from_a_queue_or_a_topic(inbox: Any) -> None:
    assert str(define(name="made", inbox=inbox).inbox) in {"sqs:carts", "sns:arn:aws:sns:eu-west-1:123456789012:carts"}


def test_a_message_for_a_stage_is_the_next_hop() -> None:
    assert Price.message(Cart(cart_id="c-1")) == Next("price", Cart(cart_id="c-1"))


# -- base classes -----------------------------------------------------------------------------------------------------

SomeCart = TypeVar("SomeCart", bound=Payload)
SomeState = TypeVar("SomeState", bound=BaseModel)


class AuditedStage(Stage[SomeCart, SomeState], Generic[SomeCart, SomeState], retry=RetryPolicy(attempts=9)):
    """Leaves its types open."""

    def handle(self, payload: SomeCart, step: Step[SomeState]) -> Outcome:
        step.send("audit", payload)
        return self.work(payload, step)

    @abstractmethod
    def work(self, payload: SomeCart, step: Step[SomeState]) -> Outcome: ...


class CartStage(AuditedStage[SomeCart, CartState], Generic[SomeCart]):
    """Settles one type, leaves the other open."""


class CartOnlyStage(CartStage[Cart], abstract=True):
    """Settles both, and is a base all the same."""


class Check(CartOnlyStage, name="check"):
    def work(self, payload: Cart, step: Step[CartState]) -> Outcome:
        return Done()


class CheckAgain(Check, name="check-again"):
    pass


@pytest.mark.parametrize("base", [AuditedStage, CartStage, CartOnlyStage])
def test_a_base_class_has_no_name(base: type[Stage[Any, Any]]) -> None:
    assert not hasattr(base, "name")


@pytest.mark.parametrize("stage", [Check, CheckAgain])
def test_types_and_options_come_through_generic_bases(stage: type[Stage[Any, Any]]) -> None:
    assert (stage.payload, stage.state, stage.retry) == (Cart, CartState, RetryPolicy(attempts=9))


def test_a_stage_of_a_stage_inherits_all_but_the_name() -> None:
    made = define(Price, body={}, name="price-again")
    assert (made.name, made.payload, made.state) == ("price-again", Cart, CartState)
    assert (made.then, made.inbox, made.retry) == (("confirm",), Queue("carts"), RetryPolicy(attempts=2))
    assert define(Price, body={}, name="price-last", then=()).then == ()


def test_a_derived_stage_needs_a_name_of_its_own() -> None:
    (problem,) = problems(Price, body={})
    assert problem.startswith("it has no name")


# -- mistakes, each with its fix -------------------------------------------------------------------------------------

OPEN = TypeVar("OPEN", bound=BaseModel)
Untyped: Any = Stage
"""A type checker refuses most of what follows; not everybody has one."""


@pytest.mark.parametrize(
    ("bases", "options", "told"),
    [
        ((), {}, 'it has no name; messages carry it, so give one: class …(Stage[…], name="price-cart")'),
        ((), {"name": ""}, 'it has no name; messages carry it, so give one: class …(Stage[…], name="price-cart")'),
        *[
            ((), {"name": name}, f"its name {name!r} must be 1 to 64 of: a-z, A-Z, 0-9, '-', '_'")
            for name in ("price cart", "price/cart", "price.cart", "prüfen", "a\n", "x" * 65)
        ],
        (
            (Stage,),
            {"name": "made"},
            "it does not say what it takes; write Stage[YourModel], Stage[dict[str, Any]] or Stage[str]",
        ),
        ((Untyped[int],), {"name": "made"}, "its payload type <class 'int'> is none of: a pydantic model, dict, str"),
        (
            (Untyped[list[Cart]],),
            {"name": "made"},
            "list[tests.test_stage.Cart] is none of: a pydantic model",
        ),
        ((Untyped["Cart"],), {"name": "made"}, "its payload type ForwardRef('Cart') is none of"),
        (
            (Untyped[OPEN],),
            {"name": "made"},
            "it has a name but leaves its payload type ~OPEN open; choose one: Base[YourModel]",
        ),
        ((Untyped[Cart, OPEN],), {"name": "made"}, "it has a name but leaves its state type ~OPEN open; choose one"),
        ((Untyped[Cart, dict],), {"name": "made"}, "its state type <class 'dict'> is no pydantic model"),
        (
            (Untyped[Cart, Unstartable],),
            {"name": "made"},
            "its state Unstartable cannot start empty; give a default to: total, lines",
        ),
        (
            (Untyped[Cart, Hiding],),
            {"name": "made"},
            "its state Hiding would not be read as it is written: Hiding.card, Hiding.note (a secret, or "
            "exclude=True); a secret does not travel: carry what it is called",
        ),
        (
            (),
            {"name": "made", "inbox": Function("f")},
            "its inbox lambda:f is no queue or topic; a stage reads from SQS, SNS→SQS or a direct invocation",
        ),
        ((), {"name": "made", "timeout": timedelta(0)}, "timeout is 0:00:00; it must be positive"),
        ((), {"name": "made", "retry": RetryPolicy(attempts=0)}, "retry.attempts is 0; it counts the first attempt"),
        ((), {"name": "made", "retry": RetryPolicy(jitter=2)}, "retry.jitter is 2; it is a share between 0 and 1"),
        ((), {"name": "made", "retry": RetryPolicy(backoff=Fixed(-1))}, "asks for a negative delay"),
        ((), {"name": "made", "abstract": True}, "it says abstract=True and has a name"),
    ],
)
def test_a_mistake_is_told_with_its_cure(bases: tuple[Any, ...], options: dict[str, Any], told: str) -> None:
    (problem,) = problems(*bases, **options)
    assert told in problem


def test_a_stage_without_handle_is_no_stage() -> None:
    assert problems(body={}, name="made") == (
        "it has no handle(…); write one, or say abstract=True if it is a base class",
    )


def test_a_stage_that_leaves_out_what_its_base_asks_for_is_no_stage() -> None:
    assert problems(CartOnlyStage, body={}, name="made") == (
        "it has no work(…); write one, or say abstract=True if it is a base class",
    )


def test_a_stage_is_made_without_arguments() -> None:
    def init(self: object, gateway: object, retries: int = 3, *, region: str) -> None: ...

    (problem,) = problems(body={"handle": handle, "__init__": init}, name="made")
    assert problem.startswith("its __init__ needs gateway, region; a stage is made anew for every message")


def test_an_init_that_needs_nothing_is_fine() -> None:
    def init(self: object, gateway: object = None, *args: object, **options: object) -> None: ...

    assert define(body={"handle": handle, "__init__": init}, name="made").name == "made"


def test_all_mistakes_of_a_stage_are_told_at_once() -> None:
    found = problems(
        Untyped[int, Unstartable],
        body={},
        name="no good",
        inbox=Function("f"),
        timeout=timedelta(seconds=-1),
        retry=RetryPolicy(attempts=0, jitter=-1, max_delay=timedelta(days=15)),
    )
    assert len(found) == 9
    assert "\n  - its name 'no good'" in str(DefinitionError("stage Made", found))
