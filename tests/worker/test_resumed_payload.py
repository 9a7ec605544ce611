"""The payload of a resumed stage: the answers by name, and failures where its fields take them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, field_validator, model_validator

from flowguard.errors import OtherRelease, RunFailed
from flowguard.failed import Failed
from flowguard.group import GroupEnd
from flowguard.outcome import Done, Outcome
from flowguard.protocol.groups import GroupPlan
from flowguard.protocol.run_orders import failed_answer
from flowguard.protocol.waiting import GivenAnswer, Wait, WaitPlan
from flowguard.stage import AnyStage, Stage
from flowguard.step import Step
from flowguard.worker.resumed_payload import admits_failed, check_answer, fields_of, resumed_payload


class Hits(BaseModel):
    hits: int


class Answers(BaseModel):
    needed: Hits
    either: Hits | Failed
    maybe: Hits | None = None


class Aliased(BaseModel):
    first: int = Field(alias="firstName")
    second: int = Field(validation_alias="secondName")
    third: int = Field(validation_alias=AliasChoices("thirdName", "number3"))  # type: ignore[pydantic-alias]  # the plugin wants fixed names


class Kinds(BaseModel):
    plain: int
    union: int | Failed
    optional: Optional[Failed] = None  # noqa: UP045 - the older way to write it
    annotated: Annotated[int | Failed, Field(description="…")]
    nested: list[Failed] = []


class Confirm(Stage[Answers], name="confirm"):
    def handle(self, payload: Answers, step: Step) -> Outcome:
        return Done()


class Other(Stage[Answers], name="other"):
    def handle(self, payload: Answers, step: Step) -> Outcome:
        return Done()


class ByAlias(Stage[Aliased], name="by-alias"):
    def handle(self, payload: Aliased, step: Step) -> Outcome:
        return Done()


class OfKinds(Stage[Kinds], name="kinds"):
    def handle(self, payload: Kinds, step: Step) -> Outcome:
        return Done()


class Anything(Stage[dict[str, Any]], name="anything"):
    def handle(self, payload: dict[str, Any], step: Step) -> Outcome:
        return Done()


class Loose(BaseModel):
    model_config = ConfigDict(extra="ignore")

    text: str = ""


class Taken(BaseModel):
    loose: Annotated[Loose | Failed, Field(union_mode="left_to_right")]


class Loosely(Stage[Taken], name="loosely"):
    def handle(self, payload: Taken, step: Step) -> Outcome:
        return Done()


class Fits(BaseModel):
    needed: Hits

    @model_validator(mode="after")
    def fits(self) -> Fits:
        raise ValueError("they do not fit")


class Fitting(Stage[Fits], name="fitting"):
    def handle(self, payload: Fits, step: Step) -> Outcome:
        return Done()


NAMES = ("needed", "either", "maybe")
ONE = GivenAnswer('{"hits":1}')
DOWN = failed_answer("Down", "at noon")


def wait(names: tuple[str, ...] = NAMES, *, spare: int = 0, timed_out: bool = False, **given: Any) -> Wait:
    answers: dict[str, GivenAnswer] = given
    plan = WaitPlan("confirm", dict.fromkeys(names))
    left = frozenset(names) - answers.keys()
    return Wait(left, spare, 0, timed_out, answered=frozenset(answers), answers=answers, plan=plan)


def test_answers_become_fields() -> None:
    payload = resumed_payload(Confirm, wait(needed=ONE, either=ONE, maybe=ONE))
    assert payload == Answers(needed=Hits(hits=1), either=Hits(hits=1), maybe=Hits(hits=1))


def test_what_has_no_answer_is_left_out() -> None:
    payload = resumed_payload(Confirm, wait(needed=ONE, either=ONE, spare=1))
    assert payload == Answers(needed=Hits(hits=1), either=Hits(hits=1))


def test_a_failure_goes_where_its_field_takes_it() -> None:
    payload = resumed_payload(Confirm, wait(needed=ONE, either=DOWN, maybe=ONE))
    assert payload.either == Failed(type="Down", text="at noon")


def test_a_failure_that_is_not_needed_is_left_out_of_a_wait_that_was_answered() -> None:
    payload = resumed_payload(Confirm, wait(needed=ONE, either=ONE, maybe=DOWN, spare=0))
    assert payload.maybe is None


@pytest.mark.parametrize("stage", [Confirm, Other])
def test_a_failure_that_a_field_needs_fails_the_run(stage: type[Confirm | Other]) -> None:
    with pytest.raises(RunFailed, match="needed failed: Down: at noon"):
        resumed_payload(stage, wait(needed=DOWN, either=ONE, spare=-1))


def test_too_many_failures_fail_the_run_where_no_other_stage_takes_them() -> None:
    failed = wait(needed=ONE, either=ONE, maybe=DOWN, spare=-1)
    with pytest.raises(RunFailed, match="maybe failed: Down: at noon"):
        resumed_payload(Confirm, failed)
    assert resumed_payload(Other, failed) == Answers(needed=Hits(hits=1), either=Hits(hits=1))


def test_a_timeout_is_a_failure_of_what_has_no_answer() -> None:
    late = Failed(type="TimedOut", text="no answer came in time")
    for stage in (Confirm, Other):
        payload = resumed_payload(stage, wait(needed=ONE, timed_out=True))
        assert payload == Answers(needed=Hits(hits=1), either=late)
        with pytest.raises(RunFailed, match="no answer to needed came in time"):
            resumed_payload(stage, wait(either=ONE, maybe=ONE, timed_out=True))


def test_a_stage_that_takes_anything_gets_every_answer_and_failure() -> None:
    odd: dict[str, Any] = {"odd name": ONE, "é": DOWN}
    payload = resumed_payload(Anything, wait(("odd name", "é", "late"), timed_out=True, **odd))
    assert payload == {
        "odd name": {"hits": 1},
        "é": {"failed": True, "type": "Down", "text": "at noon"},
        "late": {"failed": True, "type": "TimedOut", "text": "no answer came in time"},
    }


def test_a_name_without_a_field_is_left_out_of_another_stage() -> None:
    payload = resumed_payload(Other, wait((*NAMES, "more"), needed=ONE, either=ONE, more=ONE, maybe=ONE))
    assert payload == Answers(needed=Hits(hits=1), either=Hits(hits=1), maybe=Hits(hits=1))


def test_fields_are_read_under_their_aliases() -> None:
    names = ("first", "second", "third")
    answers: dict[str, Any] = {name: GivenAnswer(str(number)) for number, name in enumerate(names)}
    payload = resumed_payload(ByAlias, wait(names, **answers))
    assert [payload.first, payload.second, payload.third] == [0, 1, 2]


@pytest.mark.parametrize("text", ['{"hits":"many"}', "[]", "null", '"' + "x" * 10_000 + '"', '{"hits":1e999}'])
def test_an_answer_that_is_no_such_thing_is_of_another_release_and_not_quoted(text: str) -> None:
    with pytest.raises(OtherRelease, match="confirm cannot read what it waited for: needed") as refused:
        resumed_payload(Confirm, wait(needed=GivenAnswer(text), either=ONE, maybe=ONE))
    assert "xxx" not in str(refused.value)
    assert "many" not in str(refused.value)


def test_a_stage_that_needs_more_than_was_asked_for_is_of_another_release() -> None:
    with pytest.raises(OtherRelease, match="confirm needs either, which this wait has not asked for"):
        resumed_payload(Confirm, wait(("needed", "maybe"), needed=ONE))


@pytest.mark.parametrize("awaited_id", [None, "order/7"], ids=["of another flow", "from outside"])
def test_who_cannot_read_an_answer_is_of_another_release(awaited_id: str | None) -> None:
    came = wait(("needed", "either"), needed=GivenAnswer('{"hits":"many"}'), either=ONE)
    assert came.plan is not None
    changed = came._replace(plan=came.plan._replace(names={**came.plan.names, "needed": awaited_id}))
    with pytest.raises(OtherRelease, match=r"confirm cannot read what it waited for: needed\.hits: Input should be"):
        resumed_payload(Confirm, changed)


def test_what_the_answers_are_together_is_wrong_with_the_run() -> None:
    with pytest.raises(RunFailed, match="they do not fit") as refused:
        resumed_payload(Fitting, wait(("needed",), needed=ONE))
    assert not isinstance(refused.value, OtherRelease)


def test_a_failure_is_never_taken_for_an_answer() -> None:
    """The first type of the field reads it, too."""
    assert resumed_payload(Loosely, wait(("loose",), loose=DOWN)).loose == Failed(type="Down", text="at noon")
    assert resumed_payload(Loosely, wait(("loose",), timed_out=True)).loose.type == "TimedOut"
    answered = resumed_payload(Loosely, wait(("loose",), loose=GivenAnswer('{"text":"x"}')))
    assert answered == Taken(loose=Loose(text="x"))


def test_a_run_without_a_wait_says_so() -> None:
    for none in (None, wait(needed=ONE)._replace(plan=None)):
        with pytest.raises(RunFailed, match="'confirm' was to go on after a wait, and the run item holds none"):
            resumed_payload(Confirm, none)


def test_which_fields_take_a_failure() -> None:
    fields = fields_of(OfKinds)
    assert fields is not None
    assert {name for name in fields if admits_failed(OfKinds, name)} == {"union", "optional", "annotated"}
    assert not admits_failed(OfKinds, "unknown")
    assert admits_failed(Anything, "unknown")
    assert fields_of(Anything) is None


@pytest.mark.parametrize("text", ["", "x" * 100_000, "\ud800", "\x00\x07", '"}{"', "\ufffe"])
def test_hostile_texts_of_an_error_come_through_or_are_cut(text: str) -> None:
    given = failed_answer(text, text)
    assert len(given.text.encode()) < 20_000
    found = resumed_payload(Anything, wait(("a",), a=given))["a"]
    assert text.encode("utf-8", "backslashreplace").decode().startswith(found["text"][:50])


# -- an answer is checked before it is kept ----------------------------------------------------------------------------


class Picky(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def broken(cls, value: int) -> int:
        if value == 13:
            raise RuntimeError("a validator with a bug")
        return value


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class Picked(BaseModel):
    picky: Picky
    short: str = Field(default="", max_length=3)
    euros: int = 0
    animal: Annotated[Cat | Dog, Field(discriminator="kind")] = Cat(kind="cat")
    named: Annotated[int, Field(gt=0, validation_alias="firstName")] = 1
    either: Annotated[int, Field(gt=0)] | Failed = 1

    @field_validator("euros", mode="before")
    @classmethod
    def of_text(cls, value: object) -> object:
        return value.removesuffix(" EUR") if isinstance(value, str) else value


class Whole(BaseModel):
    """Its validator needs every answer."""

    a: list[int]
    b: int

    @model_validator(mode="before")
    @classmethod
    def both(cls, found: dict[str, Any]) -> dict[str, Any]:
        return {"a": found["a"], "b": found["b"]}


class Together(BaseModel):
    """Its validator says that answers are missing."""

    a: int

    @model_validator(mode="before")
    @classmethod
    def all_there(cls, found: dict[str, Any]) -> dict[str, Any]:
        if "b" not in found:
            raise ValueError("b is not there")
        return found


class AllTogether(Stage[Together], name="all-together"):
    def handle(self, together: Together, step: Step) -> Outcome:
        return Done()


class Wholly(Stage[Whole], name="wholly"):
    def handle(self, whole: Whole, step: Step) -> Outcome:
        return Done()


class Picks(Stage[Picked], name="picks"):
    def handle(self, picked: Picked, step: Step) -> Outcome:
        return Done()


def test_an_answer_that_its_field_cannot_read_is_named_without_its_value() -> None:
    with pytest.raises(RunFailed, match=r"^picky\.number: Input should be a valid integer") as refused:
        check_answer(Picks, "picky", GivenAnswer('{"number":"secret"}'))
    assert "secret" not in str(refused.value)
    with pytest.raises(RunFailed, match=r"^picky: Input should be"):
        check_answer(Picks, "picky", GivenAnswer("7"))


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("short", '"secret"', "short: String should have at most 3 characters"),
        ("animal", '{"kind":"secret"}', "animal: is of an unknown kind"),
        ("named", "0", "named: Input should be greater than 0"),
        ("either", "-1", "either.constrained-int: Input should be greater than 0"),
        ("euros", '"secret EUR"', "euros: Input should be a valid integer"),
    ],
)
def test_an_answer_is_held_to_all_that_its_field_says(name: str, text: str, problem: str) -> None:
    with pytest.raises(RunFailed, match=problem) as refused:
        check_answer(Picks, name, GivenAnswer(text))
    assert "secret" not in str(refused.value)


def test_a_model_whose_validator_needs_every_answer_leaves_it_to_the_types() -> None:
    check_answer(Wholly, "a", GivenAnswer("[7]"))
    with pytest.raises(RunFailed, match=r"^a\.1: Input should be a valid integer"):
        check_answer(Wholly, "a", GivenAnswer('[1,"x"]'))
    check_answer(AllTogether, "a", GivenAnswer("7"))


@pytest.mark.parametrize(
    ("stage", "name", "answer"),
    [
        (Picks, "picky", GivenAnswer('{"number":7}')),
        (Picks, "picky", GivenAnswer('{"failed":true}', failed=True)),
        (Picks, "unknown", GivenAnswer('"x"')),
        (Picks, "euros", GivenAnswer('"7 EUR"')),
        (Picks, "named", GivenAnswer("7")),
        (Anything, "picky", GivenAnswer('"x"')),
    ],
)
def test_what_can_be_read_or_is_read_later_passes(stage: AnyStage, name: str, answer: GivenAnswer) -> None:
    check_answer(stage, name, answer)


def test_an_error_of_a_validators_own_is_not_taken_for_a_bad_answer() -> None:
    with pytest.raises(RuntimeError, match="a validator with a bug"):
        check_answer(Picks, "picky", GivenAnswer('{"number":13}'))


class Groupless(BaseModel):
    """It has defaults alone, so that pydantic reads the end of a group as one."""

    hits: int = 0


class AfterGroup(Stage[GroupEnd], name="after-group"):
    def handle(self, payload: GroupEnd, step: Step) -> Outcome:
        return Done()


class AfterOne(Stage[Groupless], name="after-one"):
    def handle(self, payload: Groupless, step: Step) -> Outcome:
        return Done()


def test_a_stage_that_takes_no_group_any_more_is_of_another_release() -> None:
    wait = Wait(frozenset(), 0, 0, plan=WaitPlan("after", {}, group=GroupPlan("key", 3, "sqs:shops", 0)))
    assert resumed_payload(AfterGroup, wait) == GroupEnd(requests=3)
    with pytest.raises(OtherRelease, match="after-one takes Groupless, and its run has waited for a group"):
        resumed_payload(AfterOne, wait)
