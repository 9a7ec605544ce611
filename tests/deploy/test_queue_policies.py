"""Who may send to each closed queue, by its policy in each template. No engine in the process asks for it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import pytest

from flowguard.cli.iac import FORMATS
from flowguard.deploy.arns import LARGEST_POLICY
from flowguard.deploy.as_json import described
from flowguard.deploy.closed_queues import given_senders
from flowguard.deploy.needs import QueueNeed, Role
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.problems import CannotDeploy
from flowguard.deploy.resource_policies import (
    LARGEST_QUEUE_POLICY,
    ResourcePolicies,
    _but,
    _Longest,
    scheduler_policy,
    size_of,
)
from tests.deploy.exercised import needs
from tests.deploy.templates import MODULES, options_of, template

ACCOUNT, ANOTHER = "123456789012", "210987654321"
PLACE: Final[Mapping[str, Any]] = {"account": ACCOUNT, "region": "eu-west-1"}

SENDERS: Final[Mapping[str, Mapping[str, set[str]]]] = {
    "nightly_recount": {"recount-night": {"count-shop-count-stock", "recount-night-ask-shops"}},
    "page_cache": {"search-cache": set()},
    "validate_cart": {"validate-cart": {"validate-cart-answers", "validate-cart-price-cart"}},
    "everything": {
        "everything": {"everything-answers", "everything-answers-url", "everything-killed", "everything-pack"}
    },
}
"""The functions that may send to each queue of answers that is no inbox: who asks, who is asked, who answers."""

SCHEDULED: Final = {"everything", "ticking"}
"""Those to which the scheduler sends."""

_CART: Final = {f"validate-cart-{one}" for one in ("add-found", "answers", "check-cart", "confirm-cart", "price-cart")}
_CACHE: Final = {f"triggered-cache-{one}" for one in ("build-entry", "collect-parts", "publish-entry")}
_PAYMENT: Final = {f"take-payment-{one}" for one in ("book-payment", "charge-card", "dead-letters")}
_PAGES: Final = {"page-cache-collect-parts", "page-cache-render-page"}
_NIGHT: Final = {"recount-night-add-up", "recount-night-ask-shops"}
_EVERYTHING: Final = {f"everything-{one}" for one in ("answers", "answers-url", "killed", "pack")}

LETTERS: Final[Mapping[str, Mapping[str, set[str]]]] = {
    "answer_ticket": {"answer-ticket-dead-letters": {"answer-ticket", "answer-ticket-answers"}},
    "appointments": {"book-appointment-dead-letters": {"book-appointment-give-appointments"}},
    "approval": {
        "approve-expense-dead-letters": {"approve-expense", "approve-expense-answers-url"},
        "remind-approver-dead-letters": {"remind-approver", "approve-expense-answers"},
    },
    "nightly_recount": {
        "count-shop-dead-letters": {"count-shop-count-stock"},
        "recount-night-dead-letters": _NIGHT,
    },
    "starting": {"shipping-dead-letters": {"shipping-ship"}},
    "ticking": {"reports-dead-letters": {"reports-report"}, "sweeps-dead-letters": {"sweeps-sweep"}},
    "topics": {"accounts-dead-letters": {"accounts-copy"}, "orders-dead-letters": {"orders-place"}},
    "uploading": {"files-dead-letters": {"files-index"}, "scans-dead-letters": {"scans-read"}},
    "streaming": {"changes-dead-letters": {"changes-notice"}, "clicks-dead-letters": {"clicks-count"}},
    "orders": {
        "add-to-order-dead-letters": {"add-to-order"},
        "place-order-dead-letters": {"place-order"},
        "receive-goods-dead-letters": {"receive-goods"},
    },
    "page_cache": {
        "change-source-dead-letters": {"change-source"},
        "page-cache-dead-letters": _PAGES,
        "search-cache-dead-letters": {"search-cache-search"},
    },
    "take_payment": {"take-payment-dead-letters": _PAYMENT},
    "triggered_cache": {"triggered-cache-dead-letters": _CACHE},
    "validate_cart": {"validate-cart-dead-letters": _CART},
    "everything": {
        "everything-dead-letters": {*_EVERYTHING, "everything-ship"},
        "everything-undelivered.fifo": set(),
    },
    "charging": {"charge-dead-letters": set(), "parcels-dead-letters.fifo": set()},
}
"""The functions that may send to each queue of dead letters: those that park them. SQS moves its own there."""

HOPS: Final[Mapping[str, Mapping[str, set[str]]]] = {
    "nightly_recount": {"nights-counted": _NIGHT},
    "page_cache": {"pages-to-render": _PAGES},
    "take_payment": {"payments-to-book": _PAYMENT, "take-payment-killed": set()},
    "triggered_cache": {
        "cache-to-build": _CACHE - {"triggered-cache-publish-entry"},
        "cache-to-publish": _CACHE - {"triggered-cache-collect-parts"},
    },
    "validate_cart": {
        "carts-to-check": {f"validate-cart-{one}" for one in ("add-found", "check-cart", "price-cart")},
        "carts-to-complete": {f"validate-cart-{one}" for one in ("add-found", "answers", "price-cart")},
        "carts-to-confirm": {"validate-cart-check-cart", "validate-cart-confirm-cart"},
    },
    "streaming": {"changes-killed.fifo": set()},
    "everything": {"to-ship.fifo": _EVERYTHING, "everything-killed": set(), "everything-killed.fifo": set()},
}
"""The functions that may send to inboxes that get hops alone, and to queues of killed records."""

OPERATOR: Final = f"arn:aws:iam::{ACCOUNT}:role/on-call"


# -- what AWS makes of a policy ---------------------------------------------------------------------------------------


class Sending(NamedTuple):
    """A request to send. ``role`` is the ARN of its principal; a service has none, and says its ``source``.

    What SQS itself moves says neither.
    """

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
        actions = statement["Action"]
        is_sending = "sqs:SendMessage" in (actions if isinstance(actions, list) else [actions])
        here = is_sending and same(statement["Resource"], queue)
        principal = statement["Principal"]
        account = f"arn:aws:iam::{self.account}:root"
        accounts = principal["AWS"] if isinstance(principal, dict) and "AWS" in principal else []
        named = self.role is not None and account in (accounts if isinstance(accounts, list) else [accounts])
        who = principal in ("*", {"Service": self.service}) or named
        return here and who and all(self._holds(*one) for one in statement.get("Condition", {}).items())

    def _holds(self, operator: str, keys: Mapping[str, Any]) -> bool:
        context = {
            "aws:PrincipalArn": self.role,
            "aws:SourceArn": self.source,
            "aws:PrincipalIsAWSService": "false" if self.role is not None else self.service and "true",
        }
        return all(_compared(operator, context[key], wanted) for key, wanted in keys.items())


def _compared(operator: str, given: Any, wanted: Any) -> bool:
    """One condition. IfExists holds where the request says nothing; of several values a negated one means none."""
    several = wanted if isinstance(wanted, list) else [wanted]
    match operator:
        case "ArnEquals" | "Bool":
            return given is not None and any(same(given, one) for one in several)
        case "ArnNotEqualsIfExists" | "ArnNotEquals":
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


def listed(policy: Policy) -> list[Any]:
    """The roles that a policy's deny leaves out."""
    [deny] = [one for one in policy.document["Statement"] if one["Effect"] == "Deny"]
    compared = [keys for operator, keys in deny.get("Condition", {}).items() if operator.startswith("ArnNotEquals")]
    assert all(keys["aws:PrincipalArn"] for keys in compared), "an empty list of values is no condition to rely on"
    return [role for keys in compared for role in keys["aws:PrincipalArn"]]


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
        others = [one for one in listed(policy) if not any(same(one, role) for role in own.values())]
        assert len(others) == (queue in SCHEDULED)
        assert all("chedul" in json.dumps(one) for one in others)


