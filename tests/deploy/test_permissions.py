"""What a function may do is what it does: the samples of the shipped flows are run, and each call is compared."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard import Flow, callback_handler, lambda_handler
from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services
from flowguard.client import FlowClient
from flowguard.clock import ManualClock
from flowguard.deploy.cloudformation import cloudformation, sam
from flowguard.deploy.needs import Deployment, Target
from flowguard.deploy.options import DeployOptions, SettingsOptions
from flowguard.deploy.terraform import terraform_json
from flowguard.settings import Settings
from flowguard.sim.account import SIMULATED_ROLE, SIMULATED_SECRETS
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.sim.memory.aws import MemoryAWS
from tests.deploy.everything import OPTIONS
from tests.deploy.exercised import Made, actions_of, exercised, granted, needs
from tests.deploy.waiting import PAYMENTS, Later, Order, Wait

SHIPPED = {
    "validate_cart": "validate_cart",
    "triggered_cache": "triggered_cache",
    "take_payment": "failures",
    "approval": "approval",
    "appointments": "appointments",
    "orders": "orders",
    "page_cache": "page_cache",
    "nightly_recount": "nightly_recount",
    "answer_ticket": "answer_ticket",
}
"""Each shipped flow with the folder of its samples."""

SIGNING = Settings.model_validate({"scheduler_role": SIMULATED_ROLE, **SIMULATED_SECRETS})
OF_THE_WORLD = SettingsOptions(scheduler_group="default", scheduler_role=SIMULATED_ROLE)
"""What the world that runs the samples names in its schedules."""

OF_LAMBDA = {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "logs:CreateLogStream"}
"""What Lambda itself does with the function's role."""

NOT_BY_SAMPLES = {
    ("validate-cart-answers", "dynamodb:GetItem", "flowguard"): "names the room left, of an answer that is too long",
    ("approve-expense-answers", "dynamodb:GetItem", "flowguard"): "names the room left, of an answer that is too long",
    ("approve-expense-answers-url", "dynamodb:GetItem", "flowguard"): "names the room left, of a long answer",
    ("approve-expense", "dynamodb:GetItem", "flowguard"): "names the room left, of an answer that is too long",
    ("answer-ticket-answers", "dynamodb:GetItem", "flowguard"): "names the room left, of an answer that is too long",
    ("answer-ticket", "dynamodb:GetItem", "flowguard"): "names the room left, of an answer that is too long",
    ("book-appointment-give-appointments", "dynamodb:DeleteItem", "diaries"): "step.modify may return no item",
    ("take-payment-dead-letters", "dynamodb:UpdateItem", "flowguard"): "no sample kills its function",
    ("take-payment-dead-letters", "dynamodb:GetItem", "flowguard"): "no sample kills its function",
    **{
        (function, f"dynamodb:{action}", "flowguard"): "no sample has more callers than the run item holds"
        for function in ("page-cache-collect-parts", "page-cache-render-page", "search-cache-search")
        for action in ("PutItem", "Query", "BatchWriteItem")
        if (function, action) != ("page-cache-render-page", "PutItem")
    },
    **{
        ("page-cache-collect-parts", f"dynamodb:{action}", "page-sources"): "step.modify may return any item, or none"
        for action in ("PutItem", "UpdateItem", "DeleteItem")
    },
    ("validate-cart-answers", "dynamodb:PutItem", "flowguard"): "the place of an answer that very many runs wait for",
    ("page-cache-collect-parts", "dynamodb:GetItem", "flowguard"): "reads the list where the end has recorded writes",
}


@cache
def of(flow: str) -> tuple[Deployment, set[Made]]:
    options = DeployOptions(reply_to=("shop-replies",), settings=OF_THE_WORLD)
    needed = needs(f"flows.{flow}.handlers", options=options)
    return needed, exercised(needed, SHIPPED[flow])


@pytest.mark.slow("runs all samples of a flow, twice each")
@pytest.mark.parametrize("flow", SHIPPED)
def test_a_function_does_nothing_that_it_may_not(flow: str) -> None:
    needed, made = of(flow)
    assert sorted(made - granted(needed)) == []
    assert len(made) > 10


