"""Who may send to a queue of answers, by its policy in each template. No engine in the process asks for it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import pytest

from flowguard.cli.iac import FORMATS
from flowguard.deploy.needs import Role
from flowguard.deploy.options import DeployOptions
from tests.deploy.exercised import needs
from tests.deploy.templates import MODULES, options_of, template

ACCOUNT, ANOTHER = "123456789012", "210987654321"

SENDERS: Final[Mapping[str, Mapping[str, set[str]]]] = {
    "nightly_recount": {"recount-night": {"count-shop-count-stock", "recount-night-ask-shops"}},
    "page_cache": {"search-cache": set()},
    "validate_cart": {"validate-cart": {"validate-cart-answers", "validate-cart-price-cart"}},
    "everything": {
        "everything": {"everything-answers", "everything-answers-url", "everything-killed", "everything-pack"}
    },
}
"""The functions that may send to each queue of answers that is no inbox: who asks, who is asked, who answers."""

SCHEDULED: Final = {"everything"}
"""Those to which the scheduler sends deadlines."""


# -- what AWS makes of a policy ---------------------------------------------------------------------------------------


class Sending(NamedTuple):
    """A request to send. ``role`` is the ARN of its principal; a service has none, and says its ``source``."""

    role: Any = None
    service: str | None = None
    source: Any = None
    account: str = ACCOUNT

    def may_send(self, policy: Any, queue: Any) -> bool:
        """Whether the queue takes it, of somebody whose identity's policy allows everything."""
        said = [one["Effect"] for one in policy["Statement"] if self._is_meant(one, queue)]
        by_itself = self.service is None and self.account == ACCOUNT
        return "Deny" not in said and ("Allow" in said or by_itself)

    def _is_meant(self, statement: Any, queue: Any) -> bool:
        here = statement["Action"] == "sqs:SendMessage" and same(statement["Resource"], queue)
        principal = statement["Principal"]
        who = principal == "*" or (isinstance(principal, dict) and principal == {"Service": self.service})
        return here and who and all(self._holds(*one) for one in statement.get("Condition", {}).items())

    def _holds(self, operator: str, keys: Mapping[str, Any]) -> bool:
        context = {"aws:PrincipalArn": self.role, "aws:SourceArn": self.source}
        return all(_compared(operator, context[key], wanted) for key, wanted in keys.items())


def _compared(operator: str, given: Any, wanted: Any) -> bool:
    """One condition. IfExists holds where the request says nothing; of several values a negated one means none."""
    several = wanted if isinstance(wanted, list) else [wanted]
    match operator:
        case "ArnEquals":
            return given is not None and any(same(given, one) for one in several)
        case "ArnNotEqualsIfExists":
            return given is None or not any(same(given, one) for one in several)
        case _:
            raise AssertionError(f"this evaluator does not know {operator}")


def same(one: Any, other: Any) -> bool:
    """Whether two texts or references are the same."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


# -- what the templates say -------------------------------------------------------------------------------------------


class Policy(NamedTuple):
    """A queue's policy, with the reference to the queue's ARN that its statements use."""

    queue: str
    document: Any

    @property
    def arn(self) -> Any:
        return self.document["Statement"][0]["Resource"]


def policies(found: Any) -> Iterator[Policy]:
    if "Resources" in found:
        for resource in found["Resources"].values():
            if resource["Type"] == "AWS::SQS::QueuePolicy":
                [queue] = resource["Properties"]["Queues"]
                name = found["Resources"][queue["Ref"]]["Properties"]["QueueName"]
                yield Policy(name, resource["Properties"]["PolicyDocument"])
        return
    queues = found["resource"].get("aws_sqs_queue", {})
    for one in found["resource"].get("aws_sqs_queue_policy", {}).values():
        key = one["queue_url"].split(".")[1]
        yield Policy(queues[key]["name"], json.loads(one["policy"]))


def roles(found: Any) -> dict[str, Any]:
    """The reference to each function's role."""
    if "Resources" in found:
        made = [one["Properties"] for one in found["Resources"].values()]
        return {one["FunctionName"]: one["Role"] for one in made if "FunctionName" in one and "Role" in one}
    return {one["function_name"]: one["role"] for one in found["resource"]["aws_lambda_function"].values()}


def answers(name: str, form: str) -> dict[str, Policy]:
    return {one.queue: one for one in policies(template(name, form)) if one.queue in SENDERS.get(name, {})}


