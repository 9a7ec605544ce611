"""``flowguard doctor`` on roles that may use a key for some of what they need it for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import pytest
from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step, lambda_handler
from flowguard.codecs import Encrypted
from flowguard.deploy.codec_uses import ALIAS, FLOW, OF_ENVIRONMENT
from flowguard.deploy.function_checks import check_functions
from flowguard.deploy.live import LiveAccount
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.planned.account import PlannedAccount
from flowguard.sim.calls import intercept
from tests.deploy.planned.looked import findings, made, read
from tests.deploy.test_doctor import SESSION, Refusing

KEY: Final = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
CODEC: Final = "arn:aws:kms:eu-west-1:123456789012:key/5678abcd-12ab-34cd-56ef-1234567890ab"
OPTIONS: Final = DeployOptions.model_validate({"kms_key": KEY, "settings": {"bucket": "long-texts"}})
FORMS: Final = ["cloudformation", "terraform-json"]
THROUGH_SQS: Final = "sqs.eu-west-1.amazonaws.com"


class Part(BaseModel):
    part_id: str


class Saw(Stage[Part], name="saw"):
    def handle(self, part: Part, step: Step) -> Outcome:
        return Done()


class Glue(Stage[Part], name="glue"):
    def handle(self, part: Part, step: Step) -> Outcome:
        return Done()


class Paint(Stage[Part], name="paint"):
    def handle(self, part: Part, step: Step) -> Outcome:
        return Done()


class Saws(Flow, name="saws", object_id="part_id", codec=Encrypted(CODEC)):
    stages = (Saw,)


class Glues(Flow, name="glues", object_id="part_id", codec=Encrypted(CODEC)):
    stages = (Glue,)


class Paints(Flow, name="paints", object_id="part_id", codec=Encrypted("alias/paints")):
    stages = (Paint,)


work = lambda_handler(Saws, Glues)
paint = lambda_handler(Paints)


def without(text: str, value: str) -> str:
    """The text of a file in whose lists the value does not stand. Policies may be texts in it."""

    def left(part: Any) -> Any:
        if isinstance(part, dict):
            return {name: left(each) for name, each in part.items()}
        if isinstance(part, list):
            return [left(each) for each in part if each != value]
        return json.dumps(left(json.loads(part))) if isinstance(part, str) and part.startswith('{"') else part

    return json.dumps(left(json.loads(text)))


def missing(form: str, value: str | None = None) -> list[tuple[str, str]]:
    text, needed = made(__name__, OPTIONS, form)
    changed = text if value is None else without(text, value)
    looked = findings(read(changed, form), needed, OPTIONS)
    assert not [each for each in looked if each.rule == "not-looked-at" and "role" in each.resource.lower()]
    return [(each.resource, each.what) for each in looked if each.rule == "permission-missing"]


@pytest.mark.parametrize("form", FORMS)
def test_what_the_template_allows_is_no_finding(form: str) -> None:
    assert missing(form) == []


@pytest.mark.parametrize("form", FORMS)
def test_a_service_through_which_a_role_may_not_use_the_key_is_found(form: str) -> None:
    looked = missing(form, THROUGH_SQS)
    of_alias = "the statement by alias is of any key, and for requests of a codec alone"
    assert {function for function, _ in looked} >= {"saws-work", "paints-paint"}, of_alias
    assert all(what.endswith(f"on {KEY}, through {THROUGH_SQS}") for _, what in looked)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("flow", ["saws", "glues"])
def test_a_flow_for_which_a_role_may_not_use_the_key_of_its_codec_is_found(form: str, flow: str) -> None:
    assert missing(form, flow) == [
        ("saws-work", f"its role may not kms:Decrypt, kms:GenerateDataKey on {CODEC}, for the flows {flow}")
    ]


class Simulated(PlannedAccount):
    """A file whose roles may what IAM says."""

    def denied(
        self, role: str, actions: list[str], resource: str, context: Mapping[str, str | None] | None = None
    ) -> list[str]:
        return LiveAccount(SESSION).denied(role, actions, resource, context) or []


def test_aws_is_asked_for_each_service_and_each_flow() -> None:
    asked: list[tuple[str, frozenset[str]]] = []

    def answer(params: Any) -> Any:
        values = {each["ContextKeyName"]: each["ContextKeyValues"] for each in params.get("ContextEntries", ())}
        asked.extend((value, frozenset(values)) for [value] in values.values())
        decision = "implicitDeny" if {"glues", THROUGH_SQS} & {each for [each] in values.values()} else "allowed"
        actions = params["ActionNames"]
        return {"EvaluationResults": [{"EvalActionName": each, "EvalDecision": decision} for each in actions]}

    text, needed = made(__name__, OPTIONS, "cloudformation")
    live = Simulated(read(text, "cloudformation"), needed)
    with intercept(Refusing("SimulatePrincipalPolicy", answer=answer)):
        looked = {each.what for each in check_functions(needed, live) if each.rule == "permission-missing"}
    may_not = "its role may not kms:Decrypt, kms:GenerateDataKey on"
    assert looked == {f"{may_not} {CODEC}, for the flows glues", f"{may_not} {KEY}, through {THROUGH_SQS}"}
    of_codec = frozenset({FLOW, OF_ENVIRONMENT})
    assert {("saws", of_codec), ("glues", of_codec), ("paints", of_codec | {ALIAS})} <= {*asked}
    assert {keys for value, keys in asked if value.endswith(".amazonaws.com")} == {frozenset({"kms:ViaService"})}
