"""The command line, the marker and the function take the same: each says it in its own way."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Final

import click
import pytest
from click.testing import CliRunner, Result

from flowguard.cli import main
from flowguard.testing import Exploration, explore, replay
from flowguard.testing.exploration import MarkerError
from flowguard.testing.explorer import PlainFunction

OPTIONS: Final = {
    "flows": "--flow",
    "messages": "FILE",
    "tables": "--table",
    "items": "--item",
    "invariants": "@invariant in the module",
    "free": "--free",
    "either": "--either",
    "ttl": "--ttl",
    "bound": "--bound",
    "walks": "--walks",
    "most": "--most",
    "seconds": "--seconds",
    "seed": "--seed",
    "engine": "--engine",
    "offload_above": "--offload-above",
    "for_good": "--for-good",
    "failing": "--failing",
    "any_order": "--any-order",
    "may_fail": "--may-fail",
    "invariants_only": "--invariants-only",
    "buckets": "--bucket",
    "stubs": "--stub",
    "answers": "--answer",
    "same": "--same",
    "network": "--network",
    "outside": "--outside",
    "postgres": "--postgres",
    "patience": "--patience",
    "batch": "--batch",
    "together": "--together",
    "insider": "--insider",
    "weather": "--weather",
    "before": "--before",
    "rollback": "--rollback",
    "fail_under": "--fail-under",
    "resume": "--resume",
    "progress": "shown on a terminal",
}
"""What the command line has for each argument of ``explore``."""

OF_FUNCTIONS: Final = {
    "queue": "--queue",
    "handler": "--flow",
    "visibility": "--visibility",
    "timeout": "--timeout",
    "direct": "--direct",
    "batch": "--batch",
    "partial": "--partial",
}
ITS_OWN: Final = {"--messages", "--schedule", "--json", "--html", "--sarif", "--pdb"}
OF_A_SEARCH: Final = {"bound", "walks", "most", "seconds", "for_good", "rollback", "fail_under", "resume", "progress"}
"""What one schedule that is replayed does not need."""

SOURCE: Final = """
import json
import boto3

def handler(event, context):
    ssm = boto3.client("ssm", region_name="us-east-1")
    table = ssm.get_parameter(Name="/orders")["Parameter"]["Value"]
    dynamodb = boto3.client("dynamodb", region_name="us-east-1")
    for record in event["Records"]:
        sku = json.loads(record["body"])["sku"]
        price = dynamodb.get_item(TableName="prices", Key={"sku": {"S": sku}})["Item"]["price"]
        dynamodb.put_item(TableName=table, Item={"sku": {"S": sku}, "price": price})