@EACH
@OF_ALL
def test_a_topic_or_rule_may_send_to_its_own_queues_alone(name: str, form: str) -> None:
    for policy in policies(template(name, form)):
        for one in policy.document["Statement"]:
            if one["Effect"] == "Allow" and one["Principal"].get("Service") not in (None, "s3.amazonaws.com"):
                [(operator, keys)] = one["Condition"].items()
                assert operator == "ArnEquals"
                sources = keys["aws:SourceArn"]
                source = sources[0] if isinstance(sources, list) else sources
                fed = Sending(service=one["Principal"]["Service"], source=source)
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


THEIRS: Final = f"arn:aws:iam::{ANOTHER}:role/teams/asked-elsewhere"


def with_senders(form: str, roles: list[str], **given: Any) -> Policy:
    """The policy of the queue of answers of ``validate_cart`` where the options name roles that send there."""
    options = DeployOptions.model_validate({"queues": {"validate-cart": {"senders": roles}}, **given})
    found = json.loads(FORMATS[form](needs(MODULES["validate_cart"], options=options), options))
    [policy] = [one for one in policies(found) if one.queue == "validate-cart"]
    return policy


@OF_ALL
@pytest.mark.parametrize("given", [{}, {"account": ACCOUNT}])
def test_a_role_of_another_account_may_send_that_the_options_name(form: str, given: dict[str, Any]) -> None:
    """Its own policies have to allow it too: across accounts both do."""
    policy = with_senders(form, [THEIRS], **given)
    sending = Sending(THEIRS, account=ANOTHER)
    assert sending.may_send(policy.document, policy.arn)
    assert not sending._replace(role=f"{THEIRS}-2").may_send(policy.document, policy.arn)
    [allowing] = [one for one in policy.document["Statement"] if one["Principal"] != "*"]
    assert allowing["Action"] == ["sqs:GetQueueUrl", "sqs:SendMessage"]


