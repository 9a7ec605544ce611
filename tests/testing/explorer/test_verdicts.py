"""No verdict without its ground: what ran, what is known to be right, and what a report says where neither is."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import boto3
import pytest
from click.testing import CliRunner, Result
from pydantic import BaseModel

from flowguard import Done, Flow, Outcome, Reject, Stage, Step
from flowguard.cli import main
from flowguard.sim.world import START
from flowguard.testing import sqs_event
from flowguard.testing.explorer import View, explore, replay
from flowguard.testing.explorer.report.page import page
from flowguard.testing.explorer.search import right_ends
from flows.validate_cart.flow import ValidateCart
from tests.flows.samples import sample
from tests.testing.explorer import interleaved
from tests.testing.explorer.interleaved import Order, TakeStock

TABLES = {"seats": "id"}


class Claim(BaseModel):
    claim_id: str
    seat: str


class Take(Stage[Claim], name="take", inbox="claims"):
    """Only one of two gets the seat: which of them fails depends on the order."""

    def handle(self, claim: Claim, step: Step) -> Outcome:
        seats: Any = boto3.resource("dynamodb", region_name="us-east-1").Table("seats")
        found = seats.get_item(Key={"id": claim.seat}, ConsistentRead=True).get("Item")
        if found is not None and found["by"] != claim.claim_id:
            raise Reject("the seat is taken")
        nobody = "attribute_not_exists(id)"
        step.put("seats", {"id": claim.seat, "by": claim.claim_id}, condition=nobody, else_reject=True)
        return Done()


class Seats(Flow, name="seats", object_id="claim_id"):
    stages = (Take,)


TWO = [Claim(claim_id="c1", seat="s"), Claim(claim_id="c2", seat="s")]
QUICK: dict[str, Any] = {"bound": 0, "walks": 0, "for_good": False}
"""Without what is refused for good, which takes as long as all else and says nothing more of a verdict."""
FEW: dict[str, Any] = {**QUICK, "tables": interleaved.TABLES, "items": interleaved.STOCK}
ORDERS = [Order(order_id="o1", amount=1), Order(order_id="o2", amount=2)]


def other_event() -> dict[str, Any]:
    """A sample for another flow."""
    return sqs_event("tariffs", {"claim_id": "c1"}, attributes={"flowstage": "tariffs/price"}, sent_at=START)


def test_where_nothing_ran_there_is_no_verdict() -> None:
    report = explore(Seats, [other_event()], tables=TABLES, **QUICK)
    assert (report.violations, report.has_run, report.is_judged, report.ok) == ((), False, False, False)
    assert "nothing ran: no message is for what is explored, so this says nothing of it" in str(report)
    assert report.as_json()["has_run"] is False


def test_where_nothing_ran_nothing_is_a_violation() -> None:
    report = explore(Seats, [other_event()], tables=TABLES, bound=3, walks=3)
    assert (report.violations, report.has_run) == ((), False)


@pytest.mark.slow("explores flows and handlers")
def test_a_message_for_another_flow_is_named_beside_those_that_ran() -> None:
    report = explore(Seats, [other_event(), TWO[0]], tables=TABLES, **QUICK)
    assert (report.violations, report.has_run, report.is_judged, report.ok) == ((), True, False, False)
    [(number, why, _)] = report.not_run
    assert (number, why) == (1, "Unroutable: 'tariffs/price' is not served here; seats/take is")
    assert f"nothing ran for message 1: {why}" in str(report)
    assert report.as_json()["not_run"] == [{"message": "message 1", "why": why}]
    shown = html.unescape(page(report))
    assert f"<p>nothing ran for message 1: {why}</p>" in shown
    assert '<p class="verdict bad">0 violations, and no verdict</p>' in shown


@pytest.mark.proof("explores a flow")
def test_the_command_names_its_file_and_gives_no_verdict(tmp_path: Path) -> None:
    flow = "tests.testing.explorer.test_verdicts:Seats"
    (tmp_path / "good.json").write_text(json.dumps(sqs_event("claims", {"claim_id": "c1", "seat": "s"})))
    (tmp_path / "foreign.json").write_text(json.dumps(other_event()))
    named = [str(tmp_path / name) for name in ("good.json", "foreign.json")]
    options = ["--table", "seats=id", "--bound", "0", "--walks", "0"]
    shown = CliRunner().invoke(
        main, ["explore", flow, *options, *(part for name in named for part in ("--messages", name))]
    )
    assert shown.exit_code == 3
    assert f"nothing ran for {named[1]}: Unroutable: 'tariffs/price' is not served here" in shown.output
    assert "nothing ran for message" not in shown.output
    assert CliRunner().invoke(main, ["explore", flow, *options, "--messages", named[0]]).exit_code == 0


def test_a_message_in_a_queue_that_no_flow_names_goes_back_there_and_is_lost_nowhere() -> None:
    """Record it where the queues have other names: its function reads its queue all the same."""
    event = sqs_event("staging-claims", {"claim_id": "c1", "seat": "s"}, sent_at=START)
    given_up = replay(Seats, [event], "d1-1", tables=TABLES)
    assert "from the dead-letter queue" in str(given_up)
    assert given_up.violations == ()


def of_run(**place: Any) -> dict[str, Any]:
    """A message that says of itself where in a run it is."""
    attributes = {
        "uniquerequestid": "r-1",
        "requestedat": str(START),
        "flowguard": json.dumps({"object": "c9", **place}),
    }
    payload = {"claim_id": "c9", "seat": "s"}
    return sqs_event("claims", payload, attributes={"flowstage": "seats/take", **attributes}, sent_at=START)


NOT_HERE: dict[str, tuple[dict[str, Any], str]] = {
    "another release": (of_run(version=9), "OtherRelease: seats does not read version 9"),
    "a run that is not here": (
        of_run(hop=2, version=1),
        "GONE: it is of hop 2 of a run that is not here, seats of c9; give what begins it too",
    ),
    "a stage that no request enters": (
        sqs_event("claims", {}, attributes={"flowstage": "seats/leave"}, sent_at=START),
        "Untrusted: ",
    ),
    "a request from the future": (
        sqs_event("claims", {}, attributes={"requestedat": str(START + 86_400_000 * 99)}, sent_at=START),
        "EnvelopeError: ",
    ),
}


@pytest.mark.parametrize("which", NOT_HERE)
def test_a_message_that_no_stage_gets_is_named_and_no_fault_is_tried_at_it(which: str) -> None:
    event, why = NOT_HERE[which]
    report = explore(Seats, [event], tables=TABLES, **QUICK)
    assert (report.violations, report.has_run, report.ok) == ((), False, False)
    assert [one.number for one in report.not_run] == [1]
    assert report.not_run[0].why.startswith(why)
    assert "".join(report.coverage.values()) == ""


def test_an_answer_for_which_no_run_waits_is_named() -> None:
    request, answer = (sample(f"validate_cart/{name}.json") for name in ("01-request", "12-search-result-forged"))
    report = explore(ValidateCart, [request, answer], seconds=0.001, **QUICK)
    [(number, why, _)] = report.unawaited
    assert number == 2
    assert why.startswith("UNKNOWN: no run waits for 'search#cart-2006-request-1")
    assert f"changes nothing, message 2: {why}" in report.limits()
    assert report.as_json()["unawaited"] == [{"message": "message 2", "why": why}]
    assert report.not_run == (), "it was taken, and refused"


@pytest.mark.proof("explores a flow")
def test_beside_a_message_that_no_stage_gets_the_others_keep_their_numbers() -> None:
    foreign = [event for event, _ in NOT_HERE.values()]
    several = TWO[0], Claim(claim_id="c2", seat="t")
    report = explore(Seats, [*foreign, *several], tables=TABLES, **QUICK)
    assert [one.number for one in report.not_run] == [1, 2, 3, 4]
    assert (report.violations, report.is_judged, report.parts) == ((), False, 2)
    assert {end.of: end.status for end in report.undisturbed_ends} == {"c1": "COMPLETED", "c2": "COMPLETED"}
    assert replay(Seats, [*foreign, *several], "6/d1", tables=TABLES).violations == ()


@pytest.mark.proof("explores a flow")
def test_a_later_hop_of_a_run_that_another_message_begins_is_explored_with_it() -> None:
    begins = of_run(version=1)
    report = explore(Seats, [of_run(hop=2, version=1), begins], tables=TABLES, invariants_only=True, **QUICK)
    assert report.not_run == ()


@pytest.mark.proof("explores two runs twice")
def test_what_no_order_that_was_run_explains_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    for bound in ("MOST_ORDERS_OF_FEW", "MOST_TO_EXPLAIN"):
        monkeypatch.setattr(right_ends, bound, 2)
    report = explore(TakeStock, ORDERS, **FEW)
    assert (report.has_all_orders, report.ok) == (False, False)
    assert report.unjudged > 0
    assert [one for one in report.violations if one.rule == "equivalence"] == []
    assert "that ended as none of the 4 orders that were run; give fewer messages" in str(report)
    meant = explore(TakeStock, ORDERS, any_order=True, **FEW)
    assert (meant.unjudged, meant.violations) == (0, ())


@pytest.mark.proof("explores two runs")
def test_orders_that_were_not_run_are_run_where_an_end_asks_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(right_ends, "MOST_ORDERS_OF_FEW", 2)
    report = explore(TakeStock, ORDERS, **FEW)
    assert report.orders > 2
    assert (report.unjudged, report.has_all_orders) == (0, False), "runs that met were looked at before"


@pytest.mark.proof("explores two runs")
def test_the_orders_that_change_least_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(right_ends, "MOST_ORDERS_OF_FEW", 3)
    monkeypatch.setattr(right_ends, "FEW", 1)
    assert explore(TakeStock, ORDERS, **FEW).orders == 6, "of more messages the other bound counts"


@pytest.mark.proof("explores two runs twice")
def test_a_run_that_may_fail_is_no_violation_whichever_order_decides() -> None:
    told = explore(Seats, TWO, tables=TABLES, **QUICK)
    assert [one.problems[0].where for one in told.violations if one.rule == "undisturbed"] == ["seats of c2"]
    report = explore(Seats, TWO, tables=TABLES, may_fail=["c1", "c2"], **QUICK)
    assert report.ok, str(report)


def never_right(view: View) -> str:
    return "as ever"


@pytest.mark.proof("explores two runs")
def test_with_invariants_alone_no_ends_are_compared() -> None:
    report = explore(TakeStock, ORDERS, invariants_only=True, **FEW)
    assert report.ok, str(report)
    assert report.orders == 1
    found = explore(TakeStock, ORDERS, invariants_only=True, invariants=[never_right], most=1, **FEW)
    assert [one.rule for one in found.violations] == ["never_right"]


def never_right_either(view: View) -> str:
    return "as ever"


def test_violations_of_one_schedule_print_one_time_line() -> None:
    report = explore(TakeStock, ORDERS[:1], invariants=[never_right, never_right_either], most=2, **FEW)
    first, second = report.violations
    assert first.schedule == second.schedule
    assert str(report).count("UpdateItem flowguard  (claim)") == "\n".join(first.timeline).count("(claim)")


def command(folder: Path, message: dict[str, Any], *options: str) -> Result:
    (folder / "message.json").write_text(json.dumps(message))
    quick = ("--bound", "0", "--walks", "0", "--table", "seats=id")
    return CliRunner().invoke(
        main, ["explore", str(folder / "message.json"), "--flow", f"{__name__}:Seats", *quick, *options]
    )


@pytest.mark.proof("explores flows")
def test_the_exit_code_says_whether_there_is_a_verdict(tmp_path: Path) -> None:
    claim = sqs_event("claims", {"claim_id": "c1", "seat": "s"}, sent_at=START)
    assert command(tmp_path, claim).exit_code == 0
    assert command(tmp_path, claim, "--failing", "c1").exit_code == 1
    assert command(tmp_path, claim, "--may-fail", "c1", "--invariants-only").exit_code == 0
    assert command(tmp_path, other_event()).exit_code == 3
