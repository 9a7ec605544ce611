"""What a deployment needs follows from its flows, handlers and options, and what cannot be deployed is named."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from flowguard import (
    ATTACH,
    SUPERSEDE,
    Bus,
    Callback,
    Done,
    Exponential,
    Failure,
    Flow,
    Outcome,
    RetryPolicy,
    Stage,
    Step,
    Topic,
    callback_handler,
    dlq_handler,
    lambda_handler,
    start_handler,
)
from flowguard.deploy.derive import needs_of
from flowguard.deploy.found import find_functions
from flowguard.deploy.needs import Deployment, Role, Target
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.permissions import IN_VPC, TRACED
from flowguard.deploy.problems import CannotDeploy
from flowguard.flow import AnyFlow
from flowguard.stage import AnyStage
from tests.deploy.waiting import PAYMENTS, Later, Order, Wait

AnyStep = Step[Any]
MODULE = "shop_handlers"
DAY = 86_400
KEY = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"


class Ship(Stage[Order], name="ship", inbox="to-ship"):
    def handle(self, order: Order, step: AnyStep) -> Outcome:
        step.put("parcels", order)
        return Done()


class Place(Stage[Order], name="place", then="ship", inbox="placed"):
    def handle(self, order: Order, step: AnyStep) -> Outcome:
        step.send("mails", order)
        return Ship.message(order)


class Shop(Flow, name="shop", object_id="order_id"):
    stages = (Place, Ship)


TABLES = {"parcels": "order_id"}
NEWS = "arn:aws:sns:us-east-1:123456789012:news"

Deploy = Callable[..., Deployment]


@pytest.fixture
def deploy(monkeypatch: pytest.MonkeyPatch) -> Deploy:
    """Describe a module with these handlers."""

    def described(options: dict[str, Any] | None = None, /, **handlers: Any) -> Deployment:
        module: Any = types.ModuleType(MODULE)
        vars(module).update(handlers)
        monkeypatch.setitem(sys.modules, MODULE, module)
        return needs_of(find_functions([MODULE]), DeployOptions.model_validate(options or {}))

    return described


def refusal(deploy: Deploy, options: dict[str, Any] | None = None, /, **handlers: Any) -> str:
    with pytest.raises(CannotDeploy) as refused:
        deploy(options, **handlers)
    return str(refused.value)


def made(stages: tuple[AnyStage, ...], module: str = __name__, **options: Any) -> AnyFlow:
    names = {"name": "own", "object_id": "order_id", **options}
    return types.new_class("Own", (Flow,), names, lambda body: body.update(stages=stages, __module__=module))


# -- what is needed


def test_handlers_say_which_function_serves_which_stage(deploy: Deploy) -> None:
    needed = deploy(place=lambda_handler(Shop, Place), ship=lambda_handler(Shop, Ship))
    assert [(one.name, one.definition.handler, one.reads) for one in needed.functions] == [
        ("shop-place", "shop_handlers.place", ("placed",)),
        ("shop-ship", "shop_handlers.ship", ("to-ship",)),
    ]
    assert [(one.name, one.role, one.reader) for one in needed.queues] == [
        ("mails", Role.OUTSIDE, None),
        ("placed", Role.INBOX, "shop-place"),
        ("shop-dead-letters", Role.DEAD_LETTERS, None),
        ("to-ship", Role.INBOX, "shop-ship"),
    ]
    assert [(one.name, one.key.names, one.ttl) for one in needed.tables] == [
        ("flowguard", ("pk", "sk"), "ttl"),
        ("parcels", ("order_id",), None),
    ]


def test_one_function_may_serve_all(deploy: Deploy) -> None:
    needed = deploy(handler=lambda_handler(Shop))
    assert [(one.name, one.reads) for one in needed.functions] == [("shop-handler", ("placed", "to-ship"))]


def test_a_handler_that_has_two_names_or_two_modules_is_one_function(deploy: Deploy) -> None:
    handler = lambda_handler(Shop)
    assert [one.name for one in deploy(one=handler, two=handler).functions] == ["shop-one"]


def test_a_flow_can_be_chosen(deploy: Deploy, monkeypatch: pytest.MonkeyPatch) -> None:
    class Other(Stage[Order], name="other"):
        def handle(self, order: Order, step: AnyStep) -> Outcome:
            return Done()

    other = made((Other,), name="other")
    deploy(shop=lambda_handler(Shop), other=lambda_handler(other))
    for chosen in ("shop", "Shop"):
        assert [one.attribute for one in find_functions([f"{MODULE}:{chosen}"])] == ["shop"]
    with pytest.raises(CannotDeploy, match="no handler of shop_handlers serves 'nobody'; they serve other, shop"):
        find_functions([f"{MODULE}:nobody"])


def test_a_fifo_queue_of_records_given_up_gives_up_to_a_fifo_queue_which_keeps_them_longer(deploy: Deploy) -> None:
    class Ordered(Stage[Order], name="ordered", inbox="orders.fifo"):
        def handle(self, order: Order, step: AnyStep) -> Outcome:
            return Done()

    flow = made((Ordered,))
    needed = deploy(ordered=lambda_handler(flow), killed=dlq_handler(flow))
    killed, last = needed.queue("own-killed.fifo"), needed.queue("own-undelivered.fifo")
    assert (killed.give_up_to, killed.max_receive_count, last.role) == (last.name, 1_000, Role.DEAD_LETTERS)
    assert needed.queue("orders.fifo").retention < killed.retention < last.retention


def test_the_queue_of_what_nobody_can_deliver_is_no_inbox(deploy: Deploy) -> None:
    class Ordered(Stage[Order], name="ordered", inbox="own-undelivered.fifo"):
        def handle(self, order: Order, step: AnyStep) -> Outcome:
            return Done()

    flow = made((Ordered,))
    told = refusal(deploy, ordered=lambda_handler(flow), killed=dlq_handler(flow))
    assert "'own-undelivered.fifo' is for what nobody can read or deliver; give own another inbox" in told


def test_the_visibility_timeout_is_six_times_the_functions_and_its_window(deploy: Deploy) -> None:
    class Slow(Stage[Order], name="slow", timeout=timedelta(seconds=100)):
        def handle(self, order: Order, step: AnyStep) -> Outcome:
            return Done()

    needed = deploy({"defaults": {"window": 7}}, slow=lambda_handler(made((Slow,))))
    [function] = needed.functions
    assert (function.timeout, needed.queue("own").visibility) == (205, 6 * 205 + 7)


def taking(seconds: int | None, **about: Any) -> AnyFlow:
    class Only(Stage[Order], name="only", timeout=None if seconds is None else timedelta(seconds=seconds), **about):
        def handle(self, order: Order, step: AnyStep) -> Outcome:
            return Done()

    return made((Only,))


@pytest.mark.parametrize(
    ("seconds", "options", "batching"),
    [
        (None, {}, (10, 35)),
        (None, {"timeout": 20}, (10, 20)),
        (1, {}, (10, 30)),
        (25, {}, (10, 255)),
        (29, {}, (10, 295)),
        (30, {}, (9, 275)),
        (100, {}, (2, 205)),
        (200, {}, (1, 205)),
        (895, {}, (1, 900)),
        (25, {"timeout": 30}, (1, 30)),
        (25, {"timeout": 75}, (3, 75)),
        (25, {"timeout": 25}, (1, 25)),
        (898, {"timeout": 900}, (1, 900)),
        (25, {"batch_size": 2}, (2, 55)),
        (89, {"batch_size": 10}, (10, 895)),
        (90, {"batch_size": 10}, (10, 900)),
        (25, {"batch_size": 10, "timeout": 250}, (10, 250)),
    ],
)
def test_a_batch_is_as_large_as_its_function_has_time_for(
    seconds: int | None, options: dict[str, Any], batching: tuple[int, int], deploy: Deploy
) -> None:
    [function] = deploy({"defaults": options}, own=lambda_handler(taking(seconds))).functions
    assert (function.batch_size, function.timeout) == batching


def test_records_that_are_handled_at_once_take_their_time_once(deploy: Deploy) -> None:
    flow = taking(60, parallel=4)
    [function] = deploy(own=lambda_handler(flow, together=True)).functions
    assert (function.batch_size, function.timeout) == (10, 185)
    [function] = deploy(own=lambda_handler(flow)).functions
    assert (function.batch_size, function.timeout) == (4, 245)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"batch_size": 10, "timeout": 249}, "may take 0:00:25: that is up to 250 s, and it is stopped after 249 s"),
        ({"batch_size": 10, "timeout": 249}, "say batch_size = 9"),
        ({"batch_size": 37}, "that is up to 925 s, and it is stopped after 900 s"),
    ],
)
def test_a_batch_that_its_function_has_no_time_for_is_named(options: dict[str, int], told: str, deploy: Deploy) -> None:
    assert told in refusal(deploy, {"defaults": {**options, "window": 1}}, own=lambda_handler(taking(25)))


def test_it_says_how_many_records_there_is_time_for_in_the_longest_time_where_the_function_names_none(
    deploy: Deploy,
) -> None:
    told = refusal(deploy, {"defaults": {"batch_size": 20, "window": 1}}, own=lambda_handler(taking(60)))
    assert "that is up to 1200 s, and it is stopped after 900 s" in told
    assert "say batch_size = 10" in told


@pytest.mark.parametrize(("attempts", "receives"), [(5, 100), (20, 220), (100, 1_000)])
def test_in_a_fifo_queue_a_record_is_also_received_with_the_attempts_of_those_in_front_of_it(
    attempts: int, receives: int, deploy: Deploy
) -> None:
    flow = taking(None, inbox="own.fifo", retry=RetryPolicy(attempts=attempts))
    assert deploy(own=lambda_handler(flow)).queue("own.fifo").max_receive_count == receives
    said = {"queues": {"own.fifo": {"max_receive_count": attempts + 1}}}
    assert deploy(said, own=lambda_handler(flow)).queue("own.fifo").max_receive_count == attempts + 1
    said["queues"]["own.fifo"]["max_receive_count"] = attempts
    told = f"up after {attempts} receives, and its stage may make {attempts} attempts, a receive each"
    assert told in refusal(deploy, said, own=lambda_handler(flow))
    standard = taking(None, retry=RetryPolicy(attempts=attempts))
    assert deploy(own=lambda_handler(standard)).queue("own").max_receive_count == 100


def test_the_attempts_of_another_queue_of_its_flow_use_up_no_receives(deploy: Deploy) -> None:
    class Slow(Stage[Order], name="slow", inbox="slow.fifo", retry=RetryPolicy(attempts=20)):
        def handle(self, order: Order, step: AnyStep) -> Outcome:
            return Done()

    class Quick(Stage[Order], name="quick", then="slow", inbox="quick.fifo"):
        def handle(self, order: Order, step: AnyStep) -> Outcome:
            return Slow.message(order)

    needed = deploy(own=lambda_handler(made((Quick, Slow))))
    receives = [needed.queue(name).max_receive_count for name in ("quick.fifo", "slow.fifo")]
    assert receives == [100, 220]


def test_the_options_of_a_queue_are_those_of_its_name(deploy: Deploy) -> None:
    role = "arn:aws:iam::123456789012:role/shop-api"
    given = {"shop-killed": {"max_receive_count": 7}, "placed": {"senders": [role]}}
    needed = deploy({"queues": given}, shop=lambda_handler(Shop), dead=dlq_handler(Shop))
    assert needed.queue("shop-killed").max_receive_count == 7
    assert {one.name: one.senders for one in needed.queues if one.senders} == {"placed": (role,)}


def test_an_inbox_where_requests_events_or_answers_arrive_takes_more_than_hops(deploy: Deploy) -> None:
    class Told(Stage[Order], name="told", inbox=Topic(NEWS)):
        def handle(self, order: Order, step: AnyStep) -> Outcome:
            return Done()

    class First(Stage[Order], name="first", then="told", inbox="first"):
        def handle(self, order: Order, step: AnyStep) -> Outcome:
            return Told.message(order)

    def taking(flow: AnyFlow) -> set[str]:
        handlers = [lambda_handler(flow), callback_handler(flow)][: 1 + bool(flow.callbacks)]
        needed = deploy(**{f"h{number}": one for number, one in enumerate(handlers)})
        return {one.name for one in needed.queues if one.hops_only}

    assert taking(made((Place, Ship))) == {"to-ship"}
    assert taking(made((Place, Ship), entries=("ship",))) == set()
    assert taking(made((Place, Ship), answers="to-ship")) == {"to-ship"}, "nothing answers a flow that never waits"
    assert taking(made((Place, Ship), answers="to-ship", on_conflict=ATTACH)) == set()
    assert taking(made((First, Told))) == set()


@pytest.mark.parametrize("dead", [Topic(NEWS), "arn:aws:sqs:us-east-1:210987654321:theirs"], ids=str)
def test_what_a_topic_cannot_deliver_is_kept_here_where_the_dead_letters_are_elsewhere(
    dead: Any, deploy: Deploy
) -> None:
    class Told(Stage[Order], name="told", inbox=Topic(f"{NEWS}-of-orders")):
        def handle(self, order: Order, step: AnyStep) -> Outcome:
            return Done()

    needed = deploy(own=lambda_handler(made((Told,), dead_letters=dead)))
    [fed] = [one for one in needed.queues if one.topics]
    assert fed.undelivered == ("own-undelivered",)


def test_a_stage_that_asks_whether_its_run_is_current_may_read_it(deploy: Deploy) -> None:
    class Asks(Stage[Order], name="asks"):
        def handle(self, order: Order, step: AnyStep) -> Outcome:
            return Done(step.is_current())

    for stage, reads in ((Asks, True), (Ship, False)):
        [function] = deploy(own=lambda_handler(made((stage,)))).functions
        run_table = next(one for one in function.permissions if one.name == "flowguard")
        assert ("dynamodb:GetItem" in run_table.actions) is reads


@pytest.mark.parametrize(("token_keys", "secret"), [(None, "flowguard/signing-keys"), ("ssm:/mine", None)])
def test_links_of_a_flow_that_believes_its_senders_need_a_key_all_the_same(
    deploy: Deploy, token_keys: str | None, secret: str | None
) -> None:
    class Decide(Stage[Order], name="decide", then=("later",)):
        def handle(self, order: Order, step: AnyStep) -> Outcome:
            return Later.when_all(decision=step.token("decision"), within=timedelta(days=1))

    flow = made((Decide, Later), trust_senders=True)
    needed = deploy({"settings": {"token_keys": token_keys}}, own=lambda_handler(flow), answers=callback_handler(flow))
    assert needed.signing_secret == secret


def test_a_function_whose_links_two_urls_answer_is_given_neither(deploy: Deploy) -> None:
    class Decide(Stage[Order], name="decide", then=("later",)):
        def handle(self, order: Order, step: AnyStep) -> Outcome:
            return Later.when_all(decision=step.token("decision"), within=timedelta(days=1))

    one, other = made((Decide, Later)), made((Decide, Later), name="other", inbox="others")
    apart = {"own_answers": callback_handler(one), "other_answers": callback_handler(other)}
    assert [each.links_to for each in deploy(both=lambda_handler(one, other), **apart).functions if each.links_to] == []
    shared = deploy(both=lambda_handler(one, other), answers=callback_handler(one, other))
    assert [each.name for each in shared.functions if each.links_to] == ["own-both"]


def test_a_flow_that_believes_its_senders_needs_no_keys(deploy: Deploy) -> None:
    secrets = []
    for trusting in (False, True):
        flow = made((Wait, Later), callbacks=PAYMENTS, trust_senders=trusting)
        secrets.append(deploy(own=lambda_handler(flow), answers=callback_handler(flow)).signing_secret)
    assert secrets == ["flowguard/signing-keys", None]


def test_answers_of_a_flow_that_a_topic_begins_come_through_its_callbacks_alone(deploy: Deploy) -> None:
    flow = made((Ship,), inbox=Topic(NEWS), callbacks=PAYMENTS)
    needed = deploy(own=lambda_handler(flow), answers=callback_handler(flow))
    assert needed.function("own-answers").reads == ("payments",)


def test_a_function_of_answers_keeps_no_history_and_no_place_of_an_answer_where_no_callback_brings_one(
    deploy: Deploy,
) -> None:
    flow = made((Wait, Later), full_history=True)
    needed = deploy(own=lambda_handler(flow), answers=callback_handler(flow))
    may = {
        one.definition.attribute: {action for each in one.permissions for action in each.actions}
        for one in needed.functions
    }
    assert ("dynamodb:PutItem" in may["own"], "dynamodb:PutItem" in may["answers"]) == (True, False)


@pytest.mark.parametrize(("handled", "times"), [(False, (4, None, 10)), (True, (12, 13, 14))])
def test_a_queue_keeps_messages_no_longer_than_the_flows_retention_and_for_most_of_it_where_an_outage_is_survived(
    deploy: Deploy, handled: bool, times: tuple[int, int | None, int]
) -> None:
    dead = {"dead": dlq_handler(Shop)} if handled else {}
    needed = deploy(shop=lambda_handler(Shop), **dead)
    inbox, letters = needed.queue("placed"), needed.queue("shop-dead-letters")
    assert (inbox.retention, letters.retention) == (times[0] * DAY, times[2] * DAY)
    given_up = needed.queue(inbox.give_up_to or "")
    if handled:
        assert (given_up.name, given_up.role, given_up.reader) == ("shop-killed", Role.KILLED, "shop-dead")
        assert given_up.retention == (times[1] or 0) * DAY
    else:
        assert given_up is letters


def test_throttled_functions_use_up_the_receives_of_a_record_that_was_given_up_only_when_it_nearly_expires(
    deploy: Deploy,
) -> None:
    needed = deploy(shop=lambda_handler(Shop), dead=dlq_handler(Shop))
    killed = needed.queue("shop-killed")
    lasts = killed.visibility * killed.max_receive_count / killed.retention
    assert (killed.give_up_to, killed.max_receive_count) == ("shop-dead-letters", 1_000)
    assert 0.95 <= lasts < 0.96


def test_what_is_said_of_the_queue_of_records_given_up_holds(deploy: Deploy) -> None:
    options = {"queues": {"shop-killed": {"max_receive_count": 20}}}
    killed = deploy(options, shop=lambda_handler(Shop), dead=dlq_handler(Shop)).queue("shop-killed")
    assert (killed.max_receive_count, killed.visibility) == (20, 42_000), "SQS hides nothing for longer than 12 hours"


@pytest.mark.parametrize(("handled", "receives", "lasts"), [(True, 1_000, 0.95), (False, 100, 0.06)])
def test_an_answer_from_outside_which_only_its_own_function_can_read_is_given_up_when_it_nearly_expires(
    deploy: Deploy, handled: bool, receives: int, lasts: float
) -> None:
    flow = made((Wait, Later), callbacks=PAYMENTS)
    dead = {"dead": dlq_handler(flow)} if handled else {}
    queue = deploy(own=lambda_handler(flow), answers=callback_handler(flow), **dead).queue("payments")
    assert (queue.role, queue.max_receive_count) == (Role.CALLBACK, receives)
    assert queue.visibility * receives / queue.retention == pytest.approx(lasts, abs=0.002)


def test_two_flows_that_share_a_queue_keep_its_messages_as_the_shorter_one_does(deploy: Deploy) -> None:
    short = made((Ship,), name="short", retention=timedelta(days=7))
    long = made((Ship,), name="long")
    given = {"tables": {"parcels": {"existing": True}}}
    needed = deploy(given, both=lambda_handler(short, long), dead=dlq_handler(short, long))
    assert needed.queue("to-ship").retention == 6 * DAY


def test_a_queue_keeps_no_longer_than_sqs_does(deploy: Deploy) -> None:
    flow = made((Ship,), retention=timedelta(days=60))
    needed = deploy({"tables": {"parcels": {"existing": True}}}, own=lambda_handler(flow))
    assert {one.retention for one in needed.queues if one.reader is not None} == {14 * DAY}


def test_a_queue_of_records_given_up_is_no_inbox(deploy: Deploy) -> None:
    class Only(Stage[Order], name="only", inbox="own-killed"):
        def handle(self, order: Order, step: AnyStep) -> Outcome:
            return Done()

    flow = made((Only,))
    said = refusal(deploy, own=lambda_handler(flow), dead=dlq_handler(flow))
    assert "'own-killed' is for the records that SQS gives up; give own another inbox" in said


def test_dead_letters_go_to_no_queue_that_a_function_reads(deploy: Deploy) -> None:
    flow = made((Ship,), dead_letters="to-ship")
    said = refusal(deploy, {"tables": {"parcels": {"existing": True}}}, own=lambda_handler(flow))
    assert "the dead letters of own go to 'to-ship', which own reads; name another queue" in said


def test_a_fifo_queue_gives_up_to_a_fifo_queue_whose_time_begins_anew(deploy: Deploy) -> None:
    class OnlyShip(Stage[Order], name="only-ship"):
        def handle(self, order: Order, step: AnyStep) -> Outcome:
            return Done()

    fifo = made((OnlyShip,), inbox="own.fifo")
    needed = deploy(own=lambda_handler(fifo), dead=dlq_handler(fifo))
    own, killed = needed.queue("own.fifo"), needed.queue("own-killed.fifo")
    assert own.give_up_to == killed.name
    assert own.retention + killed.retention + needed.queue("own-dead-letters").retention <= 14 * DAY
    sends = {one.name: one.actions for one in needed.function("own").permissions if one.on is Target.QUEUE}
    assert "sqs:SendMessage" not in sends["own.fifo"]


def test_a_wait_needs_who_reads_its_answers(deploy: Deploy) -> None:
    flow = made((Wait, Later), callbacks=(*PAYMENTS, Callback(Topic(NEWS), id="order_id")))
    stages = {"wait": lambda_handler(flow, Wait), "later": lambda_handler(flow, Later)}
    assert "own is answered from outside, and no handler takes that; write callback_handler(Own)" in refusal(
        deploy, **stages
    )
    needed = deploy(**stages, answers=callback_handler(flow))
    assert needed.function("own-answers").reads == ("own", "own-news", "payments")
    assert (needed.queue("own").role, needed.queue("own-news").topics) == (Role.ANSWERS, (NEWS,))
    assert [topic.name for topic in needed.topics] == ["news"]


@pytest.mark.parametrize("inbox", ["own.fifo", Topic(NEWS)])
def test_a_flow_that_waits_needs_a_queue_that_takes_answers(deploy: Deploy, inbox: str | Topic) -> None:
    class First(Wait, name="first", inbox=inbox):
        pass

    flow, plain = made((First, Later), inbox=inbox), made((Ship,), inbox="own.fifo")
    told = refusal(deploy, first=lambda_handler(flow, First), later=lambda_handler(flow, Later))
    assert f"own waits, and answers and deadlines cannot come through {flow.inbox}" in told
    assert "own answers='a-standard-queue'" in told
    answered = made((First, Later), inbox=inbox, answers="own-answers")
    deploy(first=lambda_handler(answered, First), later=lambda_handler(answered, Later))
    deploy(ship=lambda_handler(plain))


def test_events_of_a_bus_arrive_through_a_queue(deploy: Deploy) -> None:
    paid = Bus("payments", source="bank", detail_type="Paid")
    flow = made((Ship,), callbacks=(Callback(paid, id="order_id"),))
    needed = deploy(ship=lambda_handler(flow), answers=callback_handler(flow))
    assert needed.queue("own-events").rules == (paid,)


class Patient(
    Stage[Order], name="patient", retry=RetryPolicy(max_delay=timedelta(hours=3), backoff=Exponential(first=600))
):
    def handle(self, order: Order, step: AnyStep) -> Outcome:
        return Done()


def test_long_delays_need_the_scheduler(deploy: Deploy) -> None:
    needed = deploy(own=lambda_handler(made((Patient,), long_delays=True)))
    assert needed.long_delays
    assert {Target.SCHEDULES, Target.SCHEDULER_ROLE} < {one.on for one in needed.function("own").permissions}
    assert [queue.name for queue in needed.schedule_targets()] == ["own"]
    assert not deploy(shop=lambda_handler(Shop)).long_delays


def test_a_deadline_by_the_scheduler_needs_the_arn_of_the_queue_that_it_comes_to(deploy: Deploy) -> None:
    for long_delays in (True, False):
        flow = made((Wait, Later), long_delays=long_delays, callbacks=PAYMENTS)
        needed = deploy(
            wait=lambda_handler(flow, Wait), later=lambda_handler(flow, Later), answers=callback_handler(flow)
        )
        assert needed.queue("own").role is Role.ANSWERS
        [answers] = [one for one in needed.function("own-wait").permissions if one.name == "own"]
        assert ("sqs:GetQueueAttributes" in answers.actions) is long_delays
        assert ("own" in {queue.name for queue in needed.schedule_targets()}) is long_delays


@pytest.mark.parametrize("long_delays", [True, False])
@pytest.mark.parametrize("conflict", [SUPERSEDE, ATTACH])
def test_a_function_of_answers_may_schedule_the_deadlines_that_it_gets(
    deploy: Deploy, conflict: Any, long_delays: bool
) -> None:
    flow = made((Wait, Later), long_delays=long_delays, callbacks=PAYMENTS, on_conflict=conflict)
    needed = deploy(stages=lambda_handler(flow), answers=callback_handler(flow))
    answers = needed.function("own-answers")
    gets_deadlines = conflict is SUPERSEDE
    assert ("own" in answers.reads) is gets_deadlines
    schedules = {Target.SCHEDULES, Target.SCHEDULER_ROLE} & {one.on for one in answers.permissions}
    assert len(schedules) == (2 if long_delays and gets_deadlines else 0)
    assert ("FLOWGUARD_SCHEDULER_GROUP" in dict(answers.environment)) is (long_delays and gets_deadlines)


def test_a_flow_that_waits_for_nothing_has_no_deadlines_to_schedule(deploy: Deploy) -> None:
    waiting = made((Wait, Later), answers="shared", callbacks=PAYMENTS)
    late = made((Ship,), name="late", answers="shared", long_delays=True)
    needed = deploy(waiting=lambda_handler(waiting), late=lambda_handler(late), answers=callback_handler(waiting, late))
    answers = needed.function("own-answers")
    assert answers.reads == ("payments", "shared")
    assert Target.SCHEDULES not in {one.on for one in answers.permissions}


def _others(flow: AnyFlow, stages: tuple[AnyStage, ...]) -> dict[str, Any]:
    return {"other": lambda_handler(flow, *stages)} if stages else {}


def _runs(needed: Deployment, function: str) -> set[str]:
    """What a function may do to the run table."""
    [runs] = [one for one in needed.function(function).permissions if one.name == needed.run_table]
    return set(runs.actions)


def test_requests_that_wait_for_a_run_are_kept_in_its_table(deploy: Deploy) -> None:
    class Only(Stage[Order], name="only"):
        def handle(self, order: Order, step: AnyStep) -> Outcome:
            return Done()

    class First(Stage[Order], name="first", then="ship", inbox="first"):
        def handle(self, order: Order, step: AnyStep) -> Outcome:
            return Ship.message(order)

    callers = {"Query", "BatchWriteItem"}
    for stages, conflict, more in (
        ((Only,), ATTACH, {*callers, "PutItem", "GetItem"}),  # what an order has reset is read
        ((Ship,), ATTACH, {*callers, "PutItem", "GetItem"}),  # a commit with recorded writes does not answer the list
        ((First, Ship), ATTACH, {*callers, "PutItem", "GetItem"}),
        ((Only,), SUPERSEDE, set()),
    ):
        flow = made(stages, on_conflict=conflict)
        options = {"tables": {"parcels": {"existing": True}}}
        needed = deploy(options, own=lambda_handler(flow, stages[0]), **_others(flow, stages[1:]))
        assert _runs(needed, "own") == {f"dynamodb:{name}" for name in {"UpdateItem", *more}}
        if len(stages) > 1:  # requests come to the first stage
            assert _runs(needed, "own-other") == {f"dynamodb:{name}" for name in {"UpdateItem", "GetItem", *callers}}


def test_orders_to_reset_are_read_by_a_function_of_stages(deploy: Deploy) -> None:
    class Only(Stage[Order], name="only", inbox="only-inbox"):
        def handle(self, order: Order, step: AnyStep) -> Outcome:
            step.reset(own, order.order_id)
            return Done()

    own = made((Only,), on_conflict=ATTACH, callbacks=PAYMENTS)
    needed = deploy(only=lambda_handler(own), answers=callback_handler(own))
    assert (needed.queue("own").role, needed.queue("own").reader) == (Role.ANSWERS, "own-only")
    sends = {one.name for one in needed.function("own-only").permissions if "sqs:SendMessage" in one.actions}
    assert {"own", "only-inbox"} <= sends


def test_orders_to_cancel_go_where_requests_go(deploy: Deploy) -> None:
    class Other(Stage[Order], name="other", inbox="other-inbox"):
        def handle(self, order: Order, step: AnyStep) -> Outcome:
            return Done()

    other = made((Other,))

    class Only(Stage[Order], name="only"):
        def handle(self, order: Order, step: AnyStep) -> Outcome:
            step.cancel(other, order.order_id, why="a mistake")
            return Done()

    needed = deploy(own=lambda_handler(made((Only,))))
    sends = {one.name for one in needed.function("own").permissions if "sqs:SendMessage" in one.actions}
    assert "other-inbox" in sends


def test_a_run_that_failed_goes_on_at_the_stage_that_undoes_it(deploy: Deploy) -> None:
    class Undo(Stage[Failure], name="undo", inbox="to-undo"):
        def handle(self, failure: Failure, step: AnyStep) -> Outcome:
            return Done()

    class Only(Stage[Order], name="only"):
        def handle(self, order: Order, step: AnyStep) -> Outcome:
            return Done()

    flow = made((Only, Undo), on_failed=Undo)
    needed = deploy(only=lambda_handler(flow, Only), undo=lambda_handler(flow, Undo), dead=dlq_handler(flow))
    for name in ("own-only", "own-dead"):
        sends = {one.name for one in needed.function(name).permissions if "sqs:SendMessage" in one.actions}
        assert "to-undo" in sends


def test_what_is_there_is_named_and_not_made(deploy: Deploy) -> None:
    options = {"queues": {"placed": {"existing": True}}, "tables": {"parcels": {"existing": True}}}
    needed = deploy(options, shop=lambda_handler(Shop))
    assert not needed.queue("placed").made
    assert needed.queue("to-ship").made
    assert [one.existing for one in needed.tables] == [False, True]


def test_a_queue_given_by_its_arn_is_never_made(deploy: Deploy) -> None:
    arn = "arn:aws:sqs:eu-west-1:123456789012:theirs"

    class Only(Stage[Order], name="only"):
        def handle(self, order: Order, step: AnyStep) -> Outcome:
            return Done()

    own = made((Only,), complete_to=arn, inbox="https://sqs.eu-west-1.amazonaws.com/123456789012/ours")
    needed = deploy(own=lambda_handler(own))
    assert (needed.queue("theirs").arn, needed.queue("theirs").made) == (arn, False)
    assert needed.queue("ours").arn == "arn:aws:sqs:eu-west-1:123456789012:ours"


def test_notes_say_what_is_missing_and_allowed(deploy: Deploy) -> None:
    notes = "\n".join(deploy(shop=lambda_handler(Shop)).notes)
    assert "shop has no dlq_handler" in notes
    assert "shop lists no reply_to=(…), so its functions" in notes
    two = deploy(shop=lambda_handler(Shop), own=lambda_handler(made((Later,), inbox="own"))).notes
    assert [note.partition(",")[0] for note in two if "reply_to" in note] == ["shop"], "one note names all"
    assert "shop, own list no reply_to=(…), so their functions" in "\n".join(two)
    said = {"reply_to": ["replies"], "defaults": {"max_concurrency": 20}}
    assert deploy(said, shop=lambda_handler(Shop), dead=dlq_handler(Shop)).notes == ()


@pytest.mark.parametrize(
    ("bounded", "names"),
    [((), "shop-place, shop-ship have"), (("place",), "shop-ship has"), (("place", "ship"), None)],
)
def test_what_no_option_bounds_is_noted_in_one_line(
    deploy: Deploy, bounded: tuple[str, ...], names: str | None
) -> None:
    options = {"functions": {name: {"max_concurrency": 5} for name in bounded}}
    handlers = {"place": lambda_handler(Shop, Place), "ship": lambda_handler(Shop, Ship), "dead": dlq_handler(Shop)}
    notes = [note for note in deploy(options, **handlers).notes if "max_concurrency" in note]
    assert [note.partition(" no ")[0] for note in notes] == ([] if names is None else [names])


@pytest.mark.parametrize("section", ["functions", "queues", "tables", "topics"])
def test_an_option_for_nothing_that_is_here_is_named(section: str, deploy: Deploy) -> None:
    notes = deploy({section: {"misspelt\x1b": {}}}, shop=lambda_handler(Shop)).notes
    assert f"the options say [{section}.misspelt\\x1b], and nothing here is called that; it has no effect" in notes
    known = {"functions": "shop", "queues": "placed", "tables": "parcels"}
    if section in known:
        assert not any(
            "the options say" in note
            for note in deploy({section: {known[section]: {}}}, shop=lambda_handler(Shop)).notes
        )


# -- what cannot be deployed


def test_a_stage_that_nobody_or_two_serve_is_named(deploy: Deploy) -> None:
    assert "no handler serves shop/ship; write lambda_handler(Shop, Ship)" in refusal(
        deploy, place=lambda_handler(Shop, Place)
    )
    two = refusal(deploy, place=lambda_handler(Shop, Place), both=lambda_handler(Shop))
    assert two == (
        "shop_handlers: shop_handlers.place and shop_handlers.both both serve shop/place; leave it to one of them"
    ), "that they read one queue follows from that"


def test_two_functions_on_one_queue_are_named(deploy: Deploy) -> None:
    class First(Stage[Order], name="first", then="second"):
        def handle(self, order: Order, step: AnyStep) -> Outcome:
            return Done()

    class Second(Stage[Order], name="second"):
        def handle(self, order: Order, step: AnyStep) -> Outcome:
            return Done()

    flow = made((First, Second))
    told = refusal(deploy, first=lambda_handler(flow, First), second=lambda_handler(flow, Second))
    assert "shop_handlers.second and shop_handlers.first both read the queue 'own'" in told


def test_the_flow_is_in_the_name_of_a_function_once(deploy: Deploy) -> None:
    both = lambda_handler(Shop)
    assert [[one.name for one in deploy(**{name: both}).functions] for name in ("shop", "shop_all", "shopping")] == [
        ["shop"],
        ["shop-all"],
        ["shop-shopping"],
    ]


def test_what_lambda_does_in_a_network_and_for_traces_is_allowed_where_it_does(deploy: Deploy) -> None:
    shop, vpc = lambda_handler(Shop), {"subnets": ["subnet-1"], "security_groups": ["sg-1"]}
    found = [
        {*deploy(options, shop=shop).functions[0].permissions} & {IN_VPC, TRACED}
        for options in ({}, {"vpc": vpc}, {"tracing": True}, {"vpc": vpc, "tracing": True})
    ]
    assert found == [set(), {IN_VPC}, {TRACED}, {IN_VPC, TRACED}]


def test_names_over_awss_limits_are_named(deploy: Deploy) -> None:
    long = made((Ship,), name="n" * 64, inbox="ours")
    told = refusal(deploy, own=lambda_handler(long))
    assert f"shop_handlers.own would be named '{'n' * 64}-own' (68 characters)" in told
    assert '[functions."shop_handlers.own"] name = "…"' in told
    named = deploy({"functions": {"own": {"name": "short"}}}, own=lambda_handler(long))
    assert named.functions[0].name == "short"
    options = {"functions": {"a": {"name": "x"}, "b": {"name": "x"}}}
    shown = refusal(deploy, options, a=lambda_handler(Shop), b=dlq_handler(Shop))
    assert "shop_handlers.a would be named 'x', as another function is" in shown


def test_a_queue_whose_name_becomes_too_long_is_named(deploy: Deploy) -> None:
    class Long(Stage[Order], name="s" * 60, inbox=Topic(NEWS)):
        def handle(self, order: Order, step: AnyStep) -> Outcome:
            return Done()

    flow = made((Long,), name="f" * 40)
    told = refusal(deploy, {"functions": {"own": {"name": "own"}}}, own=lambda_handler(flow))
    assert "would have a name of 101 characters, and SQS takes 80" in told


def test_a_table_whose_key_nobody_says_is_named(deploy: Deploy) -> None:
    class Stray(Stage[Order], name="stray"):
        def handle(self, order: Order, step: AnyStep) -> Outcome:
            step.put("strays", order)
            return Done()

    flow = made((Stray,))
    told = refusal(deploy, own=lambda_handler(flow))
    assert "own/stray uses the table 'strays', whose key is not known; name it in TABLES" in told
    needed = deploy({"tables": {"strays": {"existing": True}}}, own=lambda_handler(flow))
    assert "strays" in [table.name for table in needed.tables]


def test_a_time_out_that_does_not_fit_is_named(deploy: Deploy) -> None:
    class Hours(Stage[Order], name="hours", timeout=timedelta(hours=1)):
        def handle(self, order: Order, step: AnyStep) -> Outcome:
            return Done()

    flow = made((Hours,))
    assert "the stage 'hours' may take 1:00:00, and Lambda stops a function after 900 s" in refusal(
        deploy, own=lambda_handler(flow)
    )
    assert "has timeout = 60, and its stage 'hours' may take 1:00:00" in refusal(
        deploy, {"defaults": {"timeout": 60}}, own=lambda_handler(flow)
    )


def test_a_batch_that_a_queue_cannot_have_is_named(deploy: Deploy) -> None:
    shop = lambda_handler(Shop)
    assert "above 10 Lambda wants window = 1 or more" in refusal(deploy, {"defaults": {"batch_size": 100}}, shop=shop)
    gathered = {"defaults": {"batch_size": 100, "window": 1, "timeout": 900}}
    [function] = deploy(gathered, shop=shop).functions
    assert (function.batch_size, function.window) == (100, 1)

    class Only(Stage[Order], name="only", inbox="own.fifo"):
        def handle(self, order: Order, step: AnyStep) -> Outcome:
            return Done()

    told = refusal(deploy, {"defaults": {"window": 1}}, own=lambda_handler(made((Only,))))
    assert "reads the FIFO queue 'own.fifo', whose batches have at most 10 records and no window" in told


def test_all_that_is_wrong_is_said_at_once(deploy: Deploy) -> None:
    told = refusal(deploy, {"log_retention": 2}, place=lambda_handler(Shop, Place))
    assert told.splitlines()[0] == "shop_handlers cannot be deployed:"
    assert len(told.splitlines()) == 3


def test_two_flows_of_one_name_are_named(deploy: Deploy) -> None:
    one, other = made((Ship,)), made((Ship,))
    assert "have the same name; rename one" in refusal(deploy, one=lambda_handler(one), other=lambda_handler(other))


def test_a_module_without_handlers_says_where_they_may_be() -> None:
    with pytest.raises(CannotDeploy, match=r"name the module that has them, such as flows\.take_payment\.handlers"):
        find_functions(["flows.take_payment.flow"])


def test_a_package_without_handlers_names_the_module_in_it_that_may_have_them() -> None:
    with pytest.raises(CannotDeploy, match=r"such as flows\.take_payment\.handlers"):
        find_functions(["flows.take_payment"])


def test_no_module_beside_a_package_is_named(tmp_path: Path) -> None:
    (tmp_path / "bare_package").mkdir()
    (tmp_path / "handlers.py").touch()
    with pytest.raises(CannotDeploy, match=r"name the module that has them$"):
        find_functions(["bare_package"], directory=tmp_path)
    (tmp_path / "bare_package" / "handlers.py").touch()
    with pytest.raises(CannotDeploy, match=r"such as bare_package\.handlers$"):
        find_functions(["bare_package"], directory=tmp_path)


# -- what each guard of it is for


class Decide(Stage[Order], name="decide", then=("later",)):
    def handle(self, order: Order, step: AnyStep) -> Outcome:
        return Later.when_all(decision=step.token("decision"), within=timedelta(days=1))


def test_the_url_of_a_function_has_a_name_that_no_other_function_has(deploy: Deploy) -> None:
    flow = made((Decide, Later))
    handlers = {"own": lambda_handler(flow), "answers": callback_handler(flow), "killed": dlq_handler(flow)}
    taken = {"functions": {"own": {"name": "x-url"}, "answers": {"name": "x"}}}
    assert "would be named 'x-url', as another function is" in refusal(deploy, taken, **handlers)
    free = deploy({"functions": {"own": {"name": "x"}, "killed": {"name": "x-url"}}}, **handlers)
    assert {"x", "x-url"} <= {function.name for function in free.functions}


def test_each_flow_that_is_answered_from_outside_needs_who_takes_that(deploy: Deploy) -> None:
    linked, called = made((Decide, Later)), made((Wait, Later), name="called", callbacks=PAYMENTS, inbox="called")
    handlers = {"own": lambda_handler(linked), "others": lambda_handler(called)}
    for answered, left in ((linked, "called"), (called, "own")):
        told = refusal(deploy, **handlers, answers=callback_handler(answered))
        assert told.partition(" is answered from outside")[0].rpartition(" ")[2] == left


def test_a_fifo_queue_with_a_large_batch_is_named(deploy: Deploy) -> None:
    class Only(Stage[Order], name="only", inbox="own.fifo"):
        def handle(self, order: Order, step: AnyStep) -> Outcome:
            return Done()

    told = refusal(deploy, {"defaults": {"batch_size": 100}}, own=lambda_handler(made((Only,))))
    assert "reads the FIFO queue 'own.fifo', whose batches have at most 10 records" in told


def test_tables_that_cannot_be_what_they_are_used_for_are_named(
    deploy: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = refusal(deploy, {"settings": {"table": "parcels"}}, shop=lambda_handler(Shop))
    assert "'parcels' is the table of the run items, and shop/ship has it as its own" in taken
    monkeypatch.setitem(TABLES, "no name", "id")
    assert "'no name' is no table's name; DynamoDB takes" in refusal(deploy, shop=lambda_handler(Shop))

    class Computed(Stage[Order], name="computed", inbox="own"):
        def handle(self, order: Order, step: AnyStep) -> Outcome:
            step.put(f"orders-{order.order_id}", order)
            return Done()

    flow = made((Computed,), module=MODULE)
    told = refusal(deploy, own=lambda_handler(flow))
    assert f"name the tables in TABLES of {MODULE}" in told


def test_links_are_of_the_url_that_answers_them(deploy: Deploy) -> None:
    flow = made((Decide, Later), callbacks=PAYMENTS)
    handlers = {
        "own": lambda_handler(flow),
        "answers": callback_handler(flow),
        "a_start": start_handler(flow, object_field="order_id"),
    }
    needed = deploy({"functions": {"a_start": {"url_concurrency": 0}}}, **handlers)
    urls = {function.name: function.reserved for function in needed.functions if function.has_url}
    assert urls == {"own-answers-url": 10, "own-a-start": None}
    assert needed.function("own-answers").reads == ("payments",), "the same handler reads callbacks, without a URL"
    assert needed.function("own").links_to == "own-answers-url"
    settings = {"answers_url": "https://links.example.com/", "token_keys": "ssm:/mine"}
    linked = deploy({"settings": settings}, **handlers)
    assert dict(linked.function("own-answers-url").environment)["FLOWGUARD_TOKEN_KEYS"] == "ssm:/mine"
    given = linked.function("own")
    assert given.links_to is None
    assert dict(given.environment)["FLOWGUARD_ANSWERS_URL"] == "https://links.example.com/"


def test_options_of_groups_and_secrets_that_nothing_uses_are_noted(deploy: Deploy) -> None:
    said = {
        "schedule_groups": {"flowguard": {}, "others": {}},
        "secrets": {name: {"kms_key": KEY} for name in ("parcels", "shop-keys")},
        "settings": {"signing_keys": "secretsmanager:shop-keys"},
    }
    notes = [note for note in deploy(said, shop=lambda_handler(Shop)).notes if "it has no effect" in note]
    named = [note.partition("]")[0].partition("[")[2] for note in notes]
    assert named == ["schedule_groups.others", "secrets.parcels", "schedule_groups.flowguard"]


def test_a_group_of_schedules_is_made_unless_the_options_say_that_it_is_there(deploy: Deploy) -> None:
    flow = made((Patient,), long_delays=True)
    there = [
        deploy({"schedule_groups": {"flowguard": {"existing": existing}}}, own=lambda_handler(flow)).existing_group
        for existing in (False, True)
    ]
    assert there == [False, True]


def test_each_flow_without_a_function_of_dead_letters_or_a_list_of_receivers_is_noted(deploy: Deploy) -> None:
    listed = made((Later,), inbox="own", reply_to=())
    handlers = {"shop": lambda_handler(Shop), "own": lambda_handler(listed)}
    notes = deploy(**handlers, killed=dlq_handler(listed)).notes
    assert [note.partition(" ")[0] for note in notes if "has no dlq_handler" in note] == ["shop"]
    assert [note.partition(" lists")[0] for note in notes if "reply_to=(…)" in note] == ["shop"]


@pytest.mark.parametrize(("count", "noted"), [(10, False), (11, True)])
def test_a_role_with_more_policies_than_iam_takes_is_noted(deploy: Deploy, count: int, noted: bool) -> None:
    policies = [f"arn:aws:iam::123456789012:policy/p{number}" for number in range(count)]
    notes = deploy({"defaults": {"policies": policies}}, shop=lambda_handler(Shop)).notes
    assert any(f"has {count} policies, and a role has 10" in note for note in notes) is noted
