"""The letters of many runs: ``flowguard retry --all``, and ``flowguard dlq redrive --all``."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator

import pytest
from botocore.exceptions import ClientError

from flowguard.errors import Reject
from flowguard.names.ids import RequestId
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.step import Step
from tests.aws.dead_letters.letters import denying, sent_again
from tests.cli.test_many import ORDERS, place_in, run
from tests.cli.test_show import undoing
from tests.scene import START, OrderState, Scene, scene


@pytest.fixture
def at() -> Iterator[Scene]:
    """The failed runs a, b and c, and one that goes on."""
    with scene() as found:
        fail(found, *"abc")
        found.deliver(found.order("well"))
        yield found


def decline(step: Step[OrderState]) -> None:
    raise Reject("the card is declined")


def fail(at: Scene, *names: str, tenant: str | None = None) -> None:
    at.script.pricing = decline
    at.deliver(*(at.order(name, tenant=tenant) for name in names))
    at.script.pricing = lambda step: None


def objects(at: Scene, queue: str = "price-order") -> list[str]:
    """The objects whose messages lie in a queue, which are taken out of it."""
    bodies = [json.loads(message["Body"]) for message in at.sent(queue)]
    return sorted(json.loads(body["Message"])["order_id"] for body in bodies)


def calls_of_sqs(calls: Recorder, operation: str) -> int:
    return sum(call.operation == operation for call in calls.calls if call.service == "sqs")


# -- retry ------------------------------------------------------------------------------------------------------------

RETRY = ("retry", ORDERS, "--all", "--wait", "0")
WORDS = ("redrive", "drop")


def test_the_letters_of_all_failed_runs_go_back(at: Scene) -> None:
    result = run(at, *RETRY, "--yes")
    assert result.stdout == "3 REDRIVEN, of 3 runs\n"
    assert result.stderr.splitlines()[1] == "3 runs to retry:"
    assert (objects(at), at.sent("dead")) == ([*"abc"], [])


def test_only_those_of_the_runs_that_pass(at: Scene) -> None:
    fail(at, "other")
    at.clock.advance(seconds=120)
    at.script.pricing = lambda step: (_ for _ in ()).throw(Reject("no tariff"))
    at.deliver(at.order("d", requested_at=at.clock.now()))
    rows = run(at, *RETRY, "--yes", "--json", "--error", "no tariff").stdout.splitlines()
    assert [json.loads(row) for row in rows] == [
        {
            "flow": "orders",
            "object_id": "d",
            "request_id": "run-1",
            "end": "REDRIVEN",
            "why": "the run failed at hop 1 and waits there",
        }
    ]
    assert objects(at) == ["d"]


def test_somebody_is_asked_before_the_queue_is_read(at: Scene) -> None:
    with intercept(Recorder()) as calls:
        result = run(at, *RETRY, code=1, answer="n\n")
    assert "retry 3 runs of orders? [y/N]: n" in result.stderr
    assert calls_of_sqs(calls, "ReceiveMessage") == 0
    assert len(at.sent("dead")) == 3


def test_without_a_run_nobody_is_asked_and_no_queue_read(at: Scene) -> None:
    with intercept(Recorder()) as calls:
        assert run(at, *RETRY, "--stage", "close-order", answer="").stdout == "nothing was done, of 0 runs\n"
    assert calls_of_sqs(calls, "ReceiveMessage") == 0
    assert (
        run(at, *RETRY, "--stage", "close-order", "--read", "1", code=1, answer="").stdout
        == "nothing was done, of 0 runs\n"
    )


def test_a_run_without_a_letter_is_left(at: Scene) -> None:
    at.sent("dead")
    result = run(at, *RETRY, "--yes", "--json")
    assert [json.loads(row)["end"] for row in result.stdout.splitlines()] == ["LEFT"] * 3
    assert result.stderr.splitlines()[-1] == "3 LEFT, of 3 runs"


def test_the_queue_is_read_no_further_than_needed(at: Scene) -> None:
    with intercept(Recorder()) as calls:
        run(at, *RETRY, "--yes", "--limit", "1")
    assert calls_of_sqs(calls, "ReceiveMessage") == 1


def test_a_letter_of_another_request_stays(at: Scene) -> None:
    at.deliver(at.order("b", request_id=RequestId("later"), requested_at=START))
    assert run(at, *RETRY, "--yes").stdout == "2 REDRIVEN, of 2 runs\n"
    assert objects(at, "dead") == ["b", "b"], "the newer run has sent it once more"


def test_what_a_run_could_not_send_is_no_letter_of_it(at: Scene) -> None:
    sqs = at.aws.client("sqs")
    sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName="emails")["QueueUrl"])
    at.receives = 3
    at.sent("dead")
    at.deliver(at.order("d"))
    at.script.closing = decline
    at.deliver(at.second(object_id="d"))
    result = run(at, "retry", ORDERS, "--all", "--wait", "0", "--yes", "--stage", "close-order")
    assert result.stdout == "1 REDRIVEN, of 1 run\n"


def test_letters_that_are_refused_are_named(at: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWGUARD_SIGNING_KEYS", "k1:" + "x" * 32)
    result = run(at, *RETRY, "--yes", code=1)
    assert result.stdout == "3 FAILED, of 3 runs\n"
    assert "FAILED  orders of a: it carries no signature" in result.stderr


def test_they_go_back_at_the_pace(at: Scene) -> None:
    fail(at, *(f"o{number:02}" for number in range(17)))
    before = at.clock.now()
    assert run(at, *RETRY, "--yes", "--per-second", "5").stdout == "20 REDRIVEN, of 20 runs\n"
    assert at.clock.now() - before == 3_000, "five at once, and a second before the next five"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), None])
def test_what_stops_it_loses_nothing_and_the_same_command_goes_on(at: Scene, error: BaseException | None) -> None:
    def stop(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "SendMessageBatch":
            raise error or ClientError({"Error": {"Code": "ExpiredToken", "Message": ""}}, call.operation)
        return proceed()

    with intercept(stop):
        result = run(at, *RETRY, "--yes", code=1)
    assert "3 runs" in result.stdout
    assert run(at, *RETRY, "--yes").stdout == "3 REDRIVEN, of 3 runs\n"


def test_a_limit_says_where_the_next_part_begins(at: Scene) -> None:
    result = run(at, *RETRY, "--yes", "--limit", "2")
    assert result.stdout == "2 REDRIVEN, of 2 runs\n"
    assert run(at, *RETRY, "--yes", "--after", place_in(result)).stdout == "1 REDRIVEN, of 1 run\n"


def the_same_page_again() -> Callable[[ApiCall, Proceed], Response]:
    """Answer each receive of letters as the first one."""
    answers: list[Response] = []

    def again(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation != "ReceiveMessage":
            return proceed()
        answers.extend([] if answers else [proceed()])
        return answers[0]

    return again


def test_letters_that_come_round_again_end_it_with_a_warning(at: Scene) -> None:
    at.sent("dead")
    fail(at, "d")
    at.deliver(at.order("d", request_id=RequestId("later"), requested_at=START))
    with intercept(the_same_page_again()):
        result = run(at, *RETRY, "--yes", "--status", "failed", code=1)
    assert "warning: stopped early: letters came round again" in result.stderr
    assert result.stdout == "3 LEFT, of 3 runs\n"


@pytest.mark.parametrize(
    "command",
    [RETRY, ("dlq", "redrive", "dead", "--all", "--wait", "0"), ("dlq", "drop", "dead", "--all", "--wait", "0")],
)
def test_letters_that_somebody_else_holds_are_not_among_all(at: Scene, command: tuple[str, ...]) -> None:
    sqs = at.aws.client("sqs")
    [held] = sqs.receive_message(QueueUrl=sqs.get_queue_url(QueueName="dead")["QueueUrl"])["Messages"]
    result = run(at, *command, "--yes", code=1)
    assert result.stderr.splitlines()[-1] == (
        "warning: letters that were hidden when this began, as those that another reader holds: about 1; repeat this "
        "when they are visible again"
    )
    url = sqs.get_queue_url(QueueName="dead")["QueueUrl"]
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=held["ReceiptHandle"], VisibilityTimeout=0)
    assert "warning" not in run(at, *command, "--yes").stderr
    assert at.sent("dead") == []


def test_where_each_run_has_its_letter_it_does_not_matter_who_holds_others(at: Scene) -> None:
    sqs = at.aws.client("sqs")
    url = sqs.get_queue_url(QueueName="dead")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="x", DelaySeconds=60)
    assert run(at, *RETRY, "--yes").stdout == "3 REDRIVEN, of 3 runs\n"


def test_ctrl_c_before_the_first_is_sent_gives_no_place_behind_it(at: Scene) -> None:
    def stop(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "SendMessageBatch":
            raise KeyboardInterrupt
        return proceed()

    with intercept(stop):
        result = run(at, *RETRY, "--yes", "--limit", "2", code=1)
    assert "interrupted; the same command goes on" in result.stderr
    assert "--after" not in result.stderr
    assert run(at, *RETRY, "--yes").stdout == "3 REDRIVEN, of 3 runs\n"


def test_where_none_of_the_first_can_be_retried_it_says_where_it_goes_on(at: Scene) -> None:
    result = run(at, *RETRY, "--yes", "--read", "1", "--stage", "close-order", code=1)
    assert "0 runs to retry" in result.stderr
    assert result.stdout == "nothing was done, of 0 runs\n"
    assert "go on with --after" in result.stderr


def test_ten_letters_in_a_row_that_are_not_sent_end_it(at: Scene) -> None:
    fail(at, *(f"o{number:02}" for number in range(17)))

    def refused(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation != "SendMessageBatch":
            return proceed()
        failed = [{"Id": entry["Id"], "Code": "AccessDenied", "SenderFault": True} for entry in call.params["Entries"]]
        return {"Failed": failed}

    with intercept(refused):
        result = run(at, *RETRY, "--yes", code=2)
    assert "10 runs in a row" in result.stderr
    assert result.stdout == "10 FAILED, of 20 runs\n"


def test_a_run_that_was_taken_back_is_not_chosen() -> None:
    with scene(undoing) as at:
        fail(at, "a")
        assert run(at, *RETRY, "--yes").stdout == "nothing was done, of 0 runs\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name the OBJECT, or say --all"),
        (("--all", "--again"), "--again is for one OBJECT"),
        (("o1", "--limit", "1"), "--limit goes with --all"),
    ],
)
def test_what_cannot_be_run_is_named(at: Scene, arguments: tuple[str, ...], said: str) -> None:
    assert said in run(at, "retry", ORDERS, *arguments, code=2).stderr


# -- dlq redrive ------------------------------------------------------------------------------------------------------

REDRIVE = ("dlq", "redrive", "dead", "--all", "--wait", "0")


def test_the_first_letters_are_shown_and_given_back_before_somebody_is_asked(at: Scene) -> None:
    result = run(at, *REDRIVE, code=1, answer="n\n")
    first, *letters, question, end = result.stderr.splitlines()
    assert first == "of about 3 letters in dead these pass, and maybe more:"
    assert [line.split("  ", 2)[2] for line in letters] == [
        f"orders/price-order {name}: Reject: the card is declined" for name in "abc"
    ]
    assert (question, end) == ("redrive all that pass? [y/N]: n", "nothing was done")
    assert run(at, *REDRIVE, answer="y\n").stdout.splitlines()[-1] == "3 REDRIVEN"


def test_no_more_letters_are_shown_than_a_few(at: Scene) -> None:
    fail(at, *"defgh")
    assert run(at, *REDRIVE, code=1, answer="n\n").stderr.count("Reject: the card") == 5


def test_where_no_letter_passes_nobody_is_asked(at: Scene) -> None:
    assert run(at, *REDRIVE, "--stage", "x", answer="").stdout == "nothing to do: no letter was found\n"


def test_letters_that_come_while_nobody_was_asked_stay(at: Scene) -> None:
    receives: list[str] = []

    def late(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "ReceiveMessage":
            receives.append(call.operation)
            return {} if len(receives) == 1 else proceed()
        return proceed()

    with intercept(late):
        assert run(at, *REDRIVE, answer="").stdout == "nothing to do: no letter was found\n"
    assert len(at.sent("dead")) == 3


def test_a_redrive_that_stopped_early_is_not_all(at: Scene) -> None:
    with intercept(the_same_page_again()):
        result = run(at, *REDRIVE, "--yes", "--flow", "others", code=1)
    assert "stopped early: letters came round again" in result.stderr


@pytest.mark.parametrize("option", ["--tenant", "--error"])
@pytest.mark.parametrize("value", ["", " "])
def test_an_empty_filter_of_letters_is_refused(at: Scene, option: str, value: str) -> None:
    assert f"{option} is empty; leave it out to take all" in run(at, *REDRIVE, "--yes", option, value, code=2).stderr
    assert len(at.sent("dead")) == 3


def test_letters_that_are_named_go_without_a_question(at: Scene) -> None:
    rows = run(at, "dlq", "list", "dead", "--json", "--wait", "0").stdout.splitlines()
    name = json.loads(rows[0])["message_id"]
    assert "1 REDRIVEN" in run(at, "dlq", "redrive", "dead", name, "--wait", "0", answer="").stdout


def test_a_tenant_has_its_own_letters(at: Scene) -> None:
    fail(at, "theirs", tenant="acme")
    assert "1 REDRIVEN" in run(at, *REDRIVE, "--yes", "--tenant", "acme").stdout
    assert objects(at) == ["theirs"]


def test_letters_go_back_at_the_pace(at: Scene) -> None:
    fail(at, *(f"o{number:02}" for number in range(17)))
    before = at.clock.now()
    assert "20 REDRIVEN" in run(at, *REDRIVE, "--yes", "--per-second", "10").stdout
    assert at.clock.now() - before == 2_000, "it waits before it looks whether there are more"


def test_a_slow_pace_holds_no_letter_that_waits_for_its_turn(at: Scene) -> None:
    """Another operator's command would get it when its time is over, and send it too."""
    held: list[int] = []

    def looking(call: ApiCall, proceed: Proceed) -> Response:
        answer = proceed()
        if call.operation == "ReceiveMessage":
            held.append(len(answer.get("Messages", [])))
        return answer

    with intercept(looking):
        assert "3 REDRIVEN" in run(at, *REDRIVE, "--yes", "--per-second", "0.001", "--visibility", "5").stdout
    assert held == [1, 1, 1, 0]


