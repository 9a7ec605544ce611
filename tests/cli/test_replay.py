"""``flowguard replay``: what it shows, in which forms, and what it does with what it cannot use."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result

from flowguard.cli import main
from flowguard.cli.recordings import without_reason
from flowguard.cli.replay import _complain_of_failed, _of_unanswered
from flowguard.project import loading
from flowguard.sim.final_state import DeadLetter, FinalState, RunLeft, Unanswered
from flowguard.sim.points import Point
from flowguard.testing import sqs_event
from flowguard.wire.attributes import Attribute

ROOT = Path(__file__).parents[2]
CARTS = ROOT / "samples" / "validate_cart"
REQUEST = CARTS / "01-request.json"
DUPLICATE = CARTS / "02-duplicate.json"
TOPIC = CARTS / "05-sns-to-sqs.json"
FEW = (REQUEST, DUPLICATE, TOPIC, CARTS / "09-request-with-a-wish.json")

PRICE_CART = "validate-cart/price-cart"


@pytest.fixture(autouse=True)
def in_the_clone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def replay(*arguments: str | Path, stdin: str = "") -> Result:
    result = CliRunner().invoke(main, ["replay", *map(str, arguments)], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def expecting(*objects: str) -> list[str]:
    """Say that the runs of these objects are to fail."""
    return [argument for one in objects for argument in ("--failing", one)]


def lines(*arguments: str | Path, stdin: str = "") -> tuple[list[Any], dict[str, Any]]:
    """The deliveries, and what comes after them."""
    result = replay(*arguments, "--json", stdin=stdin)
    assert (result.exit_code, result.stderr) == (0, "")
    found = [json.loads(line) for line in result.stdout.splitlines()]
    return [one for one in found if "record" in one], {name: one[name] for one in found[-4:] for name in one}


# -- what is shown ----------------------------------------------------------------------------------------------------


@pytest.mark.slow("replays flows")
def test_each_delivery_is_a_line_of_json_and_then_comes_what_is_left() -> None:
    rows, left = lines(REQUEST)
    assert [(row["stage"], row["hop"], row["verdict"], row["outcome"]) for row in rows] == [
        ("price-cart", 1, "CLAIMED", "committed"),
        ("check-cart", 2, "CLAIMED", "committed"),
        ("confirm-cart", 3, "CLAIMED", "completed"),
    ]
    assert rows[0]["writes"] == [{"kind": "put", "table": "carts", "key": "cart-2001"}]
    assert [send["to"] for send in rows[2]["sends"]] == ["emails", "shop-replies"]
    assert [(run["object_id"], run["status"], run["epoch"]) for run in left["runs"]] == [("cart-2001", "COMPLETED", 3)]
    assert left["tables"]["cart-totals"] == [{"confirmed": 1, "day": "2026-01-02", "revenue": 56.1}]
    assert left["queues"] == {"emails": 1, "shop-replies": 1}
    assert left["summary"]["effects"] == 3


@pytest.mark.proof("runs a command over whole flows")
def test_people_get_a_table_and_a_last_line_of_counts() -> None:
    result = replay(REQUEST, DUPLICATE)
    assert result.exit_code == 0
    shown = result.stdout.splitlines()
    assert " ".join(shown[0].split()) == "after record object stage hop try verdict what came of it"
    assert shown[1].split()[:8] == ["0.000", "s", "9a1aafb1", "cart-2001", "price-cart", "1", "1", "CLAIMED,"]
    assert shown[-1].startswith("2 messages in, 6 deliveries, 3 executions, 3 effects, 3 duplicates refused")
    assert max(map(len, shown[:12])) <= 120


@pytest.mark.slow("replays flows")
def test_no_line_shows_a_payload() -> None:
    result = replay(REQUEST)
    timeline, _, _ = result.stdout.partition("\nruns")
    assert "tea" not in timeline


@pytest.mark.proof("runs a command over whole flows")
def test_a_stage_is_named_with_its_flow_where_there_are_several() -> None:
    result = replay(REQUEST, ROOT / "samples" / "triggered_cache" / "01-reset.json")
    assert "validate-cart/price-cart" in result.stdout
    assert "triggered-cache/collect" in result.stdout


WAITS = """
from datetime import timedelta
from pydantic import BaseModel
from flowguard import Done, Flow, Stage, Step