"""


def given() -> set[str]:
    return set(inspect.signature(explore).parameters)


def test_each_argument_has_an_option_and_each_option_an_argument() -> None:
    assert set(OPTIONS) == given()
    command = main.get_command(click.Context(main), "explore")
    assert command is not None
    there = {name for one in command.params if isinstance(one, click.Option) for name in one.opts[:1]}
    assert there == {one for one in (*OPTIONS.values(), *OF_FUNCTIONS.values()) if one.startswith("--")} | ITS_OWN


def test_a_plain_function_is_described_by_options_too() -> None:
    assert set(inspect.signature(PlainFunction).parameters) - {"topic"} == set(OF_FUNCTIONS)


def test_a_schedule_is_replayed_with_all_that_it_was_found_with() -> None:
    assert set(inspect.signature(replay).parameters) - {"schedule", "debugger"} == given() - OF_A_SEARCH


def test_the_marker_takes_each_argument_and_no_other() -> None:
    with pytest.raises(MarkerError) as raised:
        Exploration((), {"none": 1})
    (said,) = [one for one in raised.value.problems if "it takes no" in one]
    assert said.partition("there are ")[2].split(", ") == [one for one in OPTIONS if one != "flows"]


@pytest.fixture
def order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "priced.py").write_text(SOURCE)
    (tmp_path / "order.json").write_text(json.dumps({"sku": "tea"}))
    monkeypatch.syspath_prepend(tmp_path)
    return str(tmp_path / "order.json")


def run(order: str, *more: str) -> Result:
    needed = ["--flow", "priced:handler", "--queue", "orders", "--table", "prices=sku", "--table", "orders=sku"]
    return CliRunner().invoke(main, ["explore", order, *needed, "--bound", "0", "--walks", "0", *more])


STUB: Final = 'ssm.GetParameter={"Parameter": {"Value": "orders"}}'
ITEM: Final = 'prices={"sku": "tea", "price": 4}'


def test_one_schedule_is_of_no_search_that_goes_on(order: str, tmp_path: Path) -> None:
    done = run(order, "--schedule", "none", "--resume", str(tmp_path / "runs"))
    assert (done.exit_code, (tmp_path / "runs").exists()) == (2, False)
    assert "--resume: it is for a search, and --schedule runs one schedule; leave out either" in done.output


@pytest.mark.parametrize(
    "engine", ["memory", pytest.param("moto", marks=pytest.mark.long("once more on moto, which is slow"))]
)
def test_what_a_handler_needs_is_given_on_the_command_line(order: str, engine: str) -> None:
    done = run(order, "--stub", STUB, "--item", ITEM, "--engine", engine, "--patience", "60", "--not-for-good")
    assert done.exit_code == 0, done.output
    assert "orders, record 1 COMPLETED" in done.output


def test_forms_of_an_item_are_given_one_by_one(order: str) -> None:
    known = ["--stub", STUB, "--item", ITEM, "--not-for-good"]
    done = run(order, *known, "--either", 'orders={"price": 4}', "--either", "orders=null")
    assert done.exit_code == 0
    assert "allowed in one of several forms: orders.price" in done.output


def test_what_is_found_can_be_replayed_with_the_same_options(order: str) -> None:
    found = json.loads(run(order, "--stub", STUB, "--json").output)["violations"]  # no price is there
    assert [one["schedule"] for one in found] == ["none"]
    again = run(order, "--stub", STUB, "--schedule", "none")
    assert again.exit_code == 1
    assert "fails though nothing goes wrong" in again.output


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        (["--stub", "ssm.GetParameter=x"], "--stub: what stands behind ssm.GetParameter= is no JSON"),
        (["--stub", "ssm={}"], "is no answer; name a service and its operation"),
        (["--item", "prices"], "write NAME=VALUE"),
        (["--item", "prices=[]"], "prices"),
        (["--either", "orders=x"], "--either: what stands behind orders= is no JSON"),
        (["--stub", STUB, "--either", 'orders={"price": 4}'], "either: orders has 1 forms"),
        (["--ttl", "orders.a", "--ttl", "orders.b"], "--ttl: it has two for orders, a and b; give one"),
        (["--ttl", "orders"], "orders: write TABLE.ATTRIBUTE"),
        (["--free", "orders"], "orders: write TABLE.ATTRIBUTE"),
        (["--same", "emails.id", "--same", "emails.key"], "--same: it has two for emails, id and key; give one"),
        (["--stub", "ssm.A={}", "--stub", "ssm.A=[]"], "--stub: it is given twice for ssm.A; give it once"),
        (["--answer", "a=1", "--answer", "a=1"], "--answer: it is given twice for a; give it once"),
        (["--table", "days=shop", "--table", "days=day"], "--table: it is given twice for days; give it once"),
        (["--outside", "a.b", "--outside", "a.b={}"], "--outside: it is given twice for a.b; give it once"),
        (["--same", "emails"], "emails: write QUEUE.FIELD"),
        (["--patience", "0"], "--patience"),
        (["--engine", "aws"], "--engine"),
        (["--most", "0"], "--most"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(order: str, option: list[str], problem: str) -> None:
    refused = run(order, *option)
    assert refused.exit_code == 2
    assert problem in refused.output