@OF_ALL
def test_the_roles_of_several_accounts_share_a_statement(form: str) -> None:
    others = [THEIRS, THEIRS.replace(ANOTHER, "333333333333"), f"{THEIRS}-2"]
    policy = with_senders(form, others)
    assert all(Sending(role, account=role.split(":")[4]).may_send(policy.document, policy.arn) for role in others)
    strange = others[1] + "-2"
    assert not Sending(strange, account="333333333333").may_send(policy.document, policy.arn)
    accounts = [one["Principal"]["AWS"] for one in policy.document["Statement"] if one["Principal"] != "*"]
    assert accounts == [[f"arn:aws:iam::{account}:root" for account in (ANOTHER, "333333333333")]]


@OF_ALL
def test_a_role_that_is_named_by_name_and_by_arn_counts_once(form: str) -> None:
    """Also one that a function has; without ``account`` the ARN may be of another one."""
    arn = f"arn:aws:iam::{ACCOUNT}:role/teams/shop"
    own = {"functions": {"price_cart": {"role": "teams/cart"}, "check_cart": {"role": "teams/cart"}}}
    given: Any = {"account": ACCOUNT, "operators": [arn, "shop"], **own}
    [denying] = [
        one
        for one in with_senders(form, ["teams/shop", arn, THEIRS], **given).document["Statement"]
        if one["Effect"] == "Deny"
    ]
    named = [str(role) for keys in denying["Condition"].values() for role in keys["aws:PrincipalArn"]]
    assert [len([role for role in named if name in role]) for name in ("teams/shop", "role/shop", "teams/cart")] == [
        *(1, 1, 1)
    ]
    assert any(arn in role for role in named)
    options = DeployOptions(operators=("teams/shop", arn, THEIRS))
    queue = QueueNeed("q", Role.ANSWERS, existing=False, retention=1)
    assert list(given_senders(queue, options)) == ["teams/shop", arn, THEIRS]
    elsewhere = DeployOptions(account=ANOTHER, operators=("teams/shop", arn))
    assert list(given_senders(queue, elsewhere)) == ["teams/shop", arn], "they are two"