@pytest.mark.parametrize(
    ("limit", "which", "shown"), [(1, "the first 1", 1), (2, "the first 2", 2), (9, "the first 9", 3)]
)
def test_the_question_is_about_so_many_letters_as_are_sent(at: Scene, limit: int, which: str, shown: int) -> None:
    result = run(at, *REDRIVE, "--limit", str(limit), "--per-second", "0.01", code=1, answer="n\n")
    *letters, question, _ = result.stderr.splitlines()[1:]
    assert len(letters) == shown
    assert question.startswith(f"redrive {which} that pass? It takes about {math.ceil(shown / 0.6)} min at 0.01")


def test_the_question_says_how_long_the_letters_take(at: Scene) -> None:
    result = run(at, *REDRIVE, "--per-second", "0.01", code=1, answer="n\n")
    assert "redrive all that pass? It takes about 5 min at 0.01 a second, which --per-second changes. [y/N]: n" in (
        result.stderr
    )


def test_ctrl_c_before_the_question_says_that_nothing_was_done(at: Scene) -> None:
    def stop(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "ReceiveMessage":
            raise KeyboardInterrupt
        return proceed()

    with intercept(stop):
        result = run(at, *REDRIVE, code=130, answer="y\n")
    assert (result.stdout, result.stderr) == ("", "interrupted; nothing was done\n")
    assert "3 REDRIVEN" in run(at, *REDRIVE, "--yes").stdout


def test_ctrl_c_gives_the_letters_back_and_says_what_was_done(at: Scene) -> None:
    def stop(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "SendMessageBatch":
            raise KeyboardInterrupt
        return proceed()

    with intercept(stop):
        result = run(at, *REDRIVE, "--yes", code=1)
    assert "interrupted; the same command goes on" in result.stderr
    assert (result.stdout, result.stderr.splitlines()[-1]) == ("", IN_HAND)
    assert "3 REDRIVEN" in run(at, *REDRIVE, "--yes").stdout


IN_HAND = "3 letters in hand may have been sent; the same command sends them again, under their ids"


def interrupting(operation: str, *, after: bool = False) -> Callable[[ApiCall, Proceed], Response]:
    """Ctrl-C at an operation, or when it is made."""

    def stop(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation != operation:
            return proceed()
        if after:
            proceed()
        raise KeyboardInterrupt

    return stop


def test_ctrl_c_before_letters_are_in_hand_says_that_nothing_was_done(at: Scene) -> None:
    with intercept(interrupting("ReceiveMessage")):
        redriven, retried = run(at, *REDRIVE, "--yes", code=1), run(at, *RETRY, "--yes", code=1)
    assert redriven.stderr.splitlines() == ["interrupted; the same command goes on", "nothing was done"]
    assert "in hand" not in retried.stderr
    assert retried.stdout == "nothing was done, of 3 runs\n"


@pytest.mark.parametrize("stop", [interrupting("SendMessageBatch", after=True), interrupting("DeleteMessageBatch")])
def test_ctrl_c_when_letters_were_sent_says_that_they_may_be(
    at: Scene, stop: Callable[[ApiCall, Proceed], Response]
) -> None:
    with intercept(stop):
        redriven, retried = run(at, *REDRIVE, "--yes", code=1), run(at, *RETRY, "--yes", code=1)
    assert redriven.stderr.splitlines()[-1] == IN_HAND
    assert retried.stderr.splitlines()[-1] == IN_HAND
    assert retried.stdout == "none was finished, of 3 runs\n"
    assert objects(at) == sorted(2 * "abc")


def test_ctrl_c_after_a_page_that_was_told_is_said_of_none_in_hand(at: Scene) -> None:
    receives: list[str] = []

    def stop(call: ApiCall, proceed: Proceed) -> Response:
        receives.extend([call.operation] if call.operation == "ReceiveMessage" else [])
        if len(receives) == 2:
            raise KeyboardInterrupt
        return proceed()

    with intercept(stop):
        result = run(at, *REDRIVE, "--yes", code=1)
    assert result.stderr == "interrupted; the same command goes on\n"
    assert result.stdout.splitlines()[-1] == "3 REDRIVEN"


UNDELETED = "it was sent, and could not be deleted: queue 'dead': DeleteMessageBatch is denied (not you); allow it to"


def test_letters_that_are_sent_and_cannot_be_deleted_are_named_and_it_stops(at: Scene) -> None:
    fail(at, *(f"o{number:02}" for number in range(17)))
    with intercept(denying("DeleteMessageBatch")):
        result = run(at, *REDRIVE, "--yes", code=2)
    *letters, error = result.stderr.splitlines()
    assert [UNDELETED in line for line in letters] == [True] * 10
    assert error.startswith("Error: queue 'dead': DeleteMessageBatch is denied")
    assert result.stdout == "10 FAILED\n"
    assert len(objects(at)) == 10, "no second page was sent"
    with intercept(denying("DeleteMessageBatch")):
        result = run(at, *RETRY, "--yes", "--limit", "3", code=2)
    assert result.stderr.count(UNDELETED) == 3
    assert result.stdout == "3 FAILED, of 3 runs\n"


def test_letters_that_cannot_be_dropped_are_named_and_it_stops(at: Scene) -> None:
    with intercept(denying("DeleteMessageBatch")):
        result = run(at, "dlq", "drop", "dead", "--all", "--wait", "0", "--yes", code=2)
    assert result.stderr.count("DeleteMessageBatch is denied") == 4
    assert result.stdout == "3 FAILED\n"


def test_the_letter_of_one_run_that_is_sent_and_not_deleted_is_not_said_to_be_unsent(at: Scene) -> None:
    with intercept(denying("DeleteMessageBatch")):
        result = run(at, "retry", ORDERS, "a", "--wait", "0", code=1)
    assert UNDELETED in result.stderr
    assert "nothing was sent" not in result.stderr
    assert objects(at) == ["a"]


# -- runs of several letters ------------------------------------------------------------------------------------------


def doubled(at: Scene, *names: str) -> None:
    """Put the letters of these runs into the queue once more, and those of all others as they were."""
    sqs = at.aws.client("sqs")
    url = sqs.get_queue_url(QueueName="dead")["QueueUrl"]
    for letter in at.sent("dead"):
        name = json.loads(json.loads(letter["Body"])["Message"])["order_id"]
        for _ in range(2 if name in names else 1):
            sqs.send_message(QueueUrl=url, **sent_again(letter))


def test_a_run_of_two_letters_is_one_run_that_went_on(at: Scene) -> None:
    doubled(at, "a", "b")
    result = run(at, *RETRY, "--yes", "--json")
    assert len(result.stdout.splitlines()) == 5, "a line for each letter"
    assert result.stderr.splitlines()[-1] == "3 REDRIVEN, of 3 runs"


def test_a_run_whose_other_letter_fails_went_on_and_the_letter_has_failed(at: Scene) -> None:
    doubled(at, "a")
    refused: list[str] = []

    def refuse_one(call: ApiCall, proceed: Proceed) -> Response:
        answer = proceed()
        if call.operation == "SendMessageBatch" and not refused:
            entry = next(entry for entry in call.params["Entries"] if '"a' in str(entry["MessageBody"]))
            refused.append(entry["Id"])
            failed = {"Id": entry["Id"], "Code": "AccessDenied", "SenderFault": True}
            return {"Failed": [failed]}
        return answer

    with intercept(refuse_one):
        result = run(at, *RETRY, "--yes", code=1)
    assert result.stdout == "3 REDRIVEN, of 3 runs\n"
    assert result.stderr.count("FAILED  orders of a: ") == 1
