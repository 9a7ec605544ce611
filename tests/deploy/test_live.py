"""What the doctor asks of AWS: each thing once, and a refusal hides nothing but what it is about."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError

from flowguard.deploy.cloudformation import whole
from flowguard.deploy.derive import needs_of
from flowguard.deploy.examination import examine
from flowguard.deploy.finding import LiveFinding
from flowguard.deploy.found import find_functions
from flowguard.deploy.live import LiveAccount
from flowguard.deploy.needs import Deployment
from flowguard.deploy.options import DeployOptions
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from tests.deploy.deployed import ACCOUNT, REGION, Stack, made_on_moto
from tests.deploy.exercised import needs
from tests.deploy.templates import MODULES, options_of, template
from tests.deploy.test_doctor import SESSION, given_up_to

NEEDED: Final[Deployment] = needs(MODULES["charging"], options=options_of("charging"))
FLOWS: Final = 40
FLOW: Final = """
class Pack{n}(Stage[Order], name="pack-{n}", inbox="to-pack-{n}", then="ship-{n}"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Ship{n}.message(order)


class Ship{n}(Stage[Order], name="ship-{n}", inbox="to-ship-{n}"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Done()


class Orders{n}(Flow, name="orders-{n}", object_id="order_id", reply_to=()):
    stages = (Pack{n}, Ship{n})


orders_{n} = lambda_handler(Orders{n})
killed_{n} = dlq_handler(Orders{n})
"""
HEAD: Final = """
from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Stage, Step, dlq_handler, lambda_handler


class Order(BaseModel):
    order_id: str
"""


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    with made_on_moto(monkeypatch, template("charging"), SESSION) as made:
        yield made


def findings(needed: Deployment = NEEDED) -> list[LiveFinding]:
    return [*examine(needed, DeployOptions(), LiveAccount(SESSION), now=0, most_runs=0)]


def errors() -> list[tuple[str, str]]:
    return [(each.rule, each.resource) for each in findings() if each.rule.endswith("-missing")]


def refusing(operation: str, code: str, *names: str) -> Callable[[ApiCall, Proceed], Response]:
    """Refuse an operation on resources of these names, or on all."""

    def refuse(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == operation and (not names or set(names) & set(map(str, call.params.values()))):
            details: Any = {"Error": {"Code": code, "Message": "no"}}
            raise ClientError(details, operation)
        return proceed()

    return refuse


def question(call: ApiCall) -> str:
    return json.dumps((call.service, call.operation, call.params), sort_keys=True, default=str)


def test_each_thing_is_asked_once(stack: Stack) -> None:
    with intercept(Recorder()) as asked:
        findings()
    assert [each for each, times in Counter(map(question, asked.calls)).items() if times > 1] == []


@pytest.mark.parametrize("code", ["AccessDenied", "RequestThrottled"])
def test_a_refusal_hides_nothing_of_another_queue(code: str, stack: Stack) -> None:
    sqs = stack.client("sqs")
    sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName="charge-dead-letters")["QueueUrl"])
    with intercept(refusing("GetQueueUrl", code, "charge")):
        [refused] = [each for each in findings() if each.resource == "sqs:get_queue_url"]
        assert errors() == [("queue-missing", "charge-dead-letters")]
    assert refused.what == f"get_queue_url of sqs is refused ({code}) for charge"


def test_attributes_that_may_not_be_read_are_of_a_queue_that_is_there(stack: Stack) -> None:
    sqs = stack.client("sqs")
    url = sqs.get_queue_url(QueueName="charge")["QueueUrl"]
    with intercept(refusing("GetQueueAttributes", "AccessDenied", url)):
        [refused] = [each for each in findings() if each.resource == "sqs:get_queue_attributes"]
        assert errors() == []
    assert refused.what.endswith(" for charge")


@pytest.mark.parametrize("operation", ["GetQueueUrl", "GetQueueAttributes"])
def test_a_queue_of_letters_that_may_not_be_read_is_not_missing(operation: str, stack: Stack) -> None:
    others = stack.client("sqs").create_queue(QueueName="others")["QueueUrl"]
    given_up_to(stack, "charge", "others")
    with intercept(refusing(operation, "AccessDenied", "others", others)):
        assert errors() == []
    stack.client("sqs").delete_queue(QueueUrl=others)
    assert errors() == [("redrive-target-missing", "charge")]


def test_a_refusal_hides_nothing_of_another_function_or_table(stack: Stack) -> None:
    stack.client("lambda").delete_function(FunctionName="charge-charging")
    stack.client("dynamodb").delete_table(TableName="refunds")
    others = {each.name for each in NEEDED.functions} - {"charge-charging"}
    with (
        intercept(refusing("GetFunctionConfiguration", "TooManyRequestsException", *others)),
        intercept(refusing("DescribeTable", "AccessDeniedException", "idempotency")),
    ):
        assert sorted(errors()) == [("function-missing", "charge-charging"), ("table-missing", "refunds")]


def test_what_is_refused_of_many_is_one_note(stack: Stack) -> None:
    with intercept(refusing("GetQueueUrl", "AccessDenied")):
        [refused] = [each for each in findings() if each.resource == "sqs:get_queue_url"]
    names = sorted({queue.name for queue in NEEDED.queues})
    assert len(names) <= 10, "a note names ten"
    assert refused.what == f"get_queue_url of sqs is refused (AccessDenied) for {', '.join(names)}"


def test_a_note_names_ten() -> None:
    live = LiveAccount(SESSION)
    live.unread = {("sqs:get_queue_url", f"q{number:02}"): "AccessDenied" for number in range(12)}
    live.unread["sts:get_caller_identity", ""] = "AccessDenied"
    assert [each.what for each in live.notes()] == [
        "get_queue_url of sqs is refused (AccessDenied) for q00, q01, q02, q03, q04, q05, q06, q07, q08, q09 and 2 "
        "others",
        "get_caller_identity of sts is refused (AccessDenied)",
    ]


def page(call: ApiCall, proceed: Proceed) -> Response:
    """Lambda has three mappings, on two pages."""
    assert call.operation == "ListEventSourceMappings"
    if call.params.get("Marker") == "2":
        return {"EventSourceMappings": [{"UUID": "c"}]}
    return {"EventSourceMappings": [{"UUID": "a"}, {"UUID": "b"}], "NextMarker": "2"}


def test_mappings_come_in_pages() -> None:
    with intercept(page):
        live = LiveAccount(SESSION)
        for mappings in (live.event_sources("pack"), live.readers(f"arn:aws:sqs:{REGION}:{ACCOUNT}:pack")):
            assert mappings is not None
            assert [each["UUID"] for each in mappings] == ["a", "b", "c"]


def test_of_mappings_with_a_page_that_may_not_be_read_nothing_is_said() -> None:
    with intercept(refusing("ListEventSourceMappings", "TooManyRequestsException", "2")), intercept(page):
        live = LiveAccount(SESSION)
        assert live.event_sources("pack") is None
        assert not live.was_read("lambda", "list_event_source_mappings", "pack")


EMPTY: Final[dict[str, Response]] = {
    "ListEventSourceMappings": {"EventSourceMappings": []},
    "ListPipes": {"Pipes": []},
    "GetFunctionRecursionConfig": {"RecursiveLoop": "Allow"},
    "DescribeLogGroups": {"logGroups": []},
    "GetResources": {"ResourceTagMappingList": []},
}


class Everything:
    """An account of which each function, queue and role is there. Nothing is computed, for calls are counted alone."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, call: ApiCall, proceed: Proceed) -> Response:
        self.asked.append(question(call))
        params = call.params
        match call.operation:
            case "GetCallerIdentity":
                return {"Account": ACCOUNT, "ResponseMetadata": {}}
            case "GetQueueUrl":
                return {"QueueUrl": f"https://sqs/{ACCOUNT}/{params['QueueName']}"}
            case "GetQueueAttributes":
                name = params["QueueUrl"].rpartition("/")[2]
                return {"Attributes": self._queue(name)}
            case "GetFunctionConfiguration":
                return self._function(params["FunctionName"])
            case "SimulatePrincipalPolicy":
                allowed = [{"EvalActionName": each, "EvalDecision": "allowed"} for each in params["ActionNames"]]
                return {"EvaluationResults": allowed}
            case _:
                if call.operation not in EMPTY:
                    refusing(call.operation, "ResourceNotFoundException")(call, proceed)
                return EMPTY[call.operation]

    def _queue(self, name: str) -> dict[str, str]:
        """A queue that gives records up, with a policy that allows nothing."""
        arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"
        redrive = json.dumps({"deadLetterTargetArn": f"{arn}-killed", "maxReceiveCount": 100})
        policy = json.dumps({"Version": "2012-10-17", "Statement": []})
        return {"QueueArn": arn, "MessageRetentionPeriod": "1", "RedrivePolicy": redrive, "Policy": policy}

    def _function(self, name: str) -> Response:
        role = f"arn:aws:iam::{ACCOUNT}:role/{name}"
        return {
            "FunctionName": name,
            "FunctionArn": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}",
            "Role": role,
            "Handler": "a.b",
            "Timeout": 30,
            "Environment": {"Variables": {"FLOWGUARD_SCHEDULER_ROLE": role}},
        }


@pytest.mark.slow("examines a deployment of forty flows")
def test_the_calls_are_about_as_many_as_there_are_resources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lambda takes few calls a second of its control plane, and what is throttled is not looked at."""
    code = HEAD + "".join(FLOW.format(n=number) for number in range(FLOWS))
    (tmp_path / "forty_flows.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    needed = needs_of(find_functions(["forty_flows"]), DeployOptions())
    resources = len(whole(needed, DeployOptions())["Resources"])
    with intercept(Everything()) as account:
        findings(needed)
    functions = sum("GetFunctionConfiguration" in each for each in account.asked)
    assert functions == len(needed.functions) == 2 * FLOWS
    assert len(account.asked) == len(set(account.asked))
    assert resources < len(account.asked) < 1.5 * resources