class Order(BaseModel):
    order_id: str

class Ask(Stage[Order], name="ask", then="go-on"):
    def handle(self, order, step):
        return GoOn.when_any(approval=step.token("approval"), within=timedelta(hours=1))

class GoOn(Stage[dict], name="go-on"):
    def handle(self, answers, step):
        return Done(answers)

class Orders(Flow, name="orders", object_id="order_id"):
    stages = (Ask, GoOn)
"""


def answer_to(folder: Path, said: str) -> Path:
    event = json.loads((ROOT / "samples" / "callbacks" / "http-api-json.json").read_text())
    event["rawPath"] = event["pathParameters"]["token"] = f"{{token:{said}}}"
    file = folder / "answer.json"
    file.write_text(json.dumps(event))
    return file


@pytest.fixture
def orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments that replay a run which waits for a token."""
    (tmp_path / "waiting_orders.py").write_text(WAITS)
    (tmp_path / "order.json").write_text('{"order_id": "o1"}')
    monkeypatch.syspath_prepend(str(tmp_path))
    return [str(tmp_path / "order.json"), "--flow", "waiting_orders:Orders"]


def test_a_request_is_answered_with_the_token_that_it_names(orders: list[str], tmp_path: Path) -> None:
    rows, left = lines(orders[0], answer_to(tmp_path, "orders/o1/approval"), *orders[1:])
    assert [(row["verdict"], row["status"]) for row in rows[:2]] == [("CLAIMED", None), ("RESUMED", 200)]
    assert left["runs"][0]["result"] == {"approval": {"answer": "approve", "comment": "within the budget"}}


@pytest.mark.slow("replays flows")
def test_a_request_that_names_no_token_is_named_with_its_file_and_the_cure(orders: list[str], tmp_path: Path) -> None:
    wrong = answer_to(tmp_path, "orders/\x1b[2J/approval")
    result = replay(orders[0], wrong, "--repeat", "2", *orders[1:])
    assert result.exit_code == 2
    assert result.stderr == (
        f"{wrong}: {{token:orders/\\x1b[2J/approval}} is the token of no run; write {{token:FLOW/OBJECT/NAME}}; "
        "the tokens until then: orders/o1/approval\n"
    )
    assert "COMPLETED" in result.stdout, "the rest is run all the same"
    [again] = [line for line in result.stdout.splitlines() if "more such until" in line]
    assert "until 2700.0" in again, "a deadline on its way is one row"


@pytest.mark.slow("replays flows")
def test_deadlines_of_each_run_are_a_row(orders: list[str], tmp_path: Path) -> None:
    (tmp_path / "second.json").write_text('{"order_id": "o2"}')
    shown = replay(orders[0], str(tmp_path / "second.json"), *orders[1:]).stdout
    assert {line.split()[3] for line in shown.splitlines() if "deadline not due" in line} == {"o1", "o2"}


def test_a_message_whose_object_cannot_be_read_has_failed(tmp_path: Path) -> None:
    event, *flow = unread_cart(tmp_path)
    result = replay(event, *flow)
    assert (result.exit_code, result.stderr.startswith(f"{PRICE_CART} of no object FAILED: PayloadInvalid: ")) == (
        1,
        True,
    )
    assert result.stderr.endswith(f"; where that is expected: --failing {PRICE_CART}=PayloadInvalid\n")
    assert replay(event, *flow, *expecting(PRICE_CART)).exit_code == 0


@pytest.mark.parametrize(
    ("record", "verdict"),
    [
        ({"attributes": {"requestedat": Attribute("Number", "9000000000000")}}, "UNREADABLE"),
        ({"attributes": {"flowstage": Attribute("String", "validate-cart/confirm-cart")}}, "UNTRUSTED"),
    ],
)
def test_a_record_that_stays_in_its_queue_has_failed(record: dict[str, Any], verdict: str, tmp_path: Path) -> None:
    event = tmp_path / "event.json"
    cart = {"cart_id": "c1", "shop": "tea", "lines": [{"sku": "cup", "pieces": 1}]}
    event.write_text(json.dumps(sqs_event("carts", cart, message_id="m-1", **record)))
    flow = ("--flow", "flows.validate_cart.flow:ValidateCart")
    result = replay(event, *flow)
    assert (result.exit_code, result.stderr.startswith(f"m-1 is {verdict}: ")) == (1, True), result.output
    assert replay(event, *flow, *expecting("m-1")).exit_code == 0


