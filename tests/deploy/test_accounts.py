"""What the code or the options name by its ARN is of its own account: none of it is made in another one."""

from __future__ import annotations

import json
from typing import Any, Final, cast

import pytest

from flowguard.cli.iac import FORMATS
from flowguard.deploy.account import Account
from flowguard.deploy.accounts import check_accounts
from flowguard.deploy.finding import Severity
from flowguard.deploy.foreign_policies import policies_of_others
from flowguard.deploy.needs import Deployment
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.problems import CannotDeploy
from flowguard.deploy.queue_arns import account_of
from tests.deploy import everything, sealing
from tests.deploy.exercised import needs
from tests.deploy.planned import looked
from tests.deploy.stated import stated

HERE: Final = "123456789012"
THERE: Final = "210987654321"
NEWS: Final = everything.NEWS.arn
RUNS: Final = f"arn:aws:dynamodb:eu-west-1:{THERE}:table/flowguard"
LINES: Final = f"arn:aws:dynamodb:eu-west-1:{THERE}:table/lines"


def options_of(**given: Any) -> DeployOptions:
    return DeployOptions.model_validate({**everything.OPTIONS, "topics": {}, **given})


def deployment(**given: Any) -> Deployment:
    return needs("tests.deploy.everything", options=options_of(**given))


def made(needed: Deployment) -> dict[str, bool]:
    return {topic.arn: not topic.existing for topic in needed.topics}


# -- topics


@pytest.mark.parametrize(
    ("given", "are_made"),
    [
        ({}, True),
        ({"account": HERE}, True),
        ({"account": HERE, "region": "eu-west-1"}, True),
        ({"account": THERE}, False),
        ({"account": HERE, "region": "us-east-1"}, False),
        ({"region": "us-east-1"}, False),
    ],
)
def test_a_topic_is_made_in_the_account_and_region_of_its_arn_alone(given: dict[str, Any], are_made: bool) -> None:
    assert made(deployment(**given)) == dict.fromkeys((everything.PLACED.arn, NEWS), are_made)


KEY: Final = "arn:aws:kms:eu-west-1:{}:key/1234abcd-12ab-34cd-56ef-1234567890ab"


@pytest.mark.parametrize("account", [None, HERE])
def test_whose_a_key_is_matters_where_the_options_name_no_account(account: str | None) -> None:
    given: dict[str, Any] = {"kms_key": KEY.format(HERE), "queues": {"everything-pack": {"kms_key": KEY.format(THERE)}}}
    notes = [note for note in deployment(account=account, **given).notes if "--key-policy" in note]
    assert bool(notes) is (account is None)
    if account is None:
        assert notes == [
            f"--key-policy takes the account of a key for the one that is deployed to, here {HERE} and {THERE}; where "
            'that is another, say account = "…" in the options: it is deployed to that'
        ]
    assert not [note for note in deployment().notes if "--key-policy" in note]


def test_whose_a_codecs_key_is_matters_and_an_alias_is_in_no_key_policy() -> None:
    notes = [note for note in needs("tests.deploy.sealing").notes if "--key-policy" in note]
    owner = account_of(sealing.THEIRS)
    assert [note.partition(";")[0] for note in notes] == [
        f"--key-policy takes the account of a key for the one that is deployed to, here {owner}"
    ]


@pytest.mark.parametrize("form", FORMATS)
def test_a_topic_of_another_account_is_subscribed_to_and_published_to_and_not_made(form: str) -> None:
    options = options_of(account=THERE)
    facts = stated(json.loads(FORMATS[form](needs("tests.deploy.everything", options=options), options)))
    assert not [name for kind, name in facts if kind == "topic"]
    [subscribed] = [fact for (kind, name), fact in facts.items() if kind == "subscription" and name.endswith(NEWS)]
    assert subscribed["TopicArn"] == NEWS
    [policy] = [fact for (kind, name), fact in facts.items() if kind == "policy" and "everything-news" in name]
    assert NEWS in json.dumps(policy)


def test_its_owner_is_told_both_what_publishes_and_what_subscribes() -> None:
    options = options_of(account=THERE)
    found = json.loads(policies_of_others(needs("tests.deploy.everything", options=options), options))
    assert {arn: [each["Sid"] for each in found[arn]["Statement"]] for arn in (NEWS, everything.PLACED.arn)} == {
        NEWS: ["Functions", "Subscriptions", "SubscriptionsAreRead"],
        everything.PLACED.arn: ["Subscriptions", "SubscriptionsAreRead"],  # no function publishes there
    }


