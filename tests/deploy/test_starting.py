"""What a deployment needs of functions that start runs over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from flowguard.aws.clients import Clients
from flowguard.aws.ledger import ledger_of
from flowguard.aws.services import aws_services
from flowguard.clock import ManualClock, no_pause
from flowguard.deploy.derive import START_TIMEOUT
from flowguard.deploy.needs import Deployment, Target
from flowguard.settings import Settings
from flowguard.sim.account import SIMULATED_SECRETS
from flowguard.sim.calls import Recorder, intercept
from flowguard.sim.memory.aws import MemoryAWS
from tests.deploy.deployed import Stack, made_on_moto
from tests.deploy.exercised import actions_of, granted, needs
from tests.deploy.starting import start
from tests.deploy.templates import MODULES, of_type, options_of, template
from tests.deploy.test_doctor import SESSION, findings
from tests.start_door import event_of

STARTS: Final = "shipping-start"


def deployment() -> Deployment:
    return needs(MODULES["starting"], options=options_of("starting"))


def test_it_may_keep_keys_send_and_look_and_nothing_else() -> None:
    [function] = [each for each in deployment().functions if each.name == STARTS]
    assert [(each.on, each.name, each.actions) for each in function.permissions if each.on is not Target.LOGS] == [
        (Target.QUEUE, "ship", ("sqs:GetQueueUrl", "sqs:SendMessage")),
        (Target.SECRET, "flowguard/signing-keys", ("secretsmanager:GetSecretValue",)),
        (Target.TABLE, "flowguard", ("dynamodb:GetItem", "dynamodb:UpdateItem")),
    ]
    assert (function.reads, function.has_url, function.url_auth) == ((), True, "AWS_IAM")
    assert (function.timeout, function.reserved, function.links_to) == (START_TIMEOUT, 10, None)


def test_it_does_what_it_may() -> None:
    settings = Settings.model_validate(SIMULATED_SECRETS)
    made: set[tuple[str, str]] = set()
    with MemoryAWS() as aws:
        aws.create_table("flowguard")
        aws.create_queue("ship")
        clients, clock = Clients(), ManualClock()
        services = aws_services(settings, clients, clock=clock, pause=no_pause)
        function = start.using(services, ledger_of(settings, clients), lambda s: clock.advance(seconds=s))
        headers = {"content-type": "application/json", "idempotency-key": "k"}
        with intercept(Recorder()) as calls:
            assert function(event_of("url", "POST", '{"order_id":"o1"}', headers))["statusCode"] == 202
        made |= {(action, name) for call in calls.calls for action, name in actions_of(call)}
    may = {(action, name) for function, action, name in granted(deployment()) if function == STARTS}
    assert {each for each in made if not each[0].startswith(("ssm:", "secretsmanager:"))} == {
        each for each in may if not each[0].startswith(("logs:", "secretsmanager:"))
    }


def test_the_keys_of_its_links_are_given_or_made() -> None:
    assert deployment().signing_secret == "flowguard/signing-keys"
    options = options_of("starting")
    settings = options.settings.model_copy(update={"token_keys": "ssm:/tokens"})
    needed = needs(MODULES["starting"], options=options.model_copy(update={"settings": settings}))
    function = needed.function(STARTS)
    assert needed.signing_secret is None
    assert dict(function.environment)["FLOWGUARD_TOKEN_KEYS"] == "ssm:/tokens"
    assert (Target.PARAMETER, "/tokens") in [(each.on, each.name) for each in function.permissions]
    assert "FLOWGUARD_TOKEN_KEYS" not in dict(needed.function("shipping-ship").environment)


def test_only_what_is_public_by_the_options_is_public() -> None:
    urls = {own["TargetFunctionArn"]["Ref"]: own["AuthType"] for _, own in of_type("starting", "AWS::Lambda::Url")}
    assert urls == {"ShippingStartFunction": "AWS_IAM", "ShippingStartPublicFunction": "NONE"}
    permitted = [own["FunctionName"]["Ref"] for _, own in of_type("starting", "AWS::Lambda::Permission")]
    assert set(permitted) == {"ShippingStartPublicFunction"}
    sam = template("starting", "sam")["Resources"]["ShippingStartFunction"]["Properties"]
    assert sam["FunctionUrlConfig"] == {"AuthType": "AWS_IAM"}
    terraform = template("starting", "terraform-json")["resource"]
    auths = {name: block["authorization_type"] for name, block in terraform["aws_lambda_function_url"].items()}
    assert auths == {"shipping_start": "AWS_IAM", "shipping_start_public": "NONE"}
    assert list(terraform["aws_lambda_permission"]) == ["shipping_start_public"]


def test_the_template_says_what_a_url_is_for() -> None:
    outputs = template("starting")["Outputs"]
    assert outputs["ShippingStartUrl"]["Description"] == "Where shipping-start starts runs."
    assert deployment().function("shipping-start-public").timeout == 10
    assert deployment().function("shipping-start-public").reserved is None


# -- the doctor -------------------------------------------------------------------------------------------------------


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    with made_on_moto(monkeypatch, template("starting"), SESSION) as made:
        yield made


def rules(stack: Stack) -> list[tuple[str, str, str]]:
    return [(each.rule, each.severity.value, each.resource) for each in findings(stack, needed=deployment())]


def call_url(stack: Stack, operation: str, **more: Any) -> None:
    getattr(stack.client("lambda"), operation)(FunctionName=STARTS, **more)


WRONG: Final[dict[str, tuple[Callable[[Stack], None], tuple[str, str, str]]]] = {
    "no URL": (
        lambda stack: call_url(stack, "delete_function_url_config"),
        ("url-missing", "warning", STARTS),
    ),
    "a URL for all": (
        lambda stack: call_url(stack, "update_function_url_config", AuthType="NONE"),
        ("url-open", "warning", STARTS),
    ),
}


def test_nothing_is_wrong_with_what_the_template_makes(stack: Stack) -> None:
    assert rules(stack) == []


@pytest.mark.parametrize("mishap", WRONG)
def test_the_doctor_finds_what_is_wrong(stack: Stack, mishap: str) -> None:
    spoil, wanted = WRONG[mishap]
    spoil(stack)
    assert rules(stack) == [wanted]