@pytest.mark.parametrize("flow", SHIPPED)
def test_a_function_may_do_nothing_to_a_table_that_it_does_not_do(flow: str) -> None:
    needed, made = of(flow)
    unused = {one for one in granted(needed) - made if one[1].startswith("dynamodb:")}
    assert sorted(unused - NOT_BY_SAMPLES.keys()) == []


@pytest.mark.parametrize("flow", SHIPPED)
def test_a_stages_function_hides_and_resends_in_its_own_queues_and_sends_where_its_flow_sends(flow: str) -> None:
    needed, made = of(flow)
    anywhere = {name for _, action, name in made if action == "sqs:SendMessage"}
    parked = {queue.name for queue in needed.queues if queue.name.endswith("-dead-letters")}
    for function, action, name in granted(needed) - made:
        if action == "sqs:SendMessage":
            assert name in {"shop-replies"} | anywhere | parked | set(needed.function(function).reads)
        elif action.startswith("sqs:") and action not in OF_LAMBDA and action != "sqs:GetQueueUrl":
            assert action == "sqs:ChangeMessageVisibility"
            assert name in needed.function(function).reads


def test_nothing_is_granted_on_everything() -> None:
    for flow in SHIPPED:
        for function in of(flow)[0].functions:
            for one in function.permissions:
                assert one.name
                assert "*" not in one.name or one.on in (Target.OBJECTS, Target.BUCKET)
                assert not any("*" in action for action in one.actions)


# -- the deadline of a long wait, which no sample has


class Patient(
    Flow,
    name="patient",
    object_id="order_id",
    answers="patient",
    long_delays=True,
    callbacks=PAYMENTS,
):
    stages = (Wait, Later)


stages = lambda_handler(Patient, together=True)
answers = callback_handler(Patient)


def test_a_function_of_answers_may_schedule_a_deadline_that_came_before_its_moment() -> None:
    """The scheduler refused it at first, so it came by SQS."""
    needed = needs(__name__, options=DeployOptions(reply_to=("replies",), settings=OF_THE_WORLD))
    clock = ManualClock(1_800_000_000_000)
    with MemoryAWS(clock=clock) as aws:
        aws.create_table("flowguard")
        for queue in needed.queues:
            aws.create_queue(queue.name)
        services = aws_services(SIGNING, Clients(), clock=clock)
        FlowClient.of(services).start(Patient, Order(order_id="o1"))
        with intercept(scheduler_is_denied):
            stages.using(services)(received(aws, "waits"))
        clock.advance(seconds=900)
        deadline = received(aws, "patient")
        with intercept(Recorder()) as calls:
            assert answers.using(services)(deadline) == {"batchItemFailures": []}
    made = {("patient-answers", action, name) for call in calls.calls for action, name in actions_of(call)}
    assert ("patient-answers", "scheduler:CreateSchedule", "default") in made
    assert sorted(made - granted(needed)) == []
    assert dict(needed.function("patient-answers").environment)["FLOWGUARD_SCHEDULER_GROUP"] == "default"


def received(aws: MemoryAWS, queue: str) -> Any:
    """Return an event of all that is visible in a queue."""
    sqs = aws.client("sqs")
    url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
    found = sqs.receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], MessageSystemAttributeNames=["All"]
    )
    return {"Messages": [{**one, "eventSourceARN": aws.queue_arn(url)} for one in found["Messages"]]}


def scheduler_is_denied(call: ApiCall, proceed: Proceed, /) -> Response:
    if call.service == "scheduler":
        raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, call.operation)
    return proceed()


def test_records_that_share_calls_need_two_permissions_more_and_answers_do_not() -> None:
    needed = needs(__name__, options=DeployOptions(reply_to=("replies",), settings=OF_THE_WORLD))
    shared = {(action, name) for function, action, name in granted(needed) if function != "patient-answers"}
    assert {("dynamodb:PartiQLInsert", "flowguard"), ("dynamodb:PartiQLUpdate", "flowguard")} <= shared
    assert not {function for function, action, _ in granted(needed) if "PartiQL" in action} & {"patient-answers"}
    alone = needs("flows.orders.handlers", options=DeployOptions(reply_to=("shop-replies",), settings=OF_THE_WORLD))
    assert not any("PartiQL" in action for _, action, _ in granted(alone))


