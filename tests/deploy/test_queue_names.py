"""Queues that are not the same are not taken for one, whatever they are called, and what is no queue is none."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard import Done, Flow, Outcome, Stage, Step, dlq_handler, lambda_handler
from flowguard.deploy.needs import Deployment
from flowguard.deploy.problems import CannotDeploy
from tests.deploy.test_derive import Deploy
from tests.deploy.test_derive import deploy as deploy  # noqa: PLC0414 - a fixture
from tests.deploy.waiting import Order

HERE, THERE = "123456789012", "210987654321"
THEIRS = f"arn:aws:sqs:eu-west-1:{THERE}:results"
OURS = f"arn:aws:sqs:eu-west-1:{HERE}:results"


class Tell(Stage[Order], name="tell", inbox="to-tell"):
    def handle(self, order: Order, step: Step[Any]) -> Outcome:
        step.send("results", order)
        return Done()


def told(deploy: Deploy, *others: str, **options: Any) -> Deployment:
    """A flow that sends to its own queue ``results``, and to others, under these options."""

    class Telling(Flow, name="telling", object_id="order_id", reply_to=others):
        stages = (Tell,)

    return deploy(options, tell=lambda_handler(Telling), dead=dlq_handler(Telling))


def refused(deploy: Deploy, *others: str, **options: Any) -> str:
    with pytest.raises(CannotDeploy) as refusal:
        told(deploy, *others, **options)
    [problem] = refusal.value.problems
    return problem


@pytest.mark.parametrize("other", [THEIRS, f"https://sqs.eu-west-1.amazonaws.com/{THERE}/results"])
def test_a_queue_of_another_account_is_not_the_own_of_its_short_name(other: str, deploy: Deploy) -> None:
    problem = refused(deploy, other, account=HERE)
    assert problem.startswith(f"{other} and results are two queues, and both are called 'results'")
    assert "rename one of them; nothing was written" in problem


def test_a_queue_of_another_region_is_not_the_own_either(deploy: Deploy) -> None:
    assert OURS in refused(deploy, OURS, account=HERE, region="eu-central-1")


def test_two_queues_of_two_accounts_are_two_without_options_too(deploy: Deploy) -> None:
    problem = refused(deploy, THEIRS, OURS)
    assert problem.startswith(f"{OURS} and {THEIRS} are two queues")


@pytest.mark.parametrize("options", [{}, {"account": HERE}, {"account": HERE, "region": "eu-west-1"}])
def test_one_queue_may_be_named_in_two_ways(options: dict[str, str], deploy: Deploy) -> None:
    assert [queue.name for queue in told(deploy, OURS, **options).queues].count("results") == 1


def test_a_name_that_the_options_give_decides(deploy: Deploy) -> None:
    assert told(deploy, THEIRS, account=HERE, queues={"results": {"name": THEIRS}}).queue("results").arn == THEIRS
    problem = refused(deploy, OURS, account=HERE, settings={"names": "prod-*"})
    assert f"{OURS} and results (prod-results) are two queues" in problem


def test_queues_of_two_names_are_not_compared(deploy: Deploy) -> None:
    assert told(deploy, f"{THEIRS}-2", account=HERE).queue("results").made


def test_a_table_of_a_queues_name_is_no_queue(deploy: Deploy) -> None:
    queue = f"arn:aws:sqs:eu-west-1:{THERE}:flowguard"
    needed = told(deploy, queue, account=HERE)
    assert (needed.run_table, needed.queue("flowguard").arn) == ("flowguard", queue)


@pytest.mark.parametrize(
    ("service", "rest", "fix"),
    [
        ("sns", "news", "write Topic('{}'); nothing was written"),
        ("lambda", "function:price", "write Function('{}'); nothing was written"),
        ("events", "event-bus/shop", "write Bus('{}', source=…, detail_type=…); nothing was written"),
        ("kinesis", "stream/clicks", "write the ARN or the name of a queue; nothing was written"),
    ],
)
def test_an_arn_that_is_no_queues_is_refused_where_a_queue_is_meant(
    service: str, rest: str, fix: str, deploy: Deploy
) -> None:
    arn = f"arn:aws:{service}:eu-west-1:{HERE}:{rest}"

    class Misnamed(Stage[Order], name="misnamed", inbox="to-misname"):
        def handle(self, order: Order, step: Step[Any]) -> Outcome:
            step.send(arn, order)
            return Done()

    class Misnaming(Flow, name="misnaming", object_id="order_id", reply_to=()):
        stages = (Misnamed,)

    with pytest.raises(CannotDeploy) as refusal:
        deploy(misnamed=lambda_handler(Misnaming), dead=dlq_handler(Misnaming))
    [problem] = refusal.value.problems
    assert problem.startswith(f"{arn} is named as a queue, as each plain text is, and it is of {service}; ")
    assert problem.endswith(fix.format(arn))