def test_a_run_that_does_not_end_has_failed(capsys: pytest.CaptureFixture[str]) -> None:
    left = RunLeft(flow="orders", object_id="o1", request_id="r1", status="WAITING", stage="ask", hop=1, epoch=1)
    state = FinalState(runs=(left,), tables={}, dead_letters=(), queues={})
    assert _complain_of_failed([], state, (), ())
    assert capsys.readouterr().err == (
        "orders of o1 WAITING: nothing comes any more that it would go on with; where that is expected: --failing "
        "o1=WAITING\n"
    )
    for why in ("WAITING", "ask"):
        assert not _complain_of_failed([], state, (f"o1={why}",), ())
    assert _complain_of_failed([], state, ("o1",), ()), "a run that does not end is no failure of its stage"


@pytest.mark.parametrize(
    ("failing", "excuses"),
    [
        ("o1", True),
        ("o1=Reject", True),
        ("o1=charge", True),
        ("o1=KeyError", False),
        ("o1=price", False),
        ("o1=FAILED", False),
        ("o2=Reject", False),
    ],
)
def test_a_failure_is_excused_by_its_error_or_its_stage(
    failing: str, excuses: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    left = RunLeft(
        flow="orders",
        object_id="o1",
        request_id="r1",
        status="FAILED",
        stage="charge",
        hop=1,
        epoch=1,
        error="Reject: the card is declined",
    )
    state = FinalState(runs=(left,), tables={}, dead_letters=(), queues={})
    assert _complain_of_failed([], state, (failing,), ()) is not excuses
    assert _complain_of_failed([], state, (), (failing,)) is not excuses
    told = capsys.readouterr().err
    assert ("where that is expected: --failing o1=Reject" in told) is not excuses
    assert (f"--failing {failing}: none of its runs failed" in told) is not excuses


def test_a_run_that_was_taken_back_is_excused_by_the_stage_of_its_letter() -> None:
    left = RunLeft(
        flow="f", object_id="o1", request_id="r", status="FAILED", stage="undo", hop=3, epoch=1, error="Reject: no"
    )
    letter = DeadLetter(queue="dead", stage="f/charge", object_id="o1", request_id="r", error="Reject: no")
    state = FinalState(runs=(left,), tables={}, dead_letters=(letter,), queues={})
    assert not _complain_of_failed([], state, ("o1=charge",), ())
    assert _complain_of_failed([], state, ("o1=undo",), ())


def test_an_error_without_a_type_is_excused_by_the_status(capsys: pytest.CaptureFixture[str]) -> None:
    left = RunLeft(flow="f", object_id="o1", request_id="r", status="FAILED", stage="s", hop=1, epoch=1, error=None)
    state = FinalState(runs=(left,), tables={}, dead_letters=(), queues={})
    assert not _complain_of_failed([], state, ("o1=FAILED",), ())


@pytest.mark.parametrize(
    ("said", "name"), [("o1", "o1"), ("o1=Reject", "o1"), ("a=b=Reject", "a=b"), ("abc=", "abc="), ("f/s=x", "f/s")]
)
def test_an_exploration_goes_by_the_object_alone(said: str, name: str) -> None:
    assert without_reason(said) == name


EXPECTED = sorted((ROOT / "samples").rglob("expected.toml"))


def _with_its_time(expected: Path) -> Any:
    """The folder as a parameter, with its mark."""
    folder = expected.parent.name
    asks_many = pytest.mark.long("each of its samples asks hundreds, as those of other folders ask one")
    return pytest.param(expected, id=folder, marks=[asks_many] if folder == "nightly_recount" else [])


@pytest.mark.proof("replays each sample that is meant to fail by itself, on moto")
@pytest.mark.parametrize("expected", [_with_its_time(file) for file in EXPECTED])
def test_samples_fail_as_it_is_written_beside_them(expected: Path, tmp_path: Path) -> None:
    for name, failing in tomllib.loads(expected.read_text())["failing"].items():
        alone = tmp_path / name
        alone.write_bytes((expected.parent / name).read_bytes())
        result = replay(alone)
        named = re.findall(r"where that is expected: --failing (\S+)", result.stderr)
        assert (result.exit_code, sorted(named)) == (1, sorted(failing)), name


def unread_cart(tmp_path: Path, expected: str = "") -> tuple[str, ...]:
    """The arguments that replay a message which its stage cannot read, and what is expected of it."""
    event = tmp_path / "event.json"
    event.write_text(json.dumps(sqs_event("carts", {"cart": "c1"})))
    if expected:
        (tmp_path / "expected.toml").write_text(expected)
    return str(event), "--flow", "flows.validate_cart.flow:ValidateCart"


@pytest.mark.proof("runs a command over whole flows")
@pytest.mark.parametrize("place", ["event.json", "."])
def test_what_is_meant_to_fail_stands_beside_it(place: str, tmp_path: Path) -> None:
    event, *flow = unread_cart(tmp_path, f'[failing]\n"event.json" = ["{PRICE_CART}", "another"]\n')
    result = replay(tmp_path / place, *flow)
    assert (result.exit_code, result.stderr) == (0, ""), "what fails nowhere may be of another flow"
    search = ("--bound", "0", "--walks", "0", "--seconds", "5")
    (tmp_path / "expected.toml").write_text(f'[failing]\n"event.json" = ["{PRICE_CART}"]\n')
    explored = CliRunner().invoke(main, ["explore", event, *flow, *search])
    assert explored.exit_code == 0, explored.output


@pytest.mark.parametrize(
    ("expected", "problem"),
    [
        ("[failing", "Expected"),
        ("", "write [failing], and below it FILE = [OBJECT, …]"),
        ("[failed]\n", "write [failing], and below it FILE = [OBJECT, …]"),
        ('[failing]\n"event.json" = "c1"\n', "write [failing], and below it FILE = [OBJECT, …]"),
        ('[failing]\n"event.json" = ["c1="]\n', "c1= names no error; write OBJECT=WHY, or OBJECT for any error"),
        ('[failing]\n"event.json" = []\n"events.json" = ["c1"]\n', "events.json is not there"),
    ],
)
def test_an_expectation_that_cannot_be_used_is_refused(expected: str, problem: str, tmp_path: Path) -> None:
    event, *flow = unread_cart(tmp_path)
    (tmp_path / "expected.toml").write_text(expected)
    result = replay(event, *flow)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{tmp_path / 'expected.toml'}: {problem}" in result.stderr


# -- what is replayed -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [{"version": 9}, {"hop": 2, "object": "cart-1001"}], ids=["version", "stage"])
def test_a_record_of_another_release_is_a_failure_unless_it_is_expected(place: dict[str, Any], tmp_path: Path) -> None:
    stage = "validate-cart/price-cart" if "version" in place else "validate-cart/gone"
    attributes = {"flowstage": stage, "uniquerequestid": "r-1", "flowguard": json.dumps(place)}
    file = tmp_path / "other.json"
    file.write_text(
        json.dumps(sqs_event("price-cart", {"cart_id": "cart-1001"}, attributes=attributes, message_id="m-1"))
    )
    carts = ["--flow", "flows.validate_cart.flow:ValidateCart"]
    result = replay(file, *carts)
    assert result.exit_code == 1
    assert "is UNROUTABLE: OtherRelease: " in result.stderr
    assert "--failing m-1=UNROUTABLE" in result.stderr
    assert replay(file, *carts, "--failing", "m-1=UNROUTABLE").exit_code == 0


def test_files_without_a_record_are_an_error(tmp_path: Path) -> None:
    file = tmp_path / "empty.json"
    file.write_text('{"Records": []}')
    result = replay(file)
    assert (result.exit_code, result.stderr) == (2, f"nothing was replayed: there is no record in {file}\n")


NEEDS_AN_EXTRA: Final = "flows.answer_ticket.flow:AnswerTicket"


@pytest.mark.long("replays in one call what the folders of samples are replayed as one by one")
def test_a_directory_is_every_json_below_it_but_for_what_is_bad() -> None:
    flows = [part for name in (*loading.SHIPPED, NEEDS_AN_EXTRA) for part in ("--flow", name)]
    result = replay(ROOT / "samples", *flows)
    assert (result.exit_code, result.stderr.count("is UNROUTABLE: "), len(result.stderr.splitlines())) == (2, 2, 2)
    assert all(part in result.stdout for part in ("cart-1001", "cart-2001", "page/tea"))


@pytest.mark.proof("replays all shapes, on moto")
def test_every_shape_of_envelope_is_taken() -> None:
    fifo = ROOT / "samples" / "envelopes" / "fifo.json"
    others = sorted({*fifo.parent.glob("*.json")} - {fifo})
    for arguments in (others, [fifo, "--flow", "flows.validate_cart.flow:ValidateCart"]):
        result = replay(*arguments)
        assert (result.exit_code, result.stderr) == (0, "")
        assert "broken" not in result.stdout


@pytest.mark.slow("replays flows")
def test_a_dash_is_standard_input() -> None:
    rows, _ = lines("-", stdin=REQUEST.read_text())
    assert len(rows) == 3


@pytest.mark.proof("runs a command over whole flows")
def test_what_was_normalised_is_replayed_like_the_original() -> None:
    normalised = CliRunner().invoke(main, ["normalize", str(REQUEST)]).stdout
    rows, left = lines("-", stdin=normalised)
    assert (rows, left) == lines(REQUEST)


# -- what is done to it -----------------------------------------------------------------------------------------------


@pytest.mark.proof("runs a command over whole flows")
def test_repeat_delivers_each_record_so_often() -> None:
    rows, left = lines(REQUEST, "--repeat", "3")
    assert [row["verdict"] for row in rows[:3]] == ["CLAIMED", "DONE", "DONE"]
    assert left["summary"]["effects"] == 3


@pytest.mark.proof("replays several times, on moto")
def test_shuffle_changes_the_order_and_the_seed_decides_which() -> None:
    once, otherwise = (
        [row["record"] for row in lines(*FEW, "--shuffle", seed)[0] if row["hop"] == 1] for seed in ("1", "2")
    )
    assert once != otherwise


@pytest.fixture(scope="module")
def undisturbed() -> dict[str, Any]:
    """What two requests leave behind where nothing goes wrong."""
    with contextlib.chdir(ROOT):
        return lines(REQUEST, TOPIC)[1]


@pytest.mark.proof("replays a crash, on moto")
@pytest.mark.parametrize(
    "point",
    [
        pytest.param(
            point, marks=[] if point is Point.AFTER_COMMIT else pytest.mark.long("repeats it at another point")
        )
        for point in Point
    ],
)
def test_a_crash_is_marked_and_changes_no_effect(point: Point, undisturbed: dict[str, Any]) -> None:
    rows, left = lines(REQUEST, TOPIC, "--crash", point.value)
    assert [row["crash"] for row in rows].count(point.value) == 6
    assert left["tables"] == undisturbed["tables"]
    assert [run["result"] for run in left["runs"]] == [run["result"] for run in undisturbed["runs"]]
    assert f"died {point.value.replace('-', ' ')}" in replay(REQUEST, "--crash", point.value).stdout


@pytest.mark.proof("two processes that replay with crashes")
def test_equal_arguments_give_equal_bytes_in_another_process_too() -> None:
    command = [sys.executable, "-m", "flowguard.cli", "replay", *map(str, FEW), "--repeat", "2", "--shuffle", "5"]
    command += ["--crash", "after-commit", "--seed", "9"]
    if not (ROOT / "flowguard" / "cli" / "__main__.py").exists():
        command[1:3] = ["-c", "from flowguard.cli import main; main()"]
    once, again = (
        subprocess.run(
            command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    )
    assert once == again
    assert once


# -- flows ------------------------------------------------------------------------------------------------------------


FLOW = """
from flowguard import PER_REQUEST, Done, Flow, Stage

class Echo(Stage[dict], name="echo", inbox="echoes"):
    def handle(self, payload, step):
        step.put("echoes", {"pk": step.request_id, "said": payload["say"]})
        return Done(payload)

class Echoing(Flow, name="echoing", object_id=PER_REQUEST):
    stages = (Echo,)

TABLES = {"echoes": "pk"}
"""


def test_a_flow_of_ones_own_is_found_from_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "echo_flow.py").write_text(FLOW)
    monkeypatch.chdir(tmp_path)
    _, left = lines("-", "--flow", "echo_flow:Echoing", stdin='{"say": "hello"}')
    assert [item["said"] for item in left["tables"]["echoes"]] == ["hello"]


@pytest.mark.parametrize(
    ("flow", "problem"),
    [
        ("nowhere:Flow", "nowhere:Flow: there is no module 'nowhere' here\n"),
        (
            "flows.validate_cart.flow:Nope",
            "flows.validate_cart.flow:Nope: flows.validate_cart.flow has no 'Nope'; its flows: ValidateCart\n",
        ),
    ],
)
def test_a_flow_that_is_not_there_is_an_error_in_a_sentence(flow: str, problem: str) -> None:
    result = replay(REQUEST, "--flow", flow)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", problem)


def test_without_the_shipped_flows_it_says_how_to_name_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "SHIPPED", ("not_here.flow:Shipped",))
    result = replay(REQUEST)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith("run it where the shipped flows are, or name your own with --flow\n")


