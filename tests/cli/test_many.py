"""What the commands do with --all: the count and a sample first, the question, the work, the report."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner, Result
from pydantic import SecretStr

from flowguard.cli import main, many
from flowguard.cli.connection import CommandTime
from flowguard.errors import Reject
from flowguard.outcome import Outcome
from flowguard.protocol.run import Status
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.step import Step
from tests.aws.engines import same_clients
from tests.aws.test_indexed_runs import create_indexed
from tests.cli.test_hostile_text import CONTROL
from tests.cli.test_show import undoing
from tests.scene import START, OrderState, Scene, scene
from tests.waits import All, Cart, Late, Progress, Search, WaitScene, asks, wait_scene

ORDERS = "tests.scene:Orders"


def run(at: Scene | WaitScene, *arguments: str, code: int = 0, answer: str | None = None) -> Result:
    time = CommandTime(at.clock, lambda seconds: at.clock.advance(seconds=seconds))
    result = CliRunner().invoke(main, arguments, obj=time, input=answer)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    assert CONTROL.findall(result.stdout + result.stderr) == []
    return result


def cancel(at: Scene | WaitScene, *options: str, code: int = 0, answer: str | None = None) -> Result:
    more = () if answer is not None else ("--yes",)
    return run(at, "cancel", ORDERS, "--all", "--why", "sold out", *options, *more, code=code, answer=answer)


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene() as found:
        yield found


def begin(at: Scene, *names: str, **changes: Any) -> None:
    at.deliver(*(at.order(name, **changes) for name in names))


def cancelled(at: Scene, *names: str) -> list[bool]:
    return [(item := at.item(name)) is not None and item.cancelled_because == "sold out" for name in names]


def place_in(result: Result) -> str:
    """The place at which a command says that it goes on."""
    [line] = [line for line in result.stderr.splitlines() if line.startswith("go on with --after ")]
    return line.rpartition(" ")[2]


@contextmanager
def failing(on: Callable[[str], BaseException | None]) -> Iterator[None]:
    """Fail the writes of run items by what ``on`` returns for an object."""

    def answer(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "UpdateItem":
            error = on(call.params["Key"]["pk"]["S"].rpartition("#")[2])
            if error is not None:
                raise error
        return proceed()

    with intercept(answer):
        yield


def refused(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "UpdateItem")


# -- which runs, and the question -------------------------------------------------------------------------------------


def test_the_count_and_a_sample_are_shown_and_nothing_is_done_without_a_yes(at: Scene) -> None:
    begin(at, *"abcdefg")
    result = cancel(at, answer="n\n", code=1)
    assert result.stdout == ""
    _, number, *sample, more, question, end = result.stderr.splitlines()
    assert number == "7 runs to cancel:"
    assert sample[0] == (
        "  a: RUNNING at price-order, hop 1, requested 1 s ago: hop 1 is committed; the message of hop 2 is on its way"
    )
    assert (len(sample), more) == (many.SHOWN, "  … and 2 more")
    assert (question, end) == ("cancel 7 runs of orders? [y/N]: n", "nothing was done")
    assert cancelled(at, "a") == [False]


def test_with_a_yes_all_are_done_and_reported(at: Scene) -> None:
    begin(at, "a", "b")
    result = cancel(at, answer="y\n")
    assert result.stdout == "2 CANCELLED, of 2 runs\n"
    assert cancelled(at, "a", "b") == [True, True]


def test_where_nobody_answers_nothing_is_done(at: Scene) -> None:
    begin(at, "a")
    assert "say --yes where nobody can be asked" in cancel(at, answer="", code=2).stderr
    assert cancelled(at, "a") == [False]


def test_ctrl_c_at_the_question_says_that_nothing_was_done(at: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def stops(*_: object, **__: object) -> bool:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise click.Abort from None  # as click does

    begin(at, "a")
    monkeypatch.setattr("click.confirm", stops)
    result = cancel(at, answer="", code=130)
    assert result.stderr.splitlines()[-1] == "interrupted; nothing was done"
    assert "nobody answered" not in result.stderr
    assert cancelled(at, "a") == [False]


@pytest.mark.parametrize(
    ("streams", "yes", "code"),
    [
        (("stdin",), (), 2),
        (("stdin",), ("--yes",), 0),
        (("stdout",), ("--yes",), 0),
        (("stderr",), ("--yes",), 0),
        (("stdin", "stdout", "stderr"), (), 2),
        (("stdin", "stdout", "stderr"), ("--yes",), 0),
    ],
)
@pytest.mark.parametrize("command", [("cancel", ORDERS, "--why", "sold out"), ("retry", ORDERS, "--wait", "0")])
def test_streams_may_have_been_closed(
    at: Scene, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], streams: tuple[str, ...],
    yes: tuple[str, ...], code: int,
) -> None:  # fmt: skip
    if command[0] == "cancel":
        begin(at, "a")
    else:
        at.script.pricing = decline
        begin(at, "a")
    time = CommandTime(at.clock, lambda seconds: at.clock.advance(seconds=seconds))
    for name in streams:
        monkeypatch.setattr(sys, name, None)
    with pytest.raises(SystemExit) as ended:
        main.main([*command, "--all", *yes], obj=time)
    monkeypatch.undo()
    assert ended.value.code == code


def test_letters_may_go_back_where_streams_are_closed(at: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    at.script.pricing = decline
    begin(at, "a")
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    with pytest.raises(SystemExit) as ended:
        main(["dlq", "redrive", "dead", "--all", "--yes", "--wait", "0"])
    monkeypatch.undo()
    assert ended.value.code == 0
    assert at.sent("dead") == []


def test_the_question_says_how_long_it_takes_where_that_is_minutes(at: Scene) -> None:
    begin(at, *"abcdefg")
    slow = cancel(at, "--per-second", "0.1", answer="n\n", code=1).stderr
    assert "cancel 7 runs of orders? It takes about 2 min at 0.1 a second, which --per-second changes. [y/N]: n" in slow
    assert "It takes" not in cancel(at, "--per-second", "1", answer="n\n", code=1).stderr


def test_a_hundred_thousand_at_the_pace_that_is_given(at: Scene) -> None:
    assert many.at_pace(100_000, {"per_second": many.PER_SECOND}).startswith(" It takes about 84 min at 20 a second")


def test_without_a_run_nobody_is_asked(at: Scene) -> None:
    result = cancel(at, answer="")
    assert result.stdout == "nothing was done, of 0 runs\n"
    assert result.stderr.splitlines()[-1] == "0 runs to cancel"


def test_only_runs_of_the_flow_that_pass_the_filters_are_done(at: Scene) -> None:
    begin(at, "old", requested_at=START - 60_000)
    begin(at, "young")
    at.deliver(at.order("ended"), *(at.second(object_id="ended"),))
    key: Any = {"pk": {"S": "run#others#x"}, "sk": {"S": "run"}}
    items = at.aws.client("dynamodb")
    other: Any = items.get_item(TableName="flowguard", Key={"pk": {"S": "run#orders#old"}, "sk": {"S": "run"}})["Item"]
    items.put_item(TableName="flowguard", Item={**other, **key})
    assert cancel(at, "--older-than", "30s").stdout == "1 CANCELLED, of 1 run\n"
    assert cancelled(at, "old", "young", "ended") == [True, False, False]
    assert "cancelled" not in items.get_item(TableName="flowguard", Key=key)["Item"]


def test_a_run_that_is_taken_back_is_not_chosen() -> None:
    with scene(undoing) as at:
        at.script.pricing = decline
        begin(at, "a")
        assert cancel(at).stdout == "nothing was done, of 0 runs\n"


def decline(step: Step[OrderState]) -> None:
    raise Reject("the card is declined")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name the OBJECT, or say --all"),
        (("o1", "--all"), "name the OBJECT, or say --all, not both"),
        (("o1", "--stage", "x"), "--stage goes with --all"),
        (("o1", "--yes"), "--yes goes with --all"),
        (("o1", "--read", "5"), "--read goes with --all"),
        (("o1", "--after", "5"), "--after goes with --all"),
        (("--all", "--stage", ""), "--stage: it is empty"),
        (("--all", "--tenant", ""), "--tenant is empty; leave it out to take all"),
        (("--all", "--error", ""), "--error is empty; leave it out to take all"),
        (("--all", "--after", "nonsense"), "--after: 'nonsense' is no place of a list"),
        (("--all", "--per-second", "0"), "--per-second"),
        (("--all", "--per-second", "1e-300"), "--per-second"),
    ],
)
def test_what_cannot_be_run_is_named(at: Scene, arguments: tuple[str, ...], said: str) -> None:
    begin(at, "o1")
    assert said in run(at, "cancel", ORDERS, "--why", "sold out", *arguments, code=2).stderr
    assert cancelled(at, "o1") == [False]


NUMBERS = ("nan", "-nan", "inf", "-inf", "0", "-1", "1e-300", "1001", "ten", "")


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize(
    "command",
    [
        ("cancel", ORDERS, "--all", "--why", "sold out"),
        ("retry", ORDERS, "--all"),
        ("reset", "tests.worker.runtime.test_resets:Triggered", "--all"),
        ("callback", "answer.json", "--flow", "tests.waits:Carts", "--all", "--name", "a"),
        ("dlq", "redrive", "orders-dead-letters", "--all"),
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_a_pace_that_is_none_is_refused_before_anything_is_read(at: Scene, command: Any, number: str) -> None:
    with intercept(Recorder()) as calls:
        said = run(at, *command, "--per-second", number, code=2).stderr
    assert "Invalid value for '--per-second'" in said
    assert calls.calls == []


@pytest.mark.parametrize("option", ["--older-than", "--quiet-for"])
@pytest.mark.parametrize("time", ["nan", "inf", "0", "-5s", "5", "1e9s", "1.5h", "9999999999d", ""])
def test_a_time_that_is_none_is_refused_before_anything_is_read(at: Scene, option: str, time: str) -> None:
    with intercept(Recorder()) as calls:
        assert f"Invalid value for '{option}'" in cancel(at, option, time, code=2).stderr
    assert calls.calls == []


@pytest.mark.parametrize("option", ["--limit", "--read", "--most-failures"])
@pytest.mark.parametrize("number", ["nan", "inf", "0", "-1", "1.5", "1e3", "ten", ""])
def test_a_count_that_is_none_is_refused_before_anything_is_read(at: Scene, option: str, number: str) -> None:
    with intercept(Recorder()) as calls:
        assert f"Invalid value for '{option}'" in cancel(at, option, number, code=2).stderr
    assert calls.calls == []


def interrupts(call: ApiCall, proceed: Proceed) -> Response:
    """Ctrl-C while the table is read: behind its first page."""
    if call.operation == "Scan" and "ExclusiveStartKey" in call.params:
        raise KeyboardInterrupt
    answer = proceed()
    return (
        {**answer, "LastEvaluatedKey": {"pk": {"S": "x"}, "sk": {"S": "run"}}} if call.operation == "Scan" else answer
    )


@pytest.mark.parametrize(
    "command", [("cancel", ORDERS, "--why", "sold out"), ("retry", ORDERS)], ids=lambda all_: all_[0]
)
def test_ctrl_c_while_the_table_is_read_says_that_nothing_was_done(at: Scene, command: tuple[str, ...]) -> None:
    begin(at, "a", "b")
    with intercept(interrupts):
        result = run(at, *command, "--all", "--yes", code=130)
    read, interrupted = result.stderr.splitlines()
    assert read.startswith("read ")
    assert "items of table flowguard by Scan" in read
    assert (interrupted, result.stdout) == ("interrupted; nothing was done", "")
    assert cancelled(at, "a", "b") == [False, False]


def test_a_reason_that_cannot_be_is_refused_at_once(at: Scene) -> None:
    begin(at, "a")
    result = run(at, "cancel", ORDERS, "--all", "--why", " ", "--yes", code=2)
    assert "Nothing was cancelled" in result.stderr
    assert "runs to" not in result.stderr


# -- the work ---------------------------------------------------------------------------------------------------------


def test_each_run_is_a_line_of_json_and_the_report_goes_to_standard_error(at: Scene) -> None:
    begin(at, "a", "b")
    result = cancel(at, "--json")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row.pop("why")[:30] for row in rows] == ["if a worker had it, that is fe"] * 2
    assert rows == [
        {"flow": "orders", "object_id": name, "request_id": "run-1", "end": "CANCELLED"} for name in ("a", "b")
    ]
    assert result.stderr.splitlines()[-1] == "2 CANCELLED, of 2 runs"


def test_no_more_than_so_many_are_done_in_a_second(at: Scene) -> None:
    begin(at, *"abcde")
    before = at.clock.now()
    cancel(at, "--per-second", "2")
    assert at.clock.now() - before == 2_000


def test_three_that_fail_are_named_and_the_others_are_done(at: Scene) -> None:
    names = [f"o{number}" for number in range(9)]
    begin(at, *names)
    with failing(lambda name: refused("InternalServerError") if name in ("o2", "o4", "o6") else None):
        result = cancel(at, code=1)
    assert result.stdout == "6 CANCELLED, 3 FAILED, of 9 runs\n"
    assert [line for line in result.stderr.splitlines() if line.startswith("FAILED")] == [
        f"FAILED  orders of {name}: orders of {name}: InternalServerError: no" for name in ("o2", "o4", "o6")
    ]
    assert "go on" not in result.stderr
    assert cancelled(at, *names).count(True) == 6


def test_credentials_that_expire_end_it_and_it_goes_on_there(at: Scene) -> None:
    begin(at, *"abc")
    with failing(lambda name: refused("ExpiredTokenException") if name == "b" else None):
        result = cancel(at, code=2)
    assert "sign in again" in result.stderr
    assert result.stdout == "1 CANCELLED, of 3 runs\n"
    assert cancelled(at, *"abc") == [True, False, False]
    assert cancel(at, "--after", place_in(result)).stdout == "2 CANCELLED, of 2 runs\n"
    assert cancelled(at, *"abc") == [True] * 3


def test_ten_that_fail_for_good_are_passed_by_the_place_and_can_be_tried_again(at: Scene) -> None:
    names = [f"o{number:02}" for number in range(12)]
    begin(at, *names)
    with failing(lambda name: refused("InternalServerError") if name < "o10" else None):
        result = cancel(at, code=2)
        assert result.stdout == "10 FAILED, of 12 runs\n"
        [again] = [line for line in result.stderr.splitlines() if line.startswith("try those")]
        assert again == "try those that have failed last once more with the same command"
        assert cancel(at, "--after", place_in(result)).stdout == "2 CANCELLED, of 2 runs\n"
        both = cancel(at, "--most-failures", "11", code=1)
        assert both.stdout == "10 FAILED, of 10 runs\n"
    assert cancel(at).stdout == "10 CANCELLED, of 10 runs\n"


def test_behind_one_that_was_done_those_that_fail_have_a_place(at: Scene) -> None:
    begin(at, *"abcd")
    with failing(lambda name: refused("InternalServerError") if name > "a" else None):
        result = cancel(at, "--most-failures", "2", code=2)
    [again] = [line.rpartition(" ")[2] for line in result.stderr.splitlines() if line.startswith("try those")]
    assert cancel(at, "--after", place_in(result), "--limit", "1").stdout == "1 CANCELLED, of 1 run\n"
    assert cancelled(at, *"abcd") == [True, False, False, True]
    assert cancel(at, "--after", again).stdout == "2 CANCELLED, of 2 runs\n"


def test_a_place_is_for_the_same_flow_and_filters_alone(at: Scene) -> None:
    begin(at, *"abc")
    place = place_in(cancel(at, "--limit", "1", "--stage", "price-order"))
    for other in ((), ("--stage", "close-order"), ("--stage", "price-order", "--older-than", "1s")):
        assert (
            "is no place of a list of this flow and these filters"
            in cancel(at, *other, "--after", place, code=2).stderr
        )
    reset = ("reset", "tests.scene:Orders", "--all", "--yes", "--after", place)
    assert run(at, *reset, "--stage", "price-order", code=2).stderr
    assert cancel(at, "--stage", "price-order", "--after", place).stdout == "2 CANCELLED, of 2 runs\n"


def test_the_place_of_a_list_of_the_same_runs_is_taken(at: Scene) -> None:
    begin(at, *"abc")
    listed = run(at, "list", "--flow", "orders", "--limit", "2").stderr
    [place] = [line.rpartition(" ")[2] for line in listed.splitlines() if "go on with" in line]
    assert cancel(at, "--after", place).stdout == "1 CANCELLED, of 1 run\n"


def test_an_operators_clock_that_is_behind_keeps_no_run(at: Scene) -> None:
    begin(at, "a")
    at.clock.advance(ms=-10_000)
    assert cancel(at).stdout == "1 CANCELLED, of 1 run\n"
    assert cancelled(at, "a") == [True]


def test_ctrl_c_ends_it_and_it_goes_on_there(at: Scene) -> None:
    begin(at, *"abc")
    with failing(lambda name: KeyboardInterrupt() if name == "b" else None):
        result = cancel(at, code=1)
    assert "interrupted" in result.stderr
    assert result.stdout == "1 CANCELLED, of 3 runs\n"
    assert cancel(at, "--after", place_in(result)).stdout == "2 CANCELLED, of 2 runs\n"


def test_ctrl_c_before_the_first_is_done_begins_with_it_again(at: Scene) -> None:
    begin(at, "a")
    with failing(lambda name: KeyboardInterrupt()):
        result = cancel(at, code=1)
    *_, in_hand, goes_on = result.stderr.splitlines()
    assert in_hand == "orders of a was in hand, and it may be done to it"
    assert goes_on == "go on with the same command"
    assert result.stdout == "none was finished, of 1 run\n"


def test_going_on_from_an_older_place_changes_nothing_more(at: Scene) -> None:
    begin(at, *"abc")
    place = place_in(cancel(at, "--limit", "1"))
    cancel(at, "--after", place)
    before = [at.item(name) for name in "abc"]
    assert cancel(at, "--after", place).stdout == "nothing was done, of 0 runs\n"
    assert cancel(at).stdout == "nothing was done, of 0 runs\n"
    assert [at.item(name) for name in "abc"] == before


def test_a_run_that_ends_meanwhile_is_left_alone_and_a_newer_one_too(at: Scene) -> None:
    begin(at, *"abc")
    order = at.order("c")

    def moving(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "UpdateItem" and call.params["Key"]["pk"]["S"].endswith("#a") and not moved:
            moved.append(call)
            at.deliver(at.second(object_id="b"), order._replace(request_id="later", requested_at=START))  # type: ignore[arg-type]
        return proceed()

    moved: list[ApiCall] = []
    with intercept(moving):
        result = cancel(at, "--json")
    ends = [json.loads(line)["end"] for line in result.stdout.splitlines()]
    assert ends == ["CANCELLED", "LEFT", "LEFT"]
    assert cancelled(at, *"abc") == [True, False, False]


def test_a_newer_run_that_takes_the_object_between_the_look_and_the_write_is_left_alone(at: Scene) -> None:
    begin(at, "a")

    def moving(call: ApiCall, proceed: Proceed) -> Response:
        reads.extend([call.operation] * (call.operation == "GetItem"))
        if call.operation == "GetItem" and len(reads) == 2:
            at.deliver(at.order("a", request_id="later", requested_at=START - 1))
        return proceed()

    reads: list[str] = []
    with intercept(moving):
        result = cancel(at, "--json")
    [row] = [json.loads(line) for line in result.stdout.splitlines()]
    assert (row["end"], row["why"][:19]) == ("LEFT", "request later was m")
    assert cancelled(at, "a") == [False]


def for_a_day(step: Step[Progress]) -> Outcome:
    return All.when_all(**asks(step), within=timedelta(days=1))


def test_runs_that_wait_are_ended_at_once_and_again_where_their_message_was_not_sent() -> None:
    with wait_scene() as at:
        at.begin(for_a_day)
        sqs = at.aws.client("sqs")
        sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName="carts")["QueueUrl"])
        command = ("cancel", "tests.waits:Carts", "--all", "--why", "sold out", "--yes")
        assert run(at, *command, code=1).stdout == "1 FAILED, of 1 run\n"
        assert at.item().cancelled_because == "sold out"
        at.aws.create_queue("carts")
        assert run(at, *command).stdout == "1 CANCELLED, of 1 run\n"
        assert at.resume() == 1
        assert at.item().status is Status.FAILED


def test_a_run_whose_plan_is_gone_keeps_nobody_back() -> None:
    with wait_scene() as at:
        for name in "abc":
            at.begin(for_a_day, object_id=name, body=f'{{"cart_id":"{name}"}}')
        at.aws.client("s3").create_bucket(Bucket="texts")
        at.aws.client("dynamodb").update_item(
            TableName="flowguard",
            Key={"pk": {"S": "run#carts#b"}, "sk": {"S": "run"}},
            UpdateExpression="SET #wait.#plan = :gone",
            ExpressionAttributeNames={"#wait": "wait", "#plan": "plan"},
            ExpressionAttributeValues={":gone": {"M": {"bucket": {"S": "texts"}, "key": {"S": "gone"}}}},
        )
        command = ("cancel", "tests.waits:Carts", "--all", "--why", "sold out")
        assert run(at, *command, "--yes", "--limit", "2", code=1).stdout == "2 CANCELLED, of 2 runs\n"
        result = run(at, *command, "--yes", code=1)
        assert result.stdout == "2 CANCELLED, of 2 runs\n"
        assert "1 items are no runs that this version can read" in result.stderr
        assert "the plan of its wait cannot be read" in run(at, "show", "carts", "b", code=2).stderr


# -- how much is looked at --------------------------------------------------------------------------------------------


def test_a_limit_ends_it_and_says_where_it_goes_on(at: Scene) -> None:
    begin(at, *"abc")
    result = cancel(at, "--limit", "2")
    assert result.stdout == "2 CANCELLED, of 2 runs\n"
    assert cancel(at, "--after", place_in(result)).stdout == "1 CANCELLED, of 1 run\n"


def test_a_stage_that_the_flow_has_not_is_named(at: Scene) -> None:
    begin(at, "a")
    note = "orders has no stage 'price' here, but price-order, close-order"
    assert cancel(at, "--stage", "price").stderr.splitlines()[0] == note
    assert note not in cancel(at, "--stage", "price-order").stderr
    assert cancelled(at, "a") == [True]


def test_a_table_that_is_not_read_to_its_end_is_not_all(at: Scene) -> None:
    begin(at, *"abc")
    result = cancel(at, "--read", "2", code=1)
    assert result.stdout == "2 CANCELLED, of 2 runs\n"
    short = "the table has more items than --read allows; what follows is of those that were read"
    assert result.stderr.splitlines()[1:3] == [short, "2 runs to cancel:"]
    assert cancel(at, "--after", place_in(result)).stdout == "1 CANCELLED, of 1 run\n"


def test_a_hundred_and_one_runs_and_what_each_costs(at: Scene) -> None:
    begin(at, *(f"o{number:03}" for number in range(101)))
    with intercept(Recorder()) as calls:
        assert cancel(at, "--per-second", "1000").stdout == "101 CANCELLED, of 101 runs\n"
    operations = [call.operation for call in calls.calls if call.service == "dynamodb"]
    # as it is, whether its end would be believed without keys, before the write, and where it stands then
    assert {name: operations.count(name) for name in set(operations)} == {
        "Scan": 1,
        "GetItem": 404,
        "UpdateItem": 101,
    }


# -- answers ----------------------------------------------------------------------------------------------------------

CARTS = ("--flow", "tests.waits:Carts")


@pytest.fixture
def carts(tmp_path: Path) -> Iterator[tuple[WaitScene, str]]:
    """Two carts that wait for a, b and c, and a file with an answer."""
    with wait_scene() as at:
        at.begin(for_a_day)
        at.begin(for_a_day, object_id="c2", body='{"cart_id":"c2"}')
        file = tmp_path / "answer.json"
        file.write_text("7")
        yield at, str(file)


def test_all_that_wait_for_a_name_get_the_answer(carts: tuple[WaitScene, str]) -> None:
    at, file = carts
    command = ("callback", file, *CARTS, "--all", "--name", "a")
    result = run(at, *command, code=1, answer="n\n")
    assert "answer 2 runs of carts? [y/N]: n" in result.stderr
    assert run(at, *command, "--yes").stdout == "2 RECORDED, of 2 runs\n"
    for name in ("c1", "c2"):
        wait = at.item(name).wait
        assert wait is not None
        assert sorted(wait.waiting) == ["b", "c"]
    assert run(at, *command, "--yes").stdout == "nothing was done, of 0 runs\n"


def test_a_failure_is_for_many_too(carts: tuple[WaitScene, str]) -> None:
    at, file = carts
    command = ("callback", file, *CARTS, "--all", "--name", "a", "--fail", "--kind", "OutOfStock", "--yes", "--json")
    rows = [json.loads(line) for line in run(at, *command).stdout.splitlines()]
    assert {(row["object_id"], row["end"]) for row in rows} == {("c1", "RESUMED"), ("c2", "RESUMED")}


def test_a_run_that_waits_no_more_is_left(carts: tuple[WaitScene, str]) -> None:
    at, file = carts

    def moving(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "UpdateItem" and not moved:
            moved.append(call)
            run(at, "cancel", "tests.waits:Carts", "c2", "--why", "sold out")
        return proceed()

    moved: list[ApiCall] = []
    with intercept(moving):
        result = run(at, "callback", file, *CARTS, "--all", "--name", "a", "--yes")
    assert result.stdout == "1 LEFT, 1 RECORDED, of 2 runs\n"


@pytest.mark.parametrize("options", [(), ("--fail",)], ids=["an answer", "a failure"])
def test_of_runs_that_wait_for_one_id_only_those_that_pass_the_filters_are_answered(
    options: tuple[str, ...], carts: tuple[WaitScene, str]
) -> None:
    at, file = carts
    for cart in ("c3", "c4", "c5"):
        at.begin(for_stock, object_id=cart, body=f'{{"cart_id":"{cart}"}}')
    command = ("callback", file, *CARTS, "--all", "--name", "stock", *options, "--yes")
    assert run(at, *command, "--limit", "1").stdout == "1 RESUMED, of 1 run\n"
    waits = [at.item(cart).wait for cart in ("c3", "c4", "c5")]
    assert sum(wait is not None and wait.end is None for wait in waits) == 2, (
        "no other run that waits for the id goes on"
    )
    assert run(at, *command).stdout == "2 RESUMED, of 2 runs\n", "each of them is told as what it was"


def for_stock(step: Step[Progress]) -> Outcome:
    return Late.when_all(stock=step.event("stock/p7"), within=timedelta(days=1))


def test_who_waits_for_another_name_is_not_chosen(carts: tuple[WaitScene, str]) -> None:
    at, file = carts
    command = ("callback", file, *CARTS, "--all", "--name", "x", "--yes")
    result = run(at, *command)
    assert result.stdout == "nothing was done, of 0 runs\n"
    assert "for 'x'" not in result.stderr


def mixed(step: Step[Progress]) -> Outcome:
    found = step.ask(Search, Cart(cart_id=f"s-{step.object_id}"))
    return Late.when_all(a=step.token("a"), b=found, c=step.event("c"), within=timedelta(days=1))


TOKEN = "by a token, which only its holder has: each is answered by its link, or not at all"


@pytest.fixture
def mixed_carts(tmp_path: Path) -> Iterator[tuple[WaitScene, str]]:
    """A cart that waits for a, b and c by ids, and two that wait for a by a token and for b from a flow."""
    settings = Settings(token_keys=SecretStr("k:an-example-that-is-long-enough-to-be-a-secret"))
    with wait_scene(settings=settings) as at:
        at.begin(for_a_day)
        for name in ("c3", "c4"):
            at.begin(mixed, object_id=name, body=f'{{"cart_id":"{name}"}}')
        file = tmp_path / "answer.json"
        file.write_text("7")
        yield at, str(file)


def test_those_that_wait_for_the_name_by_a_token_or_from_a_flow_are_counted(mixed_carts: tuple[WaitScene, str]) -> None:
    at, file = mixed_carts
    command = ("callback", file, *CARTS, "--all", "--yes", "--name")
    result = run(at, *command, "a", code=1)
    assert result.stdout == "1 RECORDED, of 1 run\n"
    assert f"2 runs wait for 'a' {TOKEN}\n" in result.stderr
    run(at, "cancel", "tests.waits:Carts", "c4", "--why", "sold out")
    result = run(at, *command, "a", code=1)
    assert (result.stdout, result.stderr.splitlines()[-2:]) == (
        "nothing was done, of 0 runs\n",
        ["0 runs to answer", f"1 run waits for 'a' {TOKEN}"],
    )
    result = run(at, *command, "b", code=1)
    assert result.stdout == "1 RECORDED, of 1 run\n"
    assert "1 run waits for 'b' from another flow, which alone answers\n" in result.stderr
    assert "of 2 runs" in run(at, *command, "c").stdout


def test_a_group_waits_for_no_name(carts: tuple[WaitScene, str]) -> None:
    at, file = carts

    def for_a_group(step: Step[Progress]) -> Outcome:
        return Late.when_group(step.group(Search, [("a", Cart(cart_id="s-1"))]), within=timedelta(days=1))

    at.begin(for_a_group, object_id="c3", body='{"cart_id":"c3"}')
    wait = at.item("c3").wait
    assert wait is not None
    [shard] = wait.waiting
    result = run(at, "callback", file, *CARTS, "--all", "--yes", "--name", shard)
    assert (result.stdout, f"for {shard!r}" in result.stderr) == ("nothing was done, of 0 runs\n", False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--all",), "--all needs the --name"),
        (("id", "--name", "a"), "--name goes with --all"),
        (("id", "--all", "--name", "a"), "name the TOKEN|ID, or say --all, not both"),
        (("id", "--stage", "x"), "--stage goes with --all"),
        ((), "Missing argument 'FILE'"),
    ],
)
def test_answers_that_cannot_be_given(carts: tuple[WaitScene, str], arguments: tuple[str, ...], said: str) -> None:
    at, file = carts
    at_first = arguments[:1] if arguments and not arguments[0].startswith("--") else ()
    files = () if not arguments else (file,)
    words = at_first or (() if files else ("id",))
    rest = arguments[len(at_first) :]
    assert said in run(at, "callback", *words, *files, *CARTS, *rest, code=2).stderr


# -- an index ---------------------------------------------------------------------------------------------------------

INDEXED = ("--table", "indexed", "--index", "runs-by-status", "--status", "running")


@pytest.fixture
def indexed(at: Scene) -> Scene:
    """The runs a, b and c, in a table with the index, too."""
    begin(at, *"abc")
    create_indexed(same_clients())
    items = at.aws.client("dynamodb")
    for item in items.scan(TableName="flowguard")["Items"]:
        items.put_item(TableName="indexed", Item=item)
    return at


def test_runs_of_a_status_are_found_by_the_index_and_no_table_is_read(indexed: Scene) -> None:
    with intercept(Recorder()) as calls:
        result = cancel(indexed, *INDEXED)
    assert result.stdout == "3 CANCELLED, of 3 runs\n"
    assert result.stderr.startswith("read 3 items of table indexed by index runs-by-status")
    assert not [call for call in calls.calls if call.operation == "Scan"]


def test_it_goes_on_in_the_index(indexed: Scene) -> None:
    result = cancel(indexed, *INDEXED, "--limit", "1")
    place = place_in(result)
    assert cancel(indexed, *INDEXED, "--after", place).stdout == "2 CANCELLED, of 2 runs\n"
    refused = cancel(indexed, "--table", "indexed", "--after", place, code=2)
    assert "is no place of a list" in refused.stderr


def test_lists_and_waits_take_the_index_too(indexed: Scene) -> None:
    first = run(indexed, "list", *INDEXED, "--json", "--limit", "1")
    [place] = [line.rpartition(" ")[2] for line in first.stderr.splitlines() if "go on with" in line]
    rest = run(indexed, "list", *INDEXED, "--json", "--after", place)
    names = [json.loads(line)["object_id"] for line in (first.stdout + rest.stdout).splitlines()]
    assert names == [*"abc"]
    waits = run(indexed, "waits", "--table", "indexed", "--index", "runs-by-status")
    assert waits.stdout == "0 waits, 0 past the deadline\n"


@pytest.mark.parametrize("command", [("list",), ("cancel", ORDERS, "--all", "--why", "x")])
def test_an_index_needs_a_status_and_has_to_be_there(indexed: Scene, command: tuple[str, ...]) -> None:
    without = ("--table", "indexed", "--index", "runs-by-status")
    assert "give its --status" in run(indexed, *command, *without, code=2).stderr
    other = ("--table", "indexed", "--index", "none", "--status", "running")
    assert "does not have the specified index" in run(indexed, *command, *other, code=2).stderr
