"""``flowguard list``, ``flowguard stats`` and ``flowguard waits`` of many runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner, Result

from flowguard.aws import run_pages
from flowguard.cli import main, table_reading
from flowguard.cli.connection import CommandTime
from flowguard.cli.stats_metrics import UNITS, Count, metric_lines
from flowguard.errors import Reject, Retry
from flowguard.names.ids import ObjectId
from flowguard.outcome import Outcome
from flowguard.sim.account import SIMULATED_KEYS
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.step import Step
from tests.cli.test_hostile_text import CONTROL, OBJECT
from tests.observers.test_metrics import problems
from tests.scene import ENGINES, START, OrderState, Scene, scene
from tests.waits import All, Progress, WaitScene, answered, asks, wait_scene


def run(at: Scene | WaitScene, *arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, arguments, obj=CommandTime(at.clock))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.output
    assert CONTROL.findall(result.stdout + result.stderr) == []
    return result


def shown(at: Scene | WaitScene, *arguments: str) -> list[str]:
    return [line.rstrip() for line in run(at, *arguments).stdout.splitlines()]


def objects(at: Scene | WaitScene, *arguments: str) -> list[str]:
    rows = run(at, *arguments, "--json").stdout.splitlines()
    return [json.loads(row)["object_id"] for row in rows]


def break_down(step: Step[OrderState]) -> None:
    raise RuntimeError("no tariff")


def decline(step: Step[OrderState]) -> None:
    raise Reject("the card is declined")


@pytest.fixture
def at() -> Iterator[Scene]:
    """Runs of every kind but one that waits: at the next hop, completed, failed, left by its worker."""
    with scene() as found:
        played(found)
        yield found


def played(at: Scene) -> None:
    at.deliver(at.message())
    at.deliver(at.second())
    at.deliver(at.order("o2"))
    at.script.pricing = decline
    at.deliver(at.order("bad"))
    at.clock.advance(seconds=60)
    at.script.pricing = break_down
    at.deliver(at.order("left", requested_at=at.clock.now()))
    at.clock.advance(seconds=600)


def in_a_quarter(step: Step[OrderState]) -> None:
    raise Retry("the bank is closed", after=timedelta(minutes=15))


def test_a_run_in_back_off_is_not_lost(at: Scene) -> None:
    at.script.pricing = in_a_quarter
    at.deliver(at.order("resting", requested_at=at.clock.now()))
    at.clock.advance(seconds=600)
    [row] = [json.loads(one) for one in run(at, "list", "--json").stdout.splitlines() if '"resting"' in one]
    assert row["now"].startswith(
        "attempt 1 has failed (Retry), which is tried again: attempt 2 comes at 2027-01-15T08:"
    )
    assert objects(at, "list")[0] == "left", "what no worker has comes first"
    assert objects(at, "list").index("bad") < objects(at, "list").index("resting")
    at.clock.advance(seconds=600)
    assert objects(at, "list").index("resting") < objects(at, "list").index("bad"), "its attempt has not come"


def test_a_list_has_the_most_urgent_first(at: Scene) -> None:
    assert shown(at, "list") == [
        "flow    object  status     stage        hop  attempt  age     quiet   now",
        "orders  left    RUNNING    price-order  1    1        10 min  9 min   no worker has it since "
        "2027-01-15T08:01:30.000Z (9 min ago); its message comes again, is parked, or was given up by SQS",
        "orders  bad     FAILED     price-order  1    1        11 min  11 min  Reject: the card is declined",
        "orders  o2      RUNNING    price-order  1    1        11 min  11 min  hop 1 is committed; the message of "
        "hop 2 is on its way",
        "orders  o1      COMPLETED  close-order  2    1        11 min  10 min  it has ended well",
        "4 runs",
    ]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ((), ["left", "bad", "o2", "o1"]),
        (("--status", "failed"), ["bad"]),
        (("--status", "RUNNING"), ["left", "o2"]),
        (("--status", "WAITING"), []),
        (("--stage", "close-order"), ["o1"]),
        (("--flow", "orders"), ["left", "bad", "o2", "o1"]),
        (("--flow", "order"), []),
        (("--flow", "tests.scene:Orders"), ["left", "bad", "o2", "o1"]),
        (("--older-than", "11m"), ["bad", "o2", "o1"]),
        (("--older-than", "1h"), []),
        (("--quiet-for", "10m"), ["bad", "o2", "o1"]),
        (("--quiet-for", "9m", "--status", "RUNNING"), ["left", "o2"]),
    ],
)
def test_filters_narrow_the_list(at: Scene, filters: tuple[str, ...], found: list[str]) -> None:
    assert objects(at, "list", *filters) == found


def test_a_run_whose_worker_is_at_work_is_not_quiet(at: Scene) -> None:
    at.deliver(at.order("new", requested_at=at.clock.now()))
    [row] = [json.loads(row) for row in run(at, "list", "--json").stdout.splitlines() if '"new"' in row]
    assert (row["quiet_since"], row["late"]) == (None, False)
    assert "new" not in objects(at, "list", "--quiet-for", "0s")


def test_what_was_read_is_said_on_standard_error(at: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(at, "list", "--status", "FAILED")
    assert result.stderr == "read 4 items of table flowguard by Scan\n"
    monkeypatch.setattr(table_reading, "_PROGRESS", 2)
    monkeypatch.setattr(run_pages, "ITEMS_A_PAGE", 2)
    assert run(at, "list").stderr.splitlines()[:2] == ["2 items read", "4 items read"]


def test_read_units_are_said_where_dynamodb_says_them(at: Scene) -> None:
    def counted(call: ApiCall, proceed: Proceed) -> Response:
        return proceed() | {"ConsumedCapacity": {"TableName": "flowguard", "CapacityUnits": 1234.5}}

    with intercept(counted):
        assert run(at, "list").stderr == "read 4 items of table flowguard by Scan, 1,234.5 read units\n"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_list_goes_on_where_it_stopped_and_has_each_run_once(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_pages, "ITEMS_A_PAGE", 3)
    with scene(engine=engine) as at:
        played(at)
        for bound in (("--limit", "1"), ("--read", "1"), ("--read", "2")):
            found: list[str] = []
            after: tuple[str, ...] = ()
            steps = 0
            while True:
                result = run(at, "list", "--json", *bound, *after)
                found += [json.loads(row)["object_id"] for row in result.stdout.splitlines()]
                steps += 1
                if "--after" not in result.stderr:
                    break
                after = ("--after", result.stderr.split()[-1])
            assert sorted(found) == ["bad", "left", "o1", "o2"]
            assert steps >= 2


@pytest.mark.parametrize(
    "place", ["", "x", "e30", "WzEsMl0", "WyJcdWQ4MDAiLCJydW4iXQ", "\udc80", "\x1b", "W" * 400_000]
)
def test_a_place_that_is_none_is_refused(at: Scene, place: str) -> None:
    result = run(at, "list", "--after", place, code=2)
    assert "is no place of a list" in result.stderr
    assert len(result.stderr) < 1_000


def test_what_is_no_run_is_left_out_and_what_cannot_be_read_is_counted(at: Scene) -> None:
    dynamodb = at.aws.client("dynamodb")
    for pk, sk in (("run#orders#broken", "run"), ("once#orders#1", "run"), ("run#orders#o1", "caller#x#y")):
        dynamodb.put_item(TableName="flowguard", Item={"pk": {"S": pk}, "sk": {"S": sk}, "stage": {"S": "x"}})
    result = run(at, "list")
    assert "4 runs" in result.stdout
    assert result.stderr.splitlines()[-1] == "1 items are no runs that this version can read"


def test_hostile_ids_are_escaped_and_cut(at: Scene) -> None:
    at.deliver(at.order(OBJECT)._replace(body=json.dumps({"order_id": OBJECT})))
    assert OBJECT in objects(at, "list")
    assert len(shown(at, "list")) == 7
    run(at, "stats")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("list", "--flow", ""), "--flow: it is empty"),
        (("list", "--stage", "\udc80"), "--stage: it "),
        (("list", "--status", "PAUSED"), "'PAUSED' is not one of"),
        (("list", "--older-than", "x"), "'x' is no time"),
        (("list", "--limit", "0"), "--limit"),
        (("list", "--table", "not-there"), "table not-there: does not exist"),
        (("stats", "--table", "not-there"), "table not-there: does not exist"),
        (("stats", "--flow", ""), "--flow: it is empty"),
        (("list", "--flow", "not.there:Orders"), "not.there:Orders"),
        (("stats", "--flow", "not.there:Orders"), "not.there:Orders"),
        (("waits", "--table", "not-there"), "table not-there: does not exist"),
        (("waits", "--payload"), "--payload is for one run"),
    ],
)
def test_what_cannot_be_run_is_named(at: Scene, arguments: tuple[str, ...], said: str) -> None:
    result = run(at, *arguments, code=2)
    assert result.stdout == ""
    assert said in result.stderr


def test_a_scan_that_is_denied_names_the_right(at: Scene) -> None:
    def refuse(call: ApiCall, proceed: Proceed) -> Response:
        raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, call.operation)

    with intercept(refuse):
        assert "Scan is denied (no); allow it to whoever runs this: Scan" in run(at, "list", code=2).stderr


# -- stats ------------------------------------------------------------------------------------------------------------


def test_stats_count_runs_and_say_which_need_somebody(at: Scene) -> None:
    assert shown(at, "stats") == [
        "flow    status     stage        runs  late  left  oldest",
        "orders  COMPLETED  close-order     1     0     0  11 min",
        "orders  FAILED     price-order     1     0     0  11 min",
        "orders  RUNNING    price-order     2     0     1  11 min",
        "4 runs",
    ]
    assert shown(at, "stats", "--flow", "tests.scene:Orders") == shown(at, "stats", "--flow", "orders")
    [_, _, last] = run(at, "stats", "--json").stdout.splitlines()
    assert json.loads(last) == {
        "row": "runs",
        "flow": "orders",
        "status": "RUNNING",
        "stage": "price-order",
        "runs": 2,
        "late": 0,
        "left": 1,
        "oldest": "2027-01-15T07:59:59.000Z",
    }
    assert run(at, "stats", "--read", "1").stderr.splitlines()[-1].startswith("stopped after 1 items; go on with ")


LATER: Any = {"M": {"zstd": {"B": b"x"}}}
"""How a later release may store a text."""


@pytest.mark.parametrize("stored", [LATER, {"B": b"no zlib"}])
def test_an_error_that_cannot_be_read_hides_no_other_run(at: Scene, stored: Any) -> None:
    dynamodb = at.aws.client("dynamodb")
    [bad] = [item for item in dynamodb.scan(TableName="flowguard")["Items"] if item["pk"]["S"] == "run#orders#bad"]
    dynamodb.put_item(TableName="flowguard", Item={**bad, "pk": {"S": "run#orders#worse"}, "error": stored})
    rows = {row["object_id"]: row["now"] for row in map(json.loads, run(at, "list", "--json").stdout.splitlines())}
    assert rows["bad"] == "Reject: the card is declined"
    assert rows["worse"].startswith("its error cannot be read by this version: ")
    assert objects(at, "list", "--error", "Reject") == ["bad"]


def test_a_key_without_an_object_is_counted_and_hides_no_run(at: Scene) -> None:
    key = {"pk": {"S": "run#orders"}, "sk": {"S": "run"}, "status": {"S": "RUNNING"}}
    at.aws.client("dynamodb").put_item(TableName="flowguard", Item=key)
    result = run(at, "list", "--json")
    assert len(result.stdout.splitlines()) == 4
    assert "1 items are no runs that this version can read" in result.stderr


def test_metrics_that_lack_a_run_say_so_by_the_exit_code(at: Scene) -> None:
    odd = {"pk": {"S": "run#orders#odd"}, "sk": {"S": "run"}, "status": {"S": "LATER"}}
    at.aws.client("dynamodb").put_item(TableName="flowguard", Item=odd)
    result = run(at, "stats", "--emf", "shop", code=1)
    assert json.loads(result.stdout)["runs_running"] == 2
    assert "1 items are no runs that this version can read" in result.stderr


def test_stats_as_metrics(at: Scene) -> None:
    [line] = run(at, "stats", "--emf", "shop/orders").stdout.splitlines()
    document = json.loads(line)
    assert list(problems(document)) == []
    [about] = document["_aws"]["CloudWatchMetrics"]
    assert (about["Namespace"], about["Dimensions"], document["flow"]) == ("shop/orders", [["flow"]], "orders")
    assert {one["Name"]: document[one["Name"]] for one in about["Metrics"]} == {
        "runs_running": 2,
        "runs_waiting": 0,
        "runs_failed": 1,
        "waits_late": 0,
        "runs_left": 1,
        "oldest_run_s": 11 * 60 + 1,
        "oldest_wait_s": 0,
    }


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--emf", "no namespace"), "it is no namespace of CloudWatch"),
        (("--emf", ""), "it is no namespace of CloudWatch"),
        (("--emf", "n" * 256), "it is no namespace of CloudWatch"),
        (("--emf", "shop", "--json"), "two formats"),
        (("--emf", "shop", "--after", "x"), "for a whole table"),
        (("--emf", "shop", "--read", "1"), "metrics of a part would mislead; raise it"),
    ],
)
def test_metrics_of_a_part_are_not_written(at: Scene, options: tuple[str, ...], says: str) -> None:
    refused = run(at, "stats", *options, code=2)
    assert says in refused.stderr
    assert refused.stdout == ""


# -- waits ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Iterator[WaitScene]:
    """Two runs that wait, one of them beyond its deadline, and one whose wait is over."""
    monkeypatch.setenv("FLOWGUARD_TOKEN_KEYS", SIMULATED_KEYS)
    with wait_scene() as found:
        for_days(found, "c1", 3)
        for_days(found, "c2", 1)
        for_days(found, "c3", 1)
        for name in "abc":
            found.deliver(answered_of(found, name, "c3"))
        found.clock.advance(seconds=2 * 86_400)
        yield found


def for_days(at: WaitScene, object_id: str, days: int) -> None:
    def waits(step: Step[Progress]) -> Outcome:
        return All.when_all(**asks(step), within=timedelta(days=days))

    at.begin(waits, object_id=object_id, body=json.dumps({"cart_id": object_id}))


def answered_of(at: WaitScene, name: str, object_id: str) -> dict[str, Any]:
    about = at.address(name)._replace(object_id=ObjectId(object_id))
    return answered(about, {"status": "COMPLETED", "result": 1})


def test_waits_are_listed_with_the_late_ones_first(waiting: WaitScene) -> None:
    expected = [
        "flow   object  stage  deadline                            without an answer",
        "carts  c2      begin  2027-01-16T08:00:00.000Z (1 d ago)  a, b, c",
        "carts  c1      begin  2027-01-18T08:00:00.000Z (in 1 d)   a, b, c",
        "2 waits, 1 past the deadline",
    ]
    assert shown(waiting, "waits") == expected
    assert shown(waiting, "waits", "carts") == expected
    assert shown(waiting, "waits", "tests.waits:Carts") == expected
    assert shown(waiting, "waits", "search")[-1] == "0 waits, 0 past the deadline"
    rows = [json.loads(row) for row in run(waiting, "waits", "--json").stdout.splitlines()]
    assert [(row["object_id"], row["late"], row["names"]) for row in rows] == [
        ("c2", True, ["a", "b", "c"]),
        ("c1", False, ["a", "b", "c"]),
    ]


def test_stats_name_the_oldest_wait(waiting: WaitScene) -> None:
    assert shown(waiting, "stats")[1:] == [
        "carts  WAITING  begin     3     1     0     2 d",
        "3 runs",
        "the oldest wait: carts of c1, begun 2 d ago, until 2027-01-18T08:00:00.000Z (in 1 d)",
    ]
    assert objects(waiting, "list") == ["c2", "c3", "c1"]
    begun = json.loads(run(waiting, "stats", "--json").stdout)["oldest_wait"]
    assert begun == "2027-01-15T08:00:00.000Z"
    metrics = json.loads(run(waiting, "stats", "--emf", "shop").stdout)
    assert (metrics["runs_waiting"], metrics["waits_late"], metrics["oldest_wait_s"]) == (3, 1, 2 * 86_400)


def test_a_flow_whose_runs_have_all_ended_has_gauges_of_zero() -> None:
    ended = ("orders", "COMPLETED", "close-order"), Count(runs=7, oldest=START, first_commit=START)
    [document] = metric_lines([ended], "shop", START + 60_000)
    assert [document[name] for name in UNITS] == [0] * len(UNITS)


def test_a_list_of_waits_reads_each_item_once(waiting: WaitScene) -> None:
    with intercept(Recorder()) as calls:
        run(waiting, "waits")
    assert [call.operation for call in calls.calls] == ["Scan"]


@pytest.mark.parametrize("command", ["list", "stats"])
def test_of_a_flow_that_is_given_by_its_name_it_says_that_nothing_was_read(at: Scene, command: str) -> None:
    told = "no such run of order was read; it may have none, or another name: 'flowguard stats' has the names of those"
    assert told in run(at, command, "--flow", "order").stderr
    assert "no such run" not in run(at, command, "--flow", "tests.scene:Orders").stderr, "its class is there"
    assert "no such run" not in run(at, command).stderr
    at.deliver(at.message())
    assert "no such run" not in run(at, command, "--flow", "orders").stderr