OF_ALL: Final = pytest.mark.parametrize("form", FORMATS)
EACH: Final = pytest.mark.parametrize("name", MODULES)


@EACH
@OF_ALL
def test_each_queue_of_answers_that_is_no_inbox_has_a_policy(name: str, form: str) -> None:
    needed = needs(MODULES[name], options=options_of(name))
    assert {one.name for one in needed.queues if one.role is Role.ANSWERS} == set(SENDERS.get(name, {}))
    assert set(answers(name, form)) == set(SENDERS.get(name, {}))


@EACH
@OF_ALL
def test_who_asks_who_is_asked_and_who_answers_may_send_and_no_other_function(name: str, form: str) -> None:
    own = roles(template(name, form))
    for queue, policy in answers(name, form).items():
        assert SENDERS[name][queue] <= own.keys()
        may = {one for one, role in own.items() if Sending(role).may_send(policy.document, policy.arn)}
        assert may == SENDERS[name][queue]


STRANGERS: Final[Mapping[str, Sending]] = {
    "another role of the account": Sending(f"arn:aws:iam::{ACCOUNT}:role/shop-website"),
    "an administrator": Sending(f"arn:aws:iam::{ACCOUNT}:role/admin"),
    "a user of the account": Sending(f"arn:aws:iam::{ACCOUNT}:user/ada"),
    "a role of another account": Sending(f"arn:aws:iam::{ANOTHER}:role/shop-website", account=ANOTHER),
    "a topic": Sending(service="sns.amazonaws.com", source=f"arn:aws:sns:eu-west-1:{ACCOUNT}:any"),
    "a rule": Sending(service="events.amazonaws.com", source=f"arn:aws:events:eu-west-1:{ACCOUNT}:rule/any"),
    "a bucket": Sending(service="s3.amazonaws.com", source="arn:aws:s3:::any"),
}


@pytest.mark.parametrize("stranger", STRANGERS)
@pytest.mark.parametrize("name", SENDERS)
@OF_ALL
def test_nobody_else_may_whatever_iam_allows_them(name: str, form: str, stranger: str) -> None:
    for policy in answers(name, form).values():
        sending = STRANGERS[stranger]
        assert not sending.may_send(policy.document, policy.arn)
        open_to_all = {"Statement": [one for one in policy.document["Statement"] if one["Effect"] != "Deny"]}
        by_iam = sending.service is None and sending.account == ACCOUNT
        assert sending.may_send(open_to_all, policy.arn) is by_iam, "the deny is what keeps them out"


@pytest.mark.parametrize("name", SENDERS)
@OF_ALL
def test_the_scheduler_may_send_where_it_brings_deadlines(name: str, form: str) -> None:
    for queue, policy in answers(name, form).items():
        own = roles(template(name, form))
        [deny] = [one for one in policy.document["Statement"] if one["Effect"] == "Deny"]
        allowed = deny["Condition"]["ArnNotEqualsIfExists"]["aws:PrincipalArn"]
        others = [one for one in allowed if not any(same(one, role) for role in own.values())]
        assert len(others) == (queue in SCHEDULED)
        assert all("chedul" in json.dumps(one) for one in others)


@EACH
@OF_ALL
def test_a_topic_or_rule_may_send_to_its_own_queues_alone(name: str, form: str) -> None:
    for policy in policies(template(name, form)):
        for one in policy.document["Statement"]:
            if one["Effect"] == "Allow":
                [(operator, keys)] = one["Condition"].items()
                assert operator == "ArnEquals"
                fed = Sending(service=one["Principal"]["Service"], source=keys["aws:SourceArn"])
                assert fed.may_send(policy.document, policy.arn)
                assert not fed._replace(source="arn:aws:sns:eu-west-1:1:other").may_send(policy.document, policy.arn)
                assert not fed._replace(service="s3.amazonaws.com").may_send(policy.document, policy.arn)


@OF_ALL
def test_a_role_of_another_deployment_may_send_that_the_options_name(form: str) -> None:
    role = f"arn:aws:iam::{ACCOUNT}:role/asked-elsewhere"
    options = DeployOptions.model_validate({"queues": {"validate-cart": {"senders": [role]}}})
    found = json.loads(FORMATS[form](needs(MODULES["validate_cart"], options=options), options))
    [policy] = [one for one in policies(found) if one.queue == "validate-cart"]
    assert Sending(role).may_send(policy.document, policy.arn)
    assert not Sending(f"{role}-2").may_send(policy.document, policy.arn)