def test_the_bucket_and_the_keys_of_signatures_are_for_each_function() -> None:
    needed = needs("tests.deploy.everything", options=DeployOptions.model_validate(OPTIONS))
    wanted = {
        ("s3:GetObject", "long-texts/here/*"),
        ("s3:ListBucket", "long-texts/here/*"),
        ("s3:PutObject", "long-texts/here/*"),
        ("secretsmanager:GetSecretValue", "flowguard/keys"),
    }
    for function in needed.functions:
        if function.name != "everything-ship":  # its role is there already
            own = {(action, name) for one, action, name in granted(needed) if one == function.name}
            assert wanted <= own, function.name
    quiet = needs("tests.deploy.everything")
    assert not any(action.startswith("s3:") for _, action, _ in granted(quiet))
    secrets = {name for _, action, name in granted(quiet) if action.startswith("secretsmanager:")}
    assert secrets == {"flowguard/signing-keys"} == {quiet.signing_secret}


@pytest.mark.parametrize("token_keys", [None, "ssm:/shop/token-keys"])
def test_tokens_have_the_keys_that_the_options_name_or_the_secret_that_the_template_makes(
    token_keys: str | None,
) -> None:
    needed = needs("tests.deploy.everything", options=DeployOptions(settings=SettingsOptions(token_keys=token_keys)))
    named = {one.name for one in needed.functions if "FLOWGUARD_TOKEN_KEYS" in dict(one.environment)}
    may_read = {function for function, action, name in granted(needed) if name == "/shop/token-keys"}
    assert may_read == ({"everything-answers-url", "everything-pack"} if token_keys else set())
    assert bool(named) is bool(token_keys)
    assert may_read <= named
    assert not any("FLOWGUARD_ANSWERS_URL" in dict(one.environment) for one in needed.functions)
    assert needed.signing_secret == "flowguard/signing-keys"
    assert all("FLOWGUARD_SIGNING_KEYS" in dict(one.environment) for one in needed.functions)


def test_functions_of_links_get_the_base_of_links() -> None:
    options = DeployOptions(settings=SettingsOptions(answers_url="https://answers.example"))
    needed = needs("tests.deploy.everything", options=options)
    bases = {one.name: dict(one.environment).get("FLOWGUARD_ANSWERS_URL") for one in needed.functions}
    assert bases["everything-pack"] == "https://answers.example"
    assert bases["everything-ship"] is None
    assert {one.links_to for one in needed.functions} == {None}, "the options say another base"


def test_a_function_that_makes_links_knows_the_url_that_the_template_makes() -> None:
    needed = needs("tests.deploy.everything")
    assert {one.name: one.links_to for one in needed.functions if one.links_to} == {
        "everything-pack": "everything-answers-url"
    }
    [refers] = [
        block["Properties"]["Environment"]["Variables"]["FLOWGUARD_ANSWERS_URL"]
        for block in json.loads(cloudformation(needed, DeployOptions()))["Resources"].values()
        if "FLOWGUARD_ANSWERS_URL" in block["Properties"].get("Environment", {}).get("Variables", {})
    ]
    assert refers == {"Fn::GetAtt": ["EverythingAnswersUrlUrl", "FunctionUrl"]}
    samled = json.loads(sam(needed, DeployOptions()))["Resources"]["EverythingPackFunction"]["Properties"]
    assert samled["Environment"]["Variables"]["FLOWGUARD_ANSWERS_URL"] == {
        "Fn::GetAtt": ["EverythingAnswersUrlFunctionUrl", "FunctionUrl"]
    }
    terraformed = json.loads(terraform_json(needed, DeployOptions()))["resource"]["aws_lambda_function"]
    assert terraformed["everything_pack"]["environment"]["variables"]["FLOWGUARD_ANSWERS_URL"] == (
        "${aws_lambda_function_url.everything_answers_url.function_url}"
    )