def test_where_no_account_is_named_a_note_says_which_topics_are_made() -> None:
    [note] = [each for each in deployment().notes if "by ARN" in each]
    assert note.startswith(f"the code names {everything.PLACED.arn}, {NEWS} by ARN, and each is made in the account")
    assert "account = " in note
    [alone] = [each for each in deployment(topics=everything.OPTIONS["topics"]).notes if "by ARN" in each]
    assert alone.startswith(f"the code names {NEWS} by ARN, and it is made in the account that is deployed to")
    assert not [each for each in deployment(account=HERE).notes if "by ARN" in each]
    assert not [each for each in needs("flows.take_payment.handlers").notes if "by ARN" in each]


class Looked:
    """An account that says which one it is."""

    def __init__(self, account: str | None) -> None:
        self.account = account


def found_in(needed: Deployment, account: str | None) -> list[tuple[str, Severity, str]]:
    live = cast(Account, Looked(account))
    return [(each.rule, each.severity, each.resource) for each in check_accounts(needed, live)]


def test_the_doctor_says_which_topics_were_to_be_of_another_account() -> None:
    both = (everything.PLACED.arn, NEWS)
    assert found_in(deployment(), THERE) == [("account-other", Severity.ERROR, arn) for arn in both]
    assert found_in(deployment(), HERE) == []
    assert found_in(deployment(account=THERE), THERE) == []
    assert found_in(deployment(), None) == [("account-open", Severity.NOTE, arn) for arn in both]
    assert found_in(deployment(account=HERE), None) == []


@pytest.mark.parametrize("form", ["cloudformation", "sam", "terraform-json"])
def test_a_file_that_makes_the_topic_of_another_account_is_not_taken(form: str) -> None:
    here, there = options_of(account=HERE), options_of(account=THERE)
    text, right = looked.made("tests.deploy.everything", here, form)
    wrong = needs("tests.deploy.everything", options=there)
    rules = {
        account: [each.resource for each in looked.findings(looked.read(text, form), needed, options) if of(each)]
        for account, needed, options in ((HERE, right, here), (THERE, wrong, there))
    }
    assert rules == {HERE: [], THERE: [everything.PLACED.arn, NEWS]}


@pytest.mark.parametrize("form", ["cloudformation", "terraform-json"])
def test_a_file_that_only_subscribes_to_it_is_taken(form: str) -> None:
    options = options_of(account=THERE)
    text, needed = looked.made("tests.deploy.everything", options, form)
    assert not [each for each in looked.findings(looked.read(text, form), needed, options) if of(each)]


def of(finding: Any) -> bool:
    return finding.rule == "account-other" and finding.severity is Severity.ERROR


# -- tables of a transaction


def test_a_table_of_another_account_than_the_runs_is_refused_with_what_to_do() -> None:
    with pytest.raises(CannotDeploy) as refused:
        deployment(account=HERE, tables={"lines": {"name": LINES}})
    assert [problem.partition(":")[0] for problem in refused.value.problems] == ["everything-pack writes arn"]
    assert all(
        "DynamoDB has none across accounts; let a flow of that account" in each for each in refused.value.problems
    )
    assert "everything-ship" not in str(refused.value), "it writes other tables"


def test_runs_of_another_account_than_their_tables_are_refused_too() -> None:
    with pytest.raises(CannotDeploy, match="and its runs are in arn:aws:dynamodb"):
        deployment(account=HERE, tables={"flowguard": {"name": RUNS}})


def test_all_tables_may_be_of_one_other_account() -> None:
    place = RUNS.rpartition("/")[0]
    tables = {name: {"name": f"{place}/{name}"} for name in ("flowguard", "lines", "orders.a", "orders-a")}
    assert not [note for note in deployment(account=HERE, tables=tables).notes if "one transaction" in note]
    assert not [note for note in deployment(tables=tables).notes if "one transaction" in note]


def test_where_no_account_is_named_a_note_says_which_tables_must_be_of_one() -> None:
    [note] = [each for each in deployment(tables={"lines": {"name": LINES}}).notes if "one transaction" in each]
    assert note.startswith(f"{LINES} must be of the account of flowguard: a commit writes both")
    assert not [each for each in deployment(account=THERE, tables={"lines": {"name": LINES}}).notes if LINES in each]


def test_keys_of_once_may_be_in_another_account() -> None:
    keys = f"arn:aws:dynamodb:eu-west-1:{THERE}:table/flowguard"
    options = DeployOptions.model_validate({"account": HERE, "tables": {"flowguard": {"name": keys}}})
    assert needs("tests.deploy.charging", options=options).account == HERE


@pytest.mark.parametrize(
    ("text", "account"),
    [
        (LINES, THERE),
        ("lines", None),
        ("not:an:arn:at:all:x", None),
    ],
)
def test_an_arn_says_its_account_and_a_name_none(text: str, account: str | None) -> None:
    assert account_of(text) == account
