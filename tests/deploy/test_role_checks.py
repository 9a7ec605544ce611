"""What is said of the roles that a template makes, by what an account tells of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final, cast

import pytest

from flowguard.deploy.account import Account
from flowguard.deploy.needs import Deployment
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.planned.values import UNKNOWN
from flowguard.deploy.role_checks import check_roles
from tests.deploy.exercised import needs
from tests.deploy.templates import MODULES, options_of

BOUNDS: Final = "arn:aws:iam::123456789012:policy/bounds"
GROUP: Final = "arn:aws:scheduler:eu-west-1:123456789012:schedule-group/flowguard"
ASKED: Final = {"permissions_boundary": BOUNDS, "role_path": "/shop/", "tags": {"team": "checkout"}}


def allowing(principal: Any, **condition: Any) -> Any:
    statement = {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"}
    return {"Statement": [statement | ({"Condition": {"StringEquals": condition}} if condition else {})]}


OF_LAMBDA: Final = allowing({"Service": "lambda.amazonaws.com"})
SCHEDULER: Final = {"Service": "scheduler.amazonaws.com"}
OF_SCHEDULER: Final = allowing(SCHEDULER, **{"aws:SourceArn": GROUP, "aws:SourceAccount": "123456789012"})


@dataclass
class Told:
    """An account that tells of one role for all functions, and of one for the scheduler."""

    role_: Any = field(
        default_factory=lambda: {
            "Path": "/shop/",
            "Tags": [{"Key": "team", "Value": "checkout"}],
            "PermissionsBoundary": {"PermissionsBoundaryArn": BOUNDS},
        }
    )
    of_functions: Any = field(default_factory=lambda: OF_LAMBDA)
    of_scheduler: Any = field(default_factory=lambda: OF_SCHEDULER)
    is_in_environment: bool = True
    is_in_schedules: bool = True
    has_role: bool = True
    has_arn: bool = True
    is_there: bool = True
    adds_tags: bool = False

    def function(self, name: str) -> Any:
        sends = (
            {"FLOWGUARD_SCHEDULER_ROLE": "arn:aws:iam::123456789012:role/shop/sends"} if self.is_in_environment else {}
        )
        role = {"Role": "arn:aws:iam::123456789012:role/shop/works"} if self.has_role else {}
        place = f"arn:aws:lambda:eu-west-1:123456789012:function:{name}"
        told = {**role, "Environment": {"Variables": sends}, **({"FunctionArn": place} if self.has_arn else {})}
        return told if self.is_there else None

    def schedule(self, group: str, name: str) -> Any:
        target = {"RoleArn": "arn:aws:iam::123456789012:role/shop/sends"}
        told = {} if self.is_in_environment else {"Target": target}
        return told if self.is_in_schedules else None

    def role(self, name: str) -> Any:
        assert name in ("works", "sends")
        return self.role_

    def trust(self, role: str) -> Any:
        return self.of_functions if role == "works" else self.of_scheduler


@cache
def needed_of(name: str) -> tuple[Deployment, DeployOptions]:
    options = DeployOptions.model_validate({**options_of(name).model_dump(exclude_unset=True), **ASKED})
    return needs(MODULES[name], options=options), options


def found(told: Told | None = None, name: str = "ticking", **asked: Any) -> set[tuple[str, str]]:
    needed, options = needed_of(name)
    chosen = options.model_copy(update=asked)
    looked = check_roles(needed, chosen, cast("Account", told or Told()))
    return {(each.rule, each.resource) for each in looked}


OWNERS: Final = {"reports-report", "sweeps-sweep", "EventBridge Scheduler"}
FUNCTIONS: Final = OWNERS - {"EventBridge Scheduler"}


def each(rule: str, owners: set[str] = OWNERS) -> set[tuple[str, str]]:
    return {(rule, owner) for owner in owners}


def test_nothing_is_said_of_roles_as_the_template_makes_them() -> None:
    assert found() == set()
    assert {one.name for one in needed_of("ticking")[0].functions} == {"reports-report", "sweeps-sweep"}


ROLES: Final[dict[str, tuple[Any, str, dict[str, Any]]]] = {
    "no boundary": ({"PermissionsBoundary": None}, "boundary-other", {"permissions_boundary": None}),
    "another boundary": (
        {"PermissionsBoundary": {"PermissionsBoundaryArn": f"{BOUNDS}x"}},
        "boundary-other",
        {"permissions_boundary": None},
    ),
    "no path": ({"Path": None}, "role-path-other", {"role_path": "/"}),
    "another path": ({"Path": "/store/"}, "role-path-other", {"role_path": "/"}),
    "no tags": ({"Tags": None}, "tags-other", {"tags": {}}),
    "another tag": ({"Tags": [{"Key": "team", "Value": "shop"}]}, "tags-other", {"tags": {}}),
}


@pytest.mark.parametrize("what", ROLES)
def test_what_is_other_of_a_role_is_said_where_the_options_ask_for_it(what: str) -> None:
    change, rule, unasked = ROLES[what]
    role = {name: value for name, value in {**Told().role_, **change}.items() if value is not None}
    assert found(Told(role_=role)) == each(rule)
    assert found(Told(role_=role), **unasked) == set()


def test_the_words_say_what_is_there_and_what_to_do() -> None:
    needed, options = needed_of("ticking")
    role = {"Path": "/store/", "Tags": [{"Key": "team", "Value": "shop"}]}
    looked = [*check_roles(needed, options, cast("Account", Told(role_=role)))]
    said = {(one.rule, one.what, one.fix) for one in looked}
    assert said == {
        ("boundary-other", "its role has no permissions boundary", f"put the boundary {BOUNDS} on the role"),
        *(
            ("role-path-other", "its role has the path /store/", f"make another role under /shop/, {why}")
            for why in (
                "for a path cannot be changed",
                "for a path cannot be changed; keep the old one until what is scheduled with it has been sent",
            )
        ),
        ("tags-other", "its role has other tags: team is 'shop'", "tag it: team = checkout"),
    }
    [bounded, *_] = check_roles(
        needed, options, cast("Account", Told(role_={"PermissionsBoundary": {"PermissionsBoundaryArn": "b"}}))
    )
    assert bounded.what == "its role is bounded by b"
    lacks = Told(role_={**Told().role_, "Tags": []})
    assert {one.what for one in check_roles(needed, options, cast("Account", lacks))} == {
        "its role has other tags: no team"
    }


def test_a_role_that_may_not_be_read_is_not_judged() -> None:
    assert found(Told(role_=None, of_functions=None, of_scheduler=None)) == set()
    assert found(Told(is_there=False, of_functions=allowing("*"), of_scheduler=allowing("*"))) == set()
    assert found(Told(has_role=False, of_functions=allowing("*"))) == set()


@pytest.mark.parametrize(
    "trust", [{"Statement": []}, allowing(SCHEDULER), {"Statement": [{**OF_LAMBDA["Statement"][0], "Effect": "Deny"}]}]
)
def test_a_function_that_may_not_assume_its_role_is_said(trust: Any) -> None:
    assert each("trust-missing", FUNCTIONS) <= found(Told(of_functions=trust))


@pytest.mark.parametrize(
    "principal", ["*", {"AWS": "210987654321"}, {"Service": ["lambda.amazonaws.com", "ec2.amazonaws.com"]}]
)
def test_whoever_else_may_assume_a_role_is_said(principal: Any) -> None:
    both = {"Statement": [*OF_LAMBDA["Statement"], *allowing(principal)["Statement"]]}
    assert found(Told(of_functions=both)) == each("trust-other", FUNCTIONS)
    needed, options = needed_of("ticking")
    [said, *_] = check_roles(needed, options, cast("Account", Told(of_functions=both)))
    name = principal if isinstance(principal, str) else next(iter(principal.values()))
    named = name if isinstance(name, str) else "ec2.amazonaws.com"
    assert said.what == f"its role may be assumed by {named} too"


OTHERS: Final = {"AWS": "210987654321"}


@pytest.mark.parametrize(
    "named",
    [
        {"Action": "sts:AssumeRole"},
        {"Action": ["sts:TagSession", "STS:assumerole"]},
        {"Action": "sts:*"},
        {"Action": "*"},
        {"Action": "sts:Assume*"},
        {"Action": "sts:AssumeRoleWithSAML"},
        {"Action": "sts:AssumeRoleWithWebIdentity"},
        {"NotAction": "sts:TagSession"},
        {"Action": UNKNOWN},
    ],
)
def test_others_are_said_for_each_action_that_gives_them_the_role(named: dict[str, Any]) -> None:
    statement = {"Effect": "Allow", "Principal": OTHERS, **named}
    told = Told(of_functions={"Statement": [*OF_LAMBDA["Statement"], statement]})
    assert found(told) == each("trust-other", FUNCTIONS)


@pytest.mark.parametrize(
    "named",
    [
        {"Action": ["sts:TagSession", "sts:SetSourceIdentity"]},
        {"Action": []},
        {"NotAction": "sts:AssumeRole*"},
        {"Action": "sts:AssumeRole", "Effect": "Deny"},
    ],
)
def test_who_may_tag_a_session_may_not_assume_the_role(named: dict[str, Any]) -> None:
    statement = {"Effect": "Allow", "Principal": OTHERS, **named}
    assert found(Told(of_functions={"Statement": [*OF_LAMBDA["Statement"], statement]})) == set()


@pytest.mark.parametrize(
    ("left_out", "named"),
    [
        ({"AWS": "arn:aws:iam::123456789012:root"}, "arn:aws:iam::123456789012:root"),
        ({"AWS": ["b", "a"], "Service": "lambda.amazonaws.com"}, "a, b, lambda.amazonaws.com"),
        ({"AWS": UNKNOWN}, "some"),
    ],
)
def test_a_role_for_everybody_but_some_is_said(left_out: Any, named: str) -> None:
    statement = {"Effect": "Allow", "NotPrincipal": left_out, "Action": "sts:AssumeRole"}
    both = {"Statement": [*OF_LAMBDA["Statement"], statement]}
    needed, options = needed_of("ticking")
    looked = [*check_roles(needed, options, cast("Account", Told(of_functions=both)))]
    assert [(one.rule, one.what) for one in looked] == [
        ("trust-other", f"its role may be assumed by everybody but {named} too")
    ] * len(FUNCTIONS)
    denied = {"Statement": [*OF_LAMBDA["Statement"], {**statement, "Effect": "Deny"}]}
    expected = set() if "Service" in left_out else each("trust-missing", FUNCTIONS)
    assert found(Told(of_functions=denied)) == expected


LAMBDA: Final = {"Service": "lambda.amazonaws.com"}
OWN: Final = {"StringEquals": {"aws:SourceAccount": "123456789012"}}
ANOTHER: Final = {"StringEquals": {"aws:SourceAccount": "210987654321"}}


def severities(*statements: Any) -> set[tuple[str, str]]:
    """What is said of the roles of functions whose trust policy has these statements."""
    needed, options = needed_of("ticking")
    whole = [{"Effect": "Allow", "Principal": LAMBDA, "Action": "sts:AssumeRole", **each} for each in statements]
    looked = check_roles(needed, options, cast("Account", Told(of_functions={"Statement": whole})))
    return {(each.rule, each.severity.value) for each in looked}


@pytest.mark.parametrize(
    ("denied", "is_missing"),
    [
        ({}, True),
        ({"Principal": "*"}, True),
        ({"Principal": {"AWS": "*"}}, True),
        ({"Principal": {"AWS": "210987654321"}}, False),
        ({"Action": "sts:TagSession"}, False),
        ({"Condition": {"StringNotEquals": OWN["StringEquals"]}}, False),
        ({"Condition": {"StringNotEquals": ANOTHER["StringEquals"]}}, True),
    ],
)
def test_a_role_that_is_denied_to_its_function_is_said(denied: dict[str, Any], is_missing: bool) -> None:
    expected = {("trust-missing", "error")} if is_missing else set()
    assert severities({}, {"Effect": "Deny", **denied}) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (OWN, set()),
        (ANOTHER, {("trust-missing", "error")}),
        ({"StringEquals": {"AWS:sourceaccount": ["210987654321"]}}, {("trust-missing", "error")}),
        ({"StringEquals": {"aws:SourceOrgID": "o-1"}}, {("trust-missing", "note")}),
    ],
)
def test_a_role_for_functions_of_another_account_is_said(condition: Any, expected: set[tuple[str, str]]) -> None:
    assert severities({"Condition": condition}) == expected


def test_the_account_that_is_looked_at_is_that_of_the_function() -> None:
    needed, options = needed_of("ticking")
    others = replace(needed, account="210987654321")
    assert [*check_roles(others, options, cast("Account", Told()))] == []


def test_a_role_that_may_not_be_for_its_function_has_a_note() -> None:
    needed, options = needed_of("ticking")
    told = Told(of_functions={"Statement": [UNKNOWN]})
    noted, *_ = check_roles(needed, options, cast("Account", told))
    assert (noted.severity.value, noted.resource) == ("note", "reports-report")
    assert noted.what == "its role may not let lambda.amazonaws.com assume it"
    is_open = {("trust-missing", "note")}
    assert severities({"Effect": "Deny", "Condition": {"StringEquals": {"a:b": "c"}}}, {}) == is_open
    assert severities({"Effect": "Deny", "NotPrincipal": {"Service": UNKNOWN}}, {}) == is_open
    assert severities({"Principal": {"AWS": "*"}}) == is_open | {("trust-other", "warning")}


@pytest.mark.parametrize(
    ("tags", "adds_tags", "severity"),
    [
        ([], False, "warning"),
        ([], True, "note"),
        ([{"Key": "team", "Value": "shop"}], True, "warning"),
        ([{"Key": "flow", "Value": "shop"}], True, "note"),
    ],
)
def test_tags_that_a_stack_may_add_are_a_note(tags: list[dict[str, str]], adds_tags: bool, severity: str) -> None:
    needed, options = needed_of("ticking")
    told = Told(role_={**Told().role_, "Tags": tags}, adds_tags=adds_tags)
    looked = [*check_roles(needed, options, cast("Account", told))]
    assert {(one.rule, one.severity.value, one.resource) for one in looked} == {
        ("tags-other", severity, owner) for owner in OWNERS
    }
    if severity == "note":
        assert {one.what for one in looked} == {"its role lacks the tags team in the file"}
        assert {one.fix for one in looked} == {"deploy with --tags team=checkout, or tag it in the file"}


def test_a_note_of_tags_has_the_words_of_the_command() -> None:
    needed, options = needed_of("ticking")
    asked = options.model_copy(update={"tags": {"team": "checkout", "cost": "42"}})
    [noted, *_] = check_roles(needed, asked, cast("Account", Told(role_={**Told().role_, "Tags": []}, adds_tags=True)))
    assert (noted.what, noted.fix) == (
        "its role lacks the tags team, cost in the file",
        "deploy with --tags team=checkout cost=42, or tag it in the file",
    )


BY_SCHEDULER: Final = {"EventBridge Scheduler"}


@pytest.mark.parametrize(
    ("condition", "rule", "whose"),
    [
        ({}, "trust-open", "schedules of any account"),
        ({"aws:SourceAccount": "123456789012"}, "trust-open", "schedules of any group of the account"),
        ({"aws:SourceArn": f"{GROUP}-2"}, "trust-missing", ""),
        ({"aws:SourceAccount": "210987654321", "aws:SourceArn": GROUP}, "trust-missing", ""),
    ],
)
def test_whose_schedules_a_role_of_the_scheduler_trusts_is_said(condition: Any, rule: str, whose: str) -> None:
    told = Told(of_scheduler=allowing(SCHEDULER, **condition))
    assert found(told) == each(rule, BY_SCHEDULER)
    needed, options = needed_of("ticking")
    said = [*check_roles(needed, options, cast("Account", told))]
    assert len(said) == 1
    assert said[0].what.endswith(f"trusts scheduler.amazonaws.com for {whose}" if whose else "assume it")


def test_the_role_of_the_scheduler_is_known_by_a_function_or_by_a_schedule() -> None:
    open_ = allowing(SCHEDULER)
    by_schedule = Told(of_scheduler=open_, is_in_environment=False)
    assert found(by_schedule) == each("trust-open", BY_SCHEDULER)
    assert found(replace(by_schedule, is_in_schedules=False)) == set()
    assert found(Told(of_scheduler=open_, is_in_schedules=False)) == each("trust-open", BY_SCHEDULER)
    assert found(Told(of_scheduler=open_, has_arn=False)) == set(), "which group is meant is not known"


def test_roles_that_are_there_are_not_the_templates() -> None:
    needed, options = needed_of("ticking")
    given = replace(
        needed,
        scheduler_role="sends-later",
        functions=tuple(replace(function, role="ours") for function in needed.functions),
    )
    told = Told(of_functions=allowing("*"), of_scheduler=allowing(SCHEDULER))
    assert [*check_roles(given, options, cast("Account", told))] == []


def test_without_schedules_no_role_of_the_scheduler_is_looked_for() -> None:
    assert found(Told(of_scheduler=allowing("*")), "orders") == set()


def test_a_provider_with_the_name_of_the_service_is_somebody_else() -> None:
    statement = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Federated": "lambda.amazonaws.com"}}
    told = Told(of_functions={"Statement": [*OF_LAMBDA["Statement"], statement]})
    assert found(told) == each("trust-other", FUNCTIONS)


def test_a_role_that_its_service_may_not_assume_says_what_is_never_done() -> None:
    needed, options = needed_of("ticking")
    nobody = {"Version": "2012-10-17", "Statement": []}
    looked = check_roles(needed, options, cast("Account", Told(of_functions=nobody, of_scheduler=nobody)))
    whys = {one.what.split()[5]: one.why for one in looked if one.rule == "trust-missing"}
    assert whys == {
        "lambda.amazonaws.com": "the function does not start",
        "scheduler.amazonaws.com": "what is late or by the clock is never sent",
    }