# -- what cannot be used ----------------------------------------------------------------------------------------------


@pytest.mark.slow("replays flows")
def test_a_bad_record_is_named_and_does_not_stop_the_rest() -> None:
    bad = ROOT / "samples" / "envelopes" / "bad" / "number-that-is-none.json"
    result = replay(bad, REQUEST)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"{bad}: 1902e3d6-fc4e-48a0-acc5-0ba12b882769: messageAttributes.price")
    assert result.stdout.splitlines()[-1].startswith("1 messages in")


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [("missing.json", None, "No such file"), ("empty.json", "", "empty"), ("cut.json", '{"a": ', "not JSON")],
)
def test_a_file_that_cannot_be_used_is_named(name: str, content: str | None, problem: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    result = replay(tmp_path / name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"{tmp_path / name}: {problem}")


def test_the_help_needs_no_engine() -> None:
    code = "import sys; from flowguard.cli import main; main(['--help'], standalone_mode=False); "
    code += "sys.exit(bool({'boto3', 'moto', 'rich'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False).returncode == 0


@pytest.mark.proof("runs a command over whole flows")
@pytest.mark.parametrize(
    ("module", "extra"),
    [("rich", "flowguard-aws[cli,local]"), ("moto", "flowguard-aws[local]"), ("time_machine", "flowguard-aws[local]")],
)
def test_a_missing_extra_is_named(module: str, extra: str) -> None:
    code = f"import sys; sys.modules[{module!r}] = None; from flowguard.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "replay", str(REQUEST)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert f"pip install '{extra}'" in done.stderr
    assert "Traceback" not in done.stderr


# -- runs that fail ----------------------------------------------------------------------------------------------------

DECLINED = ROOT / "samples" / "failures" / "03-declined.json"


@pytest.mark.proof("runs a command over whole flows")
def test_a_run_that_fails_is_named_and_found_unless_it_is_expected(tmp_path: Path) -> None:
    declined = tmp_path / "declined.json"
    declined.write_bytes(DECLINED.read_bytes())
    unexpected = replay(declined)
    assert unexpected.exit_code == 1
    told = (
        "take-payment of pay-3003 FAILED: Reject: the card was declined: insufficient funds; where that is expected: "
    )
    assert unexpected.stderr == f"{told}--failing pay-3003=Reject\n"
    for failing in ("pay-3003", "pay-3003=Reject", "pay-3003=charge-card"):
        expected = replay(declined, "--failing", failing)
        assert (expected.exit_code, expected.stderr) == (0, ""), failing
        assert expected.stdout == unexpected.stdout
    another = replay(declined, "--failing", "pay-3003=KeyError")
    assert another.exit_code == 1
    assert "--failing pay-3003=KeyError: none of its runs failed so" in another.stderr


def test_an_expected_failure_without_its_reason_is_refused() -> None:
    result = replay(DECLINED, "--failing", "pay-3003=")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "pay-3003= names no error; write pay-3003=WHY, its type, stage or status, or pay-3003 for" in result.stderr


ASKS = """
from datetime import timedelta
from pydantic import BaseModel
from flowguard import Done, Flow, Stage

class Claim(BaseModel):
    claim_id: str

class Asked(BaseModel):
    fraud: Claim

class Check(Stage[Claim], name="check"):
    def handle(self, claim, step):
        return Done({"claim_id": claim.claim_id})

class FraudCheck(Flow, name="fraud-check", object_id="claim_id"):
    stages = (Check,)

class Begin(Stage[Claim], name="begin", then="decide"):
    def handle(self, claim, step):
        return Decide.when_all(fraud=step.ask(FraudCheck, claim), within=timedelta(hours=1))

class Decide(Stage[Asked], name="decide"):
    def handle(self, asked, step):
        return Done()

class Claims(Flow, name="claims", object_id="claim_id"):
    stages = (Begin, Decide)
"""


@pytest.mark.slow("replays flows")
def test_a_flow_that_is_asked_and_not_replayed_is_named_with_its_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "asking_flow.py").write_text(ASKS)
    (tmp_path / "claim.json").write_text(json.dumps(sqs_event("claims", {"claim_id": "c1"})))
    monkeypatch.chdir(tmp_path)
    alone = replay("claim.json", "--flow", "asking_flow:Claims")
    why = "fraud-check/check was asked and has not answered, for fraud-check is not replayed: its request waits"
    cure = f"{why} in queue fraud-check; add --flow asking_flow:FraudCheck\n"
    assert (alone.exit_code, alone.stderr.endswith(cure)) == (1, True), alone.stderr
    excused = replay("claim.json", "--flow", "asking_flow:Claims", "--failing", "c1=RunFailed")
    assert (excused.exit_code, excused.stderr) == (0, "")
    both = replay("claim.json", "--flow", "asking_flow:Claims", "--flow", "asking_flow:FraudCheck")
    assert (both.exit_code, both.stderr) == (0, "")