# -- what AWS takes of a policy


def in_accounts(count: int, role: str = "a") -> list[str]:
    """Roles, each of another account."""
    return [f"arn:aws:iam::{200000000000 + number}:role/{role}" for number in range(count)]


@OF_ALL
@pytest.mark.parametrize("count", [1, 17, 49])
def test_many_senders_of_many_accounts_fit_in_a_policy(form: str, count: int) -> None:
    policy = with_senders(form, in_accounts(count), **PLACE)
    last = in_accounts(count)[-1]
    assert Sending(last, account=last.split(":")[4]).may_send(policy.document, policy.arn)
    statements = policy.document["Statement"]
    assert len(statements) == 2
    assert sum(len(keys) for one in statements for keys in one["Condition"].values()) == 2


@OF_ALL
def test_a_policy_with_more_principals_than_sqs_takes_is_refused(form: str) -> None:
    problem = "the policy of validate-cart names 51 principals, .* takes 50; let several of them assume one role"
    with pytest.raises(CannotDeploy, match=problem):
        with_senders(form, in_accounts(50), **PLACE)


def of_one_account(count: int, size: int | None = None) -> list[str]:
    """Roles of one account, for whose queue the policy may take that many bytes."""
    roles = [f"arn:aws:iam::{ANOTHER}:role/{'r' * 30}{number:03}" for number in range(count)]
    if size is not None:
        path = "p" * ((size - size_with(roles)) // 2 - 1)
        roles[-1] = roles[-1].replace("role/", f"role/{path}/")
    return roles


def size_with(roles: list[str]) -> int:
    """The bytes that the policy of the queue may take. Roles that the template makes have the longest names."""
    options = DeployOptions.model_validate({"queues": {"validate-cart": {"senders": roles}}, **PLACE})
    needed = needs(MODULES["validate_cart"], options=options)
    made = ResourcePolicies(needed, options, _Longest(needed, options)).of_queues()
    [document] = [document for queue, document in made if queue.name == "validate-cart"]
    return size_of(document)


@pytest.mark.parametrize(
    ("roles", "changed", "is_refused"),
    [
        (of_one_account(50, LARGEST_QUEUE_POLICY), {}, False),
        (of_one_account(50, LARGEST_QUEUE_POLICY + 2), {}, True),
        (of_one_account(101), {}, True),
        (of_one_account(50, LARGEST_QUEUE_POLICY), {"region": None}, True),
        (of_one_account(50, LARGEST_QUEUE_POLICY), {"region": "us-gov-west-1"}, True),
        (of_one_account(50, LARGEST_QUEUE_POLICY), {"role_path": "/teams/"}, True),
    ],
)
def test_a_policy_that_may_be_larger_than_sqs_takes_is_refused(
    roles: list[str], changed: dict[str, Any], is_refused: bool
) -> None:
    """AWS makes up the end of the names of roles that a template makes, and may make the region and the account."""
    given = {**PLACE, **changed}
    if is_refused:
        with pytest.raises(CannotDeploy, match=r"policy of validate-cart may take .* bytes .* takes 8,192; let"):
            with_senders("cloudformation", roles, **given)
    else:
        assert len(json.dumps(with_senders("terraform-json", roles, **given).document)) < LARGEST_QUEUE_POLICY


def test_a_policy_as_large_as_sqs_takes_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowguard.deploy.resource_policies.LARGEST_QUEUE_POLICY", size_with(of_one_account(40)))
    monkeypatch.setattr("flowguard.deploy.resource_policies.MOST_PRINCIPALS", 2)
    assert with_senders("cloudformation", of_one_account(40), **PLACE)


# -- the role of the scheduler


@pytest.mark.parametrize("form", [*FORMATS, "json"])
def test_a_role_of_the_scheduler_that_is_too_large_is_refused(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = options_of("everything").model_copy(update={"region": "eu-west-1"})
    needed = needs(MODULES["everything"], options=options)
    longest = scheduler_policy(needed, _Longest(needed, options))
    assert longest.keys() == {"Version", "Statement"}
    size = size_of(longest)
    write = described if form == "json" else FORMATS[form]
    monkeypatch.setattr("flowguard.deploy.resource_policies.LARGEST_POLICY", size)
    assert write(needed, options)
    monkeypatch.setattr("flowguard.deploy.resource_policies.LARGEST_POLICY", size - 1)
    problem = (
        f"the role of the scheduler may take {size:,} characters for 4 queues, and IAM takes {size - 1:,}; deploy some"
    )
    with pytest.raises(CannotDeploy, match=problem):
        write(needed, options)
    theirs = replace(needed, scheduler_role="sends-later")
    assert write(theirs, options)
    assert write(replace(needed, long_delays=False, schedules=()), options)
    with pytest.raises(CannotDeploy, match='say region = "…", which may be shorter; deploy some'):
        write(needed, options.model_copy(update={"region": None}))
    assert LARGEST_POLICY == 10_240


@OF_ALL
def test_topics_that_feed_a_queue_share_a_statement(form: str) -> None:
    for policy in policies(template("everything", form)):
        named = [json.dumps(one["Principal"]) for one in policy.document["Statement"]]
        assert len(named) == len(set(named)) <= 5


@OF_ALL
def test_roles_of_the_account_itself_need_no_statement_that_allows(form: str) -> None:
    for role in (f"arn:aws:iam::{ACCOUNT}:role/shop-api", "shop-api"):
        policy = with_senders(form, [role], account=ACCOUNT)
        assert [one["Effect"] for one in policy.document["Statement"]] == ["Deny"]


@OF_ALL
def test_operators_of_another_account_may_send_where_operators_may(form: str) -> None:
    role = f"arn:aws:iam::{ANOTHER}:role/on-call"
    options = DeployOptions(operators=(role,), account=ACCOUNT)
    found = json.loads(FORMATS[form](needs(MODULES["take_payment"], options=options), options))
    may = {one.queue for one in policies(found) if Sending(role, account=ANOTHER).may_send(one.document, one.arn)}
    made = {one.name for one in needs(MODULES["take_payment"], options=options).queues if one.made}
    assert may == made - {"take-payment-dead-letters"}, "nobody redrives into the dead letters"
    assert set(HOPS["take_payment"]) < may, "requests are sent again to the first inbox"
    other = Sending(f"{role}-2", account=ANOTHER)
    assert not [one.queue for one in policies(found) if other.may_send(one.document, one.arn)]


@OF_ALL
def test_without_an_account_open_queues_get_no_policy_for_operators(form: str) -> None:
    options = DeployOptions(operators=(f"arn:aws:iam::{ANOTHER}:role/on-call",))
    found = json.loads(FORMATS[form](needs(MODULES["take_payment"], options=options), options))
    assert {one.queue for one in policies(found)} == {*HOPS["take_payment"], "take-payment-dead-letters"}


# -- dead letters, and what operators send to -------------------------------------------------------------------------


def operated(name: str, form: str) -> dict[str, Policy]:
    """The policies of a template whose options name the operators."""
    options = options_of(name).model_copy(update={"operators": (OPERATOR,)})
    text = FORMATS[form](needs(MODULES[name], options=options), options)
    return {one.queue: one for one in policies(json.loads(text))}


def let_in(found: Any, policy: Policy) -> set[str]:
    """The functions of a template that may send to a queue."""
    return {one for one, role in roles(found).items() if Sending(role).may_send(policy.document, policy.arn)}


@EACH
@OF_ALL
def test_only_who_parks_letters_sends_to_dead_letters_with_operators_or_without(name: str, form: str) -> None:
    needed = needs(MODULES[name], options=options_of(name))
    assert {one.name for one in needed.queues if one.role is Role.DEAD_LETTERS} == set(LETTERS[name])
    found = template(name, form)
    for made in ({one.queue: one for one in policies(found)}, operated(name, form)):
        for queue, functions in LETTERS[name].items():
            assert let_in(found, made[queue]) == functions
            for role in (OPERATOR, f"arn:aws:iam::{ACCOUNT}:user/ada"):
                assert not Sending(role).may_send(made[queue].document, made[queue].arn)


@EACH
@OF_ALL
def test_only_who_sends_hops_and_operators_send_to_a_later_stage_and_to_killed_records(name: str, form: str) -> None:
    found, made = template(name, form), operated(name, form)
    for queue, functions in HOPS.get(name, {}).items():
        policy = made[queue]
        assert let_in(found, policy) == functions
        assert Sending(OPERATOR).may_send(policy.document, policy.arn)
        for role in (f"{OPERATOR}-2", f"arn:aws:iam::{ACCOUNT}:role/admin"):
            assert not Sending(role).may_send(policy.document, policy.arn)


def is_fed(queue: QueueNeed) -> bool:
    return bool(queue.topics or queue.rules or queue.buckets)


@EACH
@OF_ALL
def test_operators_send_answers_too_and_a_queue_stays_open_to_them_where_nobody_names_them(
    name: str, form: str
) -> None:
    for queue in SENDERS.get(name, {}):
        policy = operated(name, form)[queue]
        assert Sending(OPERATOR).may_send(policy.document, policy.arn)
    fed = {one.name for one in needs(MODULES[name], options=options_of(name)).queues if is_fed(one)}
    named = {one.queue for one in policies(template(name, form))}
    assert named == {*SENDERS.get(name, {}), *LETTERS[name], *fed}
    assert operated(name, form).keys() == named | HOPS.get(name, {}).keys()


@EACH
@OF_ALL
def test_sqs_itself_moves_messages_to_dead_letters_and_to_killed_records(name: str, form: str) -> None:
    made = operated(name, form)
    moved_to = {one.give_up_to for one in needs(MODULES[name], options=options_of(name)).queues} - {None}
    for queue in moved_to:
        policy = made[str(queue)]
        assert Sending().may_send(policy.document, policy.arn)


@OF_ALL
def test_the_scheduler_may_send_what_it_cannot_deliver_to_dead_letters_and_its_hops(form: str) -> None:
    made, own = operated("everything", form), roles(template("everything", form)).values()
    for queue in ("everything-dead-letters", "to-ship.fifo"):
        others = [one for one in listed(made[queue]) if one != OPERATOR and not any(same(one, role) for role in own)]
        assert len(others) == 1
        assert "chedul" in json.dumps(others)


@pytest.mark.parametrize(("module", "queue"), [("validate_cart", "search-results"), ("orders", "orders-placed")])
@OF_ALL
def test_senders_of_a_callback_or_an_inbox_close_it_to_all_others(module: str, queue: str, form: str) -> None:
    role = f"arn:aws:iam::{ACCOUNT}:role/search"
    options = DeployOptions.model_validate({"queues": {queue: {"senders": [role]}}, "operators": [OPERATOR]})
    text = FORMATS[form](needs(MODULES[module], options=options), options)
    [policy] = [one for one in policies(json.loads(text)) if one.queue == queue]
    assert all(Sending(one).may_send(policy.document, policy.arn) for one in (role, OPERATOR))
    assert not Sending(f"{role}-2").may_send(policy.document, policy.arn)
    assert len([one for one in listed(policy) if one == role]) == 1


@OF_ALL
def test_senders_of_a_callback_that_a_topic_feeds_leave_the_topic_in(form: str) -> None:
    role = f"arn:aws:iam::{ACCOUNT}:role/replays-news"
    given = {"queues": {"parcels": {"existing": True}, "everything-news.fifo": {"senders": [role]}}}
    options = options_of("everything").model_copy(update={"queues": DeployOptions.model_validate(given).queues})
    text = FORMATS[form](needs(MODULES["everything"], options=options), options)
    [policy] = [one for one in policies(json.loads(text)) if one.queue == "everything-news.fifo"]
    [fed] = [one for one in policy.document["Statement"] if "Service" in one["Principal"]]
    topic = Sending(service="sns.amazonaws.com", source=fed["Condition"]["ArnEquals"]["aws:SourceArn"])
    assert topic.may_send(policy.document, policy.arn)
    assert Sending(role).may_send(policy.document, policy.arn)
    assert not Sending(OPERATOR).may_send(policy.document, policy.arn)


@pytest.mark.parametrize("queues", [{}, {"parcels": {"existing": True}}])
@OF_ALL
def test_an_empty_list_of_senders_leaves_the_functions_the_operators_and_what_feeds_the_queue(
    form: str, queues: dict[str, Any]
) -> None:
    module, queue = ("everything", "everything-news.fifo") if queues else ("orders", "orders-placed")
    given = {"queues": {**queues, queue: {"senders": []}}, "operators": [OPERATOR]}
    options = DeployOptions.model_validate({**options_of(module).model_dump(exclude_unset=True), **given})
    text = FORMATS[form](needs(MODULES[module], options=options), options)
    [policy] = [one for one in policies(json.loads(text)) if one.queue == queue]
    assert Sending(OPERATOR).may_send(policy.document, policy.arn)
    assert not Sending(f"{OPERATOR}-2").may_send(policy.document, policy.arn)
    for fed in (one for one in policy.document["Statement"] if "Service" in one["Principal"]):
        topic = Sending(service="sns.amazonaws.com", source=fed["Condition"]["ArnEquals"]["aws:SourceArn"])
        assert topic.may_send(policy.document, policy.arn)


@pytest.mark.parametrize(
    ("moved", "condition"), [(True, {"Bool": {"aws:PrincipalIsAWSService": "false"}}), (False, None)]
)
def test_where_nobody_has_to_send_all_are_denied_but_what_sqs_moves(moved: bool, condition: Any) -> None:
    assert _but([], moved=moved) == ({} if condition is None else {"Condition": condition})
    roles = ["arn:aws:iam::123456789012:role/shop"]
    [operator] = _but(roles, moved=moved)["Condition"].keys() - {"Bool"}
    assert operator == ("ArnNotEquals" if moved else "ArnNotEqualsIfExists")


@pytest.mark.parametrize("form", FORMATS)
def test_a_queue_that_is_there_already_gets_no_policy(form: str) -> None:
    options = DeployOptions.model_validate({"queues": {"take-payment-dead-letters": {"existing": True}}})
    text = FORMATS[form](needs("flows.take_payment.handlers", options=options), options)
    assert policies_in(text) == 0
    plain = DeployOptions()
    assert policies_in(FORMATS[form](needs("flows.take_payment.handlers", options=plain), plain)) == 1


def policies_in(text: str) -> int:
    found = json.loads(text)
    if "resource" in found:
        return len(found["resource"].get("aws_sqs_queue_policy", {}))
    return sum(one["Type"] == "AWS::SQS::QueuePolicy" for one in found["Resources"].values())


@pytest.mark.parametrize("form", FORMATS)
def test_the_scheduler_role_that_the_options_name_may_send(form: str) -> None:
    given = "arn:aws:iam::123456789012:role/schedules"
    options = DeployOptions.model_validate({"settings": {"scheduler_role": given}})
    text = FORMATS[form](needs("flows.approval.handlers", options=options), options)
    [denied] = [one for one in _policy_texts(text) if "approval-answers" in one or given in one][:1]
    assert given in denied


def _policy_texts(text: str) -> Iterator[str]:
    found = json.loads(text)
    blocks = found["resource"]["aws_sqs_queue_policy"] if "resource" in found else found["Resources"]
    for one in blocks.values():
        if "resource" in found or one["Type"] == "AWS::SQS::QueuePolicy":
            yield json.dumps(one)
