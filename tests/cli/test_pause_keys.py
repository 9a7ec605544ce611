"""``flowguard pause --key`` and ``flowguard resume --key``: one key of a stage's limit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from flowguard import Done, Flow, Outcome, PerKey, Stage, Step
from flowguard.aws.pause_rows import Pause, PauseRows
from flowguard.clock import ManualClock
from tests.cli.test_pause import clock, rows, run, stack
from tests.deploy.deployed import Stack

__all__ = ["clock", "stack"]

ORDERS: Final = "tests.cli.test_pause_keys:Orders"
WHY: Final = "a fraud is looked into"
PAGE: Final = Path(__file__).parents[2] / "docs" / "operate" / "pause.md"
CHARGE: Final = ("--stage", "charge", "--key", "customer=c1")


def region(order: dict[str, str]) -> str:
    return order["customer"][:1]


class Charge(
    Stage[dict[str, str]],
    name="charge",
    then="ship",
    limit=(PerKey("customer", at_once=3), PerKey(region, at_once=9, name="region")),
):
    def handle(self, order: dict[str, str], step: Step) -> Outcome:
        return Done()


class Ship(Stage[dict[str, str]], name="ship", inbox="parcels"):
    def handle(self, order: dict[str, str], step: Step) -> Outcome:
        return Done()


class Orders(Flow, name="orders", object_id="order_id"):
    stages = (Charge, Ship)


def pause(clock: ManualClock, *options: str, why: str = WHY, code: int = 0) -> str:
    result = run(clock, "pause", ORDERS, "--why", why, *options, code=code)
    return result.stdout if code == 0 else " ".join(result.stderr.split())


def test_one_key_is_paused_and_the_page_shows_what_is_said(stack: Stack, clock: ManualClock) -> None:
    shown = ["$ flowguard pause tests.cli.test_pause_keys:Orders --stage charge --key customer=c1 --why '" + WHY + "'"]
    shown += pause(clock, *CHARGE).splitlines()
    clock.advance(seconds=3_600)
    shown += ["", "$ flowguard stats --flow orders"]
    shown += run(clock, "stats", "--flow", "orders").stdout.splitlines()
    shown += ["", "$ flowguard resume tests.cli.test_pause_keys:Orders --stage charge --key customer=c1"]
    shown += run(clock, "resume", ORDERS, *CHARGE).stdout.splitlines()
    text = "\n".join(shown).replace("tests.cli.test_pause_keys:Orders", "shop.orders:Orders")
    assert text in PAGE.read_text(encoding="utf-8"), text


def test_a_key_that_has_paused_itself_is_named_and_resumed_by_the_same_commands(
    stack: Stack, clock: ManualClock
) -> None:
    place = PerKey("customer", at_once=3).place_of_value("c1")
    why, since = "3 GatewayAway within 0:01:00", clock.now()
    row = Pause("orders", "charge", "", since, why, {}, nonce="n1", place=place, until=since + 300_000)
    assert PauseRows(stack.client("dynamodb"), "flowguard").tell(row)
    [told] = rows(stack)
    assert told["ttl"] == {"N": str(since // 1000 + 300 + 86_400)}, "it expires a day after the next trial"
    clock.advance(seconds=3_600)
    shown = ["$ flowguard stats --flow orders", *run(clock, "stats", "--flow", "orders").stdout.splitlines()]
    assert "\n".join(shown) in PAGE.read_text(encoding="utf-8"), shown
    [line] = [json.loads(line) for line in stats_lines_of(clock)]
    assert (line["paused_since"], line["tried_at"]) == ("2027-01-15T08:00:00.000Z", "2027-01-15T08:05:00.000Z")
    assert pause(clock, *CHARGE).startswith(f"PAUSED  orders charge {place}\n")
    assert [row for row in rows(stack) if "ttl" in row or "until" in row] == [], (
        "a pause by hand lasts until its resume"
    )
    assert run(clock, "stats", "--flow", "orders").stdout.endswith(f"{place}: paused 0 s ago: {WHY}\n")
    run(clock, "resume", ORDERS, *CHARGE)
    assert [row["pk"]["S"].partition("#")[0] for row in rows(stack)] == ["limit"]


class Pack(Stage[dict[str, str]], name="pack", limit=PerKey("customer", at_once=3, shards=3)):
    def handle(self, order: dict[str, str], step: Step) -> Outcome:
        return Done()


class Label(Stage[dict[str, str]], name="label", then="pack", limit=PerKey("customer", at_once=3)):
    def handle(self, order: dict[str, str], step: Step) -> Outcome:
        return Done()


class Packed(Flow, name="packed", object_id="order_id"):
    stages = (Label, Pack)


def test_a_key_with_shards_is_paused_in_all_of_them_and_shown_once(stack: Stack, clock: ManualClock) -> None:
    flow = ("tests.cli.test_pause_keys:Packed", "--stage", "pack", "--key", "customer=c1")
    said = run(clock, "pause", *flow, "--why", WHY).stdout
    assert said.endswith("0 at work and 0 in line\n")
    paused = [row["pk"]["S"] for row in rows(stack) if "pause" in row]
    base = said.split()[3]
    assert sorted(paused) == [f"limit#packed#pack#{base}{shard}" for shard in ("", "~1", "~2")]
    assert len(run(clock, "stats", "--flow", "packed", "--json").stdout.splitlines()) == 1
    run(clock, "resume", *flow)
    assert [row for row in rows(stack) if "pause" in row or row["pk"]["S"] == "pause"] == []


def test_a_key_whose_row_is_gone_is_resumed_in_the_shards_of_its_stage(stack: Stack, clock: ManualClock) -> None:
    flow = "tests.cli.test_pause_keys:Packed"
    for stage in ("label", "pack"):
        run(clock, "pause", flow, "--stage", stage, "--key", "customer=c1", "--why", WHY)
    for row in rows(stack):
        if row["pk"]["S"] == "pause":
            assert row.get("shards") == ({"N": "3"} if "#pack#" in row["sk"]["S"] else None)
            stack.client("dynamodb").delete_item(TableName="flowguard", Key={"pk": row["pk"], "sk": row["sk"]})
    for stage, left in (("label", 3), ("pack", 0)):
        run(clock, "resume", flow, "--stage", stage, "--key", "customer=c1")
        assert len([row for row in rows(stack) if "pause" in row]) == left
    assert len(rows(stack)) == 4, "a key without shards has one item"


def test_the_pause_of_a_key_remembers_its_shards_where_the_stage_is_gone(stack: Stack, clock: ManualClock) -> None:
    flow = "tests.cli.test_pause_keys:Packed"
    key = run(clock, "pause", flow, "--stage", "pack", "--key", "customer=c1", "--why", WHY).stdout.split()[3]
    for row in rows(stack):  # the release after it calls the stage otherwise
        for name in ("pk", "sk"):
            row[name] = {"S": row[name]["S"].replace("#pack#", "#gone#")}
        stack.client("dynamodb").put_item(TableName="flowguard", Item=row)
    run(clock, "resume", flow, "--stage", "gone", "--key", key)
    assert [row for row in rows(stack) if "pause" in row and "#gone#" in row["pk"]["S"]] == []


def test_a_key_is_named_by_its_digest_as_well(stack: Stack, clock: ManualClock) -> None:
    pause(clock, *CHARGE)
    [line] = [json.loads(line) for line in stats_lines_of(clock)]
    assert line["row"] == "pause"
    assert set(line) == {"row", "flow", "stage", "key", "paused_since", "why", "at_once", "tried_at"}
    assert line["tried_at"] is None
    again = pause(clock, "--stage", "charge", "--key", line["key"], why="again")
    assert again.startswith(f"PAUSED  orders charge {line['key']} since 2027-01-15T08:00:00.000Z: {WHY}\n")
    run(clock, "resume", ORDERS, "--stage", "charge", "--key", line["key"])
    assert [row["pk"]["S"].partition("#")[0] for row in rows(stack)] == ["limit"]


def stats_lines_of(clock: ManualClock) -> list[str]:
    return run(clock, "stats", "--flow", "orders", "--json").stdout.splitlines()


def test_a_key_of_a_limit_that_is_gone_is_resumed_by_its_digest(stack: Stack, clock: ManualClock) -> None:
    gone = ("--stage", "old", "--key", f"tenant#{'0' * 32}")
    said = run(clock, "resume", ORDERS, *gone, code=1).stderr
    assert said == f"orders old tenant#{'0' * 32}: it was not paused, and nothing was changed\n"
    assert "orders has no stage 'old'" in pause(clock, *gone, code=2)


def test_both_commands_print_json(stack: Stack, clock: ManualClock) -> None:
    facts = json.loads(pause(clock, *CHARGE, "--json"))
    key = facts.pop("key")
    assert key.startswith("customer#")
    since = "2027-01-15T08:00:00.000Z"
    common = {"flow": "orders", "stage": "charge", "why": WHY}
    assert facts == {**common, "verdict": "PAUSED", "since": since, "at_work": 0, "in_line": 0}
    resumed = json.loads(run(clock, "resume", ORDERS, *CHARGE, "--json").stdout)
    assert resumed == {**common, "key": key, "verdict": "RESUMED", "paused_since": since}
    nothing = json.loads(run(clock, "resume", ORDERS, *CHARGE, "--json", code=1).stdout)
    assert nothing == {**common, "key": key, "verdict": "NOT_PAUSED", "paused_since": None, "why": None}


def test_a_pause_of_a_key_is_none_of_its_stage(stack: Stack, clock: ManualClock) -> None:
    pause(clock, *CHARGE)
    said = run(clock, "resume", ORDERS, "--stage", "charge", code=1).stderr
    assert "orders charge: it was not paused, and nothing was changed" in said
    assert len(stats_lines_of(clock)) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--key", "customer=c1"), "--key goes with one --stage, whose limit it is of"),
        (("--stage", "charge", "--stage", "ship", "--key", "customer=c1"), "--key goes with one --stage"),
        (("--stage", "pay", "--key", "customer=c1"), "orders has no stage 'pay', but charge, ship"),
        (("--stage", "charge", "--key", "tenant=c1"), "--key: write customer=VALUE or region=VALUE"),
        (("--stage", "charge", "--key", "customer="), "--key: write customer=VALUE or region=VALUE"),
        (("--stage", "charge", "--key", "customer"), "--key: write customer=VALUE or region=VALUE"),
        (("--stage", "charge", "--key", f"tenant#{'0' * 32}"), "--key: write customer=VALUE or region=VALUE"),
        (("--stage", "ship", "--key", "customer=c1"), "--key: ship has no limit, so it has no keys; leave --key out"),
    ],
)
def test_what_is_refused(clock: ManualClock, options: tuple[str, ...], said: str) -> None:
    """Nobody is asked: there are no credentials."""
    assert said in pause(clock, *options, code=2)


def test_a_key_is_not_drained(clock: ManualClock) -> None:
    said = run(clock, "resume", ORDERS, *CHARGE, "--at-once", "5", code=2).stderr
    assert "--at-once is for queues; a key goes on as its limit lets it" in said