def test_a_flow_that_no_module_has_is_named_all_the_same() -> None:
    assert _of_unanswered(Unanswered("rates", "look-up", "rates")).endswith("in queue rates; add --flow MODULE:FLOW")


@pytest.mark.slow("replays flows")
def test_a_run_that_works_is_not_to_be_expected_to_fail() -> None:
    result = replay(REQUEST, "--failing", "cart-2001")
    assert (result.exit_code, result.stderr) == (1, "--failing cart-2001: none of its runs failed\n")


CALLS_OUT = """
import socket
from flowguard import Done, Flow, RetryPolicy, Stage
from pydantic import BaseModel

class Order(BaseModel):
    order_id: str

class Pay(Stage[Order], name="pay", retry=RetryPolicy(attempts=1)):
    def handle(self, order, step):
        socket.create_connection(("gateway.invalid", 443), timeout=1).close()
        return Done()

class Paid(Flow, name="paid", object_id="order_id"):
    stages = (Pay,)
"""


@pytest.fixture
def paid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments that replay a run which calls a gateway."""
    (tmp_path / "paid_orders.py").write_text(CALLS_OUT)
    (tmp_path / "order.json").write_text('{"order_id": "o1"}')
    monkeypatch.syspath_prepend(tmp_path)
    return [str(tmp_path / "order.json"), "--flow", "paid_orders:Paid", "--failing", "o1"]


def test_nothing_goes_out_over_the_network_unless_it_is_allowed(paid: list[str]) -> None:
    result = replay(*paid)
    assert result.exit_code == 2
    assert "goes out to gateway.invalid, which a replay does not" in result.stderr
    assert "allow it: --network gateway.invalid" in result.stderr
    assert "NetworkRefused" in result.stdout


@pytest.mark.parametrize("option", ["--network", "--allow-network"])
def test_a_host_that_is_allowed_is_asked(paid: list[str], option: str) -> None:
    result = replay(*paid, option, "gateway.invalid")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "gaierror" in result.stdout, "there is no such host"


SEES_FRAUD = CALLS_OUT.replace(
    "import socket", "import boto3\n\nSTUBS = {'frauddetector.GetDetectors': {'detectors': []}}"
)


def test_a_stub_of_the_module_answers_for_a_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call = "assert boto3.client('frauddetector').get_detectors()['detectors'] == []"
    source = SEES_FRAUD.replace('socket.create_connection(("gateway.invalid", 443), timeout=1).close()', call)
    (tmp_path / "seen_orders.py").write_text(source)
    (tmp_path / "order.json").write_text('{"order_id": "o1"}')
    monkeypatch.syspath_prepend(tmp_path)
    result = replay(str(tmp_path / "order.json"), "--flow", "seen_orders:Paid")
    assert (result.exit_code, result.stderr) == (0, "")


def test_a_record_that_no_stage_takes_is_named_and_is_no_success(tmp_path: Path) -> None:
    event = json.loads(REQUEST.read_text())
    event["Records"][0]["messageAttributes"]["flowstage"] = {"dataType": "String", "stringValue": "tariffs/price"}
    (tmp_path / "other.json").write_text(json.dumps(event))
    result = replay(tmp_path / "other.json", "--flow", "flows.validate_cart.flow:ValidateCart")
    assert result.exit_code == 2
    assert "is UNROUTABLE: " in result.stderr


# -- a bad day --------------------------------------------------------------------------------------------------------


@pytest.mark.proof("runs a command over whole flows")
def test_an_hour_without_the_database_ends_as_a_good_day_does() -> None:
    good, left = lines(REQUEST)
    bad, later = lines(REQUEST, "--weather", "dynamodb-away=60m")
    assert len(bad) > len(good) + 10
    assert max(row["after"] for row in bad) > 60 * 60_000
    assert [run["status"] for run in later["runs"]] == [run["status"] for run in left["runs"]] == ["COMPLETED"]
    assert later["queues"] == left["queues"]


def test_what_is_no_weather_is_an_error_that_says_what_there_is() -> None:
    result = replay(REQUEST, "--weather", "rain")
    assert result.exit_code == 2
    assert "'rain' is none; write NAME[=SPAN][@SPAN], such as 60m, with dynamodb-away" in result.stderr


GOES_OUT_AT_ONCE = (
    "import socket\ntry:\n    socket.getaddrinfo('config.invalid', 443)\nexcept OSError:\n    pass\n" + CALLS_OUT
)


@pytest.mark.parametrize("command", ["replay", "explore"])
def test_nothing_goes_out_when_a_module_is_imported(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"at_once_{command}.py").write_text(GOES_OUT_AT_ONCE)
    (tmp_path / "order.json").write_text('{"order_id": "o1"}')
    monkeypatch.syspath_prepend(tmp_path)
    result = CliRunner().invoke(main, [command, str(tmp_path / "order.json"), "--flow", f"at_once_{command}:Paid"])
    assert result.exit_code == 2
    assert f"at_once_{command}.py:3: goes out to config.invalid when it is imported" in result.stderr
    assert "allow it: --network config.invalid" in result.stderr
    assert result.stdout == ""


PRICED = """
from flowguard import Done, Flow, Stage
from pydantic import BaseModel

