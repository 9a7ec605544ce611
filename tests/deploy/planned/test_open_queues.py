"""Queues that strangers may use, and those that refuse whom the options name."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

from flowguard.deploy.needs import Deployment, QueueNeed, Role, TopicNeed
from flowguard.deploy.open_queue_checks import check_open_queues
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.planned.parties import organisations
from flowguard.deploy.planned.resources import HERE as PLACEHOLDER
from flowguard.deploy.planned.values import UNKNOWN
from tests.deploy.planned.looked import findings, made, read
from tests.deploy.planned.test_planned_account import NEEDED

ARN: Final = "arn:aws:sqs:eu-west-1:123456789012:q"
HERE, THERE = "arn:aws:iam::123456789012:role/", "arn:aws:iam::999999999999:role/"
API, OWN_API = f"{THERE}their-api", f"{HERE}own-api"
ROOT: Final = "arn:aws:iam::999999999999:root"
FUNCTION, SCHEDULER = f"{HERE}f", f"{HERE}scheduler"
SENDING: Final = {"Action": "sqs:SendMessage", "Resource": "*"}
OPENED: Final = ("queue-open", "its policy does not keep out roles, which the options do not name")
Statement = Mapping[str, Any]


class Answers:
    """A queue with a policy, and a function with a role. Of what is None nothing may be read."""

    def __init__(self, documents: Any, attributes: Any, function: Any) -> None:
        self._documents, self._attributes, self._function = documents, attributes, function

    def queue(self, name: str) -> Any:
        return self._attributes

    def queue_policies(self, queue: str) -> Any:
        return self._documents

    def function(self, name: str) -> Any:
        return self._function


THE_QUEUE: Final = {"QueueArn": ARN}
LIVE: Final = {"Role": FUNCTION, "Environment": {"Variables": {"FLOWGUARD_SCHEDULER_ROLE": SCHEDULER}}}


def looked(
    *statements: Any,
    senders: tuple[str, ...] = (),
    operators: tuple[str, ...] = (),
    needed: Deployment = NEEDED,
    attributes: Any = THE_QUEUE,
    function: Any = LIVE,
    readable: bool = True,
    role: Role = Role.INBOX,
    imports: tuple[str, ...] = (),
    **given: Any,
) -> list[tuple[str, str]]:
    listed = {"senders": senders, "lists_senders": bool(senders)}
    need = QueueNeed("q", role, **{"existing": False, "retention": 1, **listed, **given})
    documents = [{"Statement": [*statements]}] if readable else None
    answers: Any = Answers(documents, attributes, function)
    options = DeployOptions(operators=operators)
    imported: Any = dict.fromkeys(imports)
    options._imports = imported
    found = check_open_queues(replace(needed, queues=(need,)), options, answers)
    return [(each.rule, each.what) for each in found]


def allows(principal: Any, action: Any = "sqs:*", **condition: Any) -> Statement:
    named = principal if principal == "*" else {"AWS": principal}
    given = {"Condition": condition} if condition else {}
    return {"Effect": "Allow", "Principal": named, "Action": action, "Resource": "*", **given}


def denies(*but: str, operator: str = "ArnNotEqualsIfExists") -> Statement:
    return {"Effect": "Deny", "Principal": "*", **SENDING, "Condition": {operator: {"aws:PrincipalArn": [*but]}}}


NOT_SENDING: Final = "sqs:ReceiveMessage, sqs:DeleteMessage, sqs:PurgeQueue, sqs:SetQueueAttributes, sqs:AddPermission"


def opened(who: str, actions: str = f"sqs:SendMessage, {NOT_SENDING}") -> list[tuple[str, str]]:
    return [("queue-open", f"its policy allows {actions} to {who}: no option says so")]


def may_be(who: str, keys: str) -> list[tuple[str, str]]:
    return [("queue-policy-open", f"its policy may let {who} in, by a condition of {keys}")]


def sends(service: str, what: str) -> list[tuple[str, str]]:
    return [
        ("queue-open", f"its policy allows sqs:SendMessage to {service}.amazonaws.com for {what}: no option says so")
    ]


def refuses(role: str) -> list[tuple[str, str]]:
    return [("queue-closed", f"its policy does not let {role} send there, which the options name")]


# -- who is let in


@pytest.mark.parametrize("principal", ["*", ["*"], ["*", ROOT]])
def test_a_queue_that_lets_everybody_in_is_found_once(principal: Any) -> None:
    assert looked(allows(principal)) == opened("everybody")
    assert looked(allows(principal, "sqs:ReceiveMessage")) == opened("everybody", "sqs:ReceiveMessage")
    assert looked(allows(principal, ["sqs:SendMessage"])) == opened("everybody", "sqs:SendMessage")
    assert looked(allows(principal, "sqs:GetQueueUrl")) == []


def test_a_condition_that_each_request_meets_keeps_nobody_out() -> None:
    assert looked(allows("*", Bool={"aws:SecureTransport": "true"})) == opened("everybody")


@pytest.mark.parametrize(
    "condition",
    [
        {"ArnEquals": {"aws:SourceArn": "arn:aws:sns:eu-west-1:123456789012:news"}},
        {"ArnLike": {"aws:PrincipalArn": f"{HERE}*"}},
    ],
)
def test_a_condition_that_restricts_it_is_enough(condition: Any) -> None:
    assert looked(allows("*", **condition)) == []


@pytest.mark.parametrize(
    ("principal", "who"),
    [(ROOT, ROOT), ("999999999999", ROOT), (f"{THERE}x", f"{THERE}x"), ([f"{HERE}x", f"{THERE}x"], f"{THERE}x")],
)
def test_an_account_or_role_of_another_account_that_no_option_names_is_found(principal: Any, who: str) -> None:
    assert looked(allows(principal)) == opened(who)
    assert looked(allows(principal), needed=replace(NEEDED, account="999999999999")) == [], "it is the deployment's"
    assert looked(allows(principal), denies()) == opened(who, NOT_SENDING), "none may send"
    other = "arn:aws:iam::888888888888:role/y"
    assert looked(allows(principal), allows(other)) == [*opened(who), *opened(other)]


def test_a_stranger_beside_a_named_role_in_the_condition_is_found() -> None:
    both = allows(ROOT, "sqs:SendMessage", ArnEquals={"aws:PrincipalArn": [API, f"{THERE}x"]})
    assert looked(both, denies(API), senders=(API,)) == []
    assert looked(both, denies(API, f"{THERE}x"), senders=(API,)) == opened(f"{THERE}x", "sqs:SendMessage")
    assert looked(allows(ROOT, "sqs:SendMessage"), denies(API), senders=(API,)) == []
    assert looked(allows(API), denies(API), senders=(API,)) == [], "it may receive too, as the options name it"


def test_the_account_itself_is_no_stranger() -> None:
    assert looked(allows([f"{HERE}x", "123456789012", "arn:aws:iam::123456789012:root"])) == []


@pytest.mark.parametrize(("service", "kind"), [("sns", "sns"), ("s3", "s3"), ("events", "events")])
def test_a_service_that_may_send_for_whatever_is_of_any_account_is_found(service: str, kind: str) -> None:
    of_service = {**allows("*"), "Principal": {"Service": f"{service}.amazonaws.com"}}
    any_account = sends(service, "what is of any account")
    assert looked(of_service) == looked(of_service, existing=True) == any_account
    in_organisation = {**of_service, "Condition": {"StringEquals": {"aws:SourceOrgID": "o-1"}}}
    assert looked(in_organisation) == sends(service, "what is of the organisation o-1")
    of_account = {**of_service, "Condition": {"StringEquals": {"aws:SourceAccount": "999999999999"}}}
    assert looked(of_account) == sends(service, "what is of the account 999999999999")
    assert looked(in_organisation, existing=True) == looked(of_account, existing=True) == [], "theirs to say"
    to_all = {**of_account, "Principal": "*"}
    assert looked(to_all)[["sns", "s3", "events"].index(service)] == looked(of_account)[0]
    own = f"arn:aws:{kind}:eu-west-1:123456789012:x"
    for bound in (
        {"ArnEquals": {"aws:SourceArn": own}},
        {"ArnLike": {"AWS:SourceArn": own}},
        {"StringEquals": {"aws:SourceAccount": "123456789012"}},
    ):
        assert looked({**of_service, "Condition": bound}) == []


def test_the_keys_of_conditions_are_read_in_any_case() -> None:
    assert looked(allows("*", ArnLike={"aws:PrincipalARN": "*"})) == opened("everybody")
    assert looked(allows("*", Bool={"AWS:securetransport": "true"})) == opened("everybody")
    strange = [("queue-open", f"its policy does not keep out {HERE}x, which the options do not name")]
    left_out = {"ArnNotEqualsIfExists": {"aws:principalarn": [OWN_API, f"{HERE}x"]}}
    assert looked({**denies(), "Condition": left_out}, senders=(OWN_API,)) == strange


@pytest.mark.parametrize("principal", ["arn:aws:iam", "arn:*", "arn:aws:iam::"])
def test_what_is_no_whole_arn_is_nobody(principal: str) -> None:
    assert looked(allows(principal)) in ([], opened(principal), opened("everybody"))
    assert looked(allows("*", ArnEquals={"aws:PrincipalArn": principal})) in ([], opened("everybody"))


def test_a_pattern_of_texts_is_of_whole_arns() -> None:
    assert looked(allows("*", StringLike={"aws:PrincipalArn": "arn:*"})) == opened("everybody")


def test_what_is_not_known_of_a_policy_is_no_finding() -> None:
    assert looked(UNKNOWN, allows(UNKNOWN), {**allows("*"), "Condition": UNKNOWN}) == []
    assert looked({**allows("*"), "Condition": {"ArnEquals": UNKNOWN}}) == []
    assert looked(allows("AIDAEXAMPLE")) == [], "a user that is gone"


def test_what_may_not_be_read_and_queues_elsewhere_are_not_judged() -> None:
    assert looked(allows("*"), attributes=None) == []
    assert looked(allows("*"), readable=False) == []
    assert looked(allows("*"), arn=ARN) == []


def test_whom_the_owner_of_an_existing_queue_lets_in_is_theirs_to_say_but_for_everybody() -> None:
    assert looked(allows(ROOT), existing=True) == []
    assert looked(allows("*"), existing=True) == opened("everybody")
    assert looked(denies(f"{HERE}x", API), allows(API), existing=True, senders=(API,)) == []


# -- conditions that leave others in


def test_a_whole_organisation_is_found() -> None:
    organisation = {"StringEquals": {"aws:PrincipalOrgID": ["o-1", "o-2"]}}
    both = [*opened("the organisation o-1"), *opened("the organisation o-2")]
    assert looked(allows("*", **organisation)) == both
    assert looked(allows("*", **organisation), existing=True) == [], "its owner says whom"
    others = {"StringNotEquals": {"aws:PrincipalOrgID": "o-1"}}
    assert looked(allows("*"), {**denies(), "Action": "*", "Condition": others}) == opened("the organisation o-1")


def test_what_another_key_is_compared_with_is_no_organisation() -> None:
    statement = allows("*", StringEquals={"AWS:PrincipalOrgID": "o-1", "c:d": "x"})
    assert [party.who for party in organisations([{"Statement": statement}])] == ["the organisation o-1"]


@pytest.mark.parametrize("address", ["0.0.0.0/0", "::/0", ["10.0.0.0/8", "0.0.0.0/0"]])
def test_a_range_of_all_addresses_keeps_nobody_out(address: Any) -> None:
    assert looked(allows("*", IpAddress={"aws:SourceIp": address})) == opened("everybody")
    assert looked(allows("*", NotIpAddress={"aws:SourceIp": address})) == []


@pytest.mark.parametrize(
    ("condition", "keys"),
    [
        ({"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}, "aws:SourceIp"),
        ({"NotIpAddress": {"aws:SourceIp": "10.0.0.0/8"}}, "aws:SourceIp"),
        ({"StringEquals": {"aws:SourceVpce": "vpce-1", "aws:PrincipalTag/team": "x"}}, ...),
        ({"ForAnyValue:StringLike": {"aws:PrincipalOrgPaths": "o-1/*"}}, "aws:PrincipalOrgPaths"),
        ({"Null": {"aws:PrincipalArn": "false"}}, "aws:PrincipalArn"),
    ],
)
def test_a_condition_that_is_not_judged_is_noted_once(condition: Any, keys: Any) -> None:
    keys = "aws:PrincipalTag/team, aws:SourceVpce" if keys is ... else keys
    for existing in (False, True):
        assert looked(allows("*", **condition), existing=existing) == may_be("everybody", keys)
    assert looked(allows(ROOT, **condition)) == may_be(ROOT, keys)
    assert looked(allows(ROOT, **condition), existing=True) == []
    assert looked(allows(ROOT, **condition), allows(ROOT)) == opened(ROOT), "it is let in anyway"
    assert looked(allows("*", "sqs:GetQueueUrl", **condition)) == []
    assert looked({**denies(), "Condition": condition}) == [], "it lets nobody in"


def test_everybody_but_some_is_everybody() -> None:
    but = {"Effect": "Allow", "NotPrincipal": {"AWS": [OWN_API, ROOT]}, "Action": "sqs:SendMessage", "Resource": "*"}
    assert looked(but) == looked(but, existing=True) == opened("everybody", "sqs:SendMessage")
    assert looked({**but, "NotPrincipal": {"AWS": UNKNOWN}}) == []
    assert looked({**but, "NotPrincipal": {"AWS": "*"}}) == []
    deny = {**but, "Effect": "Deny", "Action": "*"}
    assert looked(allows(ROOT), deny) == [], "whom such a statement denies is not judged"


def test_an_account_in_a_condition_is_found() -> None:
    of_account = allows("*", StringEquals={"aws:PrincipalAccount": ["999999999999", "123456789012"]})
    assert looked(of_account) == opened(ROOT)
    assert looked(of_account, needed=replace(NEEDED, account="999999999999")) == []
    assert looked(allows("*", StringNotEquals={"aws:PrincipalAccount": "123456789012"})) == opened("everybody")
    assert looked(allows("*", StringEquals={"aws:PrincipalAccount": UNKNOWN})) == []


@pytest.mark.parametrize("source", ["arn:aws:sns:*:*:news", "arn:aws:sns:eu-west-1:*:news", "arn:aws-cn:sns:*:9?:n"])
def test_a_topic_of_any_account_is_found(source: str) -> None:
    found = sends("sns", f"{source}, of any account" if ":*:n" in source else source)
    for operator in ("ArnLike", "StringLike"):
        for principal in ("*", {"AWS": "*"}, {"Service": "sns.amazonaws.com"}):
            like = {**allows("*", **{operator: {"aws:SourceArn": source}}), "Principal": principal}
            assert looked(like) == found
            assert looked(like, existing=True) == (found if ":*:n" in source else [])
            assert looked({**like, "Effect": "Deny"}, like) == []
    assert looked(allows("*", ArnLike={"aws:SourceArn": "arn:aws:sns:*"})) in (
        [],
        sends("sns", "what is of any account"),
    )
    bounded = {"ArnLike": {"aws:SourceArn": source}, "StringEquals": {"aws:SourceAccount": "123456789012"}}
    assert looked(allows("*", **bounded)) == []


def test_a_bucket_whose_name_is_any_is_of_any_account() -> None:
    of_s3 = {**allows("*", ArnLike={"aws:SourceArn": "arn:aws:s3:::*"}), "Principal": {"Service": "s3.amazonaws.com"}}
    assert looked(of_s3) == sends("s3", "what is of any account")
    assert looked({**of_s3, "Condition": {"ArnLike": {"aws:SourceArn": "arn:aws:s3:::its-name"}}}) == []
    assert looked({**of_s3, "Condition": {"ArnLike": {"aws:SourceArn": "arn:aws:s3:*:*:its-name"}}}) == []


def test_a_topic_of_another_account_is_found_unless_the_code_names_it() -> None:
    theirs = "arn:aws:sns:eu-west-1:999999999999:news"
    of_topic = allows("*", "sqs:SendMessage", ArnEquals={"aws:SourceArn": theirs})
    assert looked(of_topic) == sends("sns", theirs)
    assert looked(of_topic, existing=True) == []
    assert looked(of_topic, needed=replace(NEEDED, topics=(TopicNeed(theirs, existing=True),))) == []
    assert looked(of_topic, needed=replace(NEEDED, account="999999999999")) == []
    not_judged = allows("*", "sqs:SendMessage", ArnEquals={"aws:SourceArn": theirs}, StringEquals={"c:d": "x"})
    assert looked(not_judged) == [
        ("queue-policy-open", f"its policy may let sns.amazonaws.com for {theirs} in, by a condition of c:d")
    ]


def test_whether_an_account_is_another_one_is_not_known_where_a_file_does_not_say() -> None:
    unsaid: Any = {"attributes": {"QueueArn": ARN.replace("123456789012", PLACEHOLDER.account)}}
    sending = "its policy allows sqs:SendMessage to {}, and it is not known which account is deployed to"
    assert looked(allows(ROOT, "sqs:SendMessage"), **unsaid) == [("queue-policy-open", sending.format(ROOT))]
    theirs = "arn:aws:sns:eu-west-1:999999999999:news"
    of_topic = allows("*", "sqs:SendMessage", ArnEquals={"aws:SourceArn": theirs})
    what = sending.format(f"sns.amazonaws.com for {theirs}")
    assert looked(of_topic, **unsaid) == [("queue-policy-open", what)]
    assert looked(allows("*", "sqs:SendMessage"), **unsaid) == opened("everybody", "sqs:SendMessage")
    of_account = {**allows("*", "sqs:SendMessage", StringEquals={"aws:SourceAccount": "999999999999"})}
    of_account["Principal"] = {"Service": "sns.amazonaws.com"}
    what = sending.format("sns.amazonaws.com for what is of the account 999999999999")
    assert looked(of_account, **unsaid) == [("queue-policy-open", what)]
    any_account = {**of_account, "Condition": {}}
    assert looked(any_account, **unsaid) == sends("sns", "what is of any account")
    said = replace(NEEDED, account="123456789012")
    assert looked(allows(ROOT, "sqs:SendMessage"), needed=said, **unsaid) == opened(ROOT, "sqs:SendMessage")


# -- sessions of roles

THEIR_SESSION: Final = "arn:aws:sts::999999999999:assumed-role/their-api/it"


def test_a_session_among_the_exceptions_of_a_deny_leaves_nobody_out() -> None:
    for role in ("x", "their-api"):
        session = f"arn:aws:sts::123456789012:assumed-role/{role}/it"
        assert looked(denies(OWN_API, session), senders=(OWN_API,)) == []
    assert looked(allows("*", ArnEquals={"aws:PrincipalArn": THEIR_SESSION})) == [], "no request says that"
    assert looked(denies(OWN_API, f"{HERE}y", THEIR_SESSION.replace("9", "1")), senders=(OWN_API,))[1:] == []
    not_judged = allows("*", ArnEquals={"aws:PrincipalArn": THEIR_SESSION}, StringEquals={"c:d": "x"})
    assert looked(not_judged) == [], "whatever else it asks"


def test_a_session_that_is_let_in_is_found_unless_its_role_is_named() -> None:
    assert looked(allows(THEIR_SESSION)) == opened(THEIR_SESSION)
    for role in (API, f"{THERE}of/their-api"):
        assert looked(allows(THEIR_SESSION), allows(role), denies(role), senders=(role,)) == []
    assert looked(allows(THEIR_SESSION), senders=(f"{HERE}their-api",)) == [*opened(THEIR_SESSION), OPENED]
    bounded = allows(THEIR_SESSION, ArnEquals={"aws:PrincipalArn": f"{THERE}their-api"})
    assert looked(bounded) == opened(THEIR_SESSION)


# -- closed queues


def test_a_closed_queue_that_keeps_nobody_out_is_found() -> None:
    assert looked(denies(OWN_API), senders=(OWN_API,)) == []
    assert looked(senders=(OWN_API,)) == [OPENED]
    people = {"StringEquals": {"c:d": "x"}}
    assert looked({**denies(), "Condition": people}, senders=(OWN_API,)) == [], "it may keep them out"
    assert looked() == [], "nobody closes it"
    assert looked(operators=(OWN_API,)) == looked(role=Role.ANSWERS) == [], "the options name nobody for it"
    assert looked(hops_only=True, operators=(OWN_API,)) == [OPENED]
    assert looked(lists_senders=True) == [OPENED], "its senders are none"
    assert looked(denies(), lists_senders=True) == []


@pytest.mark.parametrize("operator", ["ArnNotEqualsIfExists", "ArnNotEquals"])
def test_a_stranger_among_those_whom_the_deny_leaves_out_is_found(operator: str) -> None:
    strange = [("queue-open", f"its policy does not keep out {HERE}x, which the options do not name")]
    assert looked(denies(OWN_API, f"{HERE}x", operator=operator), senders=(OWN_API,)) == strange
    assert len(looked(denies(OWN_API, f"{HERE}x", f"{HERE}y", operator=operator), senders=(OWN_API,))) == 2
    assert looked(denies(OWN_API, FUNCTION, SCHEDULER, operator=operator), senders=(OWN_API,)) == []
    assert looked(denies(OWN_API, f"{HERE}*", operator=operator), senders=(OWN_API,)) == [OPENED]


def test_a_function_that_is_not_there_has_no_role() -> None:
    strange = [("queue-open", f"its policy does not keep out {FUNCTION}, which the options do not name")]
    assert looked(denies(OWN_API, FUNCTION), senders=(OWN_API,), function=None) == strange
    assert looked(denies(OWN_API, FUNCTION), senders=(OWN_API,), function={"Role": FUNCTION}) == []


def test_where_the_scheduler_sends_one_of_the_roles_may_be_its_own() -> None:
    needed = replace(NEEDED, long_delays=True)
    assert looked(denies(OWN_API, f"{HERE}x"), senders=(OWN_API,), needed=needed) == []
    assert looked(senders=(OWN_API,), needed=needed) == [OPENED]


def test_a_named_role_that_the_deny_does_not_leave_out_is_refused() -> None:
    assert looked(denies(OWN_API), senders=(OWN_API, "by-name")) == refuses(f"{HERE}by-name")
    assert looked(denies(f"{HERE}by-name"), senders=("by-name",)) == []
    assert looked(denies(OWN_API), senders=(OWN_API,), operators=(f"{HERE}on-call",)) == refuses(f"{HERE}on-call")


def test_which_role_an_import_is_the_deployment_tells() -> None:
    assert looked(denies(FUNCTION), senders=(OWN_API,), imports=(OWN_API,)) == []


def test_a_named_role_of_another_account_has_to_be_allowed_it_too() -> None:
    let_in = allows(ROOT, "sqs:SendMessage", ArnEquals={"aws:PrincipalArn": API})
    assert looked(let_in, denies(API), senders=(API,)) == []
    assert looked(denies(API), senders=(API,)) == refuses(API)
    assert looked(let_in, denies(FUNCTION), senders=(API,)) == refuses(API)
    people = {**let_in, "Condition": {"StringEquals": {"c:d": "x"}}}
    assert looked(people, denies(API), senders=(API,)) == may_be(ROOT, "c:d"), "it may let the role in"
    here = replace(NEEDED, account="999999999999")
    assert looked(denies(API), senders=(API,), needed=here) == []


# -- in files

OPTIONS: Final = DeployOptions.model_validate(
    {
        "account": "123456789012",
        "operators": [f"{HERE}on-call", "by-name", f"{THERE}their-on-call"],
        "queues": {"payments-to-book": {"senders": [OWN_API, API]}},
    }
)
QUEUE: Final = "payments-to-book"


def in_file(form: str, change: Callable[[list[dict[str, Any]]], object]) -> list[tuple[str, str]]:
    """What is found of the queue when ``change`` was at the statements of its policy."""
    text, needed = made("flows.take_payment.handlers", OPTIONS, form)
    file = json.loads(text)
    if form == "terraform-json":
        all_policies = file["resource"]["aws_sqs_queue_policy"].values()
        [policy] = [each for each in all_policies if "payments_to_book" in each["queue_url"]]
        document = json.loads(policy["policy"])
        change(document["Statement"])
        policy["policy"] = json.dumps(document)
    else:
        resources = file["Resources"]
        policies = [each["Properties"] for each in resources.values() if each["Type"] == "AWS::SQS::QueuePolicy"]
        [policy] = [one for one in policies if resources[one["Queues"][0]["Ref"]]["Properties"]["QueueName"] == QUEUE]
        change(policy["PolicyDocument"]["Statement"])
    looked_at = findings(read(json.dumps(file), form), needed, OPTIONS)
    return [(each.rule, each.what) for each in looked_at if each.resource == QUEUE]


def without(role: str, statements: list[dict[str, Any]]) -> None:
    listed = statements[-1]["Condition"]["ArnNotEqualsIfExists"]["aws:PrincipalArn"]
    listed[:] = [each for each in listed if not str(each).endswith(f"{role}")]


@pytest.mark.parametrize("form", ["cloudformation", "sam", "terraform-json"])
@pytest.mark.parametrize(
    ("change", "problems"),
    [
        (lambda _: None, []),
        (lambda given: given.pop(), [OPENED]),
        (lambda given: given.insert(0, allows("*", "sqs:SendMessage")), []),
        (lambda given: given.insert(0, allows("*")), opened("everybody", NOT_SENDING)),
        (lambda given: without(OWN_API, given), refuses(OWN_API)),
        (lambda given: without(API, given), refuses(API)),
        (lambda given: given.pop(0), [*refuses(API), *refuses(f"{THERE}their-on-call")]),
    ],
)
def test_who_may_use_a_queue_is_found_in_files(
    form: str, change: Callable[[list[dict[str, Any]]], object], problems: list[tuple[str, str]]
) -> None:
    assert in_file(form, change) == problems
