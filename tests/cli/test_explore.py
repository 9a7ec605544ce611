"""``flowguard explore``: what it prints and with which code it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flowguard.cli import main
from flowguard.testing import sqs_event

ROOT = Path(__file__).parents[2]
CART = "samples/validate_cart/01-request.json"
BUGGY = "buggy_totals:CountOrders"
BILLED = """
from pydantic import BaseModel
from flowguard import Done, Flow, Outcome, Stage, Step

TABLES = {{"bills": "order_id"}}


class Order(BaseModel):
    order_id: str


class Take(Stage[Order], name="take", then="{stage}", inbox="orders"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Bill.message(order)


class Bill(Stage[Order], name="{stage}"):
    def handle(self, order: Order, step: Step) -> Outcome:
        step.put("bills", {{"order_id": order.order_id}})
        return Done()


class BillOrders(Flow, name="bill-orders", object_id="order_id"):
    stages = (Take, Bill)
"""
SOURCE = """
import boto3
from pydantic import BaseModel
from flowguard import Done, Flow, Outcome, Stage, Step
from flowguard.testing.explorer import View, invariant

TABLES = {"totals": "day"}
FREE = {"totals": ["seen"]}


class Order(BaseModel):
    order_id: str


class Count(Stage[Order], name="count", inbox="orders"):
    def handle(self, order: Order, step: Step) -> Outcome:
        boto3.client("dynamodb").update_item(
            TableName="totals",
            Key={"day": {"S": "monday"}},
            UpdateExpression="ADD orders :one",
            ExpressionAttributeValues={":one": {"N": "1"}},
        )
        return Done()


class CountOrders(Flow, name="count-orders", object_id="order_id"):
    stages = (Count,)


@invariant
def one_order_is_one(view: View) -> None:
    item = view.item("totals", day="monday")
    if item is not None and item["orders"] > 1:
        raise AssertionError("one order was counted twice")
"""


@pytest.fixture(autouse=True)
def in_the_clone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.fixture
def buggy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The file of a message for a flow that counts twice."""
    (tmp_path / "buggy_totals.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    message = tmp_path / "order.json"
    message.write_text('{"order_id": "o1"}')
    return str(message)


def explore(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["explore", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.mark.slow("explores a flow")
def test_a_failure_is_expected_as_replay_proposes_it(tmp_path: Path) -> None:
    """An object, or a stage whose message names none, with the reason that is not looked at here."""
    bad = tmp_path / "bad.json"
    bad.write_text(json.dumps(sqs_event("unreadable", {"order": "o1"})))
    keyed = "tests.testing.explorer.test_unreadable_requests:Keyed"
    for name in ("keyed/take", "keyed/take=PayloadInvalid"):
        holds(keyed, "--messages", str(bad), "--bound", "0", "--walks", "0", "--failing", name)
    assert explore(keyed, "--messages", str(bad), "--bound", "0", "--walks", "0").exit_code == 1


@pytest.mark.slow("explores a flow")
def test_a_flow_that_holds_ends_with_0(buggy: str, tmp_path: Path) -> None:
    call, done = SOURCE.index("        boto3.client"), SOURCE.index("        return Done")
    recorded = 'step.update("totals", {"day": "monday"}, "ADD orders :one", values={":one": 1})'
    (tmp_path / "mended_totals.py").write_text(f"{SOURCE[:call]}        {recorded}\n{SOURCE[done:]}")
    holds("mended_totals:CountOrders", "--messages", buggy, "--bound", "0", "--walks", "0")


@pytest.mark.proof("explores a flow of three stages")
def test_so_does_a_flow_of_three_stages_under_pairs_of_faults() -> None:
    holds("flows.validate_cart.flow:ValidateCart", "--messages", CART, "--bound", "5", "--walks", "5")


def holds(*arguments: str) -> None:
    result = explore(*arguments)
    assert result.exit_code == 0
    assert all(line.startswith("exploring: ") for line in result.stderr.splitlines()), "progress, on a slow machine"
    assert "0 violations" in result.stdout.splitlines()[-1]


def test_a_driver_that_is_not_played_ends_with_3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a search and of one schedule, with the stage, the line and what to do."""
    (tmp_path / "saves_rows.py").write_text("import psycopg\n\n\ndef save(event, context):\n    psycopg.connect('')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    message = tmp_path / "order.json"
    message.write_text('{"order_id": "o1"}')
    given = str(message), "--flow", "saves_rows:save", "--queue", "orders"
    for more in ((), ("--schedule", "none")):
        result = explore(*given, *more)
        assert result.exit_code == 3
        assert "not looked at, orders: " in result.stdout
        assert "saves_rows.py:5 connects to a database by psycopg" in result.stdout
        (place,) = json.loads(explore(*given, *more, "--json").stdout)["unplayed"]
        assert place["stage"] == "orders"


@pytest.mark.slow("explores a flow")
def test_fewer_lines_than_fail_under_wants_end_with_3(buggy: str, tmp_path: Path) -> None:
    done = SOURCE.index("        return Done")
    step = SOURCE[: SOURCE.index("        boto3.client")]
    never = '        if order.order_id == "never":\n            return Done({"never": True})\n'
    (tmp_path / "partly_run.py").write_text(f"{step}{never}{SOURCE[done:]}")
    given = "partly_run:CountOrders", "--messages", buggy, "--bound", "0", "--walks", "0"
    result = explore(*given, "--fail-under", "90")
    assert result.exit_code == 3
    assert "2 of 3 ran, 66.7 %; 90 % are asked for, so this is no verdict; no schedule ran " in result.stdout
    holds(*given, "--fail-under", "60")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (("--schedule", "a2"), "--pdb: standard input is no terminal"),
        ((), "--pdb: it is for one schedule"),
        (("--schedule", "a2", "--json"), "--pdb: it is for one schedule, without --json"),
    ],
)
def test_a_debugger_that_nobody_could_ask_ends_with_2(buggy: str, more: tuple[str, ...], why: str) -> None:
    result = explore(BUGGY, "--messages", buggy, "--pdb", *more)
    assert (result.exit_code, result.stdout) == (2, "")
    assert why in result.stderr


@pytest.mark.slow("explores a flow")
def test_a_debugger_stops_in_the_handler(buggy: str, tmp_path: Path) -> None:
    """In a terminal, which asks and answers."""
    ours, theirs = os.openpty()
    arguments = ("explore", BUGGY, "--messages", buggy, "--schedule", "a2", "--pdb")
    command = [sys.executable, "-c", "from flowguard.cli import main; main()", *arguments]
    with subprocess.Popen(
        command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    ) as process:  # fmt: skip
        os.write(ours, b"p order.order_id * 3\nc\n")
        shown, _ = process.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)
    assert process.returncode == 1
    assert "stopped before call 5" in shown
    assert "'o1o1o1'" in shown


@pytest.mark.slow("explores a flow")
def test_a_flow_with_a_bug_ends_with_1_and_names_the_line(buggy: str) -> None:
    result = explore(BUGGY, "--messages", buggy, "--bound", "0", "--walks", "0")
    assert result.exit_code == 1
    assert "buggy_totals.py:17: boto3.client" in result.stdout
    assert "record it with step.update, or make it conditional" in result.stdout
    assert "one_order_is_one, schedule a2" in result.stdout


@pytest.mark.slow("explores a flow")
def test_json_is_one_object(buggy: str) -> None:
    result = explore(BUGGY, "--messages", buggy, "--bound", "0", "--walks", "0", "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 1
    assert {violation["schedule"] for violation in found["violations"]} == {"a2"}


def test_one_schedule_is_run_by_its_id(buggy: str) -> None:
    result = explore(BUGGY, "--messages", buggy, "--schedule", "a2")
    assert result.exit_code == 1
    assert "╳ dies after it (applied)" in result.stdout
    assert explore(BUGGY, "--messages", buggy, "--schedule", "none").exit_code == 0
    shown = json.loads(explore(BUGGY, "--messages", buggy, "--schedule", "a2", "--json").stdout)
    assert (shown["schedule"], len(shown["violations"])) == ("a2", 2)


@pytest.mark.slow("runs a flow three times")
@pytest.mark.parametrize(
    "arguments",
    [
        ("explore", "--bound", "0", "--walks", "0", "--not-for-good"),
        ("explore", "--schedule", "none"),
        ("replay",),
    ],
)
def test_what_code_prints_is_not_in_the_json(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = SOURCE.replace("        boto3.client", "        print('at work')\n        boto3.client")
    module = f"prints_lines_{len(arguments)}"
    (tmp_path / f"{module}.py").write_text(f"print('imported')\n{source}")
    monkeypatch.syspath_prepend(str(tmp_path))
    message = tmp_path / "order.json"
    message.write_text(json.dumps(sqs_event("orders", {"order_id": "o1"})))
    command, *options = arguments
    result = CliRunner().invoke(main, [command, str(message), "--flow", f"{module}:CountOrders", *options, "--json"])
    assert result.stdout
    assert all(json.loads(line) for line in result.stdout.splitlines())
    assert "imported" in result.stderr
    assert "at work" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("flows.validate_cart.flow:Nothing", "--messages", CART), "its flows: ValidateCart"),
        (("flows.validate_cart.flow:ValidateCart", "--messages", "nowhere.json"), "nowhere.json: No such file"),
        (("flows.validate_cart.flow:ValidateCart", "--messages", CART, "--schedule", "j1"), "'j1' is no schedule"),
        (("flows.validate_cart.flow:ValidateCart", "--messages", CART, "--table", "orders"), "write NAME=VALUE"),
    ],
)
def test_what_cannot_be_used_is_named_and_ends_with_2(arguments: tuple[str, ...], why: str) -> None:
    result = explore(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert why in result.stderr


@pytest.mark.slow("explores a flow")
def test_what_may_differ_is_said_by_option(buggy: str) -> None:
    result = explore(BUGGY, "--messages", buggy, "--bound", "0", "--walks", "0", "--free", "totals.orders", "--json")
    assert [one["problems"][0]["rule"] for one in json.loads(result.stdout)["violations"]] == ["one_order_is_one"]


def test_what_lies_in_the_tables_is_said_by_the_module(buggy: str, tmp_path: Path) -> None:
    source = SOURCE.replace("FREE = {", 'ITEMS = {"totals": [{"day": "monday", "orders": 7}]}\nFREE = {')
    (tmp_path / "stocked_totals.py").write_text(source.replace('item["orders"] > 1', 'item["orders"] != 8'))
    arguments = ("stocked_totals:CountOrders", "--messages", buggy, "--schedule")
    assert explore(*arguments, "none").exit_code == 0
    assert "day monday: orders  8            9" in explore(*arguments, "a2").stdout


def test_items_of_a_table_without_a_key_end_with_2(buggy: str, tmp_path: Path) -> None:
    (tmp_path / "keyless_totals.py").write_text(f'{SOURCE}\nITEMS = {{"prices": [{{"sku": "tea"}}]}}\n')
    result = explore("keyless_totals:CountOrders", "--messages", buggy)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("items: the hash key of the table prices is not known; ")


@pytest.mark.proof("explores a flow three times")
def test_a_report_is_written_as_a_page(buggy: str, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    arguments = (BUGGY, "--messages", buggy, "--bound", "0", "--walks", "0")
    result = explore(*arguments, "--html", str(file))
    assert result.exit_code == 1
    assert result.stdout.splitlines()[:-1] == explore(*arguments).stdout.splitlines()[:-1]
    text = file.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert text.rstrip().endswith("</html>")
    assert "<h1>count-orders</h1>" in text
    assert "one_order_is_one" in text
    json.loads(explore(*arguments, "--json", "--html", str(file)).stdout)
    assert file.read_text(encoding="utf-8") == text


def test_one_schedule_is_written_as_a_page(buggy: str, tmp_path: Path) -> None:
    file = tmp_path / "schedule.html"
    assert explore(BUGGY, "--messages", buggy, "--schedule", "a2", "--html", str(file)).exit_code == 1
    assert "Time line of schedule a2" in file.read_text(encoding="utf-8")
    assert explore(BUGGY, "--messages", buggy, "--schedule", "none", "--html", str(file)).exit_code == 0
    assert "The undisturbed run" in file.read_text(encoding="utf-8")


@pytest.mark.parametrize("schedule", [(), ("--schedule", "a2")])
def test_a_page_that_cannot_be_written_is_refused(buggy: str, tmp_path: Path, schedule: tuple[str, ...]) -> None:
    nowhere = str(tmp_path / "nowhere" / "report.html")
    result = explore(BUGGY, "--messages", buggy, *schedule, "--html", nowhere)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"--html: {nowhere}: No such file or directory\n"
    assert "Is a directory" in explore(BUGGY, "--messages", buggy, *schedule, "--html", str(tmp_path)).stderr


@pytest.mark.usefixtures("buggy")
@pytest.mark.parametrize("option", ["--html", "--sarif"])
def test_nothing_runs_for_a_file_that_cannot_be_written(option: str, tmp_path: Path) -> None:
    ran = tmp_path / "ran"  # what its module keeps is put back at the end
    source = SOURCE.replace("return Done()", f"open({str(ran)!r}, 'w').close()\n        return Done()")
    module = f"noted_totals_{option.strip('-')}"
    (tmp_path / f"{module}.py").write_text(source)
    arguments = (f"{module}:CountOrders", "--messages", str(tmp_path / "order.json"), "--schedule", "none")
    refused = explore(*arguments, option, str(tmp_path))
    assert (refused.exit_code, refused.stderr) == (2, f"{option}: {tmp_path}: Is a directory\n")
    assert not ran.exists()
    explore(*arguments)
    assert ran.exists()


def test_one_schedule_is_written_for_code_hosts_too(buggy: str, tmp_path: Path) -> None:
    file = tmp_path / "a2.sarif"
    result = explore(BUGGY, "--messages", buggy, "--schedule", "a2", "--sarif", str(file))
    assert result.exit_code == 1
    (run,) = json.loads(file.read_text())["runs"]
    assert {found["ruleId"] for found in run["results"]} == {"equivalence", "one_order_is_one"}


@pytest.mark.parametrize("text", ["[1, 2]", '"o1"', "7", "null"])
def test_a_file_that_is_no_message_is_named(text: str, tmp_path: Path) -> None:
    file = tmp_path / "list.json"
    file.write_text(text)
    result = explore(str(file), "--flow", "flows.validate_cart.flow:ValidateCart")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"FILE: {file}: ")
    assert "is no message" in result.stderr


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("totals", "totals: write NAME=VALUE"),
        ("totals=day,day", "totals=day,day: names one attribute twice"),
        ("totals=day:X", "totals has a key of the types"),
        ("totals=,day", "totals has the key"),
        ("totals=a,b,c", "totals has the key"),
    ],
)
def test_a_table_whose_key_cannot_be_is_refused(table: str, problem: str) -> None:
    result = explore("flows.validate_cart.flow:ValidateCart", "--messages", CART, "--table", table)
    assert (result.exit_code, result.stdout) == (2, "")
    assert problem in result.stderr


WAITING = """
from datetime import timedelta
from pydantic import BaseModel
from flowguard import Done, Flow, Outcome, Stage, Step
{answers}

class Order(BaseModel):
    order_id: str


class Ask(Stage[Order], name="ask", then="go-on", inbox="orders"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return GoOn.when_all(paid=step.event("payment/o1"), within=timedelta(minutes=5))


class GoOn(Stage[dict], name="go-on", inbox="orders"):
    def handle(self, answers: dict, step: Step) -> Outcome:
        return Done(answers)


class Asks(Flow, name="asks", object_id="order_id"):
    stages = (Ask, GoOn)
"""


def waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: str = "") -> tuple[str, ...]:
    """The arguments that run one schedule of a flow that waits."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "asking_orders", raising=False)
    (tmp_path / "asking_orders.py").write_text(WAITING.format(answers=answers))
    (tmp_path / "order.json").write_text('{"order_id": "o1"}')
    return (str(tmp_path / "order.json"), "--flow", "asking_orders:Asks", "--schedule", "none")


@pytest.mark.parametrize(("declared", "options"), [("", ("--answer", 'paid={"n": 1}')), ('ANSWERS = {"paid": 1}', ())])
def test_what_parties_outside_answer_is_said_by_option_or_module(
    declared: str, options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = explore(*waiting(tmp_path, monkeypatch, declared), *options)
    assert done.exit_code == 0, done.output
    assert "answer 'paid' for asks, hop 1" in done.output


def test_an_answer_of_the_module_may_be_for_what_no_message_at_hand_awaits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = explore(*waiting(tmp_path, monkeypatch, 'ANSWERS = {"paid": 1, "due": 1}'))
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    ("answer", "problem"),
    [("paid={", "what stands behind paid= is no JSON"), ("paid", "NAME=VALUE"), ("due=1", "no run awaits 'due'")],
)
def test_an_answer_that_is_none_is_refused(
    answer: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = explore(*waiting(tmp_path, monkeypatch), "--answer", answer)
    assert done.exit_code == 2
    assert problem in done.output


def test_a_search_that_is_terminated_shows_what_it_has_found(buggy: str, tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    body = SOURCE.partition("    item =")[0] + "    os.kill(os.getpid(), signal.SIGTERM)\n"
    (tmp_path / "ended_totals.py").write_text(f"import os, signal\n{body}")
    result = explore("ended_totals:CountOrders", "--messages", buggy)
    assert result.exit_code == 130
    assert "interrupted: what follows is what was found until then" in result.stdout
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.proof("runs a command over whole flows")
def test_the_log_of_what_it_explores_is_not_printed(tmp_path: Path) -> None:
    guarded = (
        "from flowguard import once\n\n@once('charge', key='body.id')\ndef charge(record):\n    raise ValueError\n"
    )
    (tmp_path / "nightly.py").write_text(guarded + "\nhandler = charge.batch\n")
    (tmp_path / "event.json").write_text(json.dumps(sqs_event("nights", {"id": "n1"})))
    search = ("--flow", "nightly:handler", "--queue", "nights", "--bound", "0", "--walks", "0")
    command = (sys.executable, "-m", "flowguard", "explore", "event.json", *search)
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stderr
    assert "RAISED" not in done.stderr.upper()


@pytest.mark.usefixtures("buggy")
def test_what_the_manifest_leaves_out_is_named_and_explored_where_it_is_named_itself(tmp_path: Path) -> None:
    folder = tmp_path / "messages"
    folder.mkdir()
    for name in ("01.json", "02.json"):
        (folder / name).write_text((tmp_path / "order.json").read_text())
    (folder / "expected.toml").write_text('not_explored = ["02.json"]\n')
    command = ("--flow", BUGGY, "--schedule", "none")
    one = explore(str(folder), *command)
    assert one.stderr == f"not explored, as the expected.toml beside it says: {folder / '02.json'}\n"
    assert "w2 " not in one.stdout
    both = explore(str(folder / "01.json"), str(folder / "02.json"), *command)
    assert (both.stderr, "w2 " in both.stdout) == ("", True)
    (folder / "expected.toml").write_text('not_explored = ["03.json"]\n')
    assert "03.json is not there" in explore(str(folder), *command).output


@pytest.fixture
def released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The arguments of a search of a release that has renamed a stage, without the directory of the older code."""
    for directory, stage in (("new", "invoice"), ("old", "bill"), ("same", "invoice")):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / "billed.py").write_text(BILLED.format(stage=stage))
    (tmp_path / "order.json").write_text('{"order_id": "o1"}')
    monkeypatch.syspath_prepend(str(tmp_path / "new"))
    yield [str(tmp_path / "order.json"), "--flow", "billed:BillOrders", "--before"]
    sys.modules.pop("billed", None)


def test_a_release_is_tried_with_messages_on_their_way(released: list[str], tmp_path: Path) -> None:
    result = explore(*released, str(tmp_path / "old"), "--most", "1", "--sarif", str(tmp_path / "found.sarif"))
    assert result.exit_code == 1
    assert "take, hop 1, by the old code" in result.output
    assert "from delivery 2 on: the new code" in result.output
    assert "does not take a message of the old one: bill-orders has no stage 'bill'" in result.output
    assert json.loads((tmp_path / "found.sarif").read_text())["runs"][0]["results"][0]["ruleId"] == "two versions"


@pytest.mark.slow("each switch of versions at each delivery of a flow")
def test_a_release_that_fits_says_that_two_versions_were_looked_at(released: list[str], tmp_path: Path) -> None:
    result = explore(*released, str(tmp_path / "same"), "--not-for-good", "--bound", "0", "--walks", "0", "--json")
    report = json.loads(result.output)
    assert (result.exit_code, report["verdict"], report["complete"]) == (0, "clean", True)
    assert report["switched"] > 40


def test_a_switch_is_replayed_with_the_older_code_alone(released: list[str], tmp_path: Path) -> None:
    assert explore(*released, str(tmp_path / "old"), "--schedule", "c2").exit_code == 1
    without = explore(*released[:-1], "--schedule", "c2")
    assert without.exit_code == 2
    assert "switches to another code; say where the old one is" in without.output


def test_a_directory_without_the_older_code_is_refused(released: list[str], tmp_path: Path) -> None:
    refused = explore(*released, str(tmp_path / "nowhere"))
    assert refused.exit_code == 2
    assert "is no directory; name one with the older code" in refused.output