TABLES = {"prices": "sku"}
ITEMS = {"prices": [{"sku": f"sku-{number:03}", "price": 1} for number in range(200)]}

class Order(BaseModel):
    order_id: str

class Price(Stage[Order], name="price", inbox="to-price"):
    def handle(self, order, step):
        step.put("prices", {"sku": "sku-007", "price": 2})
        return Done()

class Priced(Flow, name="priced", object_id="order_id"):
    stages = (Price,)
"""

RECEIVED = {"MessageId": "m-1", "Body": '{"order_id": "o1"}'}


@pytest.fixture
def priced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "priced_orders.py").write_text(PRICED)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "order.json"


@pytest.mark.slow("replays flows")
def test_of_tables_that_items_lay_in_those_are_shown_that_were_changed(priced: Path) -> None:
    priced.write_text('{"order_id": "o1"}')
    result = replay(str(priced), "--flow", "priced_orders:Priced")
    assert result.exit_code == 0
    assert 'table prices: 1 of 200 items\n{"price": 2, "sku": "sku-007"}\n' in result.stdout
    assert "sku-008" not in result.stdout
    assert "sku-008" in replay(str(priced), "--flow", "priced_orders:Priced", "--json").stdout


@pytest.mark.slow("replays flows")
@pytest.mark.parametrize("event", [RECEIVED, {"Messages": [RECEIVED]}, [RECEIVED]], ids=["alone", "answer", "list"])
def test_what_boto3_has_received_is_replayed_without_its_receipt(priced: Path, event: Any) -> None:
    priced.write_text(json.dumps(event))
    result = replay(str(priced), "--flow", "priced_orders:Priced")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "1 executions" in result.stdout


@pytest.mark.slow("replays flows")
def test_a_payload_of_like_names_stays_a_payload(priced: Path) -> None:
    priced.write_text(json.dumps({**RECEIVED, "order_id": "o1"}))
    assert "1 executions" in replay(str(priced), "--flow", "priced_orders:Priced").stdout
