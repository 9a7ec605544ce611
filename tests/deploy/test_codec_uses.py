"""What roles may do with the keys of codecs: each for its flows, and no more."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from flowguard.cli.iac import FORMATS
from flowguard.deploy.arns import codec_key_arn, statements_of
from flowguard.deploy.audit import audited
from flowguard.deploy.codec_uses import alias_of, asked_codec_notes, flows_that_encrypt
from flowguard.deploy.finding import Severity
from flowguard.deploy.foreign_policies import policies_of_others
from flowguard.deploy.key_policy import key_policies, key_policy, keys_of
from flowguard.deploy.needs import Deployment, Permission, Target
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.problems import CannotDeploy
from tests.deploy.exercised import needs
from tests.deploy.planned.looked import findings, made, read
from tests.deploy.sealing import THEIRS
from tests.deploy.stated import stated

BOTH = ("kms:Decrypt", "kms:GenerateDataKey")
FLOW = "kms:EncryptionContext:flowguard-flow"
ENVIRONMENT = "kms:EncryptionContext:flowguard-environment"


def deployment() -> Deployment:
    return needs("tests.deploy.sealing")


def may(function: str) -> set[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    [found] = [each for each in deployment().functions if each.name == function]
    return {(one.name, one.actions, one.via) for one in found.permissions if one.on is Target.CODEC_KEY}


def test_a_function_seals_and_opens_for_its_own_flow() -> None:
    assert may("picks-pick") == {(THEIRS, BOTH, ("picks",))}


def test_a_flow_that_asks_another_seals_its_request_and_opens_its_answer_by_keys_of_its_own() -> None:
    assert may("shop") == {
        ("alias/shop", ("kms:GenerateDataKey",), ("shop",)),
        ("alias/shop", ("kms:Decrypt",), ("picks", "shop")),
        ("alias/shop-2025", ("kms:Decrypt",), ("picks", "shop")),
        (THEIRS, ("kms:GenerateDataKey",), ("picks",)),
        (THEIRS, ("kms:Decrypt",), ("picks", "shop")),
    }


def test_the_answer_of_a_flow_without_a_codec_is_not_opened() -> None:
    assert may("asks-ask") == {("alias/asks", BOTH, ("asks",))}


def test_a_codec_without_keys_needs_none() -> None:
    assert may("leans-lean") == set()


def test_the_flows_that_encrypt_are_those_with_such_a_codec() -> None:
    named = [*flows_that_encrypt([function.definition for function in needs("tests.deploy.sealing").functions])]
    assert named == ["asks", "picks", "shop"], "one compresses, and one has none"


@pytest.mark.parametrize("form", FORMATS)
def test_each_template_says_for_which_flows_and_by_which_alias(form: str) -> None:
    facts = stated(json.loads(FORMATS[form](deployment(), DeployOptions())))
    [statements] = [
        fact["Policy"]["Statement"] for (kind, name), fact in facts.items() if kind == "role" and name == "shop"
    ]
    said = [one for one in statements if any(action.startswith("kms:") for action in as_list(one["Action"]))]
    for_shop = [one for one in said if as_list(one["Action"]) == ["kms:GenerateDataKey"] and "Alias" in json.dumps(one)]
    assert [one["Condition"] for one in for_shop] == [
        {"StringEquals": {FLOW: ["shop"], ENVIRONMENT: "*", "kms:RequestAlias": "alias/shop"}}
    ]
    assert ":key/*" in json.dumps(for_shop)
    theirs = [one for one in said if THEIRS in json.dumps(one)]
    assert all("kms:RequestAlias" not in json.dumps(one) for one in theirs)
    assert {tuple(one["Condition"]["StringEquals"][FLOW]) for one in theirs} == {("picks",), ("picks", "shop")}


@pytest.mark.parametrize("form", FORMATS)
def test_a_role_uses_a_key_for_its_own_environment_alone(form: str) -> None:
    options = DeployOptions.model_validate({"settings": {"names": "dev-*"}})
    facts = stated(json.loads(FORMATS[form](needs("tests.deploy.sealing", options=options), options)))
    conditions = [
        one["Condition"]["StringEquals"]
        for (kind, _), fact in facts.items()
        if kind == "role"
        for one in fact["Policy"]["Statement"]
        if FLOW in one.get("Condition", {}).get("StringEquals", {})
    ]
    assert conditions
    assert {each[ENVIRONMENT] for each in conditions} == {"dev-*"}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def test_the_doctor_asks_whether_a_role_may_for_the_flow() -> None:
    needed = deployment()
    [function] = [each for each in needed.functions if each.name == "picks-pick"]
    [statement] = [one for one in statements_of(needed, function) if one.flows]
    lacking = {"kms:ViaService": None, "kms:RequestAlias": None}
    assert [*statement.contexts("1" * 12)] == [{FLOW: "picks", ENVIRONMENT: "*", **lacking}]
    assert [arn.filled("aws", "eu-west-1", "1" * 12) for arn in statement.arns] == [THEIRS]


@pytest.mark.parametrize(
    ("key", "alias", "arn"),
    [
        ("alias/shop", "alias/shop", "arn:aws:kms:eu-west-1:111111111111:key/*"),
        ("arn:aws:kms:eu-north-1:222222222222:alias/shop", "alias/shop", "arn:aws:kms:eu-north-1:222222222222:key/*"),
        ("1f0c", None, "arn:aws:kms:eu-west-1:111111111111:key/1f0c"),
        (THEIRS, None, THEIRS),
    ],
)
def test_an_alias_is_a_condition_and_a_key_a_resource(key: str, alias: str | None, arn: str) -> None:
    assert alias_of(key) == alias
    assert codec_key_arn(key).filled("aws", "eu-west-1", "1" * 12) == arn


@pytest.mark.parametrize(
    ("key", "more"),
    [
        (THEIRS, {}),
        ("arn:aws:kms:eu-north-1:222222222222:alias/shop", {"kms:RequestAlias": "alias/shop"}),
        ("alias/shop", None),
        ("1f0c:key/", None),
        ("arn:aws:kms:eu-west-1:111111111111:key/1f0c", None),
    ],
)
def test_the_owner_of_a_key_elsewhere_lets_functions_use_it_for_their_flows(
    key: str, more: dict[str, str] | None
) -> None:
    [function] = [each for each in deployment().functions if each.name == "picks-pick"]
    permission = Permission(Target.CODEC_KEY.value, key, BOTH, ("picks",))
    needed = replace(deployment(), functions=(replace(function, permissions=(permission,)),))
    options = DeployOptions(account="1" * 12)
    found = json.loads(policies_of_others(needed, options))
    if more is None:
        assert found == {}
        return
    [statement] = found[key]["Statement"]
    assert statement == {
        "Sid": "Codecs",
        "Effect": "Allow",
        "Principal": {"AWS": "arn:aws:iam::111111111111:root"},
        "Action": [*BOTH],
        "Resource": "*",
        "Condition": {"StringEquals": {FLOW: ["picks"], ENVIRONMENT: "*", **more}},
    }


def of_codecs(needed: Deployment, key: str, **given: Any) -> list[dict[str, Any]]:
    options = DeployOptions.model_validate(given)
    statements = json.loads(key_policies(needed, options))[key]["Statement"]
    return [each for each in statements if "Codecs" in each["Sid"]]


def test_the_policy_of_a_codecs_key_lets_roles_use_it_for_their_flows_in_their_environment() -> None:
    both, opening = of_codecs(deployment(), THEIRS, account="111111111111")
    assert both == {
        "Sid": "Codecs",
        "Effect": "Allow",
        "Principal": {"AWS": "arn:aws:iam::111111111111:root"},
        "Action": [*BOTH],
        "Resource": "*",
        "Condition": {"StringEquals": {FLOW: ["picks"], ENVIRONMENT: "*"}},
    }
    assert (opening["Sid"], opening["Action"]) == ("Codecs1", ["kms:Decrypt"])
    assert opening["Condition"] == {"StringEquals": {FLOW: ["picks", "shop"], ENVIRONMENT: "*"}}
    named = needs("tests.deploy.sealing", options=DeployOptions.model_validate({"settings": {"names": "test-*"}}))
    assert of_codecs(named, THEIRS)[0]["Condition"]["StringEquals"][ENVIRONMENT] == "test-*"


def test_the_policy_of_a_key_has_what_the_codec_does_that_names_it_by_its_id() -> None:
    key = "arn:aws:kms:eu-west-1:111111111111:key/1f0c"
    [function] = [each for each in deployment().functions if each.name == "picks-pick"]
    for name, is_it in (("1f0c", True), (key, True), ("1f0d", False), ("alias/shop", False)):
        permission = Permission(Target.CODEC_KEY.value, name, BOTH, ("picks",))
        needed = replace(deployment(), functions=(replace(function, permissions=(permission,)),))
        assert ("Codecs" in {each["Sid"] for each in key_policy(needed, key, DeployOptions())["Statement"]}) == is_it
        assert (key in keys_of(needed, DeployOptions())) == (name == key)


def test_the_audit_says_for_which_flows_a_key_is_used() -> None:
    text = audited(deployment(), DeployOptions())
    assert f"codec key {THEIRS}: kms:Decrypt, kms:GenerateDataKey for picks" in text


# -- answers of flows with other codecs

ANSWERS = "tests.deploy.sealed_answers"
PARKED = "an answer that is not opened is parked, and the wait goes on to its deadline without it"


def noted(flow: str) -> list[str]:
    return [each for each in needs(f"{ANSWERS}:{flow}").notes if f"{flow} asks " in each]


@pytest.mark.parametrize("flow", ["names", "alike"])
def test_a_flow_that_names_the_key_of_the_one_that_it_asks_or_has_a_codec_like_its_is_not_noted(flow: str) -> None:
    assert noted(flow) == []


@pytest.mark.parametrize("flow", ["lacks", "lacks-too"])
def test_a_key_that_the_asking_flow_does_not_name_is_noted(flow: str) -> None:
    what = f"no key in opens= of {flow} is called 'alias/labs', which seals the answer"
    fix = "add 'alias/labs' to it, unless the same key is there by another name"
    assert noted(flow) == [f"{flow} asks labs, and {what}: {PARKED}; {fix}"]


def test_of_a_codec_of_a_users_nobody_knows_what_it_opens() -> None:
    what = "Encrypted seals the answer, which Traced is to open"
    assert noted("unknown") == [f"unknown asks labs, and {what}: {PARKED}; see in a test that it does"]
    assert [*asked_codec_notes(deployment().flows)] == []


@pytest.mark.parametrize(
    ("flow", "why"),
    [
        ("lean", "labs seals its answer by Encrypted, and lean opens by Compressed; give lean one that"),
        ("bare", "labs has a codec, which seals its answer, and bare has none; give bare one that"),
    ],
)
def test_what_will_never_open_the_answer_is_not_deployed(flow: str, why: str) -> None:
    with pytest.raises(CannotDeploy, match=f"{flow} asks labs: {why} opens what labs seals"):
        needs(f"{ANSWERS}:{flow}")


@pytest.mark.parametrize(("flow", "rules"), [("lacks", ["answer-sealed"]), ("names", [])])
def test_the_doctor_notes_it_too(flow: str, rules: list[str]) -> None:
    options = DeployOptions()
    text, needed = made(f"{ANSWERS}:{flow}", options, "cloudformation")
    found = [each for each in findings(read(text, "cloudformation"), needed, options) if "asks labs" in each.what]
    assert [(each.rule, each.severity, each.resource) for each in found] == [
        (rule, Severity.NOTE, "lacks") for rule in rules
    ]
